//! A statement about a kernel for any number of steps, from runs with few.
//!
//! `docs/certificates.md` has the argument. In short: the exhaustive walk shows that all schedules of each
//! run are one trace; the records of the protocol show that longer runs repeat a body, from the same
//! protocol state; and the clocks show that no thread is so far ahead of another that it could meet what
//! no run has shown.

mod certificate;
mod family;
mod trial;

pub use certificate::{Certificate, Refusal};
pub use trial::Trial;

use crate::config::{Config, Stats};
use crate::protocol::period::{Period, find};
use crate::protocol::record::{Knowledge, Place, Record, Recorder};
use family::{Member, explore_one, explore_up_to};
use std::collections::{BTreeMap, BTreeSet};

/// How far [`certify`] goes before it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of steps.
    pub steps: u32,
    /// Runs for each number of steps.
    pub runs: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 128, runs: 64 }
    }
}

/// The smallest bound of a certificate: a kernel whose period is short is run with as many steps.
const LEAST_BOUND: u32 = 16;
/// Between two looks for a period, the bound grows by so many steps.
const STRIDE: u32 = 4;

/// Certifies that a kernel has one trace and breaks no rule, for any number of steps.
///
/// `run` sets up memory, launches the kernel with the trial's number of steps and its data, checks the
/// result, and must do the same every time. It is called with 1, 2, 3, … steps, side by side on the cores.
///
/// ```
/// use warpipe_sim::{Config, GlobalMemory, Grid, Limits, certify, launch, ops};
///
/// // Thread 0 fills a slot in each step, and thread 32 empties it.
/// let certificate = certify(&Config::default(), &Limits::default(), |config, trial| {
///     let grid = Grid { grid: [1; 3], block: [64, 1, 1], cluster: [1; 3], min_ctas: 1, smem_bytes: 128, name: "slot" };
///     launch(config, &GlobalMemory::new(), &grid, &|| {
///         let base = ops::shared::dynamic_base();
///         let (full, empty, slot) = (base, base + 8, base + 16);
///         let thread = ops::thread::thread_idx_x();
///         if thread == 0 {
///             ops::mbarrier::init(full, 1);
///             ops::mbarrier::init(empty, 1);
///         }
///         ops::barrier::sync_unaligned(0, 64);
///         for step in 0..trial.steps {
///             if thread == 0 {
///                 ops::mbarrier::wait_parity(empty, (step & 1) ^ 1);
///                 ops::shared::st(slot, step);
///                 ops::mbarrier::arrive(full);
///             }
///             if thread == 32 {
///                 ops::mbarrier::wait_parity(full, step & 1);
///                 let _value: u32 = ops::shared::ld(slot);
///                 ops::mbarrier::arrive(empty);
///             }
///         }
///     })
/// });
/// // Two steps later the parities are the same again.
/// assert_eq!(certificate.unwrap().period, 2);
/// ```
pub fn certify<E: Send + Sync>(
    config: &Config,
    limits: &Limits,
    run: impl Fn(&Config, Trial) -> Result<Stats, E> + Sync,
) -> Result<Certificate, Refusal<E>> {
    let mut members: Vec<Member> = Vec::new();
    let mut bound = LEAST_BOUND.min(limits.steps);
    let mut why = None;
    loop {
        explore_up_to(&mut members, bound, config, limits.runs, &run)?;
        if let Some((steps, periods)) = period(&members) {
            let probe = probe(&members, &periods);
            let trial = Trial { steps: bound, data: 0 };
            let probed = explore_one(config, limits.runs, trial, probe, &run)?;
            match leads(&probed.records, &periods, bound) {
                Ok(lead) => {
                    let other = Trial { data: 1, ..trial };
                    let other = explore_one(config, limits.runs, other, Recorder::default(), &run)?;
                    same_protocol(&members, &other, bound)?;
                    return Ok(write(&members, &periods, (steps, lead)));
                }
                Err(refusal) => why = Some(refusal),
            }
        }
        if bound >= limits.steps {
            return Err(why.unwrap_or(Refusal::NoPeriod { bound }));
        }
        bound = (bound + STRIDE).min(limits.steps);
    }
}

/// The smallest period, in steps, that all clusters have, and what it is in the words of each.
fn period(members: &[Member]) -> Option<(usize, BTreeMap<Place, Period>)> {
    let last = &members.last()?.records;
    (1..members.len()).find_map(|steps| {
        let of = |(place, record): (&Place, &Record)| {
            let words: Vec<&[u64]> = members.iter().map(|m| &*m.records[place].word).collect();
            Some((*place, find(&words, &record.marks, steps)?))
        };
        Some((steps, last.iter().map(of).collect::<Option<_>>()?))
    })
}

/// Asks for the clocks at the ends of all bodies.
fn probe(members: &[Member], periods: &BTreeMap<Place, Period>) -> Recorder {
    let ends = |p: &Period| (1..=p.bodies).map(|n| p.end(n)).collect();
    debug_assert!(!members.is_empty());
    Recorder::probe(periods.iter().map(|(place, p)| (*place, ends(p))).collect())
}

/// How many periods a thread can be ahead of another, in the longest run.
fn leads<E>(
    records: &BTreeMap<Place, Record>,
    periods: &BTreeMap<Place, Period>,
    bound: u32,
) -> Result<usize, Refusal<E>> {
    let mut most = 0;
    for (place, period) in periods.iter().filter(|(_, p)| p.body > 0) {
        let record = &records[place];
        let body = record.tags.get(period.cut..period.end(1)).unwrap_or_default();
        if body.iter().any(|tag| tag.name.starts_with("setmaxnreg")) {
            return Err(Refusal::Registers { kernel: record.kernel.clone() });
        }
        let active: BTreeSet<u32> = body.iter().filter_map(|tag| tag.thread).collect();
        let after = |n: usize| record.known.get(&period.end(n));
        let Some(one) = after(1) else { return Err(Refusal::NoPeriod { bound }) };
        let knows = |n: &usize| after(*n).is_some_and(|now| behind(one, now, &active).is_none());
        let Some(n) = (2..=period.bodies).find(knows) else {
            let last = after(period.bodies).unwrap_or(one);
            let (ahead, behind) = behind(one, last, &active).unwrap_or_default();
            let kernel = record.kernel.clone();
            return Err(Refusal::Lead { kernel, ahead, behind, bound });
        };
        most = most.max(n - 1);
    }
    Ok(most)
}

/// Whether each thread of the body knows, `now`, all that had happened at `then`: gives one that does
/// not, and the thread that it knows too little of. Threads without a part in the body need not have
/// done more than all know.
fn behind(then: &Knowledge, now: &Knowledge, active: &BTreeSet<u32>) -> Option<(u32, u32)> {
    let first = now.clocks.get(*active.first()? as usize)?;
    for &ahead in active {
        let past = &now.clocks[ahead as usize];
        for (agent, &(copy, queue)) in then.copies.iter().enumerate() {
            let agent = agent as u32;
            let done = then.clocks[agent as usize].get(agent);
            // The last count of each agent is of what it has done since it last released something.
            let known = match (copy, queue) {
                (false, _) if !active.contains(&agent) => past.get(agent) == first.get(agent),
                (false, _) => past.get(agent) >= done,
                (true, true) => past.get(agent) >= done.saturating_sub(1),
                // What a bulk store writes to global memory is no part of the protocol.
                (true, false) => past.get(agent) >= done.min(1),
            };
            if !known {
                return Some((ahead, agent));
            }
        }
    }
    None
}

/// Whether other data made no difference.
fn same_protocol<E>(members: &[Member], other: &Member, bound: u32) -> Result<(), Refusal<E>> {
    let last = &members[members.len() - 1].records;
    let same = last.len() == other.records.len()
        && last.iter().all(|(place, r)| other.records.get(place).is_some_and(|o| o.word == r.word));
    if same { Ok(()) } else { Err(Refusal::Data { steps: bound }) }
}

fn write(
    members: &[Member],
    periods: &BTreeMap<Place, Period>,
    (period, lead): (usize, usize),
) -> Certificate {
    let last = &members[members.len() - 1];
    let states: BTreeSet<u64> = members.iter().flat_map(|m| m.states.iter().copied()).collect();
    let mut kernels: Vec<String> = last.records.values().map(|r| r.kernel.clone()).collect();
    kernels.dedup();
    let first = periods.values().map(|p| p.first).max().unwrap_or(0) as u32 + 1;
    Certificate {
        kernel: kernels.join(", "),
        clusters: last.records.len(),
        threads: last.records.values().map(|r| r.threads).max().unwrap_or(0),
        period: period as u32,
        first,
        bound: members.len() as u32,
        runs: members.iter().map(|m| m.explored.runs).sum(),
        states: states.len(),
        events: periods.values().map(|p| p.body).max().unwrap_or(0),
        lead: lead as u32,
        barriers: last.records.values().next().map_or_else(Vec::new, |r| {
            r.barriers.iter().map(|(name, stages)| (name.clone(), *stages)).collect()
        }),
        shares: last
            .records
            .values()
            .find_map(|r| r.shares.clone())
            .map(|s| format!("{} at {}", s.0, s.1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::clock::{Clock, Past};

    /// Clocks of agents, of which each has done so many steps, and knows these of the others.
    fn knowledge(clocks: &[&[u32]], copies: &[(bool, bool)]) -> Knowledge {
        let past = |(agent, counts): (usize, &&[u32])| {
            let mut others = Clock::default();
            (0..).zip(*counts).for_each(|(other, &count)| others.raise(other, count));
            let agent = agent as u32;
            Past::new(agent, others.get(agent), others.into())
        };
        Knowledge { clocks: clocks.iter().enumerate().map(past).collect(), copies: copies.to_vec() }
    }

    #[test]
    fn clocks_show_who_is_ahead() {
        let active = BTreeSet::from([0, 1]);
        let threads = [(false, false); 2];
        let then = knowledge(&[&[3, 2], &[2, 3]], &threads);
        // Both know three steps of each other.
        assert_eq!(behind(&then, &knowledge(&[&[6, 3], &[3, 6]], &threads), &active), None);
        // Thread 1 knows only two of thread 0's.
        let late = knowledge(&[&[6, 3], &[2, 6]], &threads);
        assert_eq!(behind(&then, &late, &active), Some((1, 0)));
    }

    #[test]
    fn an_idle_thread_may_lag_and_a_copy_may_not() {
        let active = BTreeSet::from([0, 1]);
        let kinds = [(false, false), (false, false), (false, false), (true, false)];
        let then = knowledge(&[&[1], &[0, 1], &[0, 0, 9], &[0, 0, 0, 2]], &kinds);
        // Both know one step of the idle thread 2, which has done nine, and that the copy has landed.
        let now = |idle: u32, copy: u32| {
            knowledge(&[&[5, 5, 1, 1], &[5, 5, idle, copy], &[0, 0, 9], &[0, 0, 0, 2]], &kinds)
        };
        assert_eq!(behind(&then, &now(1, 1), &active), None);
        assert_eq!(behind(&then, &now(0, 1), &active), Some((1, 2)), "they know different things");
        assert_eq!(behind(&then, &now(1, 0), &active), Some((1, 3)), "it may be in flight");
    }
}
