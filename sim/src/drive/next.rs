//! The scheduler's loop: what a cluster does next.

use super::{guided, idle, timed};
use crate::engine::cluster::Engine;
use crate::exec::landing;

pub(crate) use super::idle::Next;

/// Decides what happens next.
pub(crate) fn next(e: &mut Engine) -> Next {
    if e.report.is_some() {
        return Next::Failed;
    }
    if e.guide.is_some() {
        return guided::next(e);
    }
    if timed::leads(e) {
        return timed::next(e);
    }
    drawn(e)
}

/// What the seed says.
fn drawn(e: &mut Engine) -> Next {
    let copies = e.hw.copies.in_flight();
    if e.sched.ready.is_empty() && copies.is_empty() {
        return idle::idle(e);
    }
    if let Some(place) = e.sched.lands(copies.iter().map(|c| c.priority)) {
        landing::land(e, place);
        return Next::Again;
    }
    if let Some(t) = e.sched.gives_up() {
        e.time_out(t);
    }
    let Some(t) = e.sched.pick() else { return Next::Again };
    idle::run(e, t)
}
