//! What a thread knows of other clusters, which have clocks of their own: of each the last release that
//! the thread has acquired, directly or through others.

use super::times::{self, Lane, Times, at};
use std::collections::BTreeMap;
use std::sync::Arc;

/// By cluster: its threads' times, in the lanes [`Lane::Ordered`] and [`Lane::AsyncGlobal`].
pub(crate) type Foreign = Option<Arc<BTreeMap<u32, [Times; 2]>>>;

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
    for (&cluster, times) in from.iter() {
        learn(a, cluster, times);
    }
}

/// Adds what is known of one cluster.
pub(crate) fn learn(a: &mut Foreign, cluster: u32, times: &[Times; 2]) {
    let known = Arc::make_mut(a.get_or_insert_default()).entry(cluster).or_default();
    for (k, t) in known.iter_mut().zip(times) {
        *k = times::join(k, t);
    }
}

/// A fence of the asynchronous proxy: what is known is visible to it as well.
pub(crate) fn fence(a: &mut Foreign) {
    let Some(known) = a else { return };
    for [ordered, visible] in Arc::make_mut(known).values_mut() {
        visible.clone_from(ordered);
    }
}

/// Whether what an agent of another cluster did is known.
pub(crate) fn knows(foreign: &Foreign, lane: Lane, cluster: u32, agent: u32, time: u32) -> bool {
    foreign
        .as_ref()
        .and_then(|f| f.get(&cluster))
        .is_some_and(|times| at(&times[slot(lane)], agent) >= time)
}
