//! DLPack's C structures, and tensors that other libraries export through it.
//!
//! There are three ways in: the table of C functions on a tensor's type (`__dlpack_c_exchange_api__`, DLPack 1.3:
//! tens of nanoseconds and nothing to own), a versioned capsule, and an unversioned one. A capsule's tensor is
//! ours until its deleter runs, which the drop of [`Managed`] does.

use crate::layout::{Dims, Element, MAX_DIMS, Place, View};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};

const CAPSULE: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
const EXCHANGE: &CStr = c"dlpack_exchange_api";
const MAJOR: u32 = 1;
const READ_ONLY: u64 = 1;

/// `DLDeviceType` of host memory.
const CPU: i32 = 1;
/// `DLDeviceType` of CUDA memory.
pub const CUDA: i32 = 2;
/// `DLDeviceType` of pinned host memory.
const CUDA_HOST: i32 = 3;
/// `DLDeviceType` of managed memory.
const CUDA_MANAGED: i32 = 13;

/// `DLTensor`.
#[repr(C)]
pub struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    dtype: Element,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct ManagedTensor {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

#[repr(C)]
struct ManagedTensorVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedTensorVersioned)>,
    flags: u64,
    tensor: Tensor,
}

/// `DLPackExchangeAPI`. Functions that are not called here are opaque.
#[repr(C)]
pub struct Exchange {
    major: u32,
    minor: u32,
    older: *const Exchange,
    allocate: *const c_void,
    managed_from_object: *const c_void,
    object_from_managed: *const c_void,
    tensor_from_object: Option<unsafe extern "C" fn(*mut c_void, *mut Tensor) -> c_int>,
    work_stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

// SAFETY: the structure is constant and its functions may be called by any thread that holds the GIL.
unsafe impl Sync for Exchange {}
// SAFETY: as above.
unsafe impl Send for Exchange {}

impl Exchange {
    /// The table of a tensor type, if it has one of a version that this module knows.
    pub fn of(ty: &Bound<'_, PyAny>) -> Option<&'static Self> {
        let capsule = ty.getattr("__dlpack_c_exchange_api__").ok()?;
        // SAFETY: `capsule` is an object; the call fails with an exception if it is no such capsule.
        let table = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), EXCHANGE.as_ptr()) };
        if table.is_null() {
            drop(PyErr::take(ty.py()));
            return None;
        }
        let mut table = table.cast::<Self>().cast_const();
        // SAFETY: DLPack requires that the tables live as long as the process, and that the first three
        // fields are the same in all versions.
        unsafe {
            while !table.is_null() && (*table).major != MAJOR {
                table = (*table).older;
            }
            table.as_ref().filter(|t| t.tensor_from_object.is_some() && t.work_stream.is_some())
        }
    }

    /// A tensor of the table's type, as long as the object lives. `None` if its library can't describe it.
    pub fn view(&self, object: &Bound<'_, PyAny>) -> Option<View> {
        let mut tensor = std::mem::MaybeUninit::<Tensor>::uninit();
        // SAFETY: the caller looked the table up on the object's type; the call fills the tensor or fails.
        let status =
            unsafe { self.tensor_from_object?(object.as_ptr().cast(), tensor.as_mut_ptr()) };
        if status != 0 {
            drop(PyErr::take(object.py()));
            return None;
        }
        // SAFETY: filled above; its lists belong to the object, which is alive.
        unsafe { tensor.assume_init_ref().view(false) }.ok()
    }

    /// The stream on which the library works at this moment (a `CUstream`).
    pub fn stream(&self, py: Python<'_>, device: i32) -> PyResult<*mut c_void> {
        let mut stream = std::ptr::null_mut();
        let Some(work_stream) = self.work_stream else { return Ok(stream) };
        // SAFETY: `stream` is a valid place for the result.
        if unsafe { work_stream(CUDA, device, &raw mut stream) } != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(stream)
    }
}

impl Tensor {
    /// Copies the description.
    ///
    /// # Safety
    /// `shape` and `strides` point to `ndim` numbers, or `strides` is null.
    unsafe fn view(&self, readonly: bool) -> PyResult<View> {
        let ndim = usize::try_from(self.ndim).unwrap_or(0);
        if ndim > MAX_DIMS {
            let text = format!("a tensor of {ndim} dimensions; at most {MAX_DIMS} are supported");
            return Err(PyValueError::new_err(text));
        }
        let list = |at: *const i64| {
            if ndim == 0 {
                return Dims::EMPTY;
            }
            // SAFETY: the caller's contract; the length was checked above.
            Dims::new(unsafe { std::slice::from_raw_parts(at, ndim) }).unwrap_or(Dims::EMPTY)
        };
        let shape = list(self.shape);
        // Before DLPack 1.2, no strides meant no gaps.
        let strides = if self.strides.is_null() { shape.contiguous() } else { list(self.strides) };
        let place = match self.device_type {
            CPU | CUDA_HOST => Place::Host,
            CUDA | CUDA_MANAGED => Place::Cuda(self.device_id),
            other => Place::Other(other),
        };
        let addr = (self.data as u64).wrapping_add(self.byte_offset);
        Ok(View { addr, place, element: self.dtype, shape, strides, readonly })
    }
}

/// A tensor that this module owns until the drop.
pub enum Managed {
    /// From a capsule named "dltensor".
    Plain(*mut c_void),
    /// From a capsule named "dltensor_versioned".
    Versioned(*mut c_void),
}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: both pointers came from a capsule of the right name, which `take` renamed, so that this
        // is the only owner. The deleter frees the structure.
        unsafe {
            match *self {
                Self::Plain(at) => {
                    let at = at.cast::<ManagedTensor>();
                    if let Some(delete) = (*at).deleter {
                        delete(at);
                    }
                }
                Self::Versioned(at) => {
                    let at = at.cast::<ManagedTensorVersioned>();
                    if let Some(delete) = (*at).deleter {
                        delete(at);
                    }
                }
            }
        }
    }
}

impl Managed {
    /// Takes the tensor out of a capsule and renames it, as DLPack asks of a consumer.
    pub fn take(capsule: &Bound<'_, PyAny>) -> PyResult<(Self, View)> {
        let object = capsule.as_ptr();
        let pointer = |name: &CStr, used: &CStr| {
            // SAFETY: `object` is alive; the name is checked before the pointer is taken.
            unsafe {
                if ffi::PyCapsule_IsValid(object, name.as_ptr()) == 0 {
                    return None;
                }
                let at = ffi::PyCapsule_GetPointer(object, name.as_ptr());
                ffi::PyCapsule_SetName(object, used.as_ptr());
                Some(at)
            }
        };
        if let Some(at) = pointer(VERSIONED, USED_VERSIONED) {
            let owned = Self::Versioned(at);
            // SAFETY: a capsule of this name holds this structure. Only the version and the deleter are
            // the same in other major versions.
            let tensor = unsafe { &*at.cast::<ManagedTensorVersioned>() };
            if tensor.major != MAJOR {
                let text = format!("a DLPack tensor of version {}; 1 is supported", tensor.major);
                return Err(PyBufferError::new_err(text));
            }
            // SAFETY: the owner keeps the lists alive.
            let view = unsafe { tensor.tensor.view(tensor.flags & READ_ONLY != 0) }?;
            return Ok((owned, view));
        }
        if let Some(at) = pointer(CAPSULE, USED) {
            let owned = Self::Plain(at);
            // SAFETY: a capsule of this name holds this structure; the owner keeps the lists alive.
            let view = unsafe { (*at.cast::<ManagedTensor>()).tensor.view(false) }?;
            return Ok((owned, view));
        }
        Err(PyTypeError::new_err("__dlpack__ returned no capsule with an unused tensor"))
    }
}

// The sizes of DLPack 1.0 and 1.3 where pointers have 8 bytes.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Tensor>() == 48);
    assert!(size_of::<ManagedTensor>() == 64);
    assert!(size_of::<ManagedTensorVersioned>() == 80);
    assert!(size_of::<Exchange>() == 56);
};
