//! Tensors of Python: what a call may get, and how its memory is found.
//!
//! In this order: numpy's `__array_interface__` (numpy exports neither bfloat16 nor, before 2.1, read-only arrays
//! through DLPack), `__dlpack__`, `__cuda_array_interface__`.

use crate::dlpack::Managed;
use crate::layout::{Dims, Element, MAX_DIMS, Place, View};
use crate::torch::Torch;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// A tensor, and what keeps its memory while the call runs.
pub struct Imported<'py> {
    /// Where and what it is.
    pub view: View,
    _object: Bound<'py, PyAny>,
    _managed: Option<Managed>,
}

impl<'py> Imported<'py> {
    /// Describes the memory of a tensor. `stream` is the `CUstream` on which a GPU will read it: its library
    /// makes that stream wait for its own work.
    ///
    /// # Errors
    /// `TypeError` for an object without any of the interfaces; what the object's own methods raise.
    pub fn new(name: &str, object: &Bound<'py, PyAny>, stream: Option<i64>) -> PyResult<Self> {
        if let Ok(interface) = object.getattr("__array_interface__") {
            let view = array_interface(name, object, &interface, Place::Host)?;
            return Ok(Self { view, _object: object.clone(), _managed: None });
        }
        if object.hasattr("__dlpack__")? {
            let (managed, view) = Managed::take(&capsule(object, stream)?)?;
            return Ok(Self { view, _object: object.clone(), _managed: Some(managed) });
        }
        if let Ok(interface) = object.getattr("__cuda_array_interface__") {
            let device = device_of(object);
            let view = array_interface(name, object, &interface, Place::Cuda(device))?;
            return Ok(Self { view, _object: object.clone(), _managed: None });
        }
        Err(PyTypeError::new_err(format!(
            "{name} is a {}; a tensor with __dlpack__, __cuda_array_interface__ or __array_interface__ is needed",
            object.get_type().name()?
        )))
    }
}

/// The tensors of a call: keeps their memory while it runs.
pub struct Imports<'py> {
    py: Python<'py>,
    exported: i64,
    kept: Vec<Imported<'py>>,
}

impl<'py> Imports<'py> {
    /// For a call on a `CUstream`; 0 is the default stream.
    pub fn new(py: Python<'py>, stream: i64) -> Self {
        // DLPack: 1 is the legacy default stream, 0 is ambiguous.
        Self { py, exported: if stream == 0 { 1 } else { stream }, kept: Vec::new() }
    }

    /// Describes the memory of a tensor.
    ///
    /// # Errors
    /// Those of [`Imported::new`].
    pub fn view(&mut self, name: &str, tensor: &Bound<'py, PyAny>) -> PyResult<View> {
        // torch's table of C functions is faster than a capsule.
        if let Some(view) = Torch::get(self.py).and_then(|torch| torch.view(tensor)) {
            return Ok(view);
        }
        let tensor = Imported::new(name, tensor, Some(self.exported))?;
        let view = tensor.view;
        self.kept.push(tensor);
        Ok(view)
    }
}

/// The capsule of a tensor: versioned if its library can.
fn capsule<'py>(object: &Bound<'py, PyAny>, stream: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let (kind, _device): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    let arguments = PyDict::new(py);
    // Only CUDA tensors have streams.
    if kind == crate::dlpack::CUDA
        && let Some(stream) = stream
    {
        arguments.set_item("stream", stream)?;
    }
    arguments.set_item("max_version", (1, 0))?;
    match object.call_method("__dlpack__", (), Some(&arguments)) {
        // A library of before DLPack 1.0 does not know the argument.
        Err(e) if e.is_instance_of::<PyTypeError>(py) => {
            arguments.del_item("max_version")?;
            object.call_method("__dlpack__", (), Some(&arguments))
        }
        other => other,
    }
}

/// The ordinal of a CUDA array's device, as cupy and numba state it.
fn device_of(object: &Bound<'_, PyAny>) -> i32 {
    let device = object.getattr("device");
    device.and_then(|d| d.getattr("id")).and_then(|id| id.extract()).unwrap_or(0)
}

/// Reads the dictionary that `__array_interface__` and `__cuda_array_interface__` have in common.
fn array_interface(
    name: &str,
    object: &Bound<'_, PyAny>,
    interface: &Bound<'_, PyAny>,
    place: Place,
) -> PyResult<View> {
    let typestr: String = interface.get_item("typestr")?.extract()?;
    let element = match element(&typestr) {
        // Types of other packages are opaque bytes here.
        None if typestr.contains('V') => named_element(object),
        known => known,
    };
    let Some(element) = element else {
        return Err(PyTypeError::new_err(format!("{name} has elements of type {typestr}")));
    };
    let dims = |values: &Bound<'_, PyAny>| {
        let list: Vec<i64> = values.extract()?;
        Dims::new(&list).ok_or_else(|| {
            let text = format!("{name} has {} dimensions; at most {MAX_DIMS}", list.len());
            PyValueError::new_err(text)
        })
    };
    let shape = dims(&interface.get_item("shape")?)?;
    let size = element.size() as i64;
    let strides = match interface.get_item("strides") {
        Ok(bytes) if !bytes.is_none() => {
            let bytes: Vec<i64> = bytes.extract()?;
            if let Some(odd) = bytes.iter().find(|&&b| b % size != 0) {
                let text = format!("{name} has a stride of {odd} bytes; its elements have {size}");
                return Err(PyValueError::new_err(text));
            }
            let strides: Vec<i64> = bytes.iter().map(|b| b / size).collect();
            Dims::new(&strides).unwrap_or(Dims::EMPTY)
        }
        _ => shape.contiguous(),
    };
    let data = interface.get_item("data")?;
    let (addr, readonly): (u64, bool) = data.cast::<PyTuple>()?.extract()?;
    Ok(View { addr, place, element, shape, strides, readonly })
}

/// The element type of a type string such as "<f2".
fn element(typestr: &str) -> Option<Element> {
    let kind = typestr.get(1..2)?;
    let bits = typestr.get(2..)?.parse::<u8>().ok()?.checked_mul(8)?;
    let code = match kind {
        "i" => 0,
        "u" => 1,
        "f" => 2,
        "c" => 5,
        "b" => 6,
        _ => return None,
    };
    // Big-endian numbers are none of these types.
    (!typestr.starts_with('>') || bits == 8).then_some(Element { code, bits, lanes: 1 })
}

/// The element type that a numpy dtype of another package names: `ml_dtypes.bfloat16`.
fn named_element(object: &Bound<'_, PyAny>) -> Option<Element> {
    let name: String = object.getattr("dtype").ok()?.getattr("name").ok()?.extract().ok()?;
    Element::named(&name)
}
