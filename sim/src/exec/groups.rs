//! The bulk groups of a thread: commit, and wait.

use crate::engine::cluster::Engine;
use crate::race::agents::Agent;
use crate::types::wait::Wait;
use std::task::Poll;

/// `cp.async.bulk.commit_group`
pub(crate) fn commit(e: &mut Engine, t: u32) {
    e.hw.copies.bulk[t as usize].commit();
}

/// `cp.async.bulk.wait_group`, or `.read`.
pub(crate) fn wait(e: &mut Engine, t: u32, left: u32, read: bool) -> Poll<()> {
    e.woken(t);
    let groups = &mut e.hw.copies.bulk[t as usize];
    let covered = groups.covered(left);
    if !groups.wait(left, read) {
        e.sleep(t, Wait::BulkGroups { left, read });
        return Poll::Pending;
    }
    e.guided(|guide| guide.order.groups(t, covered, read));
    let loc = e.hw.thread(t).loc;
    e.timed(|time| time.bulk_waited(t, loc, covered, left, read));
    e.edge(|race| {
        race.learns(t, Agent::BulkReads(t), covered);
        if !read {
            race.learns(t, Agent::BulkWrites(t), covered);
        }
    });
    Poll::Ready(())
}

/// Wakes a thread that waits for its bulk groups, to look at them again.
pub(crate) fn recheck(e: &mut Engine, t: u32) {
    if e.hw.thread(t).sleeps_on(|wait| matches!(wait, Wait::BulkGroups { .. })) {
        e.wake(t, 0);
    }
}
