//! TMA stores, from shared-memory buffers that a warp group fills with ordinary stores (CUTLASS
//! `PipelineTmaStore<Stages, UnacquiredStages>`).
//!
//! Invariant: a buffer is written only when no TMA store reads it any more, and it is stored only
//! after a proxy fence and a synchronisation of the group.
//!
//! The types follow a buffer through its steps. The group fills a [`FreeBuffer`], which no store
//! reads. [`FreeBuffer::publish`] fences and synchronises the group. It returns a
//! [`PublishedBuffer`], the only one that can be stored. The fence is needed because the group
//! writes through the generic proxy and TMA reads through the async proxy (PTX manual, "Async
//! proxy").

use crate::cta::ClusterShape;
use crate::cta::{Peers, Unshared};
use crate::cta::{Place, Region};
use crate::cta::{Role, Warpgroup};
use crate::mma::GROUP_ROWS;
use crate::mma::{COLUMNS, Fragments, TransposedFragments, store_words, within};
use crate::tile::{AcquiredMaps, BatchCoord, TensorMap};
use crate::tile::{EpilogueElement, TILE_ALIGN, TileShape, by_fragments, facts};
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{Part, RegionFacts};

type GroupTile<O> = <O as EpilogueElement>::EpilogueTile<GROUP_ROWS>;

/// The default of [`StoreBuffers`]' `UNACQUIRED`: `DEPTH` - 1 stores may still be reading when a
/// buffer is acquired.
///
/// (CUTLASS: the default of `UnacquiredStages`.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{prelude::*, store::ALL_BUT_ONE};
/// # roles! { Math = 2 x 232 registers }
/// # fn same(buffers: StoreBuffers<bf16, 4, Math>) ->
/// StoreBuffers<bf16, 4, Math, ALL_BUT_ONE>
/// # { buffers }
/// ```
pub const ALL_BUT_ONE: usize = usize::MAX;

/// `DEPTH` store buffers for each warp group of role `Ro`, used in turn. `DEPTH` is 1 to 32.
///
/// A buffer is one epilogue tile of `O`: 64 rows of 128 bytes, or of 64 bytes of `F8E4M3`.
///
/// A buffer is acquired when at most `UNACQUIRED` stores still read theirs. By default that is one
/// fewer than `DEPTH`, so a group waits only for the oldest store. With a smaller number, a group
/// knows earlier that a store has finished reading its buffer.
///
/// (CUTLASS: `smem_d` in the epilogue's `SharedStorage`, with `PipelineTmaStore<DEPTH,
/// UNACQUIRED>`.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::prelude::*;
/// # roles! { Math = 2 x 232 registers }
/// type Plan = SmemPlan<(StoreBuffers<bf16, 2, Math>,)>;
/// assert_eq!(Plan::BYTES, 2 * 2 * 64 * 128);
/// /// Four buffers; at most two are being read when the next one is acquired.
/// type Eager = SmemPlan<(StoreBuffers<bf16, 4, Math, 2>,)>;
/// assert_eq!(Eager::BYTES, 4 * 2 * 64 * 128);
/// ```
pub struct StoreBuffers<O, const DEPTH: usize, Ro, const UNACQUIRED: usize = ALL_BUT_ONE>(
    PhantomData<(O, Ro)>,
);

// SAFETY: the buffers lie inside BYTES; there is no barrier to initialise.
unsafe impl<O: EpilogueElement, const DEPTH: usize, Ro: Role, const UNACQUIRED: usize> Region
    for StoreBuffers<O, DEPTH, Ro, UNACQUIRED>
{
    const BYTES: usize = {
        assert!(DEPTH >= 1 && DEPTH <= 32, "a warp group has from 1 to 32 store buffers");
        assert!(
            UNACQUIRED == ALL_BUT_ONE || UNACQUIRED < DEPTH,
            "at most DEPTH - 1 stores may still be reading when a buffer is acquired"
        );
        DEPTH * Ro::GROUPS * <GroupTile<O> as TileShape>::BYTES
    };
    const ALIGN: usize = TILE_ALIGN;
    const FACTS: RegionFacts = RegionFacts::of(
        "StoreBuffers",
        &[Part::Tiles {
            what: "buffers",
            offset: 0,
            count: (DEPTH * Ro::GROUPS) as u32,
            tiles: const { &[facts::<GroupTile<O>>()] },
        }],
    );
    type Ends = StoreEnd<O, DEPTH, Ro, UNACQUIRED>;
    #[isa::forceinline]
    unsafe fn init(_place: Place) {}
    #[isa::forceinline]
    unsafe fn ends(place: Place) -> Self::Ends {
        StoreEnd { base: place.base, kind: PhantomData }
    }
}

/// The store buffers, before a warp group takes its own.
///
/// (CUTLASS `PipelineTmaStore::Params`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, store::*}};
/// # names! { Main = "main" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// fn take(end: StoreEnd<bf16, 2, Math>, group: &Warpgroup<Math, Alone>) {
///     let stores: Stores<'_, bf16, 2, Math, Alone> = end.by(group);
///     stores.tail();
/// }
/// ```
#[must_use]
pub struct StoreEnd<O, const DEPTH: usize, Ro, const UNACQUIRED: usize = ALL_BUT_ONE> {
    base: u32,
    kind: PhantomData<(O, Ro, *const ())>,
}

impl<O: Fragments, const DEPTH: usize, Ro: Role, const UNACQUIRED: usize>
    StoreEnd<O, DEPTH, Ro, UNACQUIRED>
{
    /// Binds a warp group to its own buffers.
    ///
    /// See the example of [`StoreEnd`].
    #[isa::forceinline]
    pub fn by<Cl: ClusterShape>(
        self,
        group: &Warpgroup<Ro, Cl>,
    ) -> Stores<'_, O, DEPTH, Ro, Cl, UNACQUIRED> {
        let bytes = <GroupTile<O> as TileShape>::BYTES as u32;
        Stores {
            base: self.base + group.index() * DEPTH as u32 * bytes,
            next: 0,
            group,
            kind: PhantomData,
        }
    }
}

/// A warp group's store buffers, used in turn.
///
/// Waits until stores have read their buffers. It signals no other thread, because a bulk group
/// belongs to the thread that issued it. (PTX `cp.async.bulk.wait_group.read`; CUTLASS
/// `PipelineTmaStore`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, store::*}};
/// # names! { Main = "main" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// type Plan = SmemPlan<(StoreBuffers<bf16, 2, Math>,)>;
///
/// /// Fills block p of 64x64 elements with the number p; the two groups alternate.
/// fn kernel(cta: Cta<(Load, Math), Alone, Plan>, to: &TensorMap<Tile<bf16, 64, 64>>) {
///     let (cta, (stores,)) = cta.init();
///     cta.specialize(
///         |_| {},
///         |group| {
///             let mut stores = stores.by(&group);
///             for block in (group.index()..9).step_by(2) {
///                 let mut free = stores.acquire();
///                 for fragment in 0..4 {
///                     free.put(fragment, [block as f32; 8]);
///                 }
///                 free.publish().store(to, 64 * block, 0);
///             }
///             stores.tail();
///         },
///     );
/// }
/// # mod model { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/model.rs")); }
/// # let memory = sim::GlobalMemory::new();
/// # let to = model::Image::new(&memory, 9 * 64, 64, |_| f32::NAN);
/// # let map = to.map();
/// # model::run(1, &memory, |cta| kernel(cta, &map)).unwrap();
/// # assert!(to.read().iter().enumerate().all(|(i, &x)| x == (i / 4096) as f32));
/// ```
#[must_use]
pub struct Stores<'g, O, const DEPTH: usize, Ro, Cl, const UNACQUIRED: usize = ALL_BUT_ONE> {
    base: u32,
    next: u32,
    group: &'g Warpgroup<Ro, Cl>,
    kind: PhantomData<O>,
}

/// Executes `wait_group_read::<N>` for an `N` that is an associated constant, which Rust does not
/// accept as a const argument in a generic item.
macro_rules! wait_group_read {
    ($outstanding:expr, $($number:literal)+) => {
        match $outstanding {
            $($number => isa::cp_async_bulk::wait_group_read::<$number>(),)+
            // Waits for all stores, which is safe for any number.
            _ => isa::cp_async_bulk::wait_group_read::<0>(),
        }
    };
}

impl<O: Fragments, const DEPTH: usize, Ro: Role, Cl: ClusterShape, const UNACQUIRED: usize>
    Stores<'_, O, DEPTH, Ro, Cl, UNACQUIRED>
{
    /// Stores that may still be reading their source when a buffer is acquired.
    const OUTSTANDING: usize = if UNACQUIRED == ALL_BUT_ONE { DEPTH - 1 } else { UNACQUIRED };

    /// Acquires the next buffer: waits until all stores but the last `UNACQUIRED` (by default
    /// `DEPTH - 1`) have read their source.
    ///
    /// One buffer is out at a time, and the turn passes to the next buffer only when this one is
    /// stored. So the wait covers the last store of the buffer that it returns.
    ///
    /// Waits for those reads and for the group's other threads. Signals the group's named barrier.
    /// (PTX `cp.async.bulk.wait_group.read` in the issuing thread, `barrier.cta.sync` in all
    /// threads; CUTLASS `PipelineTmaStore::producer_acquire`.) See the example of [`Stores`].
    #[device]
    pub fn acquire(&mut self) -> FreeBuffer<'_, O, DEPTH, Ro, Cl> {
        if self.group.thread() == 0 {
            // This thread issues the group's stores.
            wait_group_read!(Self::OUTSTANDING,
                0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
        }
        self.group.sync();
        let at = self.base + self.next * <GroupTile<O> as TileShape>::BYTES as u32;
        FreeBuffer { at, next: &mut self.next, group: self.group, kind: PhantomData }
    }

    /// Acquires all buffers at once, as epilogue tiles side by side: waits until all stores have
    /// read their source.
    ///
    /// This costs one wait, one fence and two synchronisations for all buffers. It is for groups
    /// with other work between two uses of the buffers.
    ///
    /// Waits for those reads and for the group's other threads. Signals the group's named barrier.
    /// (PTX: as [`acquire`](Self::acquire); CUTLASS: `PipelineTmaStore::producer_acquire`, `DEPTH`
    /// times.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{prelude::*, store::*}};
    /// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # type Alone = Cluster<1, 1>;
    /// # type Map = TensorMap<Tile<bf16, 64, 64>>;
    /// /// 64 rows of 128 columns.
    /// fn write(stores: &mut Stores<'_, bf16, 2, Math, Alone>, sum: &Accumulator<128>, to: &Map) {
    ///     let mut free = stores.acquire_all();
    ///     for fragment in 0..8 {
    ///         free.put(fragment, sum.fragment(fragment));
    ///     }
    ///     free.publish().store(to, 0, 0);
    /// }
    /// ```
    #[device]
    pub fn acquire_all(&mut self) -> FreeBuffer<'_, O, DEPTH, Ro, Cl, DEPTH> {
        if self.group.thread() == 0 {
            // This thread issues the group's stores.
            isa::cp_async_bulk::wait_group_read::<0>();
        }
        self.group.sync();
        // All buffers are free, so the turn restarts at the first one, whose store will again be
        // the oldest.
        self.next = 0;
        FreeBuffer { at: self.base, next: &mut self.next, group: self.group, kind: PhantomData }
    }

    /// Waits until every store has read its source, so that the CTA may exit.
    ///
    /// The end of the grid makes the data visible to later kernels.
    ///
    /// (PTX `cp.async.bulk.wait_group.read 0` in the issuing thread; CUTLASS
    /// `PipelineTmaStore::producer_tail`.) See the example of [`Stores`].
    #[device]
    pub fn tail(self) {
        if self.group.thread() == 0 {
            // This thread issues the group's stores.
            isa::cp_async_bulk::wait_group_read::<0>();
        }
    }
}

/// `TILES` store buffers side by side that no store reads. The warp group fills them; each is an
/// epilogue tile of 64 rows of 128 bytes.
///
/// (CUTLASS: a stage of `smem_d`, after `producer_acquire`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, store::*}};
/// # names! { Main = "main" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// # type Map = TensorMap<Tile<bf16, 64, 64>>;
/// fn fill(mut free: FreeBuffer<'_, bf16, 2, Math, Alone>, sum: &Accumulator<64>, to: &Map) {
///     for fragment in 0..4 {
///         free.put(fragment, sum.fragment(fragment));
///     }
///     free.publish().store(to, 0, 0);
/// }
/// ```
#[must_use = "a buffer that is never stored is lost: call `put`, then `publish` and `store`"]
pub struct FreeBuffer<'s, O, const DEPTH: usize, Ro, Cl, const TILES: usize = 1> {
    at: u32,
    next: &'s mut u32,
    group: &'s Warpgroup<Ro, Cl>,
    kind: PhantomData<O>,
}

impl<'s, O: Fragments, const DEPTH: usize, Ro: Role, Cl: ClusterShape, const TILES: usize>
    FreeBuffer<'s, O, DEPTH, Ro, Cl, TILES>
{
    /// Writes a fragment, rounded to `O`: this thread's 8 values of the 64x16 fragment number
    /// `fragment`, counted along the columns of the tiles side by side. A tile has `EPILOGUE_COLS` / 16 fragments: four, or two
    /// of f32 and i32. On the model, a number beyond the last one is an error at the kernel's line. On the device it wraps
    /// around.
    ///
    /// (PTX `stmatrix.sync.aligned.m8n8.x4`, or `st.shared.v2` for f32; CUTLASS `copy` with
    /// `SM90_U32x4_STSM_N`.) See the example of [`FreeBuffer`].
    #[device]
    pub fn put(&mut self, fragment: usize, values: [f32; 8]) {
        let warp_row = self.group.thread() / 32 * 16;
        let fragment = within(fragment, Self::FRAGMENTS * TILES) as usize;
        let (tile, fragment) = (fragment / Self::FRAGMENTS, fragment % Self::FRAGMENTS);
        let at = self.at + (tile * <GroupTile<O> as TileShape>::BYTES) as u32;
        // An empty buffer may be dropped; one that holds something is to be stored.
        isa::debug::hold(self.at, "store buffer", "", 0, "stored");
        // SAFETY: the buffer is free and the group's own; the group is converged.
        unsafe { O::store_fragment(at, warp_row, fragment as u32, values) }
    }

    /// Fragments along the columns of one epilogue tile.
    const FRAGMENTS: usize = O::EPILOGUE_COLS / COLUMNS;

    /// Writes a fragment transposed: its 16 columns become 16 rows of the tile, from row `16 *
    /// fragment` on, and its 64 rows become the tile's columns. A tile has 64 rows, so `fragment` is below 4 · `TILES`; beyond,
    /// as for [`put`](Self::put).
    ///
    /// This is the epilogue of `swap_ab`: the accumulator of a product with exchanged operands is
    /// written as rows of D.
    ///
    /// (PTX `stmatrix.sync.aligned.m8n8.x4.trans`; CUTLASS `copy` with `SM90_U16x8_STSM_T`.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{prelude::*, store::*}};
    /// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # type Alone = Cluster<1, 1>;
    /// # type Map = TensorMap<Tile<bf16, 32, 64>>;
    /// fn fill(mut free: FreeBuffer<'_, bf16, 2, Math, Alone>, sum: &Accumulator<32>, to: &Map) {
    ///     for fragment in 0..2 {
    ///         free.put_transposed(fragment, sum.fragment(fragment));
    ///     }
    ///     free.publish().store_rows(to, 0, 0); // 32 rows of 64 columns
    /// }
    /// ```
    #[device]
    pub fn put_transposed(&mut self, fragment: usize, values: [f32; 8])
    where
        O: TransposedFragments,
    {
        let warp = self.group.thread() / 32;
        let fragment = within(fragment, GROUP_ROWS / COLUMNS * TILES);
        isa::debug::hold(self.at, "store buffer", "", 0, "stored");
        // SAFETY: the buffer is free and the group's own; the group is converged.
        unsafe { O::store_transposed(self.at, warp, fragment, values) }
    }

    /// Waits until all stores except the last `pending` (0 to 3) have written global memory. This buffer's store may
    /// then overwrite what they wrote.
    ///
    /// A larger `pending` counts as 3.
    ///
    /// Also waits for the warp's other lanes. (PTX `cp.async.bulk.wait_group` in the issuing
    /// thread, `bar.warp.sync`; CUTLASS has none: `tma_store_wait` waits for the reads only.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{prelude::*, store::*}};
    /// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # type Alone = Cluster<1, 1>;
    /// # type Map = TensorMap<Tile<bf16, 64, 64>>;
    /// fn twice(stores: &mut Stores<'_, bf16, 2, Math, Alone>, to: &Map) {
    ///     stores.acquire().publish().store(to, 0, 0);
    ///     let mut again = stores.acquire();
    ///     again.wait_written(0);
    ///     again.publish().store(to, 0, 32);
    /// }
    /// ```
    #[device]
    pub fn wait_written(&mut self, pending: usize) {
        if self.group.thread() == 0 {
            // This thread issues the group's stores.
            match pending {
                0 => isa::cp_async_bulk::wait_group::<0>(),
                1 => isa::cp_async_bulk::wait_group::<1>(),
                2 => isa::cp_async_bulk::wait_group::<2>(),
                _ => isa::cp_async_bulk::wait_group::<3>(),
            }
        }
        // SAFETY: the group token proves that all lanes of the warp are here. (The reason for the
        // synchronisation is in `store_rows`.)
        unsafe { isa::warp::sync_warp(u32::MAX) };
    }

    /// Makes the buffer visible to TMA: every thread fences its stores, then the group
    /// synchronises.
    ///
    /// Waits for the group's other threads. Signals the group's named barrier. (PTX
    /// `fence.proxy.async.shared::cta`, `barrier.cta.sync`; CUTLASS `tma_store_fence`, then
    /// `synchronize`.) See the example of [`FreeBuffer`].
    #[device]
    pub fn publish(self) -> PublishedBuffer<'s, O, DEPTH, Ro, Cl, TILES> {
        isa::debug::hold(self.at, "store buffer", "", 0, "stored");
        isa::fence::proxy_async_shared_cta();
        self.group.sync();
        PublishedBuffer { at: self.at, next: self.next, group: self.group, kind: PhantomData }
    }
}

impl<const DEPTH: usize, Ro: Role, Cl: ClusterShape, const TILES: usize>
    FreeBuffer<'_, i32, DEPTH, Ro, Cl, TILES>
{
    /// Writes a fragment of whole numbers as they are: this thread's 8 values of the 64x16 fragment number `fragment`,
    /// counted along the columns of the tiles side by side.
    ///
    /// (PTX `st.shared.v2`; CUTLASS `copy` with `AutoVectorizingCopy`.)
    ///
    /// ```
    /// # use warpipe_pipeline::{mma::IntAccumulator, prelude::*, store::*};
    /// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # type Alone = Cluster<1, 1>;
    /// # type Map = TensorMap<Tile<i32, 64, 32>>;
    /// fn fill(mut free: FreeBuffer<'_, i32, 2, Math, Alone>, sum: &IntAccumulator<32>, to: &Map) {
    ///     for fragment in 0..2 {
    ///         free.put_ints(fragment, sum.fragment(fragment));
    ///     }
    ///     free.publish().store(to, 0, 0);
    /// }
    /// ```
    #[device]
    pub fn put_ints(&mut self, fragment: usize, values: [i32; 8]) {
        let warp_row = self.group.thread() / 32 * 16;
        let (tile, fragment) = (fragment / Self::FRAGMENTS % TILES, fragment % Self::FRAGMENTS);
        let at = self.at + (tile * <GroupTile<i32> as TileShape>::BYTES) as u32;
        isa::debug::hold(self.at, "store buffer", "", 0, "stored");
        // SAFETY: the buffer is free and the group's own; the group is converged.
        unsafe { store_words(at, warp_row, fragment as u32, values.map(i32::cast_unsigned)) }
    }
}

/// Issues the stores of the buffers in one thread, each with its address and its columns to the right, and goes on to the next
/// buffer. A macro keeps the caller's line, which a closure would lose.
macro_rules! issue {
    ($buffer:ident, |$at:ident, $right:ident| $store:expr) => {{
        isa::debug::let_go($buffer.at);
        if $buffer.group.thread() == 0 {
            for tile in 0..TILES {
                let $at = $buffer.at + (tile * <GroupTile<O> as TileShape>::BYTES) as u32;
                let $right = (tile * O::EPILOGUE_COLS) as u32;
                // SAFETY: the buffer is published, and `Stores::acquire` returns it again only
                // after the bulk group has read it.
                unsafe { $store };
                isa::cp_async_bulk::commit_group();
            }
        }
        // Without this synchronisation, LLVM gives the two sides of the branch separate ways back
        // to the head of the kernel's loop. ptxas must then assume a diverged warp, and keeps the
        // rings' states out of the uniform registers that wgmma's descriptors need.
        // SAFETY: the group token proves that all lanes of the warp are here.
        unsafe { isa::warp::sync_warp(u32::MAX) };
        let next = *$buffer.next + TILES as u32;
        *$buffer.next = if next == DEPTH as u32 { 0 } else { next };
    }};
}

/// Store buffers that are filled and visible to the async proxy.
///
/// (CUTLASS: a stage of `smem_d`, after `tma_store_fence`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, store::*}};
/// # names! { Main = "main" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// # type Map = TensorMap<Tile<bf16, 64, 64>>;
/// fn store(buffer: PublishedBuffer<'_, bf16, 2, Math, Alone>, to: &Map, row: u32) {
///     buffer.store(to, row, 0);
/// }
/// ```
#[must_use = "a published buffer that is never stored is lost: call `store`"]
pub struct PublishedBuffer<'s, O, const DEPTH: usize, Ro, Cl, const TILES: usize = 1> {
    at: u32,
    next: &'s mut u32,
    group: &'s Warpgroup<Ro, Cl>,
    kind: PhantomData<O>,
}

impl<O: EpilogueElement, const DEPTH: usize, Ro: Role, Cl: ClusterShape, const TILES: usize>
    PublishedBuffer<'_, O, DEPTH, Ro, Cl, TILES>
{
    /// Stores the epilogue tiles side by side at (`row`, `col`) of the tensor. One thread issues
    /// the stores and commits each as a bulk group.
    ///
    /// Elements outside the tensor are not written, with one exception: the last element of a
    /// clipped row takes the rest of its 16 bytes with it (docs/semantics.md, "Proxies").
    ///
    /// A tile must begin on a multiple of 16 bytes of a row, as for [`TensorMap::tile`].
    ///
    /// Waits for the warp's other lanes. [`Stores::acquire`] later waits for the bulk groups. (PTX
    /// `cp.async.bulk.tensor.2d.global.shared::cta.bulk_group`, `cp.async.bulk.commit_group`,
    /// `bar.warp.sync`; CUTLASS `copy` with `SM90_TMA_STORE`, `PipelineTmaStore::producer_commit`.)
    /// See the example of [`PublishedBuffer`].
    #[device]
    pub fn store(self, tensor: &TensorMap<GroupTile<O>>, row: u32, col: u32) {
        self.store_rows(tensor, row, col);
    }

    /// Stores the first rows of the tiles, as [`store`](Self::store) does: as many rows as the
    /// tensor map's box has.
    ///
    /// See the example of [`FreeBuffer::put_transposed`].
    #[device]
    pub fn store_rows<T>(self, tensor: &TensorMap<T>, row: u32, col: u32)
    where
        T: TileShape<Element = O>,
    {
        self.store_of(tensor, (), row, col);
    }

    /// Stores the tiles, or their first rows, in matrix `batch` of a tensor map of more than two
    /// dimensions, as [`store_rows`](Self::store_rows) does.
    ///
    /// (PTX `cp.async.bulk.tensor` with the map's rank.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{cta::Unshared, prelude::*, store::*}};
    /// # roles! { Math = 2 x 232 registers }
    /// # type Alone = Cluster<1, 1>;
    ///
    /// type Heads = TensorMap<Tile<bf16, 64, 64>, Unshared, 4>;
    /// fn store(buffer: PublishedBuffer<'_, bf16, 2, Math, Alone>, to: &Heads, head: u32) {
    ///     buffer.store_of(to, [head, 0], 128, 0);
    /// }
    /// ```
    #[device]
    pub fn store_of<T, const RANK: usize>(
        self,
        tensor: &TensorMap<T, Unshared, RANK>,
        batch: impl BatchCoord<RANK> + Copy,
        row: u32,
        col: u32,
    ) where
        T: TileShape<Element = O>,
    {
        const {
            assert!(T::ROWS <= GROUP_ROWS, "a store buffer has 64 rows");
            assert!(
                by_fragments::<T>() && T::PANELS == 1,
                "a store buffer is K-major and one panel of its element's epilogue tile wide"
            );
        }
        issue!(self, |at, right| tensor.issue_store(at, batch, row, col + right));
    }

    /// Stores the buffer to (`row`, `col`) of matrix `index` of maps in global memory. What lies outside of the matrix is
    /// clipped. As [`store_of`](Self::store_of), with the map acquired by the thread that issues the store.
    ///
    /// (PTX `fence.proxy.tensormap::generic.acquire`, `cp.async.bulk.tensor`; CUTLASS: the store of a `GemmUniversalMode::kGrouped`
    /// with pointer arrays.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{prelude::*, store::*, tile::AcquiredMaps}};
    /// # roles! { Math = 2 x 232 registers }
    /// # type Alone = Cluster<1, 1>;
    /// fn store(
    ///     buffer: PublishedBuffer<'_, bf16, 2, Math, Alone>,
    ///     maps: &AcquiredMaps<'_, Tile<bf16, 64, 64>>,
    ///     problem: u32,
    /// ) {
    ///     buffer.store_to(maps, problem, 128, 0);
    /// }
    /// ```
    #[device]
    pub fn store_to<T>(self, maps: &AcquiredMaps<'_, T>, index: u32, row: u32, col: u32)
    where
        T: TileShape<Element = O>,
    {
        const {
            assert!(T::ROWS <= GROUP_ROWS, "a store buffer has 64 rows");
            assert!(
                by_fragments::<T>() && T::PANELS == 1,
                "a store buffer is K-major and one panel of its element's epilogue tile wide"
            );
        }
        issue!(self, |at, right| maps
            .get(index)
            .tile(row, col + right, Peers::ALONE)
            .store_from(at));
    }
}
