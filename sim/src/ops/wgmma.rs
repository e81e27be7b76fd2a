//! Warp-group matrix multiply-accumulate.

use crate::drive::current::{aside, block, given, op};
use crate::exec::wgmma;
use crate::wgmma::groups::Mma;
pub use crate::wgmma::held::Sum;
use crate::wgmma::held::bits;
pub use crate::wgmma::operand::{Major, OperandType};
use std::panic::Location;

/// `wgmma.fence.sync.aligned`
#[track_caller]
pub fn fence() {
    op("wgmma.fence", 0, wgmma::fence);
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

/// `wgmma.wait_group.sync.aligned N`, which needs `x` as an operand
#[track_caller]
pub fn wait_group_after<const N: u32>(x: f32) {
    given("wgmma.wait_group", x.to_bits());
    wait_group::<N>();
}

/// `wgmma.mma_async.sync.aligned.m64nNkK.S.A.B`, N twice the length of `d`, A and B the `types`, K of 32
/// bytes; `a` and `b` are descriptors and the majors of what they describe
#[track_caller]
pub fn mma_ss<S: Sum>(
    d: &mut [S],
    a: (u64, Major),
    b: (u64, Major),
    scale_d: bool,
    types: [OperandType; 2],
) {
    let mma = Mma { a: Some(a), b, n: 2 * d.len() as u32, scale_d, types };
    block("wgmma.mma_async", 0, |e, t| wgmma::mma(e, t, bits(d), mma, None));
}

/// The same with A from registers, which hold patterns from here on
#[track_caller]
pub fn mma_rs<S: Sum>(
    d: &mut [S],
    a: &mut [u32; 4],
    b: (u64, Major),
    scale_d: bool,
    types: [OperandType; 2],
) {
    let mma = Mma { a: None, b, n: 2 * d.len() as u32, scale_d, types };
    block("wgmma.mma_async", 0, |e, t| wgmma::mma(e, t, bits(d), mma, Some(a)));
}

/// No instruction: the accumulator has its values again if a wait covers its wgmmas.
#[track_caller]
pub fn fence_operand<S: Sum>(d: &mut [S]) {
    aside("fence_operand", |e, t| {
        let (held, member) = e.hw.held_mut(t);
        held.give_back(member, bits(d))
    });
}

/// The same of registers of A.
#[track_caller]
pub fn fence_fragment(a: &mut [u32; 4]) {
    let loc = Location::caller();
    aside("fence_fragment", |e, t| {
        let (held, member) = e.hw.held_mut(t);
        held.give_back_fragment(member, a, loc)
    });
}
