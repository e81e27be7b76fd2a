//! Programmatic dependent launch: waiting for the grid ahead, and letting the next one start.

use crate::engine::cluster::Engine;
use crate::grid::stream::Start;
use crate::types::wait::Wait;
use std::task::Poll;

/// `griddepcontrol.wait`
pub(crate) fn wait(e: &mut Engine, t: u32) -> Poll<()> {
    e.woken(t);
    e.hw.memory.touch();
    if !e.hw.launches.may_pass() {
        e.sched.behind.push(t);
        e.sleep(t, Wait::GridAhead);
        return Poll::Pending;
    }
    if e.hw.launches.has_others() {
        let known = e.hw.launches.passes();
        e.edge(|race| race.waits_for_grids(t, known));
    }
    Poll::Ready(())
}

/// The grid ahead may have ended: wakes those that wait for it. Whether there were any.
pub(crate) fn look_ahead(e: &mut Engine) -> bool {
    if e.sched.behind.is_empty() || !e.hw.launches.may_pass() {
        return false;
    }
    for t in std::mem::take(&mut e.sched.behind) {
        e.wake(t, 0);
    }
    true
}

/// A CTA executes `griddepcontrol.launch_dependents`, or ends without.
pub(crate) fn signals(e: &mut Engine, cta: usize) {
    if !e.hw.ctas.signals(cta) {
        return;
    }
    e.hw.memory.touch();
    let Some(start) = e.hw.launches.signals() else { return };
    // Whoever has nothing to do may start the dependent grid.
    e.hw.memory.get().wrote();
    if start == Start::Early {
        e.give_way();
    }
}
