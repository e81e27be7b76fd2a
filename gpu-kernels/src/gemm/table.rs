//! The table of compiled GEMM kernels: each configuration with several combinations of types. Each combination is
//! compiled with a feature of its own.
#![forbid(unsafe_code)]
// Without a feature the table is empty.
#![cfg_attr(not(feature = "entry-points"), allow(unused_imports))]

use super::Linear;
use half::{bf16, f16};
#[cfg(not(target_arch = "nvptx64"))]
use isa::kernel::Dtype;

/// Crosses lists of types with lists of configurations. A kernel is named after both: `gemm_bf16_f32` and
/// `_128x256_2x1`. Behind each pair of types stands its feature.
macro_rules! product {
    // All lists are crossed: paste the names together, and compile the kernels.
    (@cross [$($rows:tt)*]) => {
        pastey::paste! {
            crate::gemm_kernels! {
                /// Every GEMM kernel of this crate.
                pub static INSTANCES: Linear;
                $($rows)*
            }
        }
    };
    // All types of the first list are done: go on with the next list.
    (@cross [$($rows:tt)*] [] {$($configurations:tt)*} $($more:tt)*) => {
        product! { @cross [$($rows)*] $($more)* }
    };
    // Crosses the first pair of types of a list with each of the list's configurations.
    (@cross [$($rows:tt)*] [$t:ident => $o:ident $feature:tt $(, $($types:tt)*)?] {$($name:ident($($row:tt)*);)*} $($more:tt)*) => {
        product! {
            @cross [$($rows)* $(#[cfg(feature = $feature)] [<gemm_ $t _ $o $name>]: $t => $o, $($row)*;)*]
            [$($($types)*)?] {$($name($($row)*);)*} $($more)*
        }
    };
    ($($types:tt $configurations:tt)*) => {
        product! { @cross [] $($types $configurations)* }
    };
}

// A device build that records traces has only these two kernels: one for each kind of main loop that the model's traces
// show.
#[cfg(all(feature = "trace", target_arch = "nvptx64"))]
product! {
    [bf16 => bf16 "gemm-bf16"] {
        _128x256_2x1(128 x 256, cluster 2 x 1, SplitN);
        _128x128_1x1_pp(128 x 128, cluster 1 x 1, Pingpong);
    }
}

#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
product! {
    // For all types: one tile each for large, medium and small products.
    [
        bf16 => bf16 "gemm-bf16", f16 => f16 "gemm-f16", bf16 => f32 "gemm-bf16-f32",
        f16 => f32 "gemm-f16-f32", bf16 => f16 "gemm-mixed", f16 => bf16 "gemm-mixed",
    ] {
        _128x256_2x1(128 x 256, cluster 2 x 1, SplitN);
        _128x128_1x1(128 x 128, cluster 1 x 1, Cooperative);
        _128x128_1x1_c(128 x 128, cluster 1 x 1, Cooperative, with C);
        _128x128_1x1_pp(128 x 128, cluster 1 x 1, Pingpong);
        _64x128_1x1(64 x 128, cluster 1 x 1, Cooperative);
        _64x128_1x1_c(64 x 128, cluster 1 x 1, Cooperative, with C);
    }
    // No f32 results here: the halves of a tile of 256 columns and an f32 C need more registers than there are.
    [
        bf16 => bf16 "gemm-bf16", f16 => f16 "gemm-f16", bf16 => f16 "gemm-mixed",
        f16 => bf16 "gemm-mixed",
    ] {
        _128x256_2x1_c(128 x 256, cluster 2 x 1, SplitN, with C);
    }
    // For the types of network layers: results have the operands' type, or f32.
    [
        bf16 => bf16 "gemm-bf16", f16 => f16 "gemm-f16", bf16 => f32 "gemm-bf16-f32",
        f16 => f32 "gemm-f16-f32",
    ] {
        _128x192_2x1(128 x 192, cluster 2 x 1, Cooperative);
        _128x192_2x1_c(128 x 192, cluster 2 x 1, Cooperative, with C);
        _128x128_1x1_pp_c(128 x 128, cluster 1 x 1, Pingpong, with C);
        _64x64_1x1(64 x 64, cluster 1 x 1, Cooperative);
        _64x64_1x1_c(64 x 64, cluster 1 x 1, Cooperative, with C);
    }
    // These tiles suit some shapes better (docs/performance.md).
    [bf16 => bf16 "gemm-bf16", f16 => f16 "gemm-f16"] {
        _128x224_2x1(128 x 224, cluster 2 x 1, Cooperative);
        _128x176_2x1(128 x 176, cluster 2 x 1, Cooperative);
        _128x112_2x1(128 x 112, cluster 2 x 1, Cooperative);
        _128x112_1x2(128 x 112, cluster 1 x 2, Cooperative);
        _128x128_2x1(128 x 128, cluster 2 x 1, Cooperative);
        _128x64_2x1(128 x 64, cluster 2 x 1, Cooperative);
        _128x64_1x2(128 x 64, cluster 1 x 2, Cooperative);
        _64x128_2x1(64 x 128, cluster 2 x 1, Cooperative);
        _64x64_2x2(64 x 64, cluster 2 x 2, Cooperative);
        _128x208_2x1(128 x 208, cluster 2 x 1, Cooperative);
        _128x160_2x1(128 x 160, cluster 2 x 1, Cooperative);
        _192x192_2x1(192 x 192, cluster 2 x 1, Cooperative);
        _192x176_1x2(192 x 176, cluster 1 x 2, Cooperative);
        _192x160_2x1(192 x 160, cluster 2 x 1, Cooperative);
        _192x128_1x2(192 x 128, cluster 1 x 2, Cooperative);
        _192x96_1x2(192 x 96, cluster 1 x 2, Cooperative);
        _192x80_1x2(192 x 80, cluster 1 x 2, Cooperative);
        _64x128_4x1(64 x 128, cluster 4 x 1, Cooperative);
        _64x96_4x1(64 x 96, cluster 4 x 1, Cooperative);
        _64x64_4x1(64 x 64, cluster 4 x 1, Cooperative);
        _64x64_1x4(64 x 64, cluster 1 x 4, Cooperative);
        _128x176_2x1_pp(128 x 176, cluster 2 x 1, Pingpong);
        _128x128_2x1_pp(128 x 128, cluster 2 x 1, Pingpong);
        _64x128_1x1_pp(64 x 128, cluster 1 x 1, Pingpong);
        _64x224_2x1_pp(64 x 224, cluster 2 x 1, Pingpong);
        _64x256_2x1_pp(64 x 256, cluster 2 x 1, Pingpong);
    }
    // Candidates.
    [bf16 => bf16 "gemm-bf16"] {
        _128x64_2x1_pp(128 x 64, cluster 2 x 1, Pingpong);
        _128x80_2x1_pp(128 x 80, cluster 2 x 1, Pingpong);
        _128x96_2x1_pp(128 x 96, cluster 2 x 1, Pingpong);
        _128x112_2x1_pp(128 x 112, cluster 2 x 1, Pingpong);
        _128x144_2x1_pp(128 x 144, cluster 2 x 1, Pingpong);
        _128x160_2x1_pp(128 x 160, cluster 2 x 1, Pingpong);
        _128x176_2x1_pp(128 x 176, cluster 2 x 1, Pingpong);
        _128x96_1x1_pp(128 x 96, cluster 1 x 1, Pingpong);
        _128x144_1x1_pp(128 x 144, cluster 1 x 1, Pingpong);
        _128x160_1x1_pp(128 x 160, cluster 1 x 1, Pingpong);
        _128x176_1x1_pp(128 x 176, cluster 1 x 1, Pingpong);
        _128x144_1x2_pp(128 x 144, cluster 1 x 2, Pingpong);
        _128x176_1x2_pp(128 x 176, cluster 1 x 2, Pingpong);
        _64x64_1x1_pp(64 x 64, cluster 1 x 1, Pingpong);
        _64x96_2x1_pp(64 x 96, cluster 2 x 1, Pingpong);
        _64x160_2x1_pp(64 x 160, cluster 2 x 1, Pingpong);
        _64x192_2x1_pp(64 x 192, cluster 2 x 1, Pingpong);
        _192x64_2x1_pp(192 x 64, cluster 2 x 1, Pingpong);
        _192x80_1x2_pp(192 x 80, cluster 1 x 2, Pingpong);
        _192x96_2x1_pp(192 x 96, cluster 2 x 1, Pingpong);
        _192x96_1x2_pp(192 x 96, cluster 1 x 2, Pingpong);
        _192x112_2x1_pp(192 x 112, cluster 2 x 1, Pingpong);
        _64x80_1x1(64 x 80, cluster 1 x 1, Cooperative);
        _64x96_1x1(64 x 96, cluster 1 x 1, Cooperative);
        _64x112_1x1(64 x 112, cluster 1 x 1, Cooperative);
        _64x64_1x2(64 x 64, cluster 1 x 2, Cooperative);
        _64x64_2x1(64 x 64, cluster 2 x 1, Cooperative);
        _64x64_4x1(64 x 64, cluster 4 x 1, Cooperative);
        _64x64_1x4(64 x 64, cluster 1 x 4, Cooperative);
        _64x96_4x1(64 x 96, cluster 4 x 1, Cooperative);
        _64x128_4x1(64 x 128, cluster 4 x 1, Cooperative);
        _64x128_1x2(64 x 128, cluster 1 x 2, Cooperative);
        _64x192_2x1(64 x 192, cluster 2 x 1, Cooperative);
        _128x80_2x1(128 x 80, cluster 2 x 1, Cooperative);
        _128x96_2x1(128 x 96, cluster 2 x 1, Cooperative);
        _128x96_1x2(128 x 96, cluster 1 x 2, Cooperative);
        _128x96_4x1(128 x 96, cluster 4 x 1, Cooperative);
        _128x64_4x1(128 x 64, cluster 4 x 1, Cooperative);
        _128x144_2x1(128 x 144, cluster 2 x 1, Cooperative);
        _128x160_2x1(128 x 160, cluster 2 x 1, Cooperative);
        _128x208_2x1(128 x 208, cluster 2 x 1, Cooperative);
        _128x240_2x1(128 x 240, cluster 2 x 1, Cooperative);
        _192x64_1x2(192 x 64, cluster 1 x 2, Cooperative);
        _192x80_1x2(192 x 80, cluster 1 x 2, Cooperative);
        _192x96_1x1(192 x 96, cluster 1 x 1, Cooperative);
        _192x96_1x2(192 x 96, cluster 1 x 2, Cooperative);
        _192x112_1x2(192 x 112, cluster 1 x 2, Cooperative);
        _192x128_1x2(192 x 128, cluster 1 x 2, Cooperative);
        _192x128_2x1(192 x 128, cluster 2 x 1, Cooperative);
        _192x144_1x2(192 x 144, cluster 1 x 2, Cooperative);
        _192x160_2x1(192 x 160, cluster 2 x 1, Cooperative);
        _192x176_1x2(192 x 176, cluster 1 x 2, Cooperative);
        _192x192_2x1(192 x 192, cluster 2 x 1, Cooperative);
        _64x64_1x8(64 x 64, cluster 1 x 8, Cooperative);
        _64x64_2x4(64 x 64, cluster 2 x 4, Cooperative);
        _64x64_4x2(64 x 64, cluster 4 x 2, Cooperative);
        _64x96_1x4(64 x 96, cluster 1 x 4, Cooperative);
        _64x128_1x4(64 x 128, cluster 1 x 4, Cooperative);
        _64x80_1x4(64 x 80, cluster 1 x 4, Cooperative);
        _64x112_1x4(64 x 112, cluster 1 x 4, Cooperative);
        _64x96_1x2(64 x 96, cluster 1 x 2, Cooperative);
        _64x112_1x2(64 x 112, cluster 1 x 2, Cooperative);
        _64x96_2x2(64 x 96, cluster 2 x 2, Cooperative);
        _64x160_4x1(64 x 160, cluster 4 x 1, Cooperative);
        _128x64_1x4(128 x 64, cluster 1 x 4, Cooperative);
        _128x96_1x4(128 x 96, cluster 1 x 4, Cooperative);
        _128x80_1x4(128 x 80, cluster 1 x 4, Cooperative);
        _128x128_1x4(128 x 128, cluster 1 x 4, Cooperative);
        _128x128_4x1(128 x 128, cluster 4 x 1, Cooperative);
        _128x64_2x2(128 x 64, cluster 2 x 2, Cooperative);
        _128x96_2x2(128 x 96, cluster 2 x 2, Cooperative);
        _128x80_1x2(128 x 80, cluster 1 x 2, Cooperative);
        _128x144_1x2(128 x 144, cluster 1 x 2, Cooperative);
        _128x160_1x2(128 x 160, cluster 1 x 2, Cooperative);
        _128x176_1x2(128 x 176, cluster 1 x 2, Cooperative);
        _192x64_1x4(192 x 64, cluster 1 x 4, Cooperative);
        _192x80_1x4(192 x 80, cluster 1 x 4, Cooperative);
        _192x96_1x4(192 x 96, cluster 1 x 4, Cooperative);
        _192x128_1x4(192 x 128, cluster 1 x 4, Cooperative);
        _192x96_2x1(192 x 96, cluster 2 x 1, Cooperative);
        _192x112_2x1(192 x 112, cluster 2 x 1, Cooperative);
        _192x144_2x1(192 x 144, cluster 2 x 1, Cooperative);
        _192x176_2x1(192 x 176, cluster 2 x 1, Cooperative);
        _16x128t_2x1(128 x 16, cluster 2 x 1, Cooperative, operands swapped);
        _32x128t_4x1(128 x 32, cluster 4 x 1, Cooperative, operands swapped);
        _32x128t_2x1(128 x 32, cluster 2 x 1, Cooperative, operands swapped);
        _48x128t_2x1(128 x 48, cluster 2 x 1, Cooperative, operands swapped);
        _64x64t_4x1(64 x 64, cluster 4 x 1, Cooperative, operands swapped);
        _32x64t_2x2(64 x 32, cluster 2 x 2, Cooperative, operands swapped);
        _64x64_4x1_pp(64 x 64, cluster 4 x 1, Pingpong);
        _64x96_4x1_pp(64 x 96, cluster 4 x 1, Pingpong);
        _128x96_4x1_pp(128 x 96, cluster 4 x 1, Pingpong);
        _64x64_1x4_pp(64 x 64, cluster 1 x 4, Pingpong);
        _64x128_1x4_pp(64 x 128, cluster 1 x 4, Pingpong);
        _128x160_1x2_pp(128 x 160, cluster 1 x 2, Pingpong);
        _64x128_2x1_pp(64 x 128, cluster 2 x 1, Pingpong);
        _48x64t_1x1(64 x 48, cluster 1 x 1, Cooperative, operands swapped);
        _16x128t_1x1(128 x 16, cluster 1 x 1, Cooperative, operands swapped);
        _32x128t_1x1(128 x 32, cluster 1 x 1, Cooperative, operands swapped);
        _48x128t_1x1(128 x 48, cluster 1 x 1, Cooperative, operands swapped);
        _64x128t_1x1(128 x 64, cluster 1 x 1, Cooperative, operands swapped);
        _32x64t_4x1(64 x 32, cluster 4 x 1, Cooperative, operands swapped);
        _32x64t_2x1(64 x 32, cluster 2 x 1, Cooperative, operands swapped);
    }
    // For a D of few rows: the tile has 16, 32 or 48 columns, which are D's rows. The names have D's tile. Those with `_x2`
    // leave room on the SM for a CTA of the dependent grid.
    [bf16 => bf16 "gemm-bf16", f16 => f16 "gemm-f16"] {
        _16x64t_1x1(64 x 16, cluster 1 x 1, Cooperative, operands swapped);
        _32x64t_1x1(64 x 32, cluster 1 x 1, Cooperative, operands swapped);
        _32x64t_4x1(64 x 32, cluster 4 x 1, Cooperative, operands swapped);
        _48x64t_1x1(64 x 48, cluster 1 x 1, Cooperative, operands swapped);
        _16x128t_1x1(128 x 16, cluster 1 x 1, Cooperative, operands swapped);
        _16x64t_1x1_x2(64 x 16, cluster 1 x 1, Cooperative, per_sm 2, operands swapped);
        _32x64t_1x1_x2(64 x 32, cluster 1 x 1, Cooperative, per_sm 2, operands swapped);
    }
}

/// The features of the combinations of types: operands, result, the feature, and whether it is on.
#[cfg(not(target_arch = "nvptx64"))]
pub const FEATURES: [(Dtype, Dtype, &str, bool); 6] = [
    (Dtype::Bf16, Dtype::Bf16, "gemm-bf16", cfg!(feature = "gemm-bf16")),
    (Dtype::F16, Dtype::F16, "gemm-f16", cfg!(feature = "gemm-f16")),
    (Dtype::Bf16, Dtype::F32, "gemm-bf16-f32", cfg!(feature = "gemm-bf16-f32")),
    (Dtype::F16, Dtype::F32, "gemm-f16-f32", cfg!(feature = "gemm-f16-f32")),
    (Dtype::Bf16, Dtype::F16, "gemm-mixed", cfg!(feature = "gemm-mixed")),
    (Dtype::F16, Dtype::Bf16, "gemm-mixed", cfg!(feature = "gemm-mixed")),
];

#[cfg(test)]
mod tests {
    use super::{FEATURES, INSTANCES};
    use pipeline::cta::SMEM_LIMIT;

    /// Each combination has kernels if, and only if, its feature is on; `cargo test --workspace` has all of them.
    #[test]
    fn features_are_what_the_table_has() {
        let of = |ab, out| INSTANCES.iter().any(|i| (i.ab, i.out) == (ab, out));
        for (ab, out, feature, on) in FEATURES {
            assert_eq!(of(ab, out), on, "{feature}");
        }
        let known =
            |i: &super::super::Instance| FEATURES.iter().any(|f| (f.0, f.1) == (i.ab, i.out));
        assert!(INSTANCES.iter().all(known), "every kernel has a feature");
    }

    /// A row without `stages` has as many stages as fit into an SM, or into half of an SM for `_x2`.
    #[test]
    fn one_more_stage_would_not_fit() {
        for instance in INSTANCES.iter() {
            let meta = &instance.desc.meta;
            let per_sm = if meta.name().ends_with("_x2") { 2 } else { 1 };
            let limit = (SMEM_LIMIT as u32 + 1024) / per_sm - 1024;
            let one_more = meta.smem_bytes + instance.stage_bytes() + 16;
            assert!(meta.smem_bytes <= limit, "{}: {} bytes", meta.name(), meta.smem_bytes);
            assert!(one_more > limit, "{}: {one_more} bytes of {limit} would fit", meta.name());
        }
    }
}
