//! The GEMM for Blackwell by pairs of CTAs (`.cta_group::2`): a tile of 256 x 256.
//!
//! **It has never run on a chip.** The SM model runs it, and ptxas assembles it for sm_100a and sm_103a. Nothing is known
//! of its speed.
//!
//! ```text
//!            CTA 0, which leads                              CTA 1
//! warp 0     TMA: its rows of A, its columns of B            TMA: its rows of A, its columns of B
//!              └──► full barrier of CTA 0 ◄──────────────────┘
//! warp 1     one thread: tcgen05.mma of both CTAs            waits for the end
//!              └──► full barriers of both accumulators, empty barriers of both rings
//! warps 4-7  rows 0 to 127 of the tile                       rows 128 to 255
//!              └──► empty barrier of CTA 0 ◄─────────────────┘
//! ```
//!
//! Each CTA has half of A and half of B, so that a pair loads half as much for a product of 256 x 256 as two CTAs that
//! share no tile, and more stages fit. Each CTA's tensor memory holds two accumulators of 128 x 256.
#![forbid(unsafe_code)]

use super::{BM, BN, Operands, Store, Sums, TileD, Work, store_tiles};
use crate::gemm::TileSchedulerParams;
use crate::gemm::epilogue::Epilogue;
use crate::gemm::scheduler::{DataParallel, TileScheduler};
use pipeline::cta::TwoSm;
use pipeline::mma::Fragments;
use pipeline::prelude::*;
use pipeline::ring::{Tma2Sm, Umma};
use pipeline::tensor::{TensorAccumulators, TensorStores, UmmaTiles};
use pipeline::tile::TileShape;

/// Columns of B that one CTA of the pair has.
pub const HALF_BN: usize = BN / 2;
/// Stages of A and B: as many as fit.
pub const STAGES: usize = 6;
/// A pair of CTAs.
pub type Pair = Cluster<2, 1>;

/// The shared memory of a CTA: `A` is its part of a tile of A and `B` of one of B, of 128 rows each.
pub type Plan<A, B, O> = SmemPlan<(
    TensorStores<O, Store>,
    Ring<STAGES, (A, B), Tma2Sm, Umma<Work, TwoSm>, Operands, Pair>,
    TensorAccumulators<2, BN, Store, Sums, TwoSm>,
)>;
/// The CTA.
pub type PairCta<A, B, O> = Cta<(Work, Store), Pair, Plan<A, B, O>>;

/// Runs one CTA of the GEMM, with operands in tiles of `A` and `B` and a result of `O`. A cluster tile is the 256 x 256 of a
/// pair.
///
/// TMA loads zeros for rows and columns beyond the tensors and does not store them, so M, N and K need not be multiples of
/// the tile.
#[isa::forceinline]
pub fn pair_gemm<A, B, O, E>(
    cta: PairCta<A, B, O>,
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
    let (cta, (stores, operands, sums)) = cta.init();
    cta.specialize(
        |work| {
            let at = work.coord();
            work.two_warps(
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let tiles = DataParallel::new(at, &scheduler);
                    let mut ring = operands.producer.by(&one);
                    for work in tiles.clone() {
                        let tile = tiles.origin(&work, BM, BN);
                        let col = tile.col + HALF_BN as u32 * at.m();
                        for k in (0..work.k_tiles).map(|k| k * A::COLS as u32) {
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
                        for work in DataParallel::new(at, &scheduler) {
                            let mut sum = sums.acquire().start(operands.wait());
                            for _ in 1..work.k_tiles {
                                sum.add(operands.wait());
                            }
                            sum.commit();
                        }
                    });
                },
            );
        },
        |group| {
            let tiles = DataParallel::new(group.coord(), &scheduler);
            let work = tiles.clone().map(|work| tiles.origin(&work, BM, BN));
            store_tiles(&group, sums.reader, stores, d, epilogue, work);
        },
    );
}

/// The compiled kernels: `gemm_sm100_<operands>_<result>_256x256_2sm`.
#[cfg(feature = "sm100")]
pub mod kernels {
    use super::{HALF_BN, PairCta, pair_gemm};
    use crate::gemm::TileSchedulerParams;
    use crate::sm100::{BM, Scale, TileD};
    use pipeline::prelude::*;

    macro_rules! kernels {
        ($($name:ident: $t:ty [$k:literal] => $o:ty;)*) => {$(
            #[doc = concat!("The GEMM of ", stringify!($t), " with a result of ", stringify!($o), ", by pairs of CTAs.")]
            #[isa::kernel]
            pub fn $name(
                cta: PairCta<Tile<$t, BM, $k>, Tile<$t, HALF_BN, $k>, $o>,
                a: &TensorMap<Tile<$t, BM, $k>>,
                b: &TensorMap<Tile<$t, HALF_BN, $k>>,
                d: &TensorMap<TileD<$o>>,
                epilogue: Scale,
                scheduler: TileSchedulerParams,
            ) {
                pair_gemm(cta, a, b, d, epilogue, scheduler);
            }
        )*};
    }
    // In brackets: the columns of a k tile.
    kernels! {
        gemm_sm100_bf16_bf16_256x256_2sm: bf16 [64] => bf16;
        gemm_sm100_f16_f16_256x256_2sm: f16 [64] => f16;
        gemm_sm100_e4m3_bf16_256x256_2sm: F8E4M3 [128] => bf16;
    }
}
