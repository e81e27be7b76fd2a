//! What becomes of a score before the softmax.
#![forbid(unsafe_code)]

use isa::kernel::KernelArg;
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterShape, Role, Warpgroup};
use pipeline::mma::Accumulator;

/// The place of a warp group's scores: 64 queries by a block of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The sequence.
    pub batch: u32,
    /// The head of Q, also where several heads of Q share one of K and V.
    pub head: u32,
    /// The first query, counted from the sequence's first.
    pub query: u32,
    /// The first key, counted from the sequence's first.
    pub key: u32,
    /// The key on the diagonal of query 0: the sequence's keys less its queries. It is negative if there are more
    /// queries than keys.
    pub diagonal: i32,
}

/// A change of the scores before the softmax: a soft cap, a bias, a mask of one's own. It can't replace the softmax, or add to
/// its sum, as an attention sink does.
///
/// A score that a launch passes is `#[repr(C)]` and derives [`KernelArg`]. It may have slices in it, with which it reads
/// device memory: [`DependentSlice`](pipeline::grid::DependentSlice)s.
///
/// (FlexAttention `score_mod`; FlashAttention's `Softcap`, `Alibi`.)
///
/// ```
/// use warpipe_gpu_kernels::attention::{Place, Score};
/// use isa::kernel::KernelArg;
/// use isa::wgmma::{M64, Shape};
/// use pipeline::{cta::{ClusterShape, Role}, prelude::*};
///
/// /// A bias that grows with the distance of key and query (ALiBi), with one slope for all heads.
/// #[repr(C)]
/// #[derive(Clone, Copy, KernelArg)]
/// struct Alibi { slope: f32 }
/// impl Score for Alibi {
///     const CHANGES: bool = true;
///     fn apply<Ro: Role, Cl: ClusterShape, const BN: usize>(
///         &self,
///         group: &Warpgroup<Ro, Cl>,
///         scores: &mut Accumulator<BN>,
///         at: Place,
///     ) where
///         M64<BN>: Shape,
///     {
///         scores.map_at(group, |x, row, column| {
///             let query = (at.query + row) as i32 + at.diagonal;
///             x - self.slope * (query - (at.key + column) as i32).abs() as f32
///         });
///     }
/// }
/// ```
pub trait Score: Copy {
    /// Whether [`apply`](Self::apply) does anything. If it does, it gets scores that the softmax scale has been
    /// multiplied into; that costs one multiplication for each score.
    const CHANGES: bool;

    /// Changes the scores of a warp group, 64 queries by `BN` keys at `at`.
    ///
    /// The scale has been multiplied in. The weight of a key will be e to the power of its score less its row's maximum. Add
    /// `at.query` to a row and `at.key` to a column of [`map_at`](Accumulator::map_at). Rows beyond the last query come too;
    /// nothing of them is stored. Scores of keys that the mask hides, and of keys beyond the sequence, are changed too, and then
    /// become −∞. `apply` may return −∞ to hide a key.
    fn apply<Ro: Role, Cl: ClusterShape, const BN: usize>(
        &self,
        group: &Warpgroup<Ro, Cl>,
        scores: &mut Accumulator<BN>,
        at: Place,
    ) where
        M64<BN>: Shape;
}

/// Scores as they are.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Score for Plain {
    const CHANGES: bool = false;
    #[isa::forceinline]
    fn apply<Ro: Role, Cl: ClusterShape, const BN: usize>(
        &self,
        _group: &Warpgroup<Ro, Cl>,
        _scores: &mut Accumulator<BN>,
        _at: Place,
    ) where
        M64<BN>: Shape,
    {
    }
}

/// Scores between `-cap` and `cap`: `cap * tanh(score / cap)`, with the approximate tanh (relative error 2⁻¹¹).
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelArg)]
pub struct SoftCap {
    /// The bound, above 0.
    pub cap: f32,
}

impl Score for SoftCap {
    const CHANGES: bool = true;
    #[isa::forceinline]
    fn apply<Ro: Role, Cl: ClusterShape, const BN: usize>(
        &self,
        _group: &Warpgroup<Ro, Cl>,
        scores: &mut Accumulator<BN>,
        _at: Place,
    ) where
        M64<BN>: Shape,
    {
        let inverse = 1.0 / self.cap;
        scores.map(|x| self.cap * isa::math::tanh_approx(x * inverse));
    }
}
