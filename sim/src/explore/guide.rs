//! A cluster's run along one path of its tree: threads pause before each step that is a choice, and
//! the tree says who goes.
//!
//! A step is an instruction that others may notice, with all that its thread does until its next
//! such instruction. What is no choice runs at once: instructions of a thread alone, meetings of a
//! warp, and ordinary loads and stores as long as nobody was seen to race with them (then their
//! lines become choices, and the walk begins anew). Blocking waits can go when their phase is
//! complete. A poll that has seen a phase in progress looks again when the phase is complete, or when
//! nobody else can go.

use crate::Rule;
use crate::barriers::Want;
use crate::bulk::{Kind, Sink};
use crate::cluster::{Cluster, Next};
use crate::explore::order::{Key, Order};
use crate::explore::schedule::{self, Home, Place};
use crate::explore::tree::{Agent, Foot, Outcome, Tree, Walk, What};
use crate::fault::Fault;
use crate::thread::{Loc, Status};

/// Space numbers of memory, for [`Order::touch`]: CTAs have their ranks.
pub(crate) const GLOBAL: u64 = 255;
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

fn ordinary_load(name: &str) -> bool {
    name.starts_with("ld.")
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
        schedule::write([(self.place, &self.tree)])
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
            let agent = self.order.fork(Agent::copy(t, u32::MAX >> 1));
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

    pub fn arrive(&mut self, key: Key, ordered: bool, completed: bool) {
        self.outcome.completed |= completed;
        self.order.arrive(&mut self.tree, key, ordered, completed);
    }
    pub fn look(&mut self, t: u32, bar: usize, phase: u32, waited: bool) {
        // A poll that looks again had to wait for the phase that it had seen.
        let again = (bar, phase.wrapping_sub(1));
        let waited = waited || self.failed[t as usize].contains(&again);
        self.order.look(&mut self.tree, Key::Barrier(bar), waited);
    }
    pub fn look_cluster(&mut self) {
        self.order.look(&mut self.tree, Key::Cluster, true);
    }
    pub fn init(&mut self, bar: usize) {
        self.order.init(&mut self.tree, Key::Barrier(bar));
    }
    /// The step in progress needs the CTA to run.
    pub fn visit(&mut self, cta: usize) {
        let from = self.order.current().and_then(|agent| self.home_of.get(agent as usize).copied());
        self.order.visit(&mut self.tree, from, cta);
    }
    pub fn exit(&mut self, cta: usize, last: bool) {
        self.outcome.exited = true;
        self.order.exit(&mut self.tree, cta, last);
    }
    pub fn touch(&mut self, space: u64, addr: u64, len: u64, write: bool) {
        self.order.touch(&mut self.tree, space, addr, len, write);
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
}

impl Cluster {
    /// Before an instruction: whether its thread pauses, for somebody else may go first.
    pub fn pauses(
        &mut self,
        name: &'static str,
        arg: u32,
        loc: Loc,
        want: Option<(Want, bool)>,
    ) -> bool {
        let t = self.current;
        let Some(guide) = &mut self.guide else { return false };
        guide.order.at_line(loc);
        let full = guide.tree.full() && !of_a_warp(name);
        if !(full || notable(name) || guide.tree.is_split(loc)) {
            return false;
        }
        let foot = self.foot(t, name, arg);
        let thread = &mut self.threads[t as usize];
        (thread.loc, thread.op, thread.status) = (Some(loc), name, Status::Ready);
        if let Some(guide) = &mut self.guide {
            guide.paused[t as usize] = Some(Paused { foot, want, loc: Some(loc) });
        }
        true
    }

    fn foot(&self, t: u32, name: &str, arg: u32) -> Foot {
        if !name.starts_with("mbarrier") {
            let memory = ["ld.", "st.", "atom.", "red."].iter().any(|p| name.starts_with(p));
            return if memory { Foot::Memory } else { Foot::Other };
        }
        let Ok((cta, addr)) = self.split(t, arg) else { return Foot::Other };
        let what = match name {
            "mbarrier.arrive" | "mbarrier.arrive.expect_tx" | "mbarrier.complete_tx" => {
                What::Arrive
            }
            "mbarrier.test_wait" | "mbarrier.try_wait" | "mbarrier wait" => What::Look,
            _ => What::Ordered,
        };
        Foot::Barrier { cta, addr, what }
    }

    /// Whether a poll need not sleep here: in a guided run it has paused already.
    pub fn paused_here(&self) -> bool {
        self.guide.as_ref().is_some_and(|g| !g.last)
    }

    /// The chosen instruction is executed.
    pub fn executed(&mut self) {
        if let Some(guide) = &mut self.guide {
            guide.order.settle();
        }
    }

    /// What happens next on the path.
    pub fn next_guided(&mut self) -> Next {
        // What is no choice goes first.
        let guide = self.guide.as_ref().expect("a guided run");
        let free = |&&t: &&u32| guide.paused[t as usize].is_none();
        if let Some(&t) = self.sched.ready.iter().filter(free).min() {
            self.sched.ready.retain(|&o| o != t);
            return self.go(t, None);
        }
        let (agents, steps) = self.enabled();
        if agents.is_empty() {
            return self.idle_guided();
        }
        let guide = self.guide.as_mut().expect("a guided run");
        guide.tree.done(std::mem::take(&mut guide.outcome));
        let node = guide.tree.depth();
        match steps[guide.tree.choose(&agents)] {
            Step::Thread(t) => self.go(t, Some(node)),
            Step::Copy(i) => {
                let copy = &self.copies[i];
                guide.order.begin(copy.agent, Some(node), Some(copy.loc));
                self.land(i);
                self.executed();
                Next::Again
            }
        }
    }

    fn go(&mut self, t: u32, node: Option<usize>) -> Next {
        let slot = t as usize;
        let cta = self.threads[slot].cta;
        let guide = self.guide.as_mut().expect("a guided run");
        let paused = guide.paused[slot].take();
        guide.looks = 0;
        guide.order.begin(t, node, paused.and_then(|p| p.loc));
        if self.threads[slot].op == "start" {
            guide.order.start(cta);
            guide.order.settle();
        }
        self.sched.ready.retain(|&o| o != t);
        self.resumed(t)
    }

    /// Who can go, threads first.
    fn enabled(&self) -> (Vec<(Agent, Foot)>, Vec<Step>) {
        let guide = self.guide.as_ref().expect("a guided run");
        let (mut agents, mut steps) = (Vec::new(), Vec::new());
        for (t, paused) in guide.paused.iter().enumerate() {
            if let Some(p) = paused
                && self.can_go(t as u32, p)
            {
                agents.push((Agent::thread(t as u32), p.foot));
                steps.push(Step::Thread(t as u32));
            }
        }
        let threads = agents.len();
        for (i, copy) in self.copies.iter().enumerate() {
            let agent = guide.order.name(copy.agent);
            if agents[threads..].iter().any(|a| a.0 == agent) {
                continue;
            }
            agents.push((agent, self.copy_foot(&copy.kind)));
            steps.push(Step::Copy(i));
        }
        // The copies lie in no order that would be the same in another run.
        let mut order: Vec<usize> = (threads..agents.len()).collect();
        order.sort_by_key(|&i| agents[i].0);
        let rest: Vec<_> = order.iter().map(|&i| (agents[i], steps[i])).collect();
        agents.truncate(threads);
        steps.truncate(threads);
        for (agent, step) in rest {
            agents.push(agent);
            steps.push(step);
        }
        (agents, steps)
    }

    fn copy_foot(&self, kind: &Kind) -> Foot {
        match kind {
            Kind::TensorLoad { to, .. } | Kind::RunLoad { to, .. } => {
                Foot::Load { cta: to.cta, addr: self.bars[to.bar].addr }
            }
            Kind::StoreWrite { sink: Sink::Tensor { .. } | Sink::Run { .. }, .. } => Foot::Memory,
            Kind::Peer { .. } | Kind::StoreRead { .. } | Kind::CpAsync => Foot::Other,
        }
    }

    fn can_go(&self, t: u32, paused: &Paused) -> bool {
        let guide = self.guide.as_ref().expect("a guided run");
        if guide.last {
            return true;
        }
        let Some((want, poll)) = paused.want else {
            return match (paused.loc, guide.seen[t as usize]) {
                (Some(loc), Some(seen)) if loc == seen.loc => {
                    let op = self.threads[t as usize].op;
                    let patience = SAME[usize::from(op != "ld.acquire.gpu")];
                    !ordinary_load(op)
                        || seen.times < patience
                        || guide.order.version(seen.space, seen.addr) != seen.version
                }
                _ => true,
            };
        };
        let Foot::Barrier { cta, addr, .. } = paused.foot else { return true };
        // What is no barrier can be looked at: that is a finding.
        let Ok(bar) = self.bar_at((cta, addr)) else { return true };
        let state = &self.bars[bar].state;
        if poll {
            return !guide.failed[t as usize].contains(&(bar, state.phase));
        }
        want.done(state)
    }

    /// A phase is about to complete: who could pass its wait, and then can't, is lapped.
    pub fn lapped(&self, bar: usize) -> Option<u32> {
        let guide = self.guide.as_ref()?;
        let b = &self.bars[bar];
        let waits = |p: &Paused| match (p.want, p.foot) {
            (Some((want @ Want::Parity(0..=1), false)), Foot::Barrier { cta, addr, .. }) => {
                // The phase has been counted already.
                (cta, addr) == (b.cta, b.addr) && !want.done(&b.state)
            }
            _ => false,
        };
        guide.paused.iter().position(|p| p.as_ref().is_some_and(waits)).map(|t| t as u32)
    }

    fn idle_guided(&mut self) -> Next {
        if self.live == 0 {
            return Next::Finished;
        }
        let guide = self.guide.as_mut().expect("a guided run");
        guide.fruitless = if self.sched.progress { 0 } else { guide.fruitless + 1 };
        self.sched.progress = false;
        let polls = |(t, p): (usize, &Option<Paused>)| match p {
            Some(Paused { want: Some((_, poll)), .. }) => *poll,
            Some(_) => guide.seen[t].is_some(),
            None => false,
        };
        let pollers = guide.paused.iter().enumerate().any(polls);
        if pollers && guide.fruitless <= PATIENCE {
            // Nobody else can go: they look again.
            guide.failed.iter_mut().for_each(Vec::clear);
            guide.seen.fill(None);
            return Next::Again;
        }
        let Some(t) = guide.paused.iter().position(Option::is_some) else {
            let next = self.idle();
            if matches!(next, Next::Polling)
                && let Some(guide) = &mut self.guide
            {
                guide.last = false;
                guide.fruitless = 0;
            }
            return next;
        };
        guide.last = true;
        if ordinary_load(self.threads[t].op) && self.threads[t].op != "ld.acquire.gpu" {
            let message = "the same load again and again, and nothing changes";
            self.fail(t as u32, Fault::new(Rule::StepLimit, message));
            return Next::Failed;
        }
        self.go(t as u32, None)
    }
}

/// A step that can be taken.
#[derive(Clone, Copy)]
enum Step {
    Thread(u32),
    /// A place among the copies in flight.
    Copy(usize),
}
