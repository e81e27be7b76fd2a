//! Vector clocks: what a thread knows, what is released, and what is acquired.
//!
//! A thread's own component is kept beside its vectors, for it grows alone.

use super::foreign::{self, Foreign};
use super::times::{
    self, ALIKE, COUNT, LANES, Lane, Lanes, Raises, Times, at, join, join_into, raise,
};
use std::sync::Arc;

/// What a thread knows.
#[derive(Clone)]
pub(crate) struct Knows {
    /// The thread, which is its agent as well.
    pub id: u32,
    /// The thread's own time: moves on when it tells others of what it did.
    pub time: u32,
    pub base: Lanes,
    /// Its own component of the lanes from [`Lane::Async`] to [`Lane::Inits`]: its time at the last such
    /// fence.
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
            Lane::Ordered | Lane::Loose | Lane::Course => self.time,
            _ => self.fenced[lane as usize - 2],
        }
    }

    /// Whether what an agent did at a time is known.
    #[inline]
    pub fn knows(&self, lane: Lane, agent: u32, time: u32) -> bool {
        // Of its own work it may have heard from another: whose fence covers it just as well.
        at(&self.base[lane as usize], agent) >= time || (agent == self.id && self.own(lane) >= time)
    }

    /// The same of another cluster's agent.
    pub fn knows_of(&self, cluster: u32, lane: Lane, agent: u32, time: u32) -> bool {
        foreign::knows(&self.foreign, lane, cluster, agent, time)
    }

    /// A fence: what it knows is so in this lane, too.
    pub fn fence(&mut self, lane: Lane) {
        let i = lane as usize;
        self.base[i] = join(&self.base[i], &self.base[Lane::Ordered as usize]);
        self.fenced[i - 2] = self.time;
        self.time += 1;
    }

    /// All that a release of the thread tells, now; what it does from here on is later.
    pub fn release(&mut self) -> Released {
        let mut out = Released::default();
        self.give(&mut out);
        out
    }

    /// Releases to whoever will acquire from `to`.
    pub fn give(&mut self, to: &mut Released) {
        to.add(self, &LANES);
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

impl Knows {
    /// Whether all that another cluster did is known.
    pub fn knows_end(&self, cluster: u32) -> bool {
        foreign::knows_end(&self.foreign, cluster)
    }
}

/// What several threads release together.
#[derive(Clone, Default)]
pub(crate) struct Released {
    pub lanes: Lanes,
    /// Vectors that were joined last: threads of a group have the same.
    last: [Vec<Times>; COUNT],
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

    /// What another released is released as well.
    pub fn merge(&mut self, other: &Self) {
        for (a, b) in self.lanes.iter_mut().zip(&other.lanes) {
            *a = times::join(a, b);
        }
        foreign::join(&mut self.foreign, &other.foreign);
    }
}

/// What others released, for many to learn.
#[derive(Default)]
pub(crate) struct Told {
    lanes: Lanes,
    foreign: Foreign,
    /// What that made of the knowledge of those who learned it.
    joined: [Vec<(Times, Times)>; COUNT],
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
