//! The producer of a ring that a role fills with `cp.async` (CUTLASS: `PipelineAsync`, whose
//! producers commit with `cutlass::arch::cpasync_barrier_arrive_noinc`).
//!
//! Invariant: every thread of the role arrives once per slot, when its own copies have landed.

use super::{CpAsync, CpAsyncReaders, Name, ProducerEnd, ProducerPosition};
use crate::cta::ClusterShape;
use crate::cta::{Role, WARPGROUP_THREADS, Warpgroup};
use crate::ring::Stage;
use crate::tile::TileCopy;
use crate::tile::TileShape;
use core::marker::PhantomData;
use isa::device;

impl<const STAGES: usize, St: Stage, Ro: Role, Rd, Tag: Name, Cl: ClusterShape>
    ProducerEnd<STAGES, St, CpAsync<Ro>, Rd, Tag, Cl>
{
    /// Binds the end to a warp group of the copying role.
    ///
    /// Every warp group of the role must do this, because all threads of the role fill each slot.
    ///
    /// See the example of [`Copier`].
    #[isa::forceinline]
    pub fn by(self, group: &Warpgroup<Ro, Cl>) -> Copier<'_, STAGES, St, Ro, Tag, Cl>
    where
        Rd: CpAsyncReaders,
    {
        Copier { at: ProducerPosition::start(self.base), group, ring: PhantomData }
    }
}

/// The producer of a ring filled by `cp.async` ([`CpAsync`]): its position in the ring, and the
/// verbs `acquire`, `try_acquire` and `tail`.
///
/// Waits for empty slots and signals full ones. (PTX `mbarrier.try_wait.parity`,
/// `cp.async.cg.shared.global`, `cp.async.mbarrier.arrive.noinc`; CUTLASS: the producer's side of
/// `PipelineAsync` and its `PipelineState`.)
///
/// ```
/// use half::bf16;
/// use isa::slice::DeviceSlice;
/// use warpipe_pipeline::tile::MatrixView;
/// use warpipe_pipeline::{prelude::*, ring::CpAsync};
///
/// names! { Panels64 = "panels" }
/// roles! { Fetch = 1 x 64 registers, Work = 1 x 232 registers }
/// type Alone = Cluster<1, 1>;
/// type Panel = Tile<bf16, 64, 64>;
/// type Plan = SmemPlan<(
///     Ring<4, (Panel,), CpAsync<Fetch>, Reads<Work>, Panels64, Alone>,
///     StoreBuffers<bf16, 2, Work>,
/// )>;
///
/// fn kernel(
///     cta: Cta<(Fetch, Work), Alone, Plan>,
///     from: DeviceSlice<bf16>,
///     to: &TensorMap<Panel>,
///     panels: u32,
/// ) {
///     let from = MatrixView::new(from, 64 * panels, 64, 64);
///     let (cta, (ring, stores)) = cta.init();
///     cta.specialize(
///         |group| {
///             let mut slots = ring.producer.by(&group);
///             for panel in 0..panels {
///                 slots.acquire().copy((from.tile(64 * panel, 0),)).commit();
///             }
///             slots.tail();
///         },
///         |group| {
///             let (mut arrived, mut stores) = (ring.consumer.by(&group), stores.by(&group));
///             for panel in 0..panels {
///                 let slot = arrived.wait();
///                 let mut out = stores.acquire();
///                 for fragment in 0..4 {
///                     out.put(fragment, slot.fragment(&group, fragment));
///                 }
///                 slot.release();
///                 out.publish().store(to, 64 * panel, 0);
///             }
///             stores.tail();
///         },
///     );
/// }
/// ```
#[must_use]
pub struct Copier<'g, const STAGES: usize, St, Ro, Tag, Cl> {
    at: ProducerPosition<STAGES, St>,
    group: &'g Warpgroup<Ro, Cl>,
    ring: PhantomData<Tag>,
}

impl<'g, const STAGES: usize, St: Stage, Ro: Role, Tag: Name, Cl: ClusterShape>
    Copier<'g, STAGES, St, Ro, Tag, Cl>
{
    /// Acquires the next slot and advances.
    ///
    /// Waits until every reader has released the slot. (PTX `mbarrier.try_wait.parity` on the empty
    /// barrier, in a loop; CUTLASS `producer_acquire`.) See the example of [`Copier`].
    #[device]
    pub fn acquire(&mut self) -> CopySlot<'g, St, Ro, Tag, Cl> {
        self.slot(false)
    }

    /// Tests whether the next slot is empty.
    ///
    /// The result is this thread's own: other threads may see another. It belongs to that slot, and
    /// the copier can't be used while it exists.
    ///
    /// The test may suspend the thread for a time limit that the hardware sets. (PTX
    /// `mbarrier.try_wait.parity`, once; CUTLASS `producer_try_acquire`.) See the example of
    /// [`CopyPeek`].
    #[device]
    pub fn try_acquire(&mut self) -> CopyPeek<'_, 'g, STAGES, St, Ro, Tag, Cl> {
        CopyPeek { ready: self.at.peek(), copier: self }
    }

    #[device]
    fn slot(&mut self, ready: bool) -> CopySlot<'g, St, Ro, Tag, Cl> {
        let (data, full) = self.at.take(ready);
        isa::debug::hold(full, "slot of ring", Tag::NAME, self.at.taken(), "filled and committed");
        CopySlot { data, full, group: self.group, ring: PhantomData }
    }

    /// Waits until every slot has been released for the last time.
    ///
    /// All copies have then landed, because a reader releases a slot only after its copies have
    /// landed.
    ///
    /// (PTX `mbarrier.try_wait.parity`, `STAGES` times; CUTLASS `producer_tail`.) See the example
    /// of [`Copier`].
    #[device]
    pub fn tail(self) {
        self.at.tail();
    }
}

/// The result of [`Copier::try_acquire`].
///
/// (CUTLASS `ProducerToken`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{tile::MatrixView, prelude::*, ring::*}};
/// # names! { Main = "main" } roles! { Fetch = 1 x 64 registers }
/// # type Panel = Tile<bf16, 64, 64>; type Alone = Cluster<1, 1>;
///
/// fn fill(empty: &mut Copier<'_, 4, (Panel,), Fetch, Main, Alone>, from: MatrixView<'_, bf16>) {
///     let peek = empty.try_acquire();
///     let _may_wait = !peek.ready();
///     peek.acquire().copy((from.tile(0, 0),)).commit();
/// }
/// ```
#[must_use = "a peek is finished with `acquire`"]
pub struct CopyPeek<'p, 'g, const STAGES: usize, St, Ro, Tag, Cl> {
    ready: bool,
    copier: &'p mut Copier<'g, STAGES, St, Ro, Tag, Cl>,
}

impl<'g, const STAGES: usize, St: Stage, Ro: Role, Tag: Name, Cl: ClusterShape>
    CopyPeek<'_, 'g, STAGES, St, Ro, Tag, Cl>
{
    /// Returns whether the test found the slot empty.
    ///
    /// (CUTLASS `ProducerToken`'s `BarrierStatus`.) See the example of [`CopyPeek`].
    pub fn ready(&self) -> bool {
        self.ready
    }
    /// Acquires the tested slot.
    ///
    /// Waits until the slot is empty, unless the test found it empty. (PTX: as [`Copier::acquire`],
    /// or nothing after a successful test; CUTLASS `producer_acquire(state, token)`.) See the
    /// example of [`CopyPeek`].
    #[device]
    pub fn acquire(self) -> CopySlot<'g, St, Ro, Tag, Cl> {
        self.copier.slot(self.ready)
    }
}

/// An acquired slot, to be filled with `cp.async`.
///
/// (CUTLASS: the stage's part of `SharedStorage`, after `producer_acquire`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{tile::MatrixView, prelude::*, ring::*}};
/// # names! { Main = "main" } roles! { Fetch = 1 x 64 registers }
/// # type Panel = Tile<bf16, 64, 64>; type Alone = Cluster<1, 1>;
///
/// fn fill(slot: CopySlot<'_, (Panel,), Fetch, Main, Alone>, from: MatrixView<'_, bf16>) {
///     slot.copy((from.tile(64, 0),)).commit();
/// }
/// ```
#[must_use = "an acquired slot that is never filled stops the ring: call `copy`, then `commit`"]
pub struct CopySlot<'g, St, Ro, Tag, Cl> {
    data: u32,
    full: u32,
    group: &'g Warpgroup<Ro, Cl>,
    ring: PhantomData<(St, Tag)>,
}

impl<St: Stage, Ro: Role, Tag: Name, Cl: ClusterShape> CopySlot<'_, St, Ro, Tag, Cl> {
    /// Issues this thread's share of the copies that fill the slot, 16 bytes each, at the tiles'
    /// swizzled addresses.
    ///
    /// Elements outside the matrix become zero.
    ///
    /// (PTX `cp.async.cg.shared.global` of 16 bytes, with a source size below 16 where it fills
    /// zeros; CUTLASS `copy` with `SM80_CP_ASYNC_CACHEGLOBAL_ZFILL`.) See the example of
    /// [`CopySlot`].
    #[device]
    pub fn copy<C: CopiesInto<St>>(self, copies: C) -> CopyingSlot<St, Tag> {
        let thread = self.group.index() * WARPGROUP_THREADS + self.group.thread();
        // SAFETY: the slot is acquired, and only `CopyingSlot::commit` signals it. The threads are
        // all those of the role, which is what the full barrier counts.
        unsafe { copies.issue(self.data, thread, WARPGROUP_THREADS * Ro::GROUPS as u32) };
        CopyingSlot { full: self.full, ring: PhantomData }
    }
}

/// A slot whose copies are in flight.
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{tile::MatrixView, prelude::*, ring::*}};
/// # names! { Main = "main" } roles! { Fetch = 1 x 64 registers }
/// # type Panel = Tile<bf16, 64, 64>; type Alone = Cluster<1, 1>;
///
/// fn commit(copying: CopyingSlot<(Panel,), Main>) {
///     copying.commit();
/// }
/// ```
#[must_use = "copies that are never committed stop the ring: call `commit`"]
pub struct CopyingSlot<St, Tag> {
    full: u32,
    ring: PhantomData<(St, Tag, *const ())>,
}

impl<St: Stage, Tag: Name> CopyingSlot<St, Tag> {
    /// Makes the hardware arrive on the full barrier when this thread's copies have landed.
    ///
    /// The barrier's count already includes this arrival, one for each thread of the role.
    ///
    /// The arrival waits for all earlier copies of the thread, so commit slots in the order in
    /// which they were filled.
    ///
    /// Signals the full barrier when the copies have landed. (PTX `cp.async.mbarrier.arrive.noinc`;
    /// CUTLASS `producer_commit` with `cpasync_barrier_arrive_noinc`.) See the example of
    /// [`CopyingSlot`].
    #[device]
    pub fn commit(self) {
        isa::debug::let_go(self.full);
        // SAFETY: the plan initialised the barrier with one arrival for each thread of the role, so
        // the phase can't complete before this thread's arrival.
        unsafe { isa::mbarrier::cp_async_arrive_noinc(self.full) }
    }
}

/// Seals [`CopiesInto`]: a slot is full only when all of its tiles are.
mod sealed {
    #[diagnostic::on_unimplemented(
        message = "`{Self}` can't fill a slot with `cp.async`",
        label = "this trait is closed",
        note = "a slot is filled by a tuple or an array with one `MatrixView::tile` for each of its tiles"
    )]
    pub trait Sealed {}
}

/// A tuple or array of copies that fills a slot of `St`: one copy for each tile, in the tiles'
/// order.
///
/// (PTX `cp.async.cg.shared.global`; CUTLASS `copy` for each operand.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*, ring::Stage}};
/// # roles! { Fetch = 1 x 64 registers }
/// # type Slot<'g, St, Tag> = CopySlot<'g, St, Fetch, Tag, Cluster<1, 1>>;
/// fn fill<St: Stage, Tag: Name>(slot: Slot<'_, St, Tag>, copies: impl CopiesInto<St>) {
///     slot.copy(copies).commit();
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not fill a slot of `{St}`",
    label = "not one copy for each tile of the slot",
    note = "a slot is filled by a tuple with one copy for each of its tiles, in their order: `slot.copy((a.tile(..), b.tile(..)))`; one copy is `(a.tile(..),)`"
)]
pub trait CopiesInto<St>: sealed::Sealed {
    /// Issues the share of thread `thread` of `threads` into the slot at address `data`.
    ///
    /// (PTX `cp.async.cg.shared.global` for each tile; CUTLASS `copy` for each operand.) See the
    /// example of [`CopiesInto`].
    ///
    /// # Safety
    /// The slot is acquired, and `thread` is one of the `threads` that fill it.
    unsafe fn issue(self, data: u32, thread: u32, threads: u32);
}

macro_rules! tuple_of_copies {
    ($($tile:ident $index:tt),+) => {
        impl<$($tile: TileShape),+> sealed::Sealed for ($(TileCopy<'_, $tile>,)+) {}
        impl<$($tile: TileShape),+> CopiesInto<($($tile,)+)> for ($(TileCopy<'_, $tile>,)+) {
            #[device]
            unsafe fn issue(self, data: u32, thread: u32, threads: u32) {
                let mut at = data;
                $(
                    // SAFETY: the caller's contract; the tiles are contiguous.
                    unsafe { self.$index.issue(at, thread, threads) };
                    at += $tile::BYTES as u32;
                )+
                let _ = at;
            }
        }
    };
}
tuple_of_copies!(A 0);
tuple_of_copies!(A 0, B 1);
tuple_of_copies!(A 0, B 1, C 2);

impl<T: TileShape, const COUNT: usize> sealed::Sealed for [TileCopy<'_, T>; COUNT] {}
impl<T: TileShape, const COUNT: usize> CopiesInto<[T; COUNT]> for [TileCopy<'_, T>; COUNT] {
    #[device]
    unsafe fn issue(self, data: u32, thread: u32, threads: u32) {
        let mut at = data;
        for copy in self {
            // SAFETY: the caller's contract; the tiles are contiguous.
            unsafe { copy.issue(at, thread, threads) };
            at += T::BYTES as u32;
        }
    }
}
