//! Streams and graphs of captured work. On the model, every operation is complete when its call returns (also a dependent launch, see
//! [`Device::launch`]).

use crate::context::{Context, Keep};
use crate::cuda::new_stream;
use crate::device::{Backend, Device};
use crate::driver::{self, CuContext, CuGraph, CuGraphExec, CuStream, value};
use crate::error::Error;
use crate::event::Event;
use std::ffi::c_void;
use std::sync::Arc;

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`, handles of streams that every context has. So has null,
/// which means one or the other.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// A CUDA stream: work that runs in order on a device. Clones are cheap and refer to the same stream.
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Backend,
    raw: CuStream,
    owner: Owner,
}

/// Who destroys the stream.
enum Owner {
    /// This stream.
    This,
    /// The device's context, the caller of an `unsafe` function, or an object that owns the stream.
    Other { _keep: Option<Keep> },
}

// SAFETY: the driver synchronises access to a stream, and its context is bound before each use.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        if let (Backend::Cuda(context), Owner::This) = (&self.backend, &self.owner)
            && let Ok(_bound) = context.bind()
        {
            // SAFETY: created by `Stream::new`, dropped once.
            let _ = unsafe { driver::cuStreamDestroy(self.raw) };
        }
    }
}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Self, Error> {
        let raw = match &device.backend {
            Backend::Cuda(context) => {
                let _bound = context.bind()?;
                new_stream()?
            }
            Backend::Sim(_) => CuStream::NULL,
        };
        Ok(Self::of(device, raw, Owner::This))
    }

    pub(crate) fn default_of(device: &Device) -> Self {
        let raw = match &device.backend {
            Backend::Cuda(context) => context.stream,
            Backend::Sim(_) => CuStream::NULL,
        };
        Self::of(device, raw, Owner::Other { _keep: None })
    }

    fn of(device: &Device, raw: CuStream, owner: Owner) -> Self {
        Self { inner: Arc::new(Inner { backend: device.backend.clone(), raw, owner }) }
    }

    /// A stream that the caller owns: a `CUstream` of the device's context. Null and `CU_STREAM_LEGACY` are
    /// the legacy default stream, `CU_STREAM_PER_THREAD` is the calling thread's own one. The stream is not
    /// destroyed with the result.
    ///
    /// # Safety
    /// `stream` is one of these three, or a stream of the CUDA driver. It is not destroyed before the result
    /// and its clones. A plan that shares memory between its runs keeps a clone of the stream that it ran
    /// on last ([`GemmPlan::synchronize`](crate::gemm::GemmPlan::synchronize) drops it), and so does a
    /// [`Graph`] for as long as it lives.
    ///
    /// # Errors
    /// [`Error::ForeignStream`] for a stream of another context; [`Error::NotOnModel`] on the model;
    /// [`Error::Driver`] if the driver refuses the handle.
    pub unsafe fn from_raw(device: &Device, stream: *mut c_void) -> Result<Self, Error> {
        // SAFETY: the caller's contract.
        unsafe { Self::foreign(device, stream, None) }
    }

    /// [`Stream::from_raw`] for a stream that `keep` owns.
    ///
    /// # Safety
    /// As for [`Stream::from_raw`], except that `keep` may keep the stream alive.
    pub(crate) unsafe fn foreign(
        device: &Device,
        stream: *mut c_void,
        keep: Option<Keep>,
    ) -> Result<Self, Error> {
        let Backend::Cuda(context) = &device.backend else {
            return Err(Error::NotOnModel { what: "a stream of the CUDA driver" });
        };
        if !matches!(stream as usize, 0 | LEGACY | PER_THREAD) {
            let _bound = context.bind()?;
            let mut theirs = CuContext::NULL;
            // SAFETY: the stream is alive by the caller's contract; `theirs` is a valid place for the result.
            unsafe { driver::cuStreamGetCtx(CuStream(stream), &raw mut theirs) }?;
            if theirs != context.raw() {
                return Err(Error::ForeignStream {
                    stream: stream as u64,
                    theirs: theirs.0 as u64,
                    ours: context.raw().0 as u64,
                    device: context.info.index,
                });
            }
        }
        Ok(Self::of(device, CuStream(stream), Owner::Other { _keep: keep }))
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.inner.backend
    }

    /// The driver's handle (`CUstream`), for other CUDA libraries; null on the model. It is valid while
    /// the stream lives.
    pub fn raw(&self) -> *mut c_void {
        self.cu().0
    }

    /// The `CUstream`; null on the model.
    pub(crate) fn cu(&self) -> CuStream {
        self.inner.raw
    }

    /// Whether the handle means another stream on each thread.
    pub(crate) fn is_per_thread(&self) -> bool {
        self.raw() as usize == PER_THREAD
    }

    /// The context; `None` on the model.
    pub(crate) fn context(&self) -> Option<&Context> {
        match &self.inner.backend {
            Backend::Cuda(context) => Some(context),
            Backend::Sim(_) => None,
        }
    }

    /// The number of the capture that the stream takes part in, if it does. (`cuStreamGetCaptureInfo`.)
    pub fn capture_id(&self) -> Result<Option<u64>, Error> {
        let Some(context) = self.context() else { return Ok(None) };
        let _bound = context.bind()?;
        let (mut status, mut id, mut graph, mut count) = (0, 0, CuGraph::NULL, 0);
        let (mut nodes, mut edges) = (std::ptr::null(), std::ptr::null());
        // SAFETY: the stream lives while `self` does, and there is a place for every result: the driver
        // refuses to leave out edges that have properties, which dependent launches have.
        unsafe {
            driver::cuStreamGetCaptureInfo(
                self.cu(),
                &raw mut status,
                &raw mut id,
                &raw mut graph,
                &raw mut nodes,
                &raw mut edges,
                &raw mut count,
            )
        }?;
        Ok((status == value::CAPTURE_ACTIVE).then_some(id))
    }

    /// Whether all work of the stream is complete. It may be asked while another stream is captured.
    pub(crate) fn is_complete(&self) -> Result<bool, Error> {
        let Some(context) = self.context() else { return Ok(true) };
        let _bound = context.bind()?;
        // SAFETY: the stream lives while `self` does.
        match crate::assemble::relaxed(|| unsafe { driver::cuStreamQuery(self.cu()) })? {
            Ok(()) => Ok(true),
            Err(e) if driver::is(&e, value::ERROR_NOT_READY) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Waits until all work of the stream is complete. (`cuStreamSynchronize`.)
    pub fn synchronize(&self) -> Result<(), Error> {
        let context = match &self.inner.backend {
            Backend::Cuda(context) => context,
            Backend::Sim(model) => {
                model.synchronize();
                return Ok(());
            }
        };
        let _bound = context.bind()?;
        // SAFETY: the stream lives while `self` does.
        unsafe { driver::cuStreamSynchronize(self.cu()) }
    }

    /// Records an event after the work queued so far. (`cuEventRecord`.)
    pub fn record(&self) -> Result<Event, Error> {
        let event = Event::new(self.backend(), true)?;
        self.record_in(&event)?;
        Ok(event)
    }

    /// Records an event of the same context.
    pub(crate) fn record_in(&self, event: &Event) -> Result<(), Error> {
        let (Some(context), Some(event)) = (self.context(), event.cu()) else { return Ok(()) };
        let _bound = context.bind()?;
        // SAFETY: both handles are alive and of the bound context.
        unsafe { driver::cuEventRecord(event, self.cu()) }
    }

    /// Lets the work queued from now on wait until the work before the event is complete. The host does not
    /// wait. An event that was never recorded is complete. (`cuStreamWaitEvent`.)
    ///
    /// # Errors
    /// [`Error::ForeignDevice`] for an event of another device; [`Error::Driver`] in a capture that the event
    /// does not belong to.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        let (ours, theirs) = (self.backend(), event.backend());
        if !ours.same(theirs) {
            return Err(Error::ForeignDevice {
                what: "an event".into(),
                theirs: theirs.describe(),
                ours: ours.describe(),
            });
        }
        let (Some(context), Some(event)) = (self.context(), event.cu()) else { return Ok(()) };
        let _bound = context.bind()?;
        // SAFETY: both handles are alive and of the bound context.
        unsafe { driver::cuStreamWaitEvent(self.cu(), event, value::WAIT_DEFAULT) }
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
        let _bound = context.bind()?;
        // SAFETY: the stream is alive and of the bound context.
        unsafe { driver::cuStreamBeginCapture(self.cu(), value::CAPTURE_THREAD_LOCAL) }?;
        let done = work();
        let mut graph = CuGraph::NULL;
        // SAFETY: capture began above, on this thread; `graph` receives the result.
        let ended = unsafe { driver::cuStreamEndCapture(self.cu(), &raw mut graph) };
        if done.is_err() && graph != CuGraph::NULL {
            // SAFETY: the graph came from the capture, and nobody else has it.
            let _ = unsafe { driver::cuGraphDestroy(graph) };
        }
        done?;
        ended?;
        Ok(Graph::instantiate(self, graph)?)
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
            && let Ok(_bound) = context.bind()
        {
            // SAFETY: made by `instantiate`, destroyed once; the driver keeps running launches alive.
            let _ = unsafe { driver::cuGraphExecDestroy(self.exec) };
        }
    }
}

impl Graph {
    /// Makes an executable graph of a captured one, which is destroyed. The context is bound.
    fn instantiate(stream: &Stream, graph: CuGraph) -> Result<Self, Error> {
        let mut exec = CuGraphExec::NULL;
        // SAFETY: `graph` came from the capture; `exec` receives the result.
        let made = unsafe { driver::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) };
        // SAFETY: an executable graph does not need the captured graph any more.
        let _ = unsafe { driver::cuGraphDestroy(graph) };
        made?;
        Ok(Self { stream: stream.clone(), exec })
    }

    /// Launches the captured work on the stream that it was captured from. The graph keeps no memory and no
    /// module alive: what was captured must still exist. (`cuGraphLaunch`.)
    pub fn launch(&self) -> Result<(), Error> {
        let Some(context) = self.stream.context() else { return Ok(()) };
        let _bound = context.bind()?;
        // SAFETY: both handles are alive.
        unsafe { driver::cuGraphLaunch(self.exec, self.stream.cu()) }
    }
}
