//! Devices: a GPU or the SM model, behind one API.

use crate::buffer::Buffer;
use crate::context::{Bound, Context};
use crate::cuda::{DeviceInfo, cuda_devices};
use crate::error::Error;
use crate::model::Model;
use crate::stream::Stream;
use isa::slice::SliceAbi;
use std::ffi::c_void;
use std::sync::Arc;

/// Shared memory in bytes that one CTA can use on sm_90 (227 KiB). The model has the same limit.
pub const SM90_SMEM_BYTES: u32 = 227 * 1024;

/// A device that runs kernels: a GPU through the CUDA driver, or the SM model. Clones are cheap.
#[derive(Clone)]
pub struct Device {
    pub(crate) backend: Backend,
    chosen: Option<Arc<str>>,
}

/// The two implementations.
#[derive(Clone)]
pub(crate) enum Backend {
    Cuda(Arc<Context>),
    Sim(Arc<Model>),
}

impl Backend {
    /// Whether both are the same context, or the same model.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cuda(a), Self::Cuda(b)) => a.raw() == b.raw(),
            (Self::Sim(a), Self::Sim(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    pub fn describe(&self) -> String {
        match self {
            Self::Cuda(context) => {
                let info = &context.info;
                let DeviceInfo { name, index, sms, driver: (major, minor), .. } = info;
                let own = if context.is_primary() {
                    String::new()
                } else {
                    format!(", context {:#x}", context.raw().0 as u64)
                };
                // The chip, without the `a` of its code.
                let sm = context.arch.trim_end_matches('a');
                format!("{name} (device {index}, {sm}, {sms} SMs, CUDA {major}.{minor}{own})")
            }
            Self::Sim(model) => {
                format!("SM model ({} SMs, seed {})", model.config.sms, model.config.seed)
            }
        }
    }
}

impl Device {
    /// Opens GPU `index`, which must have compute capability 9.0 (Hopper), 10.0 or 10.3 (Blackwell). It runs the images
    /// that have code for it: [`Device::load`] tells.
    ///
    /// # Errors
    /// [`Error::NoDriver`], [`Error::DriverTooOld`], [`Error::NoGpu`], [`Error::NoSuchDevice`],
    /// [`Error::WrongArch`], or [`Error::Driver`].
    pub fn cuda(index: usize) -> Result<Self, Error> {
        Ok(Self { backend: Backend::Cuda(Context::new(index)?), chosen: None })
    }

    /// The calling thread's current context, which must be the primary context of a GPU: that is
    /// what the CUDA runtime, PyTorch and cudarc work in. It is retained, so it stays alive with the result.
    ///
    /// # Errors
    /// [`Error::NoCurrentContext`]; [`Error::OwnContext`] for a context of the caller's own, which nothing
    /// here can keep alive: [`Device::from_raw_context`] takes it; the errors of [`Device::cuda`].
    pub fn current() -> Result<Self, Error> {
        Ok(Self { backend: Backend::Cuda(Context::current()?), chosen: None })
    }

    /// A context that the caller owns: a `CUcontext`, primary or not. Memory, streams and modules of the
    /// result are made in it, and it is not destroyed with the result.
    ///
    /// A call never changes the calling thread's current context beyond its own duration, except
    /// [`Device::make_current`].
    ///
    /// # Safety
    /// `context` is a context of the CUDA driver. It is not destroyed before the result and everything made
    /// from it: its clones, buffers, streams, events, graphs, modules and plans.
    ///
    /// # Errors
    /// [`Error::NoCurrentContext`] if `context` is null; [`Error::WrongArch`]; [`Error::Driver`].
    pub unsafe fn from_raw_context(context: *mut c_void) -> Result<Self, Error> {
        // SAFETY: the caller's contract.
        let context = unsafe { Context::from_raw(context, None) }?;
        Ok(Self { backend: Backend::Cuda(context), chosen: None })
    }

    /// The driver's handle of the context (`CUcontext`); null on the model. It is valid while a clone of
    /// this device, or something made from it, lives.
    pub fn raw_context(&self) -> *mut c_void {
        match &self.backend {
            Backend::Cuda(context) => context.raw().0,
            Backend::Sim(_) => std::ptr::null_mut(),
        }
    }

    /// A device of a context that somebody keeps alive.
    #[cfg(feature = "cudarc")]
    pub(crate) fn of(backend: Backend) -> Self {
        Self { backend, chosen: None }
    }

    /// Makes a device of the SM model.
    pub fn sim(config: sim::Config) -> Self {
        Self { backend: Backend::Sim(Arc::new(Model::new(config))), chosen: None }
    }

    /// Opens the first Hopper GPU if there is one, and the SM model otherwise. [`Device::describe`] says
    /// which one was chosen, and why. A Blackwell GPU is not chosen, because most images have no code for one:
    /// [`Device::cuda`] opens it.
    pub fn auto() -> Self {
        Self::auto_with(sim::Config::default())
    }

    /// [`Device::auto`] with a configuration for the SM model.
    pub fn auto_with(config: sim::Config) -> Self {
        let found = cuda_devices().and_then(|devices| {
            let first = devices.iter().find(|d| d.is_hopper()).or(devices.first());
            Self::cuda(first.map_or(0, |d| d.index))
        });
        let why = match found {
            Ok(device) if device.info().is_some_and(DeviceInfo::is_hopper) => {
                return Self { chosen: Some("the first sm_90 GPU".into()), ..device };
            }
            Ok(other) => {
                format!("there is no sm_90 GPU, and {} is not chosen", other.backend.describe())
            }
            Err(why) => why.to_string(),
        };
        Self { chosen: Some(why.into()), ..Self::sim(config) }
    }

    /// One line that names the device and, if [`Device::auto`] chose it, the reason.
    pub fn describe(&self) -> String {
        let what = self.backend.describe();
        match &self.chosen {
            Some(why) => format!("{what}: {why}"),
            None => what,
        }
    }

    /// Whether the device is the SM model.
    pub fn is_sim(&self) -> bool {
        matches!(self.backend, Backend::Sim(_))
    }

    /// Counters of the SM model over all launches so far; `None` for a GPU.
    pub fn model_stats(&self) -> Option<sim::Stats> {
        match &self.backend {
            Backend::Cuda(_) => None,
            Backend::Sim(model) => Some(model.stats()),
        }
    }

    /// Properties of the GPU; `None` for the SM model.
    pub fn info(&self) -> Option<&crate::DeviceInfo> {
        match &self.backend {
            Backend::Cuda(context) => Some(&context.info),
            Backend::Sim(_) => None,
        }
    }

    /// Number of streaming multiprocessors.
    pub fn sms(&self) -> u32 {
        match &self.backend {
            Backend::Cuda(context) => context.info.sms,
            Backend::Sim(model) => model.config.sms,
        }
    }

    /// Most bytes of shared memory that one CTA can have.
    pub fn smem_bytes(&self) -> u32 {
        self.info().map_or(SM90_SMEM_BYTES, |info| info.smem_bytes)
    }

    /// Waits until all work on the device is complete.
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.backend {
            Backend::Cuda(context) => context.synchronize(),
            Backend::Sim(model) => {
                model.synchronize();
                Ok(())
            }
        }
    }

    /// The device's default stream.
    pub fn stream(&self) -> Stream {
        Stream::default_of(self)
    }

    /// Makes a new stream.
    pub fn new_stream(&self) -> Result<Stream, Error> {
        Stream::new(self)
    }

    /// Allocates uninitialised memory. The SM model reports loads and atomic updates of bytes that nobody has written (WP057).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the GPU has no room for so many bytes, [`Error::ModelMemory`] if the model's host has none.
    pub fn alloc(&self, bytes: usize) -> Result<Buffer, Error> {
        Buffer::new(self, bytes)
    }

    /// Allocates memory, waits for the device, and fills the memory with zeros.
    ///
    /// # Errors
    /// Those of [`Device::alloc`] and [`Buffer::fill`].
    pub fn alloc_zeroed(&self, bytes: usize) -> Result<Buffer, Error> {
        let mut buffer = self.alloc(bytes)?;
        buffer.fill(0)?;
        Ok(buffer)
    }

    /// Allocates memory, waits for the device, and copies `bytes` to the memory. The copy has ended when the call returns, so it
    /// can't be captured.
    ///
    /// # Errors
    /// Those of [`Device::alloc`] and [`Buffer::write`].
    pub fn upload(&self, bytes: &[u8]) -> Result<Buffer, Error> {
        let mut buffer = self.alloc(bytes.len())?;
        buffer.write(bytes)?;
        Ok(buffer)
    }

    /// Binds the device's context to the calling thread, which other CUDA libraries require.
    /// (`cuCtxSetCurrent`.)
    ///
    /// # Errors
    /// [`Error::NotOnModel`] on the model; [`Error::Driver`] if the driver call fails.
    pub fn make_current(&self) -> Result<(), Error> {
        match &self.backend {
            Backend::Cuda(context) => context.make_current(),
            Backend::Sim(_) => Err(Error::NotOnModel { what: "a CUDA context" }),
        }
    }

    /// Makes the context current for a while; nothing to do on the model.
    pub(crate) fn bind(&self) -> Result<Option<Bound>, Error> {
        match &self.backend {
            Backend::Cuda(context) => context.bind().map(Some),
            Backend::Sim(_) => Ok(None),
        }
    }

    /// Checks that a buffer belongs to this device. `what` names the buffer in the error.
    ///
    /// # Errors
    /// [`Error::ForeignDevice`] if it does not.
    pub fn check_buffer(&self, what: &str, buffer: &Buffer) -> Result<(), Error> {
        self.owns(|| what.into(), &buffer.memory.backend)
    }

    /// Checks that a stream belongs to this device. `what` names the stream in the error.
    ///
    /// # Errors
    /// [`Error::ForeignDevice`] if it does not.
    pub fn check_stream(&self, what: &str, stream: &Stream) -> Result<(), Error> {
        self.owns(|| what.into(), stream.backend())
    }

    /// Checks that the memory of a slice belongs to this device. Only its address tells. `what` names the
    /// parameter in the error.
    pub(crate) fn holds(
        &self,
        what: impl FnOnce() -> String,
        slice: SliceAbi,
    ) -> Result<(), Error> {
        let SliceAbi { address, elements: bytes } = slice;
        let held = match &self.backend {
            _ if bytes == 0 => true,
            Backend::Cuda(context) => context.check_range(address, bytes).is_ok(),
            Backend::Sim(model) => model.holds(address, bytes),
        };
        if held {
            return Ok(());
        }
        Err(Error::ForeignDevice {
            what: format!("a slice in {}", what()),
            theirs: "another device".into(),
            ours: self.backend.describe(),
        })
    }

    /// Checks that a handle belongs to this device. `what` names it in the error.
    pub(crate) fn owns(
        &self,
        what: impl FnOnce() -> String,
        theirs: &Backend,
    ) -> Result<(), Error> {
        if self.backend.same(theirs) {
            return Ok(());
        }
        Err(Error::ForeignDevice {
            what: what(),
            theirs: theirs.describe(),
            ours: self.backend.describe(),
        })
    }
}
