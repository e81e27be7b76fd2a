//! Products of cuBLASLt whose operands are e4m3 and have scales.
//!
//! As for the plain product, its A is our B: so the scales of its A are those of our B.

use super::{CublasLt, CublasLtPlan, Desc};
use crate::error::Error;
use crate::scales::{ProductScales, ScaleOf};
use cudarc::cublaslt::sys::cublasLtMatmulDescAttributes_t as Attribute;
use cudarc::cublaslt::sys::cublasLtMatmulMatrixScale_t as Mode;
use host::gemm::GemmProblem;

impl CublasLt {
    /// [`CublasLt::plans`] for operands of e4m3 with these scales. With `use_fast_accum` the tensor cores keep the sums.
    /// Scales of blocks have no fast accumulation.
    ///
    /// # Errors
    /// The errors of [`CublasLt::plans`]: among others, cuBLASLt refuses rows of A and B that are no multiple of 16 bytes.
    pub(crate) fn plans_scaled(
        &self,
        problem: &GemmProblem,
        scales: &ProductScales,
        use_fast_accum: bool,
    ) -> Result<Vec<CublasLtPlan>, Error> {
        let ProductScales { of, a, b, .. } = scales;
        for buffer in [a, b] {
            self.inner.device.check_buffer("scales", buffer)?;
        }
        let desc = Desc::new()?;
        let mode = match of {
            ScaleOf::Tensor => [Mode::CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F; 2],
            ScaleOf::Row => [Mode::CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F; 2],
            ScaleOf::Block => [
                Mode::CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
                Mode::CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
            ],
        };
        let (a, b) = (a.part(0, a.len())?, b.part(0, b.len())?);
        desc.set(Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode[0] as i32)?;
        desc.set(Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode[1] as i32)?;
        desc.set(Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, b.addr())?;
        desc.set(Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, a.addr())?;
        let fast = use_fast_accum && *of != ScaleOf::Block;
        desc.set(Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, i8::from(fast))?;
        self.plans_of(problem, desc, vec![a, b])
    }
}
