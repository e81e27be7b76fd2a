//! The GEMM kernel: persistent, warp-specialised, D = epilogue(A·Bᵀ).
//!
//! ```text
//! warp 0      TMA  A, B  ──► ring "main loop" ──► wgmma, consumer warp groups ─┐
//! warp 1      TMA  C     ──► ring "C" ─────────────────────────────────────────┤ epilogue, round
//!                                                                              └► store buffers ─► TMA D
//! ```
//!
//! Warp 0 does not stop at the end of a tile, so the ring is full again when an epilogue ends. Warp 1 starts to
//! load C when warp 0 has issued the loads of the first tile (`LoadOrderBarrier`). TMA loads zeros for rows and
//! columns beyond the tensors and does not store them, so M, N and K need not be multiples of the tile.
//!
//! This file also has three main loops: [`Cooperative`], [`SplitN`] and [`Pingpong`]. Those that add up the short sums
//! of 8-bit floats are in [`promoted`](super::promoted), that of tiles whose warp groups divide the columns is in
//! [`by_columns`](super::by_columns), and that of tiles of 256 rows is in [`tall`](super::tall).
#![forbid(unsafe_code)]

use super::config::*;
use super::epilogue::Epilogue;
use super::output::{EpilogueTiles, Orientation, Output};
use super::rank::MapRank;
use super::scales::ScaleConfig;
use super::scheduler::{TileOrigin, TileScheduler};
use isa::misc::nounroll;
use isa::wgmma::{M64, Shape};
use pipeline::barrier::OrderedSequence;
use pipeline::cta::{ClusterShape, Condition, Role};
use pipeline::grid::Part;
use pipeline::mma::{
    GROUP_ROWS, MmaStage, MmaTiles, SplitAccumulator, TallAccumulator, one_by_one,
};
use pipeline::prelude::*;
use pipeline::ring::{Consumer, MmaInTurn, ReadsInTurn};
use pipeline::tile::{EpilogueElement, TileShape};

/// Runs one CTA of the GEMM that `G` describes. `STAGES` is the number of stages of `G::Operands`, and `STORES` that of
/// the store buffers of each warp group.
///
/// Each role waits for the primary grid (`griddepcontrol.wait`) before it touches memory that the primary grid
/// may write. The CTA lets the dependent grid start (`griddepcontrol.launch_dependents`) at once, or after its
/// last loads if it prefetches.
#[isa::forceinline]
pub fn gemm<G, const STAGES: usize, const STORES: usize>(
    cta: GemmCta<G>,
    a: &MapA<G>,
    b: &MapB<G>,
    c: &MapC<G>,
    d: &MapD<G>,
    scales: ScaleArgs<'_, G>,
    loads: LoadArgs<'_>,
    epilogue: G::Epilogue,
    scheduler: SchedulerArgs<G>,
) where
    G: Config<Operands = OperandRing<G, STAGES>, Stores = StoresOf<G, STORES>>,
    G::Output: Orientation<Map<G::Rank> = MatrixMap<G>>,
{
    let (bm, bn) = (<G::A as TileShape>::ROWS, <G::B as TileShape>::ROWS);
    let bk = <G::A as TileShape>::COLS as u32;
    const {
        assert!(
            !(G::ReadsC::HOLDS && <G::Output as Orientation>::SWAP_AB),
            "a kernel with swap_ab reads no C: tiles of C lie as those of D do"
        );
        assert!(
            !(G::Epilogue::GATED && (G::ReadsC::HOLDS || <G::Output as Orientation>::SWAP_AB)),
            "a kernel with a gated epilogue reads no C and does not swap its operands"
        );
    }

    // The kernel does not know whether the dependent grid prefetches, and assumes that it does if this grid does. A
    // dependent grid that prefetches nothing only initialises its barriers early, so it may start at once.
    if loads.prefetch == 0 {
        cta.launch_dependents();
    }
    G::Rank::prefetch(a, &cta);
    G::Rank::prefetch(b, &cta);
    G::Rank::prefetch(d, &cta);
    let (early, (stores, operands, source, order, turns, source_turns)) = cta.prologue();
    let (c_loads, c_panels) = match source {
        Some(ring) => (Some(ring.producer), Some(ring.consumer)),
        None => (None, None),
    };

    early.specialize(
        |load| {
            load.two_warps(
                |warp| {
                    let Some(early) = warp.elect() else { return };
                    let at = early.coord();
                    let tiles = G::Scheduler::new(at, &scheduler);
                    let boxes = |tile: TileOrigin, k: u32| {
                        (
                            G::Rank::tile(a, tile.batch, tile.row, k * bk, at.sharing_a()),
                            G::Rank::tile(b, tile.batch, tile.col, k * bk, at.sharing_b()),
                        )
                    };
                    // Before `wait`: when the primary grid ends, the first coordinates are already computed, and
                    // the first bytes are in the L2 cache.
                    let mut works = tiles.clone().map(|work| (work, tiles.origin(&work, bm, bn)));
                    let mut next = works.next();
                    if let Some((work, tile)) = &next {
                        for k in work.k..work.k + work.k_tiles.min(loads.prefetch) {
                            nounroll();
                            let (a, b) = boxes(*tile, k);
                            a.prefetch(&early);
                            b.prefetch(&early);
                        }
                    }

                    let one = early.wait();
                    let mut ring = operands.producer.by(&one);
                    let mut order = Some(order.main_loop.by(&one));
                    let mut throttle = loads.throttle.by(&one, loads.epochs, loads.epoch);
                    while let Some((work, tile)) = next {
                        let throttled = tiles.is_data_parallel(&work);
                        let first = if G::Scheduler::SPLITS_K { work.k } else { 0 };
                        let mut scales = G::Scales::begin(scales, &one, tile, first);
                        for k in first..first + work.k_tiles {
                            let (a, b) = boxes(tile, k);
                            if throttled {
                                throttle.step();
                            }
                            G::Scales::load(&mut scales, ring.acquire(), a, b);
                        }
                        if let Some(mut order) = order.take() {
                            order.arrive_and_step();
                        }
                        next = works.next();
                    }
                    if loads.prefetch > 0 {
                        one.launch_dependents();
                    }
                    throttle.tail();
                    ring.tail();
                },
                |warp| {
                    let (Some(c_loads), Some(early)) = (c_loads, warp.elect()) else { return };
                    let one = early.wait();
                    let tiles = G::Scheduler::new(one.coord(), &scheduler);
                    let mut ring = c_loads.by(&one);
                    let mut order = Some(order.epilogue.by(&one));
                    for work in tiles.clone() {
                        if let Some(mut order) = order.take() {
                            order.wait_and_step();
                        }
                        if !work.computes_epilogue() {
                            continue;
                        }
                        let tile = tiles.origin(&work, bm, bn);
                        for row in 0..G::Mainloop::SOURCE_ROWS {
                            let row = tile.row + (row * <SourceTile<G>>::ROWS) as u32;
                            for col in 0..G::Mainloop::SOURCE_COLS {
                                let col = tile.col + G::Mainloop::source_column(col) as u32;
                                let c = G::Rank::tile(c, tile.batch, row, col, Peers::ALONE);
                                ring.acquire().load((c,));
                            }
                        }
                    }
                    ring.tail();
                },
            );
        },
        |math| {
            let group = math.wait();
            let epilogue = epilogue.prepared(&group);
            let mut out = Output {
                group: &group,
                source: c_panels.map(|end| end.by(&group)),
                stores: stores.by(&group),
                d,
                epilogue,
            };
            let work = G::Scheduler::new(group.coord(), &scheduler);
            let turns = (turns, source_turns);
            G::Mainloop::run(work, operands.consumer.by(&group), turns, &mut out);
            out.tail();
        },
    );
}

/// All warp groups multiply each tile together, 64 rows each, and store it before they begin the next one.
/// (CUTLASS `KernelTmaWarpSpecializedCooperative`.)
pub struct Cooperative<const BM: usize, const BN: usize>;

impl<G: Config, const BM: usize, const BN: usize> Mainloop<G> for Cooperative<BM, BN>
where
    Stage<G>: MmaStage<BN>,
    M64<BN>: Shape,
{
    type Readers = Mma<G::Math>;
    type SourceReaders = Reads<G::Math>;
    type SourceTile = <Out<G> as EpilogueElement>::EpilogueTile<BM>;
    type Turns = ();
    type SourceTurns = ();
    const SOURCE_ROWS: usize = 1;
    const SOURCE_COLS: usize = EpilogueTiles::<G::Output, BN>::COUNT;
    #[isa::forceinline]
    fn source_column(index: usize) -> usize {
        EpilogueTiles::<G::Output, BN>::column(index)
    }

    #[isa::forceinline]
    fn run<const STAGES: usize, const STORES: usize>(
        tiles: G::Scheduler,
        mut operands: Consumer<STAGES, Stage<G>, Self::Readers, MainLoop, G::Cluster>,
        _turns: TurnsOf<G, Self>,
        out: &mut OutputOf<'_, G, Self, STORES>,
    ) {
        let group = out.group;
        let origin = |work: &_| tiles.origin(work, BM, BN).below(rows_above(group));
        for work in tiles.clone() {
            let begun = out.begin(GROUP_ROWS, BN, origin(&work));
            let mut sum = Accumulator::<BN>::start(group, operands.wait());
            for _ in 1..work.k_tiles {
                sum.next(operands.wait()).release();
            }
            let (sum, last) = sum.finish();
            last.release();

            tiles.fixup(group, &work, Part::whole(), sum, |sum| {
                out.store_at_once(&begun, sum, origin(&work));
            });
        }
    }
}

/// A cooperative main loop with an overlapped epilogue, split along N (SplitN).
///
/// Each k tile is two wgmma groups: first the left `HALF` columns, then the right ones. While the left half is
/// stored, the right half is multiplied. While the right half is stored, the left half of the next tile is
/// multiplied.
///
/// This is for tiles whose accumulators take all registers of a thread: there is no room for a second accumulator,
/// and the epilogue is long.
pub struct SplitN<const BM: usize, const HALF: usize>;

impl<G: Config, const BM: usize, const HALF: usize> Mainloop<G> for SplitN<BM, HALF>
where
    Stage<G>: MmaTiles,
    M64<HALF>: Shape,
{
    type Readers = Mma<G::Math>;
    type SourceReaders = Reads<G::Math>;
    type SourceTile = <Out<G> as EpilogueElement>::EpilogueTile<BM>;
    type Turns = ();
    type SourceTurns = ();
    const SOURCE_ROWS: usize = 1;
    const SOURCE_COLS: usize = 2 * EpilogueTiles::<G::Output, HALF>::COUNT;
    #[isa::forceinline]
    fn source_column(index: usize) -> usize {
        let half = EpilogueTiles::<G::Output, HALF>::COUNT;
        HALF * (index / half) + EpilogueTiles::<G::Output, HALF>::column(index % half)
    }

    // This is written in straight lines for ptxas. If the half that is being stored reaches its store through a loop
    // or a branch, ptxas serialises the wgmmas or inserts a wait (C7514, C7517). So the body of the inner loop starts
    // the next tile, and the path of split tiles stands apart.
    #[isa::forceinline]
    fn run<const STAGES: usize, const STORES: usize>(
        tiles: G::Scheduler,
        mut operands: Consumer<STAGES, Stage<G>, Self::Readers, MainLoop, G::Cluster>,
        _turns: TurnsOf<G, Self>,
        out: &mut OutputOf<'_, G, Self, STORES>,
    ) {
        let group = out.group;
        let origin = |work: &_| tiles.origin(work, BM, 2 * HALF).below(rows_above(group));
        let mut works = tiles.clone();
        let Some(mut work) = works.next() else { return };
        // The outer loop starts an accumulator with nothing in flight: the first one, and the one after a split tile.
        // The inner loop starts the next accumulator while the previous one is stored.
        loop {
            let mut sum =
                SplitAccumulator::<HALF, HALF>::start(group, operands.wait()).start_right();
            loop {
                let begun = out.begin(GROUP_ROWS, 2 * HALF, origin(&work));
                for _ in 1..work.k_tiles {
                    sum.next(operands.wait()).release();
                }
                let (left, rest) = sum.finish_left();
                if !tiles.is_data_parallel(&work) {
                    let (right, last) = rest.finish();
                    last.release();
                    one_by_one(left, right, |part, half| {
                        tiles.fixup(group, &work, part, half, |half| {
                            out.store_at_once(&begun, half, origin(&work).right_by(part.first()));
                        });
                    });
                    let Some(next) = works.next() else { return };
                    work = next;
                    break;
                }
                out.store_at_once(&begun, left, origin(&work));
                let (right, last) = rest.finish();
                last.release();
                let Some(next) = works.next() else {
                    return out.store_at_once(&begun, right, origin(&work).right_by(HALF));
                };
                let started = SplitAccumulator::start(group, operands.wait());
                out.store_at_once(&begun, right, origin(&work).right_by(HALF));
                sum = started.start_right();
                work = next;
            }
        }
    }
}

/// The warp groups take turns: each multiplies tiles of its own, of `BLOCKS` blocks of 64 rows. While one stores
/// its sums, another one has the tensor cores. (CUTLASS `KernelTmaWarpSpecializedPingpong`.)
///
/// ```text
/// warp 0    TMA A, B ──► ring "main loop": tile 0 │ tile 1 │ tile 2 │ …
/// group 0                multiply tile 0 │ store tile 0     │ multiply tile 2 │ …
/// group 1                                │ multiply tile 1  │ store tile 1    │ …
/// ```
///
/// If the kernel reads C, the epilogues take turns too, as they do in CUTLASS. Without C they may overlap.
///
/// Only the last epilogue of a CTA is exposed. The price is a smaller tile: it has half the elements that two warp
/// groups could hold together, so the kernel loads more of A and B per product.
pub struct Pingpong<const BLOCKS: usize, const BN: usize>;

names! {
    /// The order in which the warp groups multiply.
    Turns = "turns",
    /// The order in which they read C.
    SourceTurns = "turns of C",
}

impl<G: Config, const BLOCKS: usize, const BN: usize> Mainloop<G> for Pingpong<BLOCKS, BN>
where
    Stage<G>: MmaStage<BN>,
    M64<BN>: Shape,
{
    type Readers = MmaInTurn<G::Math>;
    type SourceReaders = ReadsInTurn<G::Math>;
    type SourceTile = <Out<G> as EpilogueElement>::EpilogueTile<GROUP_ROWS>;
    type Turns = OrderedSequence<1, G::Math, Turns>;
    type SourceTurns = OrderedSequence<1, G::Math, SourceTurns>;
    const SOURCE_ROWS: usize = BLOCKS;
    const SOURCE_COLS: usize = EpilogueTiles::<G::Output, BN>::COUNT;
    #[isa::forceinline]
    fn source_column(index: usize) -> usize {
        EpilogueTiles::<G::Output, BN>::column(index)
    }

    #[isa::forceinline]
    fn run<const STAGES: usize, const STORES: usize>(
        tiles: G::Scheduler,
        mut operands: Consumer<STAGES, Stage<G>, Self::Readers, MainLoop, G::Cluster>,
        (turns, source_turns): TurnsOf<G, Self>,
        out: &mut OutputOf<'_, G, Self, STORES>,
    ) {
        const {
            assert!(!G::Scheduler::SPLITS_K, "warp groups that take turns compute whole tiles");
        }
        let group = out.group;
        let mut turns = turns.by(group);
        // A group may wait for its tiles of C only after the other one has waited for those that this one skipped: the
        // parity of a slot's phase can't tell its last fill but one from the next.
        let mut source_turns = source_turns.map(|turns| turns.by(group));
        let mut whose = 0;
        for work in tiles.clone() {
            let mine = whose == group.index();
            whose = if whose + 1 == G::Math::GROUPS as u32 { 0 } else { whose + 1 };
            if !mine {
                operands.skip(work.k_tiles);
                if let Some(source) = &mut out.source {
                    source.skip((BLOCKS * EpilogueTiles::<G::Output, BN>::COUNT) as u32);
                }
                continue;
            }
            let origin = |work: &_| tiles.origin(work, BLOCKS * GROUP_ROWS, BN);
            let begun = out.begin(BLOCKS * GROUP_ROWS, BN, origin(&work));
            let turn = turns.wait();
            let mut sum = TallAccumulator::<BN, BLOCKS>::start(group, operands.wait());
            for _ in 1..work.k_tiles {
                sum.next(operands.wait()).release();
            }
            turn.pass_on();
            let (sum, last) = sum.finish();
            last.release();

            let turn = source_turns.as_mut().map(|turns| turns.wait());
            for (block, sum) in sum.blocks().into_iter().enumerate() {
                out.store(&begun, sum, origin(&work).below(block * GROUP_ROWS));
            }
            if let Some(turn) = turn {
                turn.pass_on();
            }
        }
    }
}

/// Rows of the tile above those of this warp group. Each warp group has 64.
#[isa::forceinline]
pub(super) fn rows_above<R: Role, Cl: ClusterShape>(group: &Warpgroup<R, Cl>) -> usize {
    group.index() as usize * GROUP_ROWS
}
