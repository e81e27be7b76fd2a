//! Pairs of CTAs: the instructions with `.cta_group::2`.
//!
//! Two CTAs of a cluster whose ranks differ in the last bit only are a pair. The one with the even rank leads. A
//! multiplication of a pair has 256 rows. CTA 0 has the first 128 rows of A in its shared memory, and of D in its tensor
//! memory, and CTA 1 the others. Each has half of the columns of B in its shared memory. One thread of the leader issues it.
//! The addresses in its descriptors, and of D, mean the same offsets in both CTAs.
//!
//! A kernel uses `.cta_group::1` or `.cta_group::2`, and not both.
//!
//! PTX manual: *TensorCore 5th Generation Family Instructions*, "CTA Pair" and "Issue Granularity".

use crate::cp_async_bulk::TensorMapBytes;
use crate::device;

/// `cp.async.bulk.tensor.Dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2`: as
/// [`tensor_load`](crate::cp_async_bulk::tensor_load), and `bar` is a `shared::cluster` address ([`crate::cluster::mapa`]), in
/// this CTA or in the other one of its pair. So the loads of both complete on one barrier, the leader's. (CUTLASS
/// `SM100_TMA_2SM_LOAD`.)
///
/// # Safety
/// As [`tensor_load`](crate::cp_async_bulk::tensor_load), but for the place of `bar`. The CTA of `bar` does not exit before the
/// copy has completed.
#[device]
pub unsafe fn tensor_load_2sm<const D: usize>(
    dst: u32,
    map: *const TensorMapBytes,
    coords: [i32; D],
    bar: u32,
) {
    const { assert!(D >= 1 && D <= 5, "tensor maps have rank 1 to 5") };
    #[cfg(target_arch = "nvptx64")]
    {
        trace!(Load, crate::trace::own(bar), crate::trace::own(dst));
        crate::cp_async_bulk::by_rank!(
            coords,
            "cp.async.bulk.tensor.",
            ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [{dst}], [{map}, ",
            "], [{bar}];",
            dst = in(reg32) dst, map = in(reg64) map, bar = in(reg32) bar
        );
    }
    #[cfg(not(target_arch = "nvptx64"))]
    sim::ops::cp_async_bulk::tensor_load_2sm::<D>(dst, map.cast::<[u64; 16]>(), coords, bar);
}

ops! { tcgen05;
    /// `tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32`: as [`alloc`](super::alloc), for both CTAs of the pair. A warp of
    /// each executes it, and each gets the same address, in a word of its own.
    ///
    /// # Safety
    /// As [`alloc`](super::alloc), in both CTAs, with the same `columns`. The peer CTA runs.
    pub unsafe fn alloc_2sm(to: u32, columns: u32) {
        ptx!(
            "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [{}], {};",
            in(reg32) to, in(reg32) columns
        )
    }
    /// `tcgen05.dealloc.cta_group::2.sync.aligned.b32`: as [`dealloc`](super::dealloc), for both CTAs of the pair. A warp of each
    /// executes it.
    ///
    /// # Safety
    /// As [`dealloc`](super::dealloc), in both CTAs. All work on the columns of both is over. The peer CTA runs.
    pub unsafe fn dealloc_2sm(taddr: u32, columns: u32) {
        ptx!(
            "tcgen05.dealloc.cta_group::2.sync.aligned.b32 {}, {};",
            in(reg32) taddr, in(reg32) columns
        )
    }
    /// `tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned`: as
    /// [`relinquish_alloc_permit`](super::relinquish_alloc_permit).
    ///
    /// # Safety
    /// All 32 lanes execute it, convergent. No warp of the CTA executes [`alloc_2sm`] afterwards.
    pub unsafe fn relinquish_alloc_permit_2sm() {
        ptx!("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;")
    }
    /// `tcgen05.mma.cta_group::2.kind::f16 [d], a, b, idesc, p;`: as [`mma_f16`](super::mma_f16), by a pair. M is 256, and N a
    /// multiple of 32 from 32 to 256. (CUTLASS `SM100_MMA_F16BF16_2x1SM_SS`.)
    ///
    /// # Safety
    /// As [`mma_f16`](super::mma_f16), in both CTAs. One thread of the CTA with the even rank executes it. Neither CTA exits before
    /// it has completed.
    pub unsafe fn mma_f16_2sm(d: u32, a: u64, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::f16 [{d}], {a}, {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::2.kind::tf32 [d], a, b, idesc, p;`: as [`mma_f16_2sm`], of tf32.
    ///
    /// # Safety
    /// As [`mma_f16_2sm`].
    pub unsafe fn mma_tf32_2sm(d: u32, a: u64, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::tf32 [{d}], {a}, {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::2.kind::f8f6f4 [d], a, b, idesc, p;`: as [`mma_f16_2sm`], of e4m3 and e5m2.
    ///
    /// # Safety
    /// As [`mma_f16_2sm`].
    pub unsafe fn mma_f8f6f4_2sm(d: u32, a: u64, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::f8f6f4 [{d}], {a}, {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.mma.cta_group::2.kind::i8 [d], a, b, idesc, p;`: as [`mma_f16_2sm`], of s8. sm_103a does not have it.
    ///
    /// # Safety
    /// As [`mma_f16_2sm`].
    pub unsafe fn mma_i8_2sm(d: u32, a: u64, b: u64, idesc: u32, scale_d: bool) {
        trace!(Mma);
        ptx!(
            "{{ .reg .pred p; setp.ne.b32 p, {scale}, 0; \
             tcgen05.mma.cta_group::2.kind::i8 [{d}], {a}, {b}, {idesc}, p; }}",
            d = in(reg32) d, a = in(reg64) a, b = in(reg64) b, idesc = in(reg32) idesc,
            scale = in(reg32) u32::from(scale_d)
        )
    }
    /// `tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [bar];`: as [`commit`](super::commit), of the
    /// multiplications of a pair. (CUTLASS `umma_arrive_2x1SM`.)
    ///
    /// # Safety
    /// As [`commit`](super::commit).
    pub unsafe fn commit_2sm(bar: u32) {
        ptx!(
            "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [{}];",
            in(reg32) bar
        )
    }
    /// `tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], mask;`: as
    /// [`commit_multicast`](super::commit_multicast), of the multiplications of a pair. (CUTLASS
    /// `umma_arrive_multicast_2x1SM`.)
    ///
    /// # Safety
    /// As [`commit_multicast`](super::commit_multicast).
    pub unsafe fn commit_multicast_2sm(bar: u32, mask: u16) {
        ptx!(
            "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [{}], {};",
            in(reg32) bar, in(reg16) mask
        )
    }
}
