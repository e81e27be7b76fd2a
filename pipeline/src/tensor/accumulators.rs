//! The ring of accumulators in tensor memory: its allocation, its barriers, and the thread that fills it.

use super::layout::Layout;
use super::multiply::EmptyAccumulator;
use crate::cta::{
    ClusterShape, CtaGroup, Elected, Leader, OneSm, Place, Region, Role, TwoSm, Warp, is_pair,
};
use crate::ring::{Name, PipelineState, ProducerSide};
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{Part, RegionFacts};

/// `STAGES` accumulators of 128 rows and `N` columns in tensor memory. One thread multiplies into them, and the warp group
/// of role `Ro` reads them. `Tag` is the ring's name.
///
/// The allocation has `STAGES * N` columns, rounded up to a power of two; tensor memory has 512. It is made and freed by
/// [`AccumulatorProducerEnd::by`]. Shared memory holds the allocation's address and the barriers.
///
/// With `G` of [`TwoSm`], a pair of CTAs has accumulators of 256 rows: 128 in each. The thread of the leader waits for the
/// readers of both.
///
/// `FACTORS` columns behind the accumulators are for block scales: [`FACTOR_COLUMNS`](super::FACTOR_COLUMNS), or none.
///
/// (PTX `tcgen05.alloc`, `mbarrier.init`; CUTLASS `PipelineUmmaAsync<Stages>`, `TMEM::Allocator1Sm` and `Allocator2Sm`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::Umma, tensor::TensorAccumulators}};
/// # names! { Main = "main loop", Sums = "sums" }
/// # roles! { Work = 1 x 40 registers, Store = 1 x 216 registers }
/// # type A = Tile<bf16, 128, 64>; type B = Tile<bf16, 256, 64>; type Alone = Cluster<1, 1>;
/// type Plan = SmemPlan<(
///     Ring<4, (A, B), Tma, Umma<Work>, Main, Alone>,
///     TensorAccumulators<2, 256, Store, Sums>,
/// )>;
/// assert_eq!(Plan::BYTES, 4 * ((128 + 256) * 128 + 16) + 16 + 2 * 16);
/// assert_eq!(TensorAccumulators::<2, 256, Store, Sums>::COLUMNS, 512);
/// ```
pub struct TensorAccumulators<
    const STAGES: usize,
    const N: usize,
    Ro,
    Tag,
    G = OneSm,
    const FACTORS: usize = 0,
>(PhantomData<(Ro, Tag, G)>);

impl<const STAGES: usize, const N: usize, Ro: Role, Tag: Name, G: CtaGroup, const FACTORS: usize>
    TensorAccumulators<STAGES, N, Ro, Tag, G, FACTORS>
{
    /// The columns of the allocation.
    pub const COLUMNS: u32 = {
        assert!(
            N >= 32 && N <= 256 && N.is_multiple_of(32),
            "an accumulator in tensor memory has a multiple of 32 columns, from 32 to 256"
        );
        assert!(STAGES >= 1, "there is at least one accumulator");
        assert!(
            STAGES * N <= 512,
            "tensor memory has 512 columns: take fewer accumulators, or narrower ones"
        );
        assert!(
            Ro::GROUPS == 1,
            "the 128 rows of an accumulator are read by the four warps of one warp group"
        );
        assert!(
            STAGES * N + FACTORS <= 512,
            "tensor memory has 512 columns, also for block scales: take fewer accumulators, or narrower ones"
        );
        (STAGES * N + FACTORS).next_power_of_two() as u32
    };
    const READERS: u32 = 4 * G::CTAS as u32;

    // The parts of the region, as `warpipe inspect` prints them.
    const ALLOCATED: Part = Part::Mbarriers {
        what: "allocated",
        offset: 8,
        count: 1,
        arrivals: 1,
        by: "the warp that allocates",
    };
    const FULL: Part = Part::Mbarriers {
        what: "full",
        offset: 16,
        count: STAGES as u32,
        arrivals: 1,
        by: "the commit of the thread that multiplies",
    };
    const EMPTY: Part = Part::Mbarriers {
        what: "empty",
        offset: 16 + 8 * STAGES as u32,
        count: STAGES as u32,
        arrivals: Self::READERS,
        by: "each warp that reads",
    };
    const OVER: Part = Part::Mbarriers {
        what: "over",
        offset: 16 + 16 * STAGES as u32,
        count: 1,
        arrivals: 1,
        by: "the thread that multiplies, for the other CTA",
    };
}

/// The two ends of the accumulators.
///
/// See the example of [`AccumulatorProducerEnd::by`].
pub struct AccumulatorEnds<
    const STAGES: usize,
    const N: usize,
    Ro,
    Tag,
    G = OneSm,
    const FACTORS: usize = 0,
> {
    /// The end of the warp that allocates, and whose elected thread multiplies.
    pub producer: AccumulatorProducerEnd<STAGES, N, Ro, Tag, G, FACTORS>,
    /// The end of the warp group that reads.
    pub reader: AccumulatorReaderEnd<STAGES, N, Ro, Tag, G>,
}

/// The end of the warp that multiplies, before that takes it with [`by`](Self::by).
#[must_use]
pub struct AccumulatorProducerEnd<
    const STAGES: usize,
    const N: usize,
    Ro,
    Tag,
    G = OneSm,
    const FACTORS: usize = 0,
> {
    at: Layout<STAGES>,
    /// Columns of the allocation.
    columns: u32,
    ring: PhantomData<(Ro, Tag, G, *const ())>,
}

/// The end of the warp group that reads, before that takes it with [`by`](Self::by).
#[must_use]
pub struct AccumulatorReaderEnd<const STAGES: usize, const N: usize, Ro, Tag, G = OneSm> {
    pub(super) at: Layout<STAGES>,
    ring: PhantomData<(Ro, Tag, G, *const ())>,
}

// SAFETY: the barriers and the word lie inside BYTES. The counts are what the ends produce: one arrival of a commit per
// full accumulator, one of each reading warp per empty one, one of the allocating warp.
unsafe impl<
    const STAGES: usize,
    const N: usize,
    Ro: Role,
    Tag: Name,
    G: CtaGroup,
    const FACTORS: usize,
> Region for TensorAccumulators<STAGES, N, Ro, Tag, G, FACTORS>
{
    const BYTES: usize = {
        assert!(Self::COLUMNS > 0);
        16 + 16 * STAGES + 8 * (G::CTAS - 1)
    };
    const ALIGN: usize = 8;
    const NAME: &'static str = Tag::NAME;
    const FACTS: RegionFacts = RegionFacts::of(
        "TensorAccumulators",
        if G::CTAS == 1 {
            &[Self::ALLOCATED, Self::FULL, Self::EMPTY]
        } else {
            &[Self::ALLOCATED, Self::FULL, Self::EMPTY, Self::OVER]
        },
    );
    type Ends = AccumulatorEnds<STAGES, N, Ro, Tag, G, FACTORS>;

    #[isa::forceinline]
    unsafe fn init(place: Place) {
        let at = Layout::<STAGES> { base: place.base };
        // SAFETY: the barriers are this region's own memory, initialised once.
        unsafe { isa::mbarrier::init(at.allocated(), 1) };
        isa::debug::label_barrier(at.allocated(), Tag::NAME, 0);
        for stage in 0..STAGES as u32 {
            // SAFETY: as above.
            unsafe {
                isa::mbarrier::init(at.full(stage), 1);
                isa::mbarrier::init(at.empty(stage), Self::READERS);
            }
            isa::debug::label_barrier(at.full(stage), Tag::FULL, stage);
            isa::debug::label_barrier(at.empty(stage), Tag::EMPTY, stage);
        }
        if G::CTAS == 2 {
            // SAFETY: as above.
            unsafe { isa::mbarrier::init(at.over(), 1) };
            isa::debug::label_barrier(at.over(), Tag::NAME, 1);
        }
    }

    #[isa::forceinline]
    unsafe fn ends(place: Place) -> Self::Ends {
        let at = Layout { base: place.base };
        AccumulatorEnds {
            producer: AccumulatorProducerEnd { at, columns: Self::COLUMNS, ring: PhantomData },
            reader: AccumulatorReaderEnd { at, ring: PhantomData },
        }
    }
}

impl<const STAGES: usize, const N: usize, Ro: Role, Tag: Name, const FACTORS: usize>
    AccumulatorProducerEnd<STAGES, N, Ro, Tag, OneSm, FACTORS>
{
    /// Allocates the accumulators, runs `run` in one thread of the warp, waits until the last accumulator has been read,
    /// and frees them.
    ///
    /// Waits for free columns of tensor memory, and at the end for the readers of all accumulators. (PTX
    /// `tcgen05.alloc`, `tcgen05.relinquish_alloc_permit`, `elect.sync`, `mbarrier.try_wait.parity`,
    /// `tcgen05.dealloc`; CUTLASS `TMEM::Allocator1Sm::allocate`, `release_allocation_lock`, `free`, and
    /// `producer_tail`.)
    ///
    /// ```
    /// # use {half::bf16, warpipe_pipeline::{prelude::*, cta::Warp, ring::*, tensor::*}};
    /// # names! { Main = "main loop", Sums = "sums" }
    /// # roles! { Work = 1 x 40 registers, Store = 1 x 216 registers }
    /// # type Operands = (Tile<bf16, 128, 64>, Tile<bf16, 256, 64>); type Alone = Cluster<1, 1>;
    /// fn multiply(
    ///     warp: Warp<Work, Alone>,
    ///     operands: ConsumerEnd<4, Operands, Umma<Work>, Main, Alone>,
    ///     sums: AccumulatorProducerEnd<2, 256, Store, Sums>,
    ///     (tiles, k_tiles): (u32, u32),
    /// ) {
    ///     sums.by(warp, |one, sums| {
    ///         let mut operands = operands.by_one(one);
    ///         for _ in 0..tiles {
    ///             let mut sum = sums.acquire().start(operands.wait());
    ///             for _ in 1..k_tiles {
    ///                 sum.add(operands.wait());
    ///             }
    ///             sum.commit();
    ///         }
    ///     });
    /// }
    /// ```
    #[device]
    #[allow(clippy::needless_pass_by_value)] // It consumes the token: the warp does nothing else.
    pub fn by<R: Role, Cl: ClusterShape>(
        self,
        warp: Warp<R, Cl>,
        run: impl FnOnce(&Elected<R, Cl>, &mut AccumulatorProducer<STAGES, N, Tag, OneSm, FACTORS>),
    ) {
        let columns = self.columns;
        // SAFETY: the token says that the warp is converged. The end is there once, so the CTA allocates these columns once.
        let address = unsafe { allocate::<STAGES, OneSm>(self.at, columns) };
        if let Some(one) = warp.elect_for_now() {
            let mut sums = AccumulatorProducer {
                at: self.at,
                address,
                state: PipelineState::start(),
                ring: PhantomData,
            };
            run(&one, &mut sums);
            sums.tail();
        }
        // SAFETY: all lanes of the warp come here. The thread that multiplied has waited for the readers of every
        // accumulator, and they for the multiplications.
        unsafe {
            isa::warp::sync_warp(u32::MAX);
            isa::tcgen05::dealloc(address, columns);
        }
    }
}

/// Allocates in the whole warp, and tells the readers; gives the address.
///
/// # Safety
/// The warp is converged, and does this once.
#[device]
unsafe fn allocate<const STAGES: usize, G: CtaGroup>(at: Layout<STAGES>, columns: u32) -> u32 {
    // SAFETY: the word is the region's, and the barrier tells the readers that it is written.
    unsafe {
        G::alloc(at.base, columns);
        isa::warp::sync_warp(u32::MAX);
        if isa::warp::lane_id() == 0 {
            isa::mbarrier::arrive(at.allocated());
        }
        isa::shared::ld(at.base)
    }
}

impl<const STAGES: usize, const N: usize, Ro: Role, Tag: Name, const FACTORS: usize>
    AccumulatorProducerEnd<STAGES, N, Ro, Tag, TwoSm, FACTORS>
{
    /// Allocates the accumulators of a pair, in both of its CTAs. Runs `run` in one thread of the CTA that leads, waits until
    /// both CTAs have read the last accumulator, and frees them.
    ///
    /// A warp of each CTA calls it. Waits for free columns of tensor memory, for the other CTA, and at the end for the
    /// readers. (PTX `tcgen05.alloc` and `tcgen05.dealloc` with `.cta_group::2`, `elect.sync`,
    /// `mbarrier.try_wait.parity.acquire.cluster`; CUTLASS `TMEM::Allocator2Sm`, `producer_tail`, and the deallocation
    /// barrier.) See the example of [`Leader`].
    #[device]
    #[allow(clippy::needless_pass_by_value)] // It consumes the token: the warp does nothing else.
    pub fn by<R: Role, Cl: ClusterShape>(
        self,
        warp: Warp<R, Cl>,
        run: impl FnOnce(&Leader<R, Cl>, &mut AccumulatorProducer<STAGES, N, Tag, TwoSm, FACTORS>),
    ) {
        const { assert!(is_pair::<Cl>(), "a pair of CTAs is a cluster of 2 x 1: `Cluster<2, 1>`") };
        let columns = self.columns;
        // SAFETY: as for one CTA; the plan of the other one is the same.
        let address = unsafe { allocate::<STAGES, TwoSm>(self.at, columns) };
        let at = warp.coord();
        if at.leads() {
            if warp.elect_for_now().is_some() {
                let mut sums = AccumulatorProducer {
                    at: self.at,
                    address,
                    state: PipelineState::start(),
                    ring: PhantomData,
                };
                run(&Leader::new(at), &mut sums);
                sums.tail();
                // SAFETY: the other CTA waits for this arrival before it exits.
                unsafe {
                    let over = isa::cluster::mapa(self.at.over(), at.rank() ^ 1);
                    isa::mbarrier::arrive_remote_release_cluster(over);
                }
            }
        } else {
            // SAFETY: the plan initialised the barrier, whose first phase says that all is over.
            unsafe { isa::mbarrier::wait_parity_cluster(self.at.over(), 0) };
        }
        // SAFETY: all lanes of the warp come here. The thread that multiplied has waited for the readers of every
        // accumulator in both CTAs, and they for the multiplications.
        unsafe {
            isa::warp::sync_warp(u32::MAX);
            isa::tcgen05::dealloc_2sm(address, columns);
        }
    }
}

/// The accumulators in the thread that multiplies: its position in their ring, and the verb `acquire`.
///
/// (CUTLASS: the producer's side of `PipelineUmmaAsync` and its `PipelineState`.) See the example of
/// [`AccumulatorProducerEnd::by`].
#[must_use]
pub struct AccumulatorProducer<
    const STAGES: usize,
    const N: usize,
    Tag,
    G = OneSm,
    const FACTORS: usize = 0,
> {
    at: Layout<STAGES>,
    address: u32,
    state: PipelineState<STAGES, ProducerSide>,
    ring: PhantomData<(Tag, G, *const ())>,
}

impl<const STAGES: usize, const N: usize, Tag: Name, G: CtaGroup, const FACTORS: usize>
    AccumulatorProducer<STAGES, N, Tag, G, FACTORS>
{
    /// Acquires the next accumulator and advances.
    ///
    /// Waits until every warp that reads it has released it. (PTX `mbarrier.try_wait.parity`,
    /// `tcgen05.fence::after_thread_sync`; CUTLASS `producer_acquire`.) See the example of
    /// [`AccumulatorProducerEnd::by`].
    #[device]
    pub fn acquire(&mut self) -> EmptyAccumulator<N, Tag, G, FACTORS> {
        let stage = self.state.index();
        self.wait();
        isa::tcgen05::fence_after_thread_sync();
        isa::debug::hold(self.at.full(stage), "accumulator of", Tag::NAME, stage, "committed");
        let factors = self.address + const { STAGES * N } as u32;
        EmptyAccumulator::new(self.address + stage * N as u32, factors, self.at.full(stage))
    }

    #[device]
    fn wait(&mut self) {
        // SAFETY: the plan initialised the barrier; the state tracks its phase.
        unsafe {
            let (empty, phase) = (self.at.empty(self.state.index()), self.state.phase());
            if G::CTAS == 1 {
                isa::mbarrier::wait_parity(empty, phase);
            } else {
                isa::mbarrier::wait_parity_cluster(empty, phase);
            }
        }
        self.state.advance();
    }

    #[device]
    fn tail(&mut self) {
        for _ in 0..STAGES {
            self.wait();
        }
    }
}
