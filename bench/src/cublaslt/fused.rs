//! Products of cuBLASLt with an epilogue.

use super::{CublasLt, CublasLtPlan, Desc};
use crate::error::Error;
use cudarc::cublaslt::sys::cublasLtEpilogue_t;
use cudarc::cublaslt::sys::cublasLtMatmulDescAttributes_t as Attribute;
use host::Buffer;
use host::gemm::GemmProblem;

/// An epilogue of cuBLASLt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epilogue {
    /// `CUBLASLT_EPILOGUE_BIAS`.
    Bias,
    /// `CUBLASLT_EPILOGUE_GELU_BIAS`: GELU of the product and the bias, in its form with a hyperbolic tangent.
    GeluBias,
}

impl CublasLt {
    /// [`CublasLt::plans`] with an epilogue. The bias has N values of the result's type, one for each column of D.
    ///
    /// # Errors
    /// [`host::Error::Bias`] for a bias of another length; [`host::Error::ForeignDevice`] for one of another device; the errors
    /// of [`CublasLt::plans`].
    pub fn plans_fused(
        &self,
        problem: &GemmProblem,
        bias: &Buffer,
        epilogue: Epilogue,
    ) -> Result<Vec<CublasLtPlan>, Error> {
        let (n, have) = (problem.n, bias.len() as u64);
        let need = n * problem.out.size() as u64;
        if have != need {
            let dtype = host::dtype_name(problem.out);
            return Err(host::Error::Bias { have, n, dtype, need }.into());
        }
        self.inner.device.check_buffer("bias", bias)?;
        let (desc, bias) = (Desc::new()?, bias.part(0, bias.len())?);
        let epilogue = match epilogue {
            Epilogue::Bias => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS,
            Epilogue::GeluBias => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU_BIAS,
        };
        desc.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue as u32)?;
        desc.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.addr())?;
        self.plans_of(problem, desc, vec![bias])
    }
}
