//! Products of groups of rows, each with a matrix of its own, as `torch._grouped_mm` computes them.

use crate::engine;
use crate::interchange::Imports;
use crate::kept::Kept;
use crate::layout::{Dims, Element, Layout, Matrix, Order, Place, View};
use crate::model::{self, gather, on_the_model, scatter};
use crate::python::{raise, refuse};
use crate::refusal::Refusal;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use warpipe::host::gemm::{Gemm, GroupedGemm, GroupedPlan, GroupedProblem, GroupedRows};
use warpipe::host::{Buffer, Device, Stream, View as Rows, ViewMut};

/// Elements of 32-bit signed integers.
const I32: Element = Element { code: 0, bits: 32, lanes: 1 };

/// out\[rows of group g\] = a\[rows of group g\] @ b\[g\].
///
/// `a` is [rows, K] with adjacent rows, `b` is [groups, K, N] and the transpose of a contiguous weight [groups, N, K].
/// `offs` has one int32 for each group: one past its last row. Rows behind the last group keep what `out` has. `stream` is a
/// `CUstream`; tensors of the host go to the SM model.
#[pyfunction]
pub fn grouped_mm(
    py: Python<'_>,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    offs: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    stream: i64,
) -> PyResult<()> {
    let mut tensors = Imports::new(py, stream);
    let (a, b) = (&tensors.view("a", a)?, &tensors.view("b", b)?);
    let (offs, out) = (&tensors.view("offs", offs)?, &tensors.view("out", out)?);
    let call = Call::check(a, b, offs, out).map_err(|e| refuse(&e))?;
    match a.place {
        // SAFETY: the tensors were checked, and the caller holds them.
        Place::Host => unsafe { call.run_on_the_model(py, [a, &call.weight, offs], out) },
        Place::Cuda(device) => call.run(device, stream as u64),
        Place::Other(_) => Err(refuse(&Refusal::Device { name: "a", place: a.place })),
    }
}

/// A call that was checked.
struct Call {
    problem: GroupedProblem,
    a: Matrix,
    b: Matrix,
    out: Matrix,
    /// The address of the ends.
    offs: u64,
    /// `b` as the matrix [groups * N, K].
    weight: View,
}

/// The rows of a matrix with adjacent elements.
fn rows(name: &'static str, view: &View) -> Result<Matrix, Refusal> {
    if view.shape.as_slice().len() != 2 {
        let have = view.shape.as_slice().len();
        return Err(Refusal::Dimensions { name, have, need: "exactly 2" });
    }
    match view.layout(name, Order::Rows)? {
        Layout::Rows(matrix) => Ok(matrix),
        Layout::Copy => Err(view.refuse(name, "its rows must have adjacent elements")),
    }
}

/// `b` [groups, K, N] as the matrix [groups * N, K] of the weight's rows.
fn weight(b: &View) -> Result<View, Refusal> {
    let (&[groups, k, n], &[of_group, of_k, of_n]) = (b.shape.as_slice(), b.strides.as_slice())
    else {
        let have = b.shape.as_slice().len();
        return Err(Refusal::Dimensions { name: "b", have, need: "exactly 3" });
    };
    // A dimension of one element may have any stride.
    let row = if n > 1 { of_n } else { of_group };
    let adjacent = k <= 1 || of_k == 1;
    if !adjacent || groups > 1 && n.checked_mul(row) != Some(of_group) {
        let what = "weight.transpose(1, 2) of a contiguous weight [groups, N, K] is right";
        return Err(b.refuse("b", what));
    }
    let row = if groups * n > 1 { row } else { k };
    let dims = |list: &[i64]| Dims::new(list).unwrap_or(Dims::EMPTY);
    Ok(View { shape: dims(&[groups * n, k]), strides: dims(&[row, 1]), ..*b })
}

impl Call {
    fn check(a: &View, b: &View, offs: &View, out: &View) -> Result<Self, Refusal> {
        for (name, view) in [("a", a), ("b", b), ("out", out)] {
            if view.element != Element::BF16 {
                return Err(Refusal::Element { name, have: view.element, need: "bfloat16".into() });
            }
        }
        if offs.element != I32 {
            return Err(Refusal::Element {
                name: "offs",
                have: offs.element,
                need: "int32".into(),
            });
        }
        for (name, view) in [("b", b), ("offs", offs), ("out", out)] {
            if view.place != a.place {
                return Err(Refusal::Place { name, have: view.place, first: "a", need: a.place });
            }
        }
        let weight = weight(b)?;
        let (a_rows, b_rows, d_rows) = (rows("a", a)?, rows("b", &weight)?, rows("out", out)?);
        let [groups, k, n] = [0, 1, 2].map(|i| b.shape.as_slice()[i] as u64);
        let total = a.shape.as_slice()[0] as u64;
        let shape =
            |name, view: &View, what| Refusal::Shape { name, shape: view.shape.to_string(), what };
        if a.shape.as_slice()[1] as u64 != k {
            return Err(shape(
                "b",
                b,
                format!(
                    "a is {}, so b [groups, K, N] must have K = {}",
                    a.shape,
                    a.shape.as_slice()[1]
                ),
            ));
        }
        if offs.shape.as_slice() != [groups as i64] {
            return Err(shape(
                "offs",
                offs,
                format!("[{groups}], one end for each group, is right"),
            ));
        }
        if groups > 1 && offs.strides.as_slice() != [1] {
            return Err(offs.refuse("offs", "the values must be adjacent"));
        }
        if out.shape.as_slice() != [total as i64, n as i64] {
            return Err(shape("out", out, format!("the result is [{total}, {n}]")));
        }
        if out.readonly {
            return Err(Refusal::ReadOnly);
        }
        let (out_start, out_end) = out.range();
        for (name, input) in [("a", a), ("b", &weight), ("offs", offs)] {
            let (start, end) = input.range();
            if start != end && out_start != out_end && out_start < end && start < out_end {
                return Err(Refusal::Alias { name, start, end, out_start, out_end });
            }
        }
        let rows = GroupedRows::Contiguous { total };
        let problem = GroupedProblem { groups, rows, n, k, dtype: model::dtype(Element::BF16) };
        Ok(Self { problem, a: a_rows, b: b_rows, out: d_rows, offs: offs.addr, weight })
    }

    /// Queues the product on a stream of a GPU. The first call of a kind plans it and loads its kernel.
    fn run(&self, ordinal: i32, stream: u64) -> PyResult<()> {
        let device = engine::device(ordinal)?;
        // SAFETY: the caller's library works on this stream at this moment. A plan with a workspace keeps the handle for the
        // order of its runs; torch does not destroy its streams (docs/status.md says what that means for others).
        let stream = unsafe { Stream::from_raw(&device, stream as *mut c_void) };
        let stream = stream.map_err(|e| raise(&e))?;
        let captured = stream.capture_id().map_err(|e| raise(&e))?.is_some();
        let plan = plan(&device, ordinal, &self.problem, captured)?;
        let launch = || {
            // SAFETY: the caller holds the tensors during this call. Their library frees them in the order of the stream.
            let (ends, [a, b, mut d]) = unsafe {
                let memory = |m: &Matrix| Buffer::from_raw(&device, m.addr, m.span() as usize);
                (
                    Buffer::from_raw(&device, self.offs, 4 * self.problem.groups as usize)?,
                    [memory(&self.a)?, memory(&self.b)?, memory(&self.out)?],
                )
            };
            let (a, b) = (Rows::new(&a).pitch(self.a.pitch), Rows::new(&b).pitch(self.b.pitch));
            let d = ViewMut::new(&mut d).pitch(self.out.pitch);
            plan.bind(a, b, &ends, d)?.run(1.0, &stream)
        };
        launch().map_err(|e| raise(&e))
    }

    /// Computes the product of tensors of the host, and writes `out`.
    ///
    /// # Safety
    /// The tensors were checked: all strides are positive, and the elements of each lie in its memory, which the caller
    /// holds. `out` is writable and apart from the operands.
    unsafe fn run_on_the_model(
        &self,
        py: Python<'_>,
        operands: [&View; 3],
        out: &View,
    ) -> PyResult<()> {
        // SAFETY: the caller's contract.
        let gathered = |view: &View| unsafe { gather(view, Order::Rows) };
        let (bytes, before) = (operands.map(gathered), gathered(out));
        let problem = self.problem;
        let multiply = |model: &model::Model| {
            let device = &model.device;
            let [a, b] = [&bytes[0], &bytes[1]].map(|bytes| device.upload(bytes));
            // Rows that no group has stay as they are.
            let (ends, mut d) = (device.upload(&bytes[2])?, device.upload(&before)?);
            let plan = Gemm::grouped(device, &warpipe::GEMM_IMAGE)?.plan(&problem)?;
            plan.run(&a?, &b?, &ends, &mut d, 1.0)?;
            d.to_vec()
        };
        let d = py.detach(|| on_the_model(multiply)).map_err(|e| raise(&e))?;
        // SAFETY: the caller's contract.
        unsafe { scatter(out, &d) };
        Ok(())
    }
}

/// The kernels of a device, and its plans.
struct Gpu {
    gemm: GroupedGemm,
    plans: Kept<GroupedProblem, GroupedPlan>,
}

/// The plan of a problem on a GPU.
fn plan(
    device: &Device,
    ordinal: i32,
    problem: &GroupedProblem,
    captured: bool,
) -> PyResult<Arc<GroupedPlan>> {
    static GPUS: Mutex<Option<HashMap<i32, Gpu>>> = Mutex::new(None);
    let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
    let gpu = match gpus.get_or_insert_default().entry(ordinal) {
        Entry::Occupied(gpu) => gpu.into_mut(),
        Entry::Vacant(free) => {
            let gemm = Gemm::grouped(device, &warpipe::GEMM_IMAGE).map_err(|e| raise(&e))?;
            free.insert(Gpu { gemm, plans: Kept::default() })
        }
    };
    if let Some(plan) = gpu.plans.get(problem, captured) {
        return Ok(plan);
    }
    let plan = gpu.gemm.plan(problem).map_err(|e| raise(&e))?;
    Ok(gpu.plans.insert(*problem, plan, captured))
}
