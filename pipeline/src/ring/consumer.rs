//! The consumer of a ring, which is the same for all kinds of writers.
//!
//! Invariant: a slot is released only after all reads of it have finished: ordinary reads by
//! program order, wgmma's reads by `wgmma.wait_group`.

use super::{Layout, MmaReaders, Name, OrdinaryReads, Readers, TakeTurns};
use crate::cta::Warpgroup;
use crate::cta::{ClusterCoord, ClusterShape};
use crate::mma::{COLUMNS, Fragments, GROUP_ROWS, load_fragment, of_descriptor, within};
use crate::ring::{ConsumerSide, PipelineState};
use crate::ring::{Stage, TileAt};
use crate::tile::TileShape;
use core::marker::PhantomData;
use isa::device;

/// The consumer end, before a role takes it.
///
/// (CUTLASS `Params::role` = `ThreadCategory::Consumer`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
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
    #[isa::forceinline]
    pub(super) fn new(base: u32) -> Self {
        Self { base, ring: PhantomData }
    }

    /// The ring's address.
    pub(super) fn base(&self) -> u32 {
        self.base
    }

    /// Binds the end to a warp group of the reading role.
    ///
    /// This call selects, once, the threads that signal releases. If the readers use wgmma, thread
    /// r of the group arrives at CTA r of the cluster, provided that CTA's loads reach this one
    /// ([`MmaReads`](super::MmaReads): thread r of each warp). If they use ordinary loads, one lane
    /// of each warp arrives at this CTA's barrier.
    ///
    /// (PTX `mapa.shared::cluster`, if the cluster has more than one CTA; CUTLASS: the spreading of
    /// arrivals (`dst_blockid_`) in the constructor of `PipelineTmaAsync`.) See the example of
    /// [`ConsumerEnd`].
    #[isa::forceinline]
    pub fn by(self, group: &Warpgroup<Rd::Role, Cl>) -> Consumer<STAGES, St, Rd, Tag, Cl> {
        let empty = Layout::<STAGES, St>::empty(self.base, 0);
        let signal = if Rd::ASYNC {
            let thread = group.thread();
            let first = if Rd::WARPS_ARRIVE { thread % 32 } else { thread };
            Signal::to_sharers(empty, first, group.coord())
        } else {
            Signal { active: group.thread().is_multiple_of(32), empty }
        };
        let (base, state) = (self.base, PipelineState::start());
        let unit = Layout::<STAGES, St>::unit(slots_at::<Rd, Cl>(base), 0);
        Consumer { base, unit, state, signal, ring: PhantomData }
    }
}

/// Returns where the slots of the ring at `base` begin, as its readers name them: by ordinary addresses, or by those of
/// descriptors.
#[isa::forceinline]
fn slots_at<Rd: Readers, Cl: ClusterShape>(base: u32) -> u32 {
    if Rd::ASYNC { of_descriptor::<Cl>(base) } else { base }
}

/// Returns this warp's first row in a slot's tiles.
#[isa::forceinline]
pub(crate) fn warp_row<Rd: Readers, Cl: ClusterShape>(group: &Warpgroup<Rd::Role, Cl>) -> u32 {
    Rd::share(group.index()) * GROUP_ROWS as u32 + group.thread() / 32 * 16
}

/// Whether this thread signals releases, and at which barrier.
#[derive(Clone, Copy)]
struct Signal {
    active: bool,
    /// Address of slot 0's empty barrier in the CTA that this thread signals. The other slots'
    /// barriers follow it at the same offsets as in this CTA, so a release needs no `mapa` of its
    /// own.
    empty: u32,
}

impl Signal {
    #[isa::forceinline]
    fn to_sharers<Cl: ClusterShape>(empty: u32, thread: u32, at: ClusterCoord<Cl>) -> Self {
        if Cl::SIZE == 1 {
            return Self { active: thread == 0, empty };
        }
        let active = thread < Cl::SIZE as u32 && at.shares_with(thread);
        Self { active, empty: isa::cluster::mapa(empty, thread % Cl::SIZE as u32) }
    }
    /// Returns the address of the empty barrier of slot `stage` in the CTA that this thread
    /// signals.
    #[isa::forceinline]
    fn barrier(self, stage: u32) -> u32 {
        self.empty + 8 * stage
    }
}

/// The consumer of a ring: its position in the ring, and the verbs `wait`, `try_wait`, `test_wait`
/// and `skip`.
///
/// Waits for full slots. The slots that it returns signal their own release. (PTX
/// `mbarrier.try_wait.parity`; CUTLASS: the consumer's side of `PipelineTmaAsync` or
/// `PipelineAsync`, and its `PipelineState`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
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
    /// The address of the next slot in units of 16 bytes, as a descriptor has it. It is stepped with the state: computed
    /// from the index, it would stand between the end of the wait and the first wgmma.
    unit: u32,
    state: PipelineState<STAGES, ConsumerSide>,
    signal: Signal,
    ring: PhantomData<(St, Rd, Tag, Cl, *const ())>,
}

impl<const STAGES: usize, St: Stage, Rd: Readers, Tag: Name, Cl: ClusterShape>
    Consumer<STAGES, St, Rd, Tag, Cl>
{
    /// Takes the next slot, once it is full, and advances. The slot's data are then visible to this
    /// thread's loads and to its wgmmas.
    ///
    /// Waits until all writers have arrived and all transaction bytes have landed. (PTX
    /// `mbarrier.try_wait.parity` on the full barrier, in a loop; CUTLASS `consumer_wait`.) See the
    /// example of [`Consumer`].
    #[device]
    pub fn wait(&mut self) -> FullSlot<St, Rd, Tag, Cl> {
        self.slot(false)
    }

    /// Tests whether the next slot is full.
    ///
    /// The result belongs to that slot, and the consumer can't be used while it exists.
    ///
    /// The test may suspend the thread for a time limit that the hardware sets. (PTX
    /// `mbarrier.try_wait.parity`, once; CUTLASS `consumer_try_wait`.) See the example of [`Peek`].
    #[device]
    pub fn try_wait(&mut self) -> Peek<'_, STAGES, St, Rd, Tag, Cl> {
        // SAFETY: the plan initialised the barrier.
        let ready = unsafe { isa::mbarrier::try_wait_parity(self.full(), self.state.phase()) };
        Peek { ready, consumer: self }
    }

    /// Tests whether the next slot is full, as [`try_wait`](Self::try_wait) does, but never
    /// suspends the thread.
    ///
    /// (PTX `mbarrier.test_wait.parity`; CUTLASS `consumer_test_wait`.) See the example of
    /// [`Peek`].
    #[device]
    pub fn test_wait(&mut self) -> Peek<'_, STAGES, St, Rd, Tag, Cl> {
        // SAFETY: the plan initialised the barrier.
        let ready = unsafe { isa::mbarrier::test_wait_parity(self.full(), self.state.phase()) };
        Peek { ready, consumer: self }
    }

    /// Skips the next `slots` slots, which other warp groups of the role read.
    ///
    /// It waits for nothing, so order the reads: before the next [`wait`](Self::wait), the other
    /// groups must have waited for each of the skipped slots. A turn of an
    /// [`OrderedSequence`](crate::barrier::OrderedSequence) that a group passes on after its last
    /// `wait` does this. No order is needed if the groups read one slot each in rotation and the
    /// number of stages is a multiple of the number of groups: then no two groups use one slot.
    ///
    /// A wait compares the parity of the slot's phase. If an earlier fill of the slot is still in
    /// flight, the phase before it has the same parity, and `wait` returns a slot that is not full.
    /// No type can count what the others read, as no type can count the steps of two roles. The SM
    /// model knows the phase and reports such a wait (WP010).
    ///
    /// (CUTLASS `PipelineState::advance`.) See the example of [`TakeTurns`].
    #[isa::forceinline]
    pub fn skip(&mut self, slots: u32)
    where
        Rd: TakeTurns,
    {
        self.state.advance_by(slots);
        self.unit = Layout::<STAGES, St>::unit(slots_at::<Rd, Cl>(self.base), self.state.index());
    }

    fn full(&self) -> u32 {
        Layout::<STAGES, St>::full(self.base, self.state.index())
    }

    #[device]
    fn slot(&mut self, ready: bool) -> FullSlot<St, Rd, Tag, Cl> {
        if !ready {
            // SAFETY: the plan initialised the barrier; the state tracks its phase.
            unsafe { isa::mbarrier::wait_parity(self.full(), self.state.phase()) };
        }
        if Rd::IN_TURN {
            isa::debug::waited_for(self.full(), self.state.count() / STAGES as u32);
        }
        let (stage, unit) = (self.state.index(), self.unit);
        let slots = slots_at::<Rd, Cl>(self.base);
        #[cfg(not(target_arch = "nvptx64"))]
        debug_assert_eq!(unit, Layout::<STAGES, St>::unit(slots, stage), "the stepped address");
        self.state.advance();
        self.unit = match self.state.index() {
            0 => Layout::<STAGES, St>::unit(slots, 0),
            _ => unit + const { St::SLOT_BYTES as u32 / 16 },
        };
        isa::debug::hold(self.signal.barrier(stage), "slot of ring", Tag::NAME, stage, "released");
        FullSlot {
            // Stages of one tile are those of attention, whose kernels have no register to spare for the stepped address.
            // Others were not tried.
            data: if const { St::TILES == 2 } {
                Layout::<STAGES, St>::slot_at(unit)
            } else {
                Layout::<STAGES, St>::slot(slots, stage)
            },
            beside: Layout::<STAGES, St>::beside(self.base, stage),
            stage,
            signal: self.signal,
            ring: PhantomData,
        }
    }
}

/// The result of [`Consumer::try_wait`] or [`Consumer::test_wait`].
///
/// (CUTLASS `ConsumerToken`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
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
    ready: bool,
    consumer: &'c mut Consumer<STAGES, St, Rd, Tag, Cl>,
}

impl<const STAGES: usize, St: Stage, Rd: Readers, Tag: Name, Cl: ClusterShape>
    Peek<'_, STAGES, St, Rd, Tag, Cl>
{
    /// Returns whether the test found the slot full.
    ///
    /// (CUTLASS `ConsumerToken`'s `BarrierStatus`.) See the example of [`Peek`].
    pub fn ready(&self) -> bool {
        self.ready
    }
    /// Takes the tested slot.
    ///
    /// Waits until the slot is full, unless the test found it full. (PTX: as [`Consumer::wait`], or
    /// nothing after a successful test; CUTLASS `consumer_wait(state, token)`.) See the example of
    /// [`Peek`].
    #[device]
    pub fn wait(self) -> FullSlot<St, Rd, Tag, Cl> {
        self.consumer.slot(self.ready)
    }
}

/// A full slot: its tiles have arrived.
///
/// (CUTLASS: the stage's part of `SharedStorage`, after `consumer_wait`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
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
#[must_use = "a full slot that is never released stops the ring: call `release` after the last read, or give it to an accumulator"]
pub struct FullSlot<St, Rd, Tag, Cl> {
    data: u32,
    beside: u32,
    stage: u32,
    signal: Signal,
    ring: PhantomData<(St, Rd, Tag, Cl, *const ())>,
}

impl<St: Stage, Rd: MmaReaders, Tag: Name, Cl: ClusterShape> FullSlot<St, Rd, Tag, Cl> {
    /// Returns the address of the tiles, as a descriptor takes it.
    #[isa::forceinline]
    pub(crate) fn data(&self) -> u32 {
        self.data
    }
    /// Returns the address of what lies beside the slot.
    #[isa::forceinline]
    pub(crate) fn beside(&self) -> u32 {
        self.beside
    }
    /// Declares that the wgmmas which read this slot have retired.
    ///
    /// # Safety
    /// A `wgmma.wait_group` that covers all of them has returned.
    #[isa::forceinline]
    pub(crate) unsafe fn into_retired(self) -> RetiredSlot<St, Rd, Tag, Cl> {
        RetiredSlot { slot: self }
    }

    /// Releases a slot that this warp group does not multiply.
    ///
    /// The whole group synchronises first. One thread releases the slot for all, and if a batch of wgmmas read it,
    /// that batch would prove that every thread has waited for it. Without either, the slot could be filled again
    /// while a late warp still waits; that warp would miss the phase, and wait for ever.
    ///
    /// Waits for all threads of the group. Signals the empty barrier, in this CTA and in the peers that share the slot.
    /// (PTX `barrier.cta.sync`, `mbarrier.arrive`; CUTLASS `consumer_release` behind a `NamedBarrier::sync`.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
    /// # names! { Keys = "K" }
    /// # roles! { Load = 1 x 24 registers, Math = 2 x 240 registers } type Alone = Cluster<1, 1>;
    /// # type Keys_ = Consumer<2, (Tile<bf16, 64, 128>,), Mma<Math>, Keys, Alone>;
    /// /// Goes past blocks that only other warp groups need.
    /// fn pass(group: &Warpgroup<Math, Alone>, keys: &mut Keys_, blocks: u32) {
    ///     for _ in 0..blocks {
    ///         keys.wait().release_unread(group);
    ///     }
    /// }
    /// ```
    #[device]
    pub fn release_unread(self, group: &Warpgroup<Rd::Role, Cl>) {
        group.sync();
        // SAFETY: no wgmma reads the slot, and all threads of the group have waited for it.
        unsafe { self.into_retired() }.release();
    }
}

impl<St: Stage, Rd: Readers, Tag: Name, Cl: ClusterShape> FullSlot<St, Rd, Tag, Cl> {
    /// Releases the slot after ordinary reads.
    ///
    /// The warp synchronises, so that the reads of all its lanes are done, and one lane arrives.
    ///
    /// Waits for the other lanes of the warp. Signals one arrival per warp on the empty barrier.
    /// (PTX `bar.warp.sync`, `mbarrier.arrive`; CUTLASS `consumer_release`.) See the example of
    /// [`FullSlot`].
    #[device]
    pub fn release(self)
    where
        Rd: OrdinaryReads,
    {
        isa::debug::let_go(self.signal.barrier(self.stage));
        // SAFETY: a converged warp group took the consumer, and its warps stay converged through
        // the pipeline's calls. In every lane the slot's reads come before this point.
        unsafe {
            isa::warp::sync_warp(u32::MAX);
            if self.signal.active {
                isa::mbarrier::arrive(self.signal.barrier(self.stage));
            }
        }
    }
}

impl<T: TileShape, Rd: OrdinaryReads, Tag: Name, Cl: ClusterShape> FullSlot<(T,), Rd, Tag, Cl>
where
    T::Element: Fragments,
{
    /// Reads a fragment of the slot's tile: this thread's 8 values of the 64x16 fragment number
    /// `fragment`, counted along the columns.
    ///
    /// Warp group i reads the tile's rows 64i to 64i + 63. If the groups take turns, the reading
    /// group reads rows 0 to 63.
    ///
    /// (PTX `ldmatrix.sync.aligned.m8n8.x4`, or `ld.shared.v2` for f32; CUTLASS `copy` with
    /// `SM75_U32x4_LDSM_N`.) See the example of [`FullSlot`].
    #[device]
    pub fn fragment(&self, group: &Warpgroup<Rd::Role, Cl>, fragment: usize) -> [f32; 8] {
        const {
            assert!(
                T::ROWS == GROUP_ROWS * Rd::GROUPS,
                "the tile has 64 rows for each warp group that reads it"
            );
        }
        let warp_row = warp_row::<Rd, Cl>(group);
        let fragment = within(fragment, T::COLS / COLUMNS);
        // SAFETY: the slot is full, the fragment lies in its tile, and the group is converged.
        unsafe { load_fragment::<T>(self.data, warp_row, fragment) }
    }
}

impl<T: TileShape, const COUNT: usize, Rd: OrdinaryReads, Tag: Name, Cl: ClusterShape>
    FullSlot<[T; COUNT], Rd, Tag, Cl>
where
    T::Element: Fragments,
{
    /// Reads a fragment of tile number `tile` of the slot, as `fragment` of a slot with one tile
    /// does.
    ///
    /// (PTX `ldmatrix.sync.aligned.m8n8.x4`, or `ld.shared.v2` for f32; CUTLASS `copy` with
    /// `SM75_U32x4_LDSM_N`.) See the example of [`FullSlot`]; the tile's number comes first.
    #[device]
    pub fn fragment(
        &self,
        group: &Warpgroup<Rd::Role, Cl>,
        tile: usize,
        fragment: usize,
    ) -> [f32; 8] {
        const {
            assert!(
                T::ROWS == GROUP_ROWS * Rd::GROUPS,
                "each tile has 64 rows for each warp group that reads it"
            );
        }
        assert!(tile < COUNT, "the slot has fewer tiles");
        let warp_row = warp_row::<Rd, Cl>(group);
        let tile = self.data + (tile * T::BYTES) as u32;
        let fragment = within(fragment, T::COLS / COLUMNS);
        // SAFETY: the slot is full, the fragment lies in it, and the group is converged.
        unsafe { load_fragment::<T>(tile, warp_row, fragment) }
    }
}

impl<St: Stage, Rd: OrdinaryReads, Tag: Name, Cl: ClusterShape> FullSlot<St, Rd, Tag, Cl> {
    /// Reads a fragment of tile number `I` of the slot, as `fragment` of a slot with one tile does.
    ///
    /// (PTX `ldmatrix.sync.aligned.m8n8.x4`, or `ld.shared.v2` for f32; CUTLASS `copy` with
    /// `SM75_U32x4_LDSM_N`.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
    /// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 1 x 232 registers }
    /// # type Alone = Cluster<1, 1>;
    /// type St = (Tile<bf16, 64, 64>, Tile<f32, 64, 32>);
    ///
    /// fn add(slot: FullSlot<St, Reads<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) -> [f32; 8] {
    ///     let (a, b) = (slot.fragment_of::<0>(group, 1), slot.fragment_of::<1>(group, 1));
    ///     slot.release();
    ///     core::array::from_fn(|i| a[i] + b[i])
    /// }
    /// ```
    #[device]
    pub fn fragment_of<const I: usize>(
        &self,
        group: &Warpgroup<Rd::Role, Cl>,
        fragment: usize,
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
        let fragment = within(fragment, <St::Tile as TileShape>::COLS / COLUMNS);
        // SAFETY: the slot is full, the fragment lies in it, and the group is converged.
        unsafe { load_fragment::<St::Tile>(tile, warp_row, fragment) }
    }
}

/// A slot that the tensor cores have finished reading.
///
/// (CUTLASS has no such object; it keeps a second, lagging `PipelineState`, `smem_pipe_release`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Panel = Tile<bf16, 128, 64>; type Alone = Cluster<1, 1>;
///
/// # type Operands = (Panel, Panel);
/// fn sum(mut full: Consumer<4, Operands, Mma<Math>, Main, Alone>, group: &Warpgroup<Math, Alone>) {
///     let mut batch = Accumulator::<128>::start(group, full.wait());
///     for _step in 1..9 {
///         let retired: RetiredSlot<Operands, Mma<Math>, Main, Alone> = batch.next(full.wait());
///         retired.release();
///     }
///     let (_sum, last) = batch.finish();
///     last.release();
/// }
/// ```
#[must_use = "a retired slot that is never released stops the ring: call `release`"]
pub struct RetiredSlot<St, Rd, Tag, Cl> {
    slot: FullSlot<St, Rd, Tag, Cl>,
}

impl<St: Stage, Rd: MmaReaders, Tag: Name, Cl: ClusterShape> RetiredSlot<St, Rd, Tag, Cl> {
    /// Keeps the slot, to multiply its tiles again.
    ///
    /// So an operand that is loaded once stays for many batches, as the queries of attention do.
    ///
    /// (CUTLASS: no `consumer_release` before the next `gemm`.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::*}};
    /// # names! { Queries = "Q", Keys = "K" }
    /// # roles! { Load = 1 x 24 registers, Math = 2 x 240 registers } type Alone = Cluster<1, 1>;
    /// # type Q = FullSlot<(Tile<bf16, 128, 128>,), Mma<Math>, Queries, Alone>;
    /// # type Keys_ = Consumer<2, (Tile<bf16, 64, 128>,), Mma<Math>, Keys, Alone>;
    /// /// The scores of the same queries with nine blocks of 64 keys.
    /// fn scores(group: &Warpgroup<Math, Alone>, mut q: Q, mut keys: Keys_) {
    ///     for block in 0..9 {
    ///         let (_scores, (queries, k)) = Accumulator::<64>::start(group, (q, keys.wait())).finish();
    ///         k.release();
    ///         if block == 8 {
    ///             return queries.release();
    ///         }
    ///         q = queries.keep();
    ///     }
    /// }
    /// ```
    #[isa::forceinline]
    pub fn keep(self) -> FullSlot<St, Rd, Tag, Cl> {
        self.slot
    }

    /// Releases the slot to every CTA whose loads reach it: one thread of the group arrives at
    /// each.
    ///
    /// The remote arrival has no `.release.cluster` qualifier. The retirement of the wgmmas already
    /// orders it after their reads, and ptxas puts a memory barrier before every `.release.cluster`
    /// arrival.
    ///
    /// With [`MmaReads`](super::MmaReads) each warp arrives for itself, after the ordinary loads of all its lanes.
    ///
    /// Signals the empty barrier, in this CTA and in the peers that share the slot. (PTX
    /// `mbarrier.arrive.shared::cluster`, or `mbarrier.arrive` if the cluster has one CTA; with `MmaReads`
    /// `bar.warp.sync` before it; CUTLASS `consumer_release`.) See the example of [`RetiredSlot`].
    #[device]
    pub fn release(self) {
        let FullSlot { stage, signal, .. } = self.slot;
        isa::debug::let_go(signal.barrier(stage));
        if Rd::WARPS_ARRIVE {
            // SAFETY: a converged warp group took the consumer, and its warps stay converged through the pipeline's
            // calls.
            unsafe { isa::warp::sync_warp(u32::MAX) };
        }
        if !signal.active {
            return;
        }
        // SAFETY: the token proves that nothing reads the slot any more. Peers have the same plan
        // at the same offsets, and do not exit before their `tail` has seen this arrival.
        unsafe {
            if Cl::SIZE == 1 {
                isa::mbarrier::arrive(signal.barrier(stage));
            } else {
                isa::mbarrier::arrive_remote(signal.barrier(stage));
            }
        }
    }
}
