//! The filling end of a ring that a role fills with `cp.async` (CUTLASS: `PipelineAsync` whose
//! producers commit with `cutlass::arch::cpasync_barrier_arrive_noinc`).

use super::{CpAsync, CpAsyncReaders, Filling, Name, ProducerEnd};
use crate::cta::ClusterShape;
use crate::cta::{Role, WARPGROUP_THREADS, Warpgroup};
use crate::ring::Stage;
use crate::tile::TileCopy;
use crate::tile::TileShape;
use core::marker::PhantomData;
use isa::device;

impl<const STAGES: usize, S: Stage, Ro: Role, R, Tag: Name, Cl: ClusterShape>
    ProducerEnd<STAGES, S, CpAsync<Ro>, R, Tag, Cl>
{
    /// Gives the end to a warp group of the role that copies. Every warp group of the role takes
    /// it: each slot is filled by all threads of the role.
    ///
    /// Waits for nothing, signals nothing; PTX and CUTLASS: none. See the example of [`Copier`].
    #[inline(always)]
    pub fn by(self, group: &Warpgroup<Ro, Cl>) -> Copier<'_, STAGES, S, Ro, Tag, Cl>
    where
        R: CpAsyncReaders,
    {
        Copier { at: Filling::start(self.base), group, ring: PhantomData }
    }
}

/// The filling end of a ring of [`CpAsync`].
///
/// Waits for slots to be released. Signals full slots. PTX: `mbarrier.try_wait.parity`,
/// `cp.async.cg.shared.global`, `cp.async.mbarrier.arrive.noinc`. CUTLASS: `PipelineAsync` with
/// `PipelineState`, on the producer's side.
///
/// ```
/// use half::bf16;
/// use isa::slice::DeviceSlice;
/// use pipeline::tile::MatrixView;
/// use pipeline::{prelude::*, ring::CpAsync};
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
///                 for strip in 0..4 {
///                     out.put(strip, slot.fragment(&group, strip));
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
pub struct Copier<'g, const STAGES: usize, S, Ro, Tag, Cl> {
    at: Filling<STAGES, S>,
    group: &'g Warpgroup<Ro, Cl>,
    ring: PhantomData<Tag>,
}

impl<'g, const STAGES: usize, S: Stage, Ro: Role, Tag: Name, Cl: ClusterShape>
    Copier<'g, STAGES, S, Ro, Tag, Cl>
{
    /// Takes the next slot and steps.
    ///
    /// Waits for every reader to have released the slot. Signals nothing. PTX:
    /// `mbarrier.try_wait.parity` on the empty barrier, in a loop. CUTLASS: `producer_acquire`. See
    /// the example of [`Copier`].
    #[device]
    pub fn acquire(&mut self) -> CopySlot<'g, S, Ro, Tag, Cl> {
        self.slot(false)
    }

    /// Looks whether the next slot is empty, without waiting for long. The answer is this thread's,
    /// and belongs to that slot: while it is held the end can't be used otherwise.
    ///
    /// Waits for nothing, or for as long as the hardware suspends the thread. Signals nothing. PTX:
    /// `mbarrier.try_wait.parity`, once. CUTLASS: `producer_try_acquire`. See the example of
    /// [`CopyPeek`].
    #[device]
    pub fn try_acquire(&mut self) -> CopyPeek<'_, 'g, STAGES, S, Ro, Tag, Cl> {
        CopyPeek { known: self.at.peek(), copier: self }
    }

    #[device]
    fn slot(&mut self, known: bool) -> CopySlot<'g, S, Ro, Tag, Cl> {
        let (data, full) = self.at.take(known);
        CopySlot { data, full, group: self.group, ring: PhantomData }
    }

    /// Lets the ring run empty. All copies have landed then: no reader releases a slot before.
    ///
    /// Waits for every slot to have been released for the last time. Signals nothing. PTX:
    /// `mbarrier.try_wait.parity`, `STAGES` times. CUTLASS: `producer_tail`. See the example of
    /// [`Copier`].
    #[device]
    pub fn tail(self) {
        self.at.drain();
    }
}

/// What [`Copier::try_acquire`] saw.
///
/// Waits for nothing. Signals nothing. PTX: none. CUTLASS: `ProducerToken`.
///
/// ```
/// # use {half::bf16, pipeline::{tile::MatrixView, prelude::*, ring::*}};
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
pub struct CopyPeek<'p, 'g, const STAGES: usize, S, Ro, Tag, Cl> {
    known: bool,
    copier: &'p mut Copier<'g, STAGES, S, Ro, Tag, Cl>,
}

impl<'g, const STAGES: usize, S: Stage, Ro: Role, Tag: Name, Cl: ClusterShape>
    CopyPeek<'_, 'g, STAGES, S, Ro, Tag, Cl>
{
    /// Whether the slot was empty.
    ///
    /// Waits for nothing. Signals nothing. PTX: none. CUTLASS: `ProducerToken`'s `BarrierStatus`.
    /// See the example of [`CopyPeek`].
    pub fn ready(&self) -> bool {
        self.known
    }
    /// Takes the slot that was looked at, waiting for it only if it was not empty then.
    ///
    /// Waits for the slot's release, if it was not seen. Signals nothing. PTX: none, or as
    /// [`Copier::acquire`]. CUTLASS: `producer_acquire(state, token)`. See the example of
    /// [`CopyPeek`].
    #[device]
    pub fn acquire(self) -> CopySlot<'g, S, Ro, Tag, Cl> {
        self.copier.slot(self.known)
    }
}

/// An acquired slot, to be filled with `cp.async`.
///
/// Waits for nothing. Signals nothing. PTX: none. CUTLASS: the stage's part of `SharedStorage`,
/// after `producer_acquire`.
///
/// ```
/// # use {half::bf16, pipeline::{tile::MatrixView, prelude::*, ring::*}};
/// # names! { Main = "main" } roles! { Fetch = 1 x 64 registers }
/// # type Panel = Tile<bf16, 64, 64>; type Alone = Cluster<1, 1>;
///
/// fn fill(slot: CopySlot<'_, (Panel,), Fetch, Main, Alone>, from: MatrixView<'_, bf16>) {
///     slot.copy((from.tile(64, 0),)).commit();
/// }
/// ```
#[must_use = "an acquired slot that is never filled stops the ring"]
pub struct CopySlot<'g, S, Ro, Tag, Cl> {
    data: u32,
    full: u32,
    group: &'g Warpgroup<Ro, Cl>,
    ring: PhantomData<(S, Tag)>,
}

impl<S: Stage, Ro: Role, Tag: Name, Cl: ClusterShape> CopySlot<'_, S, Ro, Tag, Cl> {
    /// Issues this thread's share of the copies that fill the slot, one for each tile: 16 bytes at
    /// a time, to where the tile's swizzle has them. What lies outside of the matrix becomes zero.
    ///
    /// Waits for nothing. Signals nothing. PTX: `cp.async.cg.shared.global` of 16 bytes, with a
    /// source size that zero-fills. CUTLASS: `copy` with `SM80_CP_ASYNC_CACHEGLOBAL_ZFILL`. See the
    /// example of [`CopySlot`].
    #[device]
    pub fn copy<C: CopiesInto<S>>(self, copies: C) -> CopyingSlot<S, Tag> {
        let thread = self.group.index() * WARPGROUP_THREADS + self.group.thread();
        // SAFETY: the slot is acquired, and told of by `CopyingSlot::commit` alone; the threads are
        // all of the role, as the full barrier's count has it.
        unsafe { copies.issue(self.data, thread, WARPGROUP_THREADS * Ro::GROUPS as u32) };
        CopyingSlot { full: self.full, ring: PhantomData }
    }
}

/// A slot whose copies are on their way.
///
/// Waits for nothing, signals nothing; PTX and CUTLASS: none.
///
/// ```
/// # use {half::bf16, pipeline::{tile::MatrixView, prelude::*, ring::*}};
/// # names! { Main = "main" } roles! { Fetch = 1 x 64 registers }
/// # type Panel = Tile<bf16, 64, 64>; type Alone = Cluster<1, 1>;
///
/// fn tell(copying: CopyingSlot<(Panel,), Main>) {
///     copying.commit();
/// }
/// ```
#[must_use = "copies that are never committed stop the ring"]
pub struct CopyingSlot<S, Tag> {
    full: u32,
    ring: PhantomData<(S, Tag, *const ())>,
}

impl<S: Stage, Tag: Name> CopyingSlot<S, Tag> {
    /// Has the full barrier told when this thread's copies have landed: an arrival that the
    /// hardware makes then, and that the barrier's count has foreseen, one for each thread of the
    /// role.
    ///
    /// It tells of all copies that the thread has issued, so slots are best committed in the order
    /// in which they were filled.
    ///
    /// Waits for nothing. Signals the full barrier, when the thread's copies have landed. PTX:
    /// `cp.async.mbarrier.arrive.noinc`. CUTLASS: `producer_commit` with
    /// `cpasync_barrier_arrive_noinc`. See the example of [`CopyingSlot`].
    #[device]
    pub fn commit(self) {
        // SAFETY: the barrier was initialised by the plan with one arrival for each thread of the
        // role; the phase can't close before this thread's.
        unsafe { isa::mbarrier::cp_async_arrive_noinc(self.full) }
    }
}

/// Closes [`CopiesInto`]: a slot is full when all of its tiles are.
mod sealed {
    #[diagnostic::on_unimplemented(
        message = "`{Self}` can't fill a slot with `cp.async`",
        label = "this trait is closed",
        note = "a slot is filled by a tuple or an array with one `MatrixView::tile` for each of its tiles"
    )]
    pub trait Sealed {}
}

/// A tuple or array of copies that fills the stage `S`: one for each tile, in order.
///
/// Waits for nothing. Signals nothing. PTX: `cp.async.cg.shared.global`. CUTLASS: `copy` for each
/// operand.
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*, ring::Stage}};
/// # roles! { Fetch = 1 x 64 registers }
/// # type Slot<'g, S, N> = CopySlot<'g, S, Fetch, N, Cluster<1, 1>>;
/// fn fill<S: Stage, Tag: Name>(slot: Slot<'_, S, Tag>, copies: impl CopiesInto<S>) {
///     slot.copy(copies).commit();
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not fill a slot of `{S}`",
    label = "not one copy for each tile of the slot",
    note = "a slot is filled by a tuple with one copy for each of its tiles, in their order: `slot.copy((a.tile(..), b.tile(..)))`; one copy is `(a.tile(..),)`"
)]
pub trait CopiesInto<S>: sealed::Sealed {
    /// Issues the part of thread `thread` of `threads` into the slot at `data`.
    ///
    /// Waits for nothing. Signals nothing. PTX: `cp.async.cg.shared.global`, for each tile.
    /// CUTLASS: `copy` for each operand. See the example of [`CopiesInto`].
    ///
    /// # Safety
    /// The slot is acquired, and `thread` one of `threads` that fill it.
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
                    // SAFETY: the caller's contract; the tiles lie one behind the other.
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

impl<P: TileShape, const COUNT: usize> sealed::Sealed for [TileCopy<'_, P>; COUNT] {}
impl<P: TileShape, const COUNT: usize> CopiesInto<[P; COUNT]> for [TileCopy<'_, P>; COUNT] {
    #[device]
    unsafe fn issue(self, data: u32, thread: u32, threads: u32) {
        let mut at = data;
        for copy in self {
            // SAFETY: the caller's contract; the tiles lie one behind the other.
            unsafe { copy.issue(at, thread, threads) };
            at += P::BYTES as u32;
        }
    }
}
