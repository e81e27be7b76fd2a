//! Asynchronous warp-group matrix multiply-accumulate: D (registers) += A (shared memory or registers)
//! times B (shared memory).
//!
//! Between the issue of a wgmma and the wait for its group, neither the accumulators nor the shared memory
//! that it reads may be accessed. The order is: [`fence`] (orders this thread's register writes before the
//! wgmmas), one or more [`Shape::mma`], [`commit_group`], [`wait_group`]. After the wait,
//! [`Shape::fence_operand`] keeps the compiler from moving the accumulators' first use above it. For a
//! fragment of A in registers, [`fence_fragment`] does the same.
//!
//! An instruction multiplies 32 bytes of each row along K: 16 elements of bf16 or f16, 32 of e4m3, e5m2 or
//! s8, 8 of tf32. Sums are f32, or s32 of s8. Sums of e4m3 and e5m2 are short: the chip cuts off what lies
//! more than 13 bits below the largest of an instruction's 32 products and the accumulator. Add them to
//! f32 sums of your own after some steps (every 128 along K, as CUTLASS does), if the error matters.
//!
//! An operand in shared memory is K-major or MN-major ([`Major`]), with or without a swizzle
//! ([`Swizzle`]). The instruction has the majors, its [`descriptor`]s have the rest.
//!
//! Accumulator layout (manual, *D fragments*): thread `t` of the warp group holds row
//! `r = 16 (t / 32) + (t % 32) / 4` and row `r + 8`. Register `4 j + 2 h + e` holds row `r + 8 h`, column
//! `8 j + 2 (t % 4) + e`.
//!
//! PTX manual: *Asynchronous Warpgroup Level Matrix Instructions*. PTX 8.0, sm_90a.

mod descriptor;
mod element;
mod shape;

pub use descriptor::{Swizzle, descriptor};
pub use element::{KMajor, Major, MnMajor, MulBy, Operand, OperandMajor, OperandType};
pub use shape::{M64, Shape};

ops! { wgmma;
    /// `wgmma.fence.sync.aligned;`: orders this thread's accesses to registers (accumulators, A
    /// fragments) before the wgmmas that follow. It is not a memory fence; for shared memory written by
    /// ordinary stores see [`crate::fence::proxy_async_shared_cta`]. (CUTLASS `warpgroup_arrive`.)
    ///
    /// # Safety
    /// All warps of the warp group execute it, convergent.
    pub unsafe fn fence() {
        trace!(Mma);
        ptx!("wgmma.fence.sync.aligned;")
    }
    /// `wgmma.commit_group.sync.aligned;`: puts the wgmmas since the last call into a group. (CUTLASS
    /// `warpgroup_commit_batch`.)
    ///
    /// # Safety
    /// All warps of the warp group execute it, convergent.
    pub unsafe fn commit_group() {
        ptx!("wgmma.commit_group.sync.aligned;")
    }
    /// `wgmma.wait_group.sync.aligned N;`: waits until at most `N` groups are pending. (CUTLASS
    /// `warpgroup_wait<N>`.)
    ///
    /// # Safety
    /// All warps of the warp group execute it, convergent.
    pub unsafe fn wait_group<const N: u32>() {
        const { assert!(N <= 7, "wgmma.wait_group takes at most 7") };
        trace!({ ptx!("wgmma.wait_group.sync.aligned {};", const N); } is MmaWait, N);
    }
    /// [`wait_group`], not before `x` is known.
    ///
    /// ptxas moves a wait up to where its result could be used, before arithmetic that comes first in the
    /// program and would overlap the wgmmas. A value of that arithmetic as an operand keeps the wait behind it.
    /// The operand guards a load of shared memory that changes nothing, and that happens only if `x` is
    /// negative. PTX 8.0, sm_90a.
    ///
    /// # Safety
    /// As [`wait_group`]. The CTA has shared memory.
    pub unsafe fn wait_group_after<const N: u32>(x: f32) {
        const { assert!(N <= 7, "wgmma.wait_group takes at most 7") };
        trace!({
            ptx!(
                "{{ .reg .pred p; .reg .b32 t; setp.lt.f32 p, {}, 0f00000000; mov.b32 t, 0; @p ld.volatile.shared.b32 t, [t]; }} \
                 wgmma.wait_group.sync.aligned {};",
                in(reg32) x, const N
            );
        } is MmaWait, N);
    }
    /// Keeps the compiler from writing a fragment of A before this call. It emits no instruction.
    /// (CUTLASS `warpgroup_fence_operand`.)
    ///
    /// Call it after the wait, before the registers of the fragment are used or written again. To the
    /// compiler a wgmma has read them when it is issued, so it may compute the next fragment into the
    /// same registers before the wait.
    pub fn fence_fragment(a: &mut [u32; 4]) {
        ptx!(
            "// {0} {1} {2} {3}",
            inout(reg32) a[0], inout(reg32) a[1], inout(reg32) a[2], inout(reg32) a[3]
        )
    }
}
