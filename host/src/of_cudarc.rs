//! Safe constructors from cudarc's contexts, streams and memory (feature `cudarc`).
//!
//! cudarc is told of every use: a view waits, on its stream, for what cudarc knows to be queued on the memory,
//! and cudarc's later uses on other streams wait for the runs. Contexts and streams are kept alive.

use crate::buffer::Buffer;
use crate::context::Context;
use crate::device::{Backend, Device};
use crate::error::Error;
use crate::stream::Stream;
use crate::view::{Loan, View, ViewMut};
use ::cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};
use isa::kernel::Dtype;
use isa::slice::Element;
use std::sync::Arc;

impl Device {
    /// The context of cudarc, which is kept alive. Features of cudarc are the caller's choice.
    ///
    /// # Errors
    /// [`Error::WrongArch`]; [`Error::Driver`].
    pub fn from_cudarc(context: &Arc<CudaContext>) -> Result<Self, Error> {
        let keep = Arc::clone(context);
        // SAFETY: `keep` owns the context.
        let context = unsafe { Context::from_raw(context.cu_ctx().cast(), Some(keep)) }?;
        Ok(Self::of(Backend::Cuda(context)))
    }
}

impl Stream {
    /// A stream of cudarc, which is kept alive.
    ///
    /// # Errors
    /// [`Error::ForeignStream`] for a stream of another context; [`Error::NotOnModel`].
    pub fn from_cudarc(device: &Device, stream: &Arc<CudaStream>) -> Result<Self, Error> {
        let keep = Arc::clone(stream);
        // SAFETY: `keep` owns the stream.
        unsafe { Self::foreign(device, stream.cu_stream().cast(), Some(keep)) }
    }
}

impl<'a> View<'a> {
    /// Memory of cudarc (a `CudaSlice`, `CudaView` or `CudaViewMut`) that is read by runs on `stream`, and on
    /// no other stream. It is borrowed until the bound product is dropped; then cudarc's event is recorded
    /// behind the runs. Where a run is captured, cudarc's event tracking must be off: its events are no
    /// part of the graph.
    ///
    /// # Errors
    /// The errors of [`Stream::from_cudarc`] and [`Buffer::from_raw`].
    pub fn from_cudarc<T: Element, S: DevicePtr<T>>(
        device: &Device,
        memory: &'a S,
        stream: &'a Arc<CudaStream>,
    ) -> Result<Self, Error> {
        let bytes = memory.num_bytes();
        borrowed(device, memory.device_ptr(stream), bytes, T::DTYPE, stream)
    }
}

impl<'a> ViewMut<'a> {
    /// [`View::from_cudarc`] of memory that is written.
    ///
    /// # Errors
    /// The errors of [`View::from_cudarc`].
    pub fn from_cudarc<T: Element, S: DevicePtrMut<T>>(
        device: &Device,
        memory: &'a mut S,
        stream: &'a Arc<CudaStream>,
    ) -> Result<Self, Error> {
        let bytes = memory.num_bytes();
        borrowed(device, memory.device_ptr_mut(stream), bytes, T::DTYPE, stream).map(Self)
    }
}

fn borrowed<'a>(
    device: &Device,
    (addr, end): (u64, SyncOnDrop<'a>),
    bytes: usize,
    dtype: Option<Dtype>,
    stream: &Arc<CudaStream>,
) -> Result<View<'a>, Error> {
    let stream = Stream::from_cudarc(device, stream)?;
    // SAFETY: the memory is borrowed for 'a, which the view and what is bound to it do not outlive. Freeing it
    // waits for the event that `end` records.
    let buffer = unsafe { Buffer::from_raw(device, addr, bytes) }?;
    Ok(View { dtype, loan: Some(Loan::new(stream, end)), ..View::from(&buffer) })
}

impl Buffer {
    /// Memory of cudarc, which the buffer owns from now on. Waits for the stream that it was allocated on;
    /// dropping the buffer waits for the device.
    ///
    /// # Errors
    /// [`Error::Cudarc`] if cudarc's wait fails; the errors of [`Buffer::from_raw`].
    pub fn from_cudarc<T: Send + Sync + 'static>(
        device: &Device,
        slice: CudaSlice<T>,
    ) -> Result<Self, Error> {
        let stream = Arc::clone(slice.stream());
        let failed = |e: ::cudarc::driver::DriverError| Error::Cudarc { reason: e.to_string() };
        stream.synchronize().map_err(failed)?;
        let (addr, bytes) = {
            let (addr, _end) = slice.device_ptr(&stream);
            (addr, slice.num_bytes())
        };
        let owned = Owned { device: device.clone(), _slice: slice };
        // SAFETY: `owned` frees the memory when the buffer is dropped, after the device's work.
        unsafe { Self::foreign(device, addr, bytes, Some(Arc::new(owned))) }
    }
}

/// Memory that is freed after all work of the device.
struct Owned<T> {
    device: Device,
    _slice: CudaSlice<T>,
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // A failure is a sticky error of the context, which the next call reports.
        let _ = self.device.synchronize();
    }
}
