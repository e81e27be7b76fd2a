//! A GEMM for Blackwell: D = epilogue(A·Bᵀ) with accumulators in tensor memory.
//!
//! **It has never run on a chip.** The SM model runs it, and ptxas assembles it for sm_100a and sm_103a. Nothing is known
//! of its speed.
//!
//! ```text
//! warp 0       TMA A, B ──► ring "main loop" ──► warp 1, one thread: tcgen05.mma ──► two accumulators in tensor memory
//! warps 4-7    load an accumulator ──► epilogue ──► store buffers ──► TMA D
//! ```
//!
//! A tile has 128 rows and 256 columns. Its sums take 256 of tensor memory's 512 columns, so that the next tile is
//! multiplied while this one is stored. The kernel is persistent: a CTA takes the tiles of the data-parallel scheduler.
//!
//! Operands are bf16 or f16, e4m3, or tf32; a k tile has 128 bytes of each row of all of them.
//!
//! [`pair`] is the same by pairs of CTAs, with a tile of 256 x 256. [`launch_control`] is the same with tiles that the
//! hardware hands out, and [`pair_launch_control`] is both. [`block_scaled`] has a factor for each 32 or 16 elements of the
//! operands, and [`pair_block_scaled`] is that by pairs.
//!
//! The seams are those of [`gemm`](crate::gemm), as far as they fit: the scheduler is a [`TileScheduler`], and the epilogue
//! an [`Epilogue`] of which only `prepared` and `visit` are called, because the sums are no wgmma accumulator. The kernels are
//! compiled with the feature `sm100`, for a part of the image of their own: a Hopper can't run them. The host launches
//! them by the table [`Instance`] (`host::sm100`).
#![forbid(unsafe_code)]

pub mod block_scaled;
pub mod launch_control;
pub mod pair;
pub mod pair_block_scaled;
pub mod pair_launch_control;
#[cfg(not(target_arch = "nvptx64"))]
mod table;

#[cfg(all(feature = "sm100", not(target_arch = "nvptx64")))]
pub use table::INSTANCES;
#[cfg(not(target_arch = "nvptx64"))]
pub use table::Instance;

use crate::gemm::TileSchedulerParams;
use crate::gemm::epilogue::Epilogue;
use crate::gemm::scheduler::{DataParallel, TileOrigin, TileScheduler};
use isa::kernel::KernelArg;
use pipeline::cta::{ClusterShape, CtaGroup};
use pipeline::mma::{Fragment, Fragments};
use pipeline::prelude::*;
use pipeline::ring::Umma;
use pipeline::tensor::{
    AccumulatorReaderEnd, STRIP_COLUMNS, TENSOR_ROWS, TensorAccumulators, TensorStoreEnd,
    TensorStores, UmmaTiles,
};
use pipeline::tile::{EpilogueElement, TileShape};

names! {
    /// The ring of A and B tiles.
    Operands = "main loop",
    /// The accumulators in tensor memory.
    Sums = "sums",
}
roles! {
    /// One warp loads, one multiplies: a thread each.
    Work = 1 x 40 registers,
    /// Loads sums from tensor memory and stores D.
    Store = 1 x 216 registers,
}

/// Rows of a tile.
pub const BM: usize = TENSOR_ROWS;
/// Columns of a tile.
pub const BN: usize = 256;
/// Stages of A and B: as many as fit.
pub const STAGES: usize = 4;

/// The box of D that one TMA store writes.
pub type TileD<O> = <O as EpilogueElement>::EpilogueTile<BM>;

/// The shared memory of a CTA: `A` is a tile of A and `B` one of B, of `BM` and `BN` rows.
pub type Plan<A, B, O, Cl> = SmemPlan<(
    TensorStores<O, Store>,
    Ring<STAGES, (A, B), Tma, Umma<Work>, Operands, Cl>,
    TensorAccumulators<2, BN, Store, Sums>,
)>;
/// The CTA.
pub type TensorCta<A, B, O, Cl> = Cta<(Work, Store), Cl, Plan<A, B, O, Cl>>;
/// Tensor map of A, whose tiles are multicast along N.
pub type MapA<A, Cl> = TensorMap<A, <Cl as ClusterShape>::SharesA>;
/// Tensor map of B, whose tiles are multicast along M.
pub type MapB<B, Cl> = TensorMap<B, <Cl as ClusterShape>::SharesB>;

/// alpha · A·Bᵀ. (CUTLASS `LinearCombination` without C.)
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, KernelArg)]
pub struct Scale {
    /// Factor of the product.
    pub alpha: f32,
}

impl Epilogue for Scale {
    #[isa::forceinline]
    fn visit(&self, sum: Fragment, _c: Option<Fragment>) -> Fragment {
        sum.map(|x| self.alpha * x)
    }
}

/// Runs one CTA of the GEMM, with operands in tiles of `A` and `B` and a result of `O`. The CTAs of a cluster share tiles of A
/// and B, and each multiplies its own tile of D.
///
/// TMA loads zeros for rows and columns beyond the tensors and does not store them, so M, N and K need not be multiples of
/// the tile.
#[isa::forceinline]
pub fn tensor_gemm<A, B, O, E, Cl>(
    cta: TensorCta<A, B, O, Cl>,
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
                        for k in (0..work.k_tiles).map(|k| k * A::COLS as u32) {
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

/// The role that stores: takes each accumulator of `work` out of tensor memory, and stores it with the epilogue.
#[isa::forceinline]
fn store_tiles<const ACCUMULATORS: usize, const N: usize, O, E, Cl, G>(
    group: &Warpgroup<Store, Cl>,
    sums: AccumulatorReaderEnd<ACCUMULATORS, N, Store, Sums, G>,
    mut stores: TensorStoreEnd<O, Store>,
    d: &TensorMap<TileD<O>>,
    epilogue: E,
    work: impl Iterator<Item = TileOrigin>,
) where
    O: Fragments,
    E: Epilogue,
    Cl: ClusterShape,
    G: CtaGroup,
{
    let epilogue = epilogue.prepared(group);
    let mut sums = sums.by(group);
    // A fragment's first row is that of its warp group's 64 rows, of which each warp has 16; here it has 32.
    let warp = group.thread() / 32 * 16;
    for tile in work {
        let full = sums.wait();
        for index in 0..N / STRIP_COLUMNS {
            let strip = full.strip(index);
            let boxes = const { STRIP_COLUMNS / (16 * TensorStoreEnd::<O, Store>::FRAGMENTS) };
            for part in 0..boxes {
                let first = part * TensorStoreEnd::<O, Store>::FRAGMENTS;
                let col = tile.col + (STRIP_COLUMNS * index + 16 * first) as u32;
                stores.store(group, d, tile.row, col, |half, fragment| {
                    let row = tile.row + warp + 16 * half as u32;
                    let values = strip.fragment(half, first + fragment);
                    let at = col + 16 * fragment as u32;
                    let sum = Fragment::new(group, values, row, at);
                    epilogue.visit(sum, None).values
                });
            }
        }
        full.release();
    }
    epilogue.end(group);
    stores.tail(group);
}

/// The compiled kernels: `gemm_sm100_<operands>_<result>_128x256_<cluster>`.
#[cfg(feature = "sm100")]
pub mod kernels {
    use super::{BM, BN, MapA, MapB, Scale, TensorCta, TileD, tensor_gemm};
    use crate::gemm::TileSchedulerParams;
    use pipeline::prelude::*;

    macro_rules! kernels {
        ($($name:ident: $t:ty [$k:literal] => $o:ty, $m:literal x $n:literal;)*) => {$(
            #[doc = concat!("The GEMM of ", stringify!($t), " with a result of ", stringify!($o), ".")]
            #[isa::kernel]
            pub fn $name(
                cta: TensorCta<Tile<$t, BM, $k>, Tile<$t, BN, $k>, $o, Cluster<$m, $n>>,
                a: &MapA<Tile<$t, BM, $k>, Cluster<$m, $n>>,
                b: &MapB<Tile<$t, BN, $k>, Cluster<$m, $n>>,
                d: &TensorMap<TileD<$o>>,
                epilogue: Scale,
                scheduler: TileSchedulerParams,
            ) {
                tensor_gemm(cta, a, b, d, epilogue, scheduler);
            }
        )*};
    }
    // In brackets: the columns of a k tile.
    kernels! {
        gemm_sm100_bf16_bf16_128x256_1x1: bf16 [64] => bf16, 1 x 1;
        gemm_sm100_bf16_bf16_128x256_2x1: bf16 [64] => bf16, 2 x 1;
        gemm_sm100_bf16_f16_128x256_1x1: bf16 [64] => f16, 1 x 1;
        gemm_sm100_bf16_f32_128x256_1x1: bf16 [64] => f32, 1 x 1;
        gemm_sm100_f16_f16_128x256_1x1: f16 [64] => f16, 1 x 1;
        gemm_sm100_f16_f16_128x256_2x1: f16 [64] => f16, 2 x 1;
        gemm_sm100_f16_bf16_128x256_1x1: f16 [64] => bf16, 1 x 1;
        gemm_sm100_f16_f32_128x256_1x1: f16 [64] => f32, 1 x 1;
        gemm_sm100_e4m3_bf16_128x256_1x1: F8E4M3 [128] => bf16, 1 x 1;
        gemm_sm100_e4m3_bf16_128x256_2x1: F8E4M3 [128] => bf16, 2 x 1;
        gemm_sm100_e4m3_f32_128x256_1x1: F8E4M3 [128] => f32, 1 x 1;
        gemm_sm100_tf32_f32_128x256_1x1: Tf32 [32] => f32, 1 x 1;
    }
}
