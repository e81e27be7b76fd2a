//! Operands in any layout, and batches of them, from `.safetensors` files.

use crate::args::TensorRef;
use crate::error::Error;
use crate::tensor_file::{self, Tensor};
use host::dtype_name;
use host::gemm::{Layout, Major, Order, StridedProblem};
use isa::kernel::Dtype;
use safetensors::tensor::Dtype as FileDtype;

/// A tensor of two or three dimensions.
struct Matrices {
    name: String,
    /// How many matrices there are; `None` without a third dimension.
    count: Option<u64>,
    /// Lines of a matrix in memory, and elements of a line.
    lines: u64,
    elements: u64,
    dtype: Dtype,
    data: Vec<u8>,
}

impl Matrices {
    fn of(operand: char, Tensor { name, dtype, shape, data }: Tensor) -> Result<Self, Error> {
        let size = |size: usize| size as u64;
        let (count, lines, elements) = match shape[..] {
            [lines, elements] => (None, size(lines), size(elements)),
            [count, lines, elements] => (Some(size(count)), size(lines), size(elements)),
            _ => return Err(Error::RankOfBatch { operand, name, shape }),
        };
        let dtype = match dtype {
            FileDtype::BF16 => Dtype::Bf16,
            FileDtype::F16 => Dtype::F16,
            other => {
                let right =
                    "with --layout or --column-major, A and B must be bf16 or f16".to_owned();
                return Err(Error::Dtype { operand, name, dtype: other.to_string(), right });
            }
        };
        Ok(Self { name, count, lines, elements, dtype, data })
    }

    /// Sizes along M or N, and along K.
    fn size(&self, major: Major) -> [u64; 2] {
        match major {
            Major::K => [self.lines, self.elements],
            Major::Mn => [self.elements, self.lines],
        }
    }
}

/// A product and its operands.
pub struct Product {
    pub problem: StridedProblem,
    /// Whether all products share B.
    pub broadcast_b: bool,
    /// Whether the tensors have a third dimension.
    pub batched: bool,
    pub a: Vec<u8>,
    pub b: Vec<u8>,
}

/// Reads A and B. Their shapes say the sizes of the product, the batch, and whether B is shared.
pub fn read(layout: Layout, order: Order, a: &TensorRef, b: &TensorRef) -> Result<Product, Error> {
    let a = Matrices::of('A', tensor_file::read(a)?)?;
    let b = Matrices::of('B', tensor_file::read(b)?)?;
    if a.dtype != b.dtype {
        let (a_dtype, b_dtype) = (dtype_name(a.dtype), dtype_name(b.dtype));
        return Err(Error::UnequalDtypes { a: a.name, a_dtype, b: b.name, b_dtype });
    }
    let ([m, a_k], [n, b_k]) = (a.size(layout.a), b.size(layout.b));
    if a_k != b_k {
        let (a, b) = (a.name, b.name);
        return Err(Error::InnerSizesOfLayout { a, a_k, b, b_k, layout });
    }
    let (batch, broadcast_b) = match (a.count, b.count) {
        (None, None) => (1, false),
        (Some(count), None) => (count, true),
        (Some(a_count), Some(b_count)) if a_count == b_count => (a_count, false),
        (a_count, b_count) => {
            let (a_count, b_count) = (a_count.unwrap_or(1), b_count.unwrap_or(1));
            return Err(Error::Batches { a: a.name, a_count, b: b.name, b_count });
        }
    };
    let (k, dtype, beta_c) = (a_k, a.dtype, false);
    let problem = StridedProblem { batch, m, n, k, dtype, layout, order, beta_c };
    problem.check()?;
    Ok(Product { problem, broadcast_b, batched: a.count.is_some(), a: a.data, b: b.data })
}

/// Reads C, which has the type and the shape of D in memory.
pub fn read_c(problem: &StridedProblem, batched: bool, c: &TensorRef) -> Result<Vec<u8>, Error> {
    let operand = 'C';
    let c = tensor_file::read(c)?;
    let [lines, elements] = problem.lines(operand).map(|size| size as usize);
    let shape = [problem.batch as usize, lines, elements];
    let right = if batched { &shape[..] } else { &shape[1..] };
    if c.shape != right {
        let want = format!("{right:?}, as D lies in memory,");
        return Err(Error::Shape { operand, name: c.name, shape: c.shape, want });
    }
    let Matrices { name, dtype, data, .. } = Matrices::of(operand, c)?;
    if dtype != problem.dtype {
        let right = format!("the result is {}, and so is C", dtype_name(problem.dtype));
        return Err(Error::Dtype { operand, name, dtype: dtype_name(dtype).to_owned(), right });
    }
    Ok(data)
}
