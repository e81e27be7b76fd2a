//! The tree of schedules of one cluster, walked depth first: a path of choices, and at each of them
//! what else must be tried.
//!
//! It uses source sets and sleep sets, as in *Optimal Dynamic Partial Order Reduction* (Abdulla, Aronis,
//! Jonsson, Sagonas, POPL 2014). [`super::order`] finds the pairs of steps that could have come in the
//! other order, and asks for them with [`Tree::reverse`]. A step that was tried at a node sleeps in its
//! siblings' subtrees until a step comes that it does not commute with.

use crate::types::loc::Loc;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A thread, or the copies of a thread, by a name that is the same in every run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) struct Agent(pub u64);

impl Agent {
    pub fn thread(t: u32) -> Self {
        Self(u64::from(t))
    }
    /// The `nth` copy that a thread issued.
    pub fn copy(issuer: u32, nth: u32) -> Self {
        Self(1 << 63 | u64::from(issuer) << 32 | u64::from(nth))
    }
    /// The copies of a thread's `cp.async` queue, which land one after the other.
    pub fn queue(issuer: u32) -> Self {
        Self::copy(issuer, u32::MAX >> 1)
    }
    /// What the wgmmas of a warp group read until they are waited for, by its first thread.
    pub fn warp_group(first: u32) -> Self {
        Self::copy(first, (u32::MAX >> 1) - 1)
    }
    pub fn is_copy(self) -> bool {
        self.0 >> 63 == 1
    }
    /// Whether it does one thing after the other.
    pub fn is_queue(self) -> bool {
        self.is_copy() && self.0 as u32 >= (u32::MAX >> 1) - 1
    }
}

/// What an agent's next step works on, as far as it is known before the step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Foot {
    /// A CTA's thread starts.
    Start { cta: usize },
    /// An operation on the mbarrier at an address.
    Barrier { cta: usize, addr: u32, what: What },
    /// A load lands, and completes bytes on an mbarrier.
    Load { cta: usize, addr: u32 },
    /// Memory, somewhere.
    Memory,
    /// Anything.
    Other,
}

/// What is done to an mbarrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// Takes an arrival, or bytes, off the phase: these commute while the phase lasts.
    Arrive,
    /// Depends on what came before it in its phase.
    Ordered,
    /// Looks at the phase.
    Look,
}

/// What a step did that only shows when it is done.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Outcome {
    /// A phase completed.
    pub completed: bool,
    /// A thread returned.
    pub exited: bool,
}

impl Foot {
    fn barrier(self) -> (Option<(usize, u32)>, What) {
        match self {
            Self::Barrier { cta, addr, what } => (Some((cta, addr)), what),
            Self::Load { cta, addr } => (Some((cta, addr)), What::Arrive),
            _ => (None, What::Ordered),
        }
    }
}

/// A step that was taken: what it worked on, and what that did.
#[derive(Clone, Copy, Debug)]
struct Taken {
    agent: Agent,
    foot: Foot,
    outcome: Outcome,
}

impl Taken {
    /// Whether the step commutes with another that could be taken instead. In doubt it does not.
    fn commutes(&self, other: &Self) -> bool {
        use Foot::{Barrier, Load, Memory, Other, Start};
        if self.outcome.exited || other.outcome.exited {
            return false;
        }
        match (self.foot, other.foot) {
            (Other, _) | (_, Other) | (Memory | Load { .. }, Memory) | (Memory, Load { .. }) => {
                false
            }
            (Memory, _) | (_, Memory) | (Start { .. }, Start { .. }) => true,
            (Start { cta: a }, Barrier { cta: b, .. } | Load { cta: b, .. })
            | (Barrier { cta: b, .. } | Load { cta: b, .. }, Start { cta: a }) => a != b,
            _ => {
                let ((a, this), (b, that)) = (self.foot.barrier(), other.foot.barrier());
                a != b
                    || match (this, that) {
                        (What::Ordered, _) | (_, What::Ordered) => false,
                        _ => !self.outcome.completed && !other.outcome.completed,
                    }
            }
        }
    }
}

struct Node {
    /// Who could have gone, in the order of preference.
    enabled: Vec<Agent>,
    chosen: Taken,
    /// Whom to try as well.
    backtrack: Vec<Agent>,
    /// Who was tried, and whom trying again would only repeat.
    sleep: Vec<Taken>,
}

/// A line of source, as text has it.
pub(crate) type Line = (String, u32, u32);

/// The place of a source line in a schedule.
pub(crate) fn line(loc: Loc) -> Line {
    (loc.file().to_owned(), loc.line(), loc.column())
}

/// How a tree is walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Walk {
    /// Only what may come out differently.
    Reduced,
    /// Every order of everything.
    Full,
    /// One path that was written down.
    Replay,
}

/// A cluster's tree of schedules.
pub(crate) struct Tree {
    walk: Walk,
    nodes: Vec<Node>,
    depth: usize,
    /// Sleepers of the next node.
    carry: Vec<Taken>,
    /// All that could go sleeps: the rest of this run repeats another.
    redundant: bool,
    /// Choices of the path to replay, and those of the run so far: depth, and place among the
    /// enabled, where that is not the first.
    script: BTreeMap<u32, u32>,
    path: BTreeMap<u32, u32>,
    /// Lines whose ordinary instructions are choices, too: someone races with them.
    lines: BTreeSet<Line>,
    known: HashMap<*const std::panic::Location<'static>, bool>,
    restart: bool,
    finished: bool,
}

// SAFETY: the raw pointers are keys, of `'static` values; nobody follows them.
unsafe impl Send for Tree {}

impl Tree {
    pub fn new(walk: Walk) -> Self {
        Self {
            walk,
            nodes: Vec::new(),
            depth: 0,
            carry: Vec::new(),
            redundant: false,
            script: BTreeMap::new(),
            path: BTreeMap::new(),
            lines: BTreeSet::new(),
            known: HashMap::new(),
            restart: false,
            finished: false,
        }
    }

    /// A tree of one path.
    pub fn replay(script: BTreeMap<u32, u32>, lines: BTreeSet<Line>) -> Self {
        Self { script, lines, ..Self::new(Walk::Replay) }
    }

    /// The choices so far that were not the first possible.
    pub fn path(&self) -> &BTreeMap<u32, u32> {
        &self.path
    }

    pub fn lines(&self) -> &BTreeSet<Line> {
        &self.lines
    }

    /// Whether every instruction that touches what others touch is a choice.
    pub fn full(&self) -> bool {
        self.walk == Walk::Full
    }

    pub fn finished(&self) -> bool {
        self.finished
    }

    /// Whether the run that has just ended repeats another.
    pub fn redundant(&self) -> bool {
        self.redundant
    }

    /// Whether the run that has just ended saw that more is a choice than was known.
    pub fn restarts(&self) -> bool {
        self.restart && !self.finished
    }

    /// Choices so far in this run.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Whether instructions of this line are choices.
    pub fn is_split(&mut self, loc: Loc) -> bool {
        if self.lines.is_empty() {
            return false;
        }
        let lines = &self.lines;
        *self.known.entry(std::ptr::from_ref(loc)).or_insert_with(|| lines.contains(&line(loc)))
    }

    /// Makes the instructions of a line choices, which begins the walk anew: until now they were
    /// taken to be out of everybody's way.
    pub fn split(&mut self, loc: Loc) {
        if self.walk != Walk::Replay && self.lines.insert(line(loc)) {
            self.known.clear();
            self.restart = true;
        }
    }

    /// Who goes now: a place in `enabled`.
    pub fn choose<T>(&mut self, enabled: &[(Agent, Foot, T)]) -> usize {
        let depth = self.depth;
        self.depth += 1;
        let at = self.decide(depth, enabled);
        if at != 0 {
            self.path.insert(depth as u32, at as u32);
        }
        at
    }

    fn decide<T>(&mut self, depth: usize, enabled: &[(Agent, Foot, T)]) -> usize {
        if self.walk == Walk::Replay {
            let at = self.script.get(&(depth as u32)).map_or(0, |&i| i as usize);
            return if at < enabled.len() { at } else { 0 };
        }
        if let Some(node) = self.nodes.get_mut(depth) {
            let at = enabled.iter().position(|e| e.0 == node.chosen.agent);
            debug_assert!(at.is_some(), "a kernel that does the same again");
            let at = at.unwrap_or(0);
            node.chosen.foot = enabled[at].1;
            return at;
        }
        if self.redundant || self.restart {
            return 0;
        }
        let sleep = std::mem::take(&mut self.carry);
        let Some(at) = enabled.iter().position(|e| sleep.iter().all(|s| s.agent != e.0)) else {
            self.redundant = true;
            return 0;
        };
        let agents: Vec<Agent> = enabled.iter().map(|e| e.0).collect();
        let (agent, foot, _) = enabled[at];
        let chosen = Taken { agent, foot, outcome: Outcome::default() };
        let backtrack = if self.full() { agents.clone() } else { Vec::new() };
        self.nodes.push(Node { enabled: agents, chosen, backtrack, sleep });
        at
    }

    /// The step that was chosen last is done: who sleeps, and does not commute with it, wakes.
    pub fn done(&mut self, outcome: Outcome) {
        let last = self.depth == self.nodes.len();
        let Some(at) = self.depth.checked_sub(1) else { return };
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.chosen.outcome = outcome;
        if self.walk == Walk::Reduced && last {
            let still = |s: &&Taken| s.commutes(&node.chosen);
            self.carry = node.sleep.iter().filter(still).copied().collect();
        }
    }

    /// At the node of that depth one of `initials` should go, so that two steps come in the other
    /// order.
    pub fn reverse(&mut self, depth: usize, initials: &[Agent]) {
        if self.walk != Walk::Reduced || self.redundant || self.restart {
            return;
        }
        let Some(node) = self.nodes.get_mut(depth) else { return };
        let tried = |a: &Agent| {
            *a == node.chosen.agent
                || node.backtrack.contains(a)
                || node.sleep.iter().any(|s| s.agent == *a)
        };
        if initials.iter().any(tried) {
            return;
        }
        match initials.iter().find(|a| node.enabled.contains(a)) {
            Some(&a) => node.backtrack.push(a),
            // Who should go waits for something that is not known here: everybody is tried.
            None => node.backtrack.extend(&node.enabled),
        }
    }

    /// Goes on to the next path; false when there is none.
    pub fn advance(&mut self) -> bool {
        self.depth = 0;
        self.carry.clear();
        self.redundant = false;
        self.path.clear();
        let restart = std::mem::take(&mut self.restart);
        if restart || self.finished {
            // What is through begins again while other clusters are not.
            self.nodes.clear();
            return !self.finished;
        }
        while let Some(node) = self.nodes.last_mut() {
            node.sleep.push(node.chosen);
            let sleep = &node.sleep;
            let next = node.backtrack.iter().find(|a| sleep.iter().all(|s| s.agent != **a));
            if let Some(&next) = next {
                node.chosen.agent = next;
                return true;
            }
            self.nodes.pop();
        }
        self.finished = true;
        false
    }
}
