//! `--check`: the error bound of a product.

use super::error::Error;
use super::operands::{Matrix, Operands};
use super::scaled::{LARGEST_E4M3, Scales};
use host::data::decode;
use host::dtype_name;
use host::gemm::GemmProblem;
use host::reference::{Check, Product};
use isa::kernel::Dtype;
use serde::Serialize;

/// A comparison with its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Comparison of the result with the f64 product.
    #[serde(flatten)]
    pub check: Check,
    /// Limit of the relative error.
    pub bound: f64,
    /// Whether the relative error is below the bound.
    pub passed: bool,
}

/// Calls `f` with the product of the operands with their scales.
pub fn with_product<T>(
    operands: &Operands,
    [scale_a, scale_b]: [&Scales; 2],
    [alpha, beta]: [f32; 2],
    f: impl FnOnce(Product<'_>) -> Result<T, host::Error>,
) -> Result<T, host::Error> {
    let values = |matrix: &Matrix, scales: &Scales| {
        let mut values = decode(&matrix.data, matrix.dtype)?;
        scales.apply(&mut values, matrix.cols as usize);
        Ok::<_, host::Error>(values)
    };
    let (a, b) = (values(&operands.a, scale_a)?, values(&operands.b, scale_b)?);
    let c = operands.c.as_ref().map(|c| decode(&c.data, c.dtype)).transpose()?;
    let [m, n, k] = [operands.problem.m, operands.problem.n, operands.problem.k];
    let [m, n, k] = [m, n, k].map(|x| x as usize);
    f(Product { m, n, k, a: &a, b: &b, c: c.as_deref(), alpha, beta })
}

/// The bound for results of type `out` and sums of `k` terms.
///
/// Rounding the result changes it by at most half a unit in the last place: 2^-8 = 3.9e-3 of it for bf16 and
/// 2^-11 = 4.9e-4 for f16. The error of an f32 result comes from the
/// accumulation and grows with the number of partial sums, because the tensor core truncates.
pub fn bound(out: Dtype, k: u64) -> f64 {
    match out {
        Dtype::Bf16 => 4e-3,
        Dtype::F16 => 5e-4,
        _ => 1e-6 * (k as f64 / 512.0).max(1.0),
    }
}

/// The bound for the results of `problem`. A wgmma adds 8 products of tf32 or 16 of bf16, so with tf32 there are twice as many
/// partial sums.
pub fn bound_of(problem: &GemmProblem) -> f64 {
    let terms = if problem.ab == Dtype::Tf32 { 2 * problem.k } else { problem.k };
    bound(problem.out, terms)
}

impl Judged {
    /// Compares `d` with alpha * A * B^T + beta * C in f64.
    pub fn new(operands: &Operands, alpha: f32, beta: f32, d: &[u8]) -> Result<Self, host::Error> {
        let bound = bound_of(&operands.problem);
        let one = Scales::one(1.0);
        Self::with_scales(operands, [&one, &one], [alpha, beta], d, bound)
    }

    /// Compares `d` with alpha * scale of A * scale of B * A * B^T + beta * C in f64.
    pub fn with_scales(
        operands: &Operands,
        [scale_a, scale_b]: [&Scales; 2],
        [alpha, beta]: [f32; 2],
        d: &[u8],
        bound: f64,
    ) -> Result<Self, host::Error> {
        let d = decode(d, operands.problem.out)?;
        let check = with_product(operands, [scale_a, scale_b], [alpha, beta], |product| {
            // e4m3 has no number beyond its largest one.
            match operands.problem.out {
                Dtype::E4m3 => product.check_saturated(&d, LARGEST_E4M3),
                _ => product.check(&d),
            }
        })?;
        // An error that is not a number fails.
        Ok(Self { check, bound, passed: check.below(bound) })
    }

    /// Adds the comparison of another product: the relative error is the worse one.
    pub fn add(&mut self, other: &Self) {
        // An error that is not a number is the worst.
        if other.check.relative_error > self.check.relative_error || !other.passed {
            self.check.relative_error = other.check.relative_error;
        }
        self.passed &= other.passed;
        self.check.max_abs_error = self.check.max_abs_error.max(other.check.max_abs_error);
        self.check.compared += other.check.compared;
        self.check.elements += other.check.elements;
        self.check.sampled |= other.check.sampled;
    }

    /// An error if the check failed.
    pub fn verdict(&self, out: Dtype, k: u64) -> Result<(), Error> {
        if self.passed {
            return Ok(());
        }
        let (error, bound) = (self.check.relative_error, self.bound);
        Err(Error::Check { error, bound, dtype: dtype_name(out), k })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operands::Generate;
    use host::gemm::GemmProblem;

    fn judged(out: Dtype, tamper: impl FnOnce(&mut [f32])) -> Judged {
        let problem = GemmProblem { m: 9, n: 13, k: 40, ab: Dtype::Bf16, out, beta_c: true };
        let operands = Operands::generate(Generate { problem, seed: 3 }).unwrap();
        let values = |data: &[u8], dtype| decode(data, dtype).unwrap();
        let product = Product {
            m: 9,
            n: 13,
            k: 40,
            a: &values(&operands.a.data, Dtype::Bf16),
            b: &values(&operands.b.data, Dtype::Bf16),
            c: Some(&values(&operands.c.as_ref().unwrap().data, out)),
            alpha: -0.5,
            beta: 2.0,
        };
        let mut d: Vec<f32> = product.compute().unwrap().iter().map(|&x| x as f32).collect();
        tamper(&mut d);
        let d = host::data::encode(&d, out).unwrap();
        Judged::new(&operands, -0.5, 2.0, &d).unwrap()
    }

    #[test]
    fn a_rounded_product_passes() {
        for out in [Dtype::Bf16, Dtype::F16, Dtype::F32] {
            let judged = judged(out, |_| {});
            assert!(judged.passed, "{judged:?}");
            assert!(judged.verdict(out, 40).is_ok());
        }
    }

    #[test]
    fn one_wrong_element_fails_and_so_does_no_number() {
        for wrong in [7.0, f32::NAN, f32::INFINITY] {
            let judged = judged(Dtype::Bf16, |d| d[60] += wrong);
            assert!(!judged.passed, "{judged:?}");
            assert_eq!(judged.verdict(Dtype::Bf16, 40).unwrap_err().exit_code(), 1);
        }
    }

    #[test]
    fn the_bound_of_f32_grows_with_the_sum() {
        let bounds = [1, 512, 5120].map(|k| format!("{:.1e}", bound(Dtype::F32, k)));
        assert_eq!(bounds, ["1.0e-6", "1.0e-6", "1.0e-5"]);
        let of = |ab| GemmProblem { m: 1, n: 1, k: 4096, ab, out: Dtype::F32, beta_c: false };
        let bounds = [Dtype::Bf16, Dtype::Tf32].map(|ab| format!("{:.1e}", bound_of(&of(ab))));
        assert_eq!(bounds, ["8.0e-6", "1.6e-5"]);
    }
}
