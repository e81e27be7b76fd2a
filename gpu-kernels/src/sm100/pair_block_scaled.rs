//! The GEMM for Blackwell with block scales by pairs of CTAs (`.cta_group::2`): a tile of 256 x 128.
//!
//! **It has never run on a chip.** The SM model runs it, and ptxas assembles it for sm_100a and sm_103a. Nothing is known
//! of its speed.
//!
//! ```text
//!            CTA 0, which leads                              CTA 1
//! warp 0     TMA: its rows of A with their factors,          TMA: its rows of A with their factors,
//!            its columns of B, all factors of B              its columns of B, all factors of B
//!              └──► full barrier of CTA 0 ◄──────────────────┘
//! warp 1     one thread: tcgen05.cp and tcgen05.mma of both  waits for the end
//!              └──► full barriers of both accumulators, empty barriers of both rings
//! warps 4-7  rows 0 to 127 of the tile                       rows 128 to 255
//!              └──► empty barrier of CTA 0 ◄─────────────────┘
//! ```
//!
//! Each CTA has 128 rows of A and 64 of the columns of B, so that a pair loads three quarters of what two CTAs with tiles of
//! 128 x 128 load. It multiplies its rows with all 128 columns, and so its tensor memory needs the factors of all of them: each
//! CTA loads these, 512 to 2048 bytes of a k tile, from L2.
//!
//! The tile is 256 x 128 because of tensor memory's 512 columns. Two accumulators of 256 columns leave none for the factors, and
//! with one of them the multiplications would wait while it is stored. Two of 192 columns and the factors fit, but the factors of
//! 192 columns are one and a half blocks of 512 bytes. Two accumulators of 128 columns and the factors take 288, of an
//! allocation of 512.
#![forbid(unsafe_code)]

use super::pair::Pair;
use super::{BM, Operands, Store, Sums, TileD, Work, store_tiles};
use crate::gemm::TileSchedulerParams;
use crate::gemm::epilogue::Epilogue;
use crate::gemm::scheduler::{DataParallel, TileScheduler};
use pipeline::cta::TwoSm;
use pipeline::mma::Fragments;
use pipeline::prelude::*;
use pipeline::ring::{Tma2Sm, Umma};
use pipeline::tensor::{FACTOR_COLUMNS, TensorAccumulators, TensorStores, UmmaTiles};
use pipeline::tile::TileShape;

/// Columns of a tile.
pub const BN: usize = 128;
/// Columns of B that one CTA of the pair has.
pub const HALF_BN: usize = BN / 2;
/// Stages of A and B with their factors: as many as fit with those of NVFP4.
pub const STAGES: usize = 6;

/// The shared memory of a CTA: `A` is its part of a tile of A, of 128 rows, and `B` one of B, of 64; `S` are the factors of its
/// rows of A, and those of all 128 rows of B.
pub type Plan<A, B, S, O> = SmemPlan<(
    TensorStores<O, Store>,
    Ring<STAGES, (A, B, S, S), Tma2Sm, Umma<Work, TwoSm>, Operands, Pair>,
    TensorAccumulators<2, BN, Store, Sums, TwoSm, FACTOR_COLUMNS>,
)>;
/// The CTA.
pub type ScaledPairCta<A, B, S, O> = Cta<(Work, Store), Pair, Plan<A, B, S, O>>;

/// Runs one CTA of the GEMM, with operands in tiles of `A` and `B`, their factors in `S`, and a result of `O`. A cluster tile is
/// the 256 x 128 of a pair. The factors lie as those of
/// [`block_scaled_gemm`](super::block_scaled::block_scaled_gemm).
///
/// TMA loads zeros for rows and columns beyond the tensors and does not store them, so M, N and K need not be multiples of
/// the tile. The factors are whole blocks; those of what lies beyond a tensor are any that are not NaN.
#[isa::forceinline]
pub fn block_scaled_pair_gemm<A, B, S, O, E>(
    cta: ScaledPairCta<A, B, S, O>,
    (a, b): (&TensorMap<A>, &TensorMap<B>),
    (sfa, sfb): (&TensorMap<S>, &TensorMap<S>),
    d: &TensorMap<TileD<O>>,
    epilogue: E,
    scheduler: TileSchedulerParams,
) where
    A: TileShape,
    B: TileShape,
    S: TileShape,
    (A, B, S, S): UmmaTiles<BN, TwoSm, FACTOR_COLUMNS>,
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
                        let own = tile.col + HALF_BN as u32 * at.m();
                        let (blocks_a, blocks_b) = (
                            tile.row / BM as u32 * work.k_tiles,
                            tile.col / BN as u32 * work.k_tiles,
                        );
                        for k in 0..work.k_tiles {
                            let col = k * A::COLS as u32;
                            ring.acquire().load((
                                a.tile(tile.row, col, Peers::ALONE),
                                b.tile(own, col, Peers::ALONE),
                                sfa.tile((blocks_a + k) * S::ROWS as u32, 0, Peers::ALONE),
                                sfb.tile((blocks_b + k) * S::ROWS as u32, 0, Peers::ALONE),
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

/// The compiled kernels: `gemm_sm100_<operands>_<result>_256x128_2sm`, with `_mx` for MXFP8.
#[cfg(feature = "sm100")]
pub mod kernels {
    use super::{HALF_BN, ScaledPairCta, block_scaled_pair_gemm};
    use crate::gemm::TileSchedulerParams;
    use crate::sm100::{BM, Scale, TileD};
    use isa::tcgen05::{Ue4m3, Ue8m0};
    use pipeline::prelude::*;
    use pipeline::tile::ScaleBlocks;

    macro_rules! kernels {
        ($($(#[$meta:meta])* $name:ident: $t:ty, $factor:ty [$blocks:literal] => $o:ty;)*) => {$(
            $(#[$meta])*
            #[isa::kernel]
            pub fn $name(
                cta: ScaledPairCta<
                    Tile<$t, BM, 128>,
                    Tile<$t, HALF_BN, 128>,
                    ScaleBlocks<$factor, $blocks>,
                    $o,
                >,
                a: &TensorMap<Tile<$t, BM, 128>>,
                b: &TensorMap<Tile<$t, HALF_BN, 128>>,
                sfa: &TensorMap<ScaleBlocks<$factor, $blocks>>,
                sfb: &TensorMap<ScaleBlocks<$factor, $blocks>>,
                d: &TensorMap<TileD<$o>>,
                epilogue: Scale,
                scheduler: TileSchedulerParams,
            ) {
                block_scaled_pair_gemm(cta, (a, b), (sfa, sfb), d, epilogue, scheduler);
            }
        )*};
    }
    // In brackets: the blocks of factors of a k tile.
    kernels! {
        /// The GEMM of MXFP8, of e4m3, with a result of bf16, by pairs of CTAs.
        gemm_sm100_e4m3_bf16_256x128_2sm_mx: F8E4M3, Ue8m0 [1] => bf16;
        /// The GEMM of NVFP4 with a result of bf16, by pairs of CTAs. The factor of each whole tensor, which NVFP4 has as well,
        /// is a part of `epilogue`'s.
        gemm_sm100_nvf4_bf16_256x128_2sm: E2m1x2, Ue4m3 [4] => bf16;
    }
}
