//! What Python sees: the functions, the class of a plan, and exceptions.

use crate::interchange::Imported;
use crate::layout::{Element, Layout, Place, View};
use crate::product::{Call, Op, Product, Size};
use crate::refusal::Refusal;
use crate::tuning::tune_error;
use crate::{engine, model, torch};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use warpipe::host;
use warpipe::host::gemm::PlanInfo;

pyo3::create_exception!(
    warpipe,
    Error,
    PyRuntimeError,
    "The CUDA driver or the SM model refused or failed a call that was checked."
);

/// The exception for an error of the host library.
pub fn raise(error: &host::Error) -> PyErr {
    match error {
        host::Error::OutOfMemory { .. } => PyMemoryError::new_err(error.to_string()),
        host::Error::Array(refused) => PyValueError::new_err(refused.to_string()),
        host::Error::Attention(refused) => PyValueError::new_err(refused.to_string()),
        host::Error::Grouped(refused) => PyValueError::new_err(refused.to_string()),
        host::Error::Strided(refused) => PyValueError::new_err(refused.to_string()),
        host::Error::View(refused) => PyValueError::new_err(refused.to_string()),
        host::Error::Tune(refused) => tune_error(refused),
        _ => Error::new_err(error.to_string()),
    }
}

/// The exception for a call that is refused.
pub fn refuse(refusal: &Refusal) -> PyErr {
    if refusal.is_type() {
        PyTypeError::new_err(refusal.to_string())
    } else {
        PyValueError::new_err(refusal.to_string())
    }
}

/// The arguments of a call, as Python passes them.
pub struct Arguments<'a, 'py> {
    /// The function.
    pub op: Op,
    /// The first operand.
    pub a: &'a Bound<'py, PyAny>,
    /// The second operand.
    pub b: &'a Bound<'py, PyAny>,
    /// What is added.
    pub c: Option<&'a Bound<'py, PyAny>>,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of `c`.
    pub beta: Option<f32>,
    /// Where the result goes.
    pub out: Option<&'a Bound<'py, PyAny>>,
    /// The result's type.
    pub out_dtype: Option<&'a Bound<'py, PyAny>>,
    /// The plan that is called.
    pub plan: Option<&'a Plan>,
}

impl Arguments<'_, '_> {
    /// Runs the product: the fast path for torch's CUDA tensors, or else `warpipe._dispatch.call`.
    fn run(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        static DISPATCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if let Some(result) = torch::fast(py, self)? {
            return Ok(result);
        }
        let dispatch = DISPATCH.import(py, "warpipe._dispatch", "call")?;
        let Self { a, b, c, alpha, beta, out, out_dtype, plan, .. } = *self;
        let plan = plan.map(|plan| plan.size);
        let check = PlanCheck { size: plan };
        dispatch
            .call1((name(self.op), a, b, c, alpha, beta, out, out_dtype, check))
            .map(Bound::unbind)
    }
}

/// The plan's sizes on their way through Python.
#[pyclass(frozen, skip_from_py_object)]
#[derive(Clone, Copy)]
pub struct PlanCheck {
    size: Option<Size>,
}

fn name(op: Op) -> &'static str {
    match op {
        Op::Matmul => "matmul",
        Op::Linear => "linear",
    }
}

fn op(name: &str) -> PyResult<Op> {
    match name {
        "matmul" => Ok(Op::Matmul),
        "linear" => Ok(Op::Linear),
        other => Err(PyValueError::new_err(format!("no operation {other}"))),
    }
}

/// D = alpha * a @ b + beta * c, as `torch.matmul(a, b)` for matrices.
///
/// `a` is [..., M, K] and `b` is [K, N]. The kernels read rows of K adjacent elements, so `b` is used in place
/// if it is the transposed view of a [N, K] tensor, such as `weight.t()`. A `b` that is stored row by row is
/// copied in every call, with a `CopyWarning`.
///
/// With `allow_tf32`, `a` and `b` are matrices of float32, which are rounded to tf32 (ten bits of fraction), and the result
/// is float32. Such a product has no `c`, no factors and no backward pass.
#[pyfunction]
#[pyo3(signature = (a, b, c=None, *, alpha=1.0, beta=None, out=None, out_dtype=None, allow_tf32=false))]
#[allow(clippy::too_many_arguments)] // Python passes most of them by name.
pub fn matmul(
    py: Python<'_>,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    c: Option<&Bound<'_, PyAny>>,
    alpha: f32,
    beta: Option<f32>,
    out: Option<&Bound<'_, PyAny>>,
    out_dtype: Option<&Bound<'_, PyAny>>,
    allow_tf32: bool,
) -> PyResult<Py<PyAny>> {
    if allow_tf32 {
        #[allow(clippy::float_cmp)] // Only exactly 1 is no factor.
        if c.is_some() || beta.is_some() || out_dtype.is_some() || alpha != 1.0 {
            let what = "matmul with allow_tf32 takes a, b and out only";
            return Err(PyValueError::new_err(what));
        }
        let dispatch = py.import("warpipe._dispatch")?;
        return Ok(dispatch.call_method1("tf32_matmul", (a, b, out))?.unbind());
    }
    Arguments { op: Op::Matmul, a, b, c, alpha, beta, out, out_dtype, plan: None }.run(py)
}

/// alpha * x @ weight.T + beta * c, as `torch.nn.functional.linear(x, weight)`.
///
/// `x` is [..., K] and `weight` is [N, K], as a Linear layer stores it. Both are used in place.
#[pyfunction]
#[pyo3(signature = (x, weight, c=None, *, alpha=1.0, beta=None, out=None, out_dtype=None))]
pub fn linear(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    weight: &Bound<'_, PyAny>,
    c: Option<&Bound<'_, PyAny>>,
    alpha: f32,
    beta: Option<f32>,
    out: Option<&Bound<'_, PyAny>>,
    out_dtype: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<PyAny>> {
    Arguments { op: Op::Linear, a: x, b: weight, c, alpha, beta, out, out_dtype, plan: None }
        .run(py)
}

/// The fast path alone, for the operator of torch: `None` if the call needs a copy, or is not on a GPU.
#[pyfunction]
pub fn fast(
    py: Python<'_>,
    op_name: &str,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    c: Option<&Bound<'_, PyAny>>,
    alpha: f32,
    beta: Option<f32>,
    out: Option<&Bound<'_, PyAny>>,
    out_dtype: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Py<PyAny>>> {
    let op = op(op_name)?;
    let call = Arguments { op, a, b, c, alpha, beta, out, out_dtype, plan: None };
    torch::plain(py, &call, engine::Workspace::Call)
}

/// The tensors of a call, imported and checked.
struct Checked<'py> {
    call: Call,
    product: Product,
    _tensors: Vec<Imported<'py>>,
}

fn check<'py>(
    op_name: &str,
    [a, b]: [&Bound<'py, PyAny>; 2],
    [c, out]: [Option<&Bound<'py, PyAny>>; 2],
    beta: Option<f32>,
    out_dtype: Option<&str>,
    stream: Option<i64>,
) -> PyResult<Checked<'py>> {
    let op = op(op_name)?;
    let out_type = out_dtype
        .map(|name| {
            let need = || format!("out_dtype is {name}; float16, bfloat16 or float32 is right");
            Element::named(name).ok_or_else(|| PyTypeError::new_err(need()))
        })
        .transpose()?;
    let [a_name, b_name] = if op == Op::Matmul { ["a", "b"] } else { ["x", "weight"] };
    let mut tensors = Vec::with_capacity(4);
    let mut import = |name: &str, tensor: Option<&Bound<'py, PyAny>>| -> PyResult<Option<View>> {
        let Some(tensor) = tensor else { return Ok(None) };
        let imported = Imported::new(name, tensor, stream)?;
        let view = imported.view;
        tensors.push(imported);
        Ok(Some(view))
    };
    let (Some(a), Some(b)) = (import(a_name, Some(a))?, import(b_name, Some(b))?) else {
        return Err(PyTypeError::new_err("a and b are needed"));
    };
    let (c, out) = (import("c", c)?, import("out", out)?);
    let call = Call { op, a, b, c, out, out_type, beta, gated: false };
    let product = call.check().map_err(|e| refuse(&e))?;
    Ok(Checked { call, product, _tensors: tensors })
}

/// Checks a call: the result's shape and type, where it runs, and which of a, b and c need a copy.
#[pyfunction]
pub fn describe<'py>(
    py: Python<'py>,
    op_name: &str,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    c: Option<&Bound<'py, PyAny>>,
    beta: Option<f32>,
    out: Option<&Bound<'py, PyAny>>,
    out_dtype: Option<&str>,
    plan: Option<PyRef<'py, PlanCheck>>,
) -> PyResult<(Bound<'py, PyTuple>, String, String, [bool; 3])> {
    let Checked { call, product, .. } = check(op_name, [a, b], [c, out], beta, out_dtype, None)?;
    if let Some(size) = plan.and_then(|plan| plan.size) {
        planned(&size, &product, call.c.is_some()).map_err(|e| refuse(&e))?;
    }
    let shape = PyTuple::new(py, product.out_shape.as_slice())?;
    // The host's tensors are copied to the model in any case.
    let copied = |layout: Option<Layout>| {
        product.place != Place::Host && matches!(layout, Some(Layout::Copy))
    };
    let copies = [Some(product.a), Some(product.b), product.c].map(copied);
    Ok((shape, product.size.out.to_string(), product.place.to_string(), copies))
}

/// Checks that a product is the one of a plan.
pub fn planned(size: &Size, product: &Product, with_c: bool) -> Result<(), Refusal> {
    let called = Size { with_c, ..product.size };
    if called == *size {
        return Ok(());
    }
    Err(Refusal::Plan { planned: size.to_string(), called: called.to_string() })
}

/// Runs a product whose tensors need no copy. `stream` is a `CUstream`; host tensors go to the SM model. `zeros`
/// allocates memory for workspaces: bytes to (address, owner).
#[pyfunction]
pub fn run(
    py: Python<'_>,
    op_name: &str,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    c: Option<&Bound<'_, PyAny>>,
    alpha: f32,
    beta: Option<f32>,
    out: &Bound<'_, PyAny>,
    stream: i64,
    zeros: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    // DLPack: 1 is the legacy default stream, 0 is ambiguous.
    let exported = if stream == 0 { 1 } else { stream };
    let checked = check(op_name, [a, b], [c, Some(out)], beta, None, Some(exported))?;
    let Checked { call, product, .. } = &checked;
    match product.place {
        Place::Host => model::run(py, call, product, alpha),
        Place::Cuda(device) => {
            let mut call = |bytes: usize| allocated(zeros, bytes);
            let zeros = zeros.is_some().then_some(&mut call as engine::Zeros<'_>);
            engine::run(product, device, stream as u64, alpha, zeros, engine::Workspace::Call)
        }
        Place::Other(_) => Err(refuse(&Refusal::Device { name: "a", place: product.place })),
    }
}

/// Memory from a function of Python's.
pub fn allocated(zeros: Option<&Bound<'_, PyAny>>, bytes: usize) -> PyResult<(u64, Py<PyAny>)> {
    match zeros {
        Some(zeros) => zeros.call1((bytes,))?.extract(),
        None => Err(PyMemoryError::new_err("nothing allocates workspaces")),
    }
}

/// A product that was planned: which kernel computes it, and how.
///
/// Call it with tensors of the same sizes and types as often as needed.
#[pyclass(frozen, skip_from_py_object, module = "warpipe")]
pub struct Plan {
    size: Size,
    text: String,
    json: String,
}

impl Plan {
    /// A plan of a product of this size.
    pub fn new(size: Size, info: &PlanInfo) -> PyResult<Self> {
        let json = serde_json::to_string(info).map_err(|e| Error::new_err(e.to_string()))?;
        Ok(Self { size, text: info.to_string().trim_end().to_owned(), json })
    }

    /// Sizes and types.
    pub fn size(&self) -> &Size {
        &self.size
    }
}

#[pymethods]
impl Plan {
    /// alpha * a @ b + beta * c with tensors of the planned sizes and types.
    #[pyo3(signature = (a, b, c=None, *, alpha=1.0, beta=None, out=None))]
    fn __call__(
        &self,
        py: Python<'_>,
        a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
        c: Option<&Bound<'_, PyAny>>,
        alpha: f32,
        beta: Option<f32>,
        out: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let element = self.size.out.to_string();
        let out_dtype = pyo3::types::PyString::new(py, &element);
        // The fast path takes the type from `out` or `a` where that is the planned one.
        let named = self.size.out != self.size.ab && out.is_none();
        let out_dtype = named.then_some(out_dtype.as_any());
        let plan = Some(self);
        Arguments { op: Op::Matmul, a, b, c, alpha, beta, out, out_dtype, plan }.run(py)
    }

    /// The plan as a dictionary: sizes, kernel, tile, cluster, grid, predicted time.
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let loaded = py.import("json")?.call_method1("loads", (&self.json,))?;
        Ok(loaded.cast_into::<PyDict>()?)
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<warpipe.Plan {}>", self.text.lines().next().unwrap_or_default())
    }
}

/// Plans a product of checked tensors.
#[pyfunction]
pub fn plan(
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    c: Option<&Bound<'_, PyAny>>,
    out: Option<&Bound<'_, PyAny>>,
    out_dtype: Option<&str>,
) -> PyResult<Plan> {
    let (size, place) = checked(a, b, c, out, out_dtype)?;
    let problem = model::problem(&size);
    let info = match place {
        Place::Cuda(device) => engine::describe(device, &problem)?,
        _ => model::describe(&problem)?,
    };
    Plan::new(size, &info)
}

/// Sizes, types and place of the product of tensors that were checked.
pub fn checked(
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    c: Option<&Bound<'_, PyAny>>,
    out: Option<&Bound<'_, PyAny>>,
    out_dtype: Option<&str>,
) -> PyResult<(Size, Place)> {
    let Checked { product, call, .. } = check("matmul", [a, b], [c, out], None, out_dtype, None)?;
    Ok((Size { with_c: call.c.is_some(), ..product.size }, product.place))
}
