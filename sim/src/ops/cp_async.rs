//! `cp.async`.

use crate::drive::current::{block, op};
use crate::exec::cp_async;

/// `cp.async.cg.shared.global`, 16 bytes
#[track_caller]
pub fn copy_16(dst: u32, src: *const u8) {
    op("cp.async", dst, |e, t| cp_async::copy(e, t, dst, src as u64, 16));
}

/// `cp.async.cg.shared.global`, 16 bytes, of which `bytes` are read and the others zero
#[track_caller]
pub fn copy_16_zfill(dst: u32, src: *const u8, bytes: u32) {
    op("cp.async", dst, |e, t| cp_async::copy(e, t, dst, src as u64, bytes));
}

/// `cp.async.commit_group`
#[track_caller]
pub fn commit_group() {
    op("cp.async.commit_group", 0, |e, t| {
        cp_async::commit(e, t);
        Ok(())
    });
}

/// `cp.async.wait_group N`
#[track_caller]
pub fn wait_group<const N: u32>() {
    block("cp.async.wait_group", N, |e, t| Ok(cp_async::wait(e, t, N)));
}
