//! The product that a plan is made for: sizes, layouts and the batch.

use super::error::StridedError;
use crate::error::Error;
use crate::gemm::GemmProblem;
use crate::tensor_error::dtype_name;
use gpu_kernels::gemm::Instance;
use gpu_kernels::gemm::divmod::FastDivmod;
use isa::kernel::Dtype;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Along which dimension the elements of A or B lie side by side. (CUTLASS `GMMA::Major`.)
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Major {
    /// Along K: A lies in memory as [M, K], B as [N, K].
    K,
    /// Along M or N: A lies in memory as [K, M], B as [K, N].
    Mn,
}

/// How D lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Order {
    /// [M, N].
    RowMajor,
    /// [N, M]. The plan exchanges the operands: D^T = B * A^T.
    ColumnMajor,
}

/// The layouts of A and B.
///
/// The text form is the name in BLAS. BLAS matrices are column-major. Each letter says whether the operand is transposed
/// (`t`) or not (`n`):
///
/// | text | A in memory | B in memory | torch, of contiguous a and b |
/// |---|---|---|---|
/// | `tn` | [M, K] | [N, K] | `a @ b.T`, which [`Gemm::plan`](crate::gemm::Gemm::plan) computes |
/// | `tt` | [M, K] | [K, N] | `a @ b` |
/// | `nn` | [K, M] | [N, K] | `a.T @ b.T` |
/// | `nt` | [K, M] | [K, N] | `a.T @ b` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Layout {
    /// The layout of A.
    pub a: Major,
    /// The layout of B.
    pub b: Major,
}

impl Layout {
    /// All four layouts.
    pub const ALL: [Self; 4] = [
        Self { a: Major::K, b: Major::K },
        Self { a: Major::K, b: Major::Mn },
        Self { a: Major::Mn, b: Major::K },
        Self { a: Major::Mn, b: Major::Mn },
    ];

    /// The layouts of an instance's operands.
    pub(super) fn of(instance: &Instance) -> Self {
        let major = |mn| if mn { Major::Mn } else { Major::K };
        Self { a: major(instance.a_mn_major), b: major(instance.b_mn_major) }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let a = if self.a == Major::K { 't' } else { 'n' };
        let b = if self.b == Major::K { 'n' } else { 't' };
        f.pad(&format!("{a}{b}"))
    }
}

impl FromStr for Layout {
    type Err = StridedError;

    fn from_str(text: &str) -> Result<Self, StridedError> {
        let known = Self::ALL.into_iter().find(|layout| layout.to_string() == text);
        known.ok_or_else(|| StridedError::Layout { text: text.to_owned() })
    }
}

/// Sizes, types and layouts of a batch of products.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StridedProblem {
    /// Matrices of the batch; 1 for a product alone.
    pub batch: u64,
    /// Rows of A and D.
    pub m: u64,
    /// Rows of B, columns of D.
    pub n: u64,
    /// Columns of A and B.
    pub k: u64,
    /// Element type of all operands: bf16 or f16.
    pub dtype: Dtype,
    /// How A and B lie in memory.
    pub layout: Layout,
    /// How D lies in memory, and C.
    pub order: Order,
    /// Whether beta * C is added.
    pub beta_c: bool,
}

impl StridedProblem {
    /// Floating-point operations of all products, 2 * batch * M * N * K.
    pub fn flops(&self) -> f64 {
        2.0 * self.batch as f64 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Lines of a matrix of operand 'A', 'B', 'C' or 'D' in memory, and elements of a line.
    pub fn lines(&self, operand: char) -> [u64; 2] {
        let Self { m, n, k, layout, order, .. } = *self;
        match (operand, layout.a, layout.b, order) {
            ('A', Major::K, ..) => [m, k],
            ('A', Major::Mn, ..) => [k, m],
            ('B', _, Major::K, _) => [n, k],
            ('B', _, Major::Mn, _) => [k, n],
            (_, _, _, Order::RowMajor) => [m, n],
            (_, _, _, Order::ColumnMajor) => [n, m],
        }
    }

    /// Bytes of operand 'A', 'B', 'C' or 'D' with all of its matrices, without gaps.
    pub fn bytes(&self, operand: char) -> u64 {
        let [lines, elements] = self.lines(operand);
        let matrix = lines.saturating_mul(elements).saturating_mul(self.dtype.size() as u64);
        matrix.saturating_mul(self.batch)
    }

    /// The product as the kernel computes it: the operands are exchanged if D is column-major.
    pub(super) fn of_kernel(&self) -> Self {
        match self.order {
            Order::RowMajor => *self,
            Order::ColumnMajor => Self {
                m: self.n,
                n: self.m,
                layout: Layout { a: self.layout.b, b: self.layout.a },
                order: Order::RowMajor,
                ..*self
            },
        }
    }

    /// One product of the batch, without its layouts.
    pub(super) fn matrix(&self) -> GemmProblem {
        let Self { m, n, k, dtype, beta_c, .. } = *self;
        GemmProblem { m, n, k, ab: dtype, out: dtype, beta_c }
    }

    /// A single product with the same tiles as the whole batch: the matrices are stacked along M, and each is padded to
    /// whole cluster tiles. The picker uses the schedules and predictions of this product.
    pub(super) fn stacked(&self, instance: &Instance) -> GemmProblem {
        let matrix = self.matrix();
        if self.batch == 1 {
            return matrix;
        }
        let rows = u64::from(instance.bm * instance.cluster_m);
        GemmProblem { m: self.batch * self.m.next_multiple_of(rows), ..matrix }
    }

    /// Checks types and sizes.
    ///
    /// # Errors
    /// [`StridedError::Dtype`] for types without kernels; [`StridedError::TooManyTiles`]; [`Error::SizeOverflow`] for sizes that a
    /// GPU cannot address.
    pub fn check(&self) -> Result<(), Error> {
        let Self { batch, m, n, .. } = *self;
        let refuse = |right| StridedError::Dtype {
            dtype: dtype_name(self.dtype),
            layout: self.layout.to_string(),
            batch,
            right,
        };
        let k_major = self.layout == Layout::ALL[0];
        match self.dtype {
            Dtype::Bf16 | Dtype::F16 => {}
            Dtype::E4m3 if k_major => {
                return Err(refuse(
                    "single products of e4m3 are Gemm::scaled's; batches are of bf16 or f16",
                )
                .into());
            }
            _ if self.dtype.size() == 1 && !k_major => {
                return Err(refuse("wgmma reads 8-bit operands K-major only, which is tn").into());
            }
            _ => return Err(refuse("bf16 or f16 is right").into()),
        }
        self.matrix().check()?;
        let limit = "a dimension is at most 2^31-1, the limit of a TMA coordinate";
        if batch > i32::MAX as u64 {
            return Err(Error::SizeOverflow { what: "batch", factors: batch.to_string(), limit });
        }
        let tiles = m.div_ceil(16) * n.div_ceil(16);
        // Tiles at the edges of a cluster tile count too: no cluster tile of the table has more than 16 x 16 of these.
        if tiles.saturating_mul(batch) >= u64::from(FastDivmod::DIVIDENDS) {
            return Err(StridedError::TooManyTiles { batch, m, n }.into());
        }
        Ok(())
    }

    /// Whether D has no elements.
    pub(super) fn is_empty(&self) -> bool {
        self.batch == 0 || self.m == 0 || self.n == 0
    }
}
