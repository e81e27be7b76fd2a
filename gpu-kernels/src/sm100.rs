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
//! The seams are those of [`gemm`](crate::gemm), as far as they fit: the scheduler is a [`TileScheduler`], and the epilogue
//! an [`Epilogue`] of which only `prepared` and `visit` are called, because the sums are no wgmma accumulator. The kernels are
//! compiled with the feature `sm100`, for an image of their own: a Hopper can't run them.
#![forbid(unsafe_code)]

use crate::gemm::TileSchedulerParams;
use crate::gemm::epilogue::Epilogue;
use crate::gemm::scheduler::{DataParallel, TileScheduler};
use isa::kernel::KernelArg;
use isa::tcgen05::F16Kind;
use pipeline::mma::{Fragment, Fragments};
use pipeline::prelude::*;
use pipeline::ring::Umma;
use pipeline::tensor::{
    STRIP_COLUMNS, TENSOR_ROWS, TensorAccumulators, TensorStoreEnd, TensorStores,
};
use pipeline::tile::{Element, EpilogueElement};

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
/// Columns of a k tile.
pub const BK: usize = 64;
/// Stages of A and B: as many as fit.
pub const STAGES: usize = 4;

type Alone = Cluster<1, 1>;
/// A tile of A.
pub type TileA<T> = Tile<T, BM, BK>;
/// A tile of B.
pub type TileB<T> = Tile<T, BN, BK>;
/// The box of D that one TMA store writes.
pub type TileD<O> = <O as EpilogueElement>::EpilogueTile<BM>;

/// The shared memory of a CTA.
pub type Plan<T, O> = SmemPlan<(
    TensorStores<O, Store>,
    Ring<STAGES, (TileA<T>, TileB<T>), Tma, Umma<Work>, Operands, Alone>,
    TensorAccumulators<2, BN, Store, Sums>,
)>;

/// alpha · A·Bᵀ. (CUTLASS `LinearCombination` without C.)
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, KernelArg)]
pub struct Scale {
    /// Factor of the product.
    pub alpha: f32,
}

impl Epilogue for Scale {
    #[inline(always)]
    fn visit(&self, sum: Fragment, _c: Option<Fragment>) -> Fragment {
        sum.map(|x| self.alpha * x)
    }
}

/// Runs one CTA of the GEMM, with operands of `T` and a result of `O`.
///
/// TMA loads zeros for rows and columns beyond the tensors and does not store them, so M, N and K need not be multiples of
/// the tile.
#[inline(always)]
pub fn tensor_gemm<T, O, E>(
    cta: Cta<(Work, Store), Alone, Plan<T, O>>,
    a: &TensorMap<TileA<T>>,
    b: &TensorMap<TileB<T>>,
    d: &TensorMap<TileD<O>>,
    epilogue: E,
    scheduler: TileSchedulerParams,
) where
    T: Element + F16Kind,
    TileA<T>: pipeline::tile::TileShape<Element = T>,
    TileB<T>: pipeline::tile::TileShape<Element = T>,
    (TileA<T>, TileB<T>): pipeline::tensor::UmmaTiles<BN>,
    O: Fragments,
    E: Epilogue,
{
    const { assert!(!E::GATED, "this kernel stores as many columns as it sums") };
    a.prefetch(&cta);
    b.prefetch(&cta);
    d.prefetch(&cta);
    let (cta, (mut stores, operands, sums)) = cta.init();
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
                        for k in (0..work.k_tiles).map(|k| k * BK as u32) {
                            ring.acquire().load((
                                a.tile(tile.row, k, Peers::ALONE),
                                b.tile(tile.col, k, Peers::ALONE),
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
            let epilogue = epilogue.prepared(&group);
            let mut sums = sums.reader.by(&group);
            // A fragment's first row is that of its warp group's 64 rows, of which each warp has 16; here it has 32.
            let warp = group.thread() / 32 * 16;
            for work in tiles.clone() {
                let tile = tiles.origin(&work, BM, BN);
                let full = sums.wait();
                for index in 0..BN / STRIP_COLUMNS {
                    let strip = full.strip(index);
                    let boxes =
                        const { STRIP_COLUMNS / (16 * TensorStoreEnd::<O, Store>::FRAGMENTS) };
                    for part in 0..boxes {
                        let first = part * TensorStoreEnd::<O, Store>::FRAGMENTS;
                        let col = tile.col + (STRIP_COLUMNS * index + 16 * first) as u32;
                        stores.store(&group, d, tile.row, col, |half, fragment| {
                            let row = tile.row + warp + 16 * half as u32;
                            let values = strip.fragment(half, first + fragment);
                            let at = col + 16 * fragment as u32;
                            let sum = Fragment::new(&group, values, row, at);
                            epilogue.visit(sum, None).values
                        });
                    }
                }
                full.release();
            }
            stores.tail(&group);
        },
    );
}

/// The compiled kernels: `gemm_sm100_<operands>_<result>_128x256`.
#[cfg(feature = "sm100")]
pub mod kernels {
    use super::{Alone, Plan, Scale, Store, TileA, TileB, TileD, Work, tensor_gemm};
    use crate::gemm::TileSchedulerParams;
    use pipeline::prelude::*;

    macro_rules! kernels {
        ($($name:ident: $t:ty => $o:ty;)*) => {$(
            #[doc = concat!("The GEMM of ", stringify!($t), " with a result of ", stringify!($o), ".")]
            #[isa::kernel]
            pub fn $name(
                cta: Cta<(Work, Store), Alone, Plan<$t, $o>>,
                a: &TensorMap<TileA<$t>>,
                b: &TensorMap<TileB<$t>>,
                d: &TensorMap<TileD<$o>>,
                epilogue: Scale,
                scheduler: TileSchedulerParams,
            ) {
                tensor_gemm::<$t, $o, Scale>(cta, a, b, d, epilogue, scheduler);
            }
        )*};
    }
    kernels! {
        gemm_sm100_bf16_bf16_128x256: bf16 => bf16;
        gemm_sm100_bf16_f16_128x256: bf16 => f16;
        gemm_sm100_bf16_f32_128x256: bf16 => f32;
        gemm_sm100_f16_f16_128x256: f16 => f16;
        gemm_sm100_f16_bf16_128x256: f16 => bf16;
        gemm_sm100_f16_f32_128x256: f16 => f32;
    }
}
