//! The kernels of an image on a GPU. The driver assembles each kernel's module at its first use, so a
//! program waits only for the kernels that it runs.

use crate::context::Context;
use crate::driver::{self, CuDevicePtr, CuFunction, CuModule, one_line, value};
use crate::error::Error;
use isa::kernel::{Image, KernelMeta};
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Clusters of up to this many CTAs are portable. Larger ones need an attribute of the function.
const PORTABLE_CLUSTER: u32 = 8;

/// The kernels of an image for one architecture, each assembled once.
pub(crate) struct Kernels {
    context: Arc<Context>,
    /// The part for the device.
    image: &'static Image,
    /// In the order of the image. Each has its own lock, so that threads that use other kernels do not
    /// wait while this one is assembled.
    functions: Box<[Mutex<Option<Function>>]>,
}

/// The driver's handles of an assembled kernel.
struct Function {
    raw: CuFunction,
    /// The module of `raw`, unloaded when this is dropped.
    module: Loaded,
}

/// A loaded module.
struct Loaded {
    context: Arc<Context>,
    raw: CuModule,
}

// SAFETY: the driver's module and function handles are used only while their context is bound.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Send for Function {}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: the module was loaded once in `Loaded::new`. Unloading waits for running kernels.
            let _ = unsafe { driver::cuModuleUnload(self.raw) };
        }
    }
}

impl Kernels {
    pub fn new(context: &Arc<Context>, image: &'static Image) -> Self {
        let functions = image.kernels.iter().map(|_| Mutex::default()).collect();
        Self { context: Arc::clone(context), image, functions }
    }

    /// The handle of kernel `index` of the part. It stays valid while `self` lives.
    pub fn function(&self, index: usize) -> Result<CuFunction, Error> {
        self.with(index, |function| Ok(function.raw))
    }

    /// Address and size in bytes of a variable of the kernel's module. The address stays valid while
    /// `self` lives.
    pub fn variable(&self, index: usize, name: &str) -> Result<(CuDevicePtr, usize), Error> {
        let name = CString::new(name).unwrap_or_default();
        self.with(index, |function| {
            let (mut at, mut bytes) = (0, 0);
            // SAFETY: the module stays loaded while `function` lives; the results are out parameters.
            unsafe {
                driver::cuModuleGetGlobal(
                    &raw mut at,
                    &raw mut bytes,
                    function.module.raw,
                    name.as_ptr(),
                )
            }?;
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
        let ptx = self.image.ptx(meta.name())?;
        let fault = |log: String| Error::ImageAssembly {
            image: self.image.name,
            kernel: meta.name().into(),
            log,
        };
        let code = CString::new(ptx.as_ref()).map_err(|e| fault(e.to_string()))?;
        let module = Loaded::new(&self.context, code.as_bytes_with_nul(), fault)?;
        let name = CString::new(meta.name()).unwrap_or_default();
        let mut raw = CuFunction::NULL;
        // SAFETY: the module stays loaded while `module` lives; `raw` receives the result.
        unsafe { driver::cuModuleGetFunction(&raw mut raw, module.raw, name.as_ptr()) }?;
        let set = |attribute, to: u32| {
            // SAFETY: `raw` is a function of the bound context.
            unsafe { driver::cuFuncSetAttribute(raw, attribute, to as i32) }
        };
        set(value::FUNCTION_MAX_DYNAMIC_SMEM, meta.smem_bytes)?;
        if meta.cluster_size() > PORTABLE_CLUSTER {
            set(value::FUNCTION_NON_PORTABLE_CLUSTER, 1)?;
        }
        // A driver that loads functions lazily would do it in the first launch, where a capture may forbid it.
        // SAFETY: `raw` is a function of the bound context.
        relaxed(|| unsafe { driver::cuFuncLoad(raw) })??;
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
        let _bound = context.bind()?;
        let mut log = vec![0u8; 8192];
        let mut options = [value::JIT_ERROR_LOG, value::JIT_ERROR_LOG_BYTES];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
        let mut module = CuModule::NULL;
        // SAFETY: `code` is complete (text ends in a zero byte). Options and values agree in number and
        // type (the size is passed as a pointer's value). The log outlives the call.
        let loaded = relaxed(|| unsafe {
            driver::cuModuleLoadDataEx(
                &raw mut module,
                code.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        })?;
        let said = log.split(|&b| b == 0).next().unwrap_or_default();
        if loaded.is_err() && !said.is_empty() {
            return Err(fault(one_line(&String::from_utf8_lossy(said))));
        }
        loaded?;
        Ok(Self { context: Arc::clone(context), raw: module })
    }
}

/// Runs `work` with this thread's capture mode relaxed. A kernel's first use may be inside a
/// [`crate::Stream::capture`], whose mode refuses calls that might disturb a capture. Loading a module
/// is safe there, because it queues no work on any stream. So is a copy on a stream that nobody captures.
pub(crate) fn relaxed<R>(work: impl FnOnce() -> R) -> Result<R, Error> {
    let exchange = |mode: &mut u32| {
        // SAFETY: the driver swaps the thread's mode with the one in `mode`.
        unsafe { driver::cuThreadExchangeStreamCaptureMode(&raw mut *mode) }
    };
    let mut mode = value::CAPTURE_RELAXED;
    exchange(&mut mode)?;
    let result = work();
    exchange(&mut mode)?;
    Ok(result)
}
