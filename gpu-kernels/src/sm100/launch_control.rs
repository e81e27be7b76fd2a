//! The GEMM for Blackwell with launch control: the hardware hands out the tiles.
//!
//! **It has never run on a chip.** The SM model runs it, and ptxas assembles it for sm_100a and sm_103a. Nothing is known
//! of its speed.
//!
//! ```text
//! warp 2       clusterlaunchcontrol.try_cancel ──► answers ──► warps 0, 1 and 4 to 7 of all CTAs of the cluster
//! ```
//!
//! The grid has a cluster for each cluster tile. So the kernel needs no number of SMs, and a cluster that is slower than
//! others gets fewer tiles. (CUTLASS `PersistentTileSchedulerSm100`.)
#![forbid(unsafe_code)]

use super::{
    BM, BN, MapA, MapB, Operands, STAGES, Store, Sums, TensorStores, TileD, Work, store_tiles,
};
use crate::gemm::TileSchedulerParams;
use crate::gemm::epilogue::Epilogue;
use pipeline::cta::ClusterShape;
use pipeline::grid::{ClcEnds, ClcFetch};
use pipeline::mma::Fragments;
use pipeline::prelude::*;
use pipeline::ring::Umma;
use pipeline::tensor::{TensorAccumulators, UmmaTiles};
use pipeline::tile::TileShape;

names! {
    /// The answers of launch control.
    Tiles = "tiles",
}

/// The shared memory of a CTA.
pub type Plan<A, B, O, Cl> = SmemPlan<(
    TensorStores<O, Store>,
    Ring<STAGES, (A, B), Tma, Umma<Work>, Operands, Cl>,
    TensorAccumulators<2, BN, Store, Sums>,
    ClcFetch<2, 2, Store, Tiles, Cl>,
)>;
/// The CTA.
pub type ClcCta<A, B, O, Cl> = Cta<(Work, Store), Cl, Plan<A, B, O, Cl>>;

/// Runs one CTA of the GEMM, as [`tensor_gemm`](super::tensor_gemm) does. The grid has a cluster for each cluster tile.
#[isa::forceinline]
pub fn clc_gemm<A, B, O, E, Cl>(
    cta: ClcCta<A, B, O, Cl>,
    a: &MapA<A, Cl>,
    b: &MapB<B, Cl>,
    d: &TensorMap<TileD<O>>,
    epilogue: E,
    scheduler: TileSchedulerParams,
) where
    A: TileShape,
    B: TileShape,
    (A, B): UmmaTiles<BN>,
    O: Fragments,
    E: Epilogue,
    Cl: ClusterShape,
{
    const { assert!(!E::GATED, "this kernel stores as many columns as it sums") };
    a.prefetch(&cta);
    b.prefetch(&cta);
    d.prefetch(&cta);
    let (cta, (stores, operands, sums, tiles)) = cta.init();
    let ClcEnds { fetch, warps: [loads, multiplies], leaders: [], stores: stored } = tiles;
    cta.specialize(
        |work| {
            let at = work.coord();
            work.four_warps(
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let mut ring = operands.producer.by(&one);
                    for index in loads.by(&one) {
                        let tile = scheduler.origin(index, at, BM, BN);
                        for k in (0..scheduler.k_tiles()).map(|k| k * A::COLS as u32) {
                            ring.acquire().load((
                                a.tile(tile.row, k, at.sharing_a()),
                                b.tile(tile.col, k, at.sharing_b()),
                            ));
                        }
                    }
                    ring.tail();
                },
                |warp| {
                    sums.producer.by(warp, |one, sums| {
                        let mut operands = operands.consumer.by_one(one);
                        for _tile in multiplies.by(one) {
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

/// The compiled kernels: `gemm_sm100_<operands>_<result>_128x256_<cluster>_clc`.
#[cfg(feature = "sm100")]
pub mod kernels {
    use super::{ClcCta, clc_gemm};
    use crate::gemm::TileSchedulerParams;
    use crate::sm100::{BM, BN, MapA, MapB, Scale, TileD};
    use pipeline::prelude::*;

    macro_rules! kernels {
        ($($name:ident: $t:ty [$k:literal] => $o:ty, $m:literal x $n:literal;)*) => {$(
            #[doc = concat!("The GEMM of ", stringify!($t), " with a result of ", stringify!($o), ", with launch control.")]
            #[isa::kernel]
            pub fn $name(
                cta: ClcCta<Tile<$t, BM, $k>, Tile<$t, BN, $k>, $o, Cluster<$m, $n>>,
                a: &MapA<Tile<$t, BM, $k>, Cluster<$m, $n>>,
                b: &MapB<Tile<$t, BN, $k>, Cluster<$m, $n>>,
                d: &TensorMap<TileD<$o>>,
                epilogue: Scale,
                scheduler: TileSchedulerParams,
            ) {
                clc_gemm(cta, a, b, d, epilogue, scheduler);
            }
        )*};
    }
    // In brackets: the columns of a k tile.
    kernels! {
        gemm_sm100_bf16_bf16_128x256_1x1_clc: bf16 [64] => bf16, 1 x 1;
        gemm_sm100_bf16_bf16_128x256_2x1_clc: bf16 [64] => bf16, 2 x 1;
    }
}
