//! A cluster whose schedule goes by time: whoever is earliest is next.

use super::idle::{self, Next};
use crate::engine::cluster::Engine;
use crate::exec::landing;

/// Whether the schedule goes by time.
pub(crate) fn leads(e: &Engine) -> bool {
    e.time.as_ref().is_some_and(|time| time.leads)
}

/// Whether the thread that runs has come further than others.
pub(crate) fn runs_ahead(e: &Engine, t: u32) -> bool {
    let lands = e.hw.copies.in_flight().iter().map(|copy| copy.landing.at);
    e.time.as_ref().is_some_and(|time| time.ahead(t, &e.sched.ready, lands))
}

/// The earliest thread or copy is next.
pub(crate) fn next(e: &mut Engine) -> Next {
    let Some(time) = &e.time else { return Next::Again };
    let ready = e.sched.ready.iter().map(|&t| (time.clock(t), t)).min();
    let copies = e.hw.copies.in_flight().iter().enumerate();
    let copy = copies.map(|(i, c)| (c.landing.at, c.landing.copy, i)).min();
    match (ready, copy) {
        (Some((now, _)), Some((lands, _, i))) if lands <= now => landing::land(e, i),
        (None, Some((_, _, i))) => landing::land(e, i),
        (Some((_, t)), _) => {
            e.sched.take(t);
            return idle::run(e, t);
        }
        (None, None) => return idle::idle(e),
    }
    Next::Again
}
