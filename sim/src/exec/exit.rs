//! What must be true when a thread, and its CTA, ends.

use super::cluster_barrier;
use crate::engine::cluster::Engine;
use crate::engine::machine::Machine;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::types::loc::Loc;
use crate::types::wait::{Status, Wait};

/// A thread has returned.
pub(crate) fn exit(e: &mut Engine, t: u32) {
    let thread = e.hw.thread_mut(t);
    thread.status = Status::Done;
    thread.wait = Wait::Nothing;
    let (cta, lane) = (thread.cta, thread.lane());
    e.hw.warp_mut(t).exit(lane);
    let last = e.hw.ctas.exit(cta);
    e.live -= 1;
    e.sched.progress = true;
    e.guided(|guide| guide.exit(cta, last));
    e.watched(|watcher| watcher.exits(t));
    cluster_barrier::exit(e, t);
    if let Err((fault, loc)) = left_over(&e.hw, t, last) {
        e.fail_at(Some(t), loc, fault);
    }
}

/// What a thread leaves behind, and what its CTA does if it is the last thread.
fn left_over(hw: &Machine, t: u32, last: bool) -> Result<(), (Fault, Option<Loc>)> {
    let thread = hw.thread(t);
    let at_exit = |what: &str, loc: Loc| {
        let message = format!("a thread returns, and leaves {what}");
        Err((Fault::new(Rule::InFlightAtExit, message), Some(loc)))
    };
    if let Some((name, loc)) = hw.warps[thread.warp].missed(thread.lane()) {
        let message = format!("lane {} returns without {name}", thread.lane());
        let fault = Fault::new(Rule::Diverged, message).against(name, loc);
        return Err((fault, thread.loc));
    }
    if let Some((what, loc)) = hw.copies.left_by_thread(t) {
        return at_exit(what, loc);
    }
    let first = t - thread.index % 128;
    let done = |o: u32| hw.thread(o).status == Status::Done;
    if let Some(loc) = hw.groups[thread.cta][thread.warp_group()].in_flight()
        && (first..first + 128).all(done)
    {
        return at_exit("a wgmma that no wait_group retired", loc);
    }
    if !last {
        return Ok(());
    }
    if let Some((what, loc)) = hw.copies.left_by_cta(thread.cta) {
        return at_exit(what, loc);
    }
    hw.mbarriers.left_over(thread.cta).map_or(Ok(()), Err)
}
