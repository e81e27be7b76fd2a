//! What each thread did last at an mbarrier, for reports.

use crate::finding::report::SourceLine;
use crate::types::loc::Loc;

/// An arrival, or a wait that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// The phase that the arrival counted in, or that the wait saw complete.
    pub phase: u32,
    /// The step of the cluster, which orders marks.
    pub step: u64,
    pub loc: Loc,
}

/// What a thread did at an mbarrier.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Use {
    /// Its last arrival.
    pub arrived: Option<Mark>,
    /// Its arrivals.
    pub arrivals: u32,
    /// The last phase that it saw complete.
    pub saw: Option<Mark>,
    /// It had seen that phase complete before, at its wait before the last.
    pub again: bool,
    /// Its waits that ended, without those that passed on the fresh barrier.
    pub waits: u32,
}

/// The uses of an mbarrier by thread, in groups of 32: mostly whole warps do the same.
#[derive(Default)]
pub(crate) struct Uses(Vec<Option<Box<[Use; 32]>>>);

impl Uses {
    fn of_mut(&mut self, thread: u32) -> &mut Use {
        let (group, lane) = (thread as usize / 32, thread as usize % 32);
        if self.0.len() <= group {
            self.0.resize_with(group + 1, || None);
        }
        &mut self.0[group].get_or_insert_default()[lane]
    }

    /// A thread arrives.
    pub fn arrives(&mut self, thread: u32, mark: Mark) {
        let one = self.of_mut(thread);
        one.arrived = Some(mark);
        one.arrivals += 1;
    }

    /// A thread sees a phase complete.
    pub fn sees(&mut self, thread: u32, mark: Mark) {
        let one = self.of_mut(thread);
        one.again = one.saw.is_some_and(|last| last.phase == mark.phase);
        one.saw = Some(mark);
        one.waits += u32::from(mark.phase != u32::MAX);
    }

    /// What a thread did.
    pub fn of(&self, thread: u32) -> Use {
        let group = self.0.get(thread as usize / 32).and_then(Option::as_ref);
        group.map_or_else(Use::default, |all| all[thread as usize % 32])
    }

    /// The threads that did something, in their order.
    pub fn all(&self) -> impl Iterator<Item = (u32, &Use)> {
        (0..).zip(&self.0).flat_map(|(group, all)| {
            let all = all.iter().flat_map(|all| all.iter());
            (0..).zip(all).map(move |(lane, one)| (group * 32 + lane, one))
        })
    }

    /// The threads that have arrived, and their last arrivals.
    pub fn arrived(&self) -> impl Iterator<Item = (u32, Mark)> {
        self.all().filter_map(|(thread, one)| Some((thread, one.arrived?)))
    }

    /// Threads that seem to arrive in each phase: those that have, and the other lanes of warps of
    /// which most lanes have.
    pub fn arrivers(&self) -> usize {
        let of_warp = |all: &[Use; 32]| match all.iter().filter(|one| one.arrivals > 0).count() {
            most @ 17.. => most.max(32),
            some => some,
        };
        self.0.iter().flatten().map(|all| of_warp(all)).sum()
    }
}

impl Use {
    /// The last wait, as a report tells it.
    pub fn last_wait(&self) -> Option<String> {
        let saw = self.saw?;
        let (at, phase) = (SourceLine::from(saw.loc), phase_name(saw.phase));
        let again = if self.again { ", which the wait before it had seen as well" } else { "" };
        Some(format!("at {at}, saw {phase} complete{again}"))
    }
}

/// A phase, as a report calls it. A wait with parity 1 passes on a fresh barrier.
pub(crate) fn phase_name(phase: u32) -> String {
    match phase {
        u32::MAX => "the phase before the first (parity 1 passes on a fresh barrier)".into(),
        _ => format!("phase {phase} (parity {})", phase & 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    fn mark(phase: u32) -> Mark {
        Mark { phase, step: u64::from(phase), loc: Location::caller() }
    }

    #[test]
    fn the_last_arrival_and_the_last_wait_of_each_thread_are_kept() {
        let mut uses = Uses::default();
        uses.arrives(40, mark(0));
        uses.arrives(40, mark(1));
        uses.sees(7, mark(0));
        assert!(!uses.of(7).again);
        uses.sees(7, mark(0));
        assert!(uses.of(7).again);
        assert_eq!((uses.of(40).arrivals, uses.of(40).arrived.unwrap().phase), (2, 1));
        assert!(uses.of(40).saw.is_none() && uses.of(99).arrived.is_none());
        assert_eq!(uses.of(7).saw.unwrap().phase, 0);
        assert_eq!(uses.arrived().map(|a| a.0).collect::<Vec<_>>(), [40]);
    }

    #[test]
    fn a_warp_of_which_most_lanes_arrive_counts_as_a_whole() {
        let mut uses = Uses::default();
        (0..31).for_each(|t| uses.arrives(t, mark(0)));
        uses.arrives(64, mark(0));
        assert_eq!(uses.arrivers(), 33);
    }
}
