//! The GEMM kernel whose warp groups take turns: persistent, warp-specialised,
//! D = alpha·A·Bᵀ + beta·C. (CUTLASS `KernelTmaWarpSpecializedPingpong`.)
//!
//! ```text
//! warp 0    TMA A, B ──► ring "main loop": tile 0 │ tile 1 │ tile 2 │ …
//! warp 1    TMA C    ──► ring "C"
//! group 0                multiply tile 0 │ write tile 0     │ multiply tile 2 │ …
//! group 1                                │ multiply tile 1  │ write tile 1    │ …
//! ```
//!
//! Each tile belongs to one warp group. While one group rounds and stores its sums the other has the
//! tensor cores, so that only the last epilogue of a CTA is seen. For that a tile has half the elements
//! that two groups could hold together ([`super::cooperative`]), and more of A and B comes in for it.
#![forbid(unsafe_code)]

use super::cooperative::{
    Addend, C_STAGES, GemmCta, MainLoop, Operands, Order, Panel, STORE_DEPTH,
};
use super::epilogue::{Epilogue, Output};
use super::scheduler::TileScheduler;
use super::{GemmParams, KernelSchedule, loads};
use isa::wgmma::{M64, Operand, Shape};
use pipeline::prelude::*;

names! {
    /// The order in which the warp groups multiply.
    Turns = "turns",
}

/// As instances say it.
pub const KERNEL_SCHEDULE: KernelSchedule = KernelSchedule::Pingpong;
/// Whether CTAs can share a tile's K: not here.
pub const SHARES: bool = false;
/// Warp groups that multiply one tile.
pub const fn groups<M: Role>() -> u32 {
    1
}
/// A panel of C: a warp group reads it alone.
pub type CPanel<O, const BM: usize> = Panel<O, GROUP_ROWS>;

/// What a CTA keeps in shared memory: tiles, which are aligned, side by side.
pub type Plan<
    T,
    O,
    M,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const HAS_C: bool,
    K,
> = SmemPlan<(
    StoreBuffers<O, STORE_DEPTH, M>,
    Ring<STAGES, Operands<T, BM, BN, BK>, Tma, MmaInTurn<M>, MainLoop, K>,
    When<HAS_C, Ring<C_STAGES, (CPanel<O, BM>,), Tma, ReadsInTurn<M>, Addend, K>>,
    LoadOrderBarrier<Order>,
    OrderedSequence<1, M, Turns>,
)>;

/// One CTA of the GEMM: tiles of `BM` x `BN`, `BLOCKS` blocks of 64 rows, which the warp groups of `M`
/// take in turn, `BK` columns of A and B a stage, `STAGES` stages, clusters of `CM` x `CN` CTAs, which
/// multicast A along N and B along M; `E` writes the tile to D.
#[inline(always)]
pub fn gemm<
    T,
    O,
    M,
    E,
    const BM: usize,
    const BN: usize,
    const BLOCKS: usize,
    const BK: usize,
    const STAGES: usize,
    const CM: usize,
    const CN: usize,
    const HAS_C: bool,
>(
    cta: GemmCta<M, Cluster<CM, CN>, Plan<T, O, M, BM, BN, BK, STAGES, HAS_C, Cluster<CM, CN>>>,
    a: &TensorMap<Tile<T, BM, BK>, AlongN<CN>>,
    b: &TensorMap<Tile<T, BN, BK>, AlongM<CM>>,
    c: &TensorMap<CPanel<O, BM>>,
    d: &TensorMap<E::Panel>,
    _partials: &Partials<'_>,
    pace: &Pace<'_>,
    p: GemmParams,
) where
    T: Element + Operand,
    O: Strips,
    M: Role,
    E: Epilogue<O, BN>,
    M64<BN>: Shape,
{
    const {
        assert!(BM == BLOCKS * GROUP_ROWS, "a tile is that many blocks of 64 rows");
        assert!(!(HAS_C && E::TURNED), "C's panels are those of D as it lies");
    }
    if p.early == 0 {
        cta.launch_dependents();
    }
    a.prefetch(&cta);
    b.prefetch(&cta);
    d.prefetch(&cta);
    let (early, (stores, main_ring, c_ring, order, turns)) = cta.prologue();
    let tiles = |at| TileScheduler::<BM, BN, _>::new(at, &p.scheduler);
    let (c_loads, c_panels) = match c_ring {
        Some(ring) => (Some(ring.producer), Some(ring.consumer)),
        None => (None, None),
    };

    early.specialize(
        |load| {
            load.two_warps(
                |warp| {
                    let Some(early) = warp.elect() else { return };
                    let (ring, order) = (main_ring.producer, order.main_loop);
                    loads::operands::<T, _, BM, BN, BK, STAGES, CM, CN, SHARES>(
                        early, a, b, ring, order, pace, &p,
                    );
                },
                |warp| {
                    let (Some(c_loads), Some(early)) = (c_loads, warp.elect()) else { return };
                    let one = early.wait();
                    let tiles = tiles(one.coord());
                    let mut loads = c_loads.by(&one);
                    let mut order = Some(order.epilogue.by(&one));
                    for work in tiles.clone() {
                        if let Some(mut order) = order.take() {
                            order.wait_and_step();
                        }
                        for block in 0..BLOCKS {
                            let at = tiles.origin(&work).below(block * GROUP_ROWS);
                            for panel in 0..E::PANELS {
                                let col = at.col + E::start(panel) as u32;
                                loads.acquire().load((c.tile(at.row, col, Peers::ALONE),));
                            }
                        }
                    }
                    loads.tail();
                },
            );
        },
        |group| {
            let group = group.wait();
            let tiles = tiles(group.coord());
            let mut operands = main_ring.consumer.by(&group);
            let addend = c_panels.map(|end| end.by(&group));
            let mut out = Output { group: &group, addend, stores: stores.by(&group), d, p: &p };
            let mut turns = turns.by(&group);
            let mut whose = 0;
            for work in tiles.clone() {
                let mine = whose == group.index();
                whose = if whose + 1 == M::GROUPS as u32 { 0 } else { whose + 1 };
                if !mine {
                    operands.skip(work.k_tiles);
                    if let Some(addend) = &mut out.addend {
                        addend.skip((BLOCKS * E::PANELS) as u32);
                    }
                    continue;
                }
                let turn = turns.wait();
                let mut sum = TallAccumulator::<BN, BLOCKS>::start(&group, operands.wait());
                for _ in 1..work.k_tiles {
                    sum.next(operands.wait()).release();
                }
                turn.pass_on();
                let (sum, last) = sum.finish();
                last.release();

                for (block, sum) in sum.blocks().into_iter().enumerate() {
                    let at = tiles.origin(&work).below(block * GROUP_ROWS);
                    E::write(&mut out, sum, at);
                }
            }
            out.stores.tail();
        },
    );
}
