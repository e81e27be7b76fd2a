//! Vector clocks: what of each agent's past an event knows.

use std::sync::Arc;

/// One count of transitions for each agent, by its number; absent ones are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<u32>);

impl Clock {
    /// The agent's transitions that are in this past.
    pub fn get(&self, agent: u32) -> u32 {
        self.0.get(agent as usize).copied().unwrap_or(0)
    }

    /// Raises the count of an agent to at least that.
    pub fn raise(&mut self, agent: u32, count: u32) {
        let i = agent as usize;
        if self.0.len() <= i {
            self.0.resize(i + 1, 0);
        }
        self.0[i] = self.0[i].max(count);
    }

    /// Adds another past to this one.
    pub fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a = (*a).max(*b);
        }
    }

    /// Whether all of another past is in this one.
    fn covers(&self, other: &Self) -> bool {
        let n = self.0.len().min(other.0.len());
        // No early exit: these are short loops over whole registers.
        let less = self.0.iter().zip(&other.0).fold(0, |less, (a, b)| less | u32::from(a < b));
        less == 0 && other.0[n..].iter().all(|&b| b == 0)
    }
}

/// The past of an agent: what it has done itself, and what it knows of others. Agents that know the same
/// share that part, so what the threads of a warp group do in turn costs no copy.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    agent: u32,
    count: u32,
    others: Arc<Clock>,
}

impl Past {
    pub fn new(agent: u32, count: u32, others: Arc<Clock>) -> Self {
        Self { agent, count, others }
    }

    /// The agent's transitions that are in this past.
    #[inline]
    pub fn get(&self, agent: u32) -> u32 {
        if agent == self.agent { self.count } else { self.others.get(agent) }
    }

    /// Counts one more transition of its own; gives its number.
    pub fn tick(&mut self) -> u32 {
        self.count += 1;
        self.count
    }

    /// All of it as one clock, which from now on is what it shares.
    pub fn whole(&mut self) -> Arc<Clock> {
        if self.others.get(self.agent) != self.count {
            Arc::make_mut(&mut self.others).raise(self.agent, self.count);
        }
        Arc::clone(&self.others)
    }

    /// Learns a clock. `last` remembers who learned what last.
    pub fn learn(&mut self, clock: &Arc<Clock>, last: &mut Learned) {
        if Arc::ptr_eq(&self.others, clock) {
            return;
        }
        let same =
            |l: &&[Arc<Clock>; 3]| Arc::ptr_eq(&l[0], &self.others) && Arc::ptr_eq(&l[1], clock);
        if let Some([_, _, to]) = last.recent.iter().flatten().find(same) {
            self.others = Arc::clone(to);
            return;
        }
        let from = Arc::clone(&self.others);
        if clock.covers(&from) {
            self.others = Arc::clone(clock);
        } else if !from.covers(clock) {
            let mut both = Clock::clone(&from);
            both.join(clock);
            self.others = Arc::new(both);
        }
        last.next = (last.next + 1) % last.recent.len();
        last.recent[last.next] = Some([from, Arc::clone(clock), Arc::clone(&self.others)]);
    }

    /// Learns the past of another agent.
    pub fn learn_from(&mut self, other: &Self, last: &mut Learned) {
        self.learn(&other.others, last);
        if self.get(other.agent) < other.count {
            Arc::make_mut(&mut self.others).raise(other.agent, other.count);
        }
    }
}

/// Clocks that agents had, those that they learned, and what came of them: the next thread of a warp group
/// learns the same.
#[derive(Default)]
pub(crate) struct Learned {
    recent: [Option<[Arc<Clock>; 3]>; 4],
    next: usize,
}

/// Pasts that are gathered, until somebody takes them together.
#[derive(Default)]
pub(crate) struct Gathered {
    clock: Clock,
    /// What the one before knew of others.
    last: Option<Arc<Clock>>,
}

impl Gathered {
    pub fn add(&mut self, past: &Past) {
        if !self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &past.others)) {
            self.clock.join(&past.others);
            self.last = Some(Arc::clone(&past.others));
        }
        self.clock.raise(past.agent, past.count);
    }

    /// What has been gathered.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Takes it out.
    pub fn take(&mut self) -> Clock {
        self.last = None;
        std::mem::take(&mut self.clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(counts: &[u32]) -> Arc<Clock> {
        Arc::new(Clock(counts.to_vec()))
    }

    #[test]
    fn a_join_knows_both_pasts() {
        let (mut a, b) = (Past::new(0, 1, clock(&[])), Past::new(3, 2, clock(&[0, 0, 1])));
        let last = &mut Learned::default();
        a.learn_from(&b, last);
        assert_eq!([0, 1, 2, 3, 9].map(|agent| a.get(agent)), [1, 0, 1, 2, 0]);
        assert_eq!([0, 3].map(|agent| b.get(agent)), [0, 2], "b has learned nothing");
        assert_eq!(a.tick(), 2);
        a.learn(&clock(&[1, 7]), last);
        assert_eq!([0, 1, 2, 3].map(|agent| a.get(agent)), [2, 7, 1, 2]);
        assert_eq!(a.whole().0, [2, 7, 1, 2]);
    }

    #[test]
    fn those_who_learn_the_same_share_it() {
        let (start, news) = (clock(&[1, 1, 1]), clock(&[0, 5, 0]));
        let last = &mut Learned::default();
        let mut learned = [7, 8].map(|agent| Past::new(agent, 3, Arc::clone(&start)));
        for past in &mut learned {
            past.learn(&news, last);
        }
        assert!(Arc::ptr_eq(&learned[0].others, &learned[1].others));
        assert_eq!(learned[1].others.0, [1, 5, 1]);
        assert_eq!([learned[0].get(7), learned[0].get(8), learned[1].get(8)], [3, 0, 3]);
        // A clock that knows all takes the place of what was there; one that knows less changes nothing.
        let more = clock(&[1, 5, 2, 0]);
        learned[0].learn(&more, last);
        assert!(Arc::ptr_eq(&learned[0].others, &more));
        learned[0].learn(&start, last);
        assert!(Arc::ptr_eq(&learned[0].others, &more));
    }

    #[test]
    fn what_is_gathered_has_every_past() {
        let (shared, mut all) = (clock(&[0, 0, 4]), Gathered::default());
        all.add(&Past::new(0, 2, Arc::clone(&shared)));
        all.add(&Past::new(1, 3, shared));
        all.add(&Past::new(2, 5, clock(&[1])));
        assert_eq!(all.clock().0, [2, 3, 5]);
        assert_eq!(all.take().0, [2, 3, 5]);
        assert!(all.clock().0.is_empty());
    }
}
