//! In what order a launch's clusters run, and for how long each: drawn from the seed as well.
//!
//! A worker starts clusters in an order that is drawn, has some of them under way at a time, and lets
//! them take turns. A cluster that reads nothing of what others write does the same under every order.
//! Clusters see each other in global memory only, so a turn that is drawn ends behind an instruction or a
//! copy that uses it: to end between others would give no other result.

use super::plan::{Kind, Schedule};
use super::rng::Rng;
use crate::grid::stream::Start;
use std::cmp::Reverse;

/// Most clusters of a worker that take turns; those that wait for others are not counted.
const TOGETHER: usize = 8;
/// In a turn, fewer than two to this many instructions and copies use global memory.
const TURN_BITS: usize = 9;
/// Streams of draws, beside those of the clusters, which have their indices.
const STARTS: u64 = 1 << 32;
const TURNS: u64 = 2 << 32;
const GRIDS: u64 = 3 << 32;

/// The order in which clusters are taken up.
pub(crate) fn starts(clusters: u32, seed: u64, schedule: &Schedule) -> Vec<u32> {
    let mut order: Vec<u32> = (0..clusters).collect();
    if schedule.draws() {
        let mut rng = Rng::new(seed, STARTS);
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i + 1));
        }
    }
    order
}

/// When a dependent grid of a run starts.
pub(crate) fn start(seed: u64, schedule: &Schedule, grid: usize) -> Start {
    if !schedule.draws() {
        return Start::Late;
    }
    let mut rng = Rng::new(seed, GRIDS + grid as u64);
    [Start::Late, Start::Drawn, Start::Early][rng.below(3)]
}

/// A cluster under way, to those who choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Runner {
    /// When it was taken up; more than [`FALLEN`] when it has fallen behind since.
    pub rank: u64,
    /// Whether it waits for somebody to write, and nobody has.
    pub waits: bool,
}

/// Ranks of those that have fallen behind all that were not taken up yet.
const FALLEN: u64 = 1 << 32;

/// How long a turn is: it ends when either number is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Length {
    pub instructions: u64,
    /// Instructions and copies that use global memory.
    pub uses: u64,
}

impl Length {
    pub const ENDLESS: Self = Self { instructions: u64::MAX, uses: u64::MAX };

    /// The same, with no more than so many instructions.
    pub fn at_most(self, instructions: u64) -> Self {
        Self { instructions: self.instructions.min(instructions), ..self }
    }
}

/// Who is next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// One that is under way.
    Resume(usize),
    /// The next one.
    Start,
    /// All wait.
    Nobody,
}

/// What a worker draws.
pub(crate) struct Turns {
    rng: Rng,
    kind: Order,
}

enum Order {
    /// As they were taken up, each until it ends or waits.
    Fixed,
    /// So many together, with turns of fewer than two to so many uses of global memory.
    Drawn { together: usize, bits: usize },
    /// The first that can run does; at these instructions, latest first, it falls behind all others.
    ByPriority { changes: Vec<u64>, done: u64, fallen: u64 },
}

impl Turns {
    /// Those of one worker.
    pub fn new(seed: u64, schedule: &Schedule, clusters: u32, worker: usize) -> Self {
        let mut rng = Rng::new(seed, TURNS + worker as u64);
        let kind = match schedule.0 {
            Kind::Random if clusters > 1 => {
                let together = 1 + rng.below(TOGETHER);
                Order::Drawn { together, bits: 1 + rng.below(TURN_BITS) }
            }
            Kind::Pct { depth, steps } if clusters > 1 => {
                let all = steps.saturating_mul(u64::from(clusters)).max(1);
                let mut changes: Vec<u64> = (1..depth).map(|_| 1 + rng.draw() % all).collect();
                changes.sort_unstable_by_key(|&at| Reverse(at));
                Order::ByPriority { changes, done: 0, fallen: FALLEN }
            }
            _ => Order::Fixed,
        };
        Self { rng, kind }
    }

    /// Whose turn it is; `more`: there are some to take up.
    pub fn next(&mut self, runners: &[Runner], more: bool) -> Turn {
        let ready = || runners.iter().enumerate().filter(|(_, r)| !r.waits);
        if let Order::Drawn { together, .. } = self.kind {
            let under_way = ready().count();
            let start = more && under_way < together;
            let choices = under_way + usize::from(start);
            if choices > 0 {
                let at = self.rng.below(choices);
                return ready().nth(at).map_or(Turn::Start, |(i, _)| Turn::Resume(i));
            }
        }
        match ready().min_by_key(|(_, r)| r.rank) {
            Some((i, r)) if !more || r.rank < FALLEN => Turn::Resume(i),
            _ if more => Turn::Start,
            _ => Turn::Nobody,
        }
    }

    /// The length of the turn that begins.
    pub fn length(&mut self) -> Length {
        match &mut self.kind {
            Order::Fixed | Order::Drawn { together: 1, .. } => Length::ENDLESS,
            Order::Drawn { bits, .. } => {
                let most = 1 << self.rng.below(*bits);
                let uses = 1 + self.rng.below(most) as u64;
                Length { uses, ..Length::ENDLESS }
            }
            Order::ByPriority { changes, done, .. } => {
                let left = |at: &u64| at.saturating_sub(*done).max(1);
                let instructions = changes.last().map_or(u64::MAX, left);
                Length { instructions, ..Length::ENDLESS }
            }
        }
    }

    /// A turn is over, after so many instructions; `cut`: it was not the cluster that ended it. Gives
    /// the cluster's rank from here on, if that changes.
    pub fn over(&mut self, instructions: u64, cut: bool) -> Option<u64> {
        let Order::ByPriority { changes, done, fallen } = &mut self.kind else { return None };
        *done += instructions;
        if !cut {
            return None;
        }
        changes.pop();
        *fallen += 1;
        Some(*fallen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn runner(rank: u64, waits: bool) -> Runner {
        Runner { rank, waits }
    }

    #[test]
    fn seeds_take_clusters_up_in_every_order() {
        let orders: BTreeSet<_> = (0..200).map(|s| starts(3, s, &Schedule::random())).collect();
        assert_eq!(orders.len(), 6);
        assert_eq!(starts(3, 5, &Schedule::pct(2, 10)), starts(3, 5, &Schedule::random()));
    }

    #[test]
    fn who_falls_behind_runs_last() {
        let mut turns = Turns::new(0, &Schedule::pct(3, 100), 4, 0);
        let first = turns.length().instructions;
        assert!((1..=400).contains(&first));
        assert_eq!(turns.next(&[runner(1, false), runner(0, true)], true), Turn::Resume(0));
        let rank = turns.over(first, true).expect("a change");
        assert_eq!(turns.next(&[runner(rank, false), runner(0, true)], true), Turn::Start);
        let second = turns.length().instructions;
        assert!(first + second <= 401);
        assert!(turns.over(second, true) > Some(rank));
        assert_eq!(turns.length(), Length::ENDLESS, "all changes are made");
        assert_eq!(turns.over(7, false), None);
        assert_eq!(turns.next(&[runner(rank, false), runner(0, true)], false), Turn::Resume(0));
        assert_eq!(turns.next(&[runner(rank, true), runner(0, true)], false), Turn::Nobody);
    }

    #[test]
    fn turns_of_all_lengths_among_as_many_as_are_drawn() {
        let mut seen = BTreeSet::new();
        for seed in 0..100 {
            let mut turns = Turns::new(seed, &Schedule::random(), 9, 0);
            let mut runners = Vec::new();
            while runners.len() < 9 && turns.next(&runners, true) == Turn::Start {
                runners.push(runner(runners.len() as u64, false));
            }
            let Order::Drawn { together, .. } = turns.kind else { panic!("drawn") };
            assert!((1..=together).contains(&runners.len()));
            seen.insert(together);
            if together > 1 {
                assert!((1..=1 << (TURN_BITS - 1)).contains(&turns.length().uses));
            }
            let all_wait = [runner(0, true); 9];
            assert_eq!(turns.next(&all_wait, true), Turn::Start);
            assert_eq!(turns.next(&all_wait, false), Turn::Nobody);
        }
        assert_eq!(seen.len(), TOGETHER);
    }
}
