//! Contexts of the CUDA driver: the primary one of a GPU, which this crate retains, or one that the
//! caller owns.
//!
//! Every call that needs a context pushes it for its own duration ([`Context::bind`]). A program that
//! works with contexts of its own finds the calling thread's current context as it left it.

use crate::cuda::{DeviceInfo, cuda_devices, device, driver, info, new_stream};
use crate::driver::{self, CuContext, CuDevice, CuStream, is, value};
use crate::error::Error;
use std::any::Any;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

/// Something that must live as long as a handle that it owns.
pub(crate) type Keep = Arc<dyn Any + Send + Sync>;

/// A context, and the default stream that this crate makes in it.
pub(crate) struct Context {
    pub info: DeviceInfo,
    /// The PTX target that it runs.
    pub arch: &'static str,
    device: CuDevice,
    raw: CuContext,
    pub stream: CuStream,
    owner: Owner,
}

/// Who keeps the context alive.
enum Owner {
    /// This is the primary context, retained once.
    Retained,
    /// The caller of an `unsafe` function, or an object that owns the context.
    Caller { _keep: Option<Keep> },
}

// SAFETY: the driver synchronises access to contexts and streams, and every use first binds the context
// to the calling thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// A context is current on this thread until this is dropped.
#[must_use = "the context is current only while this lives"]
pub(crate) struct Bound {
    pushed: bool,
    /// It belongs to the thread.
    _thread: PhantomData<*const ()>,
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.pushed {
            let mut ours = CuContext::NULL;
            // SAFETY: `bind` pushed a context on this thread, and calls of this crate are nested.
            let _ = unsafe { driver::cuCtxPopCurrent(&raw mut ours) };
        }
    }
}

impl Context {
    /// Retains the primary context of device `index`, for which there must be images.
    pub fn new(index: usize) -> Result<Arc<Self>, Error> {
        let devices = cuda_devices()?;
        let count = devices.len();
        let info = devices.into_iter().nth(index).ok_or(Error::NoSuchDevice { index, count })?;
        Self::retain(info)
    }

    /// Retains the primary context of a GPU.
    fn retain(info: DeviceInfo) -> Result<Arc<Self>, Error> {
        let arch = arch(&info)?;
        let device = device(info.index as i32)?;
        let mut raw = CuContext::NULL;
        // SAFETY: `device` came from `cuDeviceGet`; the context is released in `drop`.
        unsafe { driver::cuDevicePrimaryCtxRetain(&raw mut raw, device) }?;
        let (stream, owner) = (CuStream::NULL, Owner::Retained);
        Self { info, arch, device, raw, stream, owner }.ready()
    }

    /// Retains the calling thread's current context, which must be a primary context.
    pub fn current() -> Result<Arc<Self>, Error> {
        let driver = driver()?;
        let mut current = CuContext::NULL;
        // SAFETY: `current` is a valid place for the result.
        unsafe { driver::cuCtxGetCurrent(&raw mut current) }?;
        if current == CuContext::NULL {
            return Err(Error::NoCurrentContext);
        }
        let device = current_device()?;
        let own = || Error::OwnContext { context: current.0 as u64, device: device as usize };
        let (mut flags, mut active) = (0, 0);
        // SAFETY: `device` is a device; both are valid places for the results.
        unsafe { driver::cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active) }?;
        if active == 0 {
            return Err(own());
        }
        let primary = Self::retain(info(driver, device)?)?;
        if primary.raw == current { Ok(primary) } else { Err(own()) }
    }

    /// A context that somebody else owns.
    ///
    /// # Safety
    /// `raw` is a context of the driver's, and stays alive as long as the result. If `keep` owns it, that
    /// follows.
    pub unsafe fn from_raw(raw: *mut c_void, keep: Option<Keep>) -> Result<Arc<Self>, Error> {
        let driver = driver()?;
        let raw = CuContext(raw);
        if raw == CuContext::NULL {
            return Err(Error::NoCurrentContext);
        }
        let device = {
            let _bound = bind(raw)?;
            current_device()?
        };
        let info = info(driver, device)?;
        let arch = arch(&info)?;
        let (stream, owner) = (CuStream::NULL, Owner::Caller { _keep: keep });
        Self { info, arch, device, raw, stream, owner }.ready()
    }

    /// Makes the default stream.
    fn ready(mut self) -> Result<Arc<Self>, Error> {
        {
            let _bound = self.bind()?;
            self.stream = new_stream()?;
        }
        Ok(Arc::new(self))
    }

    /// The driver's handle.
    pub fn raw(&self) -> CuContext {
        self.raw
    }

    /// Whether this crate retains it as its device's primary context.
    pub fn is_primary(&self) -> bool {
        matches!(self.owner, Owner::Retained)
    }

    /// Makes this the calling thread's context until the result is dropped.
    pub fn bind(&self) -> Result<Bound, Error> {
        bind(self.raw)
    }

    /// Makes this the calling thread's context.
    pub fn make_current(&self) -> Result<(), Error> {
        // SAFETY: `raw` lives while `self` does.
        unsafe { driver::cuCtxSetCurrent(self.raw) }
    }

    /// Waits until all work on the device is complete.
    pub fn synchronize(&self) -> Result<(), Error> {
        let _bound = self.bind()?;
        // SAFETY: the context is bound.
        unsafe { driver::cuCtxSynchronize() }
    }

    /// Allocates `bytes` > 0 bytes.
    pub fn alloc(&self, bytes: usize) -> Result<u64, Error> {
        let _bound = self.bind()?;
        let mut addr = 0;
        // SAFETY: the context is bound; only `Buffer` passes the address to `free`.
        let made = unsafe { driver::cuMemAlloc(&raw mut addr, bytes) };
        made.map(|()| addr).map_err(|e| {
            let (mut free, mut total) = (0, 0);
            // SAFETY: the context is bound; both are valid places for the results.
            match unsafe { driver::cuMemGetInfo(&raw mut free, &raw mut total) } {
                Ok(()) if is(&e, value::ERROR_OUT_OF_MEMORY) => {
                    let (free, total) = (free as u64, total as u64);
                    Error::OutOfMemory { bytes: bytes as u64, free, total }
                }
                _ => e,
            }
        })
    }

    /// Frees memory of [`Context::alloc`]. Waits for the device first (`cuMemFree` does).
    pub fn free(&self, addr: u64) {
        if let Ok(_bound) = self.bind() {
            // SAFETY: `addr` came from `alloc`, and its owner is being dropped. A failure here is
            // a sticky error of the context, which the next call reports.
            let _ = unsafe { driver::cuMemFree(addr) };
        }
    }
}

/// Makes a context current until the result is dropped. Costs one call of the driver where it is current
/// already.
fn bind(raw: CuContext) -> Result<Bound, Error> {
    let mut current = CuContext::NULL;
    // SAFETY: `current` is a valid place for the result.
    unsafe { driver::cuCtxGetCurrent(&raw mut current) }?;
    let pushed = current != raw;
    if pushed {
        // SAFETY: the context is alive: the caller has it from a `Context`, or is told to keep it so.
        unsafe { driver::cuCtxPushCurrent(raw) }?;
    }
    Ok(Bound { pushed, _thread: PhantomData })
}

/// The device of the current context.
fn current_device() -> Result<CuDevice, Error> {
    let mut device = 0;
    // SAFETY: `device` is a valid place for the result.
    unsafe { driver::cuCtxGetDevice(&raw mut device) }?;
    Ok(device)
}

/// The PTX target of a GPU. Refuses every GPU for which there are no images.
fn arch(info: &DeviceInfo) -> Result<&'static str, Error> {
    let (major, minor) = info.compute;
    let refused = || Error::WrongArch { index: info.index, name: info.name.clone(), major, minor };
    info.arch().ok_or_else(refused)
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.stream != CuStream::NULL
            && let Ok(_bound) = self.bind()
        {
            // SAFETY: created in `ready`, destroyed once; streams hold the context alive.
            let _ = unsafe { driver::cuStreamDestroy(self.stream) };
        }
        if let Owner::Retained = self.owner {
            // SAFETY: retained once in `retain`.
            let _ = unsafe { driver::cuDevicePrimaryCtxRelease(self.device) };
        }
    }
}
