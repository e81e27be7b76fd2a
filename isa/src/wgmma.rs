//! Warp-group matrix multiply-accumulate, asynchronous: D (registers) += A (shared memory or
//! registers) times B (shared memory).
//!
//! PTX manual: *Asynchronous Warpgroup Level Matrix Instructions*. PTX 8.0, sm_90a.
//!
//! The order of a batch: [`fence`] (registers that this thread wrote become wgmma's), one or more
//! [`Shape::mma`], [`commit_group`], [`wait_group`]. Until the wait, neither the accumulators nor
//! the shared memory that the batch reads may be touched. After it, [`Shape::fence_operand`] keeps
//! the compiler from moving the accumulators' first use above it.
//!
//! Accumulator layout (manual, *D fragments*): thread `t` of the warp group holds rows
//! `16 (t / 32) + (t % 32) / 4` and that plus 8. Register `4 j + 2 h + e` is row half `h`, column
//! `8 j + 2 (t % 4) + e`.

mod descriptor;
mod shape;

pub use descriptor::{Swizzle, descriptor};
pub use shape::{M64, Operand, OperandType, Shape};

ops! { wgmma;
    /// `wgmma.fence.sync.aligned;`: orders this thread's accesses to registers (accumulators, A
    /// fragments) before the wgmmas that follow. Not a memory fence: for shared memory written by
    /// ordinary stores see [`crate::fence::proxy_async_shared_cta`].
    ///
    /// # Safety
    /// All warps of the warp group execute it, convergent.
    pub unsafe fn fence() {
        trace!(Mma);
        ptx!("wgmma.fence.sync.aligned;")
    }
    /// `wgmma.commit_group.sync.aligned;`: closes a group of the wgmmas since the last one.
    ///
    /// # Safety
    /// All warps of the warp group execute it, convergent.
    pub unsafe fn commit_group() {
        ptx!("wgmma.commit_group.sync.aligned;")
    }
    /// `wgmma.wait_group.sync.aligned N;`: waits until at most `N` groups are pending.
    ///
    /// # Safety
    /// All warps of the warp group execute it, convergent.
    pub unsafe fn wait_group<const N: u32>() {
        const { assert!(N <= 7, "wgmma.wait_group takes at most 7") };
        trace!({ ptx!("wgmma.wait_group.sync.aligned {};", const N); } is MmaWait, N);
    }
}
