//! Fences: the model orders everything already; the race detector and the clocks take note.

use crate::engine::cluster::Engine;
use crate::race::times::Lane;
use crate::types::scope::Scope;

/// `fence.proxy.async` and `fence.mbarrier_init`: what the thread knows is so in these lanes, too.
pub(crate) fn proxy(e: &mut Engine, t: u32, lanes: &[Lane]) {
    e.edge(|race| race.proxy_fence(t, lanes));
}

/// `fence.acq_rel` and `fence.sc`
pub(crate) fn memory(e: &mut Engine, t: u32, scope: Scope) {
    e.told(t, |race, thread| race.fence(thread, scope));
}

/// Notes a fence in the trace.
pub(crate) fn note(e: &mut Engine, t: u32, name: &'static str) {
    let loc = e.hw.thread(t).loc;
    e.timed(|time| time.fence(t, loc, name));
}
