//! The kernels of an image on a GPU. The driver assembles each kernel's module at its first use, so a
//! program waits only for the kernels that it runs.

use crate::cuda::{Context, check, failed, one_line};
use crate::error::Error;
use cudarc::driver::{result, sys};
use isa::kernel::{Image, KernelMeta};
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Clusters of up to this many CTAs are portable. Larger ones need an attribute of the function.
const PORTABLE_CLUSTER: u32 = 8;

/// The kernels of an image, each assembled once.
pub(crate) struct Kernels {
    context: Arc<Context>,
    image: &'static Image,
    /// In the order of the image. Each has its own lock, so that threads that use other kernels do not
    /// wait while this one is assembled.
    functions: Box<[Mutex<Option<Function>>]>,
}

/// The driver's handles of an assembled kernel.
struct Function {
    raw: sys::CUfunction,
    /// The module of `raw`, unloaded when this is dropped.
    module: Loaded,
}

/// A loaded module.
struct Loaded {
    context: Arc<Context>,
    raw: sys::CUmodule,
}

// SAFETY: the driver's module and function handles are used only while their context is bound.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Send for Function {}

impl Drop for Loaded {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: the module was loaded once in `Loaded::new`. Unloading waits for running kernels.
            let _ = unsafe { result::module::unload(self.raw) };
        }
    }
}

impl Kernels {
    pub fn new(context: &Arc<Context>, image: &'static Image) -> Self {
        let functions = image.kernels.iter().map(|_| Mutex::default()).collect();
        Self { context: Arc::clone(context), image, functions }
    }

    /// The handle of kernel `index` of the image. It stays valid while `self` lives.
    pub fn function(&self, index: usize) -> Result<sys::CUfunction, Error> {
        self.with(index, |function| Ok(function.raw))
    }

    /// Address and size in bytes of a variable of the kernel's module. The address stays valid while
    /// `self` lives.
    pub fn variable(&self, index: usize, name: &str) -> Result<(sys::CUdeviceptr, usize), Error> {
        let name = CString::new(name).unwrap_or_default();
        self.with(index, |function| {
            let (mut at, mut bytes) = (0, 0);
            // SAFETY: the module stays loaded while `function` lives; the results are out parameters.
            check("cuModuleGetGlobal", unsafe {
                sys::cuModuleGetGlobal_v2(
                    &raw mut at,
                    &raw mut bytes,
                    function.module.raw,
                    name.as_ptr(),
                )
            })?;
            Ok((at, bytes))
        })
    }

    /// Calls `f` with a kernel, which is assembled first if necessary.
    fn with<R>(
        &self,
        index: usize,
        f: impl FnOnce(&Function) -> Result<R, Error>,
    ) -> Result<R, Error> {
        // A poisoned lock is harmless: no panic can leave a handle half-written.
        let mut function: MutexGuard<'_, Option<Function>> =
            self.functions[index].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = &*function {
            return f(function);
        }
        let made = self.assemble(&self.image.kernels[index])?;
        f(function.insert(made))
    }

    /// Assembles a kernel and sets its attributes for shared memory and cluster size.
    fn assemble(&self, meta: &KernelMeta) -> Result<Function, Error> {
        use sys::CUfunction_attribute_enum as Attr;
        let ptx = self.image.ptx(meta.name())?;
        let fault = |log: String| Error::ImageAssembly {
            image: self.image.name,
            kernel: meta.name().into(),
            log,
        };
        let code = CString::new(ptx.as_ref()).map_err(|e| fault(e.to_string()))?;
        let module = Loaded::new(&self.context, code.as_bytes_with_nul(), fault)?;
        let name = CString::new(meta.name()).unwrap_or_default();
        // SAFETY: the module stays loaded while `module` lives.
        let raw = unsafe { result::module::get_function(module.raw, name) }
            .map_err(|e| failed("cuModuleGetFunction", e))?;
        let set = |attribute, value: u32| {
            // SAFETY: `raw` is a function of the bound context.
            unsafe { result::function::set_function_attribute(raw, attribute, value as i32) }
                .map_err(|e| failed("cuFuncSetAttribute", e))
        };
        set(Attr::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, meta.smem_bytes)?;
        if meta.cluster_size() > PORTABLE_CLUSTER {
            set(Attr::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
        }
        Ok(Function { raw, module })
    }
}

impl Loaded {
    /// Loads code: PTX that ends in a zero byte, or a binary that the driver recognises by its first
    /// bytes. `fault` makes an error from the assembler's message.
    fn new(
        context: &Arc<Context>,
        code: &[u8],
        fault: impl FnOnce(String) -> Error,
    ) -> Result<Self, Error> {
        context.bind()?;
        let mut log = vec![0u8; 8192];
        let mut options = [
            sys::CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
        let mut module = std::ptr::null_mut();
        // SAFETY: `code` is complete (text ends in a zero byte). Options and values agree in number and
        // type (the size is passed as a pointer's value). The log outlives the call.
        let status = relaxed(|| unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut module,
                code.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        })?;
        let said = log.split(|&b| b == 0).next().unwrap_or_default();
        if status != sys::CUresult::CUDA_SUCCESS && !said.is_empty() {
            return Err(fault(one_line(&String::from_utf8_lossy(said))));
        }
        check("cuModuleLoadDataEx", status)?;
        Ok(Self { context: Arc::clone(context), raw: module })
    }
}

/// Runs `work` with this thread's capture mode relaxed. A kernel's first use may be inside a
/// [`crate::Stream::capture`], whose mode refuses calls that might disturb a capture. Loading a module
/// is safe there, because it queues no work on any stream.
fn relaxed<R>(work: impl FnOnce() -> R) -> Result<R, Error> {
    let exchange = |mode: &mut sys::CUstreamCaptureMode| {
        // SAFETY: the driver swaps the thread's mode with the one in `mode`.
        let status = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut *mode) };
        check("cuThreadExchangeStreamCaptureMode", status)
    };
    let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    exchange(&mut mode)?;
    let result = work();
    exchange(&mut mode)?;
    Ok(result)
}
