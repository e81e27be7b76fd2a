//! Row operations on accumulators: reductions over rows, and changes by row or by position.
//!
//! Invariant: a [`Rows`] has the same values in the four lanes that share a row. A [`RowParts`] has
//! in each lane only that lane's contribution.

use crate::cta::{ClusterShape, Role, Warpgroup};
use crate::mma::accumulator::Accumulator;
use crate::mma::fragment::row_of;
use isa::device;
use isa::wgmma::{M64, Shape};

/// One value for each of this thread's two accumulator rows: the upper row, and the row 8 further down. The four lanes
/// that share a row have the same value.
///
/// (FlashAttention: `row_max`, `row_sum` of `Softmax`, two values for each 64 rows.)
///
/// ```
/// # use warpipe_pipeline::{mma::{RowParts, Rows}, prelude::*};
/// # roles! { Math = 2 x 240 registers }
/// # type Group = Warpgroup<Math, Cluster<1, 1>>;
/// /// Softmax over the 64 columns of each row.
/// fn softmax(group: &Group, scores: &mut Accumulator<64>) {
///     let max = group.row_max(scores.row_max());
///     scores.map_rows(max, |x, max| (x - max).exp2());
///     let sum = group.row_sum(scores.row_sum());
///     scores.map_rows(sum.map(f32::recip), |x, by| x * by);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rows<T = f32>(pub [T; 2]);

/// This thread's part of a reduction over its two rows. [`Warpgroup::row_max`] and [`Warpgroup::row_sum`] complete the
/// reduction.
///
/// Sums of parts are parts of the sum, so a loop can add parts and complete the sum once. See the
/// example of [`Rows`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowParts(pub [f32; 2]);

impl<T: Copy> Rows<T> {
    /// Returns the same value for both rows.
    #[isa::forceinline]
    pub const fn splat(x: T) -> Self {
        Self([x; 2])
    }
    /// Replaces each row's value x by `f(x)`.
    #[isa::forceinline]
    #[must_use]
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> Rows<U> {
        Rows(self.0.map(f))
    }
    /// Combines the values of each row.
    #[isa::forceinline]
    #[must_use]
    pub fn zip<U: Copy, V>(self, other: Rows<U>, mut f: impl FnMut(T, U) -> V) -> Rows<V> {
        Rows(core::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl RowParts {
    /// Multiplies the parts by a value of their row, and adds `other`: `self * by + other`.
    ///
    /// (PTX `fma.rn.f32`.)
    ///
    /// ```
    /// # use warpipe_pipeline::mma::{RowParts, Rows};
    /// let sum = RowParts([1.0, 2.0]).scale_add(Rows([0.5, 1.0]), RowParts([3.0, 4.0]));
    /// assert_eq!(sum, RowParts([3.5, 6.0]));
    /// ```
    #[isa::forceinline]
    #[must_use]
    pub fn scale_add(self, by: Rows, other: Self) -> Self {
        let sum = |i: usize| isa::math::fma(self.0[i], by.0[i], other.0[i]);
        Self([sum(0), sum(1)])
    }
}

/// Combines the values of two lanes' rows over the four lanes that share them.
#[device]
fn over_quad(parts: RowParts, f: impl Fn(f32, f32) -> f32) -> Rows {
    Rows(parts.0.map(|mut x| {
        for lanes in [1, 2] {
            // SAFETY: the callers' group token proves that the warp is converged.
            let other = unsafe { isa::warp::shfl_xor(x.to_bits(), lanes) };
            x = f(x, f32::from_bits(other));
        }
        x
    }))
}

impl<Ro: Role, Cl: ClusterShape> Warpgroup<Ro, Cl> {
    /// Adds over the four lanes that share a row.
    ///
    /// Waits for the warp's other lanes. (PTX `shfl.sync.bfly.b32`, twice for each row; CUDA
    /// `__shfl_xor_sync`.) See the example of [`Rows`].
    #[device]
    pub fn row_sum(&self, parts: RowParts) -> Rows {
        over_quad(parts, |a, b| a + b)
    }

    /// Returns the largest value of each row over the four lanes that share it. A NaN is ignored
    /// beside a number.
    ///
    /// Waits for the warp's other lanes. (PTX `shfl.sync.bfly.b32`, `max.f32`, twice for each row;
    /// CUDA `__shfl_xor_sync`.) See the example of [`Rows`].
    #[device]
    pub fn row_max(&self, parts: RowParts) -> Rows {
        over_quad(parts, isa::math::max)
    }

    /// Returns the numbers of this thread's rows, of the 64 of the warp group.
    ///
    /// (CUTLASS: `partition_C` of an identity tensor.)
    ///
    /// ```
    /// # use warpipe_pipeline::{mma::Rows, prelude::*};
    /// # roles! { Math = 2 x 240 registers }
    /// # type Group = Warpgroup<Math, Cluster<1, 1>>;
    /// /// How many keys each row sees, if row 0 is query 128.
    /// fn seen(group: &Group) -> Rows<u32> { group.rows().map(|row| 128 + row + 1) }
    /// ```
    #[isa::forceinline]
    pub fn rows(&self) -> Rows<u32> {
        Rows([self.place(0).0, self.place(2).0])
    }
}

impl<const N: usize> Accumulator<N>
where
    M64<N>: Shape,
{
    /// Returns the largest of this thread's values in each of its two rows.
    ///
    /// (PTX `max.f32`.) See the example of [`Rows`].
    #[isa::forceinline]
    pub fn row_max(&self) -> RowParts {
        self.reduce::<2>(isa::math::max)
    }

    /// Returns the sum of this thread's values in each of its two rows.
    ///
    /// (PTX `add.f32`.) See the example of [`Rows`].
    #[isa::forceinline]
    pub fn row_sum(&self) -> RowParts {
        self.reduce::<2>(|a, b| a + b)
    }

    /// Reduces each row in `CHAINS` chains, so that no operation waits for the one before it.
    #[isa::forceinline]
    fn reduce<const CHAINS: usize>(&self, f: impl Fn(f32, f32) -> f32) -> RowParts {
        let v = self.values();
        RowParts(core::array::from_fn(|row| {
            // A row has two neighbours in each 8 columns, four registers apart.
            let at = |i: usize| v[i / 2 * 4 + 2 * row + i % 2];
            let mut chains: [f32; CHAINS] = core::array::from_fn(at);
            for i in CHAINS..N / 4 {
                chains[i % CHAINS] = f(chains[i % CHAINS], at(i));
            }
            let mut all = chains[0];
            for &chain in &chains[1..] {
                all = f(all, chain);
            }
            all
        }))
    }

    /// Replaces each value x by `f(x)`.
    ///
    /// ```
    /// # use warpipe_pipeline::prelude::*;
    /// fn relu(sum: &mut Accumulator<64>) { sum.map(|x| x.max(0.0)) }
    /// ```
    #[isa::forceinline]
    pub fn map(&mut self, mut f: impl FnMut(f32) -> f32) {
        for x in self.values_mut() {
            *x = f(*x);
        }
    }

    /// Replaces each value x by `f(x, y)`, where y is its row's value in `rows`.
    ///
    /// See the example of [`Rows`].
    #[isa::forceinline]
    pub fn map_rows<T: Copy>(&mut self, rows: Rows<T>, mut f: impl FnMut(f32, T) -> f32) {
        for (i, x) in self.values_mut().iter_mut().enumerate() {
            *x = f(*x, rows.0[row_of(i)]);
        }
    }

    /// Replaces each value x by `f(x, row, column)`: its place in the 64 rows and `N` columns.
    ///
    /// ```
    /// # use warpipe_pipeline::prelude::*;
    /// # roles! { Math = 2 x 240 registers }
    /// # type Group = Warpgroup<Math, Cluster<1, 1>>;
    /// /// Adds a bias that grows with the distance (ALiBi), if row 0 is query 0 and column 0 key 0.
    /// fn alibi(group: &Group, scores: &mut Accumulator<64>, slope: f32) {
    ///     scores.map_at(group, |x, row, column| x - slope * (row as f32 - column as f32));
    /// }
    /// ```
    #[isa::forceinline]
    pub fn map_at<Ro: Role, Cl: ClusterShape>(
        &mut self,
        group: &Warpgroup<Ro, Cl>,
        mut f: impl FnMut(f32, u32, u32) -> f32,
    ) {
        self.map_rows_at(group, Rows([(); 2]), |x, (), row, column| f(x, row, column));
    }

    /// Replaces each value x by `f(x, y, row, column)`: its row's value in `rows`, and its place in the 64 rows and `N` columns.
    ///
    /// ```
    /// # use warpipe_pipeline::{mma::Rows, prelude::*};
    /// # roles! { Math = 2 x 240 registers }
    /// # type Group = Warpgroup<Math, Cluster<1, 1>>;
    /// /// Adds a bias that grows with the distance, with a slope for each row.
    /// fn alibi(group: &Group, scores: &mut Accumulator<64>, slopes: Rows) {
    ///     scores.map_rows_at(group, slopes, |x, slope, row, column| {
    ///         x - slope * (row as f32 - column as f32)
    ///     });
    /// }
    /// ```
    #[isa::forceinline]
    pub fn map_rows_at<T: Copy, Ro: Role, Cl: ClusterShape>(
        &mut self,
        group: &Warpgroup<Ro, Cl>,
        rows: Rows<T>,
        mut f: impl FnMut(f32, T, u32, u32) -> f32,
    ) {
        let (numbers, first) = (group.rows(), group.place(0).1);
        for (i, x) in self.values_mut().iter_mut().enumerate() {
            let column = (i / 4 * 8 + i % 2) as u32;
            let row = row_of(i);
            *x = f(*x, rows.0[row], numbers.0[row], first + column);
        }
    }

    /// Replaces the values of each row by −∞, except those in columns `seen.0` to `seen.1` - 1.
    ///
    /// The bounds may lie outside of the accumulator. A first bound of `i32::MIN`, which hides nothing, costs
    /// nothing if the compiler knows it.
    ///
    /// (FlashAttention `Mask::apply`.)
    ///
    /// ```
    /// # use warpipe_pipeline::{mma::Rows, prelude::*};
    /// # roles! { Math = 2 x 240 registers }
    /// # type Group = Warpgroup<Math, Cluster<1, 1>>;
    /// /// Query `row` sees the keys up to its own.
    /// fn causal(group: &Group, scores: &mut Accumulator<64>, first_key: i32) {
    ///     let seen = group.rows().map(|row| (0, row as i32 + 1 - first_key));
    ///     scores.mask(group, seen);
    /// }
    /// ```
    #[isa::forceinline]
    pub fn mask<Ro: Role, Cl: ClusterShape>(
        &mut self,
        group: &Warpgroup<Ro, Cl>,
        seen: Rows<(i32, i32)>,
    ) {
        // Relative to this thread's first column, so that each value compares with a constant.
        let first = group.place(0).1 as i32;
        for (i, x) in self.values_mut().iter_mut().enumerate() {
            let column = (i / 4 * 8 + i % 2) as i32;
            let (from, end) = seen.0[row_of(i)];
            let before = from != i32::MIN && column < from - first;
            if before || column >= end - first {
                *x = f32::NEG_INFINITY;
            }
        }
    }
}
