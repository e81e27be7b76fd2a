//! Causal attention with an additive bias (ALiBi): warpipe's attention kernel with scores of your own.

// example: score
use warpipe::gpu_kernels::attention::{Place, Score};
use warpipe::isa::wgmma::{M64, Shape};
use warpipe::pipeline::cta::{ClusterShape, Role};
use warpipe::pipeline::grid::DependentSlice;
use warpipe::prelude::*;

/// Subtracts the distance from a query back to a key, times the slope of the head, for a causal mask.
///
/// (Press et al. 2021, "Train short, test long"; FlashAttention's `alibi_slopes`.)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Alibi<'a> {
    /// The slope of each head of Q, in device memory.
    pub slopes: DependentSlice<'a, f32>,
}

impl Score for Alibi<'_> {
    const CHANGES: bool = true;

    #[inline(always)]
    fn apply<Ro: Role, Cl: ClusterShape, const BN: usize>(
        &self,
        group: &Warpgroup<Ro, Cl>,
        scores: &mut Accumulator<BN>,
        at: Place,
    ) where
        M64<BN>: Shape,
    {
        let slopes = group.rows().map(|row| {
            // In `decode`, a tile also has rows of heads that do not exist. The host has checked the number of slopes.
            self.slopes.by(group).get_or(at.head(row) as usize, 0.0)
        });
        // From the diagonal of each row to this thread's first key. The distances from there to its other keys are constants.
        let first = group.place(0).1;
        let nearest = group.rows().map(|row| at.key(first) as i32 - at.diagonal(row));
        let bias = nearest.zip(slopes, |keys, slope| slope * keys as f32);
        scores.map_rows(bias, |x, bias| x + bias);
        scores
            .map_rows_at(group, slopes, |x, slope, _, column| x + slope * (column - first) as f32);
    }
}
// end

// example: kernel
use warpipe::gpu_kernels::attention::kernel::{MapK, MapO, MapQ, MapV, Plan, attention};
use warpipe::gpu_kernels::attention::{AttentionArgs, Equal};

roles! {
    /// Loads Q, K and V.
    Load = 1 x 24 registers,
    /// Multiply, 64 queries each.
    Math = 2 x 240 registers,
}

/// 128 queries, blocks of 128 keys, heads up to 128 wide; two tiles of queries, two blocks of keys and of values, and
/// two store buffers for each warp group.
type ThisPlan = Plan<Math, bf16, 128, 128, 128, 2, 2, 2>;

/// Attention with [`Alibi`].
#[kernel]
pub fn alibi(
    cta: Cta<(Load, Math), Cluster<1, 1>, ThisPlan>,
    q: &MapQ<bf16, 128, 128>,
    k: &MapK<bf16, 128, 128>,
    v: &MapV<bf16, 128, 128>,
    o: &MapO<bf16>,
    args: AttentionArgs<'_>,
    bias: Alibi<'_>,
) {
    // The plan's sizes, and whether masks may have a left window.
    attention::<_, _, _, _, _, 128, 128, 128, 2, 2, 2, false, _>(
        cta, q, k, v, o, &args, Equal, bias,
    );
}
// end

// example: decode
use warpipe::gpu_kernels::attention::decode::DecodeArgs;
use warpipe::gpu_kernels::attention::decode::kernel as few;

mod one {
    warpipe::pipeline::roles! {
        /// Loads Q, K and V.
        Load = 1 x 56 registers,
        /// Multiplies, and combines the parts of a tile.
        Math = 1 x 240 registers,
    }
}

/// Blocks of 64 keys, heads up to 128 wide; two blocks of keys and of values.
type DecodePlan = few::Plan<one::Math, bf16, 64, 128, 2>;

/// Attention of few queries with [`Alibi`].
#[kernel]
pub fn alibi_decode(
    cta: Cta<(one::Load, one::Math), Cluster<1, 1>, DecodePlan>,
    q: &few::MapQ<bf16, 128>,
    k: &few::MapK<bf16, 64, 128>,
    v: &few::MapV<bf16, 64, 128>,
    args: DecodeArgs<'_>,
    bias: Alibi<'_>,
) {
    few::decode::<_, _, _, _, 64, 128, 2>(cta, q, k, v, &args, bias);
}
// end

// example: instances
/// The kernels of this crate's image, for the host's picker.
#[cfg(not(target_arch = "nvptx64"))]
pub const INSTANCES: &[warpipe::gpu_kernels::attention::Instance] =
    &[warpipe::gpu_kernels::attention::Instance {
        desc: &alibi::DESC,
        dtype: warpipe::isa::kernel::Dtype::Bf16,
        head_dim: 128,
        bm: 128,
        bn: 128,
        stages: 2,
        windows: false,
        packed: false,
        soft_cap: false,
    }];

/// Those for few queries, and for caches.
#[cfg(not(target_arch = "nvptx64"))]
pub const DECODE_INSTANCES: &[warpipe::gpu_kernels::attention::decode::DecodeInstance] =
    &[warpipe::gpu_kernels::attention::decode::DecodeInstance {
        desc: &alibi_decode::DESC,
        dtype: warpipe::isa::kernel::Dtype::Bf16,
        head_dim: 128,
        bn: 64,
        stages: 2,
        soft_cap: false,
    }];
// end
