//! Pointer arrays: products of sizes and places of their own, in one launch.

use crate::engine;
use crate::interchange::Imports;
use crate::kept::Kept;
use crate::layout::{Element, Order, Place, View};
use crate::model::{self, gather, on_the_model, scatter};
use crate::python::{Error, raise, refuse};
use crate::refusal::Refusal;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use warpipe::host::gemm::{ArrayGemm, ArrayPlan, ArrayProblem, Gemm};
use warpipe::host::{Buffer, Device, Stream};

/// The types of an info and of a table.
const I32: Element = Element { code: 0, bits: 32, lanes: 1 };
const I64: Element = Element { code: 0, bits: 64, lanes: 1 };
const U64: Element = Element { code: 1, bits: 64, lanes: 1 };
/// Values of a line of the table.
const WORDS: i64 = ArrayProblem::BYTES as i64 / 8;

/// out\[problem i\] = a\[problem i\] @ b\[problem i\].T, where `problems` says.
///
/// `a`, `b` and `out` are tensors of any shape without gaps, from whose first element the table counts. `problems` is
/// [problems, 9]. `info`, of one int32, gets 0, or 1 + the first problem that was skipped. `expected` is M, N and K of a
/// typical problem. `stream` is a `CUstream`; tensors of the host go to the SM model.
#[pyfunction]
pub fn grouped_mm_array(
    py: Python<'_>,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    problems: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    info: Option<&Bound<'_, PyAny>>,
    expected: Option<Vec<i64>>,
    stream: i64,
) -> PyResult<()> {
    let mut tensors = Imports::new(py, stream);
    let (a, b) = (tensors.view("a", a)?, tensors.view("b", b)?);
    let operands = [a, b, tensors.view("problems", problems)?, tensors.view("out", out)?];
    let info = info.map(|info| tensors.view("info", info)).transpose()?;
    let call = Call::check(operands, info, expected).map_err(|e| refuse(&e))?;
    match call.out.place {
        // SAFETY: the tensors were checked, and the caller holds them.
        Place::Host => unsafe { call.run_on_the_model(py) },
        Place::Cuda(device) => call.run(device, stream as u64),
        place @ Place::Other(_) => Err(refuse(&Refusal::Device { name: "a", place })),
    }
}

/// A call that was checked: all tensors are in one memory and have no gaps, and nothing overlaps what is written.
struct Call {
    /// `a`, `b` and the table.
    inputs: [View; 3],
    out: View,
    info: Option<View>,
    problems: u64,
    /// M, N and K of a typical problem.
    expected: [u64; 3],
}

/// Elements of a tensor.
fn elements(view: &View) -> u64 {
    view.shape.as_slice().iter().map(|&size| size as u64).product()
}

/// Its bytes, if it has no gaps.
fn bytes(view: &View) -> usize {
    (elements(view) * view.element.size()) as usize
}

/// Whether the elements lie one behind the other, in the order of their indices.
fn contiguous(view: &View) -> bool {
    let (shape, packed) = (view.shape, view.shape.contiguous());
    let dims = shape.as_slice().iter().zip(view.strides.as_slice().iter().zip(packed.as_slice()));
    // A dimension of one element may have any stride.
    elements(view) == 0 || dims.into_iter().all(|(&size, (have, need))| size == 1 || have == need)
}

/// Whether two tensors without gaps share a byte.
fn overlap(x: &View, y: &View) -> bool {
    let ((x_start, x_end), (y_start, y_end)) = (x.range(), y.range());
    x_start != x_end && y_start != y_end && x_start < y_end && y_start < x_end
}

/// M, N and K of problems of one size, as many as these, whose A [M, K], B [N, K] and D [M, N] have so many elements in all.
fn mean(problems: u64, elements: [u64; 3]) -> [u64; 3] {
    let [mk, nk, mn] = elements.map(|all| all as f64 / problems.max(1) as f64);
    let side = |x: f64, y: f64, other: f64| if other > 0.0 { (x * y / other).sqrt() } else { 0.0 };
    [side(mn, mk, nk), side(mn, nk, mk), side(mk, nk, mn)].map(|size| size.round() as u64)
}

impl Call {
    fn check(
        [a, b, table, out]: [View; 4],
        info: Option<View>,
        expected: Option<Vec<i64>>,
    ) -> Result<Self, Refusal> {
        let named = [("a", &a), ("b", &b), ("out", &out), ("problems", &table)];
        for (name, view) in &named[..3] {
            if view.element != Element::BF16 {
                return Err(Refusal::Element { name, have: view.element, need: "bfloat16".into() });
            }
        }
        if ![I64, U64].contains(&table.element) {
            let (have, need) = (table.element, "int64 or uint64".into());
            return Err(Refusal::Element { name: "problems", have, need });
        }
        let of_info = info.as_ref().map(|info| ("info", info));
        for (name, view) in named.into_iter().chain(of_info) {
            if view.place != a.place {
                return Err(Refusal::Place { name, have: view.place, first: "a", need: a.place });
            }
            if !contiguous(view) {
                let what = "the table counts elements in memory, so there must be no gaps; pass a contiguous tensor";
                return Err(view.refuse(name, what));
            }
        }
        let &[problems, WORDS] = table.shape.as_slice() else {
            let what = "[problems, 9] is right: M, N, K, first elements of A, B, D, row pitches of A, B, D";
            let shape = table.shape.to_string();
            return Err(Refusal::Shape { name: "problems", shape, what: what.into() });
        };
        for (name, view) in &named[..3] {
            if elements(view) > 0 {
                view.check_alignment(name)?;
            }
        }
        if out.readonly {
            return Err(Refusal::ReadOnly);
        }
        let ((out_start, out_end), inputs) = (out.range(), [named[0], named[1], named[3]]);
        for (name, view) in inputs.into_iter().chain(of_info) {
            if overlap(view, &out) {
                let (start, end) = view.range();
                return Err(Refusal::Alias { name, start, end, out_start, out_end });
            }
        }
        if let Some(info) = &info {
            Self::check_info(info, inputs)?;
        }
        let problems = problems as u64;
        let expected = match expected.map(<[i64; 3]>::try_from) {
            None => mean(problems, [&a, &b, &out].map(elements)),
            Some(Ok(sizes)) if sizes.iter().all(|&size| size >= 0) => sizes.map(|size| size as u64),
            Some(other) => {
                let have =
                    other.map_or_else(|list| format!("{list:?}"), |list| format!("{list:?}"));
                let need = "(M, N, K) of a typical problem";
                return Err(Refusal::Option { name: "expected", have, need });
            }
        };
        Ok(Self { inputs: [a, b, table], out, info, problems, expected })
    }

    fn check_info(info: &View, inputs: [(&'static str, &View); 3]) -> Result<(), Refusal> {
        let name = "info";
        if info.element != I32 {
            return Err(Refusal::Element { name, have: info.element, need: "int32".into() });
        }
        if elements(info) != 1 {
            let (shape, what) = (info.shape.to_string(), "one value is right".into());
            return Err(Refusal::Shape { name, shape, what });
        }
        let refuse = |have: String, need| Err(Refusal::Option { name, have, need });
        if info.readonly {
            return refuse("read-only".into(), "memory that may be written");
        }
        match inputs.into_iter().find(|(_, input)| overlap(input, info)) {
            Some((input, _)) => refuse(format!("in the memory of {input}"), "memory of its own"),
            None => Ok(()),
        }
    }

    /// Queues the products on a stream of a GPU. The first call of a kind plans them and loads their kernels.
    fn run(&self, ordinal: i32, stream: u64) -> PyResult<()> {
        let device = engine::device(ordinal)?;
        // SAFETY: the caller's library works on this stream at this moment. It is used during this call, and by its plans
        // only as a name to compare with.
        let stream = unsafe { Stream::from_raw(&device, stream as *mut c_void) };
        let stream = stream.map_err(|e| raise(&e))?;
        let plan = self.plan(&device, ordinal, &stream)?;
        let launch = || {
            // SAFETY: the caller holds the tensors during this call. Their library frees them in the order of the stream.
            let memory = |view: &View| unsafe { Buffer::from_raw(&device, view.addr, bytes(view)) };
            let [a, b, table] = &self.inputs;
            let (a, b, table, mut d) = (memory(a)?, memory(b)?, memory(table)?, memory(&self.out)?);
            let mut info = self.info.as_ref().map(memory).transpose()?;
            let bound = plan.bind(&a, &b, &table, &mut d)?;
            match &mut info {
                Some(info) => bound.with_info(info)?.run(1.0, &stream),
                None => bound.run(1.0, &stream),
            }
        };
        launch().map_err(|e| raise(&e))
    }

    /// The plan of a call on a stream of a GPU.
    fn plan(&self, device: &Device, ordinal: i32, stream: &Stream) -> PyResult<Arc<ArrayPlan>> {
        static GPUS: Mutex<Option<HashMap<i32, Gpu>>> = Mutex::new(None);
        let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        let captured = stream.capture_id().map_err(|e| raise(&e))?.is_some();
        // A plan allocates its tensor maps, and the first one loads the kernels; a capture forbids both.
        let early = || {
            Error::new_err(
                "grouped_mm_array is captured before a first call: call it once with tensors of these sizes on this stream, and \
                 then capture it",
            )
        };
        let gpu = match gpus.get_or_insert_default().entry(ordinal) {
            Entry::Occupied(gpu) => gpu.into_mut(),
            Entry::Vacant(_) if captured => return Err(early()),
            Entry::Vacant(free) => {
                let gemm =
                    Gemm::grouped_array(device, &warpipe::GEMM_IMAGE).map_err(|e| raise(&e))?;
                free.insert(Gpu { gemm, plans: Kept::default() })
            }
        };
        let index = gpu.gemm.pick(self.problems, self.expected).map_err(|e| raise(&e))?;
        let key = (self.problems, index, stream.raw() as u64);
        match gpu.plans.get(&key, captured) {
            Some(plan) => Ok(plan),
            None if captured => Err(early()),
            None => {
                let plan = gpu.gemm.plan_with(self.problems, index).map_err(|e| raise(&e))?;
                Ok(gpu.plans.insert(key, plan, false))
            }
        }
    }

    /// Computes the products of tensors of the host, and writes `out` and `info`.
    ///
    /// # Safety
    /// The tensors were checked: the elements of each lie in its memory, which the caller holds. `out` and `info` are writable
    /// and apart from the others.
    unsafe fn run_on_the_model(&self, py: Python<'_>) -> PyResult<()> {
        // SAFETY: the caller's contract.
        let gathered = |view: &View| unsafe { gather(view, Order::Rows) };
        // Elements of no problem stay as they are.
        let (inputs, before) = (self.inputs.each_ref().map(gathered), gathered(&self.out));
        let (problems, expected) = (self.problems, self.expected);
        let multiply = |model: &model::Model| {
            let device = &model.device;
            let [a, b, table] = inputs.each_ref().map(|bytes| device.upload(bytes));
            let (mut d, mut info) = (device.upload(&before)?, device.alloc_zeroed(4)?);
            let gemm = Gemm::grouped_array(device, &warpipe::GEMM_IMAGE)?;
            let plan = gemm.plan(problems, expected)?;
            let (a, b, table) = (a?, b?, table?);
            let bound = plan.bind(&a, &b, &table, &mut d)?.with_info(&mut info)?;
            bound.run(1.0, &device.stream())?;
            Ok((d.to_vec()?, info.to_vec()?))
        };
        let (d, info) = py.detach(|| on_the_model(multiply)).map_err(|e| raise(&e))?;
        // SAFETY: the caller's contract.
        unsafe {
            scatter(&self.out, &d);
            if let Some(view) = &self.info {
                scatter(view, &info);
            }
        }
        Ok(())
    }
}

/// The kernels of a device, and its plans by problems, kernel and stream: products that run at the same time share no tensor
/// maps.
struct Gpu {
    gemm: ArrayGemm,
    plans: Kept<(u64, usize, u64), ArrayPlan>,
}
