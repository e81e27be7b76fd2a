//! The compiled decode kernels. They are compiled with the feature `attention`.
#![forbid(unsafe_code)]
// Without the feature the table is empty. A traced image has one GEMM kernel alone.
#![cfg_attr(
    any(not(feature = "attention"), feature = "trace"),
    allow(unused_imports, unused_macros, dead_code)
)]

use super::args::DecodeArgs;
use super::kernel::{MapK, MapQ, MapV, Plan, decode};
use crate::attention::Plain;
use half::{bf16, f16};
use isa::kernel;
#[cfg(not(target_arch = "nvptx64"))]
use isa::kernel::{Dtype, KernelDesc};
use pipeline::cta::{Cluster, Cta};

/// One compiled decode kernel, or a kernel of your own for a table that the host plans with.
///
/// Its parameters are the tensor maps of Q, K and V ([`MapQ`], [`MapK`], [`MapV`]), [`DecodeArgs`], and its
/// [`Score`](crate::attention::Score), if it takes one from the launch. [`decode`] does what a kernel must do.
///
/// The host compares `dtype` and `bn` with the kernel's parameters, and `head_dim` and `stages` with its shared memory. It trusts
/// `soft_cap`, except of a kernel that takes a score from the launch.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
pub struct DecodeInstance {
    /// The kernel.
    pub desc: &'static KernelDesc,
    /// Element type of Q, K, V and O.
    pub dtype: Dtype,
    /// Columns of a head, of which a problem may have fewer.
    pub head_dim: u32,
    /// Keys of a block. The page size of a paged cache must be a multiple of it.
    pub bn: u32,
    /// Blocks of keys, and of values, that are in shared memory.
    pub stages: u32,
    /// Whether it computes problems with a soft cap ([`DecodeArgs::cap`]), beside those without. A kernel whose score changes
    /// anything ignores the cap, and must say `false`.
    pub soft_cap: bool,
}

pipeline::roles! {
    /// Loads Q, K and V.
    Load = 1 x 56 registers,
    /// Multiplies, and combines the parts of a tile.
    Math = 1 x 240 registers,
}

macro_rules! kernels {
    ($($e:ty, head_dim $d:literal, keys $bn:literal, stages $stages:literal: $name:ident;)+) => {
        $(
            /// Attention of few queries, of heads up to the width in its name.
            #[kernel(dependent = true)]
            pub fn $name(
                cta: Cta<(Load, Math), Cluster<1, 1>, Plan<Math, $e, $bn, $d, $stages>>,
                q: &MapQ<$e, $d>,
                k: &MapK<$e, $bn, $d>,
                v: &MapV<$e, $bn, $d>,
                args: DecodeArgs<'_>,
            ) {
                decode::<_, _, _, _, $bn, $d, $stages>(cta, q, k, v, &args, Plain);
            }
        )+

        /// The kernels of this crate.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const DECODE_INSTANCES: &[DecodeInstance] = &[$(DecodeInstance {
            desc: &<$name as isa::kernel::Kernel>::DESC,
            dtype: <$e as pipeline::tile::Element>::DTYPE,
            head_dim: $d,
            bn: $bn,
            stages: $stages,
            soft_cap: true,
        }),+];
    };
}

/// The kernels of this crate.
#[cfg(not(any(feature = "attention", target_arch = "nvptx64")))]
pub const DECODE_INSTANCES: &[DecodeInstance] = &[];

#[cfg(all(feature = "attention", not(all(feature = "trace", target_arch = "nvptx64"))))]
kernels! {
    bf16, head_dim 64, keys 64, stages 3: attention_bf16_d64_decode;
    bf16, head_dim 64, keys 128, stages 2: attention_bf16_d64_decode_128;
    bf16, head_dim 128, keys 64, stages 2: attention_bf16_d128_decode;
    bf16, head_dim 128, keys 128, stages 2: attention_bf16_d128_decode_128;
    bf16, head_dim 256, keys 64, stages 2: attention_bf16_d256_decode;
    f16, head_dim 64, keys 64, stages 3: attention_f16_d64_decode;
    f16, head_dim 64, keys 128, stages 2: attention_f16_d64_decode_128;
    f16, head_dim 128, keys 64, stages 2: attention_f16_d128_decode;
    f16, head_dim 128, keys 128, stages 2: attention_f16_d128_decode_128;
    f16, head_dim 256, keys 64, stages 2: attention_f16_d256_decode;
}
