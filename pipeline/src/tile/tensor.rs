//! Tensor maps, and the TMA loads and stores that use them.
//!
//! Invariant: the box, element type and swizzle of a tensor map are those of its tile type, on the
//! host and in the kernel.

use crate::cta::{ClusterShape, Peers, Sharing, Unshared};
use crate::cta::{Cta, Elected, Role, Roles};
use crate::grid::BeforeWait;
use crate::tile::{ATOM_ROWS, Element, ROW_BYTES, TileShape};
use core::marker::PhantomData;
use isa::cp_async_bulk::TensorMapBytes;
use isa::device;
use isa::kernel::{AfterWait, KernelArg, ParamKind, ParamMeta};

/// A two-dimensional, row-major tensor in global memory, accessed in tiles of shape `T`.
///
/// `P` says which peers share a tile: each CTA of the group loads an equal slice of the tile's rows
/// and multicasts it to the group.
///
/// The host builds it from the same types (`host::Device::tensor_map`), so the box, the element
/// type and the swizzle are those that the kernel reads. As a kernel parameter it is a
/// `__grid_constant__`.
///
/// (PTX: a `.param` of 128 bytes, which `cp.async.bulk.tensor.2d` reads; CUTLASS: `TmaDescriptor`,
/// the TMA `Copy_Atom`.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{cta::{AlongM, ClusterCoord}, prelude::*};
/// /// Each of two CTAs loads 64 of the tile's 128 rows.
/// type B = TensorMap<Tile<bf16, 128, 64>, AlongM<2>>;
/// assert_eq!((B::BOX_ROWS, size_of::<B>()), (64, 128));
///
/// fn descriptor(b: &B) -> &isa::cp_async_bulk::TensorMapBytes { b.bytes() }
/// fn load(b: &B, at: ClusterCoord<Cluster<2, 1>>) {
///     let _load = b.tile(256, 0, at.sharing_b());
/// }
/// ```
#[repr(transparent)]
pub struct TensorMap<T, P = Unshared> {
    bytes: TensorMapBytes,
    tile: PhantomData<(T, P)>,
}

impl<T: TileShape, P: Sharing> TensorMap<T, P> {
    /// Rows of the box: the slice of a tile that one CTA loads.
    pub const BOX_ROWS: usize = {
        assert!(
            T::ROWS.is_multiple_of(P::COUNT * ATOM_ROWS),
            "a multicast tile splits into slices of whole swizzle atoms (8 rows)"
        );
        assert!(T::ROWS / P::COUNT <= 256, "a TMA box has at most 256 rows");
        T::ROWS / P::COUNT
    };

    /// Gives an encoded tensor map its type.
    ///
    /// (CUTLASS: `make_tma_copy`, which encodes the map as well.)
    ///
    /// ```
    /// # use {half::bf16, isa::cp_async_bulk::TensorMapBytes, warpipe_pipeline::prelude::*};
    /// /// # Safety
    /// /// `bytes` encodes a tensor of bf16 in boxes of 64 x 64, swizzled by 128 bytes.
    /// unsafe fn typed(bytes: TensorMapBytes) -> TensorMap<Tile<bf16, 64, 64>> {
    ///     unsafe { TensorMap::from_bytes(bytes) }
    /// }
    /// ```
    ///
    /// # Safety
    /// `bytes` encodes a 2D tensor of `T::Element` with box `BOX_ROWS` x `T::COLS` and the 128-byte
    /// swizzle, over memory that outlives every launch that gets it.
    #[cfg(not(target_arch = "nvptx64"))]
    pub const unsafe fn from_bytes(bytes: TensorMapBytes) -> Self {
        Self { bytes, tile: PhantomData }
    }

    /// Returns the encoded bytes.
    ///
    /// (CUTLASS `get_tma_descriptor()`.) See the example of [`TensorMap`].
    pub const fn bytes(&self) -> &TensorMapBytes {
        &self.bytes
    }

    /// Returns the load of the tile whose first element is (`row`, `col`), shared with `peers`.
    ///
    /// Elements outside the tensor arrive as zero and count in the transaction bytes. A box must
    /// begin on a multiple of 16 bytes of a row: any other `col` is an illegal instruction on the
    /// GPU, and WP015 on the model.
    ///
    /// (PTX: the operands of `cp.async.bulk.tensor.2d`; CUTLASS: `tma_load.with(barrier,
    /// mcast_mask)` and the tile's coordinates.) See the example of [`TensorMap`].
    #[inline(always)]
    pub fn tile(&self, row: u32, col: u32, peers: Peers<P>) -> Load<'_, T, P> {
        Load { map: self, row: row as i32, col: col as i32, peers }
    }

    /// Prefetches the descriptor: thread 0 of the CTA brings it into the descriptor cache.
    ///
    /// Call it while the CTA still prepares its shared memory, so that the first load does not
    /// miss.
    ///
    /// (PTX `prefetch.tensormap`; CUTLASS `prefetch_tma_descriptor`.)
    ///
    /// ```
    /// # use half::bf16;
    /// # use warpipe_pipeline::prelude::*;
    /// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// fn entry(cta: &Cta<(Load, Math), Cluster<1, 1>>, a: &TensorMap<Tile<bf16, 128, 64>>) {
    ///     a.prefetch(cta);
    /// }
    /// ```
    #[device]
    pub fn prefetch<R: Roles, Cl: ClusterShape, Plan>(&self, _cta: &Cta<R, Cl, Plan>) {
        if isa::thread::thread_idx_x() == 0 {
            // SAFETY: `self` is an encoded tensor map.
            unsafe { isa::cp_async_bulk::prefetch_tensormap(&raw const self.bytes) }
        }
    }
}

/// A TMA load of one tile, not issued yet: [`TensorMap::tile`] returns it and
/// [`EmptySlot::load`](crate::ring::EmptySlot::load) takes it.
///
/// (PTX: the operands of `cp.async.bulk.tensor.2d`; CUTLASS: the arguments of `copy`.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{prelude::*, tile::Load};
///
/// fn first<'a>(a: &'a TensorMap<Tile<bf16, 128, 64>>) -> Load<'a, Tile<bf16, 128, 64>> {
///     a.tile(0, 0, Peers::ALONE)
/// }
/// ```
pub struct Load<'a, T, P = Unshared> {
    map: &'a TensorMap<T, P>,
    row: i32,
    col: i32,
    peers: Peers<P>,
}

impl<T: TileShape, P: Sharing> Load<'_, T, P> {
    /// Returns the tensor's row at which this CTA's slice begins, and the slice's first row in the
    /// tile.
    #[inline(always)]
    fn slice(&self) -> (i32, u32) {
        let first = self.peers.index * TensorMap::<T, P>::BOX_ROWS as u32;
        (self.row + first as i32, first)
    }

    /// Prefetches the box into the L2 cache, for the load that follows (for a shared tile, only
    /// this CTA's slice).
    ///
    /// It may come before the wait for the primary grid: it delivers no data to the kernel, and
    /// what the primary grid still writes updates the same L2 lines.
    ///
    /// (PTX `cp.async.bulk.prefetch.tensor.2d.L2.global.tile`; CUTLASS
    /// `SM90_TMA_LOAD_2D::PREFETCH`.) See the example of [`BeforeWait`].
    #[device]
    pub fn prefetch<Ro: Role, Cl: ClusterShape>(self, _one: &BeforeWait<Elected<Ro, Cl>>) {
        let (row, _) = self.slice();
        // SAFETY: the map is encoded, of rank 2, and a prefetch writes no memory that a thread
        // sees.
        unsafe { isa::cp_async_bulk::tensor_prefetch(&raw const self.map.bytes, [self.col, row]) }
    }

    /// Issues the load into the tile at address `dst`. It completes on the mbarrier at `full` in
    /// every CTA that receives it.
    ///
    /// # Safety
    /// `dst` is an acquired slot's tile of shape `T` and `full` its armed barrier, at the same
    /// offsets in every peer.
    #[device]
    pub(crate) unsafe fn issue(self, dst: u32, full: u32) {
        let map = &raw const self.map.bytes;
        if P::COUNT == 1 {
            // SAFETY: the caller's contract.
            unsafe { isa::cp_async_bulk::tensor_load(dst, map, [self.col, self.row], full) }
        } else {
            let (row, first) = self.slice();
            // SAFETY: the caller's contract; the CTAs' slices are disjoint parts of the tile.
            unsafe {
                isa::cp_async_bulk::tensor_load_multicast(
                    dst + first * ROW_BYTES as u32,
                    map,
                    [self.col, row],
                    full,
                    self.peers.mask,
                );
            }
        }
    }
}

impl<T: TileShape> TensorMap<T> {
    /// Stores the tile at address `src` to (`row`, `col`). What lies outside the tensor is clipped.
    ///
    /// # Safety
    /// `src` is a complete tile of shape `T`, visible to the async proxy, and stays untouched until
    /// the bulk group of the store has been read.
    #[device]
    pub(crate) unsafe fn issue_store(&self, src: u32, row: u32, col: u32) {
        // SAFETY: the caller's contract.
        unsafe {
            isa::cp_async_bulk::tensor_store(&raw const self.bytes, [col as i32, row as i32], src);
        }
    }
}

// SAFETY: before the wait only prefetches are possible, and they read no tensor data into the
// kernel. A load needs a slot and a store a published buffer; the ends that return those take a
// token that exists only after `BeforeWait::wait`.
unsafe impl<T: TileShape, P: Sharing> AfterWait for &TensorMap<T, P> {}

// SAFETY: the parameter is the 128 bytes of the map; the kernel gets their address.
unsafe impl<T: TileShape, P: Sharing> KernelArg for &TensorMap<T, P> {
    type Abi = *const TensorMapBytes;
    const META: ParamMeta = ParamMeta {
        kind: ParamKind::TensorMap as u32,
        size: 128,
        align: 64,
        dtype: T::Element::DTYPE as u32,
        box_rows: TensorMap::<T, P>::BOX_ROWS as u32,
        box_cols: T::COLS as u32,
        swizzle_bytes: ROW_BYTES as u32,
    };
    #[inline(always)]
    unsafe fn from_abi(abi: Self::Abi) -> Self {
        // SAFETY: a launch that is checked against `META` passes a map of this box. `TensorMap` is
        // transparent over its bytes. A grid constant lives as long as the kernel.
        unsafe { &*abi.cast() }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    unsafe fn abi_from_param(param: *const u8) -> Self::Abi {
        param.cast()
    }
}
