//! Warp-group matrix multiply-accumulate.

use crate::cluster::Cluster;
use crate::current::{block, op};
use crate::warpgroup::Mma;

/// The element type of A and B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperandType {
    /// `.bf16`
    Bf16,
    /// `.f16`
    F16,
}

/// `wgmma.fence.sync.aligned`
#[track_caller]
pub fn fence() {
    op("wgmma.fence", 0, |c, t| c.aligned(t, "wgmma.fence"));
}

/// `wgmma.commit_group.sync.aligned`
#[track_caller]
pub fn commit_group() {
    op("wgmma.commit_group", 0, Cluster::wgmma_commit);
}

/// `wgmma.wait_group.sync.aligned N`
#[track_caller]
pub fn wait_group<const N: u32>() {
    op("wgmma.wait_group", N, |c, t| c.wgmma_wait(t, N));
}

/// `wgmma.mma_async.sync.aligned.m64nNk16.f32.T.T`, N twice the length of `d`
#[track_caller]
pub fn mma_ss(d: &mut [f32], a: u64, b: u64, scale_d: bool, dtype: OperandType) {
    let mma = Mma { a: Some(a), b, n: 2 * d.len() as u32, scale_d, dtype };
    block("wgmma.mma_async", 0, |c, t| c.mma(t, d, mma, [0; 4]));
}

/// The same with A from registers
#[track_caller]
pub fn mma_rs(d: &mut [f32], a: [u32; 4], b: u64, scale_d: bool, dtype: OperandType) {
    let mma = Mma { a: None, b, n: 2 * d.len() as u32, scale_d, dtype };
    block("wgmma.mma_async", 0, |c, t| c.mma(t, d, mma, a));
}
