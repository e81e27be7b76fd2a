//! Warp-group matrix multiply-accumulate.

use crate::drive::current::{block, op};
use crate::exec::{warp, wgmma};
use crate::wgmma::groups::Mma;
pub use crate::wgmma::operand::OperandType;

/// `wgmma.fence.sync.aligned`
#[track_caller]
pub fn fence() {
    op("wgmma.fence", 0, |e, t| warp::aligned(e, t, "wgmma.fence"));
}

/// `wgmma.commit_group.sync.aligned`
#[track_caller]
pub fn commit_group() {
    op("wgmma.commit_group", 0, wgmma::commit);
}

/// `wgmma.wait_group.sync.aligned N`
#[track_caller]
pub fn wait_group<const N: u32>() {
    op("wgmma.wait_group", N, |e, t| wgmma::wait(e, t, N));
}

/// `wgmma.mma_async.sync.aligned.m64nNk16.f32.T.T`, N twice the length of `d`
#[track_caller]
pub fn mma_ss(d: &mut [f32], a: u64, b: u64, scale_d: bool, dtype: OperandType) {
    let mma = Mma { a: Some(a), b, n: 2 * d.len() as u32, scale_d, dtype };
    block("wgmma.mma_async", 0, |e, t| wgmma::mma(e, t, d, mma, [0; 4]));
}

/// The same with A from registers
#[track_caller]
pub fn mma_rs(d: &mut [f32], a: [u32; 4], b: u64, scale_d: bool, dtype: OperandType) {
    let mma = Mma { a: None, b, n: 2 * d.len() as u32, scale_d, dtype };
    block("wgmma.mma_async", 0, |e, t| wgmma::mma(e, t, d, mma, a));
}
