//! cuBLASLt, loaded at run time: the reference of the benchmarks.
//!
//! cuBLASLt is column-major. For it, D = A * B^T with row-major [M, K], [N, K] and [M, N] is
//! D' = B'^T * A' with column-major [K, N], [K, M] and [N, M]. This is the "TN" product with exchanged
//! operands, its fastest form.

mod fused;
mod scaled;
pub mod strided;

pub use fused::Epilogue;

use crate::error::Error;
use crate::one_line;
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;
use host::gemm::GemmProblem;
use host::{Buffer, Device, Dtype, Stream, dtype_name};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// Bytes of workspace for cuBLASLt.
pub const WORKSPACE_BYTES: usize = 64 << 20;
/// Environment variable with the path of the library.
pub const PATH_VARIABLE: &str = "WARPIPE_CUBLASLT";
/// Number of kernels requested from the heuristic. The first one is its best. (cuBLASLt 13.1 returns at most 8.)
const CANDIDATES: usize = 64;

/// A cuBLASLt handle on a GPU, with its workspace.
#[derive(Clone)]
pub struct CublasLt {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    handle: sys::cublasLtHandle_t,
    workspace: Buffer,
}

// SAFETY: cuBLASLt handles may be shared between threads (cuBLAS manual, "Thread Safety").
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.device.make_current().is_ok() {
            // SAFETY: created in `CublasLt::new`, dropped once.
            let _ = unsafe { result::destroy_handle(self.handle) };
        }
    }
}

/// Loads the library once per process.
fn load() -> Result<(), Error> {
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        if let Some(path) = std::env::var_os(PATH_VARIABLE) {
            // cudarc opens the library by name. If a library with that soname is already loaded, cudarc
            // gets that one.
            // SAFETY: loading cuBLASLt runs its initialisers, which have no preconditions.
            let library = unsafe { libloading::Library::new(&path) };
            let library = library.map_err(|e| loader(&e))?;
            std::mem::forget(library);
        }
        // SAFETY: as above.
        if unsafe { sys::is_culib_present() } {
            return Ok(());
        }
        // SAFETY: as above. This call is expected to fail, and its error says why.
        match unsafe { libloading::Library::new("libcublasLt.so.13") } {
            Ok(_) => Err("libcublasLt.so.13 loads under a name that cudarc does not try".into()),
            Err(e) => Err(loader(&e)),
        }
    });
    loaded.clone().map_err(|reason| Error::NoCublasLt { reason })
}

/// The version number of the library: 130100 is 13.1.0. Needs no GPU.
///
/// # Errors
/// [`Error::NoCublasLt`] if the library cannot be loaded.
pub fn library_version() -> Result<usize, Error> {
    load()?;
    // SAFETY: no preconditions; the library is loaded.
    Ok(unsafe { sys::cublasLtGetVersion() })
}

/// The dynamic loader's message, which libloading keeps in the error's source.
fn loader(error: &libloading::Error) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    one_line(&cause.unwrap_or_else(|| error.to_string()))
}

fn failed(call: &'static str) -> impl FnOnce(CublasError) -> Error {
    move |e| Error::CublasLt { call, status: format!("{:?}", e.0) }
}

impl CublasLt {
    /// Loads cuBLASLt and makes a handle on `device`.
    ///
    /// # Errors
    /// [`host::Error::NotOnModel`] on the model; [`Error::NoCublasLt`] if the library cannot be loaded.
    pub fn new(device: &Device) -> Result<Self, Error> {
        if device.is_sim() {
            return Err(host::Error::NotOnModel { what: "cuBLASLt" }.into());
        }
        load()?;
        device.make_current()?;
        let workspace = device.alloc(WORKSPACE_BYTES)?;
        let handle = result::create_handle().map_err(failed("cublasLtCreate"))?;
        let device = device.clone();
        Ok(Self { inner: Arc::new(Inner { device, handle, workspace }) })
    }

    /// The version number of the library: 130100 is 13.1.0.
    pub fn version(&self) -> usize {
        // SAFETY: no preconditions; the library is loaded.
        unsafe { sys::cublasLtGetVersion() }
    }

    /// Asks cuBLASLt's heuristic for the best kernel for a product.
    ///
    /// # Errors
    /// The errors of [`CublasLt::plans`].
    pub fn plan(&self, problem: &GemmProblem) -> Result<CublasLtPlan, Error> {
        let mut plans = self.plans(problem)?;
        Ok(plans.swap_remove(0))
    }

    /// Asks cuBLASLt's heuristic for all kernels that it proposes for a product, best first. There is at
    /// least one.
    ///
    /// # Errors
    /// [`Error::CublasLt`] for an empty product or another one that cuBLASLt refuses.
    pub fn plans(&self, problem: &GemmProblem) -> Result<Vec<CublasLtPlan>, Error> {
        self.plans_of(problem, Desc::new()?, Vec::new())
    }

    /// All kernels for a product with this description, which points into `memory`.
    fn plans_of(
        &self,
        problem: &GemmProblem,
        desc: Desc,
        memory: Vec<Buffer>,
    ) -> Result<Vec<CublasLtPlan>, Error> {
        let (m, n, k) = (problem.m, problem.n, problem.k);
        if m == 0 || n == 0 || k == 0 {
            let status = format!("M, N, K = {m}, {n}, {k}: each must be at least 1");
            return Err(Error::CublasLt { call: "cublasLtMatmulAlgoGetHeuristic", status });
        }
        self.inner.device.make_current()?;
        let (ab, out) = (data_type(problem.ab)?, data_type(problem.out)?);
        let product = Product {
            problem: *problem,
            desc,
            a: Layout::new(ab, k, n)?,
            b: Layout::new(ab, k, m)?,
            d: Layout::new(out, n, m)?,
            _memory: memory,
        };
        let pref = Preference::new()?;
        let mut found = [BLANK; CANDIDATES];
        let mut count = 0;
        // SAFETY: every handle was made above; `found` has room for `CANDIDATES` results.
        unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.inner.handle,
                product.desc.0,
                product.a.0,
                product.b.0,
                product.d.0,
                product.d.0,
                pref.0,
                CANDIDATES as i32,
                found.as_mut_ptr(),
                &raw mut count,
            )
        }
        .result()
        .map_err(failed("cublasLtMatmulAlgoGetHeuristic"))?;
        let count = usize::try_from(count).unwrap_or(0).min(CANDIDATES);
        let product = Rc::new(product);
        let plans: Vec<_> = found[..count]
            .iter()
            .filter(|r| r.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS)
            .map(|r| CublasLtPlan { lt: self.clone(), product: product.clone(), algo: r.algo })
            .collect();
        if plans.is_empty() {
            let status = format!("no kernel for M, N, K = {m}, {n}, {k}");
            return Err(Error::CublasLt { call: "cublasLtMatmulAlgoGetHeuristic", status });
        }
        Ok(plans)
    }
}

/// A placeholder that the heuristic overwrites.
const BLANK: sys::cublasLtMatmulHeuristicResult_t = sys::cublasLtMatmulHeuristicResult_t {
    algo: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
    workspaceSize: 0,
    state: sys::cublasStatus_t::CUBLAS_STATUS_NOT_INITIALIZED,
    wavesCount: 0.0,
    reserved: [0; 4],
};

/// A product with a kernel that cuBLASLt's heuristic proposes.
pub struct CublasLtPlan {
    lt: CublasLt,
    product: Rc<Product>,
    algo: sys::cublasLtMatmulAlgo_t,
}

/// A product as cuBLASLt describes it.
struct Product {
    problem: GemmProblem,
    desc: Desc,
    a: Layout,
    b: Layout,
    d: Layout,
    /// The memory that the description points to.
    _memory: Vec<Buffer>,
}

impl CublasLtPlan {
    /// Queues D = alpha * A * B^T + beta * C on `stream`. Without C, D is used as C.
    ///
    /// Plans of one [`CublasLt`] share a workspace, so they must run on one stream at a time.
    ///
    /// # Errors
    /// [`host::Error::OperandSize`] or [`host::Error::ForeignDevice`] for an operand of the wrong size or
    /// device; [`Error::CublasLt`] if cuBLASLt fails.
    pub fn run(
        &self,
        (a, b, c): (&Buffer, &Buffer, Option<&Buffer>),
        d: &mut Buffer,
        (alpha, beta): (f32, f32),
        stream: &Stream,
    ) -> Result<(), Error> {
        let Inner { device, handle, workspace } = &*self.lt.inner;
        let Product { problem, desc, a: layout_a, b: layout_b, d: layout_d, .. } = &*self.product;
        device.check_stream("the stream of a cuBLASLt product", stream)?;
        let c = c.unwrap_or(d);
        for (operand, buffer) in [('A', a), ('B', b), ('C', c), ('D', &*d)] {
            device.check_buffer(&format!("operand {operand}"), buffer)?;
            problem.check_size(operand, buffer.len() as u64)?;
        }
        device.make_current()?;
        let (alpha, beta) = (&raw const alpha, &raw const beta);
        // SAFETY: all handles, and the memory that the description points to, live in `self` and its product. The operands have the sizes of the layouts and belong to
        // the bound context. alpha and beta are read before the call returns (host pointer mode).
        unsafe {
            result::matmul(
                *handle,
                desc.0,
                alpha.cast(),
                beta.cast(),
                b.addr() as *const _,
                layout_a.0,
                a.addr() as *const _,
                layout_b.0,
                c.addr() as *const _,
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

fn data_type(dtype: Dtype) -> Result<sys::cudaDataType, Error> {
    match dtype {
        Dtype::Bf16 => Ok(sys::cudaDataType::CUDA_R_16BF),
        Dtype::F16 => Ok(sys::cudaDataType::CUDA_R_16F),
        Dtype::F32 => Ok(sys::cudaDataType::CUDA_R_32F),
        Dtype::E4m3 => Ok(sys::cudaDataType::CUDA_R_8F_E4M3),
        other => Err(host::Error::GemmDtype {
            side: "operands",
            dtype: dtype_name(other),
            right: "bf16, f16, f32 or e4m3",
        }
        .into()),
    }
}

/// The product's description: f32 accumulation, cuBLASLt's A transposed.
struct Desc(sys::cublasLtMatmulDesc_t);

impl Desc {
    fn new() -> Result<Self, Error> {
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let desc = result::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F)
            .map_err(failed("cublasLtMatmulDescCreate"))?;
        let desc = Self(desc);
        // B's default is CUBLAS_OP_N.
        desc.transpose(sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA, true)?;
        Ok(desc)
    }

    /// Sets the operation of an operand: `CUBLAS_OP_T` or `CUBLAS_OP_N`.
    fn transpose(
        &self,
        operand: sys::cublasLtMatmulDescAttributes_t,
        transposed: bool,
    ) -> Result<(), Error> {
        self.set(operand, i32::from(transposed))
    }

    /// Sets an attribute whose type is `T`. cuBLASLt refuses a value of another size.
    fn set<T: Copy>(
        &self,
        attribute: sys::cublasLtMatmulDescAttributes_t,
        value: T,
    ) -> Result<(), Error> {
        // SAFETY: the value has `size_of::<T>()` bytes, and is read before the call returns.
        unsafe {
            result::set_matmul_desc_attribute(
                self.0,
                attribute,
                (&raw const value).cast(),
                size_of::<T>(),
            )
        }
        .map_err(failed("cublasLtMatmulDescSetAttribute"))
    }
}

impl Drop for Desc {
    fn drop(&mut self) {
        // SAFETY: made by `new`, dropped once.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

/// A column-major matrix without gaps.
struct Layout(sys::cublasLtMatrixLayout_t);

impl Layout {
    fn new(dtype: sys::cudaDataType, rows: u64, cols: u64) -> Result<Self, Error> {
        result::create_matrix_layout(dtype, rows, cols, rows as i64)
            .map(Self)
            .map_err(failed("cublasLtMatrixLayoutCreate"))
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: made by `new`, dropped once.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

/// The heuristic's limits.
struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    fn new() -> Result<Self, Error> {
        let pref =
            Self(result::create_matmul_pref().map_err(failed("cublasLtMatmulPreferenceCreate"))?);
        let bytes = WORKSPACE_BYTES;
        let most =
            sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        // SAFETY: the attribute is a u64, read before the call returns.
        unsafe {
            result::set_matmul_pref_attribute(
                pref.0,
                most,
                (&raw const bytes).cast(),
                size_of::<usize>(),
            )
        }
        .map_err(failed("cublasLtMatmulPreferenceSetAttribute"))?;
        Ok(pref)
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: made by `new`, dropped once.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}
