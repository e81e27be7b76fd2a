//! Vectors of time: up to when the work of each agent is known.
//!
//! A vector has a component per *agent*: the threads of the cluster first, then whatever else works,
//! in the order in which it first appears (a barrier's copies, a warp group's wgmmas, a thread's bulk
//! groups). Threads that synchronised with each other share one vector, so that a barrier of many
//! threads costs one join.

use std::sync::Arc;

/// Components, by agent; those beyond the end are zero.
pub(crate) type Times = Arc<Vec<u32>>;

/// The component of an agent.
#[inline]
pub(crate) fn at(times: &[u32], agent: u32) -> u32 {
    times.get(agent as usize).copied().unwrap_or(0)
}

/// Raises a component.
pub(crate) fn raise(times: &mut Times, agent: u32, time: u32) {
    if at(times, agent) >= time {
        return;
    }
    let v = Arc::make_mut(times);
    if v.len() <= agent as usize {
        v.resize(agent as usize + 1, 0);
    }
    v[agent as usize] = time;
}

fn covers(a: &[u32], b: &[u32]) -> bool {
    let n = a.len().min(b.len());
    // In blocks without an early exit, which become vector instructions.
    let (a, rest) = (&a[..n], &b[n..]);
    let block = |(a, b): (&[u32], &[u32])| {
        a.iter().zip(b).fold(0, |less, (a, b)| less | u32::from(a < b)) == 0
    };
    a.chunks(64).zip(b[..n].chunks(64)).all(block) && rest.iter().all(|&b| b == 0)
}

pub(crate) fn join_into(a: &mut Times, b: &Times) {
    if Arc::ptr_eq(a, b) || b.is_empty() {
        return;
    }
    if covers(b, a) {
        a.clone_from(b);
    } else if !covers(a, b) {
        let v = Arc::make_mut(a);
        if v.len() < b.len() {
            v.resize(b.len(), 0);
        }
        for (a, &b) in v.iter_mut().zip(b.iter()) {
            *a = b.max(*a);
        }
    }
}

/// What a thread knows, in six ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    /// What happened before by the memory model: released and acquired at sufficient scope.
    Ordered,
    /// What is over by the course of events, whatever the scope of the operations that say so.
    Loose,
    /// What is visible to the asynchronous proxy in shared memory: a proxy fence lies between.
    Async,
    /// The same in global memory.
    AsyncGlobal,
    /// mbarrier initialisations made visible by `fence.mbarrier_init`.
    Inits,
    /// What has come to pass, whether or not memory follows: instructions that involve a whole warp or warp
    /// group order this as well. Times are those of a thread's last waits, and the phases of mbarriers.
    Course,
}

/// How many there are.
pub(crate) const COUNT: usize = 6;

pub(crate) const LANES: [Lane; COUNT] =
    [Lane::Ordered, Lane::Loose, Lane::Async, Lane::AsyncGlobal, Lane::Inits, Lane::Course];

/// A vector per lane.
pub(crate) type Lanes = [Times; COUNT];

/// The larger of both in each component.
pub(crate) fn join(a: &Times, b: &Times) -> Times {
    let mut c = Arc::clone(a);
    join_into(&mut c, b);
    c
}

/// The last raises of an agent's component: the threads of a warp group make the same ones in turn.
#[derive(Default)]
pub(crate) struct Raises(Vec<Vec<(Times, u32, Times)>>);

impl Raises {
    /// `a` with a component raised.
    pub fn raise(&mut self, a: &Times, agent: u32, time: u32) -> Times {
        if at(a, agent) >= time {
            return Arc::clone(a);
        }
        if self.0.len() <= agent as usize {
            self.0.resize_with(agent as usize + 1, Vec::new);
        }
        let known = &mut self.0[agent as usize];
        known.retain(|r| r.1 == time);
        if let Some((.., c)) = known.iter().find(|r| Arc::ptr_eq(&r.0, a)) {
            return Arc::clone(c);
        }
        let mut c = Arc::clone(a);
        raise(&mut c, agent, time);
        if known.len() < ALIKE {
            known.push((Arc::clone(a), time, Arc::clone(&c)));
        }
        c
    }
}

/// Different vectors among the threads that come to the same place, of which note is taken.
pub(crate) const ALIKE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn times(v: &[u32]) -> Times {
        Arc::new(v.to_vec())
    }

    #[test]
    fn joins_take_the_larger_of_each_and_share_where_they_can() {
        let (a, b) = (times(&[1, 5]), times(&[2, 3, 4]));
        let c = join(&a, &b);
        assert_eq!(*c, [2, 5, 4]);
        assert!(Arc::ptr_eq(&c, &join(&a, &c)), "the larger serves");
        assert!(Arc::ptr_eq(&a, &join(&a, &times(&[1, 2, 0]))));
        let mut raises = Raises::default();
        let d = raises.raise(&a, 3, 7);
        assert_eq!(*d, [1, 5, 0, 7]);
        assert!(Arc::ptr_eq(&d, &raises.raise(&a, 3, 7)), "remembered");
        assert!(Arc::ptr_eq(&a, &raises.raise(&a, 1, 4)));
    }
}
