//! Which steps of a run had to come before which, and which pairs could have come in the other
//! order.
//!
//! This is the order of dependence, not that of the machine's memory model: two steps depend on each
//! other if swapping them could change what either does. Arrivals on an mbarrier commute within a phase.
//! A look at a barrier depends on what completed the phase, and on what completes the next one. Accesses
//! to memory depend on overlapping writes. Two dependent steps that nothing else orders are a *race*,
//! and the tree is asked for the other order.

use super::clock::{Clock, Gathered, Learned, Past};
use super::tree::{Agent, Tree};
use crate::types::loc::Loc;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A step: the agent's number in this run, how many it had taken with it, and the node of the tree
/// at which it was chosen, if it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    agent: u32,
    count: u32,
    node: Option<u32>,
    loc: Option<Loc>,
}

/// What threads meet at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    Barrier(usize),
    Named(usize, u32),
    Cluster,
    Warp(usize),
    Lanes(usize, u32),
    Warpgroup(usize, usize),
    /// A thread's copies: the group, and whether it is about writing.
    Group(u32, u64, bool),
    /// The warps of a pair of CTAs that come together.
    Pair(usize),
}

/// Marks a thread's number in [`Key::Group`]: these are copies of its `cp.async` queue.
pub(crate) const QUEUE: u32 = 1 << 31;

/// An mbarrier's or a named barrier's phases.
#[derive(Default)]
struct Phases {
    init: Option<At>,
    /// Everything up to the last completed phase.
    past: Arc<Clock>,
    /// The steps of the phase in progress, and their pasts.
    current: Gathered,
    steps: Vec<At>,
    /// Those of them on which the order within the phase depends.
    ordered: Vec<At>,
    ordered_past: Gathered,
    /// The steps of the phase before, and of the one before that.
    last: Vec<At>,
    older: Vec<At>,
    /// Who has looked in this phase.
    looks: Vec<At>,
    looks_past: Gathered,
}

/// An access to a part of 16 bytes.
struct Access {
    at: At,
    mask: u16,
    write: bool,
    past: Past,
}

/// 16 bytes of memory.
#[derive(Default)]
struct Chunk {
    accesses: Vec<Access>,
    version: u32,
}

struct Event {
    at: At,
    past: Past,
}

/// The order of a run.
#[derive(Default)]
pub(crate) struct Order {
    agents: Vec<Agent>,
    clocks: Vec<Past>,
    /// The steps that were chosen, by depth.
    events: Vec<Event>,
    now: Option<At>,
    /// What the step in progress has passed on, if it has done nothing since.
    told: Option<Arc<Clock>>,
    learned: Learned,
    /// Agents of the warp groups, by their first threads.
    warp_groups: BTreeMap<u32, u32>,
    phases: BTreeMap<Key, Phases>,
    meetings: BTreeMap<Key, Gathered>,
    /// Shared memory by CTA, in parts of 16 bytes; and global memory.
    shared: Vec<Vec<Chunk>>,
    global: HashMap<u64, Chunk>,
    /// Per CTA: starts of its threads, and steps of others that need it to live.
    starts: Vec<Vec<At>>,
    visits: Vec<Vec<At>>,
    ends: Vec<Gathered>,
}

impl Order {
    pub fn new(threads: u32, ctas: usize) -> Self {
        let nothing = Arc::default();
        Self {
            agents: (0..threads).map(Agent::thread).collect(),
            clocks: (0..threads).map(|t| Past::new(t, 0, Arc::clone(&nothing))).collect(),
            shared: (0..ctas).map(|_| Vec::new()).collect(),
            starts: (0..ctas).map(|_| Vec::new()).collect(),
            visits: (0..ctas).map(|_| Vec::new()).collect(),
            ends: (0..ctas).map(|_| Gathered::default()).collect(),
            ..Self::default()
        }
    }

    /// A new agent, whose past is that of the step in progress; gives its number.
    pub fn fork(&mut self, name: Agent) -> u32 {
        let now = self.acts();
        let past = now.map_or_else(Arc::default, |n| self.clocks[n.agent as usize].whole());
        let agent = self.agents.len() as u32;
        self.agents.push(name);
        self.clocks.push(Past::new(agent, 0, past));
        self.released();
        agent
    }

    /// The name of an agent.
    pub fn name(&self, agent: u32) -> Agent {
        self.agents[agent as usize]
    }

    /// All agents, by their numbers.
    pub fn agents(&self) -> &[Agent] {
        &self.agents
    }

    /// The pasts of all agents.
    pub fn clocks(&self) -> &[Past] {
        &self.clocks
    }

    /// The agent of the step in progress.
    pub fn current(&self) -> Option<u32> {
        self.now.map(|now| now.agent)
    }

    /// The step in progress is the past of that agent, too.
    pub fn pass_on(&mut self, agent: u32) {
        let Some(now) = self.now else { return };
        if now.agent == agent {
            return;
        }
        if self.told.is_none() {
            self.told = Some(self.clocks[now.agent as usize].whole());
            self.released();
        }
        if let Some(told) = &self.told {
            self.clocks[agent as usize].learn(told, &mut self.learned);
        }
    }

    /// The step in progress issues a wgmma of the warp group that begins with a thread.
    pub fn issue(&mut self, first: u32) {
        if self.now.is_none() {
            return;
        }
        let agent = *self.warp_groups.entry(first).or_insert_with(|| {
            let agent = self.agents.len() as u32;
            self.agents.push(Agent::warp_group(first));
            self.clocks.push(Past::new(agent, 0, Arc::default()));
            agent
        });
        self.pass_on(agent);
    }

    /// Wgmmas of a warp group end, for the step in progress waits: they have read these parts of a CTA's
    /// memory. That is nothing which the thread itself does: the others that wait for it know it as well.
    pub fn retire(&mut self, tree: &mut Tree, first: u32, cta: usize, parts: &[u32]) {
        let (Some(now), Some(&agent)) = (self.acts(), self.warp_groups.get(&first)) else { return };
        if !parts.is_empty() {
            let count = self.clocks[agent as usize].tick();
            self.now = Some(At { agent, count, ..now });
            for &addr in parts {
                self.touch(tree, cta as u64, u64::from(addr), 16, false);
            }
            self.now = Some(now);
        }
        let past = self.clocks[agent as usize].whole();
        self.clocks[now.agent as usize].learn(&past, &mut self.learned);
    }

    /// The step in progress, which is about to do or to learn something.
    fn acts(&mut self) -> Option<At> {
        self.told = None;
        self.now
    }

    /// What has happened so far is known to others: what follows is another step, unless this one is
    /// a choice, and ends with its instruction.
    fn released(&mut self) {
        if let Some(now) = &mut self.now
            && now.node.is_none()
        {
            now.count = self.clocks[now.agent as usize].tick();
        }
    }

    /// An agent's next step begins.
    pub fn begin(&mut self, agent: u32, node: Option<usize>, loc: Option<Loc>) {
        self.told = None;
        let count = self.clocks[agent as usize].tick();
        let at = At { agent, count, node: node.map(|n| n as u32), loc };
        self.now = Some(at);
        if node.is_some() {
            self.events.push(Event { at, past: self.clocks[agent as usize].clone() });
        }
    }

    /// The line of the instruction in progress.
    pub fn at_line(&mut self, loc: Loc) {
        if let Some(now) = &mut self.now {
            now.loc = Some(loc);
        }
    }

    /// The chosen instruction is done; what follows until the thread pauses is no choice.
    pub fn settle(&mut self) {
        self.told = None;
        let Some(now) = &mut self.now else { return };
        if let (Some(_), Some(event)) = (now.node.take(), self.events.last_mut()) {
            event.past.clone_from(&self.clocks[now.agent as usize]);
            self.released();
        }
    }

    fn knows(past: &Past, at: &At) -> bool {
        past.get(at.agent) >= at.count
    }

    fn has(past: &Clock, at: &At) -> bool {
        past.get(at.agent) >= at.count
    }

    /// Asks the tree for the other order of `first` and the step in progress.
    fn race(&self, tree: &mut Tree, first: &At) {
        let Some(now) = self.now else { return };
        for step in [first, &now] {
            if let (None, Some(loc)) = (step.node, step.loc) {
                tree.split(loc);
            }
        }
        let Some(node) = first.node else { return };
        // What came after `first` without its help, and then the step in progress.
        let after = |e: &&Event| !Self::knows(&e.past, first);
        let last = Event { at: now, past: self.clocks[now.agent as usize].clone() };
        let rest = &self.events[node as usize + 1..];
        // The step in progress stands there already, if it was chosen.
        let rest = match rest.last() {
            Some(e) if e.at.agent == now.agent && e.at.count == now.count => {
                &rest[..rest.len() - 1]
            }
            _ => rest,
        };
        let free: Vec<&Event> = rest.iter().filter(after).chain([&last]).collect();
        let mut seen: Vec<u32> = Vec::new();
        let mut initials = Vec::new();
        for (i, e) in free.iter().enumerate() {
            if seen.contains(&e.at.agent) {
                continue;
            }
            seen.push(e.at.agent);
            if !free[..i].iter().any(|f| Self::knows(&e.past, &f.at)) {
                initials.push(self.agents[e.at.agent as usize]);
            }
        }
        // First the agent of the step itself, if it can be.
        initials.reverse();
        tree.reverse(node as usize, &initials);
    }

    fn races<'a>(&self, tree: &mut Tree, with: impl Iterator<Item = &'a At>) {
        let Some(now) = self.now else { return };
        let past = &self.clocks[now.agent as usize];
        for at in with.filter(|at| at.agent != now.agent && !Self::knows(past, at)) {
            self.race(tree, at);
        }
    }

    /// The step initialises a barrier, or takes it away.
    pub fn init(&mut self, tree: &mut Tree, key: Key) {
        let Some(now) = self.acts() else { return };
        let old = self.phases.remove(&key).unwrap_or_default();
        let all = old.init.iter().chain(&old.steps).chain(&old.last).chain(&old.looks);
        self.races(tree, all);
        let clock = &mut self.clocks[now.agent as usize];
        let mut all = old.current;
        let past = Arc::new(all.take());
        clock.learn(&past, &mut self.learned);
        all = old.looks_past;
        clock.learn(&Arc::new(all.take()), &mut self.learned);
        let past = clock.whole();
        self.phases.insert(key, Phases { init: Some(now), past, ..Phases::default() });
    }

    /// The step arrives at a barrier, or completes bytes there. `ordered`: what it does depends on
    /// the steps of its phase before it.
    pub fn arrive(&mut self, tree: &mut Tree, key: Key, ordered: bool, completed: bool) {
        let Some(now) = self.acts() else { return };
        let mut p = self.phases.remove(&key).unwrap_or_default();
        self.races(tree, p.init.iter().chain(&p.last));
        self.races(tree, if ordered { p.steps.iter() } else { p.ordered.iter() });
        let clock = &mut self.clocks[now.agent as usize];
        clock.learn(&p.past, &mut self.learned);
        if ordered {
            clock.learn(&Arc::new(p.current.clock().clone()), &mut self.learned);
            p.ordered_past.add(clock);
            p.ordered.push(now);
        } else if !p.ordered.is_empty() {
            clock.learn(&Arc::new(p.ordered_past.clock().clone()), &mut self.learned);
        }
        p.current.add(clock);
        p.steps.push(now);
        if completed {
            // Who looked could have looked after this, unless an arrival needed that.
            for at in &p.looks {
                if !Self::has(p.current.clock(), at) {
                    self.race(tree, at);
                }
            }
            let mut past = p.current.take();
            past.join(p.looks_past.clock());
            p.past = Arc::new(past);
            p.older = std::mem::take(&mut p.last);
            p.last = std::mem::take(&mut p.steps);
            p.ordered.clear();
            p.ordered_past = Gathered::default();
            p.looks.clear();
        }
        self.phases.insert(key, p);
        self.released();
    }

    /// The step looks at an mbarrier's phase. `waited`: the phase had to complete first.
    pub fn look(&mut self, tree: &mut Tree, key: Key, waited: bool) {
        let Some(now) = self.acts() else { return };
        let mut p = self.phases.remove(&key).unwrap_or_default();
        // A wait can't come before the phase completes, but it could have come a turn earlier: before
        // the phase of the other parity did.
        self.races(tree, p.init.iter().chain(if waited { &p.older } else { &p.last }));
        let clock = &mut self.clocks[now.agent as usize];
        clock.learn(&p.past, &mut self.learned);
        p.looks_past.add(clock);
        p.looks.push(now);
        self.phases.insert(key, p);
    }

    /// Threads that slept at a barrier know its completed phase.
    pub fn completed_for(&mut self, key: Key, agent: u32) {
        if self.current() == Some(agent) {
            self.told = None;
        }
        if let Some(p) = self.phases.get(&key) {
            self.clocks[agent as usize].learn(&p.past, &mut self.learned);
        }
    }

    /// The step comes to a meeting of which it is not the last.
    pub fn come(&mut self, key: Key) {
        let Some(now) = self.acts() else { return };
        self.meetings.entry(key).or_default().add(&self.clocks[now.agent as usize]);
        self.released();
    }

    /// The meeting is over: the step knows what came to it.
    pub fn meet(&mut self, key: Key) {
        let Some(now) = self.acts() else { return };
        if let Some(mut past) = self.meetings.remove(&key) {
            let past = Arc::new(past.take());
            self.clocks[now.agent as usize].learn(&past, &mut self.learned);
        }
    }

    /// The step comes to a meeting; the last to come knows what all knew.
    pub fn gather(&mut self, key: Key, last: bool) {
        self.come(key);
        if last {
            self.meet(key);
        }
    }

    /// The step reads or writes memory. `space` keeps CTAs and global memory apart.
    pub fn touch(&mut self, tree: &mut Tree, space: u64, addr: u64, len: u64, write: bool) {
        let Some(now) = self.acts() else { return };
        let mut shared = self.shared.get_mut(space as usize).map(std::mem::take);
        let mut global = std::mem::take(&mut self.global);
        let (mut from, to) = (addr, addr + len);
        while from < to {
            let part = from / 16;
            let (first, end) = (part * 16, to.min(part * 16 + 16));
            let mask = (((1u32 << (end - from)) - 1) << (from - first)) as u16;
            let chunk = match &mut shared {
                Some(parts) => {
                    if parts.len() <= part as usize {
                        parts.resize_with(part as usize + 1, Chunk::default);
                    }
                    &mut parts[part as usize]
                }
                None => global.entry(space << 56 | part).or_default(),
            };
            self.touch_chunk(tree, chunk, mask, write, now);
            from = end;
        }
        self.global = global;
        if let Some(parts) = shared {
            self.shared[space as usize] = parts;
        }
    }

    fn touch_chunk(&mut self, tree: &mut Tree, chunk: &mut Chunk, mask: u16, write: bool, now: At) {
        let against = |a: &&Access| a.mask & mask != 0 && (a.write || write);
        self.races(tree, chunk.accesses.iter().filter(against).map(|a| &a.at));
        let clock = &mut self.clocks[now.agent as usize];
        for a in chunk.accesses.iter().filter(against) {
            clock.learn_from(&a.past, &mut self.learned);
        }
        let hidden = |a: &Access| a.mask & !mask == 0;
        if write {
            chunk.version += 1;
            chunk.accesses.retain(|a| !hidden(a));
        } else {
            chunk.accesses.retain(|a| a.write || a.at.agent != now.agent || !hidden(a));
        }
        chunk.accesses.push(Access { at: now, mask, write, past: clock.clone() });
    }

    /// How often the part of memory was written.
    pub fn version(&self, space: u64, addr: u64) -> u32 {
        let part = addr / 16;
        let chunk = match self.shared.get(space as usize) {
            Some(parts) => parts.get(part as usize),
            None => self.global.get(&(space << 56 | part)),
        };
        chunk.map_or(0, |c| c.version)
    }

    /// A thread of the CTA has started.
    pub fn start(&mut self, cta: usize) {
        self.told = None;
        self.starts[cta].extend(self.now);
    }

    /// The thread knows what came of its groups before `end`: of their reads, or of all.
    pub fn groups(&mut self, t: u32, end: u64, read: bool) {
        self.told = None;
        let keys = Key::Group(t, 0, false)..Key::Group(t, end, false);
        for (key, past) in self.meetings.range(keys) {
            if !read || matches!(key, Key::Group(_, _, false)) {
                let past = Arc::new(past.clock().clone());
                self.clocks[(t & !QUEUE) as usize].learn(&past, &mut self.learned);
            }
        }
    }

    /// The step needs the CTA to run; `from` is the step's own.
    pub fn visit(&mut self, tree: &mut Tree, from: Option<usize>, cta: usize) {
        if from == Some(cta) {
            return;
        }
        let Some(now) = self.acts() else { return };
        let past = &self.clocks[now.agent as usize];
        if from.is_some()
            && !self.starts[cta].iter().any(|s| Self::knows(past, s))
            && let Some(first) = self.starts[cta].first()
        {
            self.race(tree, first);
        }
        self.visits[cta].push(now);
    }

    /// A thread of the CTA returns; `last`: the CTA ends with it.
    pub fn exit(&mut self, tree: &mut Tree, cta: usize, last: bool) {
        let Some(now) = self.acts() else { return };
        self.ends[cta].add(&self.clocks[now.agent as usize]);
        self.released();
        if last {
            for at in &self.visits[cta] {
                if !Self::has(self.ends[cta].clock(), at) {
                    self.race(tree, at);
                }
            }
        }
    }
}
