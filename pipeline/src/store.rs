//! TMA stores: buffers that a warp group fills with ordinary stores and TMA writes out.
//!
//! The way of a panel, each step a type: [`FreeBuffer`] (no store reads it any more) → filled strip
//! by strip → [`FreeBuffer::publish`] (proxy fence, then the group meets) → [`PublishedBuffer`],
//! which alone can be stored. (CUTLASS `PipelineTmaStore<Stages, UnacquiredStages>`; DESIGN: generic
//! proxy, then async.)

use crate::cta::ClusterShape;
use crate::cta::{Place, Region};
use crate::cta::{Role, Warpgroup};
use crate::mma::GROUP_ROWS;
use crate::mma::{Fragments, TransposedFragments};
use crate::tile::TensorMap;
use crate::tile::{EpilogueElement, TILE_ALIGN, TileShape};
use core::marker::PhantomData;
use isa::device;

type GroupTile<O> = <O as EpilogueElement>::EpilogueTile<GROUP_ROWS>;

/// As many stores as there are other buffers: what [`StoreBuffers`] lets read on by itself.
///
/// (CUTLASS `UnacquiredStages`, left out.)
///
/// ```
/// # use half::bf16;
/// # use pipeline::{prelude::*, store::ALL_BUT_ONE};
/// # roles! { Math = 2 x 232 registers }
/// # fn same(buffers: StoreBuffers<bf16, 4, Math>) ->
/// StoreBuffers<bf16, 4, Math, ALL_BUT_ONE>
/// # { buffers }
/// ```
pub const ALL_BUT_ONE: usize = usize::MAX;

/// `DEPTH` panels (64 rows x 128 bytes) of `O` for each warp group of role `Ro`, 1 to 32, used in
/// turn.
///
/// A panel is lent when at most `UNACQUIRED` stores still read theirs: `DEPTH` - 1 if nothing else
/// is said, so that a group waits for the oldest store alone. Fewer let a group know that a store
/// has been read before its buffer comes round again.
///
/// (CUTLASS: the `smem_d` of the epilogue's `SharedStorage`, with `PipelineTmaStore<DEPTH,
/// UNACQUIRED>`.)
///
/// ```
/// # use half::bf16;
/// # use pipeline::prelude::*;
/// # roles! { Math = 2 x 232 registers }
/// type Plan = SmemPlan<(StoreBuffers<bf16, 2, Math>,)>;
/// assert_eq!(Plan::BYTES, 2 * 2 * 64 * 128);
/// /// Four buffers, of which at most two are being read when the next one is lent.
/// type Eager = SmemPlan<(StoreBuffers<bf16, 4, Math, 2>,)>;
/// assert_eq!(Eager::BYTES, 4 * 2 * 64 * 128);
/// ```
pub struct StoreBuffers<O, const DEPTH: usize, Ro, const UNACQUIRED: usize = ALL_BUT_ONE>(
    PhantomData<(O, Ro)>,
);

// SAFETY: panels lie inside BYTES; there is no barrier to initialise.
unsafe impl<O: EpilogueElement, const DEPTH: usize, Ro: Role, const UNACQUIRED: usize> Region
    for StoreBuffers<O, DEPTH, Ro, UNACQUIRED>
{
    const BYTES: usize = {
        assert!(DEPTH >= 1 && DEPTH <= 32, "a warp group has from 1 to 32 store buffers");
        assert!(
            UNACQUIRED == ALL_BUT_ONE || UNACQUIRED < DEPTH,
            "a buffer is lent while more stores may be reading than there are other buffers"
        );
        DEPTH * Ro::GROUPS * <GroupTile<O> as TileShape>::BYTES
    };
    const ALIGN: usize = TILE_ALIGN;
    type Ends = StoreEnd<O, DEPTH, Ro, UNACQUIRED>;
    #[inline(always)]
    unsafe fn init(_place: Place) {}
    #[inline(always)]
    unsafe fn ends(place: Place) -> Self::Ends {
        StoreEnd { base: place.base, kind: PhantomData }
    }
}

/// The store buffers before a warp group has taken its own.
///
/// (CUTLASS `PipelineTmaStore::Params`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, store::*}};
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
    /// Gives a warp group its buffers.
    ///
    /// See the example of [`StoreEnd`].
    #[inline(always)]
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
/// Waits for stores to have read their buffers. Signals nothing: bulk groups are the thread's own.
/// (PTX `cp.async.bulk.wait_group.read`; CUTLASS `PipelineTmaStore`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, store::*}};
/// # names! { Main = "main" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// type Plan = SmemPlan<(StoreBuffers<bf16, 2, Math>,)>;
///
/// /// Fills panel p with p, each group every other one.
/// fn kernel(cta: Cta<(Load, Math), Alone, Plan>, to: &TensorMap<Tile<bf16, 64, 64>>) {
///     let (cta, (stores,)) = cta.init();
///     cta.specialize(
///         |_| {},
///         |group| {
///             let mut stores = stores.by(&group);
///             for panel in (group.index()..9).step_by(2) {
///                 let mut free = stores.acquire();
///                 for strip in 0..4 {
///                     free.put(strip, [panel as f32; 8]);
///                 }
///                 free.publish().store(to, 64 * panel, 0);
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

/// Executes `wait_group_read` with a number that is a constant of a generic item.
macro_rules! wait_group_read {
    ($outstanding:expr, $($number:literal)+) => {
        match $outstanding {
            $($number => isa::cp_async_bulk::wait_group_read::<$number>(),)+
            // Waits for all of them: right for any number.
            _ => isa::cp_async_bulk::wait_group_read::<0>(),
        }
    };
}

impl<O: Fragments, const DEPTH: usize, Ro: Role, Cl: ClusterShape, const UNACQUIRED: usize>
    Stores<'_, O, DEPTH, Ro, Cl, UNACQUIRED>
{
    /// Stores that may still be reading when a buffer is lent.
    const OUTSTANDING: usize = if UNACQUIRED == ALL_BUT_ONE { DEPTH - 1 } else { UNACQUIRED };

    /// Waits until all stores but the last `UNACQUIRED` have read their source (all but the last
    /// `DEPTH - 1`, if nothing else was said), and lends the buffer of the oldest.
    ///
    /// One panel is out at a time, and the turn passes to the next buffer only when the panel is
    /// stored: each buffer given out is the one whose store that wait has covered.
    ///
    /// Waits for that read, and the group's other threads. Signals the group's hardware barrier.
    /// (PTX `cp.async.bulk.wait_group.read` in the issuing thread, `barrier.cta.sync` in all;
    /// CUTLASS `PipelineTmaStore::producer_acquire`.) See the example of [`Stores`].
    #[device]
    pub fn acquire(&mut self) -> FreeBuffer<'_, O, DEPTH, Ro, Cl> {
        if self.group.thread() == 0 {
            // This is the thread that issues the group's stores.
            wait_group_read!(Self::OUTSTANDING,
                0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
        }
        self.group.sync();
        let at = self.base + self.next * <GroupTile<O> as TileShape>::BYTES as u32;
        FreeBuffer { at, next: &mut self.next, group: self.group, kind: PhantomData }
    }

    /// Waits until all stores have read their source, and lends all buffers at once, as panels side
    /// by side: one wait, one fence and two epochs for all of them. For groups that have something
    /// else to do between one time and the next.
    ///
    /// Waits for those reads, and the group's other threads. Signals the group's hardware barrier.
    /// (PTX: as [`acquire`](Self::acquire); CUTLASS `PipelineTmaStore::producer_acquire`, of as
    /// many stages.)
    ///
    /// ```
    /// # use {half::bf16, pipeline::{prelude::*, store::*}};
    /// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # type Alone = Cluster<1, 1>;
    /// # type Map = TensorMap<Tile<bf16, 64, 64>>;
    /// /// 64 rows of 128 columns.
    /// fn write(stores: &mut Stores<'_, bf16, 2, Math, Alone>, sum: &Accumulator<128>, to: &Map) {
    ///     let mut free = stores.acquire_all();
    ///     for strip in 0..8 {
    ///         free.put(strip, sum.fragment(strip));
    ///     }
    ///     free.publish().store(to, 0, 0);
    /// }
    /// ```
    #[device]
    pub fn acquire_all(&mut self) -> FreeBuffer<'_, O, DEPTH, Ro, Cl, DEPTH> {
        if self.group.thread() == 0 {
            // This is the thread that issues the group's stores.
            isa::cp_async_bulk::wait_group_read::<0>();
        }
        self.group.sync();
        // Each of them is free, so the turn may begin anew: at the first, whose store will be the
        // oldest again.
        self.next = 0;
        FreeBuffer { at: self.base, next: &mut self.next, group: self.group, kind: PhantomData }
    }

    /// Lets the CTA exit: its shared memory is read no more. The end of the grid is what makes the
    /// data visible to later kernels.
    ///
    /// Waits for every store to have read its source. (PTX `cp.async.bulk.wait_group.read 0` in the
    /// issuing thread; CUTLASS `PipelineTmaStore::producer_tail`.) See the example of [`Stores`].
    #[device]
    pub fn tail(self) {
        if self.group.thread() == 0 {
            // This is the thread that issued the group's stores.
            isa::cp_async_bulk::wait_group_read::<0>();
        }
    }
}

/// `TILES` panels side by side that no store reads: 64 rows of 128 bytes each, to be filled by the
/// warp group.
///
/// (CUTLASS: a stage of `smem_d`, after `producer_acquire`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, store::*}};
/// # names! { Main = "main" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// # type Map = TensorMap<Tile<bf16, 64, 64>>;
/// fn fill(mut free: FreeBuffer<'_, bf16, 2, Math, Alone>, sum: &Accumulator<64>, to: &Map) {
///     for strip in 0..4 {
///         free.put(strip, sum.fragment(strip));
///     }
///     free.publish().store(to, 0, 0);
/// }
/// ```
#[must_use = "a panel is filled, published and stored"]
pub struct FreeBuffer<'s, O, const DEPTH: usize, Ro, Cl, const TILES: usize = 1> {
    at: u32,
    next: &'s mut u32,
    group: &'s Warpgroup<Ro, Cl>,
    kind: PhantomData<O>,
}

impl<'s, O: Fragments, const DEPTH: usize, Ro: Role, Cl: ClusterShape, const TILES: usize>
    FreeBuffer<'s, O, DEPTH, Ro, Cl, TILES>
{
    /// Writes this warp's 16 x 16 strip number `fragment` of those side by side, rounded to `O`.
    ///
    /// (PTX `stmatrix.sync.aligned.m8n8.x4`; f32: `st.shared.v2`; CUTLASS `copy` with
    /// `SM90_U32x4_STSM_N`.) See the example of [`FreeBuffer`].
    #[device]
    pub fn put(&mut self, strip: usize, values: [f32; 8]) {
        let warp_row = self.group.thread() / 32 * 16;
        let (panel, strip) = (strip / Self::STRIPS % TILES, strip % Self::STRIPS);
        let at = self.at + (panel * <GroupTile<O> as TileShape>::BYTES) as u32;
        // SAFETY: the panel is free and the group's own; the group is converged.
        unsafe { O::store_fragment(at, warp_row, strip as u32, values) }
    }

    /// Fragments of a panel.
    const STRIPS: usize = O::EPILOGUE_COLS / 16;

    /// Writes this warp's 16 x 16 strip number `fragment` turned: the strip's 16 columns become rows
    /// 16 * `fragment`.. of the panel, and the warp's 16 rows its columns 16 * warp... So the sums of a
    /// product whose operands were exchanged come out as rows of D.
    ///
    /// (PTX `stmatrix.sync.aligned.m8n8.x4.trans`; CUTLASS `copy` with `SM90_U16x8_STSM_T`.)
    ///
    /// ```
    /// # use {half::bf16, pipeline::{prelude::*, store::*}};
    /// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # type Alone = Cluster<1, 1>;
    /// # type Map = TensorMap<Tile<bf16, 32, 64>>;
    /// fn fill(mut free: FreeBuffer<'_, bf16, 2, Math, Alone>, sum: &Accumulator<32>, to: &Map) {
    ///     for strip in 0..2 {
    ///         free.put_transposed(strip, sum.fragment(strip));
    ///     }
    ///     free.publish().store_rows(to, 0, 0); // 32 rows of 64 columns
    /// }
    /// ```
    #[device]
    pub fn put_transposed(&mut self, strip: usize, values: [f32; 8])
    where
        O: TransposedFragments,
    {
        let warp = self.group.thread() / 32;
        // SAFETY: the panel is free and the group's own; the group is converged.
        unsafe { O::store_transposed(self.at, warp, strip as u32, values) }
    }

    /// Lets the panel overwrite what earlier ones have stored: only the last `pending` stores, 0 to 3,
    /// may still be on their way to global memory.
    ///
    /// Waits for the older stores to have been written. (PTX `cp.async.bulk.wait_group` in the
    /// issuing thread, `bar.warp.sync`; CUTLASS: none: `tma_store_wait` waits for the reads.)
    ///
    /// ```
    /// # use {half::bf16, pipeline::{prelude::*, store::*}};
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
            // This is the thread that issues the group's stores.
            match pending {
                0 => isa::cp_async_bulk::wait_group::<0>(),
                1 => isa::cp_async_bulk::wait_group::<1>(),
                2 => isa::cp_async_bulk::wait_group::<2>(),
                _ => isa::cp_async_bulk::wait_group::<3>(),
            }
        }
        // SAFETY: the group token: all lanes of the warp are here. (See `store`.)
        unsafe { isa::warp::sync_warp(u32::MAX) };
    }

    /// Makes the panel visible to TMA: every thread fences its stores, then the group meets.
    ///
    /// Waits for the group's other threads. Signals the group's hardware barrier. (PTX
    /// `fence.proxy.async.shared::cta`, `barrier.cta.sync`; CUTLASS `tma_store_fence`, then
    /// `synchronize`.) See the example of [`FreeBuffer`].
    #[device]
    pub fn publish(self) -> PublishedBuffer<'s, O, DEPTH, Ro, Cl, TILES> {
        isa::fence::proxy_async_shared_cta();
        self.group.sync();
        PublishedBuffer { at: self.at, next: self.next, group: self.group, kind: PhantomData }
    }
}

/// EpilogueElement that are complete and visible to the async proxy.
///
/// (CUTLASS: a stage of `smem_d`, after `tma_store_fence`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, store::*}};
/// # names! { Main = "main" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
///
/// # type Map = TensorMap<Tile<bf16, 64, 64>>;
/// fn store(panel: PublishedBuffer<'_, bf16, 2, Math, Alone>, to: &Map, row: u32) {
///     panel.store(to, row, 0);
/// }
/// ```
#[must_use = "a published panel is stored"]
pub struct PublishedBuffer<'s, O, const DEPTH: usize, Ro, Cl, const TILES: usize = 1> {
    at: u32,
    next: &'s mut u32,
    group: &'s Warpgroup<Ro, Cl>,
    kind: PhantomData<O>,
}

impl<O: EpilogueElement, const DEPTH: usize, Ro: Role, Cl: ClusterShape, const TILES: usize>
    PublishedBuffer<'_, O, DEPTH, Ro, Cl, TILES>
{
    /// One thread stores the panels to (`row`, `col`) of the tensor, side by side, and commits each as
    /// a bulk group. What lies outside of the tensor is not written, except that the last element of a row takes
    /// the rest of its 16 bytes with it (docs/semantics.md).
    ///
    /// A panel begins on a multiple of 16 bytes of a row, as [`TensorMap::tile`] does.
    ///
    /// Waits for the warp's other lanes. Signals a bulk group, on which [`Stores::acquire`] waits.
    /// (PTX `cp.async.bulk.tensor.2d.global.shared::cta.bulk_group`, `cp.async.bulk.commit_group`,
    /// `bar.warp.sync`; CUTLASS `copy` with `SM90_TMA_STORE`, `PipelineTmaStore::producer_commit`.)
    /// See the example of [`PublishedBuffer`].
    #[device]
    pub fn store(self, tensor: &TensorMap<GroupTile<O>>, row: u32, col: u32) {
        self.store_rows(tensor, row, col);
    }

    /// As [`store`](Self::store), of the panels' first rows: as many as the tensor map's box has.
    ///
    /// Waits for and signals what `store` does. PTX and CUTLASS: as for it. See the example of
    /// [`FreeBuffer::put_transposed`].
    #[device]
    pub fn store_rows<T>(self, tensor: &TensorMap<T>, row: u32, col: u32)
    where
        T: TileShape<Element = O>,
    {
        const { assert!(T::ROWS <= GROUP_ROWS, "a store buffer has 64 rows") };
        if self.group.thread() == 0 {
            for panel in 0..TILES {
                let at = self.at + (panel * <GroupTile<O> as TileShape>::BYTES) as u32;
                // SAFETY: published; `Stores::acquire` gives the buffer out again only after the
                // group's read.
                unsafe {
                    tensor.issue_store(at, row, col + (panel * O::EPILOGUE_COLS) as u32);
                    isa::cp_async_bulk::commit_group();
                }
            }
        }
        // Without a place to meet, LLVM lets the two sides go back to the head of a kernel's loop
        // by ways of their own, and ptxas, which must then allow for a warp that comes in parts,
        // keeps the rings' states out of the uniform registers that wgmma's descriptors need.
        // SAFETY: the group token: all lanes of the warp are here.
        unsafe { isa::warp::sync_warp(u32::MAX) };
        let next = *self.next + TILES as u32;
        *self.next = if next == DEPTH as u32 { 0 } else { next };
    }
}
