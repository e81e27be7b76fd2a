//! Bulk asynchronous copies (TMA): tensor tiles and contiguous bytes, in the asynchronous proxy.
//!
//! PTX manual: *Data Movement*, `cp.async.bulk`, `cp.async.bulk.tensor`, `cp.reduce.async.bulk`.
//! PTX 8.0, sm_90. One thread issues a copy, and the TMA unit executes it.
//!
//! Loads into shared memory complete on an mbarrier: they decrease its transaction count by their bytes.
//! They belong to no group. Stores and reductions belong to the bulk groups of the issuing thread:
//! [`commit_group`], then [`wait_group`] (complete and visible) or [`wait_group_read`] (the source may
//! be overwritten). These waits cover only the issuing thread's groups.
//!
//! A box always counts in full on the barrier. Outside of the tensor, reads give zeros and writes are
//! dropped. Shared addresses of boxes are 128-byte aligned (with a swizzle, aligned to its repeat: 1024
//! bytes for 128 B). Contiguous copies are 16-byte aligned and multiples of 16 bytes.
//!
//! The rank is a const parameter, 1 to 5:
//! ```no_run
//! # let map = std::ptr::null();
//! unsafe { warpipe_isa::cp_async_bulk::tensor_store(map, [0; 5], 1024) }
//! ```
//! ```compile_fail,E0080
//! # let map = std::ptr::null();
//! unsafe { warpipe_isa::cp_async_bulk::tensor_store(map, [0; 6], 1024) }
//! ```

use crate::device;

/// The 128 opaque bytes of a tensor map, from `cuTensorMapEncodeTiled`.
#[repr(C, align(64))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorMapBytes(pub [u64; 16]);

/// The operation of [`tensor_reduce`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReduceOp {
    /// Sum.
    Add,
    /// Minimum (not for f32).
    Min,
    /// Maximum (not for f32).
    Max,
    /// Wrapping increment (u32).
    Inc,
    /// Wrapping decrement (u32).
    Dec,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

#[cfg(not(target_arch = "nvptx64"))]
impl From<ReduceOp> for sim::ops::cp_async_bulk::ReduceOp {
    fn from(op: ReduceOp) -> Self {
        match op {
            ReduceOp::Add => Self::Add,
            ReduceOp::Min => Self::Min,
            ReduceOp::Max => Self::Max,
            ReduceOp::Inc => Self::Inc,
            ReduceOp::Dec => Self::Dec,
            ReduceOp::And => Self::And,
            ReduceOp::Or => Self::Or,
            ReduceOp::Xor => Self::Xor,
        }
    }
}

/// One instruction for each rank from 1 to 5. The template is `$head`, the rank, `$mid`, the coordinates
/// in braces and `$tail`. The coordinates are operands `c0` to `c4`.
#[cfg(target_arch = "nvptx64")]
macro_rules! by_rank {
    ($coords:ident, $head:expr, $mid:expr, $tail:expr, $($op:tt)*) => {
        match $coords.as_slice() {
            &[c0] => ptx!(
                concat!($head, "1d", $mid, "{{{c0}}}", $tail),
                c0 = in(reg32) c0, $($op)*
            ),
            &[c0, c1] => ptx!(
                concat!($head, "2d", $mid, "{{{c0}, {c1}}}", $tail),
                c0 = in(reg32) c0, c1 = in(reg32) c1, $($op)*
            ),
            &[c0, c1, c2] => ptx!(
                concat!($head, "3d", $mid, "{{{c0}, {c1}, {c2}}}", $tail),
                c0 = in(reg32) c0, c1 = in(reg32) c1, c2 = in(reg32) c2, $($op)*
            ),
            &[c0, c1, c2, c3] => ptx!(
                concat!($head, "4d", $mid, "{{{c0}, {c1}, {c2}, {c3}}}", $tail),
                c0 = in(reg32) c0, c1 = in(reg32) c1, c2 = in(reg32) c2, c3 = in(reg32) c3, $($op)*
            ),
            &[c0, c1, c2, c3, c4] => ptx!(
                concat!($head, "5d", $mid, "{{{c0}, {c1}, {c2}, {c3}, {c4}}}", $tail),
                c0 = in(reg32) c0, c1 = in(reg32) c1, c2 = in(reg32) c2, c3 = in(reg32) c3,
                c4 = in(reg32) c4, $($op)*
            ),
            // SAFETY: the function's const assertion refuses every other rank.
            _ => unsafe { core::hint::unreachable_unchecked() },
        }
    };
}

#[cfg(target_arch = "nvptx64")]
pub(crate) use by_rank;

/// Declares functions on tensor maps, generic over the rank `D`. Parameters before and after `map, coords`
/// are separated by semicolons.
macro_rules! tensor_ops {
    ($($(#[$meta:meta])*
       pub unsafe fn $name:ident($($pre:ident: $pt:ty)?; $map:ident, $coords:ident; $($post:ident: $qt:ty),*)
       { $($device:tt)* })*) => {$(
        $(#[$meta])*
        #[device]
        pub unsafe fn $name<const D: usize>(
            $($pre: $pt,)? $map: *const TensorMapBytes, $coords: [i32; D] $(, $post: $qt)*
        ) {
            const { assert!(D >= 1 && D <= 5, "tensor maps have rank 1 to 5") };
            #[cfg(target_arch = "nvptx64")]
            { $($device)* }
            #[cfg(not(target_arch = "nvptx64"))]
            sim::ops::cp_async_bulk::$name::<D>(
                $($pre.into(),)? $map.cast::<[u64; 16]>(), $coords $(, $post)*
            );
        }
    )*};
}

tensor_ops! {
    /// `cp.async.bulk.tensor.Dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes`: loads the
    /// box at `coords` (in elements, innermost first) to `dst`, completing on `bar`.
    ///
    /// # Safety
    /// `map` is a tensor map of rank `D` in parameter, constant or global memory. The first coordinate is a
    /// multiple of 16 bytes (otherwise the GPU reports an illegal instruction). `dst` has room for the box,
    /// suitably aligned, and no thread uses it until `bar`'s phase has completed. `bar` is an initialised
    /// mbarrier of this CTA that expects the bytes.
    pub unsafe fn tensor_load(dst: u32; map, coords; bar: u32) {
        trace!(Load, crate::trace::own(bar), crate::trace::own(dst));
        by_rank!(
            coords,
            "cp.async.bulk.tensor.",
            ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [{dst}], [{map}, ",
            "], [{bar}];",
            dst = in(reg32) dst, map = in(reg64) map, bar = in(reg32) bar
        )
    }

    /// `cp.async.bulk.tensor.Dd….multicast::cluster`: as [`tensor_load`], to the same offsets of
    /// `dst` and `bar` in each CTA of the cluster whose bit in `mask` is set.
    ///
    /// # Safety
    /// As [`tensor_load`], in each of those CTAs. None of them exits before the copy has completed.
    pub unsafe fn tensor_load_multicast(dst: u32; map, coords; bar: u32, mask: u16) {
        trace!(Load, crate::trace::own(bar), crate::trace::own(dst), u32::from(mask));
        by_rank!(
            coords,
            "cp.async.bulk.tensor.",
            ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster \
             [{dst}], [{map}, ",
            "], [{bar}], {mask};",
            dst = in(reg32) dst, map = in(reg64) map, bar = in(reg32) bar, mask = in(reg16) mask
        )
    }

    /// `cp.async.bulk.tensor.Dd.global.shared::cta.tile.bulk_group`: stores the box at `src` to
    /// `coords`.
    ///
    /// # Safety
    /// `map` as for [`tensor_load`], of memory that no other thread or copy uses. `src` has the box's
    /// bytes, visible to the asynchronous proxy ([`crate::fence::proxy_async_shared_cta`] by each writer,
    /// then a barrier), and is not overwritten until [`wait_group_read`].
    pub unsafe fn tensor_store(; map, coords; src: u32) {
        trace!(Store, crate::trace::own(src));
        by_rank!(
            coords,
            "cp.async.bulk.tensor.",
            ".global.shared::cta.tile.bulk_group [{map}, ",
            "], [{src}];",
            map = in(reg64) map, src = in(reg32) src
        )
    }

    /// `cp.reduce.async.bulk.tensor.Dd.global.shared::cta.OP.tile.bulk_group`: combines the box at
    /// `src` into `coords`, element by element, each atomically (relaxed, GPU scope).
    ///
    /// # Safety
    /// As [`tensor_store`], but others may reduce into the same memory. The map's element type supports
    /// `op`.
    pub unsafe fn tensor_reduce(op: ReduceOp; map, coords; src: u32) {
        macro_rules! reduce {
            ($op:literal) => {
                by_rank!(
                    coords,
                    "cp.reduce.async.bulk.tensor.",
                    concat!(".global.shared::cta.", $op, ".tile.bulk_group [{map}, "),
                    "], [{src}];",
                    map = in(reg64) map, src = in(reg32) src
                )
            };
        }
        match op {
            ReduceOp::Add => reduce!("add"),
            ReduceOp::Min => reduce!("min"),
            ReduceOp::Max => reduce!("max"),
            ReduceOp::Inc => reduce!("inc"),
            ReduceOp::Dec => reduce!("dec"),
            ReduceOp::And => reduce!("and"),
            ReduceOp::Or => reduce!("or"),
            ReduceOp::Xor => reduce!("xor"),
        }
    }

    /// `cp.async.bulk.prefetch.tensor.Dd.L2.global.tile`: prefetches the box at `coords` into L2.
    ///
    /// # Safety
    /// `map` as for [`tensor_load`].
    pub unsafe fn tensor_prefetch(; map, coords;) {
        by_rank!(
            coords,
            "cp.async.bulk.prefetch.tensor.",
            ".L2.global.tile [{map}, ",
            "];",
            map = in(reg64) map
        )
    }
}

/// `prefetch.tensormap [map];`: prefetches the tensor map itself before its first use.
///
/// # Safety
/// `map` is a tensor map in parameter, constant or global memory.
#[device]
pub unsafe fn prefetch_tensormap(map: *const TensorMapBytes) {
    #[cfg(target_arch = "nvptx64")]
    ptx!("prefetch.tensormap [{}];", in(reg64) map);
    #[cfg(not(target_arch = "nvptx64"))]
    sim::ops::cp_async_bulk::prefetch_tensormap(map.cast::<[u64; 16]>());
}

ops! { cp_async_bulk;
    /// `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes`: loads `bytes` from
    /// global memory, completing on `bar`.
    ///
    /// # Safety
    /// `src` and `dst` are 16-byte aligned and valid for `bytes`, a multiple of 16. `bar` is an initialised
    /// mbarrier of this CTA that expects the bytes. No thread uses those at `dst` until its phase has
    /// completed.
    pub unsafe fn load(dst: u32, src: *const u8, bytes: u32, bar: u32) {
        ptx!(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [{}], {}, [{}];",
            in(reg32) dst, in(reg64) src, in(reg32) bytes, in(reg32) bar
        )
    }
    /// `cp.async.bulk.global.shared::cta.bulk_group`: stores `bytes` to global memory.
    ///
    /// # Safety
    /// `src` and `dst` are 16-byte aligned and valid for `bytes`, a multiple of 16. The bytes at `src` are
    /// visible to the asynchronous proxy and not overwritten until [`wait_group_read`]. No other thread or
    /// copy uses those at `dst`.
    pub unsafe fn store(dst: *mut u8, src: u32, bytes: u32) {
        ptx!(
            "cp.async.bulk.global.shared::cta.bulk_group [{}], [{}], {};",
            in(reg64) dst, in(reg32) src, in(reg32) bytes
        )
    }
    /// `cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes`: copies `bytes` to a
    /// CTA of the cluster, completing on an mbarrier there.
    ///
    /// # Safety
    /// As [`load`], with `rdst` and `rbar` (from [`crate::cluster::mapa`]) in one CTA of the cluster that
    /// does not exit before the copy has completed. `src` is visible to the asynchronous proxy.
    pub unsafe fn copy_to_cta(rdst: u32, src: u32, bytes: u32, rbar: u32) {
        ptx!(
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes \
             [{}], [{}], {}, [{}];",
            in(reg32) rdst, in(reg32) src, in(reg32) bytes, in(reg32) rbar
        )
    }
    /// `cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32`: adds `bytes / 4` integers into
    /// global memory, each atomically (relaxed, GPU scope).
    ///
    /// # Safety
    /// As [`store`], but others may reduce into the same memory.
    pub unsafe fn reduce_add_u32(dst: *mut u8, src: u32, bytes: u32) {
        ptx!(
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [{}], [{}], {};",
            in(reg64) dst, in(reg32) src, in(reg32) bytes
        )
    }
    /// `cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32`: adds `bytes / 4` floats into
    /// global memory, each atomically (relaxed, GPU scope).
    ///
    /// # Safety
    /// As [`store`], but others may reduce into the same memory.
    pub unsafe fn reduce_add_f32(dst: *mut u8, src: u32, bytes: u32) {
        ptx!(
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [{}], [{}], {};",
            in(reg64) dst, in(reg32) src, in(reg32) bytes
        )
    }
    /// `cp.async.bulk.commit_group;`: puts this thread's stores and reductions since the last call into a
    /// group.
    pub fn commit_group() {
        ptx!("cp.async.bulk.commit_group;")
    }
    /// `cp.async.bulk.wait_group N;`: waits until at most `N` of this thread's groups are pending. The
    /// writes of the other groups are complete and visible to this thread.
    pub fn wait_group<const N: u32>() {
        trace!({ ptx!("cp.async.bulk.wait_group {};", const N); } is StoreWait, N, 0);
    }
    /// `cp.async.bulk.wait_group.read N;`: waits until at most `N` of this thread's groups have not yet
    /// read their source. The sources of the other groups may be overwritten.
    pub fn wait_group_read<const N: u32>() {
        trace!({ ptx!("cp.async.bulk.wait_group.read {};", const N); } is StoreWait, N, 1);
    }
}
