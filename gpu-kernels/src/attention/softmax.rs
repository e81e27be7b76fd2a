//! The softmax of scores that come block by block.
//!
//! Invariant: after each block, `sum` and O belong to the maximum of all blocks so far.
//!
//! (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"; FlashAttention `Softmax`.)
#![forbid(unsafe_code)]

use isa::math::{ex2_approx_ftz, fma, lg2_approx, max};
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterShape, Role, Warpgroup};
use pipeline::mma::{Accumulator, RowParts, Rows};

/// The maximum of each row's scores, and this thread's part of the sum of their weights.
pub struct Softmax {
    max: Rows,
    sum: RowParts,
}

/// What O so far is to be multiplied by.
#[derive(Clone, Copy)]
pub struct Rescale {
    by: Rows,
    /// Whether some row of the warp may have a factor other than 1: of its first eight rows, and of its last eight. A thread has
    /// one of each.
    any: [bool; 2],
}

impl Rescale {
    /// Multiplies the rows of O.
    #[isa::forceinline]
    pub fn apply<const D: usize>(self, sum: &mut Accumulator<D>)
    where
        M64<D>: Shape,
    {
        let Rows([first, second]) = self.by;
        if self.any[0] {
            sum.map_rows(Rows([first, 1.0]), |x, by| x * by);
        }
        if self.any[1] {
            sum.map_rows(Rows([1.0, second]), |x, by| x * by);
        }
    }

    /// A value that is known when the factors are, and not negative: for [`InFlight::finish_after`].
    ///
    /// [`InFlight::finish_after`]: pipeline::mma::InFlight::finish_after
    #[isa::forceinline]
    pub fn known(self) -> f32 {
        self.by.0[0] + self.by.0[1]
    }
}

/// What a row's O is multiplied by at the end, and its log-sum-exp.
#[derive(Clone, Copy)]
pub struct Total {
    /// 1 / sum, or 0 for a row that saw no key.
    pub inverse: Rows,
    /// log(sum(exp(score))), or −∞ for a row that saw no key.
    pub lse: Rows,
}

impl Softmax {
    /// That of no scores.
    #[isa::forceinline]
    pub fn none() -> Self {
        Self { max: Rows::splat(f32::NEG_INFINITY), sum: RowParts([0.0; 2]) }
    }

    /// Replaces the scores of a tile's first block by their weights: 2 to the power of `scale` times what a score is
    /// below the maximum.
    #[isa::forceinline]
    pub fn first<Ro: Role, Cl: ClusterShape, const BN: usize>(
        group: &Warpgroup<Ro, Cl>,
        scores: &mut Accumulator<BN>,
        scale: f32,
    ) -> Self
    where
        M64<BN>: Shape,
    {
        let max = group.row_max(scores.row_max());
        weigh(scores, max, scale);
        Self { max, sum: scores.row_sum() }
    }

    /// A value that is known when the maximum is, and not negative: for [`InFlight::finish_after`].
    ///
    /// [`InFlight::finish_after`]: pipeline::mma::InFlight::finish_after
    #[isa::forceinline]
    pub fn known(&self) -> f32 {
        isa::math::abs(self.max.0[0]) + isa::math::abs(self.max.0[1])
    }

    /// Goes on to the maximum of the blocks so far and of `scores`, whose factor in exponents of 2 is `scale`. Returns what O
    /// is to be multiplied by.
    ///
    /// With `if_any`, [`Rescale::apply`] skips eight rows of O if none of their maxima has grown. After most blocks of a long
    /// sequence that is so. (FlashAttention-4 also skips them where a maximum grows by little, `rescale_threshold`. The largest
    /// weight is then not 1, which P holds exactly, and errors are larger.)
    ///
    /// Waits for the warp's other lanes. (PTX `shfl.sync.bfly.b32`; FlashAttention-3: `scores_scale`.)
    #[isa::forceinline]
    pub fn grow<Ro: Role, Cl: ClusterShape, const BN: usize>(
        &mut self,
        group: &Warpgroup<Ro, Cl>,
        scores: &Accumulator<BN>,
        scale: f32,
        if_any: bool,
    ) -> Rescale
    where
        M64<BN>: Shape,
    {
        let old = self.max;
        self.max = group.row_max(scores.row_max()).zip(old, max);
        let by = old.zip(self.max.map(finite), |old, new| ex2_approx_ftz((old - new) * scale));
        let any = old.zip(self.max, |old, new| !if_any || group.any_of_warp(new > old)).0;
        Rescale { by, any }
    }

    /// Replaces the scores of a further block by their weights, after [`grow`](Self::grow).
    #[isa::forceinline]
    pub fn weigh<const BN: usize>(
        &mut self,
        scores: &mut Accumulator<BN>,
        rescale: Rescale,
        scale: f32,
    ) where
        M64<BN>: Shape,
    {
        weigh(scores, self.max, scale);
        self.sum = self.sum.scale_add(rescale.by, scores.row_sum());
    }

    /// Returns the totals of the rows.
    #[isa::forceinline]
    pub fn total<Ro: Role, Cl: ClusterShape>(self, group: &Warpgroup<Ro, Cl>, scale: f32) -> Total {
        let sum = group.row_sum(self.sum);
        Total {
            inverse: sum.map(|sum| if sum == 0.0 { 0.0 } else { 1.0 / sum }),
            lse: self.max.zip(sum, |max, sum| {
                let log2 = fma(finite(max), scale, lg2_approx(sum));
                log2 * core::f32::consts::LN_2
            }),
        }
    }
}

/// This thread's sum of the weights of the first quarter of the columns, of which there are at least 32. It is not negative, and
/// known when these weights are: for [`InFlight::finish_after`]. [`Softmax::weigh`] adds them in the same order
/// ([`Accumulator::row_sum`]), so that only the last three additions are new.
///
/// [`InFlight::finish_after`]: pipeline::mma::InFlight::finish_after
#[isa::forceinline]
pub(super) fn first_weights<const BN: usize>(weights: &Accumulator<BN>) -> f32
where
    M64<BN>: Shape,
{
    let at = |column: usize| {
        let [a, b, c, d, ..] = weights.fragment_at(column);
        [a, b, c, d]
    };
    let mut sums = at(0);
    for eight in 1..BN / 32 {
        let next = at(8 * eight);
        sums = core::array::from_fn(|i| sums[i] + next[i]);
    }
    sums[0] + sums[1] + (sums[2] + sums[3])
}

/// The maximum of a row, or 0 for a row that has seen no key: −∞ − −∞ is not a number.
#[isa::forceinline]
pub fn finite(max: f32) -> f32 {
    if max == f32::NEG_INFINITY { 0.0 } else { max }
}

/// Replaces each score x by 2^((x - max) * scale).
#[isa::forceinline]
fn weigh<const BN: usize>(scores: &mut Accumulator<BN>, max: Rows, scale: f32)
where
    M64<BN>: Shape,
{
    let shift = max.map(|max| -finite(max) * scale);
    scores.map_rows(shift, |x, shift| ex2_approx_ftz(fma(x, scale, shift)));
}
