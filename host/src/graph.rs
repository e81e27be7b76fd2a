//! Graphs of captured work.

use crate::driver::{self, CuGraph, CuGraphExec};
use crate::error::Error;
use crate::stream::Stream;

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
    pub(crate) fn instantiate(stream: &Stream, graph: CuGraph) -> Result<Self, Error> {
        let mut exec = CuGraphExec::NULL;
        // SAFETY: `graph` came from the capture; `exec` receives the result.
        let made = unsafe { driver::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) };
        // SAFETY: an executable graph does not need the captured graph any more.
        let _ = unsafe { driver::cuGraphDestroy(graph) };
        made?;
        Ok(Self { stream: stream.clone(), exec })
    }

    /// Launches the captured work on the stream that it was captured from. (`cuGraphLaunch`.)
    pub fn launch(&self) -> Result<(), Error> {
        let Some(context) = self.stream.context() else { return Ok(()) };
        let _bound = context.bind()?;
        // SAFETY: both handles are alive.
        unsafe { driver::cuGraphLaunch(self.exec, self.stream.cu()) }
    }
}
