//! The fast path for torch's CUDA tensors, as for products: see `crate::torch`.

use super::engine;
use super::lengths::Given;
use super::python::Arguments;
use super::{Call, Size};
use crate::layout::{Element, Place};
use crate::python::refuse;
use crate::refusal::Refusal;
use crate::torch::Torch;
use pyo3::prelude::*;

/// The result and LSE.
pub type Results = (Py<PyAny>, Option<Py<PyAny>>);

/// Runs a call, or returns `None` if it is not for the fast path.
pub fn fast(py: Python<'_>, call: &Arguments<'_, '_>) -> PyResult<Option<Results>> {
    let Some(torch) = Torch::get(py) else { return Ok(None) };
    let [a, b] = call.given.tensors(torch);
    let tensors = [Some(call.q), Some(call.k), Some(call.v), call.out, a, b];
    if torch.takes(py, &tensors)? { plain(py, call) } else { Ok(None) }
}

/// [`fast`] without the search for gradients and modes.
pub fn plain(py: Python<'_>, call: &Arguments<'_, '_>) -> PyResult<Option<Results>> {
    let Some(torch) = Torch::get(py) else { return Ok(None) };
    let Some(q) = torch.view(call.q) else { return Ok(None) };
    let Place::Cuda(device) = q.place else { return Ok(None) };
    let (Some(k), Some(v)) = (torch.view(call.k), torch.view(call.v)) else { return Ok(None) };
    let out = call.out.map(|out| torch.view(out));
    if matches!(out, Some(None)) {
        return Ok(None);
    }
    let out = out.flatten();
    let table = match call.given {
        Given::Cache(_, Some(table)) => match torch.view(table) {
            None => return Ok(None),
            view => view,
        },
        _ => None,
    };
    let sequences = call.given.read(&q, table)?;
    let checked = Call { options: call.options, sequences, q, k, v, out };
    let attended = checked.check().map_err(|e| refuse(&e))?;
    if let Some(size) = &call.planned {
        planned(size, &attended.size).map_err(|e| refuse(&e))?;
    }
    if attended.copies.contains(&true) {
        return Ok(None);
    }
    let (result, out) = if let (Some(tensor), Some(view)) = (call.out, out) {
        (tensor.clone(), view)
    } else {
        let shape = [&attended.out_shape, &attended.out_strides];
        let Some(made) = torch.allocate(py, shape, attended.size.element)? else {
            return Ok(None);
        };
        made
    };
    let lse = if attended.size.options.lse {
        let shape = [&attended.lse_shape, &attended.lse_shape.contiguous()];
        let Some(made) = torch.allocate(py, shape, Element::F32)? else { return Ok(None) };
        Some(made)
    } else {
        None
    };
    // The tensors may be on another device than the current one.
    if out.place != q.place || lse.as_ref().is_some_and(|(_, view)| view.place != q.place) {
        return Ok(None);
    }
    let lse_addr = lse.as_ref().map_or(0, |(_, view)| view.addr);
    let table = attended.block_table.map_or(0, |table| table.addr);
    let at = [q.addr, k.addr, v.addr, out.addr, lse_addr, table];
    engine::run(&attended, &checked.sequences, at, device, torch.stream(py, device)?)?;
    Ok(Some((result.unbind(), lse.map(|(tensor, _)| tensor.unbind()))))
}

/// Checks that a call is the one of a plan.
pub fn planned(size: &Size, called: &Size) -> Result<(), Refusal> {
    if size == called {
        return Ok(());
    }
    Err(Refusal::Plan { planned: size.to_string(), called: called.to_string() })
}
