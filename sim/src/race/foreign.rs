//! What a thread knows of other clusters, which have clocks of their own: of each the last release that
//! the thread has acquired, directly or through others; and of grids that have ended, everything.

use super::times::{self, Lane, Times, at};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// What is known of other clusters, if anything is.
pub(crate) type Foreign = Option<Arc<Others>>;

/// What is known of other clusters.
#[derive(Clone, Default, Debug)]
pub(crate) struct Others {
    /// By cluster: its threads' times, in the lanes [`Lane::Ordered`] and [`Lane::AsyncGlobal`].
    clusters: BTreeMap<u32, [Times; 2]>,
    /// Clusters that had ended, with all that they wrote.
    ended: Vec<Range<u32>>,
}

fn slot(lane: Lane) -> usize {
    usize::from(lane == Lane::AsyncGlobal)
}

/// Adds what `b` knows to `a`.
pub(crate) fn join(a: &mut Foreign, b: &Foreign) {
    let Some(from) = b else { return };
    let Some(to) = a else {
        a.clone_from(b);
        return;
    };
    if Arc::ptr_eq(to, from) {
        return;
    }
    for (&cluster, times) in &from.clusters {
        learn(a, cluster, times);
    }
    for clusters in &from.ended {
        learn_end(a, clusters);
    }
}

/// Adds what is known of one cluster.
pub(crate) fn learn(a: &mut Foreign, cluster: u32, times: &[Times; 2]) {
    let known = Arc::make_mut(a.get_or_insert_default()).clusters.entry(cluster).or_default();
    for (k, t) in known.iter_mut().zip(times) {
        *k = times::join(k, t);
    }
}

/// Adds that clusters have ended.
pub(crate) fn learn_end(a: &mut Foreign, clusters: &Range<u32>) {
    if !clusters.is_empty() && !a.as_ref().is_some_and(|a| a.ended.contains(clusters)) {
        Arc::make_mut(a.get_or_insert_default()).ended.push(clusters.clone());
    }
}

/// A fence of the asynchronous proxy: what is known is visible to it as well.
pub(crate) fn fence(a: &mut Foreign) {
    let Some(known) = a else { return };
    if known.clusters.is_empty() {
        return;
    }
    for [ordered, visible] in Arc::make_mut(known).clusters.values_mut() {
        visible.clone_from(ordered);
    }
}

/// Whether all that a cluster did is known.
pub(crate) fn knows_end(foreign: &Foreign, cluster: u32) -> bool {
    foreign.as_ref().is_some_and(|f| f.ended.iter().any(|e| e.contains(&cluster)))
}

/// Whether what an agent of another cluster did is known.
pub(crate) fn knows(foreign: &Foreign, lane: Lane, cluster: u32, agent: u32, time: u32) -> bool {
    knows_end(foreign, cluster)
        || foreign
            .as_ref()
            .and_then(|f| f.clusters.get(&cluster))
            .is_some_and(|times| at(&times[slot(lane)], agent) >= time)
}

/// What is known of a cluster in particular.
pub(crate) fn of(foreign: &Foreign, cluster: u32) -> Option<[Times; 2]> {
    foreign.as_ref()?.clusters.get(&cluster).cloned()
}
