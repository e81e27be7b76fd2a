//! Products of 8-bit integers: their sums as they are, or scaled.
//!
//! ```text
//! s8 · s8 ──► s32 sums, exact ─┬─► alpha · sum                                  D s32   torch._int_mm
//!                              └─► f32 ──► scales of rows and columns (Scaled)  D bf16  W8A8
//! ```
//! The sums wrap around, which takes a K of more than 131072 of the largest operands. As f32 they are exact up to 2²⁴, and
//! are rounded beyond.
//!
//! The main loops compute whole tiles: partials of split tiles are f32. (CUTLASS: `KernelTmaWarpSpecializedCooperative` with
//! `int8_t` and `int32_t`.)
#![forbid(unsafe_code)]
// Without the feature the tables are empty.
#![cfg_attr(any(not(feature = "gemm-int8"), feature = "trace"), allow(unused_imports))]

use super::config::*;
use super::epilogue::{Epilogue, Scaled};
use super::kernel::rows_above;
use super::output::{EpilogueTiles, Orientation};
use super::scheduler::{DataParallel, TileScheduler};
use half::bf16;
use isa::kernel::KernelArg;
use isa::wgmma::{M64, Shape};
use pipeline::mma::{Fragment, GROUP_ROWS, IntAccumulator, MmaStage};
use pipeline::prelude::*;
use pipeline::ring::Consumer;
use pipeline::tile::EpilogueElement;

/// alpha · A·Bᵀ in whole numbers, which wrap around. (cuBLASLt: `CUBLAS_COMPUTE_32I` with a scale type of
/// `CUDA_R_32I`.)
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, KernelArg)]
pub struct IntLinear {
    /// Factor of the product.
    pub alpha: i32,
}

impl Epilogue for IntLinear {
    // [`IntegerSums`] multiplies the sums before they would become f32.
    #[isa::forceinline]
    fn visit(&self, sum: Fragment, _c: Option<Fragment>) -> Fragment {
        sum.map(|x| x * self.alpha as f32)
    }
}

/// Sums a tile of one warp group: `BN` columns of s32.
#[isa::forceinline]
fn sum<G: Config, Rd, const STAGES: usize, const BN: usize>(
    group: &Warpgroup<G::Math, G::Cluster>,
    operands: &mut Consumer<STAGES, Stage<G>, Rd, MainLoop, G::Cluster>,
    k_tiles: u32,
) -> IntAccumulator<BN>
where
    Rd: pipeline::ring::MmaReaders<Role = G::Math>,
    Stage<G>: MmaStage<BN, i32>,
    M64<BN>: Shape<i32>,
{
    let mut sum = IntAccumulator::<BN>::start(group, operands.wait());
    for _ in 1..k_tiles {
        sum.next(operands.wait()).release();
    }
    let (sum, last) = sum.finish();
    last.release();
    sum
}

/// What the two main loops have in common: all warp groups multiply each tile together, 64 rows each.
macro_rules! main_loop {
    ($(#[$doc:meta])* $name:ident where [$($bound:tt)*] |$out:ident, $begun:ident, $sum:ident, $at:ident| $store:expr) => {
        $(#[$doc])*
        pub struct $name<const BM: usize, const BN: usize>;

        impl<G: Config, const BM: usize, const BN: usize> Mainloop<G> for $name<BM, BN>
        where
            Stage<G>: MmaStage<BN, i32>,
            M64<BN>: Shape<i32> + Shape,
            $($bound)*
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
                $out: &mut OutputOf<'_, G, Self, STORES>,
            ) {
                const { assert!(!G::Scheduler::SPLITS_K, "whole numbers are summed in whole tiles"); }
                let group = $out.group;
                for work in tiles.clone() {
                    let $at = tiles.origin(&work, BM, BN).below(rows_above(group));
                    let $begun = $out.begin(GROUP_ROWS, BN, $at);
                    let $sum = sum::<G, _, STAGES, BN>(group, &mut operands, work.k_tiles);
                    $store;
                }
            }
        }
    };
}

main_loop! {
    /// The main loop of products with s32 results. The epilogue is [`IntLinear`].
    IntegerSums where [G: Config<Epilogue = IntLinear>, G::Output: Orientation<Out = i32>]
    |out, begun, sum, at| {
        let alpha = out.epilogue.alpha;
        out.store_ints(&begun, &sum, at, |values| values.map(|x| x.wrapping_mul(alpha)));
    }
}

main_loop! {
    /// The main loop of products whose sums become f32 for the epilogue.
    Dequantized where [] |out, begun, sum, at| out.store_at_once(&begun, sum.to_f32(), at)
}

// A device build that records traces has none of these.
#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
crate::gemm_kernels! {
    /// The kernels with operands of s8 and results of s32.
    pub static INT8_INSTANCES: IntLinear;
    #[cfg(feature = "gemm-int8")]
    gemm_s8_s32_128x128_2x1: i8 => i32, 128 x 128, cluster 2 x 1, Cooperative,
        mainloop IntegerSums<128, 128>, scheduler DataParallel;
    #[cfg(feature = "gemm-int8")]
    gemm_s8_s32_64x128_1x1: i8 => i32, 64 x 128, cluster 1 x 1, Cooperative,
        mainloop IntegerSums<64, 128>, scheduler DataParallel;
}

#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
crate::gemm_kernels! {
    /// The kernels with operands of s8, scales and results of bf16.
    pub static INT8_SCALED_INSTANCES: Scaled<'static>;
    #[cfg(feature = "gemm-int8")]
    gemm_s8_bf16_128x256_2x1: i8 => bf16, 128 x 256, cluster 2 x 1, Cooperative,
        mainloop Dequantized<128, 256>, scheduler DataParallel;
    #[cfg(feature = "gemm-int8")]
    gemm_s8_bf16_64x128_1x1: i8 => bf16, 64 x 128, cluster 1 x 1, Cooperative,
        mainloop Dequantized<64, 128>, scheduler DataParallel;
    #[cfg(feature = "gemm-int8")]
    gemm_s8_bf16_32x64t_1x1: i8 => bf16, 64 x 32, cluster 1 x 1, Cooperative, operands swapped,
        mainloop Dequantized<64, 32>, scheduler DataParallel;
}
