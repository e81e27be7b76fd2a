//! Errors that a kernel may have in a row of attention, from how it computes.
//!
//! A kernel multiplies 16-bit operands, adds in f32, rounds the exponentials P to the operands' type for the second
//! product, and rounds O. With the unit roundoff `u` of the 16-bit type (2^-8 for bf16, 2^-11 for f16) and
//! `P = exp(score - max)`, `l = sum(P)`:
//!
//! - The rounding of P adds `sum(P_j d_j v_j) / l` to an element, with `|d_j| <= u`. If these errors are independent,
//!   their root mean square is `u / sqrt(3) * sqrt(sum(P_j^2 v_j^2)) / l`.
//! - The rounding of O adds at most `u |o|`.
//! - A score has an error of some 2^-23 of `scale |q| |k|` for each step of the tensor core, and that is a relative
//!   error of P. The soft-cap's `tanh.approx` adds 2^-11 of the score.
//! - The sums of the second product, and those of P, add some 2^-23 for each step.

use crate::attention::AttentionProblem;
use isa::kernel::Dtype;

/// Relative error of a step of an f32 sum in the tensor core, which truncates.
const STEP: f64 = 1.0 / (1 << 23) as f64;
/// Relative error of `tanh.approx.f32` (PTX ISA: 2^-10.987).
const TANH: f64 = 1.0 / 2000.0;
/// Half of the smallest subnormal f16.
const F16_FLUSH: f64 = 1.0 / (1 << 25) as f64;

/// Errors that a kernel may have in a row.
#[derive(Clone, Copy, Default)]
pub(super) struct Limits {
    /// Expected sum of the squared errors of the row's elements.
    pub squares: f64,
    /// Largest error of an element, except for a multiple of the element itself.
    pub element: f64,
    /// That multiple.
    pub rounding: f64,
    /// Largest error of the LSE.
    pub lse: f64,
}

/// Sums over the keys that a row sees, with `P` divided by its sum.
#[derive(Clone, Copy, Default)]
pub(super) struct Spread {
    /// Sum of `P^2 |v|^2`.
    pub squares: f64,
    /// Sum of `P max|v_i|`.
    pub absolute: f64,
    /// `squares` with the square of the score as a factor.
    pub scored_squares: f64,
    /// `absolute` with the score's absolute value as a factor.
    pub scored_absolute: f64,
    /// Largest `|v_i|`.
    pub most: f64,
}

/// A row that sees some key.
pub(super) struct Seen {
    /// Number of keys.
    pub keys: f64,
    /// Largest P divided by the sum.
    pub largest: f64,
    /// Largest `scale |q| |k|`, which no score exceeds.
    pub size: f64,
    /// Sum of the squares of O.
    pub norm: f64,
    /// Logarithm of the sum.
    pub lse: f64,
}

impl Limits {
    /// The limits of a row.
    pub fn new(problem: &AttentionProblem, spread: Spread, row: &Seen) -> Self {
        let Spread { squares, absolute, most, .. } = spread;
        let &Seen { keys, largest, size, norm, lse } = row;
        let dim = f64::from(problem.heads.dim);
        let (unit, flush) = match problem.dtype {
            Dtype::F16 => (1.0 / 2048.0, F16_FLUSH),
            _ => (1.0 / 256.0, 0.0),
        };
        let score = size * (dim / 16.0 + 2.0) * STEP;
        let cap = problem.softcap.map_or(0.0, |cap| size.min(cap.into()) * TANH);
        let sums = (keys / 16.0 + 8.0) * STEP;
        // P of the largest score is 1: what the smallest P lose, divided by the sum.
        let flushed = flush * largest * most;
        let of_p = (unit * unit / 3.0 + 4.0 * score * score) * squares
            + TANH * TANH * spread.scored_squares;
        let of_sums = sums * sums * (squares + norm);
        let of_flush = dim * (keys * flushed * flushed + flush * flush);
        // P is divided by a sum of values with the same errors, so those of the scores count twice.
        let by_scores = 2.0 * (score * absolute + TANH * spread.scored_absolute);
        Self {
            squares: of_p + unit * unit / 3.0 * norm + of_sums + of_flush,
            element: ((unit + sums) * absolute + by_scores) * 1.01 + keys * flushed + flush,
            rounding: unit * 1.01,
            lse: score + cap + keys * STEP / 8.0 + 8.0 * STEP + lse.abs() * 4.0 * STEP,
        }
    }
}
