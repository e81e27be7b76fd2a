//! Instructions of a cluster that change nothing, in turn: how many, and what follows from that.
//!
//! A thread that spins on a word (loads it, adds zero to it, tries to take a lock) must let others run,
//! or the one that it waits for never does. It yields to the threads and copies of its cluster first.
//! If nothing in the cluster changes, the cluster gives way to others. If nothing changes there either,
//! the loop has no end.

#[cfg(test)]
use crate::types::loc::Loc;
use crate::types::loc::{Look, Looked};

/// Equal looks in turn after which a thread yields, and looks of any kind.
const YIELD: [u32; 2] = [32, 4096];
/// The same after which the cluster gives way for the first time; each time after, twice as many.
const GIVE_WAY: [u32; 2] = [1 << 10, 1 << 16];
/// The same after which they count as a loop that nothing ends.
const ENDLESS: [u32; 2] = [1 << 20, 1 << 24];

/// What follows from a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    GoesOn,
    /// Another thread of the cluster, or a copy, comes first.
    Yields,
    /// Other clusters come first.
    GivesWay,
    /// Nothing ends this.
    Endless,
}

/// Looks since anything changed.
#[derive(Debug)]
pub(crate) struct Looks {
    /// Those that a thread repeated, and all.
    counts: [u32; 2],
    give_way: [u32; 2],
    /// Whether one of them was at global memory.
    pub global: bool,
}

impl Default for Looks {
    fn default() -> Self {
        Self { counts: [0; 2], give_way: GIVE_WAY, global: false }
    }
}

impl Looks {
    /// Something has changed.
    #[inline]
    pub fn over(&mut self) {
        if self.counts[1] > 0 {
            *self = Self::default();
        }
    }

    /// How many there were.
    pub fn count(&self) -> u32 {
        self.counts[1]
    }

    /// An instruction changed nothing; `last` are the last looks of its thread, `now` what it looks at,
    /// if at anything.
    #[inline]
    pub fn look(&mut self, last: &mut Looked, now: Option<Look>) -> Next {
        let again = now.is_some_and(|now| last.again(now));
        self.counts[0] += u32::from(again);
        self.counts[1] += 1;
        let due = |i: usize| self.counts[i].is_multiple_of(YIELD[i]);
        if (again && due(0)) || due(1) { self.stop() } else { Next::GoesOn }
    }

    fn stop(&mut self) -> Next {
        let passed = |than: [u32; 2]| (0..2).any(|i| self.counts[i] >= than[i]);
        if passed(ENDLESS) {
            return Next::Endless;
        }
        if !passed(self.give_way) {
            return Next::Yields;
        }
        self.give_way = self.counts.map(|n| n * 2);
        self.give_way[0] = self.give_way[0].max(GIVE_WAY[0]);
        self.give_way[1] = self.give_way[1].max(GIVE_WAY[1]);
        Next::GivesWay
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    #[track_caller]
    fn here() -> Loc {
        Location::caller()
    }

    fn spin(looks: &mut Looks, mut now: impl FnMut(u64) -> Option<Look>) -> Vec<(u64, Next)> {
        let (mut last, mut out) = (Looked::default(), Vec::new());
        for i in 0.. {
            let next = looks.look(&mut last, now(i));
            if next != Next::GoesOn {
                out.push((i, next));
            }
            if next == Next::Endless {
                return out;
            }
        }
        unreachable!("it ends")
    }

    #[test]
    fn who_looks_at_one_word_yields_gives_way_and_is_found() {
        let line = here();
        let all = spin(&mut Looks::default(), |_| Some((line, 64)));
        assert_eq!(all[0], (32, Next::Yields), "the first look is no repetition");
        let ways: Vec<u64> = all.iter().filter(|n| n.1 == Next::GivesWay).map(|n| n.0).collect();
        assert_eq!(ways[..3], [1 << 10, 1 << 11, 1 << 12]);
        assert_eq!(all.last(), Some(&(1 << 20, Next::Endless)));
    }

    #[test]
    fn so_does_who_looks_at_a_few() {
        let line = here();
        let all = spin(&mut Looks::default(), |i| Some((line, i % 3)));
        assert_eq!(all.last(), Some(&((1 << 20) + 2, Next::Endless)));
    }

    #[test]
    fn who_reads_much_is_let_read() {
        let line = here();
        let all = spin(&mut Looks::default(), |i| Some((line, 4 * i)));
        assert_eq!(all[0], (4095, Next::Yields));
        assert_eq!(all.last(), Some(&((1 << 24) - 1, Next::Endless)));
        let mut looks = Looks::default();
        looks.look(&mut Looked::default(), None);
        looks.over();
        assert_eq!(looks.count(), 0);
    }
}
