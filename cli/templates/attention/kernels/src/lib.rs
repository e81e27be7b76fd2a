//! Causal attention with an additive bias (ALiBi): warpipe's attention with scores of this crate.
//!
//! cargo compiles this crate twice: for the GPU, and for the host, where the SM model runs it.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

use warpipe::gpu_kernels::attention::kernel::{MapK, MapO, MapQ, MapV, Plan, attention};
use warpipe::gpu_kernels::attention::{AttentionArgs, Equal, Place, Score};
use warpipe::isa::wgmma::{M64, Shape};
use warpipe::pipeline::cta::{ClusterShape, Role};
use warpipe::pipeline::grid::DependentSlice;
use warpipe::prelude::*;

/// The score of a query and a key, minus the distance back to the key times the slope of the head, for a causal mask.
///
/// (Press et al. 2021, "Train short, test long".)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Alibi<'a> {
    /// The slope of each head of Q, in device memory.
    pub slopes: DependentSlice<'a, f32>,
}

impl Score for Alibi<'_> {
    const CHANGES: bool = true;

    /// A warp group holds 64 queries x `BN` keys of Q·Kᵀ, times the scale. Each thread has two rows of them: one, and
    /// the one 8 rows further down.
    #[inline(always)]
    fn apply<Ro: Role, Cl: ClusterShape, const BN: usize>(
        &self,
        group: &Warpgroup<Ro, Cl>,
        scores: &mut Accumulator<BN>,
        at: Place,
    ) where
        M64<BN>: Shape,
    {
        let slopes = group
            .rows()
            .map(|row| self.slopes.by(group).get_or(at.head(row) as usize, 0.0));
        // How far this thread's first key is ahead of the key on the diagonal of each of its rows.
        let first = group.place(0).1;
        let ahead = group
            .rows()
            .map(|row| at.key(first) as i32 - at.diagonal(row));
        scores.map_rows(
            ahead.zip(slopes, |keys, slope| slope * keys as f32),
            |x, bias| x + bias,
        );
        // From the first key to each other one of the thread: a constant of the compiled kernel.
        scores.map_rows_at(group, slopes, |x, slope, _, column| {
            x + slope * (column - first) as f32
        });
    }
}

// The roles of a CTA, and their registers per thread.
roles! { Load = 1 x 24 registers, Math = 2 x 240 registers }

/// Columns of a head, for which the kernel is compiled; narrower heads are filled up with zeros.
pub const HEAD_DIM: u32 = 128;

/// 128 queries, blocks of 128 keys, heads of 128 columns; two tiles of queries, two blocks of keys and of values, and
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
    score: Alibi<'_>,
) {
    // The sizes of the plan. The last one says that no mask has a left window.
    attention::<_, _, _, _, _, 128, 128, 128, 2, 2, 2, false, _>(
        cta, q, k, v, o, &args, Equal, score,
    );
}

/// The kernels of this crate, for the host's picker.
#[cfg(not(target_arch = "nvptx64"))]
pub const KERNELS: &[warpipe::gpu_kernels::attention::Instance] =
    &[warpipe::gpu_kernels::attention::Instance {
        desc: &alibi::DESC,
        dtype: warpipe::isa::kernel::Dtype::Bf16,
        head_dim: HEAD_DIM,
        bm: 128,
        bn: 128,
        stages: 2,
        windows: false,
        packed: false,
        soft_cap: false,
    }];
