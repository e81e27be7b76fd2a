//! Polls of a phase that a thread does not know to be over: under another schedule it is in progress.

use crate::types::hash::ByMix;
use crate::types::loc::Loc;
use std::collections::HashMap;

/// What a thread may find that polls for a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finds {
    /// What the barrier says: the thread knows that the phase is over, or has found it in progress on this line.
    WhatIs,
    /// It may find the phase in progress. No poll on this line did so before.
    First,
    /// It may find the phase in progress, as it found an earlier one.
    Later,
}

/// A thread, a line on which it polls, and an mbarrier.
type Place = (u32, (u32, u32), usize);

/// The polls that found a phase in progress that may have been over.
#[derive(Default)]
pub(crate) struct Polls {
    /// The last such phase of each place.
    missed: HashMap<Place, u32, ByMix>,
}

impl Polls {
    /// A thread polls on a line for a phase of an mbarrier that it does not know to be over.
    pub fn finds(&self, t: u32, (bar, phase): (usize, u32), line: Loc) -> Finds {
        match self.missed.get(&place(t, bar, line)) {
            None => Finds::First,
            Some(&last) if last == phase => Finds::WhatIs,
            Some(_) => Finds::Later,
        }
    }

    /// The poll has found the phase in progress.
    pub fn misses(&mut self, t: u32, (bar, phase): (usize, u32), line: Loc) {
        self.missed.insert(place(t, bar, line), phase);
    }
}

fn place(t: u32, bar: usize, line: Loc) -> Place {
    (t, (line.line(), line.column()), bar)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    #[test]
    fn a_line_misses_each_phase_once() {
        let (mut polls, here) = (Polls::default(), Location::caller());
        assert_eq!(polls.finds(3, (0, 5), here), Finds::First);
        polls.misses(3, (0, 5), here);
        assert_eq!(polls.finds(3, (0, 5), here), Finds::WhatIs);
        assert_eq!(polls.finds(3, (0, 6), here), Finds::Later);
        assert_eq!(polls.finds(4, (0, 5), here), Finds::First, "another thread");
        assert_eq!(polls.finds(3, (1, 5), here), Finds::First, "another barrier");
        assert_eq!(polls.finds(3, (0, 5), Location::caller()), Finds::First, "another line");
    }
}
