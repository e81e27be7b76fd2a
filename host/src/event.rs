//! Events: points in a stream's work. On the model, they read the host's clock.

use crate::device::{Backend, Device};
use crate::driver::{self, CuEvent, value};
use crate::error::Error;
use std::ffi::c_void;
use std::time::Instant;

/// A CUDA event: a point in a stream's work.
pub struct Event {
    backend: Backend,
    mark: Mark,
}

enum Mark {
    Cuda { raw: CuEvent, owned: bool },
    Sim(Instant),
}

// SAFETY: the driver synchronises access to an event, and its context is bound before each use.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        if let (Mark::Cuda { raw, owned: true }, Backend::Cuda(context)) =
            (&self.mark, &self.backend)
            && let Ok(_bound) = context.bind()
        {
            // SAFETY: created by `Event::new`, dropped once.
            let _ = unsafe { driver::cuEventDestroy(*raw) };
        }
    }
}

impl Event {
    /// Makes an event. One without timing costs the streams less.
    pub(crate) fn new(backend: &Backend, timing: bool) -> Result<Self, Error> {
        let backend = backend.clone();
        let Backend::Cuda(context) = &backend else {
            return Ok(Self { backend, mark: Mark::Sim(Instant::now()) });
        };
        let flags = if timing { value::EVENT_DEFAULT } else { value::EVENT_NO_TIMING };
        let mut raw = CuEvent::NULL;
        {
            let _bound = context.bind()?;
            // SAFETY: the context is bound; `raw` is a valid place for the result.
            unsafe { driver::cuEventCreate(&raw mut raw, flags) }?;
        }
        Ok(Self { backend, mark: Mark::Cuda { raw, owned: true } })
    }

    /// An event that the caller owns and records: a `CUevent` of the device's context. It is not destroyed
    /// with the result. [`Stream::wait`](crate::Stream::wait) takes it.
    ///
    /// # Safety
    /// `event` is an event of the CUDA driver, created in the device's context; the driver can't be asked for
    /// it. It is not destroyed before the result.
    ///
    /// # Errors
    /// [`Error::NotOnModel`] on the model; [`Error::NullEvent`].
    pub unsafe fn from_raw(device: &Device, event: *mut c_void) -> Result<Self, Error> {
        if device.is_sim() {
            return Err(Error::NotOnModel { what: "an event of the CUDA driver" });
        }
        if event.is_null() {
            return Err(Error::NullEvent);
        }
        let mark = Mark::Cuda { raw: CuEvent(event), owned: false };
        Ok(Self { backend: device.backend.clone(), mark })
    }

    /// The driver's handle (`CUevent`), for other CUDA libraries; null on the model. It is valid while the
    /// event lives.
    pub fn raw(&self) -> *mut c_void {
        self.cu().map_or(std::ptr::null_mut(), |event| event.0)
    }

    /// The `CUevent`; `None` on the model.
    pub(crate) fn cu(&self) -> Option<CuEvent> {
        match &self.mark {
            Mark::Cuda { raw, .. } => Some(*raw),
            Mark::Sim(_) => None,
        }
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Waits until the work before the event is complete. (`cuEventSynchronize`.)
    pub fn synchronize(&self) -> Result<(), Error> {
        match (&self.backend, self.cu()) {
            (Backend::Cuda(context), Some(event)) => {
                let _bound = context.bind()?;
                // SAFETY: the event is alive and of the bound context.
                unsafe { driver::cuEventSynchronize(event) }
            }
            (Backend::Sim(model), _) => {
                model.synchronize();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Waits for this event and returns the milliseconds since `earlier`. (`cuEventElapsedTime`.)
    ///
    /// # Errors
    /// [`Error::ForeignDevice`] if `earlier` belongs to another device; [`Error::Driver`] for an event of the
    /// caller's that was created without timing or not recorded.
    pub fn elapsed_ms(&self, earlier: &Self) -> Result<f64, Error> {
        let (ours, theirs) = (&self.backend, &earlier.backend);
        match (&earlier.mark, &self.mark, ours) {
            (
                Mark::Cuda { raw: start, .. },
                Mark::Cuda { raw: end, .. },
                Backend::Cuda(context),
            ) if ours.same(theirs) => {
                let _bound = context.bind()?;
                // SAFETY: both events are alive and of the bound context.
                unsafe { driver::cuEventSynchronize(*end) }?;
                let mut ms = 0.0;
                // SAFETY: as above; `ms` is a valid place for the result.
                unsafe { driver::cuEventElapsedTime(&raw mut ms, *start, *end) }?;
                Ok(f64::from(ms))
            }
            (Mark::Sim(start), Mark::Sim(end), _) if ours.same(theirs) => {
                Ok(end.saturating_duration_since(*start).as_secs_f64() * 1e3)
            }
            _ => Err(Error::ForeignDevice {
                what: "an event".into(),
                theirs: theirs.describe(),
                ours: ours.describe(),
            }),
        }
    }
}
