//! Vector clocks: who knows of whose work up to when.
//!
//! A clock has a component per *agent*: the threads of the cluster first, then whatever else works,
//! in the order in which it first appears (a barrier's copies, a warp group's wgmmas, a thread's bulk
//! groups). Threads that synchronised with each other share one vector, so that a barrier of many
//! threads costs one join; a thread's own component is kept beside the vector, for it grows alone.

use super::foreign::{self, Foreign};
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
    a[..n].iter().zip(&b[..n]).all(|(a, b)| a >= b) && b[n..].iter().all(|&b| b == 0)
}

fn join_into(a: &mut Times, b: &Times) {
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

/// What a thread knows, in five ways.
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
}

pub(crate) const LANES: [Lane; 5] =
    [Lane::Ordered, Lane::Loose, Lane::Async, Lane::AsyncGlobal, Lane::Inits];

/// A vector per lane.
pub(crate) type Lanes = [Times; 5];

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
    fn raise(&mut self, a: &Times, agent: u32, time: u32) -> Times {
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
const ALIKE: usize = 4;

/// What a thread knows.
#[derive(Clone)]
pub(crate) struct Knows {
    /// The thread, which is its agent as well.
    pub id: u32,
    /// The thread's own time: moves on when it tells others of what it did.
    pub time: u32,
    pub base: Lanes,
    /// Its own component of the lanes from [`Lane::Async`] on: its time at the last such fence.
    fenced: [u32; 3],
    /// What it knows of other clusters.
    pub foreign: Foreign,
}

impl Knows {
    pub fn new(id: u32) -> Self {
        Self {
            id,
            time: 1,
            base: std::array::from_fn(|_| Times::default()),
            fenced: [0; 3],
            foreign: None,
        }
    }

    /// Its own component.
    #[inline]
    pub fn own(&self, lane: Lane) -> u32 {
        match lane {
            Lane::Ordered | Lane::Loose => self.time,
            _ => self.fenced[lane as usize - 2],
        }
    }

    /// Whether what an agent did at a time is known.
    #[inline]
    pub fn knows(&self, lane: Lane, agent: u32, time: u32) -> bool {
        // Of its own work it may have heard from another: whose fence covers it just as well.
        at(&self.base[lane as usize], agent) >= time || (agent == self.id && self.own(lane) >= time)
    }

    /// A fence: what it knows is so in this lane, too.
    pub fn fence(&mut self, lane: Lane) {
        let i = lane as usize;
        self.base[i] = join(&self.base[i], &self.base[Lane::Ordered as usize]);
        self.fenced[i - 2] = self.time;
        self.time += 1;
    }

    /// Learns that an agent's work is over up to a time.
    pub fn learn(&mut self, raises: &mut Raises, agent: u32, time: u32) {
        for lane in [Lane::Ordered, Lane::Loose] {
            let base = &mut self.base[lane as usize];
            *base = raises.raise(base, agent, time);
        }
    }
}

/// What several threads release together.
#[derive(Clone, Default)]
pub(crate) struct Released {
    pub lanes: Lanes,
    /// Vectors that were joined last: threads of a group have the same.
    last: [Vec<Times>; 5],
    pub foreign: Foreign,
}

impl Released {
    /// A thread's knowledge joins.
    pub fn add(&mut self, from: &Knows, lanes: &[Lane]) {
        for &lane in lanes {
            let i = lane as usize;
            let last = &mut self.last[i];
            if !last.iter().any(|l| Arc::ptr_eq(l, &from.base[i])) {
                join_into(&mut self.lanes[i], &from.base[i]);
                if last.len() == ALIKE {
                    last.remove(0);
                }
                last.push(Arc::clone(&from.base[i]));
            }
            raise(&mut self.lanes[i], from.id, from.own(lane));
        }
        if lanes.contains(&Lane::Ordered) {
            foreign::join(&mut self.foreign, &from.foreign);
        }
    }
}

/// What others released, for many to learn.
#[derive(Default)]
pub(crate) struct Told {
    lanes: Lanes,
    foreign: Foreign,
    /// What that made of the knowledge of those who learned it.
    joined: [Vec<(Times, Times)>; 5],
}

impl Told {
    pub fn new(from: &Released) -> Self {
        let (lanes, foreign) = (from.lanes.clone(), from.foreign.clone());
        Self { lanes, foreign, joined: Default::default() }
    }

    /// A thread learns it.
    pub fn tell(&mut self, to: &mut Knows) {
        for ((base, lane), joined) in to.base.iter_mut().zip(&self.lanes).zip(&mut self.joined) {
            if Arc::ptr_eq(base, lane) {
                continue;
            }
            if let Some((_, known)) = joined.iter().find(|j| Arc::ptr_eq(&j.0, base)) {
                base.clone_from(known);
                continue;
            }
            let known = join(base, lane);
            if joined.len() == ALIKE {
                joined.remove(0);
            }
            joined.push((Arc::clone(base), Arc::clone(&known)));
            *base = known;
        }
        foreign::join(&mut to.foreign, &self.foreign);
    }
}

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

    #[test]
    fn a_release_tells_what_came_before_it_and_no_more() {
        let mut out = Released::default();
        let (mut a, mut b) = (Knows::new(0), Knows::new(1));
        out.add(&a, &LANES);
        a.time += 1;
        Told::new(&out).tell(&mut b);
        assert!(b.knows(Lane::Ordered, 0, 1) && !b.knows(Lane::Ordered, 0, 2));
        assert!(!b.knows(Lane::Async, 0, 1), "no fence");
        a.fence(Lane::Async);
        out.add(&a, &LANES);
        Told::new(&out).tell(&mut b);
        assert!(b.knows(Lane::Async, 0, 2) && !b.knows(Lane::Inits, 0, 1));
        assert!(a.knows(Lane::Ordered, 0, 3) && !a.knows(Lane::Async, 0, 3));
    }

    #[test]
    fn another_threads_fence_covers_ones_own_work() {
        let (mut a, mut b) = (Knows::new(0), Knows::new(1));
        let mut there = Released::default();
        there.add(&a, &LANES);
        a.time += 1;
        Told::new(&there).tell(&mut b);
        b.fence(Lane::Async);
        let mut back = Released::default();
        back.add(&b, &LANES);
        Told::new(&back).tell(&mut a);
        assert!(a.knows(Lane::Async, 0, 1), "told before the fence");
        assert!(!a.knows(Lane::Async, 0, 2), "done after it was told");
    }
}
