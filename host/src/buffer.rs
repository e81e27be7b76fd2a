//! Device memory: allocation, copies to and from the host, and 2D copies that change the row pitch.

use crate::assemble::relaxed;
use crate::context::Keep;
use crate::device::{Backend, Device};
use crate::driver::{self, CuMemcpy2d, value};
use crate::error::Error;
use crate::stream::Stream;
use isa::slice::{Element, SliceAbi};
use pipeline::grid::{DependentSlice, DependentSliceMut};
use std::sync::Arc;

/// A block of device memory. It is freed with its last owner; a tensor map is an owner of its buffer.
pub struct Buffer {
    pub(crate) memory: Arc<Memory>,
}

/// The memory that a [`Buffer`] owns.
pub(crate) struct Memory {
    pub backend: Backend,
    pub addr: u64,
    pub bytes: usize,
    owner: Owner,
}

/// Who frees the memory.
enum Owner {
    /// This memory.
    This,
    /// The memory that contains this part.
    Whole { _whole: Arc<Memory> },
    /// The caller of an `unsafe` function, or an object that owns the memory.
    Other { _keep: Option<Keep> },
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &self.backend {
            _ if self.bytes == 0 || !matches!(self.owner, Owner::This) => {}
            Backend::Cuda(context) => context.free(self.addr),
            Backend::Sim(model) => model.free(self.addr),
        }
    }
}

/// A copy of `rows` rows of `width` bytes between two pitches.
#[derive(Clone, Copy, Debug)]
pub struct Copy2d {
    /// Bytes of a row that are copied.
    pub width: u64,
    /// Rows.
    pub rows: u64,
    /// Bytes from one row to the next in the source.
    pub src_pitch: u64,
    /// Bytes from one row to the next in the destination.
    pub dst_pitch: u64,
}

impl Buffer {
    pub(crate) fn new(device: &Device, bytes: usize) -> Result<Self, Error> {
        let addr = match &device.backend {
            _ if bytes == 0 => 0,
            Backend::Cuda(context) => context.alloc(bytes)?,
            Backend::Sim(model) => model.alloc(bytes)?,
        };
        let backend = device.backend.clone();
        Ok(Self { memory: Arc::new(Memory { backend, addr, bytes, owner: Owner::This }) })
    }

    /// Allocates memory and copies `bytes` to it, without a wait for the device's other work.
    ///
    /// The copy has a stream of its own, so a thread may do this while it captures one.
    pub(crate) fn constant(device: &Device, bytes: &[u8]) -> Result<Self, Error> {
        let Backend::Cuda(context) = &device.backend else {
            return device.upload(bytes);
        };
        relaxed(|| {
            let (buffer, stream) = (Self::new(device, bytes.len())?, Stream::new(device)?);
            if !bytes.is_empty() {
                let _bound = context.bind()?;
                let from = bytes.as_ptr().cast();
                // SAFETY: `bytes` is as long as the allocation, and lives until the copy ends, which is below.
                unsafe {
                    driver::cuMemcpyHtoDAsync(buffer.addr(), from, bytes.len(), stream.cu())
                }?;
                stream.synchronize()?;
            }
            Ok(buffer)
        })?
    }

    /// Memory that the caller owns: `bytes` bytes of device memory at `addr`. It is not freed with the
    /// result, which nothing else keeps alive.
    ///
    /// The driver is asked what lies at the address. Memory of the device's context is accepted, and memory
    /// that belongs to the device and no context (of pools, and mapped memory).
    ///
    /// # Safety
    /// The memory stays allocated until the result, everything that keeps it alive (parts, views, tensor
    /// maps, bound products) and all work that was queued with them has ended. As with two parts of one
    /// buffer, nothing prevents work of this crate and of the caller's from using the memory at the same
    /// time; events or a common stream must order them.
    ///
    /// # Errors
    /// [`Error::NotDeviceMemory`] for memory of the host, of another device or context, and for addresses
    /// that nobody has allocated; [`Error::OutOfAllocation`] if the range exceeds its allocation;
    /// [`Error::ModelMemory`] on the model, which has addresses of its own ([`Buffer::addr`]).
    pub unsafe fn from_raw(device: &Device, addr: u64, bytes: usize) -> Result<Self, Error> {
        // SAFETY: the caller's contract.
        unsafe { Self::foreign(device, addr, bytes, None) }
    }

    /// [`Buffer::from_raw`] for memory that `keep` owns.
    ///
    /// # Safety
    /// As for [`Buffer::from_raw`], except that `keep` may keep the memory allocated.
    pub(crate) unsafe fn foreign(
        device: &Device,
        addr: u64,
        bytes: usize,
        keep: Option<Keep>,
    ) -> Result<Self, Error> {
        match &device.backend {
            _ if bytes == 0 => {}
            Backend::Cuda(context) => context.check_range(addr, bytes as u64)?,
            Backend::Sim(model) => model.check_range(addr, bytes)?,
        }
        let (backend, owner) = (device.backend.clone(), Owner::Other { _keep: keep });
        Ok(Self { memory: Arc::new(Memory { backend, addr, bytes, owner }) })
    }

    /// `bytes` bytes from `offset`, as a buffer that keeps this one alive.
    ///
    /// The two buffers share memory. Nothing prevents a launch from writing one while it reads the other.
    ///
    /// # Errors
    /// [`Error::OutOfBuffer`] if the part exceeds this buffer.
    pub fn part(&self, offset: usize, bytes: usize) -> Result<Self, Error> {
        let end = offset.checked_add(bytes).filter(|&end| end <= self.len());
        let Some(_) = end else {
            return Err(Error::OutOfBuffer {
                what: "a part of a buffer".into(),
                offset: offset as u64,
                end: (offset as u64).saturating_add(bytes as u64),
                len: self.len() as u64,
            });
        };
        let (backend, addr) = (self.memory.backend.clone(), self.addr() + offset as u64);
        let owner = Owner::Whole { _whole: Arc::clone(&self.memory) };
        Ok(Self { memory: Arc::new(Memory { backend, addr, bytes, owner }) })
    }

    /// Device address; 0 if the buffer is empty.
    pub fn addr(&self) -> u64 {
        self.memory.addr
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.memory.bytes
    }

    /// Whether the size is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole buffer as elements of type `T`, for a field of a kernel's argument
    /// ([`Param::value`](crate::Param::value)). Bytes after the last whole element are not part of it.
    pub fn dependent_slice<T: Element>(&self) -> DependentSlice<'_, T> {
        // SAFETY: the slice borrows the buffer, so its memory lives long enough. An allocation has the
        // alignment of every element type; a part that has not makes the kernel fault.
        unsafe { DependentSlice::new(self.elements::<T>()) }
    }

    /// [`Buffer::dependent_slice`] for a kernel that may write the buffer.
    pub fn dependent_slice_mut<T: Element>(&mut self) -> DependentSliceMut<'_, T> {
        // SAFETY: as above. The mutable borrow excludes every other access.
        unsafe { DependentSliceMut::new(self.elements::<T>()) }
    }

    /// Its memory as a slice of `T`.
    pub(crate) fn elements<T: Element>(&self) -> SliceAbi {
        SliceAbi { address: self.addr(), elements: (self.len() / size_of::<T>()) as u64 }
    }

    /// Waits for the device, then copies the whole buffer into `out`.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if the lengths differ; [`Error::Driver`] if the copy, or work that was queued before it, failed.
    pub fn read(&self, out: &mut [u8]) -> Result<(), Error> {
        self.same_len("reading a buffer", out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        match &self.memory.backend {
            Backend::Cuda(context) => {
                context.synchronize()?;
                let _bound = context.bind()?;
                // SAFETY: `out` is as long as the allocation, and the copy ends before return.
                unsafe { driver::cuMemcpyDtoH(out.as_mut_ptr().cast(), self.addr(), out.len()) }
            }
            Backend::Sim(model) => model.read(self.addr(), out),
        }
    }

    /// Waits for the device, then copies the whole buffer to the host.
    ///
    /// # Errors
    /// [`Error::Driver`], as [`Buffer::read`].
    pub fn to_vec(&self) -> Result<Vec<u8>, Error> {
        let mut out = vec![0; self.len()];
        self.read(&mut out)?;
        Ok(out)
    }

    /// Waits for the device, then replaces the whole contents.
    ///
    /// # Errors
    /// Those of [`Buffer::read`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.same_len("writing a buffer", bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        match &self.memory.backend {
            Backend::Cuda(context) => {
                context.synchronize()?;
                let _bound = context.bind()?;
                // SAFETY: `bytes` is as long as the allocation, and the call has read it when it
                // returns. The device's copy may end later; the wait below covers that.
                unsafe { driver::cuMemcpyHtoD(self.addr(), bytes.as_ptr().cast(), bytes.len()) }?;
                context.synchronize()
            }
            Backend::Sim(model) => model.write(self.addr(), bytes),
        }
    }

    /// Waits for the device, then sets every byte. `0xff` makes every float a NaN, which exposes results
    /// that a kernel does not write.
    ///
    /// # Errors
    /// [`Error::Driver`], as [`Buffer::read`].
    pub fn fill(&mut self, byte: u8) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        match &self.memory.backend {
            Backend::Cuda(context) => {
                context.synchronize()?;
                let _bound = context.bind()?;
                // SAFETY: the range is the allocation's own.
                unsafe { driver::cuMemsetD8(self.addr(), byte, self.len()) }?;
                context.synchronize()
            }
            Backend::Sim(model) => model.write(self.addr(), &vec![byte; self.len()]),
        }
    }

    fn same_len(&self, what: &'static str, host: usize) -> Result<(), Error> {
        if host == self.len() {
            return Ok(());
        }
        Err(Error::LengthMismatch { what, host: host as u64, device: self.len() as u64 })
    }
}

/// Bytes from the start of the first row to the end of the last; `None` if that overflows.
pub(crate) fn span(rows: u64, pitch: u64, width: u64) -> Option<u64> {
    match rows {
        0 => Some(0),
        _ => (rows - 1).checked_mul(pitch)?.checked_add(width),
    }
}

/// The largest pitch of a 2D copy (`CU_DEVICE_ATTRIBUTE_MAX_PITCH`). Rows that are further apart are copied one by one.
const MAX_PITCH: u64 = i32::MAX as u64;

/// Rows inside a memory: where the first one begins, and how far it is to the next.
pub(crate) struct Rows<'a> {
    pub memory: &'a Memory,
    pub offset: u64,
    pub pitch: u64,
}

impl Device {
    /// Queues a copy of rows from the start of `src` to the start of `dst` on `stream`.
    ///
    /// The GEMM uses it to give operands a row pitch that TMA accepts. Bytes between the rows of `dst`
    /// keep their contents.
    pub fn copy_2d(
        &self,
        src: &Buffer,
        dst: &mut Buffer,
        shape: Copy2d,
        stream: &Stream,
    ) -> Result<(), Error> {
        self.owns(|| "the source of a copy".into(), &src.memory.backend)?;
        self.owns(|| "the destination of a copy".into(), &dst.memory.backend)?;
        self.owns(|| "the stream of a copy".into(), stream.backend())?;
        let Copy2d { width, rows, src_pitch, dst_pitch } = shape;
        let src = Rows { memory: &src.memory, offset: 0, pitch: src_pitch };
        let dst = Rows { memory: &dst.memory, offset: 0, pitch: dst_pitch };
        self.copy_rows(&src, &dst, [rows, width], stream)
    }

    /// Copies `[rows, width]`, the width in bytes, between two memories of this device, on a stream of it.
    pub(crate) fn copy_rows(
        &self,
        src: &Rows<'_>,
        dst: &Rows<'_>,
        [rows, width]: [u64; 2],
        stream: &Stream,
    ) -> Result<(), Error> {
        for (side, Rows { memory, offset, pitch }) in [("source", src), ("destination", dst)] {
            if rows > 1 && *pitch < width {
                return Err(Error::CopyPitch { side, width, pitch: *pitch });
            }
            let end = span(rows, *pitch, width).and_then(|span| span.checked_add(*offset));
            let end = end.unwrap_or(u64::MAX);
            if end > memory.bytes as u64 {
                return Err(Error::OutOfBuffer {
                    what: format!("copy of {rows} rows, {side}"),
                    offset: *offset,
                    end,
                    len: memory.bytes as u64,
                });
            }
        }
        if width == 0 || rows == 0 {
            return Ok(());
        }
        let (from, to) = (src.memory.addr + src.offset, dst.memory.addr + dst.offset);
        if rows > 1 && src.pitch.max(dst.pitch) > MAX_PITCH {
            return (0..rows).try_for_each(|row| {
                let (from, to) = (src.offset + row * src.pitch, dst.offset + row * dst.pitch);
                let (src, dst) = (Rows { offset: from, ..*src }, Rows { offset: to, ..*dst });
                self.copy_rows(&src, &dst, [1, width], stream)
            });
        }
        match &self.backend {
            Backend::Cuda(context) => {
                let _bound = context.bind()?;
                // The driver wants a pitch of at least a row even where there is one row only.
                let pitch = |pitch: u64| if rows > 1 { pitch } else { width } as usize;
                let copy = CuMemcpy2d {
                    src_x: 0,
                    src_y: 0,
                    src_type: value::MEMORY_DEVICE,
                    src_host: std::ptr::null(),
                    src_device: from,
                    src_array: std::ptr::null_mut(),
                    src_pitch: pitch(src.pitch),
                    dst_x: 0,
                    dst_y: 0,
                    dst_type: value::MEMORY_DEVICE,
                    dst_host: std::ptr::null_mut(),
                    dst_device: to,
                    dst_array: std::ptr::null_mut(),
                    dst_pitch: pitch(dst.pitch),
                    width: width as usize,
                    height: rows as usize,
                };
                // SAFETY: both ranges were checked against their memories above.
                unsafe { driver::cuMemcpy2DAsync(&raw const copy, stream.cu()) }
            }
            Backend::Sim(model) => {
                let mut row = vec![0; width as usize];
                for i in 0..rows {
                    model.read(from + i * src.pitch, &mut row)?;
                    model.write(to + i * dst.pitch, &row)?;
                }
                Ok(())
            }
        }
    }
}
