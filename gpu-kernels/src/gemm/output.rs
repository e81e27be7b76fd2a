//! The store path of a warp group: it reads tiles of C, applies the epilogue, and stores D through store buffers.
#![forbid(unsafe_code)]

use super::epilogue::Epilogue;
pub use super::epilogue_tiles::swapped_columns;
use super::epilogue_tiles::{Columns, FRAGMENT_COLS};
use super::rank::{MapRank, Rank2};
use super::scheduler::TileOrigin;
use core::marker::PhantomData;
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterShape, Role, Unshared};
use pipeline::mma::{
    Fragment, Fragments, GROUP_ROWS, IntAccumulator, TileOfGroup, TransposedFragments,
};
use pipeline::prelude::*;
use pipeline::ring::{Consumer, OrdinaryReads};
use pipeline::store::{FreeBuffer, PublishedBuffer, Stores};
use pipeline::tile::TileShape;

names! {
    /// The ring of C's tiles.
    Source = "C",
}

/// Stages of the ring of C.
pub const SOURCE_STAGES: usize = 2;
/// Store buffers of each warp group, unless the kernel has another number: one is filled while the other is written out.
pub const STORE_STAGES: usize = 2;

/// Most fragments that are written together.
const MOST_FRAGMENTS: usize = 16;

/// How the rows and columns of an accumulator lie in D.
pub trait Orientation: 'static {
    /// Element of C and D.
    type Out: Fragments;
    /// Whether the kernel's A is the product's B. The rows of an accumulator are then columns of D.
    const SWAP_AB: bool;
    /// Columns of the sums that one TMA store writes: the epilogue tile.
    const COLS: usize;
    /// The box of D that one TMA store writes.
    type EpilogueTile: TileShape<Element = Self::Out>;
    /// The tensor map of D, in boxes of an epilogue tile.
    type Map<K: MapRank>: 'static;

    /// Stores buffers whose first element lies at `at` of the accumulators' rows and columns.
    fn store<K: MapRank, M: Role, Cl: ClusterShape, const STORES: usize, const TILES: usize>(
        buffers: PublishedBuffer<'_, Self::Out, STORES, M, Cl, TILES>,
        map: &Self::Map<K>,
        at: TileOrigin,
    );

    /// Writes a fragment into its store buffer.
    fn put<M: Role, Cl: ClusterShape, const STORES: usize, const TILES: usize>(
        buffer: &mut FreeBuffer<'_, Self::Out, STORES, M, Cl, TILES>,
        index: usize,
        values: [f32; 8],
    );
}

/// Divides `N` columns of an accumulator into epilogue tiles.
pub struct EpilogueTiles<D, const N: usize>(PhantomData<D>);

impl<D: Orientation, const N: usize> EpilogueTiles<D, N> {
    const ALL: Columns = Columns::new(N, D::COLS);
    /// The number of epilogue tiles.
    pub const COUNT: usize = Self::ALL.count();

    /// First column of epilogue tile `index`.
    ///
    /// If `N` is not a multiple of the epilogue tile's width, epilogue tile 0 has the last columns of the tile, and the
    /// last epilogue tile overlaps with it. TMA writes the shared columns twice, so the last store waits until the
    /// first one is written.
    #[isa::forceinline]
    pub const fn column(index: usize) -> usize {
        Self::ALL.column(index)
    }
}

/// D's rows are the tile's rows.
pub struct Direct<O>(PhantomData<O>);

impl<O: Fragments> Orientation for Direct<O> {
    type Out = O;
    const SWAP_AB: bool = false;
    const COLS: usize = O::EPILOGUE_COLS;
    type EpilogueTile = O::EpilogueTile<GROUP_ROWS>;
    type Map<K: MapRank> = K::Map<Self::EpilogueTile, Unshared>;

    #[isa::forceinline]
    fn store<K: MapRank, M: Role, Cl: ClusterShape, const STORES: usize, const TILES: usize>(
        buffers: PublishedBuffer<'_, O, STORES, M, Cl, TILES>,
        map: &Self::Map<K>,
        at: TileOrigin,
    ) {
        let (row, column) = place::<Self>(at);
        K::store::<Self::EpilogueTile, _, _, _, _>(buffers, map, at.batch, row, column);
    }

    #[isa::forceinline]
    fn put<M: Role, Cl: ClusterShape, const STORES: usize, const TILES: usize>(
        buffer: &mut FreeBuffer<'_, O, STORES, M, Cl, TILES>,
        index: usize,
        values: [f32; 8],
    ) {
        buffer.put(index, values);
    }
}

/// D's rows are the tile's columns: swap_ab with a transposed store of `N` of them at a time.
///
/// With the operands swapped, the 64 rows of a wgmma are 64 of D's columns, and D's rows are the tile's columns, of which
/// there may be any multiple of 8. So this is for a D of few rows, and for rows that fit no multiple of 64.
pub struct SwapAb<O, const N: usize>(PhantomData<O>);

impl<O: TransposedFragments, const N: usize> Orientation for SwapAb<O, N> {
    type Out = O;
    const SWAP_AB: bool = true;
    const COLS: usize = N;
    type EpilogueTile = O::EpilogueTile<N>;
    type Map<K: MapRank> = K::Map<Self::EpilogueTile, Unshared>;

    #[isa::forceinline]
    fn store<K: MapRank, M: Role, Cl: ClusterShape, const STORES: usize, const TILES: usize>(
        buffers: PublishedBuffer<'_, O, STORES, M, Cl, TILES>,
        map: &Self::Map<K>,
        at: TileOrigin,
    ) {
        let (row, column) = place::<Self>(at);
        K::store::<Self::EpilogueTile, _, _, _, _>(buffers, map, at.batch, row, column);
    }

    #[isa::forceinline]
    fn put<M: Role, Cl: ClusterShape, const STORES: usize, const TILES: usize>(
        buffer: &mut FreeBuffer<'_, O, STORES, M, Cl, TILES>,
        index: usize,
        values: [f32; 8],
    ) {
        buffer.put_transposed(index, values);
    }
}

/// The tensor map of [`Ragged`]: columns, rows in front of an end, 1, ends.
pub type RaggedMap<T> = TensorMap<T, Unshared, 4>;

/// `D` for a grouped product: rows behind [`TileOrigin::end`] belong to the next group, and are not stored.
///
/// The tensor map has one "matrix" for each row e at which a group may end: the box's rows in front of row e. So rows
/// behind e lie outside of the matrix, and TMA does not store them. One store serves whole boxes and partial ones.
///
/// (Triton `ragged_tma`; [`Packed`](crate::attention::sequences::Packed) has the picture.)
pub struct Ragged<D>(PhantomData<D>);

impl<D: Orientation> Orientation for Ragged<D> {
    type Out = D::Out;
    const SWAP_AB: bool = D::SWAP_AB;
    const COLS: usize = D::COLS;
    type EpilogueTile = D::EpilogueTile;
    type Map<K: MapRank> = RaggedMap<D::EpilogueTile>;

    #[isa::forceinline]
    fn store<K: MapRank, M: Role, Cl: ClusterShape, const STORES: usize, const TILES: usize>(
        buffers: PublishedBuffer<'_, D::Out, STORES, M, Cl, TILES>,
        map: &Self::Map<K>,
        at: TileOrigin,
    ) {
        let (row, column) = place::<Self>(at);
        let (of_box, left) = (D::EpilogueTile::ROWS as u32, at.end.saturating_sub(row));
        let rows = if left < of_box { left } else { of_box };
        buffers.store_of(map, [0, row + rows], of_box - rows, column);
    }

    #[isa::forceinline]
    fn put<M: Role, Cl: ClusterShape, const STORES: usize, const TILES: usize>(
        buffer: &mut FreeBuffer<'_, D::Out, STORES, M, Cl, TILES>,
        index: usize,
        values: [f32; 8],
    ) {
        D::put(buffer, index, values);
    }
}

/// The proof that a tile has [begun](Output::begin). The main loop makes one for each tile and uses it up with it.
#[must_use]
pub struct Begun(());

/// What a warp group needs to store a tile. `C` is the tile in a slot of the ring of C, and `R` says which warp groups
/// read it. The tensor maps have the rank `K`, and the warp group has `STORES` store buffers.
pub struct Output<
    'g,
    D: Orientation,
    E,
    C,
    R: OrdinaryReads,
    Cl,
    K: MapRank = Rank2,
    const STORES: usize = STORE_STAGES,
> {
    /// The warp group.
    pub group: &'g Warpgroup<R::Role, Cl>,
    /// The ring of C, if the epilogue reads C.
    pub source: Option<Consumer<SOURCE_STAGES, (C,), R, Source, Cl>>,
    /// The store buffers, from which TMA writes D.
    pub stores: Stores<'g, D::Out, STORES, R::Role, Cl>,
    /// The tensor map of D.
    pub d: &'g D::Map<K>,
    /// The epilogue.
    pub epilogue: E,
}

impl<D, E, C, R, Cl, K, const STORES: usize> Output<'_, D, E, C, R, Cl, K, STORES>
where
    D: Orientation,
    E: Epilogue,
    C: TileShape<Element = D::Out>,
    R: OrdinaryReads,
    Cl: ClusterShape,
    K: MapRank,
{
    /// Begins a tile, before it is multiplied: the epilogue may load what it needs for it. This warp group's part has `rows`
    /// rows and `columns` columns, and its first element lies at `at`.
    ///
    /// Waits for nothing. The proof that [`store`](Self::store) needs is for this tile.
    #[isa::forceinline]
    pub fn begin(&mut self, rows: usize, columns: usize, at: TileOrigin) -> Begun {
        let ((row, column), extent) = (place::<D>(at), [rows as u32, columns as u32]);
        let [rows, columns] = if D::SWAP_AB { [extent[1], extent[0]] } else { extent };
        let transposed = D::SWAP_AB;
        let tile = TileOfGroup { row, column, rows, columns, transposed };
        self.epilogue.begin_tile(self.group, tile);
        Begun(())
    }

    /// Applies the epilogue to an accumulator of 64 rows and `N` columns, rounds the results and stores them. The
    /// first element lies at `at`.
    ///
    /// For each epilogue tile, this waits for a full slot of the ring of C, if there is one, and then for a free store
    /// buffer.
    #[isa::forceinline]
    pub fn store<const N: usize>(&mut self, begun: &Begun, mut sums: Accumulator<N>, at: TileOrigin)
    where
        M64<N>: Shape,
    {
        let Begun(()) = begun;
        self.epilogue.begin(&mut sums);
        let tiles = const { Columns::new(N / product_columns::<E>(), D::COLS) };
        // Where D's first column lies, which is half as far to the right as that of a gated product.
        let at_d = TileOrigin { col: at.col / const { product_columns::<E>() as u32 }, ..at };
        for index in 0..tiles.count() {
            let first = tiles.column(index);
            let count = const { D::COLS / FRAGMENT_COLS };
            let together = E::LOADS && !E::GATED && self.source.is_none();
            let source = self.source.as_mut().map(|ring| ring.wait());
            let mut out = self.stores.acquire();
            let visited = together.then(|| {
                visit_all::<D, _, _, _, _>(&mut self.epilogue, self.group, &sums, first, count, at)
            });
            for i in 0..count {
                let column = first + i * FRAGMENT_COLS;
                let c = source.as_ref().map(|slot| slot.fragment(self.group, i));
                let values = if let Some(visited) = &visited {
                    visited[i].values
                } else if E::GATED {
                    gated::<D, _, _, _, _>(&self.epilogue, self.group, &sums, column, at, at_d)
                } else {
                    let sum = sums.fragment_at(column);
                    visit::<D, _, _, _>(&self.epilogue, self.group, sum, c, at.right_by(column))
                };
                D::put(&mut out, i, values);
            }
            if let Some(source) = source {
                source.release();
            }
            if !tiles.is_whole() && index == tiles.count() - 1 {
                out.wait_written(tiles.count() - 2);
            }
            D::store::<K, _, _, _, _>(out.publish(), self.d, at_d.right_by(first));
        }
    }

    /// Like [`store`](Self::store), but acquires all store buffers at once, if the sums fill them exactly and the
    /// epilogue does not read C.
    ///
    /// This takes fewer barriers. It is for main loops in which the previous stores have read their buffers long before
    /// the next ones; ping-pong stores too often, and was slower with it (docs/performance-tried.md).
    #[isa::forceinline]
    pub fn store_at_once<const N: usize>(
        &mut self,
        begun: &Begun,
        mut sums: Accumulator<N>,
        at: TileOrigin,
    ) where
        M64<N>: Shape,
    {
        let fills = const { N == STORES * D::COLS && !D::SWAP_AB && !E::GATED };
        if !fills || self.source.is_some() {
            return self.store(begun, sums, at);
        }
        self.epilogue.begin(&mut sums);
        let count = const { N / FRAGMENT_COLS };
        let mut out = self.stores.acquire_all();
        let visited = E::LOADS.then(|| {
            visit_all::<D, _, _, _, _>(&mut self.epilogue, self.group, &sums, 0, count, at)
        });
        for i in 0..count {
            let values = if let Some(visited) = &visited {
                visited[i].values
            } else {
                let at = at.right_by(i * FRAGMENT_COLS);
                visit::<D, _, _, _>(&self.epilogue, self.group, sums.fragment(i), None, at)
            };
            D::put(&mut out, i, values);
        }
        D::store::<K, _, _, _, _>(out.publish(), self.d, at);
    }

    /// Behind the last tile: ends the epilogue, and waits until TMA has read the store buffers.
    #[isa::forceinline]
    pub fn tail(self) {
        self.epilogue.end(self.group);
        self.stores.tail();
    }
}

impl<D, E, C, R, Cl, K, const STORES: usize> Output<'_, D, E, C, R, Cl, K, STORES>
where
    D: Orientation<Out = i32>,
    R: OrdinaryReads,
    Cl: ClusterShape,
    K: MapRank,
{
    /// Stores an accumulator of whole numbers, 64 rows and `N` columns, exactly. `f` returns what is stored in place of a
    /// thread's values of a fragment. The first element lies at `at`.
    ///
    /// For each epilogue tile, this waits for a free store buffer.
    #[isa::forceinline]
    pub fn store_ints<const N: usize>(
        &mut self,
        _begun: &Begun,
        sums: &IntAccumulator<N>,
        at: TileOrigin,
        f: impl Fn([i32; 8]) -> [i32; 8],
    ) where
        M64<N>: Shape<i32>,
    {
        const {
            assert!(
                !D::SWAP_AB && N.is_multiple_of(D::COLS),
                "whole numbers are stored as they lie, in whole epilogue tiles"
            );
        }
        let per_tile = const { D::COLS / FRAGMENT_COLS };
        for tile in 0..const { N / D::COLS } {
            let mut out = self.stores.acquire();
            for i in 0..per_tile {
                out.put_ints(i, f(sums.fragment(tile * per_tile + i)));
            }
            D::store::<K, _, _, _, _>(out.publish(), self.d, at.right_by(tile * D::COLS));
        }
    }
}

/// The `count` fragments from column `first` on, visited.
#[isa::forceinline]
fn visit_all<D: Orientation, E: Epilogue, M: Role, Cl: ClusterShape, const N: usize>(
    epilogue: &mut E,
    group: &Warpgroup<M, Cl>,
    sums: &Accumulator<N>,
    first: usize,
    count: usize,
    at: TileOrigin,
) -> [Fragment; MOST_FRAGMENTS]
where
    M64<N>: Shape,
{
    let mut fragments = core::array::from_fn(|i| {
        let column = first + i.min(count - 1) * FRAGMENT_COLS;
        let sum = sums.fragment_at(column);
        fragment::<D, _, _>(group, sum, at.right_by(column))
    });
    epilogue.visit_all(group, &mut fragments[..count]);
    fragments
}

/// The fragment of D at `at_d`, from column `column` of the tile on. In the product, which begins at `at`, two fragments
/// belong to it.
///
/// ```text
/// product   8 gates g0  8 up u0 │ 8 gates g1  8 up u1      of a thread: values 0..4, 4..8 │ 0..4, 4..8
/// D         8 columns f(g0)·u0    8 columns f(g1)·u1       of a thread: values 0..4         4..8
/// ```
/// So a thread has all that it stores, in the right registers.
#[isa::forceinline]
fn gated<D: Orientation, E: Epilogue, M: Role, Cl: ClusterShape, const N: usize>(
    epilogue: &E,
    group: &Warpgroup<M, Cl>,
    sums: &Accumulator<N>,
    column: usize,
    at: TileOrigin,
    at_d: TileOrigin,
) -> [f32; 8]
where
    M64<N>: Shape,
{
    let visited = [0, FRAGMENT_COLS].map(|right| {
        let column = 2 * column + right;
        let sum = sums.fragment_at(column);
        visit::<D, _, _, _>(epilogue, group, sum, None, at.right_by(column))
    });
    let half = |first: usize| {
        let values = core::array::from_fn(|i| visited[i / 4][first + i % 4]);
        Fragment::new(group, values, at_d.row, at_d.col + column as u32)
    };
    epilogue.gate(half(0), half(4)).values
}

/// Columns of the product for each column of D.
const fn product_columns<E: Epilogue>() -> usize {
    if E::GATED { 2 } else { 1 }
}

/// Applies the epilogue to a 64 x 16 fragment whose first element lies at `at`.
#[isa::forceinline]
fn visit<D: Orientation, E: Epilogue, M: Role, Cl: ClusterShape>(
    epilogue: &E,
    group: &Warpgroup<M, Cl>,
    sum: [f32; 8],
    c: Option<[f32; 8]>,
    at: TileOrigin,
) -> [f32; 8] {
    let of = |values| fragment::<D, _, _>(group, values, at);
    epilogue.visit(of(sum), c.map(of)).values
}

/// The fragment of D of an accumulator's fragment whose first element lies at `at`.
#[isa::forceinline]
fn fragment<D: Orientation, M: Role, Cl: ClusterShape>(
    group: &Warpgroup<M, Cl>,
    values: [f32; 8],
    at: TileOrigin,
) -> Fragment {
    let direct = Fragment::new(group, values, at.row, at.col);
    if D::SWAP_AB { direct.transposed() } else { direct }
}

/// Row and column in D of an accumulator element at `at`: with swap_ab the two are exchanged.
#[isa::forceinline]
fn place<D: Orientation>(at: TileOrigin) -> (u32, u32) {
    if D::SWAP_AB { (at.col, at.row) } else { (at.row, at.col) }
}
