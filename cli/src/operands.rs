//! The operands of a product, read from files or generated, and the checks that they match.

use super::args::TensorRef;
use super::error::Error;
use super::tensor_file::{self, Tensor};
use host::data::decode;
use host::dtype_name;
use host::gemm::GemmProblem;
use isa::kernel::Dtype;
use safetensors::tensor::Dtype as FileDtype;

/// What A and B may be, in messages.
const OPERANDS: &str = "A and B must be bf16, f16, e4m3, e5m2 or i8";

/// TMA's coordinates are signed 32-bit numbers.
const MAX_DIMENSION: u64 = i32::MAX as u64;

/// A row-major matrix.
#[derive(Debug)]
pub struct Matrix {
    /// Its source, for messages.
    pub name: String,
    pub rows: u64,
    pub cols: u64,
    pub dtype: Dtype,
    pub data: Vec<u8>,
}

/// A product with its operands.
#[derive(Debug)]
pub struct Operands {
    pub problem: GemmProblem,
    pub a: Matrix,
    pub b: Matrix,
    pub c: Option<Matrix>,
    /// The seed of generated matrices.
    pub seed: Option<u64>,
}

/// A product of generated matrices.
#[derive(Clone, Copy, Debug)]
pub struct Generate {
    pub problem: GemmProblem,
    pub seed: u64,
}

impl Operands {
    /// Reads A, B and C. D has type `out`, or A's type by default. A and B may be f32 if `allow_tf32`.
    pub fn read(
        a: &TensorRef,
        b: &TensorRef,
        c: Option<&TensorRef>,
        out: Option<Dtype>,
        allow_tf32: bool,
    ) -> Result<Self, Error> {
        let mut a = matrix('A', tensor_file::read(a)?)?;
        let mut b = matrix('B', tensor_file::read(b)?)?;
        for (operand, tensor) in [('A', &mut a), ('B', &mut b)] {
            if tensor.dtype == Dtype::F32 && allow_tf32 {
                // As TMA would do: the reference has the same values.
                tensor.data = host::data::encode(&decode(&tensor.data, Dtype::F32)?, Dtype::Tf32)?;
                tensor.dtype = Dtype::Tf32;
            } else if tensor.dtype == Dtype::F32 {
                let right = format!("{OPERANDS}, or f32 with --allow-tf32");
                let (name, dtype) = (tensor.name.clone(), "f32".to_owned());
                return Err(Error::Dtype { operand, name, dtype, right });
            }
        }
        let float8 = |dtype| matches!(dtype, Dtype::E4m3 | Dtype::E5m2);
        if a.dtype != b.dtype && !(float8(a.dtype) && float8(b.dtype)) {
            let (a_dtype, b_dtype) = (dtype_name(a.dtype), dtype_name(b.dtype));
            return Err(Error::UnequalDtypes { a: a.name, a_dtype, b: b.name, b_dtype });
        }
        if a.cols != b.cols {
            let (m, a_k, n, b_k) = (a.rows, a.cols, b.rows, b.cols);
            return Err(Error::InnerSizes { a: a.name, m, a_k, b: b.name, n, b_k });
        }
        let out = out.unwrap_or(default_result(a.dtype));
        let problem =
            GemmProblem { m: a.rows, n: b.rows, k: a.cols, ab: a.dtype, out, beta_c: c.is_some() };
        check_size(&problem)?;
        let c = c.map(|c| read_c(c, &problem)).transpose()?;
        Ok(Self { problem, a, b, c, seed: None })
    }

    /// Makes matrices of normal values. The same seed gives the same values on every machine.
    pub fn generate(Generate { problem, seed }: Generate) -> Result<Self, Error> {
        check_size(&problem)?;
        let GemmProblem { m, n, k, ab, out, beta_c } = problem;
        // Each seed yields three seeds, so that no two matrices of any two seeds are equal.
        let make = |which: u64, rows: u64, cols: u64, dtype| {
            let seed = seed.wrapping_mul(3).wrapping_add(which);
            let values = host::data::normal(seed, (rows * cols) as usize);
            let data = host::data::encode(&values, dtype)?;
            Ok::<_, Error>(Matrix { name: "generated".to_owned(), rows, cols, dtype, data })
        };
        let c = beta_c.then(|| make(2, m, n, out)).transpose()?;
        let (a, b) = (make(0, m, k, ab)?, make(1, n, k, ab)?);
        Ok(Self { problem, a, b, c, seed: Some(seed) })
    }
}

/// Reads C, which has the shape and the type of D.
fn read_c(c: &TensorRef, problem: &GemmProblem) -> Result<Matrix, Error> {
    let c = matrix('C', tensor_file::read(c)?)?;
    let GemmProblem { m, n, out, .. } = *problem;
    if (c.rows, c.cols) != (m, n) {
        return Err(Error::ShapeOfC { c: c.name, rows: c.rows, cols: c.cols, m, n });
    }
    if c.dtype != out {
        let dtype = dtype_name(c.dtype);
        let right = format!(
            "the result is {}, and C must have the same type: give --out-dtype {dtype}",
            dtype_name(out)
        );
        return Err(Error::Dtype { operand: 'C', name: c.name, dtype: dtype.to_owned(), right });
    }
    Ok(c)
}

/// Converts a tensor to a matrix of a type that the GEMM supports.
fn matrix(operand: char, tensor: Tensor) -> Result<Matrix, Error> {
    let Tensor { name, dtype, shape, data } = tensor;
    let [rows, cols] = shape[..] else {
        return Err(Error::Rank { operand, name, shape });
    };
    let dtype = match dtype {
        FileDtype::BF16 => Dtype::Bf16,
        FileDtype::F16 => Dtype::F16,
        FileDtype::F32 => Dtype::F32,
        FileDtype::F8_E4M3 if operand != 'C' => Dtype::E4m3,
        FileDtype::F8_E5M2 if operand != 'C' => Dtype::E5m2,
        FileDtype::I8 if operand != 'C' => Dtype::I8,
        other => {
            let right = match operand {
                'C' => "C must be bf16, f16 or f32",
                _ => OPERANDS,
            };
            let (dtype, right) = (other.to_string(), right.to_owned());
            return Err(Error::Dtype { operand, name, dtype, right });
        }
    };
    Ok(Matrix { name, rows: rows as u64, cols: cols as u64, dtype, data })
}

/// The type of a result if none is named: that of the operands, bf16 for 8-bit floats, i32 for i8 and f32 for tf32.
pub fn default_result(operands: Dtype) -> Dtype {
    match operands {
        Dtype::E4m3 | Dtype::E5m2 => Dtype::Bf16,
        Dtype::I8 => Dtype::I32,
        Dtype::Tf32 => Dtype::F32,
        _ => operands,
    }
}

/// The safetensors type of an element type.
pub fn file_dtype(dtype: Dtype) -> FileDtype {
    match dtype {
        Dtype::Bf16 => FileDtype::BF16,
        Dtype::F16 => FileDtype::F16,
        // A tf32 is stored as the f32 that it is.
        Dtype::F32 | Dtype::Tf32 => FileDtype::F32,
        Dtype::U8 => FileDtype::U8,
        Dtype::U32 => FileDtype::U32,
        Dtype::E4m3 => FileDtype::F8_E4M3,
        Dtype::E5m2 => FileDtype::F8_E5M2,
        Dtype::I8 => FileDtype::I8,
        Dtype::I32 => FileDtype::I32,
    }
}

/// Checks that TMA can address the dimensions and that the host has memory for the operands.
pub fn check_size(problem: &GemmProblem) -> Result<(), Error> {
    let GemmProblem { m, n, k, ab, out, beta_c } = *problem;
    for (what, value) in [('M', m), ('N', n), ('K', k)] {
        if value > MAX_DIMENSION {
            return Err(Error::Dimension { what, value, limit: MAX_DIMENSION });
        }
    }
    let mut need = 0_u64;
    for (operand, rows, cols, dtype) in
        [('A', m, k, ab), ('B', n, k, ab), ('C', m, n, out), ('D', m, n, out)]
    {
        if operand == 'C' && !beta_c {
            continue;
        }
        let dtype_in_words = dtype_name(dtype);
        let bytes = rows.checked_mul(cols).and_then(|e| e.checked_mul(dtype.size() as u64));
        need = bytes.and_then(|bytes| need.checked_add(bytes)).ok_or(Error::SizeOverflow {
            operand,
            rows,
            cols,
            dtype: dtype_in_words,
        })?;
    }
    match free_memory() {
        Some(have) if need > have => Err(Error::Memory { m, n, k, need, have }),
        _ => Ok(()),
    }
}

/// Available memory in bytes; `None` where the system does not report it (it does on Linux).
pub fn free_memory() -> Option<u64> {
    let about = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = about.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}
