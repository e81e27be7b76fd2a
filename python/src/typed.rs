//! Products of the GEMM's other types: e5m2, results of e4m3, 8-bit integers, and float32 as tf32; and linear layers of e4m3.

use crate::engine;
use crate::interchange::Imports;
use crate::kept::Kept;
use crate::layout::{Element, Layout, Matrix, Order, Place, View};
use crate::model::{gather, on_the_model, scatter};
use crate::python::{raise, refuse};
use crate::refusal::Refusal;
use crate::tuning;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use warpipe::gpu_kernels::gemm::Scaled;
use warpipe::gpu_kernels::gemm::fused::ScaledPerColBiasEltAct;
use warpipe::gpu_kernels::gemm::fusion::EltAct;
use warpipe::gpu_kernels::gemm::integer::IntLinear;
use warpipe::gpu_kernels::gemm::quantised::ScaledAmax;
use warpipe::host::gemm::{
    BoundGemm, Fusion, Gemm, GemmPlan, GemmProblem, Int8Gemm, OperandScales, QuantisedGemm,
    ResultScale, ScaledFusedGemm, ScaledGemm,
};
use warpipe::host::{self, Buffer, Device, Dtype, Stream, View as Rows, ViewMut};

/// The element types of `a`, `b` and `out`, by torch's names.
fn dtype(name: &str) -> PyResult<Dtype> {
    match name {
        "float8_e4m3fn" => Ok(Dtype::E4m3),
        "float8_e5m2" => Ok(Dtype::E5m2),
        "int8" => Ok(Dtype::I8),
        "int32" => Ok(Dtype::I32),
        "tf32" => Ok(Dtype::Tf32),
        "float32" => Ok(Dtype::F32),
        "bfloat16" => Ok(Dtype::Bf16),
        _ => Err(PyValueError::new_err(format!("no such element type: {name}"))),
    }
}

/// The element type in which a tensor of this type comes.
fn carrier(dtype: Dtype) -> Element {
    match dtype {
        Dtype::Bf16 => Element::BF16,
        Dtype::I8 => Element { code: 0, bits: 8, lanes: 1 },
        Dtype::I32 => Element { code: 0, bits: 32, lanes: 1 },
        Dtype::Tf32 | Dtype::F32 => Element::F32,
        // torch's DLPack has no 8-bit floats in all versions: they come as bytes.
        _ => Element::U8,
    }
}

/// Values beside the matrices: their names, in the order of `typed_mm`'s list.
const VALUES: [&str; 5] = ["scale_a", "scale_b", "scale_result", "amax", "bias"];
/// The place of `amax` in it.
const AMAX: usize = 3;
/// The place of `bias` in it.
const BIAS: usize = 4;

/// out = activation((scale_a * a) @ (scale_b * b) + bias), times `scale_result`, in these types.
///
/// `a` is [M, K], and `b` [K, N] has adjacent columns. 8-bit floats come as uint8. `amax` is raised to the largest magnitude
/// of the result before `scale_result`. `values` may end before `bias`. Bias and activation are for e4m3 with a result of bf16. `stream` is a `CUstream`; tensors of the host go to the SM model.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // A private function between two files.
#[allow(clippy::needless_pass_by_value)] // Python hands over owned lists.
pub fn typed_mm(
    py: Python<'_>,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    values: Vec<Option<Bound<'_, PyAny>>>,
    out: &Bound<'_, PyAny>,
    types: [String; 3],
    use_fast_accum: bool,
    activation: Option<&str>,
    stream: i64,
) -> PyResult<()> {
    let mut tensors = Imports::new(py, stream);
    let (a, b) = (tensors.view("a", a)?, tensors.view("b", b)?);
    let out = tensors.view("out", out)?;
    let mut views = [None; VALUES.len()];
    for ((view, name), value) in views.iter_mut().zip(VALUES).zip(&values) {
        *view = value.as_ref().map(|value| tensors.view(name, value)).transpose()?;
    }
    let values = views;
    let [ab, b_type, out_type] = [dtype(&types[0])?, dtype(&types[1])?, dtype(&types[2])?];
    let types = [ab, b_type, out_type];
    let call = Call::check([&a, &b, &out], &values, types, use_fast_accum, activation);
    let call = call.map_err(|e| refuse(&e))?;
    match a.place {
        // SAFETY: the tensors were checked, and the caller holds them.
        Place::Host => unsafe { call.run_on_the_model(py, [&a, &b], &out, &values) },
        Place::Cuda(device) => call.run(device, stream as u64),
        Place::Other(_) => Err(refuse(&Refusal::Device { name: "a", place: a.place })),
    }
}

/// What decides the kernels of a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    problem: GemmProblem,
    b: Dtype,
    use_fast_accum: bool,
    /// Whether there is a bias or an activation.
    layer: bool,
}

/// A call that was checked.
struct Call {
    key: Key,
    a: Matrix,
    b: Matrix,
    out: Matrix,
    /// Addresses and numbers of the [`VALUES`].
    values: [Option<(u64, u64)>; VALUES.len()],
    activation: EltAct,
}

impl Call {
    fn check(
        [a, b, out]: [&View; 3],
        values: &[Option<View>; VALUES.len()],
        types: [Dtype; 3],
        use_fast_accum: bool,
        activation: Option<&str>,
    ) -> Result<Self, Refusal> {
        let layer = values[BIAS].is_some() || activation.is_some();
        let activation = activation.map_or(Ok(EltAct::IDENTITY), |name| {
            let found = EltAct::NAMES.iter().find(|(known, _)| *known == name);
            found.map(|(_, activation)| *activation).ok_or_else(|| {
                let (have, need) = (format!("{name:?}"), "None, relu, silu, gelu or gelu-tanh");
                Refusal::Option { name: "activation", have, need }
            })
        })?;
        for ((name, view), dtype) in [("a", a), ("b", b), ("out", out)].into_iter().zip(types) {
            let need = carrier(dtype);
            if view.element != need {
                let need = need.to_string();
                return Err(Refusal::Element { name, have: view.element, need });
            }
            if view.place != a.place {
                return Err(Refusal::Place { name, have: view.place, first: "a", need: a.place });
            }
        }
        let (a_rows, b_rows) = (rows("a", a, Order::Rows)?, rows("b", b, Order::Columns)?);
        let out_rows = rows("out", out, Order::Rows)?;
        let [m, k] = [0, 1].map(|i| a.shape.as_slice()[i] as u64);
        let n = b.shape.as_slice()[1] as u64;
        let shape =
            |name, view: &View, what| Refusal::Shape { name, shape: view.shape.to_string(), what };
        if b.shape.as_slice()[0] as u64 != k {
            return Err(shape("b", b, format!("a is {}, so b [K, N] must have K = {k}", a.shape)));
        }
        if out.shape.as_slice() != [m as i64, n as i64] {
            return Err(shape("out", out, format!("the result is [{m}, {n}]")));
        }
        if out.readonly || values[AMAX].is_some_and(|amax| amax.readonly) {
            return Err(Refusal::ReadOnly);
        }
        let mut counted = [None; VALUES.len()];
        for (i, ((count, view), right)) in
            counted.iter_mut().zip(values).zip([m, n, 1, 1, n]).enumerate()
        {
            let (name, Some(view)) = (VALUES[i], view) else { continue };
            let number = view.shape.as_slice().iter().map(|&size| size as u64).product::<u64>();
            let need = if i == BIAS { Element::BF16 } else { Element::F32 };
            if view.element != need {
                let need = need.to_string();
                return Err(Refusal::Element { name, have: view.element, need });
            }
            if view.place != a.place {
                return Err(Refusal::Place { name, have: view.place, first: "a", need: a.place });
            }
            if i == BIAS && number != n {
                return Err(shape(
                    name,
                    view,
                    format!("{n} values are right, one for each column"),
                ));
            }
            if number != 1 && number != right {
                return Err(shape(name, view, format!("1 value is right, or {right} of rows")));
            }
            if number > 1 && view.strides != view.shape.contiguous() {
                return Err(view.refuse(name, "the values must be adjacent"));
            }
            *count = Some((view.addr, number));
        }
        let read = VALUES.into_iter().zip(values.iter().map(Option::as_ref));
        let (out_start, out_end) = out.range();
        for (name, input) in [("a", Some(a)), ("b", Some(b))].into_iter().chain(read) {
            let Some((start, end)) = input.map(View::range) else { continue };
            if name != VALUES[AMAX]
                && values[AMAX].is_some_and(|amax| (start..end).contains(&amax.range().0))
            {
                let amax = values[AMAX].as_ref().unwrap_or(out);
                return Err(amax.refuse(VALUES[AMAX], "its memory is that of an operand"));
            }
            if start != end && out_start != out_end && out_start < end && start < out_end {
                return Err(Refusal::Alias { name, start, end, out_start, out_end });
            }
        }
        let [ab, b_type, out] = types;
        let problem = GemmProblem { m, n, k, ab, out, beta_c: false };
        let key = Key { problem, b: b_type, use_fast_accum, layer };
        Ok(Self { key, a: a_rows, b: b_rows, out: out_rows, values: counted, activation })
    }

    /// Queues the product on a stream of a GPU. The first call of a kind plans it and loads its kernel.
    fn run(&self, ordinal: i32, stream: u64) -> PyResult<()> {
        let device = engine::device(ordinal)?;
        // SAFETY: the caller's library works on this stream at this moment. A plan with a workspace keeps the handle for the
        // order of its runs; torch does not destroy its streams (docs/status.md says what that means for others).
        let stream = unsafe { Stream::from_raw(&device, stream as *mut c_void) };
        let stream = stream.map_err(|e| raise(&e))?;
        let captured = stream.capture_id().map_err(|e| raise(&e))?.is_some();
        let plan = plan(ordinal, self.key, captured)?;
        let launch = || {
            // SAFETY: the caller holds the tensors during this call. Their library frees them in the order of the stream.
            let ([a, b, mut d], mut values) = unsafe {
                let memory = |m: &Matrix| Buffer::from_raw(&device, m.addr, m.span() as usize);
                let value = |value: Option<(u64, u64)>, size: usize| {
                    value
                        .map(|(addr, n)| Buffer::from_raw(&device, addr, size * n as usize))
                        .transpose()
                };
                let [x, y, z, w, v] = self.values;
                (
                    [memory(&self.a)?, memory(&self.b)?, memory(&self.out)?],
                    [value(x, 4)?, value(y, 4)?, value(z, 4)?, value(w, 4)?, value(v, 2)?],
                )
            };
            let (a, b) = (Rows::new(&a).pitch(self.a.pitch), Rows::new(&b).pitch(self.b.pitch));
            let d = ViewMut::new(&mut d).pitch(self.out.pitch);
            plan.launch(&device, [a, b], d, (&mut values, self.activation), &stream)
        };
        launch().map_err(|e| raise(&e))
    }

    /// Computes the product of tensors of the host, and writes `out` and `amax`.
    ///
    /// # Safety
    /// The tensors were checked: all strides are positive, and the elements of each lie in its memory, which the caller
    /// holds. `out` and `amax` are writable and apart from the others.
    unsafe fn run_on_the_model(
        &self,
        py: Python<'_>,
        [a, b]: [&View; 2],
        out: &View,
        views: &[Option<View>; VALUES.len()],
    ) -> PyResult<()> {
        // SAFETY: the caller's contract.
        let (a, b) = unsafe { (gather(a, Order::Rows), gather(b, Order::Columns)) };
        // SAFETY: the caller's contract.
        let gathered = |view: &View| unsafe { gather(view, Order::Rows) };
        let values = views.each_ref().map(|view| view.as_ref().map(gathered));
        let (key, activation) = (self.key, self.activation);
        let bytes = key.problem.bytes('D') as usize;
        let multiply = |model: &crate::model::Model| {
            let device = &model.device;
            let upload = |bytes: &Option<Vec<u8>>| {
                bytes.as_ref().map(|bytes| device.upload(bytes)).transpose()
            };
            let [x, y, z, w, v] = &values;
            let mut values = [upload(x)?, upload(y)?, upload(z)?, upload(w)?, upload(v)?];
            let (a, b) = (device.upload(&a)?, device.upload(&b)?);
            let mut d = device.alloc(bytes)?;
            let plan = Plan::new(device, key)?;
            let (rows, d_rows) = ([Rows::from(&a), Rows::from(&b)], ViewMut::from(&mut d));
            plan.launch(device, rows, d_rows, (&mut values, activation), &device.stream())?;
            let amax = values[AMAX].as_ref().map(Buffer::to_vec).transpose()?;
            Ok((d.to_vec()?, amax))
        };
        let (d, amax) = py.detach(|| on_the_model(multiply)).map_err(|e| raise(&e))?;
        // SAFETY: the caller's contract.
        unsafe {
            scatter(out, &d);
            if let (Some(view), Some(amax)) = (&views[AMAX], amax) {
                scatter(view, &amax);
            }
        }
        Ok(())
    }
}

/// The rows of a matrix, which the GEMM reads and writes in place.
fn rows(name: &'static str, view: &View, order: Order) -> Result<Matrix, Refusal> {
    if view.shape.as_slice().len() != 2 {
        let have = view.shape.as_slice().len();
        return Err(Refusal::Dimensions { name, have, need: "exactly 2" });
    }
    match (view.layout(name, order)?, name) {
        (Layout::Rows(matrix), _) => Ok(matrix),
        (Layout::Copy, "b") => {
            let what = "its columns must have adjacent elements, as weight.t() of a weight [N, K]";
            Err(view.refuse(name, what))
        }
        (Layout::Copy, _) => Err(view.refuse(name, "its rows must have adjacent elements")),
    }
}

/// A plan of one of the kinds.
enum Plan {
    Scaled(GemmPlan<Scaled<'static>>),
    Quantised(GemmPlan<ScaledAmax<'static>>),
    Layer(GemmPlan<ScaledPerColBiasEltAct<'static>>),
    Int8(GemmPlan<IntLinear>),
    Tf32(GemmPlan),
}

impl Plan {
    fn new(device: &Device, key: Key) -> Result<Self, host::Error> {
        let (image, Key { problem, b, use_fast_accum: fast, layer }) = (&warpipe::GEMM_IMAGE, key);
        let (problem, cache) = (&problem, &*tuning::cache());
        Ok(match (problem.ab, problem.out) {
            (Dtype::Tf32, _) => Self::Tf32(Gemm::new(device, image)?.plan_tuned(problem, cache)?),
            (Dtype::I8, Dtype::I32) => {
                Self::Int8(Int8Gemm::int8(device, image)?.plan_tuned(problem, cache)?)
            }
            (Dtype::I8, _) => {
                Self::Scaled(ScaledGemm::int8_scaled(device, image)?.plan_tuned(problem, cache)?)
            }
            (_, Dtype::E4m3) => {
                let gemm = QuantisedGemm::quantised(device, image, fast)?;
                Self::Quantised(gemm.plan_tuned(problem, cache)?)
            }
            _ if layer => {
                let gemm = ScaledFusedGemm::scaled_fused(device, image, fast)?;
                Self::Layer(gemm.plan_tuned(problem, cache)?)
            }
            (a, _) => {
                let gemm = ScaledGemm::scaled_mix(device, image, [a, b], fast)?;
                Self::Scaled(gemm.plan_tuned(problem, cache)?)
            }
        })
    }

    /// Queues the product with the [`VALUES`] and the activation.
    fn launch(
        &self,
        device: &Device,
        [a, b]: [Rows<'_>; 2],
        d: ViewMut<'_>,
        (values, activation): (&mut [Option<Buffer>; VALUES.len()], EltAct),
        stream: &Stream,
    ) -> Result<(), host::Error> {
        let [scale_a, scale_b, scale, amax, bias] = values;
        let one = || device.upload(&1.0f32.to_ne_bytes());
        match self {
            Self::Tf32(plan) => plan.bind(a, b, None, d)?.run(1.0, 0.0, stream),
            Self::Int8(plan) => plan.bind(a, b, None, d)?.run_with(IntLinear { alpha: 1 }, stream),
            Self::Scaled(plan) => {
                let (a_scale, b_scale) = (or(scale_a, one)?, or(scale_b, one)?);
                let bound: BoundGemm<'_, Scaled<'_>> = plan.bind(a, b, None, d)?;
                bound.run_scaled(OperandScales { a: a_scale, b: b_scale }, 1.0, stream)
            }
            Self::Layer(plan) => {
                let (a_scale, b_scale) = (or(scale_a, one)?, or(scale_b, one)?);
                let bound: BoundGemm<'_, ScaledPerColBiasEltAct<'_>> = plan.bind(a, b, None, d)?;
                let fusion = Fusion { bias: bias.as_ref(), activation, ..Fusion::default() };
                let scales = OperandScales { a: a_scale, b: b_scale };
                bound.run_scaled_fused(scales, fusion, stream)
            }
            Self::Quantised(plan) => {
                let (a_scale, b_scale) = (or(scale_a, one)?, or(scale_b, one)?);
                let bound: BoundGemm<'_, ScaledAmax<'_>> = plan.bind(a, b, None, d)?;
                let result = ResultScale { scale: scale.as_ref(), amax: amax.as_mut() };
                bound.run_quantised(OperandScales { a: a_scale, b: b_scale }, result, 1.0, stream)
            }
        }
    }
}

/// The buffer, which `make` makes if there is none.
fn or(
    buffer: &mut Option<Buffer>,
    make: impl FnOnce() -> Result<Buffer, host::Error>,
) -> Result<&Buffer, host::Error> {
    match buffer {
        Some(buffer) => Ok(buffer),
        None => Ok(buffer.insert(make()?)),
    }
}

/// The plans of each GPU.
static GPUS: Mutex<Option<HashMap<i32, Kept<Key, Plan>>>> = Mutex::new(None);

/// Drops the plans, so that the next call of each product plans it again. Those of captures stay.
pub fn forget() {
    let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
    gpus.iter_mut().flat_map(HashMap::values_mut).for_each(Kept::forget);
}

/// The plan of a product on a GPU.
fn plan(ordinal: i32, key: Key, captured: bool) -> PyResult<Arc<Plan>> {
    let device = engine::device(ordinal)?;
    let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
    let plans = gpus.get_or_insert_default().entry(ordinal).or_default();
    if let Some(plan) = plans.get(&key, captured) {
        return Ok(plan);
    }
    let plan = Plan::new(&device, key).map_err(|e| raise(&e))?;
    Ok(plans.insert(key, plan, captured))
}
