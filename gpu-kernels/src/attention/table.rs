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
use super::sequences::{Equal, Packed};
use half::{bf16, f16};
use isa::kernel;
#[cfg(not(target_arch = "nvptx64"))]
use isa::kernel::{Dtype, KernelDesc};
use pipeline::cta::{Cluster, Cta};

/// One compiled attention kernel, or a kernel of your own for a table that the host plans with.
///
/// Its parameters are, in this order:
///
/// 1. The tensor maps of Q, K, V and O, of rank 4 ([`MapQ`], [`MapK`], [`MapV`], [`MapO`]). For packed sequences, those of Q, K
///    and V have rank 5.
/// 2. [`AttentionArgs`].
/// 3. [`Packed`], if its sequences are packed.
/// 4. Its [`Score`](super::Score), if it takes one from the launch: [`SoftCap`] if `soft_cap`, or one of your own.
///
/// The kernel computes every entry of its CTA's list ([`Tiles`](super::work::Tiles)). An entry without blocks gets zeros in
/// O, and −∞ in LSE if LSE is asked for. Of sequences of equal lengths, an entry may be a part of a tile
/// ([`Part::of_group`](super::args::Part::of_group) is `Some`): each warp group stores its part with
/// [`SplitTiles::store`](pipeline::grid::SplitTiles::store), and the group that gets the tile adds up all parts. Packed
/// sequences are never split. [`Out`](super::out::Out) does all of that.
///
/// The host compares `dtype`, `bm`, `bn`, `packed` and `soft_cap` with the kernel's parameters, and refuses a `head_dim` or
/// `stages` for which the kernel has too little shared memory. It does not see a `head_dim` that is too large by less than the
/// buffers of Q and O. It trusts `windows`: a kernel that ignores [`AttentionArgs::left`] must say `false`.
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
    /// Whether it takes a left window: a bound of the keys before the diagonal (sliding window; FlashAttention `is_local`).
    pub windows: bool,
    /// Whether its sequences are packed.
    pub packed: bool,
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
        $e:ty, head_dim $d:literal, $groups:ident $bm:literal x $bn:literal, queries $qs:literal, stages $stages:literal,
        stores $out:literal, windows $windows:literal: $name:ident, $capped:ident, $packed:ident, $packed_cap:ident;
    )+) => {
        $(
            kernels!(@one $name, [$e, $groups, $bm, $bn, $d, $qs, $stages, $out, $windows], [] Equal, 4, [] Plain);
            kernels!(@one $capped, [$e, $groups, $bm, $bn, $d, $qs, $stages, $out, $windows], [] Equal, 4, [cap: SoftCap] cap);
            kernels!(@one $packed, [$e, $groups, $bm, $bn, $d, $qs, $stages, $out, $windows],
                [packed: Packed<'_>] packed, 5, [] Plain);
            kernels!(@one $packed_cap, [$e, $groups, $bm, $bn, $d, $qs, $stages, $out, $windows],
                [packed: Packed<'_>] packed, 5, [cap: SoftCap] cap);
        )+

        /// The kernels of this crate.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const INSTANCES: &[Instance] = &[$(
            kernels!(@row $name, [$e, $d, $bm, $bn, $stages, $windows], packed false, soft_cap false),
            kernels!(@row $capped, [$e, $d, $bm, $bn, $stages, $windows], packed false, soft_cap true),
            kernels!(@row $packed, [$e, $d, $bm, $bn, $stages, $windows], packed true, soft_cap false),
            kernels!(@row $packed_cap, [$e, $d, $bm, $bn, $stages, $windows], packed true, soft_cap true),
        )+];
    };
    (@one $name:ident, [$e:ty, $groups:ident, $bm:literal, $bn:literal, $d:literal, $qs:literal, $stages:literal, $out:literal,
        $windows:literal], [$($packed:ident: $packed_type:ty)?] $sequences:expr, $rank:literal, [$($cap:ident: $cap_type:ty)?] $score:expr) => {
        /// Attention of heads up to the width in its name; `packed` sequences, with a soft `cap` on the scores.
        #[kernel(dependent = true)]
        pub fn $name(
            cta: Of<($groups::Load, $groups::Math), Plan<$groups::Math, $e, $bm, $bn, $d, $qs, $stages, $out>>,
            q: &MapQ<$e, $bm, $d, $rank>,
            k: &MapK<$e, $bn, $d, $rank>,
            v: &MapV<$e, $bn, $d, $rank>,
            o: &MapO<$e>,
            args: AttentionArgs<'_>,
            $($packed: $packed_type,)?
            $($cap: $cap_type,)?
        ) {
            attention::<_, _, _, _, _, $bm, $bn, $d, $qs, $stages, $out, $windows, $rank>(cta, q, k, v, o, &args, $sequences, $score);
        }
    };
    (@row $name:ident, [$e:ty, $d:literal, $bm:literal, $bn:literal, $stages:literal, $windows:literal], packed $packed:literal,
        soft_cap $cap:literal) => {
        Instance {
            desc: &<$name as isa::kernel::Kernel>::DESC,
            dtype: <$e as pipeline::tile::Element>::DTYPE,
            head_dim: $d,
            bm: $bm,
            bn: $bn,
            stages: $stages,
            windows: $windows,
            packed: $packed,
            soft_cap: $cap,
        }
    };
}

/// The kernels of this crate.
#[cfg(not(any(feature = "attention", target_arch = "nvptx64")))]
pub const INSTANCES: &[Instance] = &[];

#[cfg(all(feature = "attention", not(all(feature = "trace", target_arch = "nvptx64"))))]
kernels! {
    bf16, head_dim 64, three 192 x 128, queries 2, stages 2, stores 1, windows false:
        attention_bf16_d64_192x128, attention_bf16_d64_192x128_cap,
        attention_bf16_d64_192x128_packed, attention_bf16_d64_192x128_packed_cap;
    bf16, head_dim 64, two 128 x 128, queries 2, stages 2, stores 1, windows true:
        attention_bf16_d64_128x128, attention_bf16_d64_128x128_cap,
        attention_bf16_d64_128x128_packed, attention_bf16_d64_128x128_packed_cap;
    bf16, head_dim 128, two 128 x 128, queries 2, stages 2, stores 2, windows true:
        attention_bf16_d128_128x128, attention_bf16_d128_128x128_cap,
        attention_bf16_d128_128x128_packed, attention_bf16_d128_128x128_packed_cap;
    bf16, head_dim 256, two 128 x 64, queries 1, stages 2, stores 1, windows true:
        attention_bf16_d256_128x64, attention_bf16_d256_128x64_cap,
        attention_bf16_d256_128x64_packed, attention_bf16_d256_128x64_packed_cap;
    f16, head_dim 64, three 192 x 128, queries 2, stages 2, stores 1, windows false:
        attention_f16_d64_192x128, attention_f16_d64_192x128_cap,
        attention_f16_d64_192x128_packed, attention_f16_d64_192x128_packed_cap;
    f16, head_dim 64, two 128 x 128, queries 2, stages 2, stores 1, windows true:
        attention_f16_d64_128x128, attention_f16_d64_128x128_cap,
        attention_f16_d64_128x128_packed, attention_f16_d64_128x128_packed_cap;
    f16, head_dim 128, two 128 x 128, queries 2, stages 2, stores 2, windows true:
        attention_f16_d128_128x128, attention_f16_d128_128x128_cap,
        attention_f16_d128_128x128_packed, attention_f16_d128_128x128_packed_cap;
    f16, head_dim 256, two 128 x 64, queries 1, stages 2, stores 1, windows true:
        attention_f16_d256_128x64, attention_f16_d256_128x64_cap,
        attention_f16_d256_128x64_packed, attention_f16_d256_128x64_packed_cap;
}
