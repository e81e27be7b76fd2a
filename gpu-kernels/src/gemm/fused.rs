//! The compiled kernels with the epilogues of a linear layer: bias, activation, residual and gates; and scales, bias and
//! activation for operands of e4m3.
//!
//! The activation is an argument ([`EltAct`]), and so is whether there is a bias: one kernel
//! serves them all, and the image stays small. For an epilogue of one's own there is
//! [`gemm_kernels!`](crate::gemm_kernels!).
#![forbid(unsafe_code)]
// Without the feature the tables are empty.
#![cfg_attr(any(not(feature = "gemm-fused"), feature = "trace"), allow(unused_imports))]

use super::epilogue::Scaled;
#[cfg(not(target_arch = "nvptx64"))]
use super::fusion::BiasElement;
use super::fusion::{EltAct, LinCombPerColBiasEltAct, LinCombPerColBiasGated, PerColBias, Then};
#[cfg(not(target_arch = "nvptx64"))]
use super::instance::Instances;
use half::{bf16, f16};

/// Compiles the kernels of one type, and lists them. Their names begin with `gemm_fused_` or `gemm_gated_` and the type.
macro_rules! fused {
    ($t:ident, $fused:ident {$($name:ident($($row:tt)*);)*} $gated:ident {$($gated_name:ident($($gated_row:tt)*);)*}) => {
        pastey::paste! {
            crate::gemm_kernels! {
                #[doc = concat!("The kernels of ", stringify!($t), " with bias, activation and residual.")]
                pub(crate) static $fused: LinCombPerColBiasEltAct<'static, $t>;
                $(#[cfg(feature = "gemm-fused")] [<gemm_fused_ $t $name>]: $t => $t, $($row)*;)*
            }
            crate::gemm_kernels! {
                #[doc = concat!("The kernels of ", stringify!($t), " with bias and gates: SwiGLU, GeGLU.")]
                pub(crate) static $gated: LinCombPerColBiasGated<'static, $t>;
                $(#[cfg(feature = "gemm-fused")] [<gemm_gated_ $t $gated_name>]: $t => $t, $($gated_row)*;)*
            }
        }

        #[cfg(not(target_arch = "nvptx64"))]
        impl FusedElement for $t {
            fn fused() -> Instances<LinCombPerColBiasEltAct<'static, Self>> {
                $fused
            }

            fn gated() -> Instances<LinCombPerColBiasGated<'static, Self>> {
                $gated
            }
        }
    };
}

/// The types that the kernels are compiled for: operands, bias and result have one type.
#[cfg(not(target_arch = "nvptx64"))]
pub trait FusedElement: BiasElement + pipeline::tile::Element {
    /// The kernels with bias, activation and residual.
    fn fused() -> Instances<LinCombPerColBiasEltAct<'static, Self>>;
    /// The kernels with bias and gates.
    fn gated() -> Instances<LinCombPerColBiasGated<'static, Self>>;
}

// A device build that records traces has none of these.
#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
fused! {
    bf16,
    FUSED_BF16 {
        _128x256_2x1(128 x 256, cluster 2 x 1, SplitN);
        _128x192_2x1(128 x 192, cluster 2 x 1, Cooperative);
        _128x232_2x1(128 x 232, cluster 2 x 1, Cooperative);
        _160x192t_2x1(192 x 160, cluster 2 x 1, Cooperative, operands swapped);
        _128x128_1x1_pp(128 x 128, cluster 1 x 1, Pingpong);
        _128x176_2x1_pp(128 x 176, cluster 2 x 1, Pingpong);
        _168x128t_2x1_pp(128 x 168, cluster 2 x 1, Pingpong, operands swapped);
        _192x112_1x2_pp(192 x 112, cluster 1 x 2, Pingpong);
        _64x128_1x1_pp(64 x 128, cluster 1 x 1, Pingpong);
        _128x64_1x4(128 x 64, cluster 1 x 4, Cooperative);
        _64x64_1x4(64 x 64, cluster 1 x 4, Cooperative);
        _64x64_1x1(64 x 64, cluster 1 x 1, Cooperative);
        _96x64t_4x1(64 x 96, cluster 4 x 1, Cooperative, operands swapped);
        _32x64t_4x1(64 x 32, cluster 4 x 1, Cooperative, operands swapped);
        _16x64t_1x1(64 x 16, cluster 1 x 1, Cooperative, operands swapped);
        _128x192_2x1_c(128 x 192, cluster 2 x 1, Cooperative, with C);
        _128x128_1x1_pp_c(128 x 128, cluster 1 x 1, Pingpong, with C);
        _64x64_1x1_c(64 x 64, cluster 1 x 1, Cooperative, with C);
    }
    GATED_BF16 {
        _128x256_2x1(128 x 256, cluster 2 x 1, SplitN);
        _128x128_1x1_pp(128 x 128, cluster 1 x 1, Pingpong);
        _64x128_1x1(64 x 128, cluster 1 x 1, Cooperative);
    }
}

#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
fused! {
    f16,
    FUSED_F16 {
        _128x256_2x1(128 x 256, cluster 2 x 1, SplitN);
        _128x176_2x1_pp(128 x 176, cluster 2 x 1, Pingpong);
        _128x128_1x1_pp(128 x 128, cluster 1 x 1, Pingpong);
        _168x128t_2x1_pp(128 x 168, cluster 2 x 1, Pingpong, operands swapped);
        _192x112_1x2_pp(192 x 112, cluster 1 x 2, Pingpong);
        _128x64_1x4(128 x 64, cluster 1 x 4, Cooperative);
        _64x64_1x1(64 x 64, cluster 1 x 1, Cooperative);
        _32x64t_4x1(64 x 32, cluster 4 x 1, Cooperative, operands swapped);
        _16x64t_1x1(64 x 16, cluster 1 x 1, Cooperative, operands swapped);
        _128x128_1x1_pp_c(128 x 128, cluster 1 x 1, Pingpong, with C);
        _64x64_1x1_c(64 x 64, cluster 1 x 1, Cooperative, with C);
    }
    GATED_F16 {
        _128x256_2x1(128 x 256, cluster 2 x 1, SplitN);
        _128x128_1x1_pp(128 x 128, cluster 1 x 1, Pingpong);
        _64x128_1x1(64 x 128, cluster 1 x 1, Cooperative);
    }
}

#[allow(dead_code, reason = "a build without the kernels has no use for it")]
#[allow(non_camel_case_types)] // As PTX writes it, and the kernels' names.
type e4m3 = float8::F8E4M3;

/// activation(alpha · scales of A and B · A·Bᵀ + bias of the column), for operands of 8-bit floats.
///
/// (CUTLASS: `ScaledLinCombPerRowBiasEltAct`, with rows and columns exchanged; torch: `_scaled_mm` with `bias`.)
pub type ScaledPerColBiasEltAct<'a> = Then<Then<Scaled<'a>, PerColBias<'a, bf16>>, EltAct>;

#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
crate::gemm_kernels! {
    /// The kernels with operands of e4m3, their scales, bias and activation. Bias and results are bf16, and sums are promoted.
    pub static FUSED_E4M3_INSTANCES: ScaledPerColBiasEltAct<'static>;
    #[cfg(feature = "gemm-fused")]
    gemm_fused_e4m3_128x256_2x1: e4m3 => bf16, 128 x 256, cluster 2 x 1, SplitN, promoted 64;
    #[cfg(feature = "gemm-fused")]
    gemm_fused_e4m3_128x128_1x1: e4m3 => bf16, 128 x 128, cluster 1 x 1, SplitN, promoted 64;
    #[cfg(feature = "gemm-fused")]
    gemm_fused_e4m3_64x64t_1x1: e4m3 => bf16, 64 x 64, cluster 1 x 1, Cooperative, promoted 64, operands swapped;
    #[cfg(feature = "gemm-fused")]
    gemm_fused_e4m3_16x64t_1x1: e4m3 => bf16, 64 x 16, cluster 1 x 1, Cooperative, promoted 16, operands swapped;
}

#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
crate::gemm_kernels! {
    /// As [`FUSED_E4M3_INSTANCES`], with fast accumulation.
    pub static FUSED_E4M3_FAST_INSTANCES: ScaledPerColBiasEltAct<'static>;
    #[cfg(feature = "gemm-fused")]
    gemm_fused_e4m3_128x256_2x1_fast: e4m3 => bf16, 128 x 256, cluster 2 x 1, SplitN;
    #[cfg(feature = "gemm-fused")]
    gemm_fused_e4m3_128x128_1x1_fast: e4m3 => bf16, 128 x 128, cluster 1 x 1, Cooperative;
    #[cfg(feature = "gemm-fused")]
    gemm_fused_e4m3_64x64t_1x1_fast: e4m3 => bf16, 64 x 64, cluster 1 x 1, Cooperative, operands swapped;
    #[cfg(feature = "gemm-fused")]
    gemm_fused_e4m3_16x64t_1x1_fast: e4m3 => bf16, 64 x 16, cluster 1 x 1, Cooperative, operands swapped;
}

/// The rows of all tables of this module.
#[cfg(not(target_arch = "nvptx64"))]
pub(super) fn tables() -> [&'static [super::Instance]; 6] {
    let e4m3 = [FUSED_E4M3_INSTANCES.rows, FUSED_E4M3_FAST_INSTANCES.rows];
    [FUSED_BF16.rows, GATED_BF16.rows, FUSED_F16.rows, GATED_F16.rows, e4m3[0], e4m3[1]]
}
