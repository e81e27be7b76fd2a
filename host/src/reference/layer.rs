//! A linear layer in f64: the product, a bias, an activation, a residual, gates.

use super::{Check, Product, compare};
use crate::error::Error;
use gpu_kernels::gemm::fusion::EltAct;

/// A linear layer with the values of its operands: activation(product + bias) + residual * C.
///
/// A gated layer has activation(gate) * up, where both are columns of product + bias. Its D has half as many columns.
#[derive(Clone, Copy)]
pub struct Layer<'a> {
    /// The product, and beta * C.
    pub product: Product<'a>,
    /// One value for each row of B.
    pub bias: Option<&'a [f32]>,
    /// The activation.
    pub activation: EltAct,
    /// Factor of the product's C behind the activation.
    pub residual: f32,
    /// Whether rows of B come in blocks of 8, gates and then what belongs to them.
    pub gated: bool,
}

impl Layer<'_> {
    /// Columns of D.
    fn columns(&self) -> usize {
        if self.gated { self.product.n / 2 } else { self.product.n }
    }

    /// Compares `d` with the layer: every element, or sampled rows and columns of a large one.
    ///
    /// # Errors
    /// [`Error::OperandSize`] if the length of a slice does not match the sizes; [`Error::Bias`]; [`Error::GatedRows`].
    pub fn check(&self, d: &[f32]) -> Result<Check, Error> {
        let product = &self.product;
        if self.gated && !product.n.is_multiple_of(16) {
            return Err(Error::GatedRows { n: product.n as u64 });
        }
        let n = product.n as u64;
        if let Some(have) =
            self.bias.map(|bias| 4 * bias.len() as u64).filter(|&have| have != 4 * n)
        {
            return Err(Error::Bias { have, n, dtype: "f32", need: 4 * n });
        }
        product.sizes(None)?;
        let result = Product { n: self.columns(), b: &[], k: 0, a: &[], c: None, ..*product };
        result.sizes(Some(d))?;
        let block = |rows: &[usize], cols: &[usize]| self.block(rows, cols);
        Ok(compare([product.m, self.columns()], product.multiplications(), d, block))
    }

    /// The elements of D at `rows` x `cols`, row by row.
    fn block(&self, rows: &[usize], cols: &[usize]) -> Vec<f64> {
        let Self { product, activation, residual, gated, .. } = *self;
        if gated {
            let of = |first: usize| {
                let cols: Vec<_> = cols.iter().map(|col| col / 8 * 16 + first + col % 8).collect();
                self.biased(rows, &cols)
            };
            let pairs = of(0).into_iter().zip(of(8));
            return pairs.map(|(gate, up)| activated(activation, gate) * up).collect();
        }
        let mut block = self.biased(rows, cols);
        for (i, x) in block.iter_mut().enumerate() {
            *x = activated(activation, *x);
            if let Some(c) = product.c.filter(|_| residual != 0.0) {
                let (row, col) = (rows[i / cols.len()], cols[i % cols.len()]);
                *x += f64::from(residual) * f64::from(c[row * product.n + col]);
            }
        }
        block
    }

    fn biased(&self, rows: &[usize], cols: &[usize]) -> Vec<f64> {
        let mut block = self.product.block(rows, cols);
        if let Some(bias) = self.bias {
            for (i, x) in block.iter_mut().enumerate() {
                *x += f64::from(bias[cols[i % cols.len()]]);
            }
        }
        block
    }
}

/// An activation in f64.
fn activated(activation: EltAct, x: f64) -> f64 {
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    if activation == EltAct::RELU {
        x.max(0.0)
    } else if activation == EltAct::SILU {
        x * logistic(x)
    } else if activation == EltAct::GELU {
        0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
    } else if activation == EltAct::GELU_TANH {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
        0.5 * x * (1.0 + inner.tanh())
    } else {
        x
    }
}

/// The error function, with an absolute error of at most 1e-12, by a series whose terms have one sign.
fn erf(x: f64) -> f64 {
    // From there on it is 1 up to 3e-17.
    if x.is_nan() || x.abs() > 6.0 {
        return if x.is_nan() { x } else { x.signum() };
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the tables of the error function and of torch 2.
    #[test]
    fn known_values() {
        assert!((erf(1.0) - 0.842_700_792_949_714_9).abs() < 1e-12);
        assert!((erf(3.5) - 0.999_999_256_901_627_7).abs() < 1e-12);
        assert!((erf(-4.9) + 1.0).abs() < 1e-11 && (erf(-7.0) + 1.0).abs() < 1e-15);
        let near = |act, x, y: f64| assert!((activated(act, x) - y).abs() < 1e-6, "{act:?} {x}");
        near(EltAct::GELU, 1.0, 0.841_344_75);
        near(EltAct::GELU_TANH, 1.0, 0.841_192);
        near(EltAct::SILU, -1.0, -0.268_941_42);
        near(EltAct::RELU, -1.0, 0.0);
        near(EltAct::IDENTITY, -1.0, -1.0);
    }

    #[test]
    fn gates_are_the_first_eight_of_sixteen() {
        // One row: the product is B's only column, so D's is relu(gate) * up.
        let b: Vec<f32> = (0..32).map(|i| i as f32 - 8.0).collect();
        let (m, n, k, alpha, beta) = (1, 32, 1, 1.0, 0.0);
        let product = Product { m, n, k, a: &[1.0], b: &b, c: None, alpha, beta };
        let ones = [1.0; 32];
        let (bias, activation, residual) = (Some(&ones[..]), EltAct::RELU, 0.0);
        let layer = Layer { product, bias, activation, residual, gated: true };
        let want = |col: usize| {
            let gate = b[col / 8 * 16 + col % 8] + 1.0;
            gate.max(0.0) * (b[col / 8 * 16 + 8 + col % 8] + 1.0)
        };
        let d: Vec<f32> = (0..16).map(want).collect();
        assert!(layer.check(&d).unwrap().below(1e-9));
        assert!(matches!(layer.check(&d[1..]), Err(Error::OperandSize { operand: 'D', .. })));
        let short = Layer { bias: Some(&[0.0; 16]), ..layer };
        assert!(matches!(short.check(&d), Err(Error::Bias { n: 32, .. })));
    }
}
