//! The GEMM kernel whose warp groups share a tile: persistent, warp-specialised,
//! D = alpha·A·Bᵀ + beta·C. (CUTLASS `KernelTmaWarpSpecializedCooperative`.)
//!
//! ```text
//! warp 0      TMA  A, B  ──► ring "main loop" ──► wgmma, consumer warp groups ─┐
//! warp 1      TMA  C     ──► ring "C" ─────────────────────────────────────────┤ alpha, beta, round
//!                                                                              └► store buffers ─► TMA D
//! ```
//!
//! Warp 0 ([`loads`]) runs ahead over tile borders, so the ring is full again when an epilogue ends. Warp 1
//! starts loading C once warp 0 has issued the first tile's loads (`LoadOrderBarrier`). Rows and
//! columns beyond the tensors arrive as zero and are clipped on the way out, so M, N and K need not
//! be multiples of anything here.
#![forbid(unsafe_code)]

use super::epilogue::{Epilogue, Output};
use super::scheduler::TileScheduler;
use super::sums::Columns;
use super::{GemmParams, KernelSchedule, loads};
use isa::wgmma::Operand;
use pipeline::prelude::*;

names! {
    /// The ring of A and B tiles.
    MainLoop = "main loop",
    /// The ring of C panels.
    Addend = "C",
    /// Orders C's first load behind the main loop's first tile.
    Order = "load order",
}

#[cfg(not(feature = "trace"))]
roles! {
    /// Issues the loads; its threads compute addresses.
    Load = 1 x 40 registers,
    /// Multiplies, 64 rows of the CTA's tile a warp group: up to 128 accumulators a thread, and the
    /// epilogue's working set.
    Math2 = 2 x 232 registers,
    /// The same for tiles of 64 rows. An SM's registers are enough for two such CTAs.
    Math1 = 1 x 216 registers,
}

// A thread that records what it does has three registers more to keep.
#[cfg(feature = "trace")]
roles! {
    /// As above.
    Load = 1 x 56 registers,
    /// As above.
    Math2 = 2 x 224 registers,
    /// As above.
    Math1 = 1 x 200 registers,
}

/// The CTA of a GEMM in a cluster of shape `K`; `M` multiplies, `P` is what it keeps in shared memory.
pub type GemmCta<M, K, P> = Cta<(Load, M), K, P>;
/// Slots of the ring of C panels.
pub const C_STAGES: usize = 2;
/// Store buffers of each warp group: one is filled while the other is written out.
pub const STORE_DEPTH: usize = 2;

/// A stage: a tile of A and one of B.
pub type Operands<T, const BM: usize, const BN: usize, const BK: usize> =
    (Tile<T, BM, BK>, Tile<T, BN, BK>);
/// A panel of C.
pub type Panel<O, const ROWS: usize> = <O as Panels>::Panel<ROWS>;

/// As instances say it.
pub const KERNEL_SCHEDULE: KernelSchedule = KernelSchedule::Cooperative;
/// Whether CTAs can share a tile's K ([`TileSchedulerParams`](super::TileSchedulerParams)).
pub const SHARES: bool = true;
/// Warp groups that multiply one tile.
pub const fn groups<M: Role>() -> u32 {
    M::GROUPS as u32
}
/// A panel of C: all warp groups read it.
pub type CPanel<O, const BM: usize> = Panel<O, BM>;

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
    Ring<STAGES, Operands<T, BM, BN, BK>, Tma, Mma<M>, MainLoop, K>,
    When<HAS_C, Ring<C_STAGES, (CPanel<O, BM>,), Tma, Reads<M>, Addend, K>>,
    LoadOrderBarrier<Order>,
)>;

/// One CTA of the GEMM: tile `BM` x `BN`, 64 of its rows for each warp group of
/// `M`, `BK` columns of A and B a stage, `STAGES` stages, clusters of `CM` x `CN` CTAs, which multicast A
/// along N and B along M; `C` is the order in which its columns are multiplied and written, `E` writes them to D.
#[inline(always)]
pub fn gemm<
    T,
    O,
    M,
    E,
    C,
    const BM: usize,
    const BN: usize,
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
    d: &TensorMap<C::Panel>,
    partials: &Partials<'_>,
    pace: &Pace<'_>,
    p: GemmParams,
) where
    T: Element + Operand,
    O: Strips,
    M: Role,
    E: Epilogue<O, BN>,
    C: Columns<O, Operands<T, BM, BN, BK>, E, BN>,
{
    const {
        assert!(BM == M::GROUPS * GROUP_ROWS, "a tile has 64 rows for each warp group");
        assert!(!(HAS_C && E::TURNED), "C's panels are those of D as it lies");
    }
    if p.early == 0 {
        cta.launch_dependents();
    }
    a.prefetch(&cta);
    b.prefetch(&cta);
    d.prefetch(&cta);
    let (early, (stores, main_ring, c_ring, order)) = cta.prologue();
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
                        if !work.finishes() {
                            continue;
                        }
                        let tile = tiles.origin(&work);
                        for panel in 0..C::PANELS {
                            let col = tile.col + C::start(panel) as u32;
                            loads.acquire().load((c.tile(tile.row, col, Peers::ALONE),));
                        }
                    }
                    loads.tail();
                },
            );
        },
        |group| {
            let group = group.wait();
            let tiles = tiles(group.coord());
            let operands = main_ring.consumer.by(&group);
            let addend = c_panels.map(|end| end.by(&group));
            let mut out = Output { group: &group, addend, stores: stores.by(&group), d, p: &p };
            C::sum(&tiles, operands, partials, &mut out);
            out.stores.tail();
        },
    );
}
