//! The layers of the suite "epilogue", and the comparison of their results with f64.

use crate::check::Values;
use crate::cublaslt::Epilogue;
use crate::line::Shape;
use crate::pool::Operand;
use gpu_kernels::gemm::fusion::EltAct;
use host::gemm::GemmProblem;
use host::reference::{Check, Layer as Reference, Product, sample};
use host::{Dtype, Error, data};
use serde::{Serialize, Serializer};
use std::fmt;

/// Rows of B in one block of a gated product: half of them are gates.
const BLOCK: usize = 16;

/// A linear layer: activation(A * B^T / sqrt(K) + bias) + residual, or the gates of SwiGLU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Layer {
    /// M, N and K of the product. With gates, N counts the gates and what belongs to them.
    #[serde(flatten)]
    pub shape: Shape,
    /// Whether each column has a bias.
    pub bias: bool,
    /// The activation.
    pub activation: Activation,
    /// Whether a matrix is added behind the activation.
    pub residual: bool,
    /// Whether the activation's results are gates, which halve the columns of D.
    pub gated: bool,
}

/// The activation of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// None.
    Identity,
    /// GELU by the error function. cuBLASLt's is the form with a hyperbolic tangent.
    Gelu,
    /// SiLU; with gates, SwiGLU.
    Silu,
}

impl Serialize for Activation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match self {
            Self::Identity => "identity",
            Self::Gelu => "gelu",
            Self::Silu => "silu",
        })
    }
}

/// The layers of the suite "epilogue".
pub const CASES: [Layer; 11] = {
    use Activation::{Gelu, Identity, Silu};
    let square = Shape { m: 4096, n: 4096, k: 4096 };
    let expansion = Shape { m: 8192, n: 14336, k: 4096 };
    let small = Shape { m: 2048, n: 8192, k: 2048 };
    [
        layer(square, Identity, false),
        layer(square, Gelu, false),
        layer(square, Silu, true),
        layer(expansion, Identity, false),
        layer(expansion, Gelu, false),
        layer(expansion, Silu, true),
        layer(small, Identity, false),
        layer(small, Gelu, false),
        layer(small, Silu, true),
        gates(Shape { m: 4096, n: 8192, k: 4096 }),
        gates(Shape { m: 8192, n: 28672, k: 4096 }),
    ]
};

/// The layers of other shapes: with bias, and with bias and GELU.
pub const fn of_shape(shape: Shape) -> [Layer; 2] {
    [layer(shape, Activation::Identity, false), layer(shape, Activation::Gelu, false)]
}

/// A layer with bias.
const fn layer(shape: Shape, activation: Activation, residual: bool) -> Layer {
    Layer { shape, bias: true, activation, residual, gated: false }
}

/// SwiGLU.
const fn gates(shape: Shape) -> Layer {
    Layer { shape, bias: false, activation: Activation::Silu, residual: false, gated: true }
}

impl fmt::Display for Layer {
    /// The epilogue as `warpipe gemm --epilogue` names it, and the shape.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let activation = match (self.activation, self.gated) {
            (Activation::Identity, _) => None,
            (Activation::Gelu, false) => Some("gelu"),
            (Activation::Gelu, true) => Some("geglu"),
            (Activation::Silu, false) => Some("silu"),
            (Activation::Silu, true) => Some("swiglu"),
        };
        let links = [self.bias.then_some("bias"), activation, self.residual.then_some("residual")];
        let links: Vec<&str> = links.into_iter().flatten().collect();
        write!(f, "{} {}", links.join("+"), self.shape)
    }
}

impl Layer {
    /// The product that a plan is made for. The residual is its C.
    pub fn problem(&self, dtype: Dtype) -> GemmProblem {
        let Shape { m, n, k } = self.shape;
        GemmProblem { m, n, k, ab: dtype, out: dtype, beta_c: self.residual }
    }

    /// Checks the sizes.
    pub(super) fn check(&self, dtype: Dtype) -> Result<(), crate::Error> {
        let Shape { m, n, k } = self.shape;
        // Whole blocks of B's rows are compared.
        for (what, value, least) in [("M", m, 1), ("N", n, BLOCK as u64), ("K", k, 1)] {
            if value < least {
                return Err(crate::Error::Setting { what, value, least });
            }
        }
        Ok(self.problem(dtype).check()?)
    }

    /// Columns of D.
    pub fn columns(&self) -> u64 {
        if self.gated { self.shape.n / 2 } else { self.shape.n }
    }

    /// Factor of the product.
    pub(super) fn alpha(&self) -> f32 {
        1.0 / (self.shape.k as f32).sqrt()
    }

    pub(super) fn activation(&self) -> EltAct {
        match self.activation {
            Activation::Identity => EltAct::IDENTITY,
            Activation::Gelu => EltAct::GELU,
            Activation::Silu => EltAct::SILU,
        }
    }

    /// The epilogue of cuBLASLt that computes this layer, if it has one.
    pub(super) fn rival(&self) -> Option<Epilogue> {
        match (self.bias, self.activation, self.residual || self.gated) {
            (true, Activation::Identity, false) => Some(Epilogue::Bias),
            (true, Activation::Gelu, false) => Some(Epilogue::GeluBias),
            _ => None,
        }
    }
}

/// Sampled rows of A, and of B and the bias in whole blocks, so that gates stay beside what belongs to them.
pub(super) struct Sampled {
    layer: Layer,
    dtype: Dtype,
    rows: Vec<usize>,
    blocks: Vec<usize>,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Option<Vec<f32>>,
    bias: Vec<f32>,
}

impl Sampled {
    pub fn of(
        layer: &Layer,
        problem: &GemmProblem,
        [a, b]: &[Operand<'_>; 2],
        c: Option<&Operand<'_>>,
        bias: &Operand<'_>,
    ) -> Self {
        let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as usize);
        let (rows, blocks) = (sample(m, 1), sample(n / BLOCK, 2));
        let columns: Vec<usize> =
            blocks.iter().flat_map(|block| block * BLOCK..(block + 1) * BLOCK).collect();
        let gather = |from: &Operand<'_>, rows: &[usize], cols: usize| {
            let mut values = vec![0.0; rows.len() * cols];
            for (row, out) in rows.iter().zip(values.chunks_exact_mut(cols.max(1))) {
                from.row(*row, out);
            }
            values
        };
        let pick = |row: &[f32]| columns.iter().map(|col| row[*col]).collect::<Vec<f32>>();
        let c = c.map(|c| gather(c, &rows, n).chunks_exact(n).flat_map(pick).collect());
        let bias = pick(&gather(bias, &[0], n));
        let (a, b) = (gather(a, &rows, k), gather(b, &columns, k));
        Self { layer: *layer, dtype: problem.out, rows, blocks, a, b, c, bias }
    }

    /// Compares `d`, the bytes of D, with the layer in f64.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if `d` does not have the size of D.
    pub fn check(&self, d: &[u8]) -> Result<Check, Error> {
        let Self { layer, rows, blocks, .. } = self;
        let columns = layer.columns() as usize;
        // A block of B's rows makes as many columns of D, or half as many.
        let width = if layer.gated { BLOCK / 2 } else { BLOCK };
        let size = self.dtype.size();
        let crossings: Vec<u8> = rows
            .iter()
            .flat_map(|row| blocks.iter().map(move |block| row * columns + block * width))
            .flat_map(|at| d[at * size..][..width * size].iter().copied())
            .collect();
        let d = data::decode(&crossings, self.dtype)?;
        let product = Product {
            m: rows.len(),
            n: blocks.len() * BLOCK,
            k: layer.shape.k as usize,
            a: &self.a,
            b: &self.b,
            c: self.c.as_deref(),
            alpha: layer.alpha(),
            beta: 0.0,
        };
        let reference = Reference {
            product,
            bias: layer.bias.then_some(&self.bias),
            activation: layer.activation(),
            residual: if layer.residual { 1.0 } else { 0.0 },
            gated: layer.gated,
        };
        reference.check(&d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_named_as_the_options_of_gemm() {
        let names: Vec<String> = CASES.iter().map(Layer::to_string).collect();
        assert_eq!(names[1], "bias+gelu 4096x4096x4096");
        assert_eq!(names[5], "bias+silu+residual 8192x14336x4096");
        assert_eq!(names[9], "swiglu 4096x8192x4096");
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name}");
        }
    }

    #[test]
    fn cublaslt_has_bias_and_gelu_and_nothing_else_of_it() {
        let rivals = CASES.iter().filter(|layer| layer.rival().is_some()).count();
        assert_eq!((rivals, CASES[0].rival()), (6, Some(Epilogue::Bias)));
        assert!(CASES.iter().all(|layer| layer.check(Dtype::Bf16).is_ok()));
        let mut empty = CASES[0];
        empty.shape.k = 0;
        let said = empty.check(Dtype::Bf16).unwrap_err().to_string();
        assert_eq!(said, "benchmark: K = 0; the least value is 1");
    }
}
