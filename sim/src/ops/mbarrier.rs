//! mbarriers.

use crate::barrier::mbarrier::MBarrier;
use crate::barrier::mbarriers::{Arrive, Want};
use crate::drive::current::{block_for, op};
use crate::exec::{cp_async, mbarrier};
use crate::types::scope::Scope;

/// `mbarrier.init`
#[track_caller]
pub fn init(bar: u32, count: u32) {
    op("mbarrier.init", bar, |e, t| mbarrier::init(e, t, bar, count));
}

/// `mbarrier.inval`
#[track_caller]
pub fn inval(bar: u32) {
    op("mbarrier.inval", bar, |e, t| mbarrier::inval(e, t, bar));
}

#[track_caller]
fn arrive_own(name: &'static str, bar: u32, n: u32, kind: Arrive, tx: Option<u32>) -> u64 {
    op(name, bar, |e, t| {
        let at = e.hw.own_bar(t, bar)?;
        mbarrier::thread_arrives(e, t, at, (n, kind, tx), Scope::Cta)
    })
}

#[track_caller]
fn arrive_at(name: &'static str, rbar: u32, n: u32, tx: Option<u32>, scope: Scope) {
    op(name, rbar, |e, t| {
        let at = e.hw.remote_bar(t, rbar)?;
        mbarrier::thread_arrives(e, t, at, (n, Arrive::Plain, tx), scope).map(|_| ())
    });
}

/// `mbarrier.arrive.shared::cta`
#[track_caller]
pub fn arrive(bar: u32) -> u64 {
    arrive_own("mbarrier.arrive", bar, 1, Arrive::Plain, None)
}

/// The same with a count
#[track_caller]
pub fn arrive_count(bar: u32, n: u32) -> u64 {
    arrive_own("mbarrier.arrive", bar, n, Arrive::Plain, None)
}

/// `mbarrier.arrive.noComplete`
#[track_caller]
pub fn arrive_no_complete(bar: u32, n: u32) -> u64 {
    arrive_own("mbarrier.arrive.noComplete", bar, n, Arrive::NoComplete, None)
}

/// `mbarrier.arrive_drop`
#[track_caller]
pub fn arrive_drop(bar: u32) -> u64 {
    arrive_own("mbarrier.arrive_drop", bar, 1, Arrive::Drop, None)
}

/// The same with a count
#[track_caller]
pub fn arrive_drop_count(bar: u32, n: u32) -> u64 {
    arrive_own("mbarrier.arrive_drop", bar, n, Arrive::Drop, None)
}

/// `mbarrier.arrive.expect_tx.shared::cta`
#[track_caller]
pub fn arrive_expect_tx(bar: u32, bytes: u32) -> u64 {
    arrive_own("mbarrier.arrive.expect_tx", bar, 1, Arrive::Plain, Some(bytes))
}

/// `mbarrier.expect_tx.relaxed.cta.shared::cta`
#[track_caller]
pub fn expect_tx(bar: u32, bytes: u32) {
    op("mbarrier.expect_tx", bar, |e, t| {
        let at = e.hw.own_bar(t, bar)?;
        mbarrier::expect(e, t, at, bytes)
    });
}

/// `mbarrier.complete_tx.relaxed.cta.shared::cta`
#[track_caller]
pub fn complete_tx(bar: u32, bytes: u32) {
    op("mbarrier.complete_tx", bar, |e, t| {
        let at = e.hw.own_bar(t, bar)?;
        mbarrier::complete_tx(e, t, at, bytes)
    });
}

/// `mbarrier.arrive.shared::cluster`
#[track_caller]
pub fn arrive_remote(rbar: u32) {
    arrive_at("mbarrier.arrive", rbar, 1, None, Scope::Cta);
}

/// The same with a count
#[track_caller]
pub fn arrive_remote_count(rbar: u32, n: u32) {
    arrive_at("mbarrier.arrive", rbar, n, None, Scope::Cta);
}

/// `mbarrier.arrive.release.cluster.shared::cluster`
#[track_caller]
pub fn arrive_remote_release_cluster(rbar: u32) {
    arrive_at("mbarrier.arrive.release.cluster", rbar, 1, None, Scope::Cluster);
}

/// `mbarrier.arrive.expect_tx.shared::cluster`
#[track_caller]
pub fn arrive_expect_tx_remote(rbar: u32, bytes: u32) {
    arrive_at("mbarrier.arrive.expect_tx", rbar, 1, Some(bytes), Scope::Cta);
}

/// `mbarrier.expect_tx.relaxed.cluster.shared::cluster`
#[track_caller]
pub fn expect_tx_remote(rbar: u32, bytes: u32) {
    op("mbarrier.expect_tx", rbar, |e, t| {
        let at = e.hw.remote_bar(t, rbar)?;
        mbarrier::expect(e, t, at, bytes)
    });
}

/// `mbarrier.complete_tx.relaxed.cluster.shared::cluster`
#[track_caller]
pub fn complete_tx_remote(rbar: u32, bytes: u32) {
    op("mbarrier.complete_tx", rbar, |e, t| {
        let at = e.hw.remote_bar(t, rbar)?;
        mbarrier::complete_tx(e, t, at, bytes)
    });
}

/// Waits or polls. A poll may sleep while others run; it gives up when the scheduler likes, at the
/// latest when nothing else can happen.
#[track_caller]
fn wait(name: &'static str, bar: u32, want: Want, poll: bool, scope: Scope) -> bool {
    block_for(name, bar, Some((want, poll)), |e, t| mbarrier::wait(e, t, bar, (want, poll), scope))
}

/// `mbarrier.test_wait`
#[track_caller]
pub fn test_wait(bar: u32, token: u64) -> bool {
    wait("mbarrier.test_wait", bar, Want::Token(token), true, Scope::Cta)
}

/// `mbarrier.test_wait.parity`
#[track_caller]
pub fn test_wait_parity(bar: u32, parity: u32) -> bool {
    wait("mbarrier.test_wait", bar, Want::Parity(parity), true, Scope::Cta)
}

/// `mbarrier.test_wait.parity.acquire.cluster`
#[track_caller]
pub fn test_wait_parity_cluster(bar: u32, parity: u32) -> bool {
    wait("mbarrier.test_wait", bar, Want::Parity(parity), true, Scope::Cluster)
}

/// `mbarrier.try_wait`
#[track_caller]
pub fn try_wait(bar: u32, token: u64) -> bool {
    wait("mbarrier.try_wait", bar, Want::Token(token), true, Scope::Cta)
}

/// `mbarrier.try_wait.parity`
#[track_caller]
pub fn try_wait_parity(bar: u32, parity: u32) -> bool {
    wait("mbarrier.try_wait", bar, Want::Parity(parity), true, Scope::Cta)
}

/// `mbarrier.try_wait.parity` with a time limit, which the model does not measure
#[track_caller]
pub fn try_wait_parity_for(bar: u32, parity: u32, _ns: u32) -> bool {
    wait("mbarrier.try_wait", bar, Want::Parity(parity), true, Scope::Cta)
}

/// A loop over `mbarrier.try_wait.parity`: sleeps until the phase has completed
#[track_caller]
pub fn wait_parity(bar: u32, parity: u32) {
    wait("mbarrier wait", bar, Want::Parity(parity), false, Scope::Cta);
}

/// The same with `.acquire.cluster`
#[track_caller]
pub fn wait_parity_cluster(bar: u32, parity: u32) {
    wait("mbarrier wait", bar, Want::Parity(parity), false, Scope::Cluster);
}

/// `mbarrier.pending_count`
pub fn pending_count(token: u64) -> u32 {
    MBarrier::pending_of(token)
}

/// `cp.async.mbarrier.arrive.noinc.shared::cta`
#[track_caller]
pub fn cp_async_arrive_noinc(bar: u32) {
    op("cp.async.mbarrier.arrive.noinc", bar, |e, t| cp_async::arrive(e, t, bar));
}
