//! The interface to the CUDA driver: loading it, contexts, and its errors as [`Error`].
//!
//! A [`Context`] exists only after the driver was loaded and initialised, and all other driver calls
//! need one. `cudarc` loads libcuda at the first call and panics if that fails. [`driver`] checks first,
//! so that a machine without a driver gets an error instead.

use crate::error::Error;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use serde::Serialize;
use std::sync::{Arc, OnceLock};

/// The oldest driver whose entry points this crate needs (`cuEventElapsedTime_v2`).
const OLDEST_DRIVER: i32 = 12080;

/// Properties of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// CUDA device ordinal.
    pub index: usize,
    /// Name that the driver reports.
    pub name: String,
    /// Compute capability.
    pub compute: (i32, i32),
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Most shared memory that one CTA can opt in to, in bytes.
    pub smem_bytes: u32,
    /// L2 cache in bytes.
    pub l2_bytes: u64,
    /// Highest clock of the SMs in kHz.
    pub clock_khz: u32,
    /// Memory clock in kHz. Each pin transfers two bits per cycle.
    pub memory_clock_khz: u32,
    /// Width of the memory bus in bits.
    pub memory_bits: u32,
    /// PCI bus ID in NVML's format.
    pub pci: String,
    /// CUDA version that the driver supports.
    pub driver: (i32, i32),
}

impl DeviceInfo {
    /// Whether kernels for sm_90a run on this GPU.
    pub fn is_hopper(&self) -> bool {
        self.compute == (9, 0)
    }

    /// Peak rate of dense bf16 products with f32 accumulators at the highest clock, in TFLOP/s. A Hopper
    /// SM does 2048 multiply-adds per clock.
    pub fn peak_tflops(&self) -> f64 {
        f64::from(self.sms) * 4096.0 * f64::from(self.clock_khz) * 1e-9
    }

    /// Peak memory bandwidth in GB/s.
    pub fn peak_gbs(&self) -> f64 {
        2.0 * f64::from(self.memory_clock_khz) * 1e-6 * f64::from(self.memory_bits) / 8.0
    }
}

/// Proof that libcuda is loaded and initialised, with the CUDA version that it supports.
#[derive(Clone, Copy)]
pub(crate) struct Driver {
    pub version: (i32, i32),
}

/// Loads and initialises the driver once per process.
pub(crate) fn driver() -> Result<Driver, Error> {
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        // SAFETY: loading libcuda runs its initialisers, which have no preconditions.
        if unsafe { sys::is_culib_present() } {
            return Ok(());
        }
        let name = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
        // SAFETY: as above. This call is expected to fail, and its error says why.
        match unsafe { libloading::Library::new(name) } {
            Ok(_) => Err(format!("{name} loads under a name that cudarc does not try")),
            Err(e) => Err(loader(&e)),
        }
    });
    if let Err(reason) = loaded {
        return Err(Error::NoDriver { reason: reason.clone() });
    }
    result::init().map_err(|e| match e.0 {
        sys::CUresult::CUDA_ERROR_NO_DEVICE => Error::NoGpu,
        _ => failed("cuInit", e),
    })?;
    let mut version = 0;
    // SAFETY: `version` is a valid place for the result.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
    let (major, minor) = (version / 1000, version % 1000 / 10);
    if version < OLDEST_DRIVER {
        return Err(Error::DriverTooOld { major, minor });
    }
    Ok(Driver { version: (major, minor) })
}

/// The dynamic loader's message, which libloading keeps in the error's source.
pub(crate) fn loader(error: &libloading::Error) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    one_line(&cause.unwrap_or_else(|| error.to_string()))
}

/// Joins the lines of a text into one line.
pub(crate) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Lists every GPU of the machine, of any architecture.
///
/// # Errors
/// [`Error::NoDriver`] or [`Error::DriverTooOld`]; [`Error::NoGpu`] if the driver finds no GPU;
/// [`Error::Driver`] if a driver call fails.
pub fn cuda_devices() -> Result<Vec<DeviceInfo>, Error> {
    let driver = driver()?;
    let count = result::device::get_count().map_err(|e| failed("cuDeviceGetCount", e))?;
    if count == 0 {
        return Err(Error::NoGpu);
    }
    (0..count).map(|i| info(driver, i)).collect()
}

fn info(driver: Driver, index: i32) -> Result<DeviceInfo, Error> {
    use sys::CUdevice_attribute as Attr;
    let device = result::device::get(index).map_err(|e| failed("cuDeviceGet", e))?;
    let attr = |which: Attr| {
        // SAFETY: `device` came from `cuDeviceGet`.
        unsafe { result::device::get_attribute(device, which) }
            .map_err(|e| failed("cuDeviceGetAttribute", e))
    };
    Ok(DeviceInfo {
        index: index as usize,
        name: result::device::get_name(device).map_err(|e| failed("cuDeviceGetName", e))?,
        compute: (
            attr(Attr::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attr(Attr::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        sms: attr(Attr::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
        // SAFETY: `device` came from `cuDeviceGet`.
        memory_bytes: unsafe { result::device::total_mem(device) }
            .map_err(|e| failed("cuDeviceTotalMem", e))? as u64,
        smem_bytes: attr(Attr::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as u32,
        l2_bytes: attr(Attr::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as u64,
        clock_khz: attr(Attr::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)? as u32,
        memory_clock_khz: attr(Attr::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)? as u32,
        memory_bits: attr(Attr::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)? as u32,
        pci: format!(
            "{:08x}:{:02x}:{:02x}.0",
            attr(Attr::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?,
            attr(Attr::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?,
            attr(Attr::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?
        ),
        driver: driver.version,
    })
}

/// The primary context of a GPU, and its default stream.
pub(crate) struct Context {
    pub info: DeviceInfo,
    device: sys::CUdevice,
    raw: sys::CUcontext,
    pub stream: sys::CUstream,
}

// SAFETY: the driver synchronises access to contexts and streams, and every use first binds the context
// to the calling thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of device `index`, which must be a Hopper GPU.
    pub fn new(index: usize) -> Result<Arc<Self>, Error> {
        let devices = cuda_devices()?;
        let count = devices.len();
        let info = devices.into_iter().nth(index).ok_or(Error::NoSuchDevice { index, count })?;
        if !info.is_hopper() {
            let (major, minor) = info.compute;
            return Err(Error::WrongArch { index, name: info.name, major, minor });
        }
        let device = result::device::get(index as i32).map_err(|e| failed("cuDeviceGet", e))?;
        // SAFETY: `device` came from `cuDeviceGet`; released in `drop`.
        let raw = unsafe { result::primary_ctx::retain(device) }
            .map_err(|e| failed("cuDevicePrimaryCtxRetain", e))?;
        let mut context = Self { info, device, raw, stream: std::ptr::null_mut() };
        context.bind()?;
        context.stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|e| failed("cuStreamCreate", e))?;
        Ok(Arc::new(context))
    }

    /// Makes this the calling thread's context.
    pub fn bind(&self) -> Result<(), Error> {
        // SAFETY: `raw` is retained while `self` lives.
        unsafe { result::ctx::set_current(self.raw) }.map_err(|e| failed("cuCtxSetCurrent", e))
    }

    /// Waits until all work on the device is complete.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.bind()?;
        result::ctx::synchronize().map_err(|e| failed("cuCtxSynchronize", e))
    }

    /// Allocates `bytes` > 0 bytes.
    pub fn alloc(&self, bytes: usize) -> Result<u64, Error> {
        self.bind()?;
        // SAFETY: the context is bound; only `Buffer` passes the address to `free`.
        unsafe { result::malloc_sync(bytes) }.map_err(|e| match (e.0, result::mem_get_info()) {
            (sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY, Ok((free, total))) => {
                Error::OutOfMemory { bytes: bytes as u64, free: free as u64, total: total as u64 }
            }
            _ => failed("cuMemAlloc", e),
        })
    }

    /// Whether `addr` is memory of this context.
    pub fn holds(&self, addr: u64) -> bool {
        let mut owner: sys::CUcontext = std::ptr::null_mut();
        // SAFETY: the attribute is a context's handle, and `owner` has room for it.
        let status = unsafe {
            sys::cuPointerGetAttribute(
                (&raw mut owner).cast(),
                sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT,
                addr,
            )
        };
        status == sys::CUresult::CUDA_SUCCESS && owner == self.raw
    }

    /// Frees memory of [`Context::alloc`]. Waits for the device first (`cuMemFree` does).
    pub fn free(&self, addr: u64) {
        if self.bind().is_ok() {
            // SAFETY: `addr` came from `alloc`, and its owner is being dropped. A failure here is
            // a sticky error of the context, which the next call reports.
            let _ = unsafe { result::free_sync(addr) };
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.bind().is_ok() && !self.stream.is_null() {
            // SAFETY: created in `new`, destroyed once; streams hold the context alive.
            let _ = unsafe { result::stream::destroy(self.stream) };
        }
        // SAFETY: retained once in `new`.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// Turns a driver status into a result.
pub(crate) fn check(call: &'static str, status: sys::CUresult) -> Result<(), Error> {
    status.result().map_err(|e| failed(call, e))
}

/// Makes the error of a failed driver call.
pub(crate) fn failed(call: &'static str, error: DriverError) -> Error {
    let text = |r: Result<&std::ffi::CStr, DriverError>| {
        r.map_or_else(|_| "?".into(), |s| s.to_string_lossy().into_owned())
    };
    Error::Driver {
        call,
        code: error.0 as u32,
        name: text(error.error_name()),
        text: text(error.error_string()),
    }
}
