//! Streams, events and graphs. On the model, every operation is complete when its call returns (also a
//! dependent launch, see [`Device::launch`]), and events read the host's clock.

use crate::cuda::{Context, new_stream};
use crate::device::{Backend, Device};
use crate::driver::{self, CuEvent, CuGraph, CuGraphExec, CuStream, value};
use crate::error::Error;
use std::sync::Arc;
use std::time::Instant;

/// A CUDA stream: work that runs in order on a device. Clones are cheap and refer to the same stream.
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Backend,
    raw: CuStream,
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
            let _ = unsafe { driver::cuStreamDestroy(self.raw) };
        }
    }
}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Self, Error> {
        let (raw, owned) = match &device.backend {
            Backend::Cuda(context) => {
                context.bind()?;
                (new_stream()?, true)
            }
            Backend::Sim(_) => (CuStream::NULL, false),
        };
        Ok(Self { inner: Arc::new(Inner { backend: device.backend.clone(), raw, owned }) })
    }

    pub(crate) fn default_of(device: &Device) -> Self {
        let raw = match &device.backend {
            Backend::Cuda(context) => context.stream,
            Backend::Sim(_) => CuStream::NULL,
        };
        Self { inner: Arc::new(Inner { backend: device.backend.clone(), raw, owned: false }) }
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.inner.backend
    }

    /// The driver's handle (`CUstream`), for other CUDA libraries; null on the model. It is valid while
    /// the stream lives.
    pub fn handle(&self) -> *mut std::ffi::c_void {
        self.raw().0
    }

    /// The `CUstream`; null on the model.
    pub(crate) fn raw(&self) -> CuStream {
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
        unsafe { driver::cuStreamSynchronize(self.raw()) }
    }

    /// Records an event after the work queued so far. (`cuEventRecord`.)
    pub fn record(&self) -> Result<Event, Error> {
        let Some(context) = self.context() else {
            return Ok(Event { stream: self.clone(), mark: Mark::Sim(Instant::now()) });
        };
        context.bind()?;
        let mut raw = CuEvent::NULL;
        // SAFETY: the context is bound; `raw` is a valid place for the result.
        unsafe { driver::cuEventCreate(&raw mut raw, value::EVENT_DEFAULT) }?;
        let event = Event { stream: self.clone(), mark: Mark::Cuda(raw) };
        // SAFETY: both handles are alive and of the bound context.
        unsafe { driver::cuEventRecord(raw, self.raw()) }?;
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
        // SAFETY: the stream is alive and of the bound context.
        unsafe { driver::cuStreamBeginCapture(self.raw(), value::CAPTURE_THREAD_LOCAL) }?;
        let done = work();
        let mut graph = CuGraph::NULL;
        // SAFETY: capture began above, on this thread; `graph` receives the result.
        let ended = unsafe { driver::cuStreamEndCapture(self.raw(), &raw mut graph) };
        done?;
        ended?;
        let mut exec = CuGraphExec::NULL;
        // SAFETY: `graph` came from the capture; `exec` receives the result.
        let made = unsafe { driver::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) };
        // SAFETY: an executable graph does not need the captured graph any more.
        let _ = unsafe { driver::cuGraphDestroy(graph) };
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
    Cuda(CuEvent),
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
            let _ = unsafe { driver::cuEventDestroy(*raw) };
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
                unsafe { driver::cuEventSynchronize(*end) }?;
                let mut ms = 0.0;
                // SAFETY: as above; `ms` is a valid place for the result.
                unsafe { driver::cuEventElapsedTime(&raw mut ms, *start, *end) }?;
                Ok(f64::from(ms))
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
    exec: CuGraphExec,
}

// SAFETY: the handle is used only while its context is bound, and the driver orders launches of a graph.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Some(context) = self.stream.context()
            && context.bind().is_ok()
        {
            // SAFETY: made by `capture`, destroyed once; the driver keeps running launches alive.
            let _ = unsafe { driver::cuGraphExecDestroy(self.exec) };
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
        unsafe { driver::cuGraphLaunch(self.exec, self.stream.raw()) }
    }
}
