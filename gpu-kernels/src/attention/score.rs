//! What becomes of a score before the softmax.
#![forbid(unsafe_code)]

use isa::kernel::KernelArg;
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterShape, Role, Warpgroup};
use pipeline::mma::Accumulator;

/// The place of a warp group's scores: 64 rows by a block of keys.
///
/// In [`attention`](super::kernel::attention) the rows are queries of one head. In
/// [`decode`](super::decode::kernel::decode) neighbouring rows are different heads that share their keys. So use a row's head
/// and query, never the row itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The sequence.
    pub batch: u32,
    /// Row 0's head and query.
    pub(super) head: u32,
    pub(super) query: u32,
    /// The logarithm to base 2 of the heads: row r is head r mod 2^`row_heads` of these, and query r div 2^`row_heads`.
    pub(super) row_heads: u32,
    /// Column 0's key.
    pub(super) key: u32,
    /// The key on the diagonal of query 0: the sequence's keys less its queries.
    pub(super) diagonal: i32,
}

impl Place {
    /// The head of Q of row `row`, also where several heads of Q share one of K and V. In
    /// [`decode`](super::decode::kernel::decode) some rows have a head beyond the last one that shares their keys; nothing of them
    /// is stored.
    #[isa::forceinline]
    #[must_use]
    pub const fn head(self, row: u32) -> u32 {
        self.head + (row & ((1 << self.row_heads) - 1))
    }

    /// The query of row `row`, counted from the sequence's first. Some rows have one beyond the last; nothing of them is stored.
    #[isa::forceinline]
    #[must_use]
    pub const fn query(self, row: u32) -> u32 {
        self.query + (row >> self.row_heads)
    }

    /// The key of column `column`, counted from the sequence's first.
    #[isa::forceinline]
    #[must_use]
    pub const fn key(self, column: u32) -> u32 {
        self.key + column
    }

    /// The key on the diagonal of row `row`'s query. For the last query it is the sequence's last key. If there are more queries
    /// than keys, it is negative for the first ones.
    #[isa::forceinline]
    #[must_use]
    pub const fn diagonal(self, row: u32) -> i32 {
        self.query(row) as i32 + self.diagonal
    }
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
///     #[inline(always)]
///     fn apply<Ro: Role, Cl: ClusterShape, const BN: usize>(
///         &self,
///         group: &Warpgroup<Ro, Cl>,
///         scores: &mut Accumulator<BN>,
///         at: Place,
///     ) where
///         M64<BN>: Shape,
///     {
///         scores.map_at(group, |x, row, column| {
///             let distance = at.diagonal(row) - at.key(column) as i32;
///             x - self.slope * distance.abs() as f32
///         });
///     }
/// }
/// ```
pub trait Score: Copy {
    /// Whether [`apply`](Self::apply) does anything. If it does, it gets scores that the softmax scale has been
    /// multiplied into; that costs one multiplication for each score.
    const CHANGES: bool;

    /// Changes the scores of a warp group, 64 rows by `BN` keys at `at`. Mark it `#[inline(always)]`: the scores are in
    /// registers.
    ///
    /// The scale has been multiplied in. The weight of a key will be e to the power of its score less its row's maximum. `at`
    /// knows the head and the query of a row, and the key of a column, as [`map_at`](Accumulator::map_at) counts them. Rows
    /// beyond the last query come too; nothing of them is stored.
    ///
    /// Scores of keys that the mask hides, and of keys beyond the sequence, are changed too, and then become −∞. `apply` may set
    /// a score to −∞, which hides the key from the row, and may hide all keys of a row. Hidden blocks are still loaded and
    /// multiplied. LSE is that of the changed scores.
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
