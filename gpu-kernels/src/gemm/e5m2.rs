//! The compiled kernels with operands of e5m2: gradients, which need more range than e4m3 has and fewer digits.
//!
//! The other operand is e4m3 or e5m2. wgmma multiplies the types in any mix, and the instruction names both, so each mix has
//! kernels of its own. (torch: `torch._scaled_mm` takes mixes too, but not e5m2 times e5m2; Transformer Engine: the `HYBRID`
//! format.)
#![forbid(unsafe_code)]
// Without the feature the tables are empty.
#![cfg_attr(any(not(feature = "gemm-e5m2"), feature = "trace"), allow(unused_imports))]

use super::Scaled;
#[cfg(not(target_arch = "nvptx64"))]
use super::instance::Instances;
use half::bf16;
#[cfg(not(target_arch = "nvptx64"))]
use isa::kernel::Dtype;

#[allow(dead_code, reason = "a build without the kernels has no use for it")]
#[allow(non_camel_case_types)] // As PTX writes it.
type e4m3 = float8::F8E4M3;
#[allow(dead_code, reason = "a build without the kernels has no use for it")]
#[allow(non_camel_case_types)]
type e5m2 = float8::F8E5M2;

/// Compiles the kernels of one mix: a table with promoted sums and one with fast accumulation.
macro_rules! mix {
    ($a:ident x $b:ident as $mix:ident, $promoted:ident, $fast:ident) => {
        pastey::paste! {
            crate::gemm_kernels! {
                #[doc = concat!("The kernels of A of ", stringify!($a), " and B of ", stringify!($b), ". Sums are promoted.")]
                pub(crate) static $promoted: Scaled<'static>;
                #[cfg(feature = "gemm-e5m2")]
                [<gemm_ $mix _bf16_128x256_2x1>]: $a => bf16, 128 x 256, cluster 2 x 1, SplitN, promoted 64, times $b;
                #[cfg(feature = "gemm-e5m2")]
                [<gemm_ $mix _bf16_128x128_2x1>]: $a => bf16, 128 x 128, cluster 2 x 1, Cooperative, promoted 128, times $b;
                #[cfg(feature = "gemm-e5m2")]
                [<gemm_ $mix _bf16_64x112_2x1>]: $a => bf16, 64 x 112, cluster 2 x 1, Cooperative, promoted 112, times $b;
                // For D of few rows. The kernel's A is the product's B.
                #[cfg(feature = "gemm-e5m2")]
                [<gemm_ $mix _bf16_64x64t_1x1>]: $b => bf16, 64 x 64, cluster 1 x 1, Cooperative, promoted 64, operands swapped,
                    times $a;
                #[cfg(feature = "gemm-e5m2")]
                [<gemm_ $mix _bf16_16x64t_1x1>]: $b => bf16, 64 x 16, cluster 1 x 1, Cooperative, promoted 16, operands swapped,
                    times $a;
            }
            crate::gemm_kernels! {
                #[doc = concat!("The kernels of A of ", stringify!($a), " and B of ", stringify!($b), ", with fast accumulation.")]
                pub(crate) static $fast: Scaled<'static>;
                #[cfg(feature = "gemm-e5m2")]
                [<gemm_ $mix _bf16_128x128_2x1_fast>]: $a => bf16, 128 x 128, cluster 2 x 1, Cooperative, times $b;
                #[cfg(feature = "gemm-e5m2")]
                [<gemm_ $mix _bf16_64x112_2x1_fast>]: $a => bf16, 64 x 112, cluster 2 x 1, Cooperative, times $b;
                #[cfg(feature = "gemm-e5m2")]
                [<gemm_ $mix _bf16_128x256_2x1_fast>]: $a => bf16, 128 x 256, cluster 2 x 1, SplitN, times $b;
                #[cfg(feature = "gemm-e5m2")]
                [<gemm_ $mix _bf16_64x64t_1x1_fast>]: $b => bf16, 64 x 64, cluster 1 x 1, Cooperative, operands swapped, times $a;
            }
        }
    };
}

// A device build that records traces has none of these.
#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
mix!(e5m2 x e4m3 as e5m2xe4m3, E5M2_E4M3, E5M2_E4M3_FAST);
#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
mix!(e4m3 x e5m2 as e4m3xe5m2, E4M3_E5M2, E4M3_E5M2_FAST);
#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
mix!(e5m2 x e5m2 as e5m2, E5M2_E5M2, E5M2_E5M2_FAST);

/// The table for A and B of these types, one of them e5m2; `None` for other types.
#[cfg(not(target_arch = "nvptx64"))]
#[must_use]
pub fn e5m2_instances(
    operands: [Dtype; 2],
    use_fast_accum: bool,
) -> Option<Instances<Scaled<'static>>> {
    let [promoted, fast] = match operands {
        [Dtype::E5m2, Dtype::E4m3] => [E5M2_E4M3, E5M2_E4M3_FAST],
        [Dtype::E4m3, Dtype::E5m2] => [E4M3_E5M2, E4M3_E5M2_FAST],
        [Dtype::E5m2, Dtype::E5m2] => [E5M2_E5M2, E5M2_E5M2_FAST],
        _ => return None,
    };
    Some(if use_fast_accum { fast } else { promoted })
}

/// The rows of all tables of this module.
#[cfg(not(target_arch = "nvptx64"))]
pub(super) fn tables() -> [&'static [super::Instance]; 6] {
    [E5M2_E4M3, E5M2_E4M3_FAST, E4M3_E5M2, E4M3_E5M2_FAST, E5M2_E5M2, E5M2_E5M2_FAST]
        .map(|table| table.rows)
}
