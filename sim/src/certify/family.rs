//! The runs of a family: each number of steps with all its schedules.

use super::certificate::Refusal;
use super::trial::Trial;
use crate::config::{Config, Stats};
use crate::explore::{Explored, over_tree};
use crate::protocol::record::{Place, Record, Recorder};
use crate::protocol::watcher::mix;
use crate::schedule::plan::Home;
use crate::walk::tree::Walk;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A run of the family, with the record of each cluster.
pub(super) struct Member {
    pub records: BTreeMap<Place, Record>,
    /// Hashes of its protocol states.
    pub states: BTreeSet<u64>,
    pub explored: Explored,
}

/// Explores the members with up to `bound` steps that are missing, side by side.
pub(super) fn explore_up_to<E: Send + Sync>(
    members: &mut Vec<Member>,
    bound: u32,
    config: &Config,
    limit: u64,
    run: &(impl Fn(&Config, Trial) -> Result<Stats, E> + Sync),
) -> Result<(), Refusal<E>> {
    // The marks of the longest run are the ones that are looked at.
    members.iter_mut().flat_map(|m| m.records.values_mut()).for_each(|r| r.marks = Vec::new());
    let next = AtomicU32::new(members.len() as u32 + 1);
    let results = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let steps = next.fetch_add(1, Ordering::Relaxed);
            if steps > bound {
                return;
            }
            let trial = Trial { steps, data: 0 };
            let mut result = explore_one(config, limit, trial, Recorder::default(), run);
            match &mut result {
                Ok(member) if steps < bound => {
                    member.records.values_mut().for_each(|r| r.marks = Vec::new());
                }
                Ok(_) => {}
                // More steps are of no use.
                Err(_) => next.store(bound + 1, Ordering::Relaxed),
            }
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(steps, result);
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|s| {
        for _ in 0..cores.min(bound as usize - members.len()) {
            s.spawn(work);
        }
    });
    for (steps, result) in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let member = result?;
        if let Some(one) = members.first()
            && !one.records.keys().eq(member.records.keys())
        {
            return Err(Refusal::Grid { steps });
        }
        members.push(member);
    }
    Ok(())
}

/// Explores one member: there must be one trace, and no finding.
pub(super) fn explore_one<E>(
    config: &Config,
    limit: u64,
    trial: Trial,
    recorder: Recorder,
    run: &impl Fn(&Config, Trial) -> Result<Stats, E>,
) -> Result<Member, Refusal<E>> {
    let steps = trial.steps;
    let recorder = Arc::new(recorder);
    let home = Home::new(Walk::Reduced, Some(Arc::clone(&recorder)));
    let explored = over_tree(config, &home, limit, &|config| {
        // Only the last run counts: the ones before it may not have known all choices.
        recorder.take();
        run(config, trial)
    });
    let explored = explored.map_err(|finding| Refusal::Finding { steps, finding })?;
    if !explored.complete || explored.schedules != 1 {
        let Explored { schedules, complete, .. } = explored;
        return Err(Refusal::Traces { steps, schedules, complete });
    }
    let records = recorder.take();
    if records.is_empty() {
        return Err(Refusal::Nothing { steps });
    }
    if records.len() > 1
        && let Some((name, line)) = records.values().find_map(|r| r.shares.clone())
    {
        return Err(Refusal::Clusters { name, line });
    }
    let marks = records.values().flat_map(|r| &r.marks);
    let states = marks.map(|mark| mark.state.iter().copied().fold(0, mix)).collect();
    Ok(Member { records, states, explored })
}
