//! Tensor memory and the fifth generation's matrix multiply-accumulate, of Blackwell: D (tensor memory) += A (shared
//! or tensor memory) times B (shared memory).
//!
//! **Nothing of this module has ever run on a chip.** ptxas assembles it for sm_100a and sm_103a, and the SM model runs
//! it. It does not exist on Hopper: a kernel that uses it is built for `Arch::Sm100a`.
//!
//! Tensor memory has 128 lanes (rows) and 512 columns of 32 bits for each SM. An address has the lane in bits 31-16
//! and the column in bits 15-0. A warp allocates columns ([`alloc`]), and somebody frees them ([`dealloc`]) before the
//! CTA ends. A warp accesses the 32 lanes from `32 * (warp % 4)` on.
//!
//! One thread issues an [`mma_f16`]; there is no warp group. The instruction is asynchronous: [`commit`] lets an
//! mbarrier know when all that its thread issued before has completed. MMAs of one thread that write one accumulator are
//! executed in order. Everything else needs an order:
//!
//! | first | then | in between |
//! |---|---|---|
//! | `mma` | `ld` of its accumulator | `commit`; the wait on the mbarrier; [`fence_after_thread_sync`] |
//! | `mma` | a write to its operands | `commit`; the wait on the mbarrier |
//! | `ld` | a use of its registers | [`wait_ld`], [`Loaded::ready`] |
//! | `ld` | `mma` into the same columns | [`wait_ld`]; [`fence_before_thread_sync`]; a barrier; [`fence_after_thread_sync`] |
//! | `st` | `ld` by the same thread | [`wait_st`] |
//!
//! A multiplication takes 32 bytes of each row along K: 16 elements of bf16 or f16 ([`mma_f16`]), 8 of tf32 ([`mma_tf32`]), 32
//! of e4m3 or e5m2 ([`mma_f8f6f4`]) or of s8 ([`mma_i8`]). Sums are f32, or s32 of s8. [`Operand`] says which kind an element type
//! needs.
//!
//! A can lie in tensor memory: the functions whose names have `_ts`, as [`mma_f16_ts`].
//!
//! Two CTAs can multiply together, as a pair: the functions whose names end with `_2sm`, as [`mma_f16_2sm`].
//!
//! [`mma_mxf8f6f4_block_scale`], [`mma_mxf4_block_scale`] and [`mma_mxf4nvf4_block_scale`] multiply with a factor for each 32
//! or 16 elements, and so do their forms with `_ts` and `_2sm`.
//!
//! PTX manual: *TensorCore 5th Generation Family Instructions*. PTX 8.7, sm_100a.

mod copies;
mod descriptor;
mod from_tensor;
mod kind;
mod moves;
mod pair;
mod scaled;
mod shift;

pub use copies::*;
pub use descriptor::{Swizzle, instruction, shared};
pub use from_tensor::*;
pub use kind::{Kind, KindF8f6f4, KindF16, KindI8, KindTf32, Operand};
pub use moves::*;
pub use pair::*;
pub use scaled::*;
pub use shift::*;

/// Registers that a `tcgen05.ld` writes, at some time before [`wait_ld`] returns.
///
/// To the compiler they have their values when the load is issued. [`ready`](Self::ready) after the wait keeps it from
/// moving a use above the wait.
#[must_use = "the values are there after `wait_ld` and `ready`"]
#[derive(Debug)]
pub struct Loaded<const N: usize>([u32; N]);

impl<const N: usize> Loaded<N> {
    /// The registers' values. It emits no instruction.
    ///
    /// On the SM model, the registers hold patterns before this call, and a call before [`wait_ld`] is reported.
    #[crate::device]
    pub fn ready(self) -> [u32; N] {
        let mut regs = self.0;
        #[cfg(target_arch = "nvptx64")]
        for r in &mut regs {
            // An asm template must use its operand; a comment suffices.
            ptx!("// {0}", inout(reg32) * r);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        sim::ops::tcgen05::ready(&mut regs);
        regs
    }
}

ops! { tcgen05;
    /// `tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32`: allocates `columns` columns of all 128 lanes, and writes
    /// their address to the word of shared memory at `to`. It waits until there are as many.
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent, with the same operands. `columns` is a power of two from 32 to 512. `to` is
    /// a word of the CTA's shared memory that nobody else uses. The warp has not given up its permit.
    pub unsafe fn alloc(to: u32, columns: u32) {
        ptx!(
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{}], {};",
            in(reg32) to, in(reg32) columns
        )
    }
    /// `tcgen05.dealloc.cta_group::1.sync.aligned.b32`: frees the `columns` columns at `taddr`.
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent, with the same operands, which are those of an allocation. All work on the
    /// columns is over. Each allocation is freed once, before the kernel's end.
    pub unsafe fn dealloc(taddr: u32, columns: u32) {
        ptx!(
            "tcgen05.dealloc.cta_group::1.sync.aligned.b32 {}, {};",
            in(reg32) taddr, in(reg32) columns
        )
    }
    /// `tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned`: the CTA allocates no more, so that another CTA of the SM can.
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent. No warp of the CTA executes [`alloc`] afterwards.
    pub unsafe fn relinquish_alloc_permit() {
        ptx!("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;")
    }
    /// `tcgen05.mma.cta_group::1.kind::f16 [d], a, b, idesc, p;`: `D = A*B + D`, or `D = A*B` without `scale_d`.
    ///
    /// `a` and `b` are descriptors ([`shared`]), `idesc` has the shape and the types ([`instruction`]).
    /// The thread does not wait for it: see [`commit`].
    ///
    /// # Safety
    /// One thread executes it. The columns of D are allocated, and nobody else uses them until a [`commit`] of this
    /// thread has completed. Until then the operands are not written either. They are visible to the asynchronous proxy.
    pub unsafe fn mma_f16(d: u32, a: u64, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::f16 [{d}], {a}, {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::1.kind::tf32 [d], a, b, idesc, p;`: as [`mma_f16`], of tf32.
    ///
    /// # Safety
    /// As [`mma_f16`].
    pub unsafe fn mma_tf32(d: u32, a: u64, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::tf32 [{d}], {a}, {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::1.kind::f8f6f4 [d], a, b, idesc, p;`: as [`mma_f16`], of e4m3 and e5m2.
    ///
    /// # Safety
    /// As [`mma_f16`].
    pub unsafe fn mma_f8f6f4(d: u32, a: u64, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::f8f6f4 [{d}], {a}, {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::1.kind::i8 [d], a, b, idesc, p;`: as [`mma_f16`], of s8. sm_103a does not have it.
    ///
    /// # Safety
    /// As [`mma_f16`].
    pub unsafe fn mma_i8(d: u32, a: u64, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::1.kind::i8 [{d}], {a}, {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];`: when all asynchronous tcgen05
    /// instructions of this thread so far have completed, the hardware arrives once on `bar`. It has the effect of
    /// [`fence_before_thread_sync`] for them. (CUTLASS `umma_arrive`.)
    ///
    /// # Safety
    /// `bar` is an initialised mbarrier of this CTA whose phase expects the arrival.
    pub unsafe fn commit(bar: u32) {
        ptx!(
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{}];",
            in(reg32) bar
        )
    }
    /// `tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], mask;`: as [`commit`], on the
    /// barrier at the same offset in each CTA of the cluster whose bit is set in `mask`. (CUTLASS `umma_arrive_multicast`.)
    ///
    /// # Safety
    /// As [`commit`], for each of these CTAs. None of them exits before the arrival.
    pub unsafe fn commit_multicast(bar: u32, mask: u16) {
        ptx!(
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [{}], {};",
            in(reg32) bar, in(reg16) mask
        )
    }
    /// `tcgen05.wait::ld.sync.aligned`: waits for all `tcgen05.ld` of this thread. (CUTLASS `fence_view_async_tmem_load`.)
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent.
    pub unsafe fn wait_ld() {
        ptx!("tcgen05.wait::ld.sync.aligned;")
    }
    /// `tcgen05.wait::st.sync.aligned`: waits for all `tcgen05.st` of this thread. (CUTLASS `fence_view_async_tmem_store`.)
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent.
    pub unsafe fn wait_st() {
        ptx!("tcgen05.wait::st.sync.aligned;")
    }
    /// `tcgen05.fence::before_thread_sync`: orders this thread's tcgen05 instructions before the synchronisation that
    /// follows. (CUTLASS `tcgen05_before_thread_sync`.)
    pub fn fence_before_thread_sync() {
        ptx!("tcgen05.fence::before_thread_sync;")
    }
    /// `tcgen05.fence::after_thread_sync`: orders this thread's tcgen05 instructions after the synchronisation that
    /// precedes. (CUTLASS `tcgen05_after_thread_sync`.)
    pub fn fence_after_thread_sync() {
        ptx!("tcgen05.fence::after_thread_sync;")
    }
}
