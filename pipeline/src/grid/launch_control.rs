//! Launch control: a persistent grid whose clusters get their tiles from the hardware (CUTLASS
//! `PipelineCLCFetchAsync`).
//!
//! **Nothing of this file has ever run on a chip.** It is for Blackwell.
//!
//! The grid has a cluster for each tile. Those that find room start. A cluster that needs another tile cancels the launch
//! of one that has not started, and computes its tile.
//!
//! Invariant: an answer is overwritten only after all warps of the cluster that read it have released it. After a failed
//! request there is no other one.
//!
//! ```text
//!                         arm full in each CTA; try_cancel
//!   one thread of CTA 0  ────────────────────────────────► answer i, full ────► all warps that work
//!                         ◄──────────────────────────────────────────────────── release: empty of CTA 0
//! ```

use crate::cta::{
    ClusterCoord, ClusterShape, Elected, Leader, Place, Region, Role, Warpgroup, is_pair,
};
use crate::ring::{ConsumerSide, Name, PipelineState, ProducerSide};
use core::marker::PhantomData;
use isa::clusterlaunchcontrol as clc;
use isa::device;
use isa::kernel::{Part, RegionFacts};
use isa::mbarrier;

/// Bytes of an answer.
const ANSWER: u32 = 16;

/// `STAGES` answers of launch control. In each CTA, one thread of each of `WARPS` warps reads them, and all warps of role
/// `Ro`. `Tag` is the name, `Cl` the cluster's shape. With `LEADERS` of 1, for a pair of CTAs, the thread that multiplies for
/// both reads them as well.
///
/// (PTX `clusterlaunchcontrol.try_cancel`, `mbarrier.init`; CUTLASS `PipelineCLCFetchAsync<Stages, ClusterShape>`, whose
/// `consumer_arv_count` is stated.)
///
/// ```
/// # use warpipe_pipeline::{grid::*, prelude::*};
/// # names! { Tiles = "tiles" }
/// # roles! { Work = 1 x 40 registers, Store = 1 x 216 registers } type Alone = Cluster<1, 1>;
/// type Fetch = ClcFetch<2, 1, Store, Tiles, Alone>;
///
/// fn kernel(cta: Cta<(Work, Store), Alone, SmemPlan<(Fetch,)>>) {
///     let (cta, (tiles,)) = cta.init();
///     let ClcEnds { fetch, warps: [loads], leaders: [], stores } = tiles;
///     cta.specialize(
///         |group| {
///             group.two_warps(
///                 |warp| if let Some(one) = warp.elect() { fetch.by(&one) },
///                 |warp| if let Some(one) = warp.elect() { for _tile in loads.by(&one) { /* loads */ } },
///             );
///         },
///         |group| for _tile in stores.by(&group) { /* stores */ },
///     );
/// }
/// # assert_eq!(SmemPlan::<(Fetch,)>::BYTES, 2 * (16 + 16));
/// ```
pub struct ClcFetch<const STAGES: usize, const WARPS: usize, Ro, Tag, Cl, const LEADERS: usize = 0>(
    PhantomData<(Ro, Tag, Cl)>,
);

/// Addresses inside the region: the answers, the full barriers, the empty barriers.
#[derive(Clone, Copy)]
struct Layout<const STAGES: usize>(u32);

impl<const STAGES: usize> Layout<STAGES> {
    #[isa::forceinline]
    const fn answer(self, stage: u32) -> u32 {
        self.0 + ANSWER * stage
    }
    #[isa::forceinline]
    const fn full(self, stage: u32) -> u32 {
        self.answer(STAGES as u32) + 8 * stage
    }
    #[isa::forceinline]
    const fn empty(self, stage: u32) -> u32 {
        self.full(STAGES as u32) + 8 * stage
    }
}

impl<
    const STAGES: usize,
    const WARPS: usize,
    Ro: Role,
    Tag: Name,
    Cl: ClusterShape,
    const LEADERS: usize,
> ClcFetch<STAGES, WARPS, Ro, Tag, Cl, LEADERS>
{
    const READERS: u32 = {
        assert!(
            LEADERS == 0 || LEADERS == 1 && is_pair::<Cl>(),
            "one thread leads, and only a pair of CTAs (`Cluster<2, 1>`): LEADERS is 0 or 1"
        );
        (Cl::SIZE * (WARPS + 4 * Ro::GROUPS) + LEADERS) as u32
    };
}

/// The ends of [`ClcFetch`]. Each must be taken: all readers release every answer.
#[must_use]
pub struct ClcEnds<const STAGES: usize, const WARPS: usize, Ro, Tag, Cl, const LEADERS: usize = 0> {
    /// The end of the thread that asks.
    pub fetch: ClcFetchEnd<STAGES, Tag, Cl>,
    /// The ends of single threads that read the answers.
    pub warps: [ClcWarpEnd<STAGES, Tag, Cl>; WARPS],
    /// The end of the thread that multiplies for a pair, if it reads the answers.
    pub leaders: [ClcLeaderEnd<STAGES, Tag, Cl>; LEADERS],
    /// The end of the role whose warps all read them.
    pub stores: ClcGroupEnd<STAGES, Ro, Tag, Cl>,
}

/// The end of the thread that asks for tiles. See the example of [`ClcFetch`].
#[must_use]
pub struct ClcFetchEnd<const STAGES: usize, Tag, Cl> {
    at: Layout<STAGES>,
    kind: PhantomData<(Tag, Cl, *const ())>,
}

/// The end of a thread that works on tiles. See the example of [`ClcFetch`].
#[must_use = "each reader releases every answer: take the end with `by`"]
pub struct ClcWarpEnd<const STAGES: usize, Tag, Cl> {
    at: Layout<STAGES>,
    kind: PhantomData<(Tag, Cl, *const ())>,
}

/// The end of the thread that multiplies for a pair of CTAs.
///
/// ```
/// # use warpipe_pipeline::{cta::{Leader, TwoSm}, grid::*, prelude::*, ring::*, tensor::*};
/// # use half::bf16;
/// # names! { Tiles = "tiles", Main = "main loop", Sums = "sums" } roles! { Work = 1 x 40 registers }
/// # type Pair = Cluster<2, 1>;
/// # type Operands = (Tile<bf16, 128, 64>, Tile<bf16, 128, 64>);
/// fn multiply(
///     leader: &Leader<Work, Pair>,
///     tiles: ClcLeaderEnd<2, Tiles, Pair>,
///     operands: ConsumerEnd<4, Operands, Umma<Work, TwoSm>, Main, Pair>,
///     sums: &mut AccumulatorProducer<2, 256, Sums, TwoSm>,
/// ) {
///     let mut operands = operands.by_leader(leader);
///     for _tile in tiles.by(leader) {
///         sums.acquire().start(operands.wait()).commit();
///     }
/// }
/// ```
#[must_use = "each reader releases every answer: take the end with `by`"]
pub struct ClcLeaderEnd<const STAGES: usize, Tag, Cl> {
    at: Layout<STAGES>,
    kind: PhantomData<(Tag, Cl, *const ())>,
}

/// The end of a role that works on tiles. See the example of [`ClcFetch`].
#[must_use = "each reader releases every answer: take the end with `by`"]
pub struct ClcGroupEnd<const STAGES: usize, Ro, Tag, Cl> {
    at: Layout<STAGES>,
    kind: PhantomData<(Ro, Tag, Cl, *const ())>,
}

// SAFETY: answers and barriers lie inside BYTES. The counts are what the ends produce: one arrival of the thread that asks
// per answer, and one of each reading warp of the cluster, and of the leader's thread.
unsafe impl<
    const STAGES: usize,
    const WARPS: usize,
    Ro: Role,
    Tag: Name,
    Cl: ClusterShape,
    const LEADERS: usize,
> Region for ClcFetch<STAGES, WARPS, Ro, Tag, Cl, LEADERS>
{
    const BYTES: usize = {
        assert!(STAGES >= 1 && STAGES <= 32, "there are from 1 to 32 answers");
        STAGES * (ANSWER as usize + 16)
    };
    const ALIGN: usize = ANSWER as usize;
    const NAME: &'static str = Tag::NAME;
    const FACTS: RegionFacts = RegionFacts::of(
        "ClcFetch",
        &[
            Part::Bytes { what: "answers", offset: 0, bytes: STAGES as u32 * ANSWER },
            Part::Mbarriers {
                what: "full",
                offset: STAGES as u32 * ANSWER,
                count: STAGES as u32,
                arrivals: 1,
                by: "the thread that asks, with the answer's bytes",
            },
            Part::Mbarriers {
                what: "empty",
                offset: STAGES as u32 * (ANSWER + 8),
                count: STAGES as u32,
                arrivals: Self::READERS,
                by: "each warp of the cluster that works",
            },
        ],
    );
    type Ends = ClcEnds<STAGES, WARPS, Ro, Tag, Cl, LEADERS>;

    #[isa::forceinline]
    unsafe fn init(place: Place) {
        let at = Layout::<STAGES>(place.base);
        for stage in 0..STAGES as u32 {
            // SAFETY: the barriers are this region's own memory, initialised once.
            unsafe {
                mbarrier::init(at.full(stage), 1);
                mbarrier::init(at.empty(stage), Self::READERS);
            }
            isa::debug::label_barrier(at.full(stage), Tag::FULL, stage);
            isa::debug::label_barrier(at.empty(stage), Tag::EMPTY, stage);
        }
    }

    #[isa::forceinline]
    unsafe fn ends(place: Place) -> Self::Ends {
        let at = Layout(place.base);
        ClcEnds {
            fetch: ClcFetchEnd { at, kind: PhantomData },
            warps: core::array::from_fn(|_| ClcWarpEnd { at, kind: PhantomData }),
            leaders: core::array::from_fn(|_| ClcLeaderEnd { at, kind: PhantomData }),
            stores: ClcGroupEnd { at, kind: PhantomData },
        }
    }
}

/// Waits for an answer, and reads it.
///
/// # Safety
/// The barrier is initialised, and `phase` is the phase that comes next for the thread.
#[device]
unsafe fn read<const STAGES: usize, Cl: ClusterShape>(
    at: Layout<STAGES>,
    stage: u32,
    phase: u32,
) -> Option<u32> {
    // SAFETY: the caller's contract; the answer has arrived.
    let answer = unsafe {
        if Cl::SIZE == 1 {
            mbarrier::wait_parity(at.full(stage), phase);
        } else {
            mbarrier::wait_parity_cluster(at.full(stage), phase);
        }
        clc::query_cancel(at.answer(stage))
    };
    // The next answer is written through the asynchronous proxy.
    isa::fence::proxy_async_shared_cta();
    answer.map(|[x, ..]| x / Cl::SIZE as u32)
}

impl<const STAGES: usize, Tag: Name, Cl: ClusterShape> ClcFetchEnd<STAGES, Tag, Cl> {
    /// Asks for tiles until a request fails. A thread of each CTA of the cluster calls it; that of the first CTA asks for all.
    ///
    /// Waits until an answer has been released by all warps of the cluster, and for each answer; at the end until the
    /// last one has been released. Signals the full barrier of each CTA. (PTX `mbarrier.arrive.expect_tx`,
    /// `clusterlaunchcontrol.try_cancel`, with `.multicast::cluster::all` in a cluster; CUTLASS `advance_to_next_work`,
    /// `producer_tail`.) See the example of [`ClcFetch`].
    #[device]
    pub fn by<R: Role>(self, one: &Elected<R, Cl>) {
        if one.coord().rank() != 0 {
            return;
        }
        let mut empty = PipelineState::<STAGES, ProducerSide>::start();
        let mut full = PipelineState::<STAGES, ConsumerSide>::start();
        loop {
            self.wait(&empty);
            let stage = empty.index();
            // SAFETY: all readers of the cluster have released the answer. The CTAs of the cluster wait for this one before
            // they exit. No request has failed.
            unsafe {
                if Cl::SIZE == 1 {
                    mbarrier::arrive_expect_tx(self.at.full(stage), ANSWER);
                    clc::try_cancel(self.at.answer(stage), self.at.full(stage));
                } else {
                    for rank in 0..Cl::SIZE as u32 {
                        let there = isa::cluster::mapa(self.at.full(stage), rank);
                        mbarrier::arrive_expect_tx_remote(there, ANSWER);
                    }
                    clc::try_cancel_multicast(self.at.answer(stage), self.at.full(stage));
                }
            }
            // SAFETY: the state tracks the phase.
            let answer = unsafe { read::<STAGES, Cl>(self.at, full.index(), full.phase()) };
            empty.advance();
            full.advance();
            if answer.is_none() {
                break;
            }
        }
        for _ in 0..STAGES {
            self.wait(&empty);
            empty.advance();
        }
    }

    #[device]
    fn wait(&self, state: &PipelineState<STAGES, ProducerSide>) {
        // SAFETY: the plan initialised the barrier; the state tracks its phase.
        unsafe {
            if Cl::SIZE == 1 {
                mbarrier::wait_parity(self.at.empty(state.index()), state.phase());
            } else {
                mbarrier::wait_parity_cluster(self.at.empty(state.index()), state.phase());
            }
        }
    }
}

impl<const STAGES: usize, Tag: Name, Cl: ClusterShape> ClcWarpEnd<STAGES, Tag, Cl> {
    /// The tiles of this cluster, for one thread.
    ///
    /// See the example of [`ClcFetch`].
    #[isa::forceinline]
    pub fn by<R: Role>(self, one: &Elected<R, Cl>) -> ClcTiles<STAGES, Tag, Cl> {
        ClcTiles::new(self.at, one.coord(), false)
    }
}

impl<const STAGES: usize, Tag: Name, Cl: ClusterShape> ClcLeaderEnd<STAGES, Tag, Cl> {
    /// The tiles of this pair, for the thread that multiplies for both of its CTAs.
    ///
    /// See the example of [`ClcLeaderEnd`].
    #[isa::forceinline]
    pub fn by<R: Role>(self, leader: &Leader<R, Cl>) -> ClcTiles<STAGES, Tag, Cl> {
        ClcTiles::new(self.at, leader.coord(), false)
    }
}

impl<const STAGES: usize, Ro: Role, Tag: Name, Cl: ClusterShape> ClcGroupEnd<STAGES, Ro, Tag, Cl> {
    /// The tiles of this cluster, for a warp group.
    ///
    /// See the example of [`ClcFetch`].
    #[isa::forceinline]
    pub fn by(self, group: &Warpgroup<Ro, Cl>) -> ClcTiles<STAGES, Tag, Cl> {
        ClcTiles::new(self.at, group.coord(), true)
    }
}

/// The tiles that a cluster computes: the index of its own cluster in the grid, and then those of the clusters whose launch
/// it has cancelled.
///
/// `next` waits for an answer, and releases it. (PTX `mbarrier.try_wait`, `clusterlaunchcontrol.query_cancel`,
/// `fence.proxy.async.shared::cta`, `mbarrier.arrive`; CUTLASS `fetch_next_work`.) See the example of [`ClcFetch`].
#[must_use]
pub struct ClcTiles<const STAGES: usize, Tag, Cl> {
    at: Layout<STAGES>,
    /// The tile that comes next, if no answer is needed.
    own: Option<u32>,
    state: PipelineState<STAGES, ConsumerSide>,
    over: bool,
    /// Whether a whole warp works, and not one thread.
    warp: bool,
    kind: PhantomData<(Tag, Cl, *const ())>,
}

impl<const STAGES: usize, Tag: Name, Cl: ClusterShape> ClcTiles<STAGES, Tag, Cl> {
    #[isa::forceinline]
    fn new(at: Layout<STAGES>, coord: ClusterCoord<Cl>, warp: bool) -> Self {
        let own = Some(coord.cluster_id());
        let state = PipelineState::start();
        Self { at, own, state, over: false, warp, kind: PhantomData }
    }

    #[device]
    fn release(&self, stage: u32) {
        // SAFETY: the warps of a group are converged. The thread that asks waits for this arrival before its CTA exits.
        unsafe {
            if self.warp {
                isa::warp::sync_warp(u32::MAX);
                if isa::warp::lane_id() != 0 {
                    return;
                }
            }
            if Cl::SIZE == 1 {
                mbarrier::arrive(self.at.empty(stage));
            } else {
                mbarrier::arrive_remote_release_cluster(isa::cluster::mapa(
                    self.at.empty(stage),
                    0,
                ));
            }
        }
    }
}

impl<const STAGES: usize, Tag: Name, Cl: ClusterShape> Iterator for ClcTiles<STAGES, Tag, Cl> {
    type Item = u32;

    #[device]
    fn next(&mut self) -> Option<u32> {
        if let Some(own) = self.own.take() {
            return Some(own);
        }
        if self.over {
            return None;
        }
        let stage = self.state.index();
        // SAFETY: the plan initialised the barrier; the state tracks its phase.
        let tile = unsafe { read::<STAGES, Cl>(self.at, stage, self.state.phase()) };
        self.release(stage);
        self.state.advance();
        self.over = tile.is_none();
        tile
    }
}
