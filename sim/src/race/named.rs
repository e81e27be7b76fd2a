//! Uses of a named barrier: what is released there, and whether who comes knows that the use before is over.
//!
//! A named barrier counts warps, and nothing tells one use from the next. So each warp that comes must know of all
//! arrivals of the use before, by the course of events: or under another schedule it counts in their place. A warp comes
//! when the last of its lanes does, so it is enough that one of them knows of an arrival. Who waited in the use before
//! knows of all.

use super::clock::{Knows, Released};
use super::times::Lane;
use crate::types::loc::Loc;

/// A thread that has come, at a time of its own, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arrival {
    pub thread: u32,
    time: u32,
    pub loc: Loc,
}

/// A warp of the barrier's CTA.
#[derive(Clone, Default)]
struct Warp {
    /// The last use in which lanes of the warp waited, from 1, and which lanes.
    waited: (u32, u32),
    /// The arrivals of the use before of which no lane knows that has come to this one; `None` when none has come.
    unheard: Option<Vec<Arrival>>,
}

/// A named barrier.
pub(crate) struct NamedClock {
    /// The first thread of its CTA.
    first: u32,
    released: Released,
    /// Uses that are over.
    uses: u32,
    /// Who has come to the use in progress, and who came to the one before.
    now: Vec<Arrival>,
    before: Vec<Arrival>,
    warps: Vec<Warp>,
}

impl NamedClock {
    /// A barrier of the CTA whose first thread this is.
    pub fn new(first: u32) -> Self {
        Self {
            first,
            released: Released::default(),
            uses: 0,
            now: Vec::new(),
            before: Vec::new(),
            warps: Vec::new(),
        }
    }

    fn warp(&mut self, thread: u32) -> (&mut Warp, u32) {
        let index = thread - self.first;
        let warp = index as usize / 32;
        if self.warps.len() <= warp {
            self.warps.resize_with(warp + 1, Warp::default);
        }
        (&mut self.warps[warp], 1 << (index % 32))
    }

    /// A thread comes, and releases.
    pub fn arrives(&mut self, thread: &mut Knows, loc: Loc) {
        let (uses, before) = (self.uses, std::mem::take(&mut self.before));
        let (warp, lane) = self.warp(thread.id);
        let unknown = |a: &Arrival| !thread.knows(Lane::Course, a.thread, a.time);
        let waited = warp.waited.0 == uses && warp.waited.1 & lane != 0;
        match &mut warp.unheard {
            unheard if waited => *unheard = Some(Vec::new()),
            Some(unheard) => unheard.retain(unknown),
            None => warp.unheard = Some(before.iter().copied().filter(unknown).collect()),
        }
        self.before = before;
        self.now.push(Arrival { thread: thread.id, time: thread.time, loc });
        thread.give(&mut self.released);
    }

    /// The warp of a thread has come whole: gives an arrival of the use before of which none of its lanes knows.
    pub fn whole(&mut self, thread: u32) -> Option<Arrival> {
        self.warp(thread).0.unheard.as_ref()?.first().copied()
    }

    /// A use is over, in which these threads waited: gives what they learn.
    pub fn done(&mut self, waited: impl Iterator<Item = u32>) -> Released {
        self.uses += 1;
        self.before.clear();
        std::mem::swap(&mut self.before, &mut self.now);
        self.warps.iter_mut().for_each(|warp| warp.unheard = None);
        let uses = self.uses;
        for t in waited {
            let (warp, lane) = self.warp(t);
            let lanes = if warp.waited.0 == uses { warp.waited.1 } else { 0 };
            warp.waited = (uses, lanes | lane);
        }
        std::mem::take(&mut self.released)
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::Told;
    use super::*;
    use std::panic::Location;

    /// Threads come, of which the second half waits.
    fn meet(bar: &mut NamedClock, threads: &mut [Knows], who: &[usize]) -> Option<u32> {
        for &t in who {
            bar.arrives(&mut threads[t], Location::caller());
        }
        let unheard = who.iter().find_map(|&t| bar.whole(t as u32));
        let waits = &who[who.len() / 2..];
        let mut told = Told::new(&bar.done(waits.iter().map(|&t| t as u32)));
        for &t in waits {
            told.tell(&mut threads[t]);
        }
        unheard.map(|arrival| arrival.thread)
    }

    #[test]
    fn who_waited_in_the_use_before_may_come_again() {
        let mut threads: Vec<_> = (0..96).map(Knows::new).collect();
        let mut bar = NamedClock::new(0);
        assert_eq!(meet(&mut bar, &mut threads, &[0, 32]), None);
        assert_eq!(meet(&mut bar, &mut threads, &[32, 64]), Some(0), "a warp that knows nothing");
        assert_eq!(meet(&mut bar, &mut threads, &[64, 0]), Some(32), "nobody has told thread 0");
        assert_eq!(meet(&mut bar, &mut threads, &[0]), None);
    }

    #[test]
    fn one_lane_of_a_warp_may_know_of_one_arrival_and_another_of_the_other() {
        let mut threads: Vec<_> = (0..96).map(Knows::new).collect();
        let (mut bar, here) = (NamedClock::new(0), Location::caller());
        for (from, to) in [(0, 64), (32, 65)] {
            bar.arrives(&mut threads[from], here);
            let mut told = Told::new(&threads[from].release());
            told.tell(&mut threads[to]);
        }
        bar.done([].into_iter());
        bar.arrives(&mut threads[64], here);
        assert_eq!(bar.whole(64).map(|a| a.thread), Some(32));
        bar.arrives(&mut threads[65], here);
        assert_eq!(bar.whole(65), None);
    }
}
