//! The table of compiled GEMM kernels: each configuration with several combinations of types. Each combination is
//! compiled with a feature of its own.
#![forbid(unsafe_code)]
// Without a feature the table is empty, and that of a traced device build has only bf16.
#![cfg_attr(any(not(feature = "entry-points"), feature = "trace", test), allow(unused_imports))]

use super::{Linear, Scaled};
#[cfg(not(target_arch = "nvptx64"))]
use super::{e5m2, fused, grouped, integer, layouts, quantised};
use half::{bf16, f16};
#[cfg(not(target_arch = "nvptx64"))]
use isa::kernel::Dtype;

#[allow(dead_code, reason = "a build without the kernels for 8 bits has no use for it")]
#[allow(non_camel_case_types)] // As PTX writes it, and the kernels' names.
type e4m3 = float8::F8E4M3;
#[allow(dead_code, reason = "a build without the kernels for tf32 has no use for it")]
#[allow(non_camel_case_types)]
type tf32 = isa::Tf32;

/// Crosses lists of types with lists of configurations. A kernel is named after both: `gemm_bf16_f32` and
/// `_128x256_2x1`. Behind each pair of types stands its feature. This crate's unit tests run no kernel, and compile none of these.
macro_rules! product {
    // All lists are crossed: paste the names together, and compile the kernels.
    (@cross {$($table:tt)*} [$($rows:tt)*]) => {
        pastey::paste! {
            crate::gemm_kernels! {
                $($table)*
                $($rows)*
            }
        }
    };
    // All types of the first list are done: go on with the next list.
    (@cross $table:tt [$($rows:tt)*] [] {$($configurations:tt)*} $($more:tt)*) => {
        product! { @cross $table [$($rows)*] $($more)* }
    };
    // Crosses the first pair of types of a list with each of the list's configurations.
    (@cross $table:tt [$($rows:tt)*] [$t:ident => $o:ident $feature:tt $(, $($types:tt)*)?] {$($name:ident($($row:tt)*);)*} $($more:tt)*) => {
        product! {
            @cross $table [$($rows)* $(#[cfg(all(feature = $feature, not(test)))] [<gemm_ $t _ $o $name>]: $t => $o, $($row)*;)*]
            [$($($types)*)?] {$($name($($row)*);)*} $($more)*
        }
    };
    ($(#[$doc:meta])* pub static $table:ident: $epilogue:ty; $($types:tt $configurations:tt)*) => {
        product! {
            @cross {$(#[$doc])* pub static $table: $epilogue;} [] $($types $configurations)*
        }
    };
}

// A device build that records traces has only these two kernels: one for each kind of main loop that the model's traces
// show.
#[cfg(all(feature = "trace", target_arch = "nvptx64"))]
product! {
    /// The kernels that record traces.
    pub static INSTANCES: Linear;
    [bf16 => bf16 "gemm-bf16"] {
        _128x256_2x1(128 x 256, cluster 2 x 1, SplitN);
        _128x128_1x1_pp(128 x 128, cluster 1 x 1, Pingpong);
    }
}

#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
product! {
    /// Every GEMM kernel of this crate for 16-bit operands.
    pub static INSTANCES: Linear;
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
    // These tiles suit some shapes better (docs/picker.md).
    [bf16 => bf16 "gemm-bf16", f16 => f16 "gemm-f16"] {
        _128x112_2x1(128 x 112, cluster 2 x 1, Cooperative);
        _128x64_1x4(128 x 64, cluster 1 x 4, Cooperative);
        _128x80_1x4(128 x 80, cluster 1 x 4, Cooperative);
        _64x96_1x4(64 x 96, cluster 1 x 4, Cooperative);
        _64x64_2x2(64 x 64, cluster 2 x 2, Cooperative);
        _128x208_2x1(128 x 208, cluster 2 x 1, Cooperative);
        _128x160_2x1(128 x 160, cluster 2 x 1, Cooperative);
        _192x128_1x2(192 x 128, cluster 1 x 2, Cooperative);
        _64x96_4x1(64 x 96, cluster 4 x 1, Cooperative);
        _64x64_1x4(64 x 64, cluster 1 x 4, Cooperative);
        _128x176_2x1_pp(128 x 176, cluster 2 x 1, Pingpong);
        _64x128_1x1_pp(64 x 128, cluster 1 x 1, Pingpong);
        _128x160_4x2(128 x 160, cluster 4 x 2, Cooperative);
        _128x144_4x1(128 x 144, cluster 4 x 1, Cooperative);
        _128x128_4x2(128 x 128, cluster 4 x 2, Cooperative);
        _128x112_4x2(128 x 112, cluster 4 x 2, Cooperative);
        _64x192_4x1_pp(64 x 192, cluster 4 x 1, Pingpong);
        _64x160_4x1(64 x 160, cluster 4 x 1, Cooperative);
        _64x144_1x4(64 x 144, cluster 1 x 4, Cooperative);
        _64x112_2x4(64 x 112, cluster 2 x 4, Cooperative);
        _64x96_4x2(64 x 96, cluster 4 x 2, Cooperative);
        _64x80_4x2(64 x 80, cluster 4 x 2, Cooperative);
        _64x112_4x2(64 x 112, cluster 4 x 2, Cooperative);
        _192x80_1x2(192 x 80, cluster 1 x 2, Cooperative);
        _192x176_1x2_s1(192 x 176, cluster 1 x 2, Cooperative, stores 1);
        _192x160_1x2(192 x 160, cluster 1 x 2, Cooperative);
        _128x224_2x1(128 x 224, cluster 2 x 1, Cooperative);
        _128x240_2x1(128 x 240, cluster 2 x 1, Cooperative);
        _128x128_1x2_pp(128 x 128, cluster 1 x 2, Pingpong);
        _128x144_2x1_pp(128 x 144, cluster 2 x 1, Pingpong);
        _128x272_2x1_n(128 x 272, cluster 2 x 1, CooperativeByColumns, stores 1);
        _192x192_1x2_s1(192 x 192, cluster 1 x 2, Cooperative, stores 1);
        _192x208_2x1_n(192 x 208, cluster 2 x 1, CooperativeByColumns, stores 1);
        _128x176_4x1_pp(128 x 176, cluster 4 x 1, Pingpong);
        _128x200_2x1(128 x 200, cluster 2 x 1, Cooperative);
        _128x120_2x1(128 x 120, cluster 2 x 1, Cooperative);
        _128x144_2x1(128 x 144, cluster 2 x 1, Cooperative);
        _256x128_2x1(256 x 128, cluster 2 x 1, CooperativeTall);
        _256x144_1x2_s1(256 x 144, cluster 1 x 2, CooperativeTall, stores 1);
        _128x96_1x1(128 x 96, cluster 1 x 1, Cooperative);
        _128x96_1x2(128 x 96, cluster 1 x 2, Cooperative);
        _128x96_1x4(128 x 96, cluster 1 x 4, Cooperative);
        _128x208_1x2(128 x 208, cluster 1 x 2, Cooperative);
        _128x112_1x2(128 x 112, cluster 1 x 2, Cooperative);
        _128x168_1x2(128 x 168, cluster 1 x 2, Cooperative);
        _128x80_1x2(128 x 80, cluster 1 x 2, Cooperative);
        _64x112_4x1(64 x 112, cluster 4 x 1, Cooperative);
        _64x128_2x1(64 x 128, cluster 2 x 1, Cooperative);
        _192x88_1x2(192 x 88, cluster 1 x 2, Cooperative);
        _128x216_2x1(128 x 216, cluster 2 x 1, Cooperative);
        _192x144_1x2(192 x 144, cluster 1 x 2, Cooperative);
        _192x192_2x1_s1(192 x 192, cluster 2 x 1, Cooperative, stores 1);
        _64x96_2x4(64 x 96, cluster 2 x 4, Cooperative);
        _128x88_1x2(128 x 88, cluster 1 x 2, Cooperative);
        _192x112_1x2_pp(192 x 112, cluster 1 x 2, Pingpong);
        _192x112_1x4_pp(192 x 112, cluster 1 x 4, Pingpong);
        _64x120_4x1(64 x 120, cluster 4 x 1, Cooperative);
        _192x104_4x2_pp(192 x 104, cluster 4 x 2, Pingpong);
        _128x152_1x2_pp(128 x 152, cluster 1 x 2, Pingpong);
        _192x80_1x2_pp(192 x 80, cluster 1 x 2, Pingpong);
        _64x136_4x2(64 x 136, cluster 4 x 2, Cooperative);
        _256x160_1x2_s1(256 x 160, cluster 1 x 2, CooperativeTall, stores 1);
        _256x144_2x1_s1(256 x 144, cluster 2 x 1, CooperativeTall, stores 1);
        _128x80_4x2(128 x 80, cluster 4 x 2, Cooperative);
        _192x96_1x2_pp(192 x 96, cluster 1 x 2, Pingpong);
        _192x104_1x2_pp(192 x 104, cluster 1 x 2, Pingpong);
        _128x88_4x2(128 x 88, cluster 4 x 2, Cooperative);
        _128x232_2x1(128 x 232, cluster 2 x 1, Cooperative);
        _128x152_2x1_pp(128 x 152, cluster 2 x 1, Pingpong);
    }
    // f32 in memory: TMA rounds to tf32 when it loads.
    [tf32 => f32 "gemm-tf32"] {
        _128x256_2x1(128 x 256, cluster 2 x 1, SplitN);
        _128x128_1x1(128 x 128, cluster 1 x 1, Cooperative);
        _64x64_1x1(64 x 64, cluster 1 x 1, Cooperative);
    }
    // For a D of few rows: the tile has 16, 32 or 48 columns, which are D's rows. The names have D's tile. Those with
    // `_x2` leave room on the SM for a CTA of the dependent grid.
    [bf16 => bf16 "gemm-bf16", f16 => f16 "gemm-f16"] {
        _16x64t_1x1(64 x 16, cluster 1 x 1, Cooperative, operands swapped);
        _32x64t_1x1(64 x 32, cluster 1 x 1, Cooperative, operands swapped);
        _32x64t_4x1(64 x 32, cluster 4 x 1, Cooperative, operands swapped);
        _48x64t_4x1(64 x 48, cluster 4 x 1, Cooperative, operands swapped);
        _48x128t_2x1(128 x 48, cluster 2 x 1, Cooperative, operands swapped);
        _16x64t_1x1_x2(64 x 16, cluster 1 x 1, Cooperative, per_sm 2, operands swapped);
        _16x128t_2x1(128 x 16, cluster 2 x 1, Cooperative, operands swapped);
        _32x192t_2x1(192 x 32, cluster 2 x 1, Cooperative, operands swapped);
        _16x64t_4x1(64 x 16, cluster 4 x 1, Cooperative, operands swapped);
        _16x128t_4x1(128 x 16, cluster 4 x 1, Cooperative, operands swapped);
    }
    // For a D whose rows fit no multiple of 64: 129 rows are two tiles of 80.
    [bf16 => bf16 "gemm-bf16", f16 => f16 "gemm-f16"] {
        _96x64t_4x1(64 x 96, cluster 4 x 1, Cooperative, operands swapped);
        _144x192t_1x2(192 x 144, cluster 1 x 2, Cooperative, operands swapped);
        _160x128t_2x1_pp(128 x 160, cluster 2 x 1, Pingpong, operands swapped);
        _176x128t_2x1_pp(128 x 176, cluster 2 x 1, Pingpong, operands swapped);
        _96x192t_1x2_pp(192 x 96, cluster 1 x 2, Pingpong, operands swapped);
        _144x128t_4x1_pp(128 x 144, cluster 4 x 1, Pingpong, operands swapped);
        _192x64t_4x1_pp(64 x 192, cluster 4 x 1, Pingpong, operands swapped);
        _176x128t_4x1_pp(128 x 176, cluster 4 x 1, Pingpong, operands swapped);
        _112x128t_4x1(128 x 112, cluster 4 x 1, Cooperative, operands swapped);
        _96x128t_4x1(128 x 96, cluster 4 x 1, Cooperative, operands swapped);
        _224x128t_2x1(128 x 224, cluster 2 x 1, Cooperative, operands swapped);
        _208x128t_2x1(128 x 208, cluster 2 x 1, Cooperative, operands swapped);
        _240x128t_2x1(128 x 240, cluster 2 x 1, Cooperative, operands swapped);
        _144x128t_4x2(128 x 144, cluster 4 x 2, Cooperative, operands swapped);
        _176x128t_1x2(128 x 176, cluster 1 x 2, Cooperative, operands swapped);
        _80x64t_4x2(64 x 80, cluster 4 x 2, Cooperative, operands swapped);
        _96x64t_4x2(64 x 96, cluster 4 x 2, Cooperative, operands swapped);
        _144x64t_4x1(64 x 144, cluster 4 x 1, Cooperative, operands swapped);
        _160x64t_4x1(64 x 160, cluster 4 x 1, Cooperative, operands swapped);
        _160x192t_2x1(192 x 160, cluster 2 x 1, Cooperative, operands swapped);
        _112x128t_1x2_pp(128 x 112, cluster 1 x 2, Pingpong, operands swapped);
        _112x192t_1x2_pp(192 x 112, cluster 1 x 2, Pingpong, operands swapped);
        _104x128t_2x2(128 x 104, cluster 2 x 2, Cooperative, operands swapped);
        _104x192t_1x2_pp(192 x 104, cluster 1 x 2, Pingpong, operands swapped);
        _120x64t_4x2(64 x 120, cluster 4 x 2, Cooperative, operands swapped);
        _168x128t_4x1_pp(128 x 168, cluster 4 x 1, Pingpong, operands swapped);
        _176x192t_2x1_s1(192 x 176, cluster 2 x 1, Cooperative, stores 1, operands swapped);
        _208x192t_2x1_n(192 x 208, cluster 2 x 1, CooperativeByColumns, stores 1, operands swapped);
        _272x128t_2x1_n(128 x 272, cluster 2 x 1, CooperativeByColumns, stores 1, operands swapped);
        _72x64t_4x1(64 x 72, cluster 4 x 1, Cooperative, operands swapped);
        _136x128t_2x1(128 x 136, cluster 2 x 1, Cooperative, operands swapped);
        _152x128t_2x1(128 x 152, cluster 2 x 1, Cooperative, operands swapped);
        _184x128t_2x1(128 x 184, cluster 2 x 1, Cooperative, operands swapped);
        _168x64t_2x1(64 x 168, cluster 2 x 1, Cooperative, operands swapped);
        _160x64t_2x4(64 x 160, cluster 2 x 4, Cooperative, operands swapped);
        _80x64t_4x1(64 x 80, cluster 4 x 1, Cooperative, operands swapped);
        _248x128t_1x2(128 x 248, cluster 1 x 2, Cooperative, operands swapped);
        _88x128t_2x1(128 x 88, cluster 2 x 1, Cooperative, operands swapped);
        _184x128t_1x2(128 x 184, cluster 1 x 2, Cooperative, operands swapped);
        _208x128t_1x2(128 x 208, cluster 1 x 2, Cooperative, operands swapped);
        _96x128t_2x1(128 x 96, cluster 2 x 1, Cooperative, operands swapped);
        _112x128t_4x2(128 x 112, cluster 4 x 2, Cooperative, operands swapped);
        _168x128t_1x2(128 x 168, cluster 1 x 2, Cooperative, operands swapped);
        _144x192t_2x1(192 x 144, cluster 2 x 1, Cooperative, operands swapped);
        _200x128t_1x2(128 x 200, cluster 1 x 2, Cooperative, operands swapped);
        _144x256t_2x1_s1(256 x 144, cluster 2 x 1, CooperativeTall, stores 1, operands swapped);
        _136x64t_4x1(64 x 136, cluster 4 x 1, Cooperative, operands swapped);
        _120x128t_1x2(128 x 120, cluster 1 x 2, Cooperative, operands swapped);
        _200x128t_2x1(128 x 200, cluster 2 x 1, Cooperative, operands swapped);
        _288x128t_2x1_n(128 x 288, cluster 2 x 1, CooperativeByColumns, stores 1, operands swapped);
        _152x128t_1x4(128 x 152, cluster 1 x 4, Cooperative, operands swapped);
        _88x64t_2x4(64 x 88, cluster 2 x 4, Cooperative, operands swapped);
        _72x64t_2x1(64 x 72, cluster 2 x 1, Cooperative, operands swapped);
        _136x128t_1x2(128 x 136, cluster 1 x 2, Cooperative, operands swapped);
        _160x192t_1x2_n(192 x 160, cluster 1 x 2, CooperativeByColumns, stores 1, operands swapped);
        _120x128t_4x1_pp(128 x 120, cluster 4 x 1, Pingpong, operands swapped);
        _72x64t_1x4(64 x 72, cluster 1 x 4, Cooperative, operands swapped);
        _168x64t_1x2(64 x 168, cluster 1 x 2, Cooperative, operands swapped);
        _168x128t_2x1_pp(128 x 168, cluster 2 x 1, Pingpong, operands swapped);
        _200x128t_4x1(128 x 200, cluster 4 x 1, Cooperative, operands swapped);
        _248x128t_2x1(128 x 248, cluster 2 x 1, Cooperative, operands swapped);
        _128x192t_1x2_n(192 x 128, cluster 1 x 2, CooperativeByColumns, stores 1, operands swapped);
        _104x128t_2x1_pp(128 x 104, cluster 2 x 1, Pingpong, operands swapped);
        _216x128t_2x1(128 x 216, cluster 2 x 1, Cooperative, operands swapped);
        _104x128t_4x1_pp(128 x 104, cluster 4 x 1, Pingpong, operands swapped);
        _176x128t_1x1_pp(128 x 176, cluster 1 x 1, Pingpong, operands swapped);
        _232x128t_1x2(128 x 232, cluster 1 x 2, Cooperative, operands swapped);
        _112x192t_2x1_pp(192 x 112, cluster 2 x 1, Pingpong, operands swapped);
        _144x128t_2x1_pp(128 x 144, cluster 2 x 1, Pingpong, operands swapped);
        _160x256t_2x1_s1(256 x 160, cluster 2 x 1, CooperativeTall, stores 1, operands swapped);
        _64x192t_2x1_pp(192 x 64, cluster 2 x 1, Pingpong, operands swapped);
        _136x256t_2x1_s1(256 x 136, cluster 2 x 1, CooperativeTall, stores 1, operands swapped);
        _176x192t_1x2_n(192 x 176, cluster 1 x 2, CooperativeByColumns, stores 1, operands swapped);
        _88x64t_4x1(64 x 88, cluster 4 x 1, Cooperative, operands swapped);
    }
}

#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
product! {
    /// Every GEMM kernel of this crate for quantised operands, with their scales. Sums are promoted.
    pub static SCALED_INSTANCES: Scaled<'static>;
    [e4m3 => bf16 "gemm-e4m3", e4m3 => f16 "gemm-e4m3", e4m3 => f32 "gemm-e4m3"] {
        _128x256_2x1(128 x 256, cluster 2 x 1, SplitN, promoted 64);
        _128x128_1x1(128 x 128, cluster 1 x 1, SplitN, promoted 64);
    }
    [e4m3 => bf16 "gemm-e4m3", e4m3 => f16 "gemm-e4m3"] {
        _64x64t_1x1(64 x 64, cluster 1 x 1, Cooperative, promoted 64, operands swapped);
        _16x64t_1x1(64 x 16, cluster 1 x 1, Cooperative, promoted 16, operands swapped);
    }
    // For D of 32 to 256 rows, and for those whose columns tiles of 256 don't fit.
    [e4m3 => bf16 "gemm-e4m3"] {
        _32x64t_1x1(64 x 32, cluster 1 x 1, Cooperative, promoted 32, operands swapped);
        _128x64_1x2(128 x 64, cluster 1 x 2, Cooperative, promoted 64);
        _128x64_2x1(128 x 64, cluster 2 x 1, Cooperative, promoted 64);
        _128x128_2x1(128 x 128, cluster 2 x 1, SplitN, promoted 64);
        _128x192_2x1(128 x 192, cluster 2 x 1, SplitN, promoted 96);
        _128x112_2x1(128 x 112, cluster 2 x 1, Cooperative, promoted 112);
        _64x112_2x1(64 x 112, cluster 2 x 1, Cooperative, promoted 112);
        _16x64t_1x1_x2(64 x 16, cluster 1 x 1, Cooperative, promoted 16, per_sm 2, operands swapped);
        _128x112_1x2(128 x 112, cluster 1 x 2, Cooperative, promoted 112);
        _32x64t_4x1(64 x 32, cluster 4 x 1, Cooperative, promoted 32, operands swapped);
        _16x64t_2x1(64 x 16, cluster 2 x 1, Cooperative, promoted 16, operands swapped);
        _128x112_2x2(128 x 112, cluster 2 x 2, Cooperative, promoted 112);
        _64x64t_4x1(64 x 64, cluster 4 x 1, Cooperative, promoted 64, operands swapped);
        _128x144_4x1(128 x 144, cluster 4 x 1, Cooperative, promoted 144);
    }
}

#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
product! {
    /// As [`SCALED_INSTANCES`], with fast accumulation: the tensor cores keep the sums, which are short.
    pub static FAST_ACCUM_INSTANCES: Scaled<'static>;
    [e4m3 => bf16 "gemm-e4m3", e4m3 => f16 "gemm-e4m3", e4m3 => f32 "gemm-e4m3"] {
        _128x256_2x1_fast(128 x 256, cluster 2 x 1, SplitN);
        _128x128_1x1_fast(128 x 128, cluster 1 x 1, Cooperative);
    }
    [e4m3 => bf16 "gemm-e4m3", e4m3 => f16 "gemm-e4m3"] {
        _64x64t_1x1_fast(64 x 64, cluster 1 x 1, Cooperative, operands swapped);
        _16x64t_1x1_fast(64 x 16, cluster 1 x 1, Cooperative, operands swapped);
    }
    [e4m3 => bf16 "gemm-e4m3"] {
        _32x64t_1x1_fast(64 x 32, cluster 1 x 1, Cooperative, operands swapped);
        _128x64_1x2_fast(128 x 64, cluster 1 x 2, Cooperative);
        _128x64_2x1_fast(128 x 64, cluster 2 x 1, Cooperative);
        _128x128_2x1_fast(128 x 128, cluster 2 x 1, Cooperative);
        _128x176_2x1_fast(128 x 176, cluster 2 x 1, Cooperative);
        _128x224_2x1_fast(128 x 224, cluster 2 x 1, Cooperative);
        _128x112_2x1_fast(128 x 112, cluster 2 x 1, Cooperative);
        _64x112_2x1_fast(64 x 112, cluster 2 x 1, Cooperative);
        _16x64t_1x1_x2_fast(64 x 16, cluster 1 x 1, Cooperative, per_sm 2, operands swapped);
        _128x144_4x1_fast(128 x 144, cluster 4 x 1, Cooperative);
        _16x64t_2x1_fast(64 x 16, cluster 2 x 1, Cooperative, operands swapped);
        _32x64t_4x1_fast(64 x 32, cluster 4 x 1, Cooperative, operands swapped);
        _64x64t_4x1_fast(64 x 64, cluster 4 x 1, Cooperative, operands swapped);
    }
}

#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
product! {
    /// Every GEMM kernel of this crate for operands with block scales: the main loop applies them, and sums are promoted.
    pub static BLOCK_SCALED_INSTANCES: Linear;
    // An f32 D of 256 columns needs more registers than there are.
    [e4m3 => bf16 "gemm-e4m3", e4m3 => f16 "gemm-e4m3"] {
        _128x256_2x1_block(128 x 256, cluster 2 x 1, SplitN, promoted 64, block scaled);
        _128x128_2x1_block(128 x 128, cluster 2 x 1, Cooperative, promoted 128, block scaled);
        _16x64t_1x1_block(64 x 16, cluster 1 x 1, Cooperative, promoted 16, block scaled, operands swapped);
        _64x64t_1x1_block(64 x 64, cluster 1 x 1, Cooperative, promoted 64, block scaled, operands swapped);
    }
    [e4m3 => bf16 "gemm-e4m3", e4m3 => f16 "gemm-e4m3", e4m3 => f32 "gemm-e4m3"] {
        _128x128_1x1_block(128 x 128, cluster 1 x 1, Cooperative, promoted 128, block scaled);
        _64x128_1x1_block(64 x 128, cluster 1 x 1, Cooperative, promoted 128, block scaled);
    }
    // For D of up to 256 rows, and for those whose columns tiles of 256 don't fit.
    [e4m3 => bf16 "gemm-e4m3"] {
        _32x64t_1x1_block(64 x 32, cluster 1 x 1, Cooperative, promoted 32, block scaled, operands swapped);
        _16x64t_2x1_block(64 x 16, cluster 2 x 1, Cooperative, promoted 16, block scaled, operands swapped);
        _32x64t_4x1_block(64 x 32, cluster 4 x 1, Cooperative, promoted 32, block scaled, operands swapped);
        _128x192_2x1_block(128 x 192, cluster 2 x 1, SplitN, promoted 96, block scaled);
    }
}

/// The rows of all tables: every GEMM kernel of this crate.
#[cfg(not(target_arch = "nvptx64"))]
pub fn all_instances() -> impl Iterator<Item = &'static super::Instance> {
    let tables = [
        INSTANCES.rows,
        SCALED_INSTANCES.rows,
        FAST_ACCUM_INSTANCES.rows,
        BLOCK_SCALED_INSTANCES.rows,
        layouts::LAYOUT_INSTANCES.rows,
        quantised::E4M3_INSTANCES.rows,
        quantised::E4M3_FAST_INSTANCES.rows,
        quantised::SCALED_C_INSTANCES.rows,
        integer::INT8_INSTANCES.rows,
        integer::INT8_SCALED_INSTANCES.rows,
    ];
    let tables = tables.into_iter().chain(e5m2::tables());
    let tables = tables.chain(fused::tables()).chain([grouped::GROUPED_INSTANCES]).flatten();
    tables.chain(grouped::ARRAY_INSTANCES.iter().map(|of| &of.gemm))
}

/// The features of the combinations of types: operands, result, the feature, and whether it is on.
#[cfg(not(target_arch = "nvptx64"))]
pub const FEATURES: [(Dtype, Dtype, &str, bool); 14] = [
    (Dtype::Bf16, Dtype::Bf16, "gemm-bf16", cfg!(feature = "gemm-bf16")),
    (Dtype::F16, Dtype::F16, "gemm-f16", cfg!(feature = "gemm-f16")),
    (Dtype::Bf16, Dtype::F32, "gemm-bf16-f32", cfg!(feature = "gemm-bf16-f32")),
    (Dtype::F16, Dtype::F32, "gemm-f16-f32", cfg!(feature = "gemm-f16-f32")),
    (Dtype::Bf16, Dtype::F16, "gemm-mixed", cfg!(feature = "gemm-mixed")),
    (Dtype::F16, Dtype::Bf16, "gemm-mixed", cfg!(feature = "gemm-mixed")),
    (Dtype::E4m3, Dtype::Bf16, "gemm-e4m3", cfg!(feature = "gemm-e4m3")),
    (Dtype::E4m3, Dtype::F16, "gemm-e4m3", cfg!(feature = "gemm-e4m3")),
    (Dtype::E4m3, Dtype::F32, "gemm-e4m3", cfg!(feature = "gemm-e4m3")),
    (Dtype::E4m3, Dtype::E4m3, "gemm-e4m3-e4m3", cfg!(feature = "gemm-e4m3-e4m3")),
    (Dtype::E5m2, Dtype::Bf16, "gemm-e5m2", cfg!(feature = "gemm-e5m2")),
    (Dtype::I8, Dtype::I32, "gemm-int8", cfg!(feature = "gemm-int8")),
    (Dtype::I8, Dtype::Bf16, "gemm-int8", cfg!(feature = "gemm-int8")),
    (Dtype::Tf32, Dtype::F32, "gemm-tf32", cfg!(feature = "gemm-tf32")),
];
