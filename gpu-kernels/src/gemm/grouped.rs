//! Grouped products: groups of rows of A, each with a B of its own, as a mixture of experts has them.
//!
//! ```text
//! A [rows, K]   B [groups, N, K]   D [rows, N]      D[i] = A[i] · B[group of row i]ᵀ
//! ```
//! The ends of the groups lie in device memory, and only the [scheduler](super::scheduler::Grouped) reads them. So the
//! host launches without waiting for them. The main loops are those of any product.
//!
//! A tile has rows of one group. What it loads behind the end of the group are rows of the next one, and
//! [`Ragged`](super::output::Ragged) does not store their products. Tiles behind the columns of D likewise read rows of B
//! of the next group, and TMA does not store them.
//!
//! (CUTLASS: `GemmUniversalMode::kGrouped`; torch: `torch._grouped_mm`; DeepGEMM: `m_grouped_gemm_*`.)
#![forbid(unsafe_code)]
// Without the feature the table is empty.
#![cfg_attr(
    any(not(feature = "gemm-grouped"), feature = "trace"),
    allow(unused_imports, unused_macros)
)]

mod array;
mod kernel;

pub use array::{
    ArrayTable, BoxOfD, MapsCta, PROBLEM_WORDS, PROBLEMS_PER_CTA, SharesA, SharesB, grouped_array,
    write_maps,
};
pub use kernel::{GroupedCta, GroupedPlan, grouped};

use super::rank::{Arrays, Rank2};
use super::{Linear, config, instances, output, scales, scheduler};
use half::bf16;
use pipeline::cta::Is;
use pipeline::prelude::*;

/// Compiles the grouped kernels, one per line, and lists them. A line has the name, the kernel's tile, the cluster, the
/// main loop and, for a D of few rows, `swapped`.
macro_rules! grouped_kernels {
    ($(#[$doc:meta])* pub static $table:ident: $t:ty; $($name:ident($bm:literal x $bn:literal, cluster $cm:literal x $cn:literal, $mainloop:ident $(, $swapped:ident)?);)*) => {
        $(
            #[cfg(feature = "gemm-grouped")]
            #[doc = concat!("The grouped GEMM kernel `", stringify!($name), "`.")]
            pub mod $name {
                use super::*;
                use crate::gemm::kernel;

                /// The kernel's configuration.
                pub enum Parts {}

                const GROUPS: usize = crate::gemm_kernels!(@groups $mainloop $bm);
                const BESIDE: usize = 0;
                const STORES: usize = output::STORE_STAGES;
                /// Stages of A and B.
                pub const STAGES: usize =
                    crate::gemm_kernels!(@stages [] [] [] BESIDE STORES $mainloop $bm $bn);
                const BK: usize = pipeline::tile::ROW_BYTES / size_of::<$t>();

                impl config::Config for Parts {
                    type A = Tile<$t, $bm, BK>;
                    type B = Tile<$t, $bn, BK>;
                    type Scales = scales::Unscaled;
                    type Cluster = Cluster<$cm, $cn>;
                    type Math = <instances::Math as instances::MathRole<GROUPS>>::Role;
                    type Operands = config::OperandRing<Self, STAGES>;
                    type Stores = config::StoresOf<Self, STORES>;
                    type Mainloop = crate::gemm_kernels!(@mainloop [] [] $mainloop $bm $bn);
                    type Output = output::Ragged<crate::gemm_kernels!(@output $t, $bn $($swapped)?)>;
                    type Epilogue = Linear;
                    type ReadsC = Is<false>;
                    type Rank = Rank2;
                    type Scheduler = scheduler::Grouped<Cluster<$cm, $cn>, { grouped_kernels!(@swap_ab $($swapped)?) }>;
                }

                #[doc = concat!("The grouped GEMM kernel `", stringify!($name), "`.")]
                #[isa::kernel(dependent = true)]
                pub fn $name(
                    cta: GroupedCta<Parts>,
                    a: &config::MapA<Parts>,
                    b: &config::MapB<Parts>,
                    d: &config::MapD<Parts>,
                    epilogue: Linear,
                    groups: config::SchedulerArgs<Parts>,
                ) {
                    grouped::<Parts, STAGES, { grouped_kernels!(@swap_ab $($swapped)?) }>(
                        cta, a, b, d, (), epilogue, groups,
                    );
                }

                /// The host's description of the kernel.
                #[cfg(not(target_arch = "nvptx64"))]
                pub const INSTANCE: crate::gemm::Instance = crate::gemm::Instance::of::<Parts>(
                    &<$name as isa::kernel::Kernel>::DESC,
                    crate::gemm::KernelSchedule::$mainloop,
                    crate::gemm_kernels!(@groups_of_a_tile $mainloop $bm),
                    STAGES,
                );
            }
        )*

        $(#[$doc])*
        #[cfg(not(target_arch = "nvptx64"))]
        pub static $table: &[crate::gemm::Instance] =
            &[$(#[cfg(feature = "gemm-grouped")] $name::INSTANCE),*];
    };
    (@swap_ab) => { false };
    (@swap_ab swapped) => { true };
}

// A device build that records traces has none of these.
#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
grouped_kernels! {
    /// Every grouped GEMM kernel of this crate, for bf16. The last two, for groups of up to 32 and 16 rows, have swapped
    /// operands.
    pub static GROUPED_INSTANCES: bf16;
    gemm_grouped_bf16_128x256_2x1(128 x 256, cluster 2 x 1, SplitN);
    gemm_grouped_bf16_128x128_1x1_pp(128 x 128, cluster 1 x 1, Pingpong);
    gemm_grouped_bf16_64x128_1x1_pp(64 x 128, cluster 1 x 1, Pingpong);
    gemm_grouped_bf16_32x64t_1x1(64 x 32, cluster 1 x 1, Cooperative, swapped);
    gemm_grouped_bf16_16x64t_1x1(64 x 16, cluster 1 x 1, Cooperative, swapped);
}

/// A kernel for pointer arrays, and the one that writes its tensor maps.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
pub struct ArrayInstance {
    /// The kernel that multiplies.
    pub gemm: crate::gemm::Instance,
    /// The kernel that runs before it: [`write_maps`].
    pub maps: &'static isa::kernel::KernelDesc,
}

/// Compiles kernels for pointer arrays, as `grouped_kernels!` does, each with the name of its [`write_maps`].
macro_rules! array_kernels {
    ($(#[$doc:meta])* pub static $table:ident: $t:ty; $($name:ident, $maps:ident($bm:literal x $bn:literal, cluster $cm:literal x $cn:literal, $mainloop:ident);)*) => {
        $(
            #[cfg(feature = "gemm-grouped")]
            #[doc = concat!("The GEMM kernel for pointer arrays `", stringify!($name), "`.")]
            pub mod $name {
                use super::*;
                use crate::gemm::kernel;
                use pipeline::cta::Unshared;
                use pipeline::tile::{TensorMaps, TensorMapsMut};

                /// The kernel's configuration.
                pub enum Parts {}

                const GROUPS: usize = crate::gemm_kernels!(@groups $mainloop $bm);
                const BESIDE: usize = 0;
                const STORES: usize = output::STORE_STAGES;
                /// Stages of A and B.
                pub const STAGES: usize =
                    crate::gemm_kernels!(@stages [] [] [] BESIDE STORES $mainloop $bm $bn);
                const BK: usize = pipeline::tile::ROW_BYTES / size_of::<$t>();
                type A = <Parts as config::Config>::A;
                type B = <Parts as config::Config>::B;
                type D = BoxOfD<Parts>;

                impl config::Config for Parts {
                    type A = Tile<$t, $bm, BK>;
                    type B = Tile<$t, $bn, BK>;
                    type Scales = scales::Unscaled;
                    type Cluster = Cluster<$cm, $cn>;
                    type Math = <instances::Math as instances::MathRole<GROUPS>>::Role;
                    type Operands = config::OperandRing<Self, STAGES>;
                    type Stores = config::StoresOf<Self, STORES>;
                    type Mainloop = crate::gemm_kernels!(@mainloop [] [] $mainloop $bm $bn);
                    type Output = crate::gemm_kernels!(@output $t, $bn);
                    type Epilogue = Linear;
                    type ReadsC = Is<false>;
                    type Rank = Arrays;
                    type Scheduler = scheduler::Array<Cluster<$cm, $cn>>;
                }

                #[doc = concat!("Writes the tensor maps of `", stringify!($name), "`.")]
                #[isa::kernel(dependent = true)]
                pub fn $maps(
                    cta: MapsCta,
                    a: &TensorMap<A, SharesA<Parts>>,
                    b: &TensorMap<B, SharesB<Parts>>,
                    d: &TensorMap<D, Unshared>,
                    maps_a: TensorMapsMut<'_, A, SharesA<Parts>>,
                    maps_b: TensorMapsMut<'_, B, SharesB<Parts>>,
                    maps_d: TensorMapsMut<'_, D, Unshared>,
                    table: ArrayTable<'_>,
                ) {
                    write_maps::<Parts>(cta, a, b, d, maps_a, maps_b, maps_d, table);
                }

                #[doc = concat!("The GEMM kernel for pointer arrays `", stringify!($name), "`.")]
                #[isa::kernel(dependent = true)]
                pub fn $name(
                    cta: GroupedCta<Parts>,
                    a: TensorMaps<'static, A, SharesA<Parts>>,
                    b: TensorMaps<'static, B, SharesB<Parts>>,
                    d: TensorMaps<'static, D, Unshared>,
                    epilogue: Linear,
                    problems: config::SchedulerArgs<Parts>,
                ) {
                    grouped_array::<Parts, STAGES>(cta, a, b, d, epilogue, problems);
                }

                /// The host's description of the kernels.
                #[cfg(not(target_arch = "nvptx64"))]
                pub const INSTANCE: ArrayInstance = ArrayInstance {
                    gemm: crate::gemm::Instance::of::<Parts>(
                        &<$name as isa::kernel::Kernel>::DESC,
                        crate::gemm::KernelSchedule::$mainloop,
                        crate::gemm_kernels!(@groups_of_a_tile $mainloop $bm),
                        STAGES,
                    ),
                    maps: &<$maps as isa::kernel::Kernel>::DESC,
                };
            }
        )*

        $(#[$doc])*
        #[cfg(not(target_arch = "nvptx64"))]
        pub static $table: &[ArrayInstance] =
            &[$(#[cfg(feature = "gemm-grouped")] $name::INSTANCE),*];
    };
}

#[cfg(not(all(feature = "trace", target_arch = "nvptx64")))]
array_kernels! {
    /// Every kernel of this crate for pointer arrays, for bf16.
    pub static ARRAY_INSTANCES: bf16;
    gemm_grouped_array_bf16_128x256_2x1, gemm_grouped_maps_bf16_128x256_2x1(128 x 256, cluster 2 x 1, SplitN);
    gemm_grouped_array_bf16_128x128_1x1_pp, gemm_grouped_maps_bf16_128x128_1x1_pp(128 x 128, cluster 1 x 1, Pingpong);
    gemm_grouped_array_bf16_64x128_1x1_pp, gemm_grouped_maps_bf16_64x128_1x1_pp(64 x 128, cluster 1 x 1, Pingpong);
}
