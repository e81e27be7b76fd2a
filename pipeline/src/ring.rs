//! The ring: STAGES slots of tiles, filled by TMA, each guarded by a full and an empty mbarrier.
//!
//! ```text
//!            acquire: wait empty        wait: wait full
//!   producer ───────────────► slot i ───────────────► consumer
//!            load: arm + TMA            release: arrive on empty, here and at sharing peers
//! ```
//!
//! What CUTLASS's `PipelineTmaAsync` asks its user to remember is in types here. The arrival counts
//! follow from the readers and the cluster; the transaction bytes from the tiles of the stage; the
//! starting phases from the side. A slot is a token: [`EmptySlot`] can only be loaded, [`FullSlot`]
//! only be read, and a slot that wgmma reads can only be released once it is [`RetiredSlot`].

use crate::cluster::{ClusterCoord, ClusterShape};
use crate::roles::{Elected, Warpgroup};
use crate::smem::{Place, Region};
use crate::stage::{LoadsInto, Stage};
use crate::state::{ConsumerSide, PipelineState, ProducerSide};
use core::marker::PhantomData;

/// A ring's name: a type of its own, so that ends and slots of two rings can't be mixed, and a
/// word for reports. Two regions of one plan with the same name do not compile.
pub trait Name: 'static {
    /// How reports call it.
    const NAME: &'static str;
    /// How reports call a ring's full barriers.
    const FULL: &'static str;
    /// How reports call a ring's empty barriers.
    const EMPTY: &'static str;
}

/// Declares names of rings and barriers: `names! { MainLoop = "main loop", Addend = "C" }`.
#[macro_export]
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {$(
        $(#[$doc])*
        #[doc = concat!("The name `", $text, "`.")]
        #[derive(Debug)]
        pub enum $name {}
        impl $crate::ring::Name for $name {
            const NAME: &'static str = $text;
            const FULL: &'static str = concat!($text, ".full");
            const EMPTY: &'static str = concat!($text, ".empty");
        }
    )+};
}

/// Who empties a slot, which fixes the arrivals that its empty barrier expects from one CTA.
pub trait Readers: 'static {
    /// Arrivals per slot from one CTA.
    const ARRIVALS: usize;
    /// Do readers of other CTAs share the slot's contents (multicast)?
    const MULTICAST: bool;
}

/// `COUNT` warp groups read every slot with wgmma; each arrives once (CUTLASS:
/// `num_consumers / NumThreadsPerWarpGroup`).
pub enum MmaWarpgroups<const COUNT: usize> {}
impl<const COUNT: usize> Readers for MmaWarpgroups<COUNT> {
    const ARRIVALS: usize = COUNT;
    const MULTICAST: bool = true;
}

/// `COUNT` warp groups read every slot with ordinary loads; each of their warps arrives once.
pub enum ReadingWarpgroups<const COUNT: usize> {}
impl<const COUNT: usize> Readers for ReadingWarpgroups<COUNT> {
    const ARRIVALS: usize = 4 * COUNT;
    const MULTICAST: bool = false;
}

/// `STAGES` slots, each holding the tiles of `S`, filled by one elected thread's TMA loads and read
/// by `R`; `N` is its name, `K` the cluster over which loads are multicast.
///
/// A [`Region`] of a [`SmemPlan`](crate::smem::SmemPlan), which initialises it and hands out its
/// [`Ends`]. Memory: the slots, then the full barriers, then the empty ones.
pub struct Ring<const STAGES: usize, S, R, N, K>(PhantomData<(S, R, N, K)>);

impl<const STAGES: usize, S: Stage, R: Readers, N: Name, K: ClusterShape> Ring<STAGES, S, R, N, K> {
    const FULL: u32 = (STAGES * S::BYTES) as u32;
    const EMPTY: u32 = Self::FULL + 8 * STAGES as u32;
    /// Consumers of every CTA that gets a copy of the slot must have let go of it.
    const EMPTY_ARRIVALS: u32 = {
        let ctas = if R::MULTICAST { K::SHARERS } else { 1 };
        (R::ARRIVALS * ctas) as u32
    };
}

/// The two ends of a ring, inert until a role takes them with `by`.
pub struct Ends<const STAGES: usize, S, R, N, K> {
    /// For the thread that loads.
    pub producer: ProducerEnd<STAGES, S, R, N, K>,
    /// For the warp groups that read.
    pub consumer: ConsumerEnd<STAGES, S, R, N, K>,
}

// SAFETY: slots and barriers lie inside BYTES; `init` gives each barrier the count that the
// protocol of the ends produces: one arming producer, EMPTY_ARRIVALS releases.
unsafe impl<const STAGES: usize, S: Stage, R: Readers, N: Name, K: ClusterShape> Region
    for Ring<STAGES, S, R, N, K>
{
    const BYTES: usize = {
        assert!(STAGES >= 1 && STAGES <= 32, "a ring has from 1 to 32 stages");
        assert!(S::BYTES < 1 << 20, "one slot's transaction bytes exceed the mbarrier's 2^20 - 1");
        STAGES * (S::BYTES + 16)
    };
    const ALIGN: usize = S::ALIGN;
    const NAME: &'static str = N::NAME;
    type Ends = Ends<STAGES, S, R, N, K>;

    #[inline(always)]
    unsafe fn init(place: Place) {
        for stage in 0..STAGES as u32 {
            let full = place.base + Self::FULL + 8 * stage;
            let empty = place.base + Self::EMPTY + 8 * stage;
            // SAFETY: both barriers are this ring's own memory, initialised once.
            unsafe {
                isa::mbarrier::init(full, 1);
                isa::mbarrier::init(empty, Self::EMPTY_ARRIVALS);
            }
            isa::debug::label_barrier(full, N::FULL, stage);
            isa::debug::label_barrier(empty, N::EMPTY, stage);
        }
    }

    #[inline(always)]
    unsafe fn ends(place: Place) -> Self::Ends {
        Ends {
            producer: ProducerEnd { base: place.base, ring: PhantomData },
            consumer: ConsumerEnd { base: place.base, ring: PhantomData },
        }
    }
}

/// The producer end before a role has taken it.
#[must_use]
pub struct ProducerEnd<const STAGES: usize, S, R, N, K> {
    base: u32,
    ring: PhantomData<(S, R, N, K, *const ())>,
}

impl<const STAGES: usize, S: Stage, R: Readers, N: Name, K: ClusterShape>
    ProducerEnd<STAGES, S, R, N, K>
{
    /// Gives the end to an elected thread.
    #[inline(always)]
    pub fn by(self, _one: &Elected<K>) -> Producer<STAGES, S, R, N, K> {
        Producer { base: self.base, state: PipelineState::start(), ring: PhantomData }
    }
}

/// The filling end (CUTLASS `PipelineTmaAsync`, producer side).
#[must_use]
pub struct Producer<const STAGES: usize, S, R, N, K> {
    base: u32,
    state: PipelineState<STAGES, ProducerSide>,
    ring: PhantomData<(S, R, N, K, *const ())>,
}

impl<const STAGES: usize, S: Stage, R: Readers, N: Name, K: ClusterShape>
    Producer<STAGES, S, R, N, K>
{
    /// Waits until every reader, here and at sharing peers, has released the next slot
    /// (`mbarrier.try_wait.parity` on its empty barrier), takes it and steps.
    /// (CUTLASS `producer_acquire`, before the arming.)
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn acquire(&mut self) -> EmptySlot<S, N> {
        let stage = self.state.index();
        let empty = self.base + Ring::<STAGES, S, R, N, K>::EMPTY + 8 * stage;
        // SAFETY: the barrier was initialised by the plan; the state's phase is its discipline.
        unsafe { isa::mbarrier::wait_parity(empty, self.state.phase()) };
        self.state.advance();
        EmptySlot {
            data: self.base + stage * S::BYTES as u32,
            full: self.base + Ring::<STAGES, S, R, N, K>::FULL + 8 * stage,
            ring: PhantomData,
        }
    }

    /// Waits until every slot has been released for the last time, and so until no reader of a peer
    /// CTA will arrive at this CTA's barriers again: it may exit (CUTLASS `producer_tail`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn tail(mut self) {
        for _ in 0..STAGES {
            let empty = self.base + Ring::<STAGES, S, R, N, K>::EMPTY + 8 * self.state.index();
            // SAFETY: as in `acquire`.
            unsafe { isa::mbarrier::wait_parity(empty, self.state.phase()) };
            self.state.advance();
        }
    }
}

/// An acquired slot: nobody reads it, nothing is in it.
#[must_use = "an acquired slot that is never loaded stops the ring"]
pub struct EmptySlot<S, N> {
    data: u32,
    full: u32,
    ring: PhantomData<(S, N, *const ())>,
}

impl<S: Stage, N: Name> EmptySlot<S, N> {
    /// Arms the slot's full barrier with the bytes of `S` (`mbarrier.arrive.expect_tx`) and issues
    /// one TMA load for each of its tiles, which complete on that barrier. Waits for nothing.
    ///
    /// The byte count is the type's, and there is a load for every tile, so the phase can neither
    /// stay open nor close early. With multicast each CTA of the group loads its slice and receives
    /// the whole tile. (CUTLASS `producer_acquire`'s arming, `producer_get_barrier`, `copy`, and a
    /// `producer_commit` that TMA makes itself.)
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn load<L: LoadsInto<S>>(self, loads: L) {
        // SAFETY: the slot is acquired: its barrier is between phases and its memory is free, at
        // this CTA and, by the empty barrier's count, at every peer that the loads reach.
        unsafe {
            isa::mbarrier::arrive_expect_tx(self.full, S::BYTES as u32);
            loads.issue(self.data, self.full);
        }
    }
}

/// The consumer end before a role has taken it.
#[must_use]
pub struct ConsumerEnd<const STAGES: usize, S, R, N, K> {
    base: u32,
    ring: PhantomData<(S, R, N, K, *const ())>,
}

impl<const STAGES: usize, S: Stage, R: Readers, N: Name, K: ClusterShape>
    ConsumerEnd<STAGES, S, R, N, K>
{
    /// Gives the end to a warp group.
    ///
    /// The threads that will signal a release are picked here, once: thread r of the group arrives
    /// at CTA r of the cluster if that CTA's loads reach this one.
    #[inline(always)]
    pub fn by<const CONSUMERS: usize>(
        self,
        group: &Warpgroup<CONSUMERS, K>,
    ) -> Consumer<STAGES, S, R, N, K> {
        Consumer {
            base: self.base,
            state: PipelineState::start(),
            signal: Signal::of(group.thread(), group.coord()),
            ring: PhantomData,
        }
    }
}

/// Whether this thread signals releases, and to which CTA.
struct Signal<K> {
    rank: u32,
    active: bool,
    shape: PhantomData<K>,
}
impl<K> Clone for Signal<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Signal<K> {}

impl<K: ClusterShape> Signal<K> {
    #[inline(always)]
    fn of(thread: u32, at: ClusterCoord<K>) -> Self {
        let active = if K::SIZE == 1 {
            thread == 0
        } else {
            thread < K::SIZE as u32 && at.shares_with(thread)
        };
        Self { rank: thread, active, shape: PhantomData }
    }

    /// # Safety
    /// `empty` is an empty barrier of the ring, of a slot that the group no longer reads.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn send(self, empty: u32) {
        if self.active {
            if K::SIZE == 1 {
                // SAFETY: the caller's contract.
                unsafe { isa::mbarrier::arrive(empty) };
            } else {
                // SAFETY: the caller's contract; peers have the same plan at the same offsets, and
                // stay until their tail has seen this arrival.
                unsafe { isa::mbarrier::arrive_remote(isa::cluster::mapa(empty, self.rank)) };
            }
        }
    }
}

/// The emptying end (CUTLASS `PipelineTmaAsync`, consumer side).
#[must_use]
pub struct Consumer<const STAGES: usize, S, R, N, K> {
    base: u32,
    state: PipelineState<STAGES, ConsumerSide>,
    signal: Signal<K>,
    ring: PhantomData<(S, R, N, K, *const ())>,
}

impl<const STAGES: usize, S: Stage, R: Readers, N: Name, K: ClusterShape>
    Consumer<STAGES, S, R, N, K>
{
    /// Waits until the next slot's bytes have all arrived (`mbarrier.try_wait.parity` on its full
    /// barrier), takes it and steps. What TMA wrote is then visible to this thread's loads and to
    /// its wgmmas. (CUTLASS `consumer_wait`.)
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait(&mut self) -> FullSlot<S, R, N, K> {
        let stage = self.state.index();
        let full = self.base + Ring::<STAGES, S, R, N, K>::FULL + 8 * stage;
        // SAFETY: the barrier was initialised by the plan; the state's phase is its discipline.
        unsafe { isa::mbarrier::wait_parity(full, self.state.phase()) };
        self.state.advance();
        FullSlot {
            data: self.base + stage * S::BYTES as u32,
            empty: self.base + Ring::<STAGES, S, R, N, K>::EMPTY + 8 * stage,
            signal: self.signal,
            ring: PhantomData,
        }
    }
}

/// A slot whose tiles have arrived.
#[must_use = "a full slot that is never released stops the ring"]
pub struct FullSlot<S, R, N, K> {
    data: u32,
    empty: u32,
    signal: Signal<K>,
    ring: PhantomData<(S, R, N, *const ())>,
}

impl<S: Stage, R: Readers, N: Name, K: ClusterShape> FullSlot<S, R, N, K> {
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
    pub(crate) unsafe fn retired(self) -> RetiredSlot<S, N, K> {
        RetiredSlot { empty: self.empty, signal: self.signal, ring: PhantomData }
    }
}

impl<const COUNT: usize, S: Stage, N: Name, K: ClusterShape>
    FullSlot<S, ReadingWarpgroups<COUNT>, N, K>
{
    /// Gives the slot back after ordinary reads: the warp meets (`bar.warp.sync`), so that all of
    /// its reads are done, and one lane arrives on the empty barrier. (CUTLASS `consumer_release`.)
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn release(self) {
        // SAFETY: the consumer was taken by a converged warp group, whose warps stay converged
        // through the pipeline's calls; the slot's reads are before this point in every lane.
        unsafe {
            isa::warp::sync_warp(u32::MAX);
            if isa::warp::lane_id() == 0 {
                isa::mbarrier::arrive(self.empty);
            }
        }
    }
}

/// A slot that the tensor cores have finished reading.
#[must_use = "a retired slot that is never released stops the ring"]
pub struct RetiredSlot<S, N, K> {
    empty: u32,
    signal: Signal<K>,
    ring: PhantomData<(S, N, *const ())>,
}

impl<S: Stage, N: Name, K: ClusterShape> RetiredSlot<S, N, K> {
    /// Gives the slot back to every CTA whose loads reach it: one thread of the group arrives at
    /// each (`mbarrier.arrive.shared::cluster`, without a qualifier: the retirement of the wgmmas
    /// is what orders it, and a `.release.cluster` costs a third of the kernel's speed).
    /// (CUTLASS `consumer_release`.)
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn release(self) {
        // SAFETY: the token says that nothing reads the slot any more.
        unsafe { self.signal.send(self.empty) }
    }
}
