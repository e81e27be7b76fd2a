//! Products of cuBLASLt with layouts and batches.
//!
//! As for the plain product, its A is our B. An operand that is K-major for us has K rows there.

use super::{BLANK, CublasLt, Desc, Inner, Layout, Preference, WORKSPACE_BYTES, data_type, failed};
use crate::error::Error;
use cudarc::cublaslt::result;
use cudarc::cublaslt::sys;
use host::gemm::{Major, Order, StridedProblem};
use host::{Buffer, Stream};

/// A batch of products with the kernel that cuBLASLt's heuristic proposes first. Operands and result have no gaps.
pub struct CublasLtStrided {
    lt: CublasLt,
    problem: StridedProblem,
    desc: Desc,
    /// Of our B, A and D.
    layouts: [Layout; 3],
    algo: sys::cublasLtMatmulAlgo_t,
}

impl CublasLt {
    /// Asks cuBLASLt's heuristic for the best kernel for a batch of products with a row-major D.
    ///
    /// # Errors
    /// [`Error::CublasLt`] for a column-major D, and for what cuBLASLt refuses.
    pub fn plan_strided(&self, problem: &StridedProblem) -> Result<CublasLtStrided, Error> {
        let heuristic = "cublasLtMatmulAlgoGetHeuristic";
        let StridedProblem { m, n, k, layout, dtype, order, .. } = *problem;
        if order == Order::ColumnMajor {
            let status = "D is column-major; a row-major one is right here".to_owned();
            return Err(Error::CublasLt { call: heuristic, status });
        }
        self.inner.device.make_current()?;
        let dtype = data_type(dtype)?;
        // Column-major, an operand that is K-major for us is [K, rows]: cuBLASLt's A is transposed then, and its B is not.
        let of = |major, rows| if major == Major::K { [k, rows] } else { [rows, k] };
        let matrices = [of(layout.b, n), of(layout.a, m), [n, m]];
        let [b, a, d] = matrices.map(|[rows, columns]| {
            let made = Layout::new(dtype, rows, columns)?;
            made.batched(problem.batch as i32, (rows * columns) as i64)?;
            Ok::<_, Error>(made)
        });
        let (layouts, desc) = ([b?, a?, d?], Desc::new()?);
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        desc.transpose(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, layout.b == Major::K)?;
        desc.transpose(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, layout.a == Major::Mn)?;
        let pref = Preference::new()?;
        let (mut found, mut count) = ([BLANK], 0);
        // SAFETY: every handle was made above; `found` has room for one result.
        unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.inner.handle,
                desc.0,
                layouts[0].0,
                layouts[1].0,
                layouts[2].0,
                layouts[2].0,
                pref.0,
                1,
                found.as_mut_ptr(),
                &raw mut count,
            )
        }
        .result()
        .map_err(failed(heuristic))?;
        if count < 1 || found[0].state != sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS {
            let status = format!("no kernel for {problem:?}");
            return Err(Error::CublasLt { call: heuristic, status });
        }
        let algo = found[0].algo;
        Ok(CublasLtStrided { lt: self.clone(), problem: *problem, desc, layouts, algo })
    }
}

impl Layout {
    /// Makes it a batch of so many matrices, `stride` elements apart.
    fn batched(&self, count: i32, stride: i64) -> Result<(), Error> {
        use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
        let set = "cublasLtMatrixLayoutSetAttribute";
        // SAFETY: the attributes are an i32 and an i64, read before the calls return.
        unsafe {
            let number = Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
            let value = (&raw const count).cast();
            result::set_matrix_layout_attribute(self.0, number, value, size_of::<i32>())
                .map_err(failed(set))?;
            let offset = Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
            let value = (&raw const stride).cast();
            result::set_matrix_layout_attribute(self.0, offset, value, size_of::<i64>())
                .map_err(failed(set))
        }
    }
}

impl CublasLtStrided {
    /// Queues D = A * B^T of each matrix on `stream`.
    ///
    /// Plans of one [`CublasLt`] share a workspace, so they must run on one stream at a time.
    ///
    /// # Errors
    /// [`host::Error::OperandSize`] or [`host::Error::ForeignDevice`] for an operand of the wrong size or device;
    /// [`Error::CublasLt`] if cuBLASLt fails.
    pub fn run(&self, [a, b]: [&Buffer; 2], d: &mut Buffer, stream: &Stream) -> Result<(), Error> {
        let Inner { device, handle, workspace } = &*self.lt.inner;
        device.check_stream("the stream of a cuBLASLt product", stream)?;
        for (operand, buffer) in [('A', a), ('B', b), ('D', &*d)] {
            device.check_buffer(&format!("operand {operand}"), buffer)?;
            let (need, have) = (self.problem.bytes(operand), buffer.len() as u64);
            if need != have {
                let [rows, cols] = self.problem.lines(operand);
                let (rows, dtype) =
                    (rows * self.problem.batch, host::dtype_name(self.problem.dtype));
                return Err(
                    host::Error::OperandSize { operand, rows, cols, dtype, need, have }.into()
                );
            }
        }
        device.make_current()?;
        let (alpha, beta) = (1f32, 0f32);
        let [layout_b, layout_a, layout_d] = &self.layouts;
        // SAFETY: all handles live in `self`. The operands have the sizes of the layouts and belong to the bound context.
        // alpha and beta are read before the call returns (host pointer mode).
        unsafe {
            result::matmul(
                *handle,
                self.desc.0,
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                b.addr() as *const _,
                layout_b.0,
                a.addr() as *const _,
                layout_a.0,
                d.addr() as *const _,
                layout_d.0,
                d.addr() as *mut _,
                layout_d.0,
                &raw const self.algo,
                workspace.addr() as *mut _,
                WORKSPACE_BYTES,
                stream.raw().cast(),
            )
        }
        .map_err(failed("cublasLtMatmul"))
    }
}
