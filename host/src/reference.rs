//! The product and attention in f64 on the CPU, and the error of a result.
//!
//! Products of bf16 or f16 values are exact in f64, and each addition of their sums has a relative
//! error of at most 2^-53. Up to [`FULL`] multiplications, every element is compared. Beyond that,
//! [`SAMPLES`] whole rows and [`SAMPLES`] whole columns are compared. A fixed seed chooses them, and the
//! first and the last are always among them.

mod attention;
mod layer;
mod limits;
mod pages;
mod strided;

pub use attention::{Attention, AttentionCheck};
pub use layer::Layer;
pub use pages::{Gathered, gather_pages};
pub use strided::StridedProduct;

use crate::error::Error;
use crate::tensor_error::dtype_name;
use isa::kernel::Dtype;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeSet;

/// Most multiplications with which every element is compared: a little more than 2048^3.
pub const FULL: u128 = 10_000_000_000;
/// Number of rows, and of columns, that are compared in a larger product.
pub const SAMPLES: usize = 64;
/// Columns of the product that are computed together.
const WIDTH: usize = 8;
/// Steps along K for which a block of B fits in the L1 cache of the CPU.
const DEPTH: usize = 512;

/// A product with the values of its operands, row-major without gaps.
#[derive(Clone, Copy)]
pub struct Product<'a> {
    /// Rows of A, C and D.
    pub m: usize,
    /// Rows of B; columns of C and D.
    pub n: usize,
    /// Columns of A and B.
    pub k: usize,
    /// A, [m, k].
    pub a: &'a [f32],
    /// B, [n, k].
    pub b: &'a [f32],
    /// C, [m, n]. It is not read when `beta` is 0.
    pub c: Option<&'a [f32]>,
    /// Factor of A * B^T.
    pub alpha: f32,
    /// Factor of C.
    pub beta: f32,
}

/// The error of a result against the reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Frobenius norm of the difference, divided by that of the reference. It is NaN or infinite if the
    /// result contains such values, or if the reference is zero and the result is not.
    pub relative_error: f64,
    /// Largest absolute difference of one element.
    pub max_abs_error: f64,
    /// Elements compared.
    pub compared: u64,
    /// Elements of D.
    pub elements: u64,
    /// Whether only some rows and columns were compared.
    pub sampled: bool,
}

impl Check {
    /// Whether the relative error is below `bound`. NaN is not.
    pub fn below(&self, bound: f64) -> bool {
        self.relative_error < bound
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "relative Frobenius error {:.3e}", self.relative_error)?;
        if self.sampled {
            write!(f, " over {} of {} elements", self.compared, self.elements)?;
            write!(f, " (whole rows and columns, sampled)")?;
        }
        Ok(())
    }
}

/// Sums of squares, and the largest difference, over some elements.
#[derive(Clone, Copy, Default)]
struct Sums {
    difference: f64,
    reference: f64,
    max: f64,
}

impl Product<'_> {
    /// Computes the whole product.
    ///
    /// # Errors
    /// [`Error::OperandSize`] if the length of a slice does not match the sizes.
    pub fn compute(&self) -> Result<Vec<f64>, Error> {
        self.sizes(None)?;
        let (rows, cols): (Vec<_>, Vec<_>) = ((0..self.m).collect(), (0..self.n).collect());
        let mut out = vec![0.0; self.m * self.n];
        let blocks: Vec<_> =
            cols.par_chunks(WIDTH).map(|cols| (cols, self.block(&rows, cols))).collect();
        for (cols, block) in blocks {
            for (row, values) in block.chunks_exact(cols.len()).enumerate() {
                out[row * self.n + cols[0]..][..cols.len()].copy_from_slice(values);
            }
        }
        Ok(out)
    }

    /// Compares `d` with the product: every element, or sampled rows and columns of a large product.
    ///
    /// # Errors
    /// The errors of [`Product::compute`].
    pub fn check(&self, d: &[f32]) -> Result<Check, Error> {
        self.check_up_to(d, FULL)
    }

    /// [`Product::check`] that samples a product of more than `full` multiplications.
    ///
    /// # Errors
    /// The errors of [`Product::compute`].
    pub fn check_up_to(&self, d: &[f32], full: u128) -> Result<Check, Error> {
        self.sizes(Some(d))?;
        let block = |rows: &[usize], cols: &[usize]| self.block(rows, cols);
        Ok(compare_up_to([self.m, self.n], self.multiplications(), d, full, block))
    }

    /// [`Product::check`] of a result whose type has no number beyond `largest`: a product beyond it becomes that number.
    ///
    /// # Errors
    /// The errors of [`Product::compute`].
    pub fn check_saturated(&self, d: &[f32], largest: f32) -> Result<Check, Error> {
        self.sizes(Some(d))?;
        let largest = f64::from(largest);
        let block = |rows: &[usize], cols: &[usize]| {
            let block = self.block(rows, cols);
            block.into_iter().map(|x| x.clamp(-largest, largest)).collect()
        };
        Ok(compare_up_to([self.m, self.n], self.multiplications(), d, FULL, block))
    }

    /// The largest magnitude of the product, or `None` if it has more than [`FULL`] multiplications. NaN if any element is.
    ///
    /// # Errors
    /// The errors of [`Product::compute`].
    pub fn amax(&self) -> Result<Option<f64>, Error> {
        if self.multiplications() > FULL {
            return Ok(None);
        }
        Ok(Some(self.compute()?.into_iter().fold(0.0, |max, x| larger(x.abs(), max))))
    }

    /// Multiplications of the product.
    fn multiplications(&self) -> u128 {
        self.m as u128 * self.n as u128 * self.k as u128
    }

    fn sizes(&self, d: Option<&[f32]>) -> Result<(), Error> {
        let Self { m, n, k, a, b, c, .. } = *self;
        let c = if self.beta == 0.0 { None } else { c };
        let all = [
            ('A', m, k, Some(a.len())),
            ('B', n, k, Some(b.len())),
            ('C', m, n, c.map(<[f32]>::len)),
            ('D', m, n, d.map(<[f32]>::len)),
        ];
        for (operand, rows, cols, len) in all {
            let need = rows.checked_mul(cols);
            if len.is_some_and(|len| Some(len) != need) {
                return Err(Error::OperandSize {
                    operand,
                    rows: rows as u64,
                    cols: cols as u64,
                    dtype: dtype_name(Dtype::F32),
                    need: need.map_or(u64::MAX, |n| 4 * n as u64),
                    have: len.map_or(0, |n| 4 * n as u64),
                });
            }
        }
        Ok(())
    }

    /// Computes the product at `rows` x `cols`, at most [`WIDTH`] columns, row by row.
    fn block(&self, rows: &[usize], cols: &[usize]) -> Vec<f64> {
        let mut block = vec![0.0; rows.len() * WIDTH];
        let mut panel = vec![[0.0; WIDTH]; DEPTH];
        for start in (0..self.k).step_by(DEPTH) {
            let depth = DEPTH.min(self.k - start);
            for (j, &col) in cols.iter().enumerate() {
                let values = &self.b[col * self.k + start..][..depth];
                for (lane, &value) in panel.iter_mut().zip(values) {
                    lane[j] = f64::from(value);
                }
            }
            for (&row, sums) in rows.iter().zip(block.chunks_exact_mut(WIDTH)) {
                accumulate(sums, &self.a[row * self.k + start..][..depth], &panel);
            }
        }
        self.scale(rows, cols, &mut block);
        if cols.len() < WIDTH {
            block = block.chunks_exact(WIDTH).flat_map(|row| &row[..cols.len()]).copied().collect();
        }
        block
    }

    /// Turns the sums in `block` into alpha * sum + beta * C.
    fn scale(&self, rows: &[usize], cols: &[usize], block: &mut [f64]) {
        let (alpha, beta) = (f64::from(self.alpha), f64::from(self.beta));
        for (&row, sums) in rows.iter().zip(block.chunks_exact_mut(WIDTH)) {
            for (&col, sum) in cols.iter().zip(sums) {
                *sum *= alpha;
                if let Some(c) = self.c.filter(|_| beta != 0.0) {
                    *sum += beta * f64::from(c[row * self.n + col]);
                }
            }
        }
    }
}

/// Compares `d`, `[m, n]`, with what `block` computes at rows x columns, row by row and at most [`WIDTH`] columns:
/// every element if there are no more than [`FULL`] multiplications.
fn compare(
    [m, n]: [usize; 2],
    multiplications: u128,
    d: &[f32],
    block: impl Fn(&[usize], &[usize]) -> Vec<f64> + Sync,
) -> Check {
    compare_up_to([m, n], multiplications, d, FULL, block)
}

fn compare_up_to(
    [m, n]: [usize; 2],
    multiplications: u128,
    d: &[f32],
    full: u128,
    block: impl Fn(&[usize], &[usize]) -> Vec<f64> + Sync,
) -> Check {
    let all = |len: usize| (0..len).collect::<Vec<_>>();
    let sampled = multiplications > full;
    let parts = if sampled {
        vec![(sample(m, 1), all(n)), (all(m), sample(n, 2))]
    } else {
        vec![(all(m), all(n))]
    };
    let mut sums = Sums::default();
    let mut compared = 0;
    for (rows, cols) in &parts {
        compared += rows.len() as u64 * cols.len() as u64;
        let blocks: Vec<Sums> = cols
            .par_chunks(WIDTH)
            .map(|cols| differences(rows, cols, &block(rows, cols), d, n))
            .collect();
        // The blocks are added in order, so that the sum does not depend on the threads.
        for s in blocks {
            sums.difference += s.difference;
            sums.reference += s.reference;
            sums.max = larger(sums.max, s.max);
        }
    }
    let ratio = sums.difference.sqrt() / sums.reference.sqrt();
    Check {
        relative_error: if sums.difference == 0.0 { 0.0 } else { ratio },
        max_abs_error: sums.max,
        compared,
        elements: m as u64 * n as u64,
        sampled,
    }
}

fn differences(rows: &[usize], cols: &[usize], block: &[f64], d: &[f32], n: usize) -> Sums {
    let mut s = Sums::default();
    for (&row, values) in rows.iter().zip(block.chunks_exact(cols.len())) {
        for (&col, &value) in cols.iter().zip(values) {
            let difference = f64::from(d[row * n + col]) - value;
            s.difference += difference * difference;
            s.reference += value * value;
            s.max = larger(s.max, difference.abs());
        }
    }
    s
}

/// Adds `a[i] * panel[i]` for all i. The lanes are independent sums, so that the loop vectorises.
fn accumulate(sums: &mut [f64], a: &[f32], panel: &[[f64; WIDTH]]) {
    let mut lanes: [f64; WIDTH] = std::array::from_fn(|j| sums[j]);
    for (&x, b) in a.iter().zip(panel) {
        let x = f64::from(x);
        for j in 0..WIDTH {
            lanes[j] += x * b[j];
        }
    }
    sums.copy_from_slice(&lanes);
}

/// The larger of two, or NaN if either is (`f64::max` drops NaN).
fn larger(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() { a } else { b }
}

/// At most [`SAMPLES`] indices below `len`, sorted, including the first and the last.
pub fn sample(len: usize, seed: u64) -> Vec<usize> {
    if len <= SAMPLES {
        return (0..len).collect();
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut chosen = BTreeSet::from([0, len - 1]);
    while chosen.len() < SAMPLES {
        chosen.insert((rng.next_u64() % len as u64) as usize);
    }
    chosen.into_iter().collect()
}
