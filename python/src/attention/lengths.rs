//! Lengths of sequences as Python passes them: a list, a tensor of any library, or a `CacheSeqlens`.

use super::{Axes, Sequences, engine};
use crate::layout::{Element, Place, View};
use crate::python::refuse;
use crate::refusal::Refusal;
use crate::torch::Torch;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a call passes beside its tensors and options.
#[derive(Clone, Copy)]
pub enum Given<'a, 'py> {
    /// Nothing: the sequences have equal lengths.
    Equal,
    /// `cu_seqlens_q` and `cu_seqlens_k`.
    Packed(&'a Bound<'py, PyAny>, &'a Bound<'py, PyAny>),
    /// `cache_seqlens` and `block_table`.
    Cache(&'a Bound<'py, PyAny>, Option<&'a Bound<'py, PyAny>>),
}

/// The same on its way through Python: its kind, and both arguments.
pub type Carried<'py> = (String, Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

impl<'a, 'py> Given<'a, 'py> {
    /// What came back from Python.
    pub fn of(carried: Option<&'a Carried<'py>>) -> Self {
        match carried {
            None => Self::Equal,
            Some((_, q, Some(k))) if carried.is_some_and(|c| c.0 == "packed") => Self::Packed(q, k),
            Some((_, keys, table)) => Self::Cache(keys, table.as_ref()),
        }
    }

    /// For the way through Python.
    pub fn carried(self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match self {
            Self::Equal => Ok(None),
            Self::Packed(q, k) => ("packed", q, k).into_pyobject(py).map(Some),
            Self::Cache(keys, table) => ("cache", keys, table).into_pyobject(py).map(Some),
        }
    }

    /// The order of the tensors' dimensions, which the layout says for sequences of equal lengths.
    pub fn axes(self, layout: Axes) -> Axes {
        match self {
            Self::Equal => layout,
            Self::Packed(..) => Axes::Packed,
            Self::Cache(..) => Axes::Bshd,
        }
    }

    /// The tensors of torch among its arguments.
    pub fn tensors(self, torch: &Torch) -> [Option<&'a Bound<'py, PyAny>>; 2] {
        let [a, b] = match self {
            Self::Equal => [None, None],
            Self::Packed(q, k) => [Some(q), Some(k)],
            Self::Cache(keys, table) => [Some(keys), table],
        };
        [a, b].map(|object| object.filter(|object| torch.is_tensor(object)))
    }

    /// Reads the lengths of a call with queries `q`. The block table is a view that the caller has.
    ///
    /// This waits for the stream of lengths on a GPU.
    pub fn read(self, q: &View, block_table: Option<View>) -> PyResult<Sequences> {
        match self {
            Self::Equal => Ok(Sequences::Equal),
            Self::Packed(q, k) => {
                let starts = numbers("cu_seqlens_q", q)?;
                // Mostly they are the same object.
                let keys = if q.is(k) { starts.clone() } else { numbers("cu_seqlens_k", k)? };
                Ok(Sequences::Packed { q: starts, k: keys })
            }
            Self::Cache(keys, _) => {
                if let Ok(owner) = keys.cast::<CacheSeqlens>() {
                    let owner = owner.get();
                    let (keys, owner) = (owner.keys(), Some(owner.id));
                    return Ok(Sequences::Cache { keys, owner, block_table });
                }
                let batch = q.shape.as_slice().first().copied().unwrap_or(0);
                let keys = match single(keys)? {
                    Some(all) => vec![all; batch as usize],
                    None => numbers("cache_seqlens", keys)?,
                };
                Ok(Sequences::Cache { keys, owner: None, block_table })
            }
        }
    }
}

/// One number for all sequences. A tensor with one number is none.
fn single(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if object.hasattr("__dlpack__")? || object.hasattr("__cuda_array_interface__")? {
        return Ok(None);
    }
    Ok(object.extract().ok())
}

/// Types that lengths may have.
fn is_whole(element: Element) -> bool {
    let Element { code, bits, lanes } = element;
    lanes == 1 && (code == 0 || code == 1) && (bits == 32 || bits == 64)
}

/// The numbers of a list or a tensor. Those on a GPU are copied to the host, for which the call waits.
fn numbers(name: &'static str, object: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let py = object.py();
    if let Some(view) = Torch::get(py).and_then(|torch| torch.view(object)) {
        if !is_whole(view.element) {
            let need = "int32 or int64".into();
            return Err(refuse(&Refusal::Element { name, have: view.element, need }));
        }
        match (view.place, view.shape.as_slice(), view.strides.as_slice()) {
            (Place::Host, &[count], &[step]) if view.element.code == 0 => {
                // SAFETY: the tensor's elements lie in its memory, and the caller holds it.
                return Ok((0..count).map(|i| unsafe { at(&view, i * step) }).collect());
            }
            (Place::Cuda(device), ..) if capturing(py)? => {
                return Err(PyValueError::new_err(format!(
                    "{name} is on cuda:{device}, and a capture can't wait for its numbers; pass a list or a tensor of the \
                     host, or warpipe.CacheSeqlens for lengths that change"
                )));
            }
            _ => {}
        }
    }
    let wrong = |have: String| {
        let need = "a list or a tensor [N] of int32 or int64 is right";
        PyTypeError::new_err(format!("{name} is {have}; {need}"))
    };
    if object.is_instance_of::<PyString>() {
        return Err(wrong("a str".into()));
    }
    let listed =
        if object.hasattr("tolist")? { object.call_method0("tolist")? } else { object.clone() };
    listed.extract().map_err(|_| {
        let ty = object.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
        let of = |list: &Bound<'_, PyList>| list.repr().map(|text| text.to_string());
        match listed.cast::<PyList>().ok().and_then(|list| of(list).ok()) {
            Some(text) if text.len() < 100 => wrong(format!("a {ty} with {text}")),
            _ => wrong(format!("a {ty}")),
        }
    })
}

/// Element `index` of a tensor of int32 or int64.
///
/// # Safety
/// It lies in the tensor's memory, which is the host's.
unsafe fn at(view: &View, index: i64) -> i64 {
    // SAFETY: the caller's contract.
    unsafe {
        match view.element.bits {
            64 => (view.addr as *const i64).offset(index as isize).read_unaligned(),
            _ => (view.addr as *const i32).offset(index as isize).read_unaligned().into(),
        }
    }
}

/// Whether torch's current stream is being captured.
fn capturing(py: Python<'_>) -> PyResult<bool> {
    py.import("torch.cuda")?.call_method0("is_current_stream_capturing")?.extract()
}

/// The numbers of a list or a tensor as a list. A `CacheSeqlens` and a single number stay what they are.
#[pyfunction]
pub fn sequence_lengths<'py>(
    name: &str,
    lengths: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    if single(&lengths)?.is_some() || lengths.is_instance_of::<CacheSeqlens>() {
        return Ok(lengths);
    }
    let name = match name {
        "cu_seqlens_q" => "cu_seqlens_q",
        "cu_seqlens_k" => "cu_seqlens_k",
        _ => "cache_seqlens",
    };
    Ok(numbers(name, &lengths)?.into_pyobject(lengths.py())?.into_any())
}

/// Lengths of a cache's sequences that can be changed, also for CUDA graphs that were captured with them.
#[pyclass(frozen, skip_from_py_object, module = "warpipe")]
pub struct CacheSeqlens {
    id: u64,
    keys: Mutex<Vec<i64>>,
}

impl CacheSeqlens {
    fn keys(&self) -> Vec<i64> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[pymethods]
impl CacheSeqlens {
    #[new]
    fn new(lengths: &Bound<'_, PyAny>) -> PyResult<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let keys = Mutex::new(numbers("cache_seqlens", lengths)?);
        Ok(Self { id: NEXT.fetch_add(1, Ordering::Relaxed), keys })
    }

    /// Replaces the lengths, in the order of the stream.
    #[pyo3(signature = (lengths, *, stream=None))]
    fn set(&self, py: Python<'_>, lengths: &Bound<'_, PyAny>, stream: Option<u64>) -> PyResult<()> {
        let (lengths, before) = (numbers("cache_seqlens", lengths)?, self.keys().len());
        if lengths.len() != before {
            let what = format!("has {} numbers; there were {before}", lengths.len());
            return Err(refuse(&Refusal::Lengths { name: "cache_seqlens".into(), what }));
        }
        let short = |(i, &keys): (usize, &i64)| {
            let what = format!("is {keys}; it must be 0 to 2^32-1");
            let refused = Refusal::Lengths { name: format!("cache_seqlens[{i}]"), what };
            u32::try_from(keys).map_err(|_| refuse(&refused))
        };
        let keys = lengths.iter().enumerate().map(short).collect::<PyResult<Vec<u32>>>()?;
        let mut streams = Vec::new();
        for device in engine::devices_of(self.id) {
            let current = || Torch::get(py).map_or(Ok(0), |torch| torch.stream(py, device));
            streams.push((device, stream.map_or_else(current, Ok)?));
        }
        engine::set_keys(self.id, &keys, &streams)?;
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = lengths;
        Ok(())
    }

    /// The lengths.
    fn tolist(&self) -> Vec<i64> {
        self.keys()
    }

    fn __len__(&self) -> usize {
        self.keys().len()
    }

    fn __repr__(&self) -> String {
        format!("warpipe.CacheSeqlens({:?})", self.keys())
    }
}
