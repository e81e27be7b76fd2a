//! Tensor maps, and the TMA loads and stores that use them.
//!
//! Invariant: the rank, box, element type and swizzle of a tensor map are those of its type, on the
//! host and in the kernel.

use crate::cta::{ClusterShape, Peers, Sharing, Unshared};
use crate::cta::{Cta, Elected, Role, Roles};
use crate::grid::BeforeWait;
use crate::tile::{ATOM_ROWS, Element, Major, TileShape};
use core::marker::PhantomData;
use isa::cp_async_bulk::TensorMapBytes;
use isa::device;
use isa::kernel::{AfterWait, KernelArg, ParamKind, ParamMeta};

/// A tensor of `RANK` dimensions in global memory, accessed in tiles of shape `T`.
///
/// Two dimensions are the tile's; the innermost is contiguous. The others number the matrices of a
/// batch (heads and sequences, for attention), and a tile lies in one of them. A row-major matrix
/// has K-major tiles. A tile that is [`MnMajor`](crate::tile::MnMajor) has its columns as the
/// lines of memory.
///
/// `P` says which peers share a tile: each CTA of the group loads an equal part of the tile's
/// lines and multicasts it to the group. If the tile has no such parts of whole swizzle atoms (8
/// lines), it has fewer, and the CTAs take turns: for four CTAs, 144 rows are three boxes, and 104 rows are
/// one. Then a CTA loads none in some of the slots, and the slot says whose turn it is.
///
/// A tile of several panels takes one TMA instruction for each panel.
///
/// The host builds it from the same types (`host::Device::tensor_map`), so the box, the element
/// type and the swizzle are those that the kernel reads. As a kernel parameter it is a
/// `__grid_constant__`.
///
/// (PTX: a `.param` of 128 bytes, which `cp.async.bulk.tensor` reads; CUTLASS: `TmaDescriptor`,
/// the TMA `Copy_Atom`.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{cta::{AlongM, ClusterCoord}, prelude::*, tile::Load};
/// /// Each of two CTAs loads 64 of the tile's 128 rows.
/// type B = TensorMap<Tile<bf16, 128, 64>, AlongM<2>>;
/// assert_eq!((B::BOX_ROWS, size_of::<B>()), (64, 128));
/// /// Three of four CTAs load 48 rows each.
/// type Uneven = TensorMap<Tile<bf16, 144, 64>, AlongM<4>>;
/// assert_eq!(Uneven::BOX_ROWS, 48);
/// /// Two CTAs load the whole tile in turn.
/// type Odd = TensorMap<Tile<bf16, 104, 64>, AlongM<2>>;
/// assert_eq!(Odd::BOX_ROWS, 104);
///
/// fn descriptor(b: &B) -> &isa::cp_async_bulk::TensorMapBytes { b.bytes() }
/// fn load(b: &B, at: ClusterCoord<Cluster<2, 1>>) {
///     let _load = b.tile(256, 0, at.sharing_b());
/// }
/// /// Queries of many heads and sequences, and a tile of head 3 of sequence 1.
/// type Q = TensorMap<Tile<bf16, 64, 128>, Unshared, 4>;
/// fn queries(q: &Q) -> Load<'_, Tile<bf16, 64, 128>> { q.tile_of([3, 1], 0, 0, Peers::ALONE) }
/// # use warpipe_pipeline::cta::Unshared;
/// ```
#[repr(transparent)]
pub struct TensorMap<T, P = Unshared, const RANK: usize = 2> {
    bytes: TensorMapBytes,
    tile: PhantomData<(T, P)>,
}

mod sealed {
    pub trait Sealed {}
}

/// The place of a matrix in a tensor map of `RANK` dimensions: its coordinates in the dimensions
/// beyond the tile's two, innermost first.
///
/// `()` is that of a matrix alone, `u32` of a batch, `[u32; 2]` and `[u32; 3]` of more dimensions.
///
/// (PTX: the coordinates 2 to 4 of `cp.async.bulk.tensor`.) See the example of [`TensorMap`].
pub trait BatchCoord<const RANK: usize>: sealed::Sealed {
    /// Returns the coordinates; those beyond the rank are 0.
    fn coords(self) -> [i32; 3];
}
macro_rules! batch_coords {
    ($($rank:literal $t:ty: |$c:pat_param| $coords:expr;)+) => {$(
        impl sealed::Sealed for $t {}
        impl BatchCoord<$rank> for $t {
            #[isa::forceinline]
            fn coords(self) -> [i32; 3] {
                let $c = self;
                $coords
            }
        }
    )+};
}
batch_coords! {
    2 (): |()| [0; 3];
    3 u32: |a| [a as i32, 0, 0];
    4 [u32; 2]: |[a, b]| [a as i32, b as i32, 0];
    5 [u32; 3]: |[a, b, c]| [a as i32, b as i32, c as i32];
}

impl<T: TileShape, P: Sharing, const RANK: usize> TensorMap<T, P, RANK> {
    /// Boxes of a tile: as many as there are CTAs that share it, or fewer, so that each has whole swizzle atoms.
    const BOXES: usize = {
        let mut boxes = P::COUNT;
        while boxes > 1 && !T::LINES.is_multiple_of(boxes * ATOM_ROWS) {
            boxes -= 1;
        }
        boxes
    };

    /// Lines of a box of the tensor map: the part of a tile that one load brings. With K-major tiles they are rows.
    pub const BOX_ROWS: usize = {
        assert!(RANK >= 2 && RANK <= 5, "a tensor map has from 2 to 5 dimensions");
        assert!(T::LINES / Self::BOXES <= 256, "a TMA box has at most 256 rows");
        T::LINES / Self::BOXES
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
    /// `bytes` encodes a tensor of `RANK` dimensions of `T::Element`, with the swizzle of `T` and a
    /// box of `T::LINE_ELEMENTS` by `BOX_ROWS` by 1, over memory that outlives every launch that
    /// gets it.
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

    /// Returns the load of the tile whose first element is (`row`, `col`) of matrix `batch`, shared
    /// with `peers`.
    ///
    /// Elements outside the tensor arrive as zero and count in the transaction bytes. A box must
    /// begin on a multiple of 16 bytes of a line: any other coordinate is an illegal instruction on
    /// the GPU, and WP015 on the model.
    ///
    /// (PTX: the operands of `cp.async.bulk.tensor`; CUTLASS: `tma_load.with(barrier, mcast_mask)`
    /// and the tile's coordinates.) See the example of [`TensorMap`].
    #[isa::forceinline]
    pub fn tile_of(
        &self,
        batch: impl BatchCoord<RANK>,
        row: u32,
        col: u32,
        peers: Peers<P>,
    ) -> Load<'_, T, P> {
        let (inner, line) = if T::Major::MN { (row, col) } else { (col, row) };
        let place =
            Coord { rank: RANK, inner: inner as i32, line: line as i32, batch: batch.coords() };
        Load { map: &raw const self.bytes, place, peers, tile: PhantomData }
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

impl<T: TileShape, P: Sharing> TensorMap<T, P> {
    /// Returns the load of the tile whose first element is (`row`, `col`) of the matrix, shared
    /// with `peers`: [`tile_of`](Self::tile_of) for a tensor of two dimensions.
    ///
    /// (PTX: the operands of `cp.async.bulk.tensor.2d`; CUTLASS: `tma_load.with(barrier,
    /// mcast_mask)` and the tile's coordinates.) See the example of [`TensorMap`].
    #[isa::forceinline]
    pub fn tile(&self, row: u32, col: u32, peers: Peers<P>) -> Load<'_, T, P> {
        self.tile_of((), row, col, peers)
    }
}

/// The coordinates of a box, in the order of the tensor map's dimensions. The rank is a constant
/// wherever a load is issued.
#[derive(Clone, Copy)]
struct Coord {
    rank: usize,
    inner: i32,
    line: i32,
    batch: [i32; 3],
}

/// Calls an instruction of `isa::cp_async_bulk` with as many coordinates as the map has.
macro_rules! by_rank {
    ($at:expr, |$coords:ident| $call:expr) => {{
        let Coord { rank, inner, line, batch: [a, b, c] } = $at;
        match rank {
            2 => {
                let $coords = [inner, line];
                $call
            }
            3 => {
                let $coords = [inner, line, a];
                $call
            }
            4 => {
                let $coords = [inner, line, a, b];
                $call
            }
            _ => {
                let $coords = [inner, line, a, b, c];
                $call
            }
        }
    }};
}

impl Coord {
    /// The same lines, in panel number `panel` of a tile.
    #[isa::forceinline]
    fn panel<T: TileShape>(self, panel: usize) -> Self {
        Self { inner: self.inner + (panel * T::LINE_ELEMENTS) as i32, ..self }
    }
}

/// A TMA load of one tile, not issued yet: [`TensorMap::tile`] returns it and
/// [`EmptySlot::load`](crate::ring::EmptySlot::load) takes it.
///
/// (PTX: the operands of `cp.async.bulk.tensor`, for each panel; CUTLASS: the arguments of `copy`.)
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
    /// A kernel parameter, or a map in global memory whose changes this thread has acquired.
    map: *const TensorMapBytes,
    place: Coord,
    peers: Peers<P>,
    tile: PhantomData<(T, &'a TensorMapBytes)>,
}

impl<T: TileShape, P: Sharing> Load<'_, T, P> {
    /// The box that this CTA loads, if it loads one: where it begins in the tensor, and its first line in the tile.
    ///
    /// Of fewer boxes than CTAs, another CTA is the first one in each `turn`, so that all load equally much.
    #[isa::forceinline]
    fn own(&self, turn: u32) -> Option<(Coord, u32)> {
        let boxes = const { TensorMap::<T, P>::BOXES };
        let index = if boxes == P::COUNT {
            self.peers.index
        } else {
            (self.peers.index + turn) % P::COUNT as u32
        };
        let first = index * TensorMap::<T, P>::BOX_ROWS as u32;
        let at = Coord { line: self.place.line + first as i32, ..self.place };
        (boxes == P::COUNT || index < boxes as u32).then_some((at, first))
    }

    /// Prefetches the boxes into the L2 cache, for the load that follows (for a shared tile, only
    /// this CTA's box).
    ///
    /// It may come before the wait for the primary grid: it delivers no data to the kernel, and
    /// what the primary grid still writes updates the same L2 lines.
    ///
    /// (PTX `cp.async.bulk.prefetch.tensor.L2.global.tile`; CUTLASS `SM90_TMA_LOAD_2D::PREFETCH`.)
    /// See the example of [`BeforeWait`].
    #[device]
    pub fn prefetch<Ro: Role, Cl: ClusterShape>(self, _one: &BeforeWait<Elected<Ro, Cl>>) {
        let (map, Some((at, _))) = (self.map, self.own(0)) else { return };
        for panel in 0..T::PANELS {
            by_rank!(at.panel::<T>(panel), |coords| {
                // SAFETY: the map is encoded, of this rank, and a prefetch writes no memory that a
                // thread sees.
                unsafe { isa::cp_async_bulk::tensor_prefetch(map, coords) }
            });
        }
    }

    /// Issues the load into the tile at address `dst`. It completes on the mbarrier at `full` in
    /// every CTA that receives it.
    ///
    /// # Safety
    /// `dst` is an acquired slot's tile of shape `T` and `full` its armed barrier, at the same
    /// offsets in every peer.
    #[device]
    pub(crate) unsafe fn issue(self, dst: u32, full: u32) {
        // The barriers of a ring lie one after the other, at the same addresses in every CTA. So the CTAs agree on the turn.
        let Some((at, first)) = self.own(full / size_of::<u64>() as u32) else { return };
        let (map, mask) = (self.map, self.peers.mask);
        for panel in 0..T::PANELS {
            let dst = dst + first * T::LINE_BYTES as u32 + (panel * T::PANEL_BYTES) as u32;
            by_rank!(at.panel::<T>(panel), |coords| {
                // SAFETY: the caller's contract; the panels are disjoint parts of the tile, and the CTAs' boxes are of a panel.
                unsafe {
                    if P::COUNT == 1 {
                        isa::cp_async_bulk::tensor_load(dst, map, coords, full);
                    } else {
                        isa::cp_async_bulk::tensor_load_multicast(dst, map, coords, full, mask);
                    }
                }
            });
        }
    }
}

impl<T: TileShape> Load<'_, T> {
    /// Issues the load into the tile at address `dst`. It completes on the mbarrier at the `shared::cluster` address `full`,
    /// in this CTA or in the other one of its pair.
    ///
    /// # Safety
    /// `dst` is an acquired slot's tile of shape `T` and `full` its barrier, which expects the bytes or will before its phase
    /// completes.
    #[device]
    pub(crate) unsafe fn issue_2sm(self, dst: u32, full: u32) {
        let map = self.map;
        for panel in 0..T::PANELS {
            let dst = dst + (panel * T::PANEL_BYTES) as u32;
            by_rank!(self.place.panel::<T>(panel), |coords| {
                // SAFETY: the caller's contract; the panels are disjoint parts of the tile.
                unsafe { isa::tcgen05::tensor_load_2sm(dst, map, coords, full) }
            });
        }
    }
}

impl<T: TileShape, const RANK: usize> TensorMap<T, Unshared, RANK> {
    /// Stores the tile at address `src` to (`row`, `col`) of matrix `batch`. What lies outside the
    /// tensor is clipped.
    ///
    /// # Safety
    /// `src` is a complete tile of shape `T`, visible to the async proxy, and stays untouched until
    /// the bulk group of the store has been read.
    #[device]
    pub(crate) unsafe fn issue_store(
        &self,
        src: u32,
        batch: impl BatchCoord<RANK>,
        row: u32,
        col: u32,
    ) {
        // SAFETY: the caller's contract.
        unsafe { self.tile_of(batch, row, col, Peers::ALONE).store_from(src) }
    }
}

impl<T: TileShape, P: Sharing> Load<'_, T, P> {
    /// The place of a tile of the matrix that a map in global memory describes.
    ///
    /// # Safety
    /// For `'a` the map describes a matrix of two dimensions in boxes of `TensorMap<T, P>`, and this thread has acquired
    /// its changes ([`isa::fence::proxy_tensormap_acquire_gpu`]).
    #[isa::forceinline]
    pub(crate) unsafe fn of_map(
        map: *const TensorMapBytes,
        row: u32,
        col: u32,
        peers: Peers<P>,
    ) -> Self {
        const { assert!(!T::Major::MN, "a map in global memory has K-major tiles") };
        let place = Coord { rank: 2, inner: col as i32, line: row as i32, batch: [0; 3] };
        Self { map, place, peers, tile: PhantomData }
    }
}

impl<T: TileShape> Load<'_, T> {
    /// Stores the tile at address `src` to this place.
    ///
    /// # Safety
    /// That of [`TensorMap::issue_store`].
    #[device]
    pub(crate) unsafe fn store_from(self, src: u32) {
        for panel in 0..T::PANELS {
            let src = src + (panel * T::PANEL_BYTES) as u32;
            by_rank!(self.place.panel::<T>(panel), |coords| {
                // SAFETY: the caller's contract.
                unsafe { isa::cp_async_bulk::tensor_store(self.map, coords, src) }
            });
        }
    }
}

// SAFETY: before the wait only prefetches are possible, and they read no tensor data into the
// kernel. A load needs a slot and a store a published buffer; the ends that return those take a
// token that exists only after `BeforeWait::wait`.
unsafe impl<T: TileShape, P: Sharing, const RANK: usize> AfterWait for &TensorMap<T, P, RANK> {}

// SAFETY: the parameter is the 128 bytes of the map; the kernel gets their address.
unsafe impl<T: TileShape, P: Sharing, const RANK: usize> KernelArg for &TensorMap<T, P, RANK> {
    type Abi = *const TensorMapBytes;
    const META: ParamMeta = ParamMeta {
        kind: ParamKind::TensorMap as u32,
        size: 128,
        align: 64,
        dtype: T::Element::DTYPE as u32,
        box_rows: TensorMap::<T, P, RANK>::BOX_ROWS as u32,
        box_cols: T::LINE_ELEMENTS as u32,
        swizzle_bytes: T::SWIZZLE as u32,
        rank: RANK as u32,
    };
    #[isa::forceinline]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cta::{AlongM, Cluster};
    use crate::tile::Tile;
    use half::bf16;

    /// The lines of a tile of `ROWS` rows that each of four CTAs loads in each of four turns.
    fn loaded<const ROWS: usize>() -> Vec<Vec<Vec<u32>>> {
        let map = core::ptr::null();
        let place = Coord { rank: 2, inner: 0, line: 1000, batch: [0; 3] };
        let of = |rank: u32, turn: u32| {
            let peers = Cluster::<4, 1>::coord(rank).sharing_b();
            let load: Load<'_, Tile<bf16, ROWS, 64>, AlongM<4>> =
                Load { map, place, peers, tile: PhantomData };
            let rows = TensorMap::<Tile<bf16, ROWS, 64>, AlongM<4>>::BOX_ROWS as u32;
            let own = load.own(turn);
            assert!(own.is_none_or(|(at, first)| at.line == 1000 + first as i32));
            own.map_or(Vec::new(), |(_, first)| (first..first + rows).collect())
        };
        (0..4).map(|turn| (0..4).map(|rank| of(rank, turn)).collect()).collect()
    }

    fn check<const ROWS: usize>() {
        let turns = loaded::<ROWS>();
        for ctas in &turns {
            let mut lines = ctas.concat();
            lines.sort_unstable();
            assert!(lines.into_iter().eq(0..ROWS as u32), "each line is loaded once");
        }
        for rank in 0..4 {
            let lines: usize = turns.iter().map(|ctas| ctas[rank].len()).sum();
            assert_eq!(lines, ROWS, "over all turns, the CTAs load equally much");
        }
    }

    #[test]
    fn ctas_share_the_loads_of_every_tile() {
        // Boxes: 4, 4, 3, 2, 1, 1 and 1.
        check::<64>();
        check::<256>();
        check::<144>();
        check::<176>();
        check::<8>();
        check::<104>();
        check::<136>();
    }
}
