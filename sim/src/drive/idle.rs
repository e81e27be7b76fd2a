//! What follows a step: a thread runs, or nothing can run by itself.

use crate::engine::cluster::Engine;
use crate::exec::grid;
use crate::schedule::queue::{PATIENCE, SLEEPERS};
use crate::types::wait::Wait;

/// What the loop does next.
pub(crate) enum Next {
    /// Resume this thread.
    Run(u32),
    /// A copy landed; look again.
    Again,
    /// All threads have returned.
    Finished,
    /// All that live poll global memory, or wait for the grid ahead: only other clusters can change that.
    Polling,
    /// The same, but they have not polled for long: if nothing else can run, they look again.
    PollingYet,
    /// The report is written.
    Failed,
}

/// The thread runs.
pub(crate) fn run(e: &mut Engine, t: u32) -> Next {
    e.resumed(t);
    Next::Run(t)
}

/// Nothing can run by itself: the pollers look again, or this is the end.
pub(crate) fn idle(e: &mut Engine) -> Next {
    if e.live == 0 {
        return Next::Finished;
    }
    if grid::look_ahead(e) {
        return Next::Again;
    }
    e.sched.fruitless = if e.sched.progress { 0 } else { e.sched.fruitless + 1 };
    e.sched.progress = false;
    let behind = !e.sched.behind.is_empty();
    if e.sched.pollers.is_empty() {
        return if behind { Next::Polling } else { stuck(e) };
    }
    let poll = |global| {
        let wait = Wait::Poll { global };
        e.sched.pollers.iter().any(|&t| e.hw.thread(t).wait == wait)
    };
    let all = |wait| e.sched.pollers.iter().all(|&t| e.hw.thread(t).wait == wait);
    let rounds = e.sched.fruitless;
    if (2..PATIENCE).contains(&rounds)
        && rounds.is_power_of_two()
        && all(Wait::Poll { global: true })
    {
        return Next::PollingYet;
    }
    if e.sched.fruitless > if poll(false) { SLEEPERS } else { PATIENCE } {
        let global = behind || e.sched.looks.global || poll(true);
        e.sched.fruitless = 0;
        return if global { Next::Polling } else { stuck(e) };
    }
    for t in std::mem::take(&mut e.sched.pollers) {
        e.time_out(t);
    }
    Next::Again
}

fn stuck(e: &mut Engine) -> Next {
    e.report = Some(e.deadlock());
    Next::Failed
}
