//! The problem that a GEMM plan is for: shape, element types, and their checks.

use crate::error::Error;
use crate::tensor_error::dtype_name;
use gpu_kernels::gemm::Epilogue;
use gpu_kernels::gemm::divmod::FastDivmod;
use isa::kernel::Dtype;

/// Sizes and types of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct GemmProblem {
    /// Rows of A, C and D.
    pub m: u64,
    /// Rows of B; columns of C and D. The D of a [gated](super::Gemm::gated) product has half as many.
    pub n: u64,
    /// Columns of A and B.
    pub k: u64,
    /// Element type of A and B: bf16, f16 or tf32 (which is f32 in memory).
    ///
    /// It is e4m3 for [`Gemm::scaled`](super::Gemm::scaled) and [`Gemm::block_scaled`](super::Gemm::block_scaled), and i8 for
    /// [`Gemm::int8`](super::Gemm::int8) and [`Gemm::int8_scaled`](super::Gemm::int8_scaled). For
    /// [`Gemm::scaled_mix`](super::Gemm::scaled_mix) it is the type of A, and B may have another one.
    pub ab: Dtype,
    /// Element type of C and D: bf16, f16 or f32; e4m3 for [`Gemm::quantised`](super::Gemm::quantised), i32 for
    /// [`Gemm::int8`](super::Gemm::int8).
    pub out: Dtype,
    /// Whether beta * C is added.
    pub beta_c: bool,
}

impl GemmProblem {
    /// Floating-point operations of the product, 2 * M * N * K.
    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Bytes of operand 'A', 'B', 'C' or 'D'.
    pub fn bytes(&self, operand: char) -> u64 {
        let (rows, cols, dtype) = self.shape(operand);
        rows.saturating_mul(cols).saturating_mul(dtype.size() as u64)
    }

    /// The problem whose `operand` has the shape that it has in a kernel with the epilogue `E`.
    pub(super) fn of<E: Epilogue>(&self, operand: char) -> Self {
        match operand {
            'C' | 'D' if E::GATED => Self { n: self.n / 2, ..*self },
            _ => *self,
        }
    }

    /// Rows, columns and type of an operand.
    pub(super) fn shape(&self, operand: char) -> (u64, u64, Dtype) {
        match operand {
            'A' => (self.m, self.k, self.ab),
            'B' => (self.n, self.k, self.ab),
            _ => (self.m, self.n, self.out),
        }
    }

    /// Checks that a buffer of `have` bytes has the size of this operand ('A', 'B', 'C' or 'D').
    ///
    /// # Errors
    /// [`Error::OperandSize`] if it has another size.
    pub fn check_size(&self, operand: char, have: u64) -> Result<(), Error> {
        let (rows, cols, dtype) = self.shape(operand);
        let (need, dtype) = (self.bytes(operand), dtype_name(dtype));
        if need == have {
            return Ok(());
        }
        Err(Error::OperandSize { operand, rows, cols, dtype, need, have })
    }

    /// Checks the types and sizes.
    ///
    /// # Errors
    /// [`Error::GemmDtype`] for types that no kernel supports, [`Error::SizeOverflow`] for sizes that a
    /// GPU cannot address.
    pub fn check(&self) -> Result<(), Error> {
        use Dtype::{Bf16, E4m3, E5m2, F16, F32, I8, I32, Tf32};
        if !matches!(self.ab, Bf16 | F16 | Tf32 | E4m3 | E5m2 | I8) {
            let (dtype, right) = (dtype_name(self.ab), "bf16, f16, tf32, e4m3, e5m2 or i8");
            return Err(Error::GemmDtype { side: "operands", dtype, right });
        }
        if !matches!(self.out, Bf16 | F16 | F32 | E4m3 | I32) {
            let (dtype, right) = (dtype_name(self.out), "bf16, f16, f32, e4m3 or i32");
            return Err(Error::GemmDtype { side: "result", dtype, right });
        }
        for (what, value) in [("M", self.m), ("N", self.n), ("K", self.k)] {
            if value > i32::MAX as u64 {
                let limit = "a dimension is at most 2^31-1, the limit of a TMA coordinate";
                return Err(Error::SizeOverflow { what, factors: value.to_string(), limit });
            }
        }
        for (what, operand) in [("bytes of A", 'A'), ("bytes of B", 'B'), ("bytes of D", 'D')] {
            let (rows, cols, dtype) = self.shape(operand);
            // Each factor is below 2^31, so the product with 4 bytes fits in a u64. A GPU's address space
            // has 47 bits.
            let bytes = rows * cols * dtype.size() as u64;
            if bytes >= 1 << 47 {
                let factors = format!("{rows} x {cols} x {}", dtype.size());
                let limit = "a GPU addresses less than 2^47 bytes";
                return Err(Error::SizeOverflow { what, factors, limit });
            }
        }
        // Kernels divide tile numbers by multiplying (`FastDivmod`), which limits them to 2^30. No tile of
        // the table is smaller than 16 x 16.
        let (rows, cols) = (self.m.div_ceil(16), self.n.div_ceil(16));
        if rows * cols >= u64::from(FastDivmod::DIVIDENDS) {
            let factors = format!("{rows} x {cols}");
            let limit = "a grid computes less than 2^30 tiles of 16 x 16 elements";
            return Err(Error::SizeOverflow { what: "tiles of D", factors, limit });
        }
        Ok(())
    }
}
