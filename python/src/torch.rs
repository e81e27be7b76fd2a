//! The fast path for torch's CUDA tensors: no Python between the call and the launch, except for the allocation
//! of the result.
//!
//! It takes a call only if nothing else has to see it: plain tensors (no subclasses), no gradient to record, no
//! mode that intercepts operators, nothing to copy. Every other call goes to `warpipe._dispatch`.

use crate::dlpack::Exchange;
use crate::engine::{self, Workspace};
use crate::layout::{Dims, Element, Layout, Matrix, Place, View};
use crate::product::Call;
use crate::python::{Arguments, planned, refuse};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// What the fast path needs of torch.
pub struct Torch {
    tensor: Py<PyAny>,
    parameter: Py<PyAny>,
    exchange: &'static Exchange,
    /// `torch.is_grad_enabled`.
    grad_enabled: Py<PyAny>,
    /// `torch._C._len_torch_dispatch_stack`.
    modes: Py<PyAny>,
    /// Allocates on the current CUDA device: (sizes, strides, dtype).
    empty: Py<PyAny>,
    /// Allocates zeroed bytes: (bytes, device) to (address, tensor).
    zeros: Py<PyAny>,
    dtypes: [(Element, Py<PyAny>); 3],
}

static TORCH: PyOnceLock<Torch> = PyOnceLock::new();

/// Tells this module what it needs of torch. `False` if this torch has no table of C functions (before 2.10);
/// then every call goes through Python.
#[pyfunction]
pub fn register_torch(
    py: Python<'_>,
    tensor: &Bound<'_, PyAny>,
    parameter: &Bound<'_, PyAny>,
    grad_enabled: Py<PyAny>,
    modes: Py<PyAny>,
    empty: Py<PyAny>,
    zeros: Py<PyAny>,
    dtypes: [Py<PyAny>; 3],
) -> bool {
    let [f16, bf16, f32] = dtypes;
    let Some(exchange) = Exchange::of(tensor) else { return false };
    let dtypes = [(Element::F16, f16), (Element::BF16, bf16), (Element::F32, f32)];
    let (tensor, parameter) = (tensor.clone().unbind(), parameter.clone().unbind());
    let torch = Torch { tensor, parameter, exchange, grad_enabled, modes, empty, zeros, dtypes };
    // A second registration changes nothing.
    let _ = TORCH.set(py, torch);
    true
}

/// Runs a call, or returns `None` if it is not for the fast path.
pub fn fast(py: Python<'_>, call: &Arguments<'_, '_>) -> PyResult<Option<Py<PyAny>>> {
    let Some(torch) = TORCH.get(py) else { return Ok(None) };
    let tensors = [Some(call.a), Some(call.b), call.c, call.out];
    if torch.takes(py, &tensors)? { plain(py, call, Workspace::Capture) } else { Ok(None) }
}

/// [`fast`] without the search for gradients and modes.
pub fn plain(
    py: Python<'_>,
    call: &Arguments<'_, '_>,
    workspace: Workspace,
) -> PyResult<Option<Py<PyAny>>> {
    let Some(torch) = TORCH.get(py) else { return Ok(None) };
    let Some(a) = torch.view(call.a) else { return Ok(None) };
    let Place::Cuda(device) = a.place else { return Ok(None) };
    let Some(b) = torch.view(call.b) else { return Ok(None) };
    let (c, out) = (call.c.map(|c| torch.view(c)), call.out.map(|out| torch.view(out)));
    if matches!(c, Some(None)) || matches!(out, Some(None)) {
        return Ok(None);
    }
    let out_type = match call.out_dtype {
        None => None,
        Some(dtype) => match torch.element(dtype) {
            None => return Ok(None),
            known => known,
        },
    };
    let (c, out) = (c.flatten(), out.flatten());
    let checked = Call { op: call.op, a, b, c, out, out_type, beta: call.beta, gated: false };
    let mut product = checked.check().map_err(|e| refuse(&e))?;
    if let Some(plan) = call.plan {
        planned(plan.size(), &product, c.is_some()).map_err(|e| refuse(&e))?;
    }
    let copied = |layout| matches!(layout, Layout::Copy);
    if copied(product.a) || copied(product.b) || product.c.is_some_and(copied) {
        return Ok(None);
    }
    let stream = torch.stream(py, device)?;
    let result = if let Some(out) = call.out {
        out.clone()
    } else {
        let shape = [&product.out_shape, &product.out_shape.contiguous()];
        let Some((out, view)) = torch.allocate(py, shape, product.size.out)? else {
            return Ok(None);
        };
        // The tensors may be on another device than the current one.
        if view.place != a.place {
            return Ok(None);
        }
        product.out = Some(packed(&view, product.size.m, product.size.n));
        out
    };
    let mut zeros = |bytes: usize| torch.zeros.bind(py).call1((bytes, device))?.extract();
    engine::run(&product, device, stream, call.alpha, Some(&mut zeros), workspace)?;
    Ok(Some(result.unbind()))
}

/// The matrix of a result that was allocated without gaps.
fn packed(view: &View, rows: u64, cols: u64) -> Matrix {
    let row_bytes = cols * view.element.size();
    Matrix { addr: view.addr, rows, cols, pitch: row_bytes, row_bytes }
}

impl Torch {
    /// What was registered, if this torch has the table of C functions.
    pub fn get(py: Python<'_>) -> Option<&Self> {
        TORCH.get(py)
    }

    /// Whether nothing else has to see a call with these tensors.
    pub fn takes(&self, py: Python<'_>, tensors: &[Option<&Bound<'_, PyAny>>]) -> PyResult<bool> {
        if !tensors.iter().flatten().all(|tensor| self.is_plain(tensor)) {
            return Ok(false);
        }
        if self.modes.bind(py).call0()?.extract::<u32>()? > 0 {
            return Ok(false);
        }
        if self.grad_enabled.bind(py).call0()?.is_truthy()? {
            for tensor in tensors.iter().flatten() {
                if tensor.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The stream on which torch works at this moment.
    pub fn stream(&self, py: Python<'_>, device: i32) -> PyResult<u64> {
        Ok(self.exchange.stream(py, device)? as u64)
    }

    /// A new tensor on torch's current device; `None` if its description can't be had.
    pub fn allocate<'py>(
        &self,
        py: Python<'py>,
        [sizes, strides]: [&Dims; 2],
        element: Element,
    ) -> PyResult<Option<(Bound<'py, PyAny>, View)>> {
        let arguments = (sizes.as_tuple(py)?, strides.as_tuple(py)?, self.dtype(py, element));
        let tensor = self.empty.bind(py).call1(arguments)?;
        Ok(self.view(&tensor).map(|view| (tensor, view)))
    }

    /// Whether an object is a tensor without special behaviour.
    fn is_plain(&self, object: &Bound<'_, PyAny>) -> bool {
        let ty = object.get_type_ptr().cast();
        ty == self.tensor.as_ptr() || ty == self.parameter.as_ptr()
    }

    /// Whether an object is a tensor, of any subclass.
    pub fn is_tensor(&self, object: &Bound<'_, PyAny>) -> bool {
        self.is_plain(object)
            || object.is_instance(self.tensor.bind(object.py())).unwrap_or_default()
    }

    /// A tensor; `None` for another object, and for a tensor of a subclass.
    pub fn view(&self, object: &Bound<'_, PyAny>) -> Option<View> {
        // The table is that of the tensor type, and a parameter is one.
        if self.is_plain(object) { self.exchange.view(object) } else { None }
    }

    fn element(&self, dtype: &Bound<'_, PyAny>) -> Option<Element> {
        if let Some((element, _)) = self.dtypes.iter().find(|(_, d)| d.is(dtype)) {
            return Some(*element);
        }
        Element::named(dtype.extract::<&str>().ok()?)
    }

    fn dtype(&self, py: Python<'_>, element: Element) -> Py<PyAny> {
        let found = self.dtypes.iter().find(|(e, _)| *e == element);
        found.map_or_else(|| py.None(), |(_, dtype)| dtype.clone_ref(py))
    }
}

impl Dims {
    /// The values as a tuple of Python.
    pub fn as_tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
        pyo3::types::PyTuple::new(py, self.as_slice())
    }
}
