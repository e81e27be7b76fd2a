//! The table of compiled GEMM kernels. Adding one is adding a line.

#![cfg_attr(all(feature = "trace", target_arch = "nvptx64"), expect(unused_imports))] // Few kernels.

use super::GemmParams;
use super::cooperative::{GemmCta, Math1, Math2};
use super::epilogue::{AlongColumns, AlongRows, Epilogue};
use super::sums::{InHalves, Whole};
use super::{cooperative, overlapped, pingpong};
use half::{bf16, f16};
use isa::kernel;
use pipeline::prelude::*;

/// A schedule's function, and what follows from the tile: what the halves are, or how many blocks of 64
/// rows a warp group has.
macro_rules! gemm {
    (cooperative $t:ty, $o:ty, $math:ident, $d:ident, $bm:literal, $bn:literal, $($rest:tt)+) => {
        cooperative::gemm::<$t, $o, $math, $d, Whole, $bm, $bn, $($rest)+>
    };
    (overlapped $t:ty, $o:ty, $math:ident, $d:ident, $bm:literal, $bn:literal, $($rest:tt)+) => {
        cooperative::gemm::<$t, $o, $math, $d, InHalves<{ $bn / 2 }>, $bm, $bn, $($rest)+>
    };
    (pingpong $t:ty, $o:ty, $math:ident, $d:ident, $bm:literal, $bn:literal, $($rest:tt)+) => {
        pingpong::gemm::<$t, $o, $math, $d, $bm, $bn, { $bm / 64 }, $($rest)+>
    };
}

macro_rules! instances {
    ($($name:ident: $t:ty => $o:ty, $bm:literal x $bn:literal x $bk:literal by $schedule:ident $math:ident,
       stages $stages:literal, cluster $cm:literal x $cn:literal, C $has_c:literal, D $d:ident;)+) => {
        $(
            /// A GEMM kernel of the table in this file.
            #[kernel(dependent = true)]
            pub fn $name(
                cta: GemmCta<
                    $math,
                    Cluster<$cm, $cn>,
                    $schedule::Plan<
                        $t, $o, $math, $bm, $bn, $bk, $stages, $has_c, Cluster<$cm, $cn>,
                    >,
                >,
                a: &TensorMap<Tile<$t, $bm, $bk>, AlongN<$cn>>,
                b: &TensorMap<Tile<$t, $bn, $bk>, AlongM<$cm>>,
                c: &TensorMap<$schedule::CPanel<$o, $bm>>,
                d: &TensorMap<<$d as Epilogue<$o, $bn>>::Panel>,
                partials: Partials<'_>,
                pace: Pace<'_>,
                p: GemmParams,
            ) {
                gemm!($schedule $t, $o, $math, $d, $bm, $bn, $bk, $stages, $cm, $cn, $has_c)(
                    cta, a, b, c, d, &partials, &pace, p,
                );
            }
        )+

        /// Every GEMM instance.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const INSTANCES: &[super::Instance] = &[$(super::Instance {
            desc: &<$name as kernel::Kernel>::DESC,
            bm: $bm,
            bn: $bn,
            bk: $bk,
            stages: $stages,
            groups: $schedule::groups::<$math>(),
            kernel_schedule: $schedule::KERNEL_SCHEDULE,
            shares: $schedule::SHARES,
            cluster_m: $cm,
            cluster_n: $cn,
            ab: <$t as Element>::DTYPE,
            out: <$o as Element>::DTYPE,
            has_c: $has_c,
            turned: <$d as Epilogue<$o, $bn>>::TURNED,
        }),+];
    };
}

// The kernels of a device build that record what they do: one of each schedule.
#[cfg(all(feature = "trace", target_arch = "nvptx64"))]
#[rustfmt::skip]
instances! {
    gemm_bf16_bf16_128x256_2x1:     bf16 => bf16, 128 x 256 x 64 by overlapped  Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_bf16_128x128_1x1_pp:  bf16 => bf16, 128 x 128 x 64 by pingpong Math2, stages 6,  cluster 1 x 1, C false, D AlongRows;
}

#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
#[rustfmt::skip]
instances! {
    gemm_bf16_bf16_128x256_2x1:     bf16 => bf16, 128 x 256 x 64 by overlapped  Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_bf16_128x256_2x1_c:   bf16 => bf16, 128 x 256 x 64 by overlapped  Math2, stages 3,  cluster 2 x 1, C true, D AlongRows;
    gemm_bf16_bf16_128x128_1x1:     bf16 => bf16, 128 x 128 x 64 by cooperative Math2, stages 5,  cluster 1 x 1, C false, D AlongRows;
    gemm_bf16_bf16_128x128_1x1_c:   bf16 => bf16, 128 x 128 x 64 by cooperative Math2, stages 4,  cluster 1 x 1, C true, D AlongRows;
    gemm_bf16_bf16_64x128_1x1:      bf16 => bf16, 64 x 128 x 64  by cooperative Math1, stages 7,  cluster 1 x 1, C false, D AlongRows;
    gemm_bf16_bf16_64x128_1x1_c:    bf16 => bf16, 64 x 128 x 64  by cooperative Math1, stages 6,  cluster 1 x 1, C true, D AlongRows;
    gemm_bf16_bf16_128x192_2x1:     bf16 => bf16, 128 x 192 x 64 by cooperative Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_bf16_128x192_2x1_c:   bf16 => bf16, 128 x 192 x 64 by cooperative Math2, stages 4,  cluster 2 x 1, C true, D AlongRows;
    gemm_bf16_bf16_64x64_1x1:       bf16 => bf16, 64 x 64 x 64   by cooperative Math1, stages 12, cluster 1 x 1, C false, D AlongRows;
    gemm_bf16_bf16_64x64_1x1_c:     bf16 => bf16, 64 x 64 x 64   by cooperative Math1, stages 10, cluster 1 x 1, C true, D AlongRows;
    gemm_bf16_f16_128x256_2x1:      bf16 => f16,  128 x 256 x 64 by overlapped  Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_f16_128x256_2x1_c:    bf16 => f16,  128 x 256 x 64 by overlapped  Math2, stages 3,  cluster 2 x 1, C true, D AlongRows;
    gemm_bf16_f16_128x128_1x1:      bf16 => f16,  128 x 128 x 64 by cooperative Math2, stages 5,  cluster 1 x 1, C false, D AlongRows;
    gemm_bf16_f16_128x128_1x1_c:    bf16 => f16,  128 x 128 x 64 by cooperative Math2, stages 4,  cluster 1 x 1, C true, D AlongRows;
    gemm_bf16_f16_64x128_1x1:       bf16 => f16,  64 x 128 x 64  by cooperative Math1, stages 7,  cluster 1 x 1, C false, D AlongRows;
    gemm_bf16_f16_64x128_1x1_c:     bf16 => f16,  64 x 128 x 64  by cooperative Math1, stages 6,  cluster 1 x 1, C true, D AlongRows;
    gemm_bf16_f32_128x256_2x1:      bf16 => f32,  128 x 256 x 64 by overlapped  Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_f32_128x128_1x1:      bf16 => f32,  128 x 128 x 64 by cooperative Math2, stages 5,  cluster 1 x 1, C false, D AlongRows;
    gemm_bf16_f32_128x128_1x1_c:    bf16 => f32,  128 x 128 x 64 by cooperative Math2, stages 4,  cluster 1 x 1, C true, D AlongRows;
    gemm_bf16_f32_64x128_1x1:       bf16 => f32,  64 x 128 x 64  by cooperative Math1, stages 7,  cluster 1 x 1, C false, D AlongRows;
    gemm_bf16_f32_64x128_1x1_c:     bf16 => f32,  64 x 128 x 64  by cooperative Math1, stages 6,  cluster 1 x 1, C true, D AlongRows;
    gemm_bf16_f32_128x192_2x1:      bf16 => f32,  128 x 192 x 64 by cooperative Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_f32_128x192_2x1_c:    bf16 => f32,  128 x 192 x 64 by cooperative Math2, stages 4,  cluster 2 x 1, C true, D AlongRows;
    gemm_bf16_f32_64x64_1x1:        bf16 => f32,  64 x 64 x 64   by cooperative Math1, stages 12, cluster 1 x 1, C false, D AlongRows;
    gemm_bf16_f32_64x64_1x1_c:      bf16 => f32,  64 x 64 x 64   by cooperative Math1, stages 10, cluster 1 x 1, C true, D AlongRows;
    gemm_f16_bf16_128x256_2x1:      f16  => bf16, 128 x 256 x 64 by overlapped  Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_bf16_128x256_2x1_c:    f16  => bf16, 128 x 256 x 64 by overlapped  Math2, stages 3,  cluster 2 x 1, C true, D AlongRows;
    gemm_f16_bf16_128x128_1x1:      f16  => bf16, 128 x 128 x 64 by cooperative Math2, stages 5,  cluster 1 x 1, C false, D AlongRows;
    gemm_f16_bf16_128x128_1x1_c:    f16  => bf16, 128 x 128 x 64 by cooperative Math2, stages 4,  cluster 1 x 1, C true, D AlongRows;
    gemm_f16_bf16_64x128_1x1:       f16  => bf16, 64 x 128 x 64  by cooperative Math1, stages 7,  cluster 1 x 1, C false, D AlongRows;
    gemm_f16_bf16_64x128_1x1_c:     f16  => bf16, 64 x 128 x 64  by cooperative Math1, stages 6,  cluster 1 x 1, C true, D AlongRows;
    gemm_f16_f16_128x256_2x1:       f16  => f16,  128 x 256 x 64 by overlapped  Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_f16_128x256_2x1_c:     f16  => f16,  128 x 256 x 64 by overlapped  Math2, stages 3,  cluster 2 x 1, C true, D AlongRows;
    gemm_f16_f16_128x128_1x1:       f16  => f16,  128 x 128 x 64 by cooperative Math2, stages 5,  cluster 1 x 1, C false, D AlongRows;
    gemm_f16_f16_128x128_1x1_c:     f16  => f16,  128 x 128 x 64 by cooperative Math2, stages 4,  cluster 1 x 1, C true, D AlongRows;
    gemm_f16_f16_64x128_1x1:        f16  => f16,  64 x 128 x 64  by cooperative Math1, stages 7,  cluster 1 x 1, C false, D AlongRows;
    gemm_f16_f16_64x128_1x1_c:      f16  => f16,  64 x 128 x 64  by cooperative Math1, stages 6,  cluster 1 x 1, C true, D AlongRows;
    gemm_f16_f16_128x192_2x1:       f16  => f16,  128 x 192 x 64 by cooperative Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_f16_128x192_2x1_c:     f16  => f16,  128 x 192 x 64 by cooperative Math2, stages 4,  cluster 2 x 1, C true, D AlongRows;
    gemm_f16_f16_64x64_1x1:         f16  => f16,  64 x 64 x 64   by cooperative Math1, stages 12, cluster 1 x 1, C false, D AlongRows;
    gemm_f16_f16_64x64_1x1_c:       f16  => f16,  64 x 64 x 64   by cooperative Math1, stages 10, cluster 1 x 1, C true, D AlongRows;
    gemm_f16_f32_128x256_2x1:       f16  => f32,  128 x 256 x 64 by overlapped  Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_f32_128x128_1x1:       f16  => f32,  128 x 128 x 64 by cooperative Math2, stages 5,  cluster 1 x 1, C false, D AlongRows;
    gemm_f16_f32_128x128_1x1_c:     f16  => f32,  128 x 128 x 64 by cooperative Math2, stages 4,  cluster 1 x 1, C true, D AlongRows;
    gemm_f16_f32_64x128_1x1:        f16  => f32,  64 x 128 x 64  by cooperative Math1, stages 7,  cluster 1 x 1, C false, D AlongRows;
    gemm_f16_f32_64x128_1x1_c:      f16  => f32,  64 x 128 x 64  by cooperative Math1, stages 6,  cluster 1 x 1, C true, D AlongRows;
    gemm_f16_f32_128x192_2x1:       f16  => f32,  128 x 192 x 64 by cooperative Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_f32_128x192_2x1_c:     f16  => f32,  128 x 192 x 64 by cooperative Math2, stages 4,  cluster 2 x 1, C true, D AlongRows;
    gemm_f16_f32_64x64_1x1:         f16  => f32,  64 x 64 x 64   by cooperative Math1, stages 12, cluster 1 x 1, C false, D AlongRows;
    gemm_f16_f32_64x64_1x1_c:       f16  => f32,  64 x 64 x 64   by cooperative Math1, stages 10, cluster 1 x 1, C true, D AlongRows;
    gemm_bf16_bf16_128x224_2x1:     bf16 => bf16, 128 x 224 x 64 by cooperative Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_bf16_128x176_2x1:     bf16 => bf16, 128 x 176 x 64 by cooperative Math2, stages 5,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_bf16_128x112_2x1:     bf16 => bf16, 128 x 112 x 64 by cooperative Math2, stages 6,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_bf16_128x128_2x1:     bf16 => bf16, 128 x 128 x 64 by cooperative Math2, stages 5,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_bf16_128x64_2x1:      bf16 => bf16, 128 x 64 x 64  by cooperative Math2, stages 8,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_bf16_128x112_1x2:     bf16 => bf16, 128 x 112 x 64 by cooperative Math2, stages 6,  cluster 1 x 2, C false, D AlongRows;
    gemm_bf16_bf16_128x64_1x2:      bf16 => bf16, 128 x 64 x 64  by cooperative Math2, stages 8,  cluster 1 x 2, C false, D AlongRows;
    gemm_bf16_bf16_64x64_2x2:       bf16 => bf16, 64 x 64 x 64   by cooperative Math1, stages 12, cluster 2 x 2, C false, D AlongRows;
    gemm_bf16_bf16_16x64t_1x1:      bf16 => bf16, 64 x 16 x 64   by cooperative Math1, stages 20, cluster 1 x 1, C false, D AlongColumns;
    gemm_bf16_bf16_32x64t_1x1:      bf16 => bf16, 64 x 32 x 64   by cooperative Math1, stages 16, cluster 1 x 1, C false, D AlongColumns;
    gemm_f16_f16_128x224_2x1:       f16  => f16,  128 x 224 x 64 by cooperative Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_f16_128x176_2x1:       f16  => f16,  128 x 176 x 64 by cooperative Math2, stages 5,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_f16_128x112_2x1:       f16  => f16,  128 x 112 x 64 by cooperative Math2, stages 6,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_f16_128x128_2x1:       f16  => f16,  128 x 128 x 64 by cooperative Math2, stages 5,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_f16_128x64_2x1:        f16  => f16,  128 x 64 x 64  by cooperative Math2, stages 8,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_f16_16x64t_1x1:        f16  => f16,  64 x 16 x 64   by cooperative Math1, stages 20, cluster 1 x 1, C false, D AlongColumns;
    gemm_f16_f16_32x64t_1x1:        f16  => f16,  64 x 32 x 64   by cooperative Math1, stages 16, cluster 1 x 1, C false, D AlongColumns;
    gemm_f16_f16_128x112_1x2:      f16  => f16,  128 x 112 x 64 by cooperative Math2, stages 6,  cluster 1 x 2, C false, D AlongRows;
    gemm_f16_f16_128x64_1x2:       f16  => f16,  128 x 64 x 64  by cooperative Math2, stages 8,  cluster 1 x 2, C false, D AlongRows;
    gemm_f16_f16_64x64_2x2:        f16  => f16,  64 x 64 x 64   by cooperative Math1, stages 12, cluster 2 x 2, C false, D AlongRows;
    gemm_bf16_bf16_128x128_1x1_pp:  bf16 => bf16, 128 x 128 x 64 by pingpong Math2, stages 6,  cluster 1 x 1, C false, D AlongRows;
    gemm_bf16_bf16_128x128_1x1_pp_c:bf16 => bf16, 128 x 128 x 64 by pingpong Math2, stages 5,  cluster 1 x 1, C true, D AlongRows;
    gemm_bf16_bf16_128x128_2x1_pp:  bf16 => bf16, 128 x 128 x 64 by pingpong Math2, stages 6,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_bf16_64x128_1x1_pp:   bf16 => bf16, 64 x 128 x 64  by pingpong Math2, stages 8,  cluster 1 x 1, C false, D AlongRows;
    gemm_bf16_bf16_64x224_2x1_pp:   bf16 => bf16, 64 x 224 x 64  by pingpong Math2, stages 5,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_bf16_64x256_2x1_pp:   bf16 => bf16, 64 x 256 x 64  by pingpong Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_bf16_64x128_2x1:      bf16 => bf16, 64 x 128 x 64  by cooperative Math1, stages 8,  cluster 2 x 1, C false, D AlongRows;
    gemm_bf16_bf16_16x64t_1x1_x2: bf16 => bf16, 64 x 16 x 64   by cooperative Math1, stages 9,  cluster 1 x 1, C false, D AlongColumns;
    gemm_bf16_bf16_32x64t_1x1_x2: bf16 => bf16, 64 x 32 x 64   by cooperative Math1, stages 8,  cluster 1 x 1, C false, D AlongColumns;
    gemm_f16_f16_128x128_1x1_pp:    f16  => f16,  128 x 128 x 64 by pingpong Math2, stages 6,  cluster 1 x 1, C false, D AlongRows;
    gemm_f16_f16_128x128_1x1_pp_c:  f16  => f16,  128 x 128 x 64 by pingpong Math2, stages 5,  cluster 1 x 1, C true, D AlongRows;
    gemm_f16_f16_128x128_2x1_pp:    f16  => f16,  128 x 128 x 64 by pingpong Math2, stages 6,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_f16_64x128_1x1_pp:     f16  => f16,  64 x 128 x 64  by pingpong Math2, stages 8,  cluster 1 x 1, C false, D AlongRows;
    gemm_f16_f16_64x224_2x1_pp:     f16  => f16,  64 x 224 x 64  by pingpong Math2, stages 5,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_f16_64x256_2x1_pp:     f16  => f16,  64 x 256 x 64  by pingpong Math2, stages 4,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_f16_64x128_2x1:        f16  => f16,  64 x 128 x 64  by cooperative Math1, stages 8,  cluster 2 x 1, C false, D AlongRows;
    gemm_f16_f16_16x64t_1x1_x2:   f16  => f16,  64 x 16 x 64   by cooperative Math1, stages 9,  cluster 1 x 1, C false, D AlongColumns;
    gemm_f16_f16_32x64t_1x1_x2:   f16  => f16,  64 x 32 x 64   by cooperative Math1, stages 8,  cluster 1 x 1, C false, D AlongColumns;
    gemm_bf16_f32_128x128_1x1_pp:   bf16 => f32,  128 x 128 x 64 by pingpong Math2, stages 6,  cluster 1 x 1, C false, D AlongRows;
    gemm_bf16_f32_128x128_1x1_pp_c: bf16 => f32,  128 x 128 x 64 by pingpong Math2, stages 5,  cluster 1 x 1, C true, D AlongRows;
    gemm_f16_f32_128x128_1x1_pp:    f16  => f32,  128 x 128 x 64 by pingpong Math2, stages 6,  cluster 1 x 1, C false, D AlongRows;
    gemm_f16_f32_128x128_1x1_pp_c:  f16  => f32,  128 x 128 x 64 by pingpong Math2, stages 5,  cluster 1 x 1, C true, D AlongRows;
    gemm_bf16_f16_128x128_1x1_pp:   bf16 => f16,  128 x 128 x 64 by pingpong Math2, stages 6,  cluster 1 x 1, C false, D AlongRows;
    gemm_f16_bf16_128x128_1x1_pp:   f16  => bf16, 128 x 128 x 64 by pingpong Math2, stages 6,  cluster 1 x 1, C false, D AlongRows;
}
