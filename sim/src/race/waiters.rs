//! Who waits for the phases of an mbarrier, and whether a phase could lap them.
//!
//! A parity tells a phase from the next one, and from no other. So each thread that waits for a phase must
//! be sure to have seen it before the next one completes: the end of its wait comes before an arrival of
//! that phase, by the course of events, under every schedule. All arrivals of a phase are needed, so one is
//! enough.

use super::times::{Times, at};
use crate::protocol::watcher::mix;
use crate::types::loc::Loc;

/// A thread's last wait on an mbarrier.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The phase.
    last: Option<u32>,
    /// The thread's time at the end of the wait; 0 when it has been woken and has not looked yet.
    time: u32,
    /// Where it waits, or waited.
    loc: Option<Loc>,
    /// It is among those of the phase that completed last.
    noted: bool,
}

/// The threads that wait on an mbarrier.
#[derive(Default)]
pub(crate) struct Waiters {
    seen: Vec<Seen>,
    /// Those that wait for the phase that completed last, and where.
    now: Vec<(u32, Loc)>,
}

impl Waiters {
    fn note(&mut self, t: u32, time: u32, loc: Loc) -> &mut Seen {
        let at = t as usize;
        if self.seen.len() <= at {
            self.seen.resize(at + 1, Seen::default());
        }
        let seen = &mut self.seen[at];
        if !seen.noted {
            self.now.push((t, loc));
        }
        (seen.time, seen.loc, seen.noted) = (time, Some(loc), true);
        seen
    }

    /// The phase for which a thread sleeps has completed.
    pub fn woken(&mut self, t: u32, loc: Loc) {
        self.note(t, 0, loc);
    }

    /// A thread has seen a phase, the last one, at a time of its own.
    pub fn passed(&mut self, t: u32, (phase, time): (u32, u32), loc: Loc) {
        self.note(t, time, loc).last = Some(phase);
    }

    /// A phase has completed, which takes what is in `course`. Gives a thread that waited for the one
    /// before, and need not have seen it.
    pub fn phase_done(&mut self, course: &Times) -> Option<(u32, Loc)> {
        let mut unsure = None;
        for (t, loc) in self.now.drain(..) {
            let seen = &mut self.seen[t as usize];
            seen.noted = false;
            if seen.time == 0 || at(course, t) < seen.time {
                unsure = unsure.or(Some((t, loc)));
            }
        }
        unsure
    }

    /// A thread other than `t` of whose last wait nothing is known that has ended, and where that is.
    pub fn unheard(&self, t: u32, known: &Times) -> Option<(u32, Loc)> {
        (0..).zip(&self.seen).filter(|(w, _)| *w != t).find_map(|(w, seen)| {
            let heard = seen.time != 0 && at(known, w) >= seen.time;
            (!heard).then_some((w, seen.loc?))
        })
    }

    /// The protocol state, in the phase of a number: who has yet to look, and who has seen the last phase, or
    /// an earlier one.
    pub fn protocol(&self, phase: u32) -> u64 {
        let of = |(t, seen): (usize, &Seen)| {
            let behind = seen.last.map_or(3, |last| phase.wrapping_sub(last).min(2));
            let looks = u32::from(seen.noted) << 2 | u32::from(seen.noted && seen.time == 0) << 3;
            (behind | looks, t as u64)
        };
        let word = |(state, t): (u32, u64)| mix(mix(0, t), u64::from(state));
        let all = self.seen.iter().enumerate().map(of).filter(|(state, _)| *state != 3);
        all.map(word).fold(0, u64::wrapping_add)
    }

    /// Whether a thread can be sure that its wait is for this phase; if not, the phase that it saw last.
    /// `known`: how many phases it knows to be over, so that it may leave some out.
    pub fn means(&self, t: u32, phase: u32, known: u32) -> Result<(), Option<u32>> {
        let last = self.seen.get(t as usize).and_then(|seen| seen.last);
        let next = last.is_some_and(|last| phase.wrapping_sub(last) <= 1);
        let sure = phase == u32::MAX || known >= phase || next;
        if sure { Ok(()) } else { Err(last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;
    use std::sync::Arc;

    fn times(v: &[u32]) -> Times {
        Arc::new(v.to_vec())
    }

    #[test]
    fn an_arrival_that_knows_of_the_wait_is_enough() {
        let (mut w, loc) = (Waiters::default(), Location::caller());
        w.passed(1, (0, 5), loc);
        assert_eq!(w.phase_done(&times(&[9, 5])), None);
        w.passed(1, (1, 7), loc);
        w.passed(1, (1, 8), loc);
        assert_eq!(w.phase_done(&times(&[9, 7])).map(|u| u.0), Some(1), "its last look counts");
        assert_eq!(w.phase_done(&times(&[])), None, "nobody has looked since");
    }

    #[test]
    fn who_was_woken_and_has_not_looked_is_lapped() {
        let (mut w, loc) = (Waiters::default(), Location::caller());
        w.woken(2, loc);
        w.passed(2, (0, 3), loc);
        assert_eq!(w.phase_done(&times(&[0, 0, 3])), None);
        w.woken(2, loc);
        assert_eq!(w.phase_done(&times(&[9, 9, 9])).map(|u| u.0), Some(2));
    }

    #[test]
    fn who_waited_is_heard_of_or_not() {
        let (mut w, loc) = (Waiters::default(), Location::caller());
        w.passed(0, (0, 4), loc);
        w.passed(2, (0, 3), loc);
        let who = |known: &[u32]| w.unheard(0, &times(known)).map(|u| u.0);
        assert_eq!((who(&[0, 0, 2]), who(&[0, 0, 3])), (Some(2), None), "its own wait is its own");
    }

    #[test]
    fn the_state_does_not_grow_with_the_phases() {
        let (mut w, loc) = (Waiters::default(), Location::caller());
        w.woken(1, loc);
        let woken = w.protocol(1);
        w.passed(1, (0, 5), loc);
        let first = w.protocol(1);
        w.phase_done(&times(&[0, 5]));
        w.passed(1, (1, 7), loc);
        assert_eq!(w.protocol(2), first, "a phase later, it is as it was");
        assert!(woken != first && w.protocol(3) != first, "it has yet to look; it has missed one");
        w.phase_done(&times(&[0, 7]));
        assert_ne!(w.protocol(2), first, "nobody is noted");
        assert_eq!(w.protocol(5), w.protocol(99));
    }

    #[test]
    fn phases_are_left_out_only_by_who_knows_that_they_are_over() {
        let (mut w, loc) = (Waiters::default(), Location::caller());
        w.passed(0, (u32::MAX, 1), loc);
        assert_eq!(w.means(0, u32::MAX, 0), Ok(()), "it looks again");
        assert_eq!(w.means(0, 0, 0), Ok(()), "the next");
        assert_eq!(w.means(0, 2, 1), Err(Some(u32::MAX)));
        assert_eq!(w.means(0, 2, 2), Ok(()));
        assert_eq!(w.means(1, 0, 0), Ok(()), "its first wait");
        assert_eq!(w.means(1, 2, 0), Err(None));
    }
}
