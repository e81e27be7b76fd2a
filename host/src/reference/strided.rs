//! A batch of products in any layout, in f64.

use super::{Check, Product};
use crate::error::Error;
use crate::gemm::{Major, Order, StridedProblem};
use crate::tensor_error::dtype_name;
use isa::kernel::Dtype;

/// A batch of products with the values of its operands in the order in which they lie in memory, without gaps.
#[derive(Clone, Copy)]
pub struct StridedProduct<'a> {
    /// Sizes and layouts.
    pub problem: StridedProblem,
    /// A: `batch` matrices, or one that all products share.
    pub a: &'a [f32],
    /// B: `batch` matrices, or one.
    pub b: &'a [f32],
    /// C, if the problem has it: `batch` matrices, or one.
    pub c: Option<&'a [f32]>,
    /// Factor of each product.
    pub alpha: f32,
    /// Factor of C.
    pub beta: f32,
}

impl StridedProduct<'_> {
    /// Compares `d`, in the order of its memory, with the products: each one as [`Product::check`] does. The result has the
    /// largest error of a product.
    ///
    /// # Errors
    /// [`Error::OperandSize`] if the length of a slice does not match the sizes.
    pub fn check(&self, d: &[f32]) -> Result<Check, Error> {
        let StridedProblem { batch, m, n, k, layout, order, .. } = self.problem;
        let none = Check {
            relative_error: 0.0,
            max_abs_error: 0.0,
            compared: 0,
            elements: 0,
            sampled: false,
        };
        let mut all = none;
        for matrix in 0..batch {
            let a = self.rows('A', self.a, matrix, layout.a == Major::Mn)?;
            let b = self.rows('B', self.b, matrix, layout.b == Major::Mn)?;
            let turned = order == Order::ColumnMajor;
            let c = self.c.map(|c| self.rows('C', c, matrix, turned)).transpose()?;
            let d = self.rows('D', d, matrix, turned)?;
            let [m, n, k] = [m, n, k].map(|x| x as usize);
            let (c, alpha, beta) = (c.as_deref(), self.alpha, self.beta);
            let one = Product { m, n, k, a: &a, b: &b, c, alpha, beta }.check(&d)?;
            all.relative_error = larger(all.relative_error, one.relative_error);
            all.max_abs_error = larger(all.max_abs_error, one.max_abs_error);
            all.compared += one.compared;
            all.elements += one.elements;
            all.sampled |= one.sampled;
        }
        Ok(all)
    }

    /// A matrix of an operand, row by row. `turned` says whether the lines of memory are its columns.
    fn rows(
        &self,
        operand: char,
        values: &[f32],
        matrix: u64,
        turned: bool,
    ) -> Result<Vec<f32>, Error> {
        let [lines, elements] = self.problem.lines(operand).map(|x| x as usize);
        let len = lines * elements;
        let shared = operand != 'D' && values.len() == len;
        let need = len as u64 * if shared { 1 } else { self.problem.batch };
        if values.len() as u64 != need {
            let (rows, cols) = ((lines as u64) * self.problem.batch, elements as u64);
            let (dtype, have) = (dtype_name(Dtype::F32), 4 * values.len() as u64);
            return Err(Error::OperandSize { operand, rows, cols, dtype, need: 4 * need, have });
        }
        let values = &values[if shared { 0 } else { matrix as usize * len }..][..len];
        if !turned {
            return Ok(values.to_vec());
        }
        let column = |column: usize| (0..lines).map(move |line| values[line * elements + column]);
        Ok((0..elements).flat_map(column).collect())
    }
}

/// The larger of two, or NaN if either is.
fn larger(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::Layout;

    /// Two products of 2 x 1 by 1 x 3, written out for each layout.
    #[test]
    fn each_layout_of_two_matrices() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
        let by_rows = [5.0, 6.0, 7.0, 10.0, 12.0, 14.0, 24.0, 27.0, 30.0, 32.0, 36.0, 40.0];
        let by_columns = [5.0, 10.0, 6.0, 12.0, 7.0, 14.0, 24.0, 32.0, 27.0, 36.0, 30.0, 40.0];
        for layout in Layout::ALL {
            for (order, d) in [(Order::RowMajor, by_rows), (Order::ColumnMajor, by_columns)] {
                let dtype = Dtype::Bf16;
                let (batch, m, n, k, beta_c) = (2, 2, 3, 1, false);
                let problem = StridedProblem { batch, m, n, k, dtype, layout, order, beta_c };
                let product =
                    StridedProduct { problem, a: &a, b: &b, c: None, alpha: 1.0, beta: 0.0 };
                let check = product.check(&d).unwrap();
                assert_eq!((check.relative_error, check.compared), (0.0, 12), "{problem:?}");
                let mut wrong = d;
                wrong.swap(1, 2);
                assert!(product.check(&wrong).unwrap().max_abs_error > 0.5);
                assert!(product.check(&d[1..]).is_err());
                // C lies as D does: with C = D, alpha = 2 and beta = -1, D is what it was.
                let problem = StridedProblem { beta_c: true, ..problem };
                let with_c =
                    StridedProduct { problem, c: Some(&d), alpha: 2.0, beta: -1.0, ..product };
                assert!(with_c.check(&d).unwrap().below(1e-12));
                assert!(with_c.check(&wrong).unwrap().max_abs_error > 0.5);
            }
        }
        // With K = 2 the lines of an MN-major operand are its columns; A is shared.
        let problem = StridedProblem {
            batch: 2,
            m: 1,
            n: 2,
            k: 2,
            dtype: Dtype::F16,
            layout: Layout { a: Major::K, b: Major::Mn },
            order: Order::RowMajor,
            beta_c: false,
        };
        let b = [1.0, 2.0, 3.0, 4.0, 0.0, 1.0, 1.0, 0.0];
        let (a, c) = (&[10.0, 1.0], None);
        let product = StridedProduct { problem, a, b: &b, c, alpha: 2.0, beta: 0.0 };
        let check = product.check(&[26.0, 48.0, 2.0, 20.0]).unwrap();
        assert_eq!((check.relative_error, check.elements), (0.0, 4));
    }
}
