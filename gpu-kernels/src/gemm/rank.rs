//! The rank of a kernel's tensor maps: matrices, or batches of matrices.
#![forbid(unsafe_code)]

use pipeline::cta::{ClusterShape, Role, Roles, Sharing, Unshared};
use pipeline::prelude::*;
use pipeline::store::PublishedBuffer;
use pipeline::tile::{AcquiredMaps, EpilogueElement, Load, TileShape};

/// The dimensions of the tensor maps of A, B, C and D: [`Rank2`], [`Rank3`] or [`Arrays`]. (CUTLASS: with or without the
/// mode L, or pointer arrays.)
pub trait MapRank: 'static {
    /// A tensor map of this rank.
    type Map<T: TileShape, P: Sharing>: 'static;
    /// Whether the third dimension of a map numbers the matrices of a batch.
    const BATCHED: bool;

    /// Prefetches a descriptor ([`TensorMap::prefetch`]).
    fn prefetch<T: TileShape, P: Sharing, R: Roles, Cl: ClusterShape, Plan>(
        map: &Self::Map<T, P>,
        cta: &Cta<R, Cl, Plan>,
    );

    /// The load of the tile at (`row`, `col`) of matrix `batch` ([`TensorMap::tile_of`]).
    fn tile<T: TileShape, P: Sharing>(
        map: &Self::Map<T, P>,
        batch: u32,
        row: u32,
        col: u32,
        peers: Peers<P>,
    ) -> Load<'_, T, P>;

    /// Stores a buffer at (`row`, `col`) of matrix `batch` ([`PublishedBuffer::store_of`]).
    fn store<T, const DEPTH: usize, Ro: Role, Cl: ClusterShape, const TILES: usize>(
        buffer: PublishedBuffer<'_, T::Element, DEPTH, Ro, Cl, TILES>,
        map: &Self::Map<T, Unshared>,
        batch: u32,
        row: u32,
        col: u32,
    ) where
        T: TileShape,
        T::Element: EpilogueElement;
}

/// The operands are matrices, and the kernel computes one product.
pub enum Rank2 {}
/// The operands are batches of matrices, and the kernel computes a product of each. A product alone is a batch of one.
pub enum Rank3 {}

macro_rules! rank {
    ($name:ident: $rank:literal, $batched:literal, |$batch:ident| $coord:expr) => {
        impl MapRank for $name {
            type Map<T: TileShape, P: Sharing> = TensorMap<T, P, $rank>;
            const BATCHED: bool = $batched;

            #[isa::forceinline]
            fn prefetch<T: TileShape, P: Sharing, R: Roles, Cl: ClusterShape, Plan>(
                map: &Self::Map<T, P>,
                cta: &Cta<R, Cl, Plan>,
            ) {
                map.prefetch(cta);
            }

            #[isa::forceinline]
            fn tile<T: TileShape, P: Sharing>(
                map: &Self::Map<T, P>,
                $batch: u32,
                row: u32,
                col: u32,
                peers: Peers<P>,
            ) -> Load<'_, T, P> {
                map.tile_of($coord, row, col, peers)
            }

            #[isa::forceinline]
            fn store<T, const DEPTH: usize, Ro: Role, Cl: ClusterShape, const TILES: usize>(
                buffer: PublishedBuffer<'_, T::Element, DEPTH, Ro, Cl, TILES>,
                map: &Self::Map<T, Unshared>,
                $batch: u32,
                row: u32,
                col: u32,
            ) where
                T: TileShape,
                T::Element: EpilogueElement,
            {
                buffer.store_of(map, $coord, row, col);
            }
        }
    };
}
rank!(Rank2: 2, false, |_batch| ());
rank!(Rank3: 3, true, |batch| batch);

/// The operands are matrices of many problems, each with tensor maps of its own in global memory. The batch of a tile is
/// its problem.
pub enum Arrays {}

impl MapRank for Arrays {
    type Map<T: TileShape, P: Sharing> = AcquiredMaps<'static, T, P>;
    const BATCHED: bool = false;

    /// Does nothing: maps in global memory are not known before the wait.
    #[isa::forceinline]
    fn prefetch<T: TileShape, P: Sharing, R: Roles, Cl: ClusterShape, Plan>(
        _map: &Self::Map<T, P>,
        _cta: &Cta<R, Cl, Plan>,
    ) {
    }

    #[isa::forceinline]
    fn tile<T: TileShape, P: Sharing>(
        map: &Self::Map<T, P>,
        batch: u32,
        row: u32,
        col: u32,
        peers: Peers<P>,
    ) -> Load<'_, T, P> {
        map.get(batch).tile(row, col, peers)
    }

    #[isa::forceinline]
    fn store<T, const DEPTH: usize, Ro: Role, Cl: ClusterShape, const TILES: usize>(
        buffer: PublishedBuffer<'_, T::Element, DEPTH, Ro, Cl, TILES>,
        map: &Self::Map<T, Unshared>,
        batch: u32,
        row: u32,
        col: u32,
    ) where
        T: TileShape,
        T::Element: EpilogueElement,
    {
        buffer.store_to(map, batch, row, col);
    }
}
