//! The GEMM for Blackwell by pairs of CTAs, with launch control: tiles of 256 x 256 that the hardware hands out.
//!
//! **It has never run on a chip.** The SM model runs it, and ptxas assembles it for sm_100a and sm_103a. Nothing is known
//! of its speed.
//!
//! ```text
//!            CTA 0, which leads                              CTA 1
//! warp 2     try_cancel, for both ──► answers of both        -
//! warp 0     each answer: TMA A, B                           each answer: TMA A, B
//! warp 1     each answer: one thread: tcgen05.mma of both    waits for the end
//! warps 4-7  each answer: rows 0 to 127 of the tile          each answer: rows 128 to 255
//! ```
//!
//! It is [`pair`](super::pair) with the tiles of [`launch_control`](super::launch_control). (CUTLASS
//! `PersistentTileSchedulerSm100` with a cluster of 2 x 1.)
#![forbid(unsafe_code)]

use super::launch_control::Tiles;
use super::pair::{HALF_BN, Pair, STAGES};
use super::{BM, BN, Operands, Store, Sums, TileD, Work, store_tiles};
use crate::gemm::TileSchedulerParams;
use crate::gemm::epilogue::Epilogue;
use pipeline::cta::TwoSm;
use pipeline::grid::{ClcEnds, ClcFetch};
use pipeline::mma::Fragments;
use pipeline::prelude::*;
use pipeline::ring::{Tma2Sm, Umma};
use pipeline::tensor::{TensorAccumulators, TensorStores, UmmaTiles};
use pipeline::tile::TileShape;

/// The shared memory of a CTA: `A` is its part of a tile of A and `B` one of B, of 128 rows each.
pub type Plan<A, B, O> = SmemPlan<(
    TensorStores<O, Store>,
    Ring<STAGES, (A, B), Tma2Sm, Umma<Work, TwoSm>, Operands, Pair>,
    TensorAccumulators<2, BN, Store, Sums, TwoSm>,
    ClcFetch<2, 1, Store, Tiles, Pair, 1>,
)>;
/// The CTA.
pub type PairClcCta<A, B, O> = Cta<(Work, Store), Pair, Plan<A, B, O>>;

/// Runs one CTA of the GEMM, as [`pair_gemm`](super::pair::pair_gemm) does. The grid has a pair for each tile of 256 x 256.
#[isa::forceinline]
pub fn pair_clc_gemm<A, B, O, E>(
    cta: PairClcCta<A, B, O>,
    a: &TensorMap<A>,
    b: &TensorMap<B>,
    d: &TensorMap<TileD<O>>,
    epilogue: E,
    scheduler: TileSchedulerParams,
) where
    A: TileShape,
    B: TileShape,
    (A, B): UmmaTiles<BN, TwoSm>,
    O: Fragments,
    E: Epilogue,
{
    const { assert!(!E::GATED, "this kernel stores as many columns as it sums") };
    a.prefetch(&cta);
    b.prefetch(&cta);
    d.prefetch(&cta);
    let (cta, (stores, operands, sums, tiles)) = cta.init();
    let ClcEnds { fetch, warps: [loads], leaders: [multiplies], stores: stored } = tiles;
    cta.specialize(
        |work| {
            let at = work.coord();
            work.four_warps(
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let mut ring = operands.producer.by(&one);
                    for index in loads.by(&one) {
                        let tile = scheduler.origin(index, at, BM, BN);
                        let col = tile.col + HALF_BN as u32 * at.m();
                        for k in (0..scheduler.k_tiles()).map(|k| k * A::COLS as u32) {
                            ring.acquire().load((
                                a.tile(tile.row, k, Peers::ALONE),
                                b.tile(col, k, Peers::ALONE),
                            ));
                        }
                    }
                    ring.tail();
                },
                |warp| {
                    sums.producer.by(warp, |leader, sums| {
                        let mut operands = operands.consumer.by_leader(leader);
                        for _tile in multiplies.by(leader) {
                            let mut sum = sums.acquire().start(operands.wait());
                            for _ in 1..scheduler.k_tiles() {
                                sum.add(operands.wait());
                            }
                            sum.commit();
                        }
                    });
                },
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    fetch.by(&one);
                },
                |_| {},
            );
        },
        |group| {
            let at = group.coord();
            let work = stored.by(&group).map(|index| scheduler.origin(index, at, BM, BN));
            store_tiles(&group, sums.reader, stores, d, epilogue, work);
        },
    );
}

/// The compiled kernel: `gemm_sm100_<operands>_<result>_256x256_2sm_clc`.
#[cfg(feature = "sm100")]
pub mod kernels {
    use super::{PairClcCta, pair_clc_gemm};
    use crate::gemm::TileSchedulerParams;
    use crate::sm100::pair::HALF_BN;
    use crate::sm100::{BM, Scale, TileD};
    use pipeline::prelude::*;

    /// The GEMM of bf16 with a result of bf16, by pairs of CTAs with launch control.
    #[isa::kernel]
    pub fn gemm_sm100_bf16_bf16_256x256_2sm_clc(
        cta: PairClcCta<Tile<bf16, BM, 64>, Tile<bf16, HALF_BN, 64>, bf16>,
        a: &TensorMap<Tile<bf16, BM, 64>>,
        b: &TensorMap<Tile<bf16, HALF_BN, 64>>,
        d: &TensorMap<TileD<bf16>>,
        epilogue: Scale,
        scheduler: TileSchedulerParams,
    ) {
        pair_clc_gemm(cta, a, b, d, epilogue, scheduler);
    }
}
