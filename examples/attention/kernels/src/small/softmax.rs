//! The softmax of scores that come block by block.

// example: softmax
use warpipe::isa::math::{ex2_approx_ftz, max};
use warpipe::isa::wgmma::{M64, Shape};
use warpipe::pipeline::cta::{ClusterShape, Role};
use warpipe::pipeline::mma::{RowParts, Rows};
use warpipe::prelude::*;

/// Of each row: the largest score so far, and this thread's part of the sum of the weights so far.
pub struct Softmax {
    max: Rows,
    sum: RowParts,
    scale: f32,
}

impl Softmax {
    /// Nothing seen so far.
    #[inline(always)]
    pub fn new(scale: f32) -> Self {
        Self { max: Rows::splat(f32::NEG_INFINITY), sum: RowParts([0.0; 2]), scale }
    }

    /// Replaces the scores of a block by their weights. Returns what O so far is to be multiplied by
    /// (FlashAttention-3: `scores_scale`).
    ///
    /// Each row of the first block has a score that is not −∞.
    #[inline(always)]
    pub fn next<Ro: Role, Cl: ClusterShape, const N: usize>(
        &mut self,
        group: &Warpgroup<Ro, Cl>,
        scores: &mut Accumulator<N>,
    ) -> Rows
    where
        M64<N>: Shape,
    {
        let (old, scale) = (self.max, self.scale);
        self.max = group.row_max(scores.row_max()).zip(old, max);
        let rescale = old.zip(self.max, |old, new| ex2_approx_ftz((old - new) * scale));
        scores.map_rows(self.max, |x, max| ex2_approx_ftz((x - max) * scale));
        self.sum = self.sum.scale_add(rescale, scores.row_sum());
        rescale
    }

    /// Returns 1 / the sum of each row's weights.
    #[inline(always)]
    pub fn inverse<Ro: Role, Cl: ClusterShape>(self, group: &Warpgroup<Ro, Cl>) -> Rows {
        group.row_sum(self.sum).map(|sum| 1.0 / sum)
    }
}
// end
