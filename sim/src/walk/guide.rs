//! A cluster's run along one path of its tree: threads pause before each step that is a choice, and the
//! tree says who goes.
//!
//! A step is an instruction that other threads may notice, with all that its thread does until its next
//! such instruction. Instructions of a thread alone and meetings of a warp are no choices, and run at
//! once. So do ordinary loads and stores, until a thread is seen to race with one: then its line becomes
//! a choice, and the walk begins anew. A blocking wait can go when its phase is complete. A poll that has
//! seen a phase in progress looks again when the phase is complete, or when nobody else can go.

use super::order::{Key, Order};
use super::tree::{Agent, Foot, Outcome, Tree, Walk, What};
use crate::barrier::mbarrier::MBarrier;
use crate::barrier::mbarriers::{Bar, Want};
use crate::schedule::plan::{self, Home, Place};
use crate::types::loc::Loc;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Space numbers of memory, for [`Order::touch`]: CTAs have their ranks.
pub(crate) const GLOBAL: u64 = 255;
/// Bytes of a part of memory, for [`Order::touch`].
const PART: u64 = 16;
/// In [`GLOBAL`], where no allocation lies: the clusters of the grid that have not started.
pub(crate) const LAUNCHES: u64 = 0;

/// In [`GLOBAL`], where no allocation lies: whether a CTA has seen a request of launch control fail.
pub(crate) fn failed_request(cta: usize) -> u64 {
    PART * (1 + 2 * cta as u64)
}

/// In [`GLOBAL`], where no allocation lies: which columns of a CTA's tensor memory are allocated.
pub(crate) fn columns(cta: usize) -> u64 {
    PART * (2 + 2 * cta as u64)
}

/// Rounds in which nobody can go but pollers, after which a loop counts as stuck.
const PATIENCE: u32 = 4;
/// Loads in turn by one thread after which they must be choices: it waits for somebody.
const SPIN: u32 = 256;
/// Equal loads in turn after which a thread waits for a change: in a polling loop, and elsewhere.
const SAME: [u32; 2] = [1, 4];

/// Where a thread has paused.
#[derive(Clone, Copy)]
struct Paused {
    foot: Foot,
    want: Option<(Want, bool)>,
    loc: Option<Loc>,
}

/// The last load of a thread.
#[derive(Clone, Copy)]
struct Seen {
    loc: Loc,
    space: u64,
    addr: u64,
    version: u32,
    times: u32,
}

/// The guide of a run.
pub(crate) struct Guide {
    tree: Tree,
    pub order: Order,
    /// The CTA of each thread.
    home_of: Vec<usize>,
    paused: Vec<Option<Paused>>,
    /// Those of them that are asked whether they can go, in order; and by mbarrier those that wait for
    /// its phase, and are asked when it completes.
    asked: BTreeSet<u32>,
    waiting: BTreeMap<usize, Vec<u32>>,
    /// Polls that have seen a phase in progress: barrier and phase.
    failed: Vec<Vec<(usize, u32)>>,
    seen: Vec<Option<Seen>>,
    looks: u32,
    /// Per thread: the number of its latest copy, and that of its `cp.async` queue's agent.
    copies: Vec<u32>,
    queues: Vec<Option<u32>>,
    outcome: Outcome,
    fruitless: u32,
    /// Nothing can happen any more: those who wait go to sleep, for the report.
    last: bool,
    home: Option<Home>,
    place: Place,
}

impl Drop for Guide {
    /// The tree goes back to where it came from, whichever way the run ended.
    fn drop(&mut self) {
        self.tree.done(std::mem::take(&mut self.outcome));
        if let Some(home) = &self.home {
            home.put(self.place, std::mem::replace(&mut self.tree, Tree::new(Walk::Replay)));
        }
    }
}

/// Instructions that are always choices.
fn notable(name: &str) -> bool {
    name.starts_with("mbarrier") || name == "ld.acquire.gpu"
}

/// Instructions of a warp or warp group, which nobody else notices.
fn of_a_warp(name: &str) -> bool {
    ["bar.warp", "elect", "shfl", "vote", "wgmma", "setmaxnreg", "trap"]
        .iter()
        .any(|p| name.starts_with(p))
}

/// Loads, and atomics, that a loop may repeat until something changes.
pub(crate) fn looks(name: &str) -> bool {
    name.starts_with("ld.") || name.starts_with("atom.")
}

impl Guide {
    /// `threads`: the CTA of each thread.
    pub fn new(
        tree: Tree,
        threads: &[usize],
        ctas: usize,
        home: Option<Home>,
        place: Place,
    ) -> Self {
        let n = threads.len();
        // With peers, when a CTA starts matters.
        let start = |&cta: &usize| {
            let foot = Foot::Start { cta };
            (ctas > 1).then_some(Paused { foot, want: None, loc: None })
        };
        Self {
            asked: (0..if ctas > 1 { n as u32 } else { 0 }).collect(),
            waiting: BTreeMap::new(),
            tree,
            order: Order::new(n as u32, ctas),
            home_of: threads.to_vec(),
            paused: threads.iter().map(start).collect(),
            failed: vec![Vec::new(); n],
            seen: vec![None; n],
            looks: 0,
            copies: vec![0; n],
            queues: vec![None; n],
            outcome: Outcome::default(),
            fruitless: 0,
            last: false,
            home,
            place,
        }
    }

    /// The path so far, as [`crate::Config::replay`] reads it.
    pub fn written(&self) -> String {
        plan::write([(self.place, &self.tree)])
    }

    /// Whether the thread has paused before its next instruction.
    pub fn pauses(&self, t: u32) -> bool {
        self.paused[t as usize].is_some()
    }

    /// A copy of a thread: gives its agent.
    pub fn copy(&mut self, t: u32, queued: bool) -> u32 {
        let slot = t as usize;
        if queued {
            if let Some(agent) = self.queues[slot] {
                // It lands behind its predecessors, and knows its issue.
                self.order.pass_on(agent);
                return agent;
            }
            let agent = self.order.fork(Agent::queue(t));
            self.queues[slot] = Some(agent);
            return agent;
        }
        let nth = self.copies[slot];
        self.copies[slot] += 1;
        self.order.fork(Agent::copy(t, nth))
    }

    /// A poll saw its phase in progress.
    pub fn poll_failed(&mut self, t: u32, bar: usize, phase: u32) -> bool {
        if self.last {
            return false;
        }
        let failed = &mut self.failed[t as usize];
        failed.retain(|f| f.0 != bar);
        failed.push((bar, phase));
        true
    }

    /// The step in progress arrives at a barrier.
    pub fn arrive(&mut self, key: Key, ordered: bool, completed: bool) {
        self.outcome.completed |= completed;
        if let (Key::Barrier(bar), true) = (key, completed) {
            self.ask_again(bar);
        }
        self.order.arrive(&mut self.tree, key, ordered, completed);
    }

    /// The step in progress looks at the phase of an mbarrier.
    pub fn look(&mut self, t: u32, bar: usize, phase: u32, waited: bool) {
        // A poll that looks again had to wait for the phase that it had seen.
        let again = (bar, phase.wrapping_sub(1));
        let waited = waited || self.failed[t as usize].contains(&again);
        self.order.look(&mut self.tree, Key::Barrier(bar), waited);
    }

    /// The step in progress has waited for the cluster's barrier.
    pub fn look_cluster(&mut self) {
        self.order.look(&mut self.tree, Key::Cluster, true);
    }

    /// The step in progress initialises an mbarrier, or takes it away.
    pub fn init(&mut self, bar: usize) {
        self.ask_again(bar);
        self.order.init(&mut self.tree, Key::Barrier(bar));
    }

    /// The step in progress needs the CTA to run.
    pub fn visit(&mut self, cta: usize) {
        let from = self.order.current().and_then(|agent| self.home_of.get(agent as usize).copied());
        self.order.visit(&mut self.tree, from, cta);
    }

    /// A thread of the CTA returns; `last`: the CTA ends with it.
    pub fn exit(&mut self, cta: usize, last: bool) {
        self.outcome.exited = true;
        self.order.exit(&mut self.tree, cta, last);
    }

    /// The step in progress reads or writes memory.
    pub fn touch(&mut self, space: u64, addr: u64, len: u64, write: bool) {
        self.order.touch(&mut self.tree, space, addr, len, write);
    }

    /// The step in progress waits for the wgmmas of the warp group that begins with a thread, and ends their
    /// reads of these parts.
    pub fn retire(&mut self, first: u32, cta: usize, parts: &[u32]) {
        self.order.retire(&mut self.tree, first, cta, parts);
    }

    /// A thread's ordinary load, which may be a loop that waits for somebody.
    pub fn load(&mut self, t: u32, loc: Loc, space: u64, addr: u64, len: u64) {
        self.touch(space, addr, len, false);
        let version = self.order.version(space, addr);
        let seen = &mut self.seen[t as usize];
        let times = match seen {
            Some(s) if s.loc == loc && (s.space, s.addr, s.version) == (space, addr, version) => {
                s.times + 1
            }
            _ => 1,
        };
        *seen = Some(Seen { loc, space, addr, version, times });
        self.looks += 1;
        if self.looks > SPIN {
            self.tree.split(loc);
        }
    }

    /// Whether a thread pauses before an instruction, for somebody else may go first.
    pub fn stops_at(&mut self, name: &str, loc: Loc) -> bool {
        self.order.at_line(loc);
        let full = self.tree.full() && !of_a_warp(name);
        full || notable(name) || self.tree.is_split(loc)
    }

    /// The thread pauses. `want`: what a wait is for, and whether it is a poll.
    pub fn pause(&mut self, t: u32, foot: Foot, loc: Loc, want: Option<(Want, bool)>) {
        self.paused[t as usize] = Some(Paused { foot, want, loc: Some(loc) });
        self.asked.insert(t);
    }

    /// Those who wait for a phase of an mbarrier may be able to go.
    fn ask_again(&mut self, bar: usize) {
        self.asked.extend(self.waiting.remove(&bar).into_iter().flatten());
    }

    /// Whether a poll need not sleep, for its thread has paused already.
    pub fn pauses_polls(&self) -> bool {
        !self.last
    }

    /// The first of the threads that runs without a choice.
    pub fn free(&self, ready: &[u32]) -> Option<u32> {
        ready.iter().copied().filter(|&t| self.paused[t as usize].is_none()).min()
    }

    /// A thread goes on; `starts`: with its first instruction, in this CTA.
    pub fn go(&mut self, t: u32, node: Option<usize>, starts: Option<usize>) {
        let paused = self.paused[t as usize].take();
        self.asked.remove(&t);
        self.looks = 0;
        self.order.begin(t, node, paused.and_then(|p| p.loc));
        if let Some(cta) = starts {
            self.order.start(cta);
            self.order.settle();
        }
    }

    /// Who can go, threads first. `op_of` is the instruction at which a thread has paused, `bar_at`
    /// the mbarrier at an address; of each copy in flight there are its agent and what it works on.
    pub fn enabled<'a>(
        &mut self,
        op_of: impl Fn(u32) -> &'static str,
        bar_at: impl Fn(usize, u32) -> Option<(usize, &'a MBarrier)>,
        copies: impl Iterator<Item = (u32, Foot)>,
    ) -> Vec<(Agent, Foot, Step)> {
        let mut all = Vec::with_capacity(self.asked.len());
        // Threads in turn wait for one barrier.
        let found = Cell::new(None);
        let bar_at = |cta, addr| match found.get() {
            Some((at, bar)) if at == (cta, addr) => bar,
            _ => {
                let bar = bar_at(cta, addr);
                found.set(Some(((cta, addr), bar)));
                bar
            }
        };
        let mut waits = Vec::new();
        for &t in &self.asked {
            let Some(p) = &self.paused[t as usize] else { continue };
            match self.can_go(t, p, || op_of(t), bar_at) {
                Can::Go => all.push((Agent::thread(t), p.foot, Step::Thread(t))),
                Can::Not => {}
                Can::WaitFor(bar) => waits.push((t, bar)),
            }
        }
        for (t, bar) in waits {
            self.asked.remove(&t);
            self.waiting.entry(bar).or_default().push(t);
        }
        let threads = all.len();
        for (i, (agent, foot)) in copies.enumerate() {
            let agent = self.order.name(agent);
            // Of copies that land in their order only the first can.
            if all[threads..].iter().all(|a| a.0 != agent) {
                all.push((agent, foot, Step::Copy(i)));
            }
        }
        // The copies lie in no order that would be the same in another run.
        all[threads..].sort_by_key(|a| a.0);
        all
    }

    fn can_go<'a>(
        &self,
        t: u32,
        paused: &Paused,
        op: impl FnOnce() -> &'static str,
        bar_at: impl Fn(usize, u32) -> Option<(usize, &'a MBarrier)>,
    ) -> Can {
        if self.last {
            return Can::Go;
        }
        let go = |can: bool| if can { Can::Go } else { Can::Not };
        let Some((want, poll)) = paused.want else {
            return match (paused.loc, self.seen[t as usize]) {
                (Some(loc), Some(seen)) if loc == seen.loc => {
                    let op = op();
                    let patience = SAME[usize::from(op != "ld.acquire.gpu")];
                    go(!looks(op)
                        || seen.times < patience
                        || self.order.version(seen.space, seen.addr) != seen.version)
                }
                _ => Can::Go,
            };
        };
        let Foot::Barrier { cta, addr, .. } = paused.foot else { return Can::Go };
        // What is no barrier can be looked at: that is a finding.
        let Some((bar, state)) = bar_at(cta, addr) else { return Can::Go };
        if poll {
            return go(!self.failed[t as usize].contains(&(bar, state.phase)));
        }
        if want.done(state) { Can::Go } else { Can::WaitFor(bar) }
    }

    /// Chooses one of those who can go: gives its place, and the node of the choice.
    pub fn choose(&mut self, enabled: &[(Agent, Foot, Step)]) -> (usize, usize) {
        self.tree.done(std::mem::take(&mut self.outcome));
        let node = self.tree.depth();
        (self.tree.choose(enabled), node)
    }

    /// A phase is about to complete: who could pass its wait, and then can't, is lapped.
    pub fn lapped(&self, bar: &Bar) -> Option<u32> {
        let waits = |p: &Paused| match (p.want, p.foot) {
            (Some((want @ Want::Parity(0..=1), false)), Foot::Barrier { cta, addr, .. }) => {
                // The phase has been counted already.
                (cta, addr) == (bar.cta, bar.addr) && !want.done(&bar.state)
            }
            _ => false,
        };
        self.paused.iter().position(|p| p.as_ref().is_some_and(waits)).map(|t| t as u32)
    }

    /// Nobody can go; `progress`: something has changed since that was last so.
    pub fn idle(&mut self, progress: bool) -> Idle {
        self.fruitless = if progress { 0 } else { self.fruitless + 1 };
        let polls = |(t, p): (usize, &Option<Paused>)| match p {
            Some(Paused { want: Some((_, poll)), .. }) => *poll,
            Some(_) => self.seen[t].is_some(),
            None => false,
        };
        let pollers = self.paused.iter().enumerate().any(polls);
        if pollers && self.fruitless <= PATIENCE {
            // They look again.
            self.failed.iter_mut().for_each(Vec::clear);
            self.seen.fill(None);
            return Idle::Again;
        }
        let Some(t) = self.paused.iter().position(Option::is_some) else { return Idle::Asleep };
        self.last = true;
        self.asked.extend(std::mem::take(&mut self.waiting).into_values().flatten());
        Idle::Go(t as u32)
    }

    /// Another cluster has written to memory that threads poll: the walk goes on.
    pub fn resume(&mut self) {
        self.last = false;
        self.fruitless = 0;
    }
}

/// Whether a thread that has paused can go.
enum Can {
    Go,
    Not,
    /// Not before a phase of this mbarrier completes.
    WaitFor(usize),
}

/// A step that can be taken.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    Thread(u32),
    /// A place among the copies in flight.
    Copy(usize),
}

/// What follows when nobody can go.
pub(crate) enum Idle {
    /// The pollers look again.
    Again,
    /// This thread, which has paused, goes to sleep for the report.
    Go(u32),
    /// All sleep.
    Asleep,
}

/// What an instruction works on: `at` is the place of the mbarrier that it names, if it does.
pub(crate) fn foot(name: &str, at: Option<(usize, u32)>) -> Foot {
    if !name.starts_with("mbarrier") {
        let memory = ["ld.", "st.", "atom.", "red."].iter().any(|p| name.starts_with(p));
        return if memory { Foot::Memory } else { Foot::Other };
    }
    let Some((cta, addr)) = at else { return Foot::Other };
    let what = match name {
        "mbarrier.arrive" | "mbarrier.arrive.expect_tx" | "mbarrier.complete_tx" => What::Arrive,
        "mbarrier.test_wait" | "mbarrier.try_wait" | "mbarrier wait" => What::Look,
        _ => What::Ordered,
    };
    Foot::Barrier { cta, addr, what }
}
