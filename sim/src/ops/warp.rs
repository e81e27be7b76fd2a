//! Warp-wide operations: all lanes meet, exchange, and go on.

use crate::drive::current::{block, peek};
use crate::exec::warp;
use crate::warp::meeting::Meet;

/// `%laneid`
pub fn lane_id() -> u32 {
    peek(|e, t| e.hw.thread(t).lane())
}

/// `%tid.x / 32`, from lane 0
#[track_caller]
pub fn warp_id() -> u32 {
    shfl_idx(super::thread::thread_idx_x() / 32, 0)
}

/// `bar.warp.sync`
#[track_caller]
pub fn sync_warp(mask: u32) {
    if mask == u32::MAX {
        meet("bar.warp.sync", Meet::Sync, 0, 0);
    } else {
        block("bar.warp.sync", mask, |e, t| warp::sync(e, t, mask));
    }
}

#[track_caller]
fn meet(name: &'static str, what: Meet, v: u32, operand: u32) -> u32 {
    block(name, operand, |e, t| warp::meet(e, t, (name, what), [v, 0, 0, 0], operand))[0]
}

/// `elect.sync`: true for one lane, the same each time. Random schedules draw which one, by the seed.
#[track_caller]
pub fn elect_one() -> bool {
    meet("elect.sync", Meet::Elect, 0, 0) != 0
}

/// `shfl.sync.idx`
#[track_caller]
pub fn shfl_idx(v: u32, lane: u32) -> u32 {
    meet("shfl.sync.idx", Meet::ShflIdx, v, lane)
}

/// `shfl.sync.bfly`
#[track_caller]
pub fn shfl_xor(v: u32, mask: u32) -> u32 {
    meet("shfl.sync.bfly", Meet::ShflXor, v, mask)
}

/// `shfl.sync.up`
#[track_caller]
pub fn shfl_up(v: u32, d: u32) -> u32 {
    meet("shfl.sync.up", Meet::ShflUp, v, d)
}

/// `shfl.sync.down`
#[track_caller]
pub fn shfl_down(v: u32, d: u32) -> u32 {
    meet("shfl.sync.down", Meet::ShflDown, v, d)
}

/// `vote.sync.any`
#[track_caller]
pub fn vote_any(p: bool) -> bool {
    ballot(p) != 0
}

/// `vote.sync.all`
#[track_caller]
pub fn vote_all(p: bool) -> bool {
    ballot(!p) == 0
}

/// `vote.sync.ballot`
#[track_caller]
pub fn ballot(p: bool) -> u32 {
    meet("vote.sync", Meet::Ballot, u32::from(p), 0)
}

/// `redux.sync.max.u32`
#[track_caller]
pub fn redux_max_u32(v: u32) -> u32 {
    meet("redux.sync.max", Meet::Max, v, 0)
}
