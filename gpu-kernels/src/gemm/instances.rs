//! The table of compiled GEMM kernels. Adding one is adding a line.

use super::GemmParams;
use super::kernel::{BM, GemmCta, Plan, gemm};
use half::{bf16, f16};
use isa::kernel;
use pipeline::prelude::*;

macro_rules! instances {
    ($($name:ident: $t:ty => $o:ty, BN $bn:literal, BK $bk:literal, stages $stages:literal,
       cluster $cm:literal x $cn:literal, C $has_c:literal;)+) => {
        $(
            /// A GEMM kernel of the table in this file.
            #[kernel(
                threads = GemmCta::<Cluster<$cm, $cn>>::THREADS,
                cluster = ($cm * $cn, 1, 1),
                smem = Plan::<$t, $o, $bn, $bk, $stages, $has_c, Cluster<$cm, $cn>>::BYTES
            )]
            pub fn $name(
                cta: GemmCta<Cluster<$cm, $cn>>,
                a: &TensorMap<Tile<$t, BM, $bk>, $cn>,
                b: &TensorMap<Tile<$t, $bn, $bk>, $cm>,
                c: &TensorMap<<$o as Panels>::Panel<BM>>,
                d: &TensorMap<<$o as Panels>::Panel<GROUP_ROWS>>,
                p: GemmParams,
            ) {
                gemm::<$t, $o, $bn, $bk, $stages, $cm, $cn, $has_c>(cta, a, b, c, d, p);
            }
        )+

        /// Every GEMM instance.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const INSTANCES: &[super::Instance] = &[$(super::Instance {
            desc: &<$name as kernel::Kernel>::DESC,
            bm: BM as u32,
            bn: $bn,
            bk: $bk,
            stages: $stages,
            cluster_m: $cm,
            cluster_n: $cn,
            ab: <$t as Element>::DTYPE,
            out: <$o as Element>::DTYPE,
            has_c: $has_c,
        }),+];
    };
}

instances! {
    gemm_bf16_bf16_128x256_2x1:     bf16 => bf16, BN 256, BK 64, stages 4, cluster 2 x 1, C false;
    gemm_bf16_bf16_128x256_2x1_c:   bf16 => bf16, BN 256, BK 64, stages 3, cluster 2 x 1, C true;
    gemm_bf16_bf16_128x128_1x1:     bf16 => bf16, BN 128, BK 64, stages 5, cluster 1 x 1, C false;
    gemm_bf16_bf16_128x128_1x1_c:   bf16 => bf16, BN 128, BK 64, stages 4, cluster 1 x 1, C true;
    gemm_bf16_f16_128x256_2x1:      bf16 => f16,  BN 256, BK 64, stages 4, cluster 2 x 1, C false;
    gemm_bf16_f16_128x256_2x1_c:    bf16 => f16,  BN 256, BK 64, stages 3, cluster 2 x 1, C true;
    gemm_bf16_f16_128x128_1x1:      bf16 => f16,  BN 128, BK 64, stages 5, cluster 1 x 1, C false;
    gemm_bf16_f16_128x128_1x1_c:    bf16 => f16,  BN 128, BK 64, stages 4, cluster 1 x 1, C true;
    gemm_bf16_f32_128x256_2x1:      bf16 => f32,  BN 256, BK 64, stages 4, cluster 2 x 1, C false;
    gemm_bf16_f32_128x256_2x1_c:    bf16 => f32,  BN 256, BK 64, stages 3, cluster 2 x 1, C true;
    gemm_bf16_f32_128x128_1x1:      bf16 => f32,  BN 128, BK 64, stages 5, cluster 1 x 1, C false;
    gemm_bf16_f32_128x128_1x1_c:    bf16 => f32,  BN 128, BK 64, stages 4, cluster 1 x 1, C true;
    gemm_f16_bf16_128x256_2x1:      f16  => bf16, BN 256, BK 64, stages 4, cluster 2 x 1, C false;
    gemm_f16_bf16_128x256_2x1_c:    f16  => bf16, BN 256, BK 64, stages 3, cluster 2 x 1, C true;
    gemm_f16_bf16_128x128_1x1:      f16  => bf16, BN 128, BK 64, stages 5, cluster 1 x 1, C false;
    gemm_f16_bf16_128x128_1x1_c:    f16  => bf16, BN 128, BK 64, stages 4, cluster 1 x 1, C true;
    gemm_f16_f16_128x256_2x1:       f16  => f16,  BN 256, BK 64, stages 4, cluster 2 x 1, C false;
    gemm_f16_f16_128x256_2x1_c:     f16  => f16,  BN 256, BK 64, stages 3, cluster 2 x 1, C true;
    gemm_f16_f16_128x128_1x1:       f16  => f16,  BN 128, BK 64, stages 5, cluster 1 x 1, C false;
    gemm_f16_f16_128x128_1x1_c:     f16  => f16,  BN 128, BK 64, stages 4, cluster 1 x 1, C true;
    gemm_f16_f32_128x256_2x1:       f16  => f32,  BN 256, BK 64, stages 4, cluster 2 x 1, C false;
    gemm_f16_f32_128x256_2x1_c:     f16  => f32,  BN 256, BK 64, stages 3, cluster 2 x 1, C true;
    gemm_f16_f32_128x128_1x1:       f16  => f32,  BN 128, BK 64, stages 5, cluster 1 x 1, C false;
    gemm_f16_f32_128x128_1x1_c:     f16  => f32,  BN 128, BK 64, stages 4, cluster 1 x 1, C true;
}
