//! The GEMM for Blackwell with block scales: a factor for each 32 elements along K (MXFP8, MXFP4), or for each 16 (NVFP4).
//!
//! **It has never run on a chip.** The SM model runs it, and ptxas assembles it for sm_100a and sm_103a. Nothing is known
//! of its speed.
//!
//! ```text
//! warp 0       TMA A, B and their factors ──► ring ──► warp 1, one thread: tcgen05.cp of the factors, tcgen05.mma
//! ```
//!
//! A tile has 128 rows and 128 columns, so that two accumulators and the factors fit into tensor memory. A slot has 512
//! to 2048 bytes of factors for each operand ([`ScaleBlocks`](pipeline::tile::ScaleBlocks) has their order). Copies and multiplications of one thread are
//! executed in order; so the factors of the next slot may follow at once.
#![forbid(unsafe_code)]

use super::{BM, Operands, Store, Sums, TensorStores, TileD, Work, store_tiles};
use crate::gemm::TileSchedulerParams;
use crate::gemm::epilogue::Epilogue;
use crate::gemm::scheduler::{DataParallel, TileScheduler};
use pipeline::cta::OneSm;
use pipeline::mma::Fragments;
use pipeline::prelude::*;
use pipeline::ring::Umma;
use pipeline::tensor::{FACTOR_COLUMNS, TensorAccumulators, UmmaTiles};
use pipeline::tile::TileShape;

/// Columns of a tile.
pub const BN: usize = 128;
/// Stages of A and B with their factors: as many as fit.
pub const STAGES: usize = 5;

/// The shared memory of a CTA: `A` is a tile of A and `B` one of B, of 128 rows of 128 bytes, and `S` the factors of each.
pub type Plan<A, B, S, O> = SmemPlan<(
    TensorStores<O, Store>,
    Ring<STAGES, (A, B, S, S), Tma, Umma<Work>, Operands, Cluster<1, 1>>,
    TensorAccumulators<2, BN, Store, Sums, OneSm, FACTOR_COLUMNS>,
)>;
/// The CTA.
pub type ScaledCta<A, B, S, O> = Cta<(Work, Store), Cluster<1, 1>, Plan<A, B, S, O>>;

/// Runs one CTA of the GEMM, with operands in tiles of `A` and `B`, their factors in `S`, and a result of `O`. The factors `sfa` and
/// `sfb` have a row for each block: those of k tile `k` and the rows `i` of tiles begin at row `(i * k_tiles + k) * S::ROWS`.
///
/// TMA loads zeros for rows and columns beyond the tensors and does not store them, so M, N and K need not be multiples of
/// the tile. The factors are whole blocks; those of what lies beyond a tensor are any that are not NaN.
#[isa::forceinline]
pub fn block_scaled_gemm<A, B, S, O, E>(
    cta: ScaledCta<A, B, S, O>,
    (a, b): (&TensorMap<A>, &TensorMap<B>),
    (sfa, sfb): (&TensorMap<S>, &TensorMap<S>),
    d: &TensorMap<TileD<O>>,
    epilogue: E,
    scheduler: TileSchedulerParams,
) where
    A: TileShape,
    B: TileShape,
    S: TileShape,
    (A, B, S, S): UmmaTiles<BN, OneSm, FACTOR_COLUMNS>,
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
                        let (blocks_a, blocks_b) = (
                            tile.row / BM as u32 * work.k_tiles,
                            tile.col / BN as u32 * work.k_tiles,
                        );
                        for k in 0..work.k_tiles {
                            let col = k * A::COLS as u32;
                            ring.acquire().load((
                                a.tile(tile.row, col, Peers::ALONE),
                                b.tile(tile.col, col, Peers::ALONE),
                                sfa.tile((blocks_a + k) * S::ROWS as u32, 0, Peers::ALONE),
                                sfb.tile((blocks_b + k) * S::ROWS as u32, 0, Peers::ALONE),
                            ));
                        }
                    }
                    ring.tail();
                },
                |warp| {
                    sums.producer.by(warp, |one, sums| {
                        let mut operands = operands.consumer.by_one(one);
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

/// The compiled kernels: `gemm_sm100_<operands>_<result>_128x128`, with `_mx` for MXFP8.
#[cfg(feature = "sm100")]
pub mod kernels {
    use super::{BN, ScaledCta, block_scaled_gemm};
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
                cta: ScaledCta<Tile<$t, BM, 128>, Tile<$t, BN, 128>, ScaleBlocks<$factor, $blocks>, $o>,
                a: &TensorMap<Tile<$t, BM, 128>>,
                b: &TensorMap<Tile<$t, BN, 128>>,
                sfa: &TensorMap<ScaleBlocks<$factor, $blocks>>,
                sfb: &TensorMap<ScaleBlocks<$factor, $blocks>>,
                d: &TensorMap<TileD<$o>>,
                epilogue: Scale,
                scheduler: TileSchedulerParams,
            ) {
                block_scaled_gemm(cta, (a, b), (sfa, sfb), d, epilogue, scheduler);
            }
        )*};
    }
    // In brackets: the blocks of factors of a k tile.
    kernels! {
        /// The GEMM of MXFP8, of e4m3, with a result of bf16.
        gemm_sm100_e4m3_bf16_128x128_mx: F8E4M3, Ue8m0 [1] => bf16;
        /// The GEMM of NVFP4 with a result of bf16. The factor of each whole tensor, which NVFP4 has as well, is a part of
        /// `epilogue`'s.
        gemm_sm100_nvf4_bf16_128x128: E2m1x2, Ue4m3 [4] => bf16;
    }
}
