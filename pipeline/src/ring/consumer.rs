//! The emptying end of a ring, whoever fills it.

use super::{Layout, MmaReaders, Name, OrdinaryReads, Readers, TakeTurns};
use crate::cta::Warpgroup;
use crate::cta::{ClusterCoord, ClusterShape};
use crate::mma::Fragments;
use crate::mma::GROUP_ROWS;
use crate::ring::{ConsumerSide, PipelineState};
use crate::ring::{Stage, TileAt};
use crate::tile::TileShape;
use core::marker::PhantomData;
use isa::device;

/// The consumer end before a role has taken it.
///
/// (CUTLASS `Params::role` = `ThreadCategory::Consumer`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// # type Operands = (Panel, Panel);
/// fn take(end: ConsumerEnd<4, Operands, Mma<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) {
///     let mut full: Consumer<4, Operands, Mma<Math>, Main, Alone> = end.by(group);
///     let _slot = full.wait();
/// }
/// ```
#[must_use]
pub struct ConsumerEnd<const STAGES: usize, St, Rd, Tag, Cl> {
    base: u32,
    ring: PhantomData<(St, Rd, Tag, Cl, *const ())>,
}

impl<const STAGES: usize, St: Stage, Rd: Readers, Tag: Name, Cl: ClusterShape>
    ConsumerEnd<STAGES, St, Rd, Tag, Cl>
{
    #[inline(always)]
    pub(super) fn new(base: u32) -> Self {
        Self { base, ring: PhantomData }
    }

    /// Gives the end to a warp group of the role that reads.
    ///
    /// The threads that will signal a release are picked here, once. Of readers with wgmma, thread r
    /// of the group arrives at CTA r of the cluster if that CTA's loads reach this one; of ordinary
    /// readers, one lane of each warp arrives here.
    ///
    /// (PTX `mapa.shared::cluster`, in a cluster; CUTLASS: the spreading of arrivals
    /// (`dst_blockid_`) in `PipelineTmaAsync`'s constructor.) See the example of [`ConsumerEnd`].
    #[inline(always)]
    pub fn by(self, group: &Warpgroup<Rd::Role, Cl>) -> Consumer<STAGES, St, Rd, Tag, Cl> {
        let empty = Layout::<STAGES, St>::empty(self.base, 0);
        let signal = if Rd::ASYNC {
            Signal::to_sharers(empty, group.thread(), group.coord())
        } else {
            Signal { active: group.thread().is_multiple_of(32), empty }
        };
        Consumer { base: self.base, state: PipelineState::start(), signal, ring: PhantomData }
    }
}

/// This warp's first row in a slot's tiles.
#[inline(always)]
fn warp_row<Rd: Readers, Cl: ClusterShape>(group: &Warpgroup<Rd::Role, Cl>) -> u32 {
    Rd::share(group.index()) * GROUP_ROWS as u32 + group.thread() / 32 * 16
}

/// Whether this thread signals releases, and where.
#[derive(Clone, Copy)]
struct Signal {
    active: bool,
    /// The first slot's empty barrier in the CTA that this thread signals. The others lie behind it
    /// there as here, so no release has to map an address of its own.
    empty: u32,
}

impl Signal {
    #[inline(always)]
    fn to_sharers<Cl: ClusterShape>(empty: u32, thread: u32, at: ClusterCoord<Cl>) -> Self {
        if Cl::SIZE == 1 {
            return Self { active: thread == 0, empty };
        }
        let active = thread < Cl::SIZE as u32 && at.shares_with(thread);
        Self { active, empty: isa::cluster::mapa(empty, thread % Cl::SIZE as u32) }
    }
    /// The empty barrier of slot `stage`, where this thread signals.
    #[inline(always)]
    fn of(self, stage: u32) -> u32 {
        self.empty + 8 * stage
    }
}

/// The emptying end: its position in the ring, and the verbs wait and skip.
///
/// Waits for full slots. Signals nothing itself: its slots are released. (PTX
/// `mbarrier.try_wait.parity`; CUTLASS `PipelineTmaAsync`, `PipelineAsync` with `PipelineState`, on
/// the consumer's side.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// fn run(mut full: Consumer<4, (Panel,), Reads<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) {
///     for _step in 0..9 {
///         let slot = full.wait();
///         let _values = slot.fragment(group, 0);
///         slot.release();
///     }
/// }
/// ```
#[must_use]
pub struct Consumer<const STAGES: usize, St, Rd, Tag, Cl> {
    base: u32,
    state: PipelineState<STAGES, ConsumerSide>,
    signal: Signal,
    ring: PhantomData<(St, Rd, Tag, Cl, *const ())>,
}

impl<const STAGES: usize, St: Stage, Rd: Readers, Tag: Name, Cl: ClusterShape>
    Consumer<STAGES, St, Rd, Tag, Cl>
{
    /// Takes the next slot and steps. What was put into it is then visible to this thread's loads
    /// and to its wgmmas.
    ///
    /// Waits for the slot's arrivals and bytes. (PTX `mbarrier.try_wait.parity` on the full
    /// barrier, in a loop; CUTLASS `consumer_wait`.) See the example of [`Consumer`].
    #[device]
    pub fn wait(&mut self) -> FullSlot<St, Rd, Tag, Cl> {
        self.slot(false)
    }

    /// Looks whether the next slot is full; may suspend for a while. The answer belongs to that
    /// slot: while it is held the consumer can't be used otherwise.
    ///
    /// Waits for nothing, or for as long as the hardware suspends the thread. (PTX
    /// `mbarrier.try_wait.parity`, once; CUTLASS `consumer_try_wait`.) See the example of [`Peek`].
    #[device]
    pub fn try_wait(&mut self) -> Peek<'_, STAGES, St, Rd, Tag, Cl> {
        // SAFETY: the barrier was initialised by the plan.
        let known = unsafe { isa::mbarrier::try_wait_parity(self.full(), self.state.phase()) };
        Peek { known, consumer: self }
    }

    /// As [`try_wait`](Self::try_wait), but never suspends.
    ///
    /// (PTX `mbarrier.test_wait.parity`; CUTLASS `consumer_test_wait`.) See the example of
    /// [`Peek`].
    #[device]
    pub fn test_wait(&mut self) -> Peek<'_, STAGES, St, Rd, Tag, Cl> {
        // SAFETY: the barrier was initialised by the plan.
        let known = unsafe { isa::mbarrier::test_wait_parity(self.full(), self.state.phase()) };
        Peek { known, consumer: self }
    }

    /// Leaves the next `slots` slots to the other warp groups of the role.
    ///
    /// (CUTLASS `PipelineState::advance`.) See the example of [`TakeTurns`].
    #[inline(always)]
    pub fn skip(&mut self, slots: u32)
    where
        Rd: TakeTurns,
    {
        self.state.advance_by(slots);
    }

    fn full(&self) -> u32 {
        Layout::<STAGES, St>::full(self.base, self.state.index())
    }

    #[device]
    fn slot(&mut self, known: bool) -> FullSlot<St, Rd, Tag, Cl> {
        if !known {
            // SAFETY: initialised by the plan; the state's phase is its discipline.
            unsafe { isa::mbarrier::wait_parity(self.full(), self.state.phase()) };
        }
        let stage = self.state.index();
        self.state.advance();
        FullSlot {
            data: Layout::<STAGES, St>::data(self.base, stage),
            stage,
            signal: self.signal,
            ring: PhantomData,
        }
    }
}

/// What [`Consumer::try_wait`] or [`Consumer::test_wait`] saw.
///
/// (CUTLASS `ConsumerToken`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// fn read(full: &mut Consumer<4, (Panel,), Reads<Math>, Main, Alone>) {
///     let peek = full.try_wait();
///     let _may_wait = !peek.ready();
///     peek.wait().release();
///     full.test_wait().wait().release();
/// }
/// ```
#[must_use = "a peek is finished with `wait`"]
pub struct Peek<'c, const STAGES: usize, St, Rd, Tag, Cl> {
    known: bool,
    consumer: &'c mut Consumer<STAGES, St, Rd, Tag, Cl>,
}

impl<const STAGES: usize, St: Stage, Rd: Readers, Tag: Name, Cl: ClusterShape>
    Peek<'_, STAGES, St, Rd, Tag, Cl>
{
    /// Whether the slot was full.
    ///
    /// (CUTLASS `ConsumerToken`'s `BarrierStatus`.) See the example of [`Peek`].
    pub fn ready(&self) -> bool {
        self.known
    }
    /// Takes the slot that was looked at, waiting for it only if it was not full then.
    ///
    /// Waits for the slot's arrivals and bytes, if they were not seen. (PTX: none, or as
    /// [`Consumer::wait`]; CUTLASS `consumer_wait(state, token)`.) See the example of [`Peek`].
    #[device]
    pub fn wait(self) -> FullSlot<St, Rd, Tag, Cl> {
        self.consumer.slot(self.known)
    }
}

/// A slot whose tiles have arrived.
///
/// (CUTLASS: the stage's part of `SharedStorage`, after `consumer_wait`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// fn read(slot: FullSlot<(Panel,), Reads<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) {
///     let _sixteen_by_sixteen = slot.fragment(group, 0);
///     slot.release();
/// }
/// fn mul(slot: FullSlot<(Panel, Panel), Mma<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) {
///     let (_sum, retired) = Accumulator::<128>::start(group, slot).finish();
///     retired.release();
/// }
/// ```
#[must_use = "a full slot that is never released stops the ring"]
pub struct FullSlot<St, Rd, Tag, Cl> {
    data: u32,
    stage: u32,
    signal: Signal,
    ring: PhantomData<(St, Rd, Tag, Cl, *const ())>,
}

impl<St: Stage, Rd: MmaReaders, Tag: Name, Cl: ClusterShape> FullSlot<St, Rd, Tag, Cl> {
    /// Where the tiles lie.
    #[inline(always)]
    pub(crate) fn data(&self) -> u32 {
        self.data
    }
    /// Declares that the wgmmas which read this slot have retired.
    ///
    /// # Safety
    /// A `wgmma.wait_group` that covers all of them has returned.
    #[inline(always)]
    pub(crate) unsafe fn retired(self) -> RetiredSlot<St, Tag, Cl> {
        RetiredSlot { stage: self.stage, signal: self.signal, ring: PhantomData }
    }
}

impl<St: Stage, Rd: Readers, Tag: Name, Cl: ClusterShape> FullSlot<St, Rd, Tag, Cl> {
    /// Gives the slot back after ordinary reads: the warp meets, so that all of its reads are done,
    /// and one lane arrives.
    ///
    /// Waits for the other lanes of the warp. Signals one arrival of each warp on the empty
    /// barrier. (PTX `bar.warp.sync`, `mbarrier.arrive`; CUTLASS `consumer_release`.) See the
    /// example of [`FullSlot`].
    #[device]
    pub fn release(self)
    where
        Rd: OrdinaryReads,
    {
        // SAFETY: the consumer was taken by a converged warp group, whose warps stay converged
        // through the pipeline's calls; the slot's reads are before this point in every lane.
        unsafe {
            isa::warp::sync_warp(u32::MAX);
            if self.signal.active {
                isa::mbarrier::arrive(self.signal.of(self.stage));
            }
        }
    }
}

impl<T: TileShape, Rd: OrdinaryReads, Tag: Name, Cl: ClusterShape> FullSlot<(T,), Rd, Tag, Cl>
where
    T::Element: Fragments,
{
    /// Reads this warp's strip number `fragment` of the slot's panel, whose rows 64i.. belong to warp
    /// group i.
    ///
    /// (PTX `ldmatrix.sync.aligned.m8n8.x4`; f32: `ld.shared.v2`; CUTLASS `copy` with
    /// `SM75_U32x4_LDSM_N`.) See the example of [`FullSlot`].
    #[device]
    pub fn fragment(&self, group: &Warpgroup<Rd::Role, Cl>, strip: usize) -> [f32; 8] {
        const {
            assert!(
                T::ROWS == GROUP_ROWS * Rd::GROUPS,
                "the panel has 64 rows for each warp group that reads it"
            );
        }
        let warp_row = warp_row::<Rd, Cl>(group);
        // SAFETY: the slot is full, and the group converged.
        unsafe { T::Element::load_fragment(self.data, warp_row, strip as u32) }
    }
}

impl<T: TileShape, const COUNT: usize, Rd: OrdinaryReads, Tag: Name, Cl: ClusterShape>
    FullSlot<[T; COUNT], Rd, Tag, Cl>
where
    T::Element: Fragments,
{
    /// As `fragment` of a slot of one panel, from panel number `panel`.
    ///
    /// (PTX `ldmatrix.sync.aligned.m8n8.x4`; f32: `ld.shared.v2`; CUTLASS `copy` with
    /// `SM75_U32x4_LDSM_N`.) See the example of [`FullSlot`], with the panel's number in front.
    #[device]
    pub fn fragment(
        &self,
        group: &Warpgroup<Rd::Role, Cl>,
        panel: usize,
        strip: usize,
    ) -> [f32; 8] {
        const {
            assert!(
                T::ROWS == GROUP_ROWS * Rd::GROUPS,
                "each panel has 64 rows for each warp group that reads it"
            );
        }
        assert!(panel < COUNT, "the slot has fewer panels");
        let warp_row = warp_row::<Rd, Cl>(group);
        let panel = self.data + (panel * T::BYTES) as u32;
        // SAFETY: the slot is full, the panel one of its own, and the group converged.
        unsafe { T::Element::load_fragment(panel, warp_row, strip as u32) }
    }
}

impl<St: Stage, Rd: OrdinaryReads, Tag: Name, Cl: ClusterShape> FullSlot<St, Rd, Tag, Cl> {
    /// As `fragment` of a slot of one panel, from the slot's tile number `I`.
    ///
    /// (PTX `ldmatrix.sync.aligned.m8n8.x4`; f32: `ld.shared.v2`; CUTLASS `copy` with
    /// `SM75_U32x4_LDSM_N`.)
    ///
    /// ```
    /// # use {half::bf16, pipeline::{prelude::*, ring::*}};
    /// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 1 x 232 registers }
    /// # type Alone = Cluster<1, 1>;
    /// type St = (Tile<bf16, 64, 64>, Tile<f32, 64, 32>);
    ///
    /// fn add(slot: FullSlot<St, Reads<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) -> [f32; 8] {
    ///     let (a, b) = (slot.strip_of::<0>(group, 1), slot.strip_of::<1>(group, 1));
    ///     slot.release();
    ///     core::array::from_fn(|i| a[i] + b[i])
    /// }
    /// ```
    #[device]
    pub fn strip_of<const I: usize>(
        &self,
        group: &Warpgroup<Rd::Role, Cl>,
        strip: usize,
    ) -> [f32; 8]
    where
        St: TileAt<I>,
        <St::Tile as TileShape>::Element: Fragments,
    {
        const {
            assert!(
                <St::Tile as TileShape>::ROWS == GROUP_ROWS * Rd::GROUPS,
                "each tile has 64 rows for each warp group that reads it"
            );
        }
        let warp_row = warp_row::<Rd, Cl>(group);
        let tile = self.data + St::OFFSET as u32;
        // SAFETY: the slot is full, the tile one of its own, and the group converged.
        unsafe { <St::Tile as TileShape>::Element::load_fragment(tile, warp_row, strip as u32) }
    }
}

/// A slot that the tensor cores have finished reading.
///
/// (CUTLASS: none: the lagging `PipelineState` of the main loop, `smem_pipe_release`.)
///
/// ```
/// # use {half::bf16, pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// # type Operands = (Panel, Panel);
/// fn sum(mut full: Consumer<4, Operands, Mma<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) {
///     let mut batch = Accumulator::<128>::start(group, full.wait());
///     for _step in 1..9 {
///         let retired: RetiredSlot<Operands, Main, Alone> = batch.next(full.wait());
///         retired.release();
///     }
///     let (_sum, last) = batch.finish();
///     last.release();
/// }
/// ```
#[must_use = "a retired slot that is never released stops the ring"]
pub struct RetiredSlot<St, Tag, Cl> {
    stage: u32,
    signal: Signal,
    ring: PhantomData<(St, Tag, Cl, *const ())>,
}

impl<St: Stage, Tag: Name, Cl: ClusterShape> RetiredSlot<St, Tag, Cl> {
    /// Gives the slot back to every CTA whose loads reach it: one thread of the group arrives at
    /// each. The arrival has no qualifier: the retirement of the wgmmas is what orders it, and for a
    /// `.release.cluster` ptxas puts a memory barrier before each one.
    ///
    /// Signals the empty barrier, here and at sharing peers. (PTX
    /// `mbarrier.arrive.shared::cluster`, alone `mbarrier.arrive`; CUTLASS `consumer_release`.) See
    /// the example of [`RetiredSlot`].
    #[device]
    pub fn release(self) {
        if !self.signal.active {
            return;
        }
        // SAFETY: the token says that nothing reads the slot any more; peers have the same plan at
        // the same offsets, and stay until their tail has seen this arrival.
        unsafe {
            if Cl::SIZE == 1 {
                isa::mbarrier::arrive(self.signal.of(self.stage));
            } else {
                isa::mbarrier::arrive_remote(self.signal.of(self.stage));
            }
        }
    }
}
