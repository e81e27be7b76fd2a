//! Streams, events and graphs. On the model, every operation is complete when its call returns (also a
//! dependent launch, see [`Device::launch`]), and events read the host's clock.

use crate::cuda::{Context, check, failed};
use crate::device::{Backend, Device};
use crate::error::Error;
use cudarc::driver::{result, sys};
use std::sync::Arc;
use std::time::Instant;

/// A CUDA stream: work that runs in order on a device. Clones are cheap and refer to the same stream.
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Backend,
    raw: sys::CUstream,
    owned: bool,
}

// SAFETY: the driver synchronises access to a stream, and its context is bound before each use.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Backend::Cuda(context) = &self.backend
            && self.owned
            && context.bind().is_ok()
        {
            // SAFETY: created by `Stream::new`, dropped once.
            let _ = unsafe { result::stream::destroy(self.raw) };
        }
    }
}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Self, Error> {
        let (raw, owned) = match &device.backend {
            Backend::Cuda(context) => {
                context.bind()?;
                let raw = result::stream::create(result::stream::StreamKind::NonBlocking)
                    .map_err(|e| failed("cuStreamCreate", e))?;
                (raw, true)
            }
            Backend::Sim(_) => (std::ptr::null_mut(), false),
        };
        Ok(Self { inner: Arc::new(Inner { backend: device.backend.clone(), raw, owned }) })
    }

    pub(crate) fn default_of(device: &Device) -> Self {
        let raw = match &device.backend {
            Backend::Cuda(context) => context.stream,
            Backend::Sim(_) => std::ptr::null_mut(),
        };
        Self { inner: Arc::new(Inner { backend: device.backend.clone(), raw, owned: false }) }
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.inner.backend
    }

    /// The driver's handle (`CUstream`), for other CUDA libraries; null on the model. It is valid while
    /// the stream lives.
    pub fn handle(&self) -> *mut std::ffi::c_void {
        self.raw().cast()
    }

    /// The `CUstream`; null on the model.
    pub(crate) fn raw(&self) -> sys::CUstream {
        self.inner.raw
    }

    fn context(&self) -> Option<&Context> {
        match &self.inner.backend {
            Backend::Cuda(context) => Some(context),
            Backend::Sim(_) => None,
        }
    }

    /// Waits until all work of the stream is complete. (`cuStreamSynchronize`.)
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.inner.backend {
            Backend::Cuda(context) => context.bind()?,
            Backend::Sim(model) => {
                model.synchronize();
                return Ok(());
            }
        }
        // SAFETY: the stream lives while `self` does.
        unsafe { result::stream::synchronize(self.raw()) }
            .map_err(|e| failed("cuStreamSynchronize", e))
    }

    /// Records an event after the work queued so far. (`cuEventRecord`.)
    pub fn record(&self) -> Result<Event, Error> {
        let Some(context) = self.context() else {
            return Ok(Event { stream: self.clone(), mark: Mark::Sim(Instant::now()) });
        };
        context.bind()?;
        let raw = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)
            .map_err(|e| failed("cuEventCreate", e))?;
        let event = Event { stream: self.clone(), mark: Mark::Cuda(raw) };
        // SAFETY: both handles are alive and of the bound context.
        unsafe { result::event::record(raw, self.raw()) }
            .map_err(|e| failed("cuEventRecord", e))?;
        Ok(event)
    }

    /// Captures the work that `work` queues as a CUDA graph, instead of running it.
    /// (`cuStreamBeginCapture`.)
    ///
    /// # Errors
    /// [`Error::NotOnModel`] on the model; an error that `work` returns; the driver's error for a call
    /// that cannot be captured, such as an allocation or a synchronisation.
    pub fn capture<E: From<Error>>(
        &self,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<Graph, E> {
        let Some(context) = self.context() else {
            return Err(Error::NotOnModel { what: "a CUDA graph" }.into());
        };
        context.bind()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive and of the bound context.
        unsafe { result::stream::begin_capture(self.raw(), mode) }
            .map_err(|e| failed("cuStreamBeginCapture", e))?;
        let done = work();
        // SAFETY: capture began above, on this thread.
        let graph = unsafe { result::stream::end_capture(self.raw()) }
            .map_err(|e| failed("cuStreamEndCapture", e));
        done?;
        let graph = graph?;
        let mut exec = std::ptr::null_mut();
        // SAFETY: `graph` came from the capture; `exec` receives the result.
        let made = check("cuGraphInstantiate", unsafe {
            sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)
        });
        // SAFETY: an executable graph does not need the captured graph any more.
        let _ = unsafe { result::graph::destroy(graph) };
        made?;
        Ok(Graph { stream: self.clone(), exec })
    }
}

/// A CUDA event: a point in a stream's work.
pub struct Event {
    stream: Stream,
    mark: Mark,
}

enum Mark {
    Cuda(sys::CUevent),
    Sim(Instant),
}

// SAFETY: the driver synchronises access to an event, and its context is bound before each use.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        if let (Mark::Cuda(raw), Some(context)) = (&self.mark, self.stream.context())
            && context.bind().is_ok()
        {
            // SAFETY: created by `Stream::record`, dropped once.
            let _ = unsafe { result::event::destroy(*raw) };
        }
    }
}

impl Event {
    /// Waits for this event and returns the milliseconds since `earlier`. (`cuEventElapsedTime`.)
    ///
    /// # Errors
    /// [`Error::ForeignDevice`] if `earlier` belongs to another device.
    pub fn elapsed_ms(&self, earlier: &Self) -> Result<f64, Error> {
        let (ours, theirs) = (self.stream.backend(), earlier.stream.backend());
        match (&earlier.mark, &self.mark) {
            (Mark::Cuda(start), Mark::Cuda(end)) if ours.same(theirs) => {
                if let Some(context) = self.stream.context() {
                    context.bind()?;
                }
                // SAFETY: both events are alive and were recorded; this waits for the later one.
                unsafe { result::event::synchronize(*end) }
                    .map_err(|e| failed("cuEventSynchronize", e))?;
                // SAFETY: as above.
                unsafe { result::event::elapsed(*start, *end) }
                    .map(f64::from)
                    .map_err(|e| failed("cuEventElapsedTime", e))
            }
            (Mark::Sim(start), Mark::Sim(end)) => {
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

/// An executable CUDA graph, captured by [`Stream::capture`].
pub struct Graph {
    stream: Stream,
    exec: sys::CUgraphExec,
}

// SAFETY: the handle is used only while its context is bound, and the driver orders launches of a graph.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Some(context) = self.stream.context()
            && context.bind().is_ok()
        {
            // SAFETY: made by `capture`, destroyed once; the driver keeps running launches alive.
            let _ = unsafe { result::graph::exec_destroy(self.exec) };
        }
    }
}

impl Graph {
    /// Launches the captured work on the stream that it was captured from. (`cuGraphLaunch`.)
    pub fn launch(&self) -> Result<(), Error> {
        if let Some(context) = self.stream.context() {
            context.bind()?;
        }
        // SAFETY: both handles are alive; a graph exists only on CUDA.
        unsafe { result::graph::launch(self.exec, self.stream.raw()) }
            .map_err(|e| failed("cuGraphLaunch", e))
    }
}
