//! What Python sees of attention: the functions, and the class of a plan.

use super::fast::{self, Results, planned};
use super::lengths::{Carried, Given};
use super::{Attended, Axes, Call, Options, Size, engine, model};
use crate::interchange::Imported;
use crate::layout::{Element, Place, View};
use crate::python::{Error, refuse};
use crate::refusal::Refusal;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

/// The options as they travel through Python: causal, window, scale, softcap, layout, `return_lse`.
#[derive(FromPyObject)]
pub struct Named(bool, Option<Vec<Option<i64>>>, Option<f32>, Option<f32>, String, bool);

impl Named {
    fn options(&self, given: Given<'_, '_>) -> PyResult<Options> {
        let Self(causal, window, scale, softcap, layout, lse) = self;
        let axes = given.axes(Axes::named(layout).map_err(|e| refuse(&e))?);
        let made = Options::new(axes, *causal, window.as_deref(), [*scale, *softcap], *lse);
        made.map_err(|e| refuse(&e))
    }

    fn as_tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let Self(causal, window, scale, softcap, layout, lse) = self;
        (*causal, window.clone(), *scale, *softcap, layout, *lse).into_pyobject(py)
    }
}

/// The arguments of a call, as Python passes them.
pub struct Arguments<'a, 'py> {
    /// Queries.
    pub q: &'a Bound<'py, PyAny>,
    /// Keys.
    pub k: &'a Bound<'py, PyAny>,
    /// Values.
    pub v: &'a Bound<'py, PyAny>,
    /// Where the result goes.
    pub out: Option<&'a Bound<'py, PyAny>>,
    /// Lengths of the sequences.
    pub given: Given<'a, 'py>,
    /// Options.
    pub options: Options,
    /// Sizes of the plan that is called.
    pub planned: Option<Size>,
}

impl<'py> Arguments<'_, 'py> {
    /// Runs the call: the fast path for torch's CUDA tensors, or else `warpipe._dispatch.attend`.
    fn run(&self, py: Python<'py>, named: &Named) -> PyResult<Py<PyAny>> {
        static DISPATCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if let Some((out, lse)) = fast::fast(py, self)? {
            return match lse {
                Some(lse) => Ok((out, lse).into_pyobject(py)?.into_any().unbind()),
                None => Ok(out),
            };
        }
        let dispatch = DISPATCH.import(py, "warpipe._dispatch", "attend")?;
        let check = AttentionCheck { size: self.planned };
        dispatch
            .call1((
                self.q,
                self.k,
                self.v,
                named.as_tuple(py)?,
                self.out,
                check,
                self.given.carried(py)?,
            ))
            .map(Bound::unbind)
    }
}

/// The plan's sizes on their way through Python.
#[pyclass(frozen, skip_from_py_object)]
pub struct AttentionCheck {
    size: Option<Size>,
}

/// softmax(scale * q @ k.T) @ v for each head, as `torch.nn.functional.scaled_dot_product_attention`.
///
/// `q` is [B, S, H, D], `k` and `v` are [B, S_kv, H_kv, D]; with `layout="bhsd"`, heads come before rows. All are
/// float16, or all are bfloat16, and are used in place if the elements of a head are adjacent.
#[pyfunction]
#[pyo3(signature = (q, k, v, *, causal=false, window=None, scale=None, softcap=None, layout="bshd", return_lse=false, out=None))]
pub fn attention<'py>(
    py: Python<'py>,
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    causal: bool,
    window: Option<Vec<Option<i64>>>,
    scale: Option<f32>,
    softcap: Option<f32>,
    layout: &str,
    return_lse: bool,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let named = Named(causal, window, scale, softcap, layout.to_owned(), return_lse);
    let (options, given) = (named.options(Given::Equal)?, Given::Equal);
    Arguments { q, k, v, out, given, options, planned: None }.run(py, &named)
}

/// Attention of packed sequences, as flash-attention's `flash_attn_varlen_func`.
///
/// `q` is [total_q, H, D], `k` and `v` are [total_k, H_kv, D]. Sequence b has the rows from `cu_seqlens_q[b]` to
/// `cu_seqlens_q[b + 1]` of `q`, and those of `cu_seqlens_k` of `k` and `v`. The lists are on the host: the call waits
/// for the stream of a list on a GPU.
#[pyfunction]
#[pyo3(signature = (q, k, v, cu_seqlens_q, cu_seqlens_k=None, *, causal=false, window=None, scale=None, softcap=None, return_lse=false, out=None))]
pub fn attention_varlen<'py>(
    py: Python<'py>,
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    cu_seqlens_q: &Bound<'py, PyAny>,
    cu_seqlens_k: Option<&Bound<'py, PyAny>>,
    causal: bool,
    window: Option<Vec<Option<i64>>>,
    scale: Option<f32>,
    softcap: Option<f32>,
    return_lse: bool,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let given = Given::Packed(cu_seqlens_q, cu_seqlens_k.unwrap_or(cu_seqlens_q));
    let named = Named(causal, window, scale, softcap, "bshd".to_owned(), return_lse);
    let options = named.options(given)?;
    Arguments { q, k, v, out, given, options, planned: None }.run(py, &named)
}

/// Attention of a few queries with a cache of keys and values, as flash-attention's `flash_attn_with_kvcache`.
///
/// `q` is [B, S, H, D], `k_cache` and `v_cache` are [B, capacity, H_kv, D], of which the first `cache_seqlens[b]` rows
/// of sequence b are keys. With a `block_table` [B, pages of a sequence] of int32, the caches are pages
/// [pages, rows of a page, H_kv, D]. The lengths are on the host: the call waits for the stream of lengths on a GPU.
#[pyfunction]
#[pyo3(signature = (q, k_cache, v_cache, cache_seqlens, block_table=None, *, causal=false, window=None, scale=None, softcap=None, return_lse=false, out=None))]
pub fn attention_with_kvcache<'py>(
    py: Python<'py>,
    q: &Bound<'py, PyAny>,
    k_cache: &Bound<'py, PyAny>,
    v_cache: &Bound<'py, PyAny>,
    cache_seqlens: &Bound<'py, PyAny>,
    block_table: Option<&Bound<'py, PyAny>>,
    causal: bool,
    window: Option<Vec<Option<i64>>>,
    scale: Option<f32>,
    softcap: Option<f32>,
    return_lse: bool,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let given = Given::Cache(cache_seqlens, block_table);
    let named = Named(causal, window, scale, softcap, "bshd".to_owned(), return_lse);
    let (options, k, v) = (named.options(given)?, k_cache, v_cache);
    Arguments { q, k, v, out, given, options, planned: None }.run(py, &named)
}

/// The fast path alone, for the operator of torch: `None` if the call needs a copy, or is not on a GPU.
#[pyfunction]
#[pyo3(signature = (q, k, v, options, out, sequences=None))]
#[expect(clippy::needless_pass_by_value, reason = "Python passes it so")]
pub fn attention_fast<'py>(
    py: Python<'py>,
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    options: Named,
    out: Option<&Bound<'py, PyAny>>,
    sequences: Option<Carried<'py>>,
) -> PyResult<Option<Results>> {
    let given = Given::of(sequences.as_ref());
    let options = options.options(given)?;
    fast::plain(py, &Arguments { q, k, v, out, given, options, planned: None })
}

/// The tensors of a call, imported and checked.
struct Checked<'py> {
    call: Call,
    attended: Attended,
    _tensors: Vec<Imported<'py>>,
}

fn check<'py>(
    [q, k, v]: [&Bound<'py, PyAny>; 3],
    given: Given<'_, 'py>,
    options: &Named,
    out: Option<&Bound<'py, PyAny>>,
    stream: Option<i64>,
) -> PyResult<Checked<'py>> {
    let options = options.options(given)?;
    let mut tensors = Vec::with_capacity(5);
    let mut import = |name: &str, tensor: &Bound<'py, PyAny>| -> PyResult<View> {
        let imported = Imported::new(name, tensor, stream)?;
        let view = imported.view;
        tensors.push(imported);
        Ok(view)
    };
    let [k_name, v_name] = match given {
        Given::Cache(..) => ["k_cache", "v_cache"],
        _ => ["k", "v"],
    };
    let (q, k, v) = (import("q", q)?, import(k_name, k)?, import(v_name, v)?);
    let out = out.map(|out| import("out", out)).transpose()?;
    let table = match given {
        Given::Cache(_, Some(table)) => Some(import("block_table", table)?),
        _ => None,
    };
    let sequences = given.read(&q, table)?;
    let call = Call { options, sequences, q, k, v, out };
    let attended = call.check().map_err(|e| refuse(&e))?;
    Ok(Checked { call, attended, _tensors: tensors })
}

/// Shape, strides and type of the result, the shape of LSE, where the call runs, and which of q, k and v need a copy.
type Description<'py> = ([Bound<'py, PyTuple>; 2], String, Bound<'py, PyTuple>, String, [bool; 3]);

/// Checks a call.
#[pyfunction]
#[pyo3(signature = (q, k, v, options, out, plan, sequences=None))]
#[expect(clippy::needless_pass_by_value, reason = "Python passes it so")]
pub fn attention_describe<'py>(
    py: Python<'py>,
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    options: Named,
    out: Option<&Bound<'py, PyAny>>,
    plan: Option<PyRef<'py, AttentionCheck>>,
    sequences: Option<Carried<'py>>,
) -> PyResult<Description<'py>> {
    let given = Given::of(sequences.as_ref());
    let Checked { attended, .. } = check([q, k, v], given, &options, out, None)?;
    if let Some(size) = plan.and_then(|plan| plan.size) {
        planned(&size, &attended.size).map_err(|e| refuse(&e))?;
    }
    let result = [attended.out_shape.as_tuple(py)?, attended.out_strides.as_tuple(py)?];
    let element = attended.size.element.to_string();
    let lse = attended.lse_shape.as_tuple(py)?;
    Ok((result, element, lse, attended.place.to_string(), attended.copies))
}

/// Runs a call whose tensors need no copy. `stream` is a `CUstream`; host tensors go to the SM model.
#[pyfunction]
#[pyo3(signature = (q, k, v, options, out, lse, stream, sequences=None))]
#[expect(clippy::needless_pass_by_value, reason = "Python passes it so")]
pub fn attention_run<'py>(
    py: Python<'py>,
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    options: Named,
    out: &Bound<'py, PyAny>,
    lse: Option<&Bound<'py, PyAny>>,
    stream: i64,
    sequences: Option<Carried<'py>>,
) -> PyResult<()> {
    // DLPack: 1 is the legacy default stream, 0 is ambiguous.
    let exported = Some(if stream == 0 { 1 } else { stream });
    let given = Given::of(sequences.as_ref());
    let Checked { call, attended, _tensors } =
        &check([q, k, v], given, &options, Some(out), exported)?;
    let sums = lse.map(|lse| Imported::new("lse", lse, exported)).transpose()?;
    let sums = sums.as_ref().map(|sums| sums.view);
    check_lse(attended, sums.as_ref())?;
    let Some(out) = call.out else { return Ok(()) };
    match attended.place {
        Place::Host => model::run(py, call, attended, &out, sums.as_ref()),
        _ if attended.copies.contains(&true) => {
            Err(Error::new_err("an operand needs a copy, which was not made"))
        }
        Place::Cuda(device) => {
            let lse = sums.map_or(0, |sums| sums.addr);
            let table = attended.block_table.map_or(0, |table| table.addr);
            let at = [call.q.addr, call.k.addr, call.v.addr, out.addr, lse, table];
            engine::run(attended, &call.sequences, at, device, stream as u64)
        }
        Place::Other(_) => Err(refuse(&Refusal::Device { name: "q", place: attended.place })),
    }
}

/// Checks the tensor for LSE, which this package allocates.
fn check_lse(attended: &Attended, lse: Option<&View>) -> PyResult<()> {
    let want = attended.size.options.lse;
    let fits = |lse: &View| {
        lse.element == Element::F32
            && lse.shape == attended.lse_shape
            && lse.place == attended.place
            && !lse.readonly
    };
    if lse.is_some() == want && lse.is_none_or(fits) {
        return Ok(());
    }
    let shape = attended.lse_shape;
    Err(PyTypeError::new_err(format!("lse must be a tensor {shape} of float32 beside the others")))
}

/// Attention that was planned: which kernel computes it, and how.
///
/// Call it with tensors of the same sizes and type as often as needed.
#[pyclass(frozen, skip_from_py_object, module = "warpipe")]
pub struct AttentionPlan {
    size: Size,
    named: Named,
    text: String,
    json: String,
}

#[pymethods]
impl AttentionPlan {
    /// Attention of tensors of the planned sizes and type, with the planned options.
    #[pyo3(signature = (q, k, v, *, out=None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        q: &Bound<'py, PyAny>,
        k: &Bound<'py, PyAny>,
        v: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (options, planned, given) = (self.size.options, Some(self.size), Given::Equal);
        Arguments { q, k, v, out, given, options, planned }.run(py, &self.named)
    }

    /// The plan as a dictionary: sizes, mask, kernel, tile, grid, work.
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let loaded = py.import("json")?.call_method1("loads", (&self.json,))?;
        Ok(loaded.cast_into::<PyDict>()?)
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<warpipe.AttentionPlan {}>", self.text.lines().next().unwrap_or_default())
    }
}

/// Plans attention of checked tensors.
#[pyfunction]
pub fn plan_attention(
    q: &Bound<'_, PyAny>,
    k: &Bound<'_, PyAny>,
    v: &Bound<'_, PyAny>,
    options: Named,
    out: Option<&Bound<'_, PyAny>>,
) -> PyResult<AttentionPlan> {
    let Checked { attended, .. } = check([q, k, v], Given::Equal, &options, out, None)?;
    let info = match attended.place {
        Place::Cuda(device) => engine::describe(device, &attended)?,
        _ => model::describe(&attended)?,
    };
    let json = serde_json::to_string(&info).map_err(|e| Error::new_err(e.to_string()))?;
    let text = info.to_string().trim_end().to_owned();
    Ok(AttentionPlan { size: attended.size, named: options, text, json })
}
