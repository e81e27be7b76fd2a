//! The compiled kernels with the epilogues of a linear layer: bias, activation, residual and gates.
//!
//! The activation is an argument ([`EltAct`](super::fusion::EltAct)), and so is whether there is a bias: one kernel
//! serves them all, and the image stays small. For an epilogue of one's own there is
//! [`gemm_kernels!`](crate::gemm_kernels!).
#![forbid(unsafe_code)]
// Without the feature the tables are empty.
#![cfg_attr(any(not(feature = "gemm-fused"), feature = "trace"), allow(unused_imports))]

#[cfg(not(target_arch = "nvptx64"))]
use super::fusion::BiasElement;
use super::fusion::{LinCombPerColBiasEltAct, LinCombPerColBiasGated};
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
        _128x128_1x1_pp(128 x 128, cluster 1 x 1, Pingpong);
        _128x176_2x1_pp(128 x 176, cluster 2 x 1, Pingpong);
        _128x144_2x1_pp(128 x 144, cluster 2 x 1, Pingpong);
        _64x256_2x1_pp(64 x 256, cluster 2 x 1, Pingpong);
        _64x128_1x1_pp(64 x 128, cluster 1 x 1, Pingpong);
        _64x64_1x1(64 x 64, cluster 1 x 1, Cooperative);
        _16x64t_1x1(64 x 16, cluster 1 x 1, Cooperative, operands swapped);
        _128x192_2x1_c(128 x 192, cluster 2 x 1, Cooperative, with C);
        _128x128_1x1_pp_c(128 x 128, cluster 1 x 1, Pingpong, with C);
        _64x64_1x1_c(64 x 64, cluster 1 x 1, Cooperative, with C);
    }
    GATED_BF16 {
        _128x256_2x1(128 x 256, cluster 2 x 1, SplitN);
        _128x128_1x1_pp(128 x 128, cluster 1 x 1, Pingpong);
        _128x160_2x1_pp(128 x 160, cluster 2 x 1, Pingpong);
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
        _64x64_1x1(64 x 64, cluster 1 x 1, Cooperative);
        _16x64t_1x1(64 x 16, cluster 1 x 1, Cooperative, operands swapped);
        _128x128_1x1_pp_c(128 x 128, cluster 1 x 1, Pingpong, with C);
        _64x64_1x1_c(64 x 64, cluster 1 x 1, Cooperative, with C);
    }
    GATED_F16 {
        _128x256_2x1(128 x 256, cluster 2 x 1, SplitN);
        _128x160_2x1_pp(128 x 160, cluster 2 x 1, Pingpong);
        _64x128_1x1(64 x 128, cluster 1 x 1, Cooperative);
    }
}

/// The rows of all tables of this module.
#[cfg(not(target_arch = "nvptx64"))]
pub(super) fn tables() -> [&'static [super::Instance]; 4] {
    [FUSED_BF16.rows, GATED_BF16.rows, FUSED_F16.rows, GATED_F16.rows]
}
