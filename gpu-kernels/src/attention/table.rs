//! The compiled attention kernels. They are compiled with the feature `attention`.
#![forbid(unsafe_code)]
// Without the feature the table is empty. A traced image has one GEMM kernel alone.
#![cfg_attr(
    any(not(feature = "attention"), feature = "trace"),
    allow(unused_imports, unused_macros, dead_code)
)]

use super::args::AttentionArgs;
use super::kernel::{MapK, MapO, MapQ, MapV, Plan, attention};
use super::score::{Plain, SoftCap};
use half::{bf16, f16};
use isa::kernel;
#[cfg(not(target_arch = "nvptx64"))]
use isa::kernel::{Dtype, KernelDesc};
use pipeline::cta::{Cluster, Cta};

/// One compiled attention kernel.
///
/// Its parameters are the tensor maps of Q, K, V and O, [`AttentionArgs`], and the [`SoftCap`] if it has one.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
pub struct Instance {
    /// The kernel.
    pub desc: &'static KernelDesc,
    /// Element type of Q, K, V and O.
    pub dtype: Dtype,
    /// Columns of a head, of which a problem may have fewer.
    pub head_dim: u32,
    /// Queries of a CTA's tile.
    pub bm: u32,
    /// Keys of a block.
    pub bn: u32,
    /// Blocks of keys, and of values, that are in shared memory.
    pub stages: u32,
    /// Whether it takes a bound of the keys before the diagonal.
    pub windows: bool,
    /// Whether it caps the scores.
    pub soft_cap: bool,
}

/// Roles of a CTA with two warp groups that multiply.
pub mod two {
    pipeline::roles! {
        /// Loads Q, K and V.
        Load = 1 x 24 registers,
        /// Multiply, 64 queries each.
        Math = 2 x 240 registers,
    }
}
/// Roles of a CTA with three warp groups that multiply.
pub mod three {
    pipeline::roles! {
        /// Loads Q, K and V.
        Load = 1 x 32 registers,
        /// Multiply, 64 queries each.
        Math = 3 x 160 registers,
    }
}
type Of<Ro, Plan> = Cta<Ro, Cluster<1, 1>, Plan>;

macro_rules! kernels {
    ($(
        $name:ident, $capped:ident: $e:ty, head_dim $d:literal, $groups:ident $bm:literal x $bn:literal, queries $qs:literal,
        stages $stages:literal, stores $out:literal, windows $windows:literal;
    )+) => {
        $(
            /// Attention of heads up to the width in its name.
            #[kernel]
            pub fn $name(
                cta: Of<($groups::Load, $groups::Math), Plan<$groups::Math, $e, $bm, $bn, $d, $qs, $stages, $out>>,
                q: &MapQ<$e, $bm, $d>,
                k: &MapK<$e, $bn, $d>,
                v: &MapV<$e, $bn, $d>,
                o: &MapO<$e>,
                args: AttentionArgs<'_>,
            ) {
                attention::<_, _, _, _, $bm, $bn, $d, $qs, $stages, $out, $windows>(cta, q, k, v, o, &args, Plain);
            }

            /// The same with a soft cap on the scores.
            #[kernel]
            pub fn $capped(
                cta: Of<($groups::Load, $groups::Math), Plan<$groups::Math, $e, $bm, $bn, $d, $qs, $stages, $out>>,
                q: &MapQ<$e, $bm, $d>,
                k: &MapK<$e, $bn, $d>,
                v: &MapV<$e, $bn, $d>,
                o: &MapO<$e>,
                args: AttentionArgs<'_>,
                cap: SoftCap,
            ) {
                attention::<_, _, _, _, $bm, $bn, $d, $qs, $stages, $out, $windows>(cta, q, k, v, o, &args, cap);
            }
        )+

        /// The kernels of this crate.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const INSTANCES: &[Instance] = &[$(
            Instance {
                desc: &<$name as isa::kernel::Kernel>::DESC,
                dtype: <$e as pipeline::tile::Element>::DTYPE,
                head_dim: $d,
                bm: $bm,
                bn: $bn,
                stages: $stages,
                windows: $windows,
                soft_cap: false,
            },
            Instance {
                desc: &<$capped as isa::kernel::Kernel>::DESC,
                dtype: <$e as pipeline::tile::Element>::DTYPE,
                head_dim: $d,
                bm: $bm,
                bn: $bn,
                stages: $stages,
                windows: $windows,
                soft_cap: true,
            },
        )+];
    };
}

/// The kernels of this crate.
#[cfg(not(any(feature = "attention", target_arch = "nvptx64")))]
pub const INSTANCES: &[Instance] = &[];

#[cfg(all(feature = "attention", not(all(feature = "trace", target_arch = "nvptx64"))))]
kernels! {
    attention_bf16_d64_192x128, attention_bf16_d64_192x128_cap: bf16, head_dim 64, three 192 x 128, queries 2, stages 2, stores 1, windows false;
    attention_bf16_d64_128x128, attention_bf16_d64_128x128_cap: bf16, head_dim 64, two 128 x 128, queries 2, stages 2, stores 1, windows true;
    attention_bf16_d128_128x128, attention_bf16_d128_128x128_cap: bf16, head_dim 128, two 128 x 128, queries 2, stages 2, stores 2, windows true;
    attention_bf16_d256_128x64, attention_bf16_d256_128x64_cap: bf16, head_dim 256, two 128 x 64, queries 1, stages 2, stores 1, windows true;
    attention_f16_d64_192x128, attention_f16_d64_192x128_cap: f16, head_dim 64, three 192 x 128, queries 2, stages 2, stores 1, windows false;
    attention_f16_d64_128x128, attention_f16_d64_128x128_cap: f16, head_dim 64, two 128 x 128, queries 2, stages 2, stores 1, windows true;
    attention_f16_d128_128x128, attention_f16_d128_128x128_cap: f16, head_dim 128, two 128 x 128, queries 2, stages 2, stores 2, windows true;
    attention_f16_d256_128x64, attention_f16_d256_128x64_cap: f16, head_dim 256, two 128 x 64, queries 1, stages 2, stores 1, windows true;
}
