//! Products of quantised tensors with scales, as `torch._scaled_mm` computes them.

use crate::engine::{self, Workspace, Zeros};
use crate::interchange::Imports;
use crate::layout::{Element, Layout, Order, Place, View};
use crate::model;
use crate::product::{Product, Scales, Scaling, Size};
use crate::python::{allocated, refuse};
use crate::refusal::Refusal;
use pyo3::prelude::*;

/// The rows of a matrix, which the GEMM reads and writes in place.
fn rows(name: &'static str, view: &View, order: Order) -> Result<Layout, Refusal> {
    if view.shape.as_slice().len() != 2 {
        let have = view.shape.as_slice().len();
        return Err(Refusal::Dimensions { name, have, need: "exactly 2" });
    }
    match view.layout(name, order)? {
        Layout::Copy if name == "b" => Err(view.refuse(
            name,
            "its columns must have adjacent elements, as weight.t() of a weight [N, K]",
        )),
        Layout::Copy => Err(view.refuse(name, "its rows must have adjacent elements")),
        rows @ Layout::Rows(_) => Ok(rows),
    }
}

/// The address and the number of the scales of an operand with `count` rows.
fn scales(
    name: &'static str,
    view: &View,
    count: u64,
    blocks: [u64; 2],
) -> Result<(u64, u64), Refusal> {
    let shape = view.shape.as_slice();
    let values: u64 = shape.iter().map(|&size| size as u64).product();
    if view.element != Element::F32 {
        return Err(Refusal::Element { name, have: view.element, need: "float32".into() });
    }
    if values != 1 && values != count {
        let what = format!(
            "1 value for the whole tensor, or {count}, is right, or {blocks:?} for blocks of 128"
        );
        return Err(Refusal::Shape { name, shape: view.shape.to_string(), what });
    }
    // One value may have any strides.
    if values > 1 && view.strides != view.shape.contiguous() {
        return Err(view.refuse(name, "the values must be adjacent"));
    }
    Ok((view.addr, values))
}

/// The scales of a product of [m, n, k], and how they are applied.
fn scaling(
    [a, b]: [&View; 2],
    [m, n, k]: [u64; 3],
    use_fast_accum: bool,
) -> Result<(Scaling, Scales), Refusal> {
    let (blocks_n, blocks_k) = (n.div_ceil(128), k.div_ceil(128));
    let (of_a, of_b) = ([m, blocks_k], [blocks_k, blocks_n]);
    let is = |view: &View, want: [u64; 2]| {
        view.shape.as_slice().iter().map(|&size| size as u64).eq(want)
    };
    let values =
        |view: &View| view.shape.as_slice().iter().map(|&size| size as u64).product::<u64>();
    // Where both readings are possible, they are the same product.
    let by_rows = [1, m].contains(&values(a)) && [1, n].contains(&values(b));
    if by_rows || !is(a, of_a) || !is(b, of_b) {
        let (a, b) = (scales("scale_a", a, m, of_a)?, scales("scale_b", b, n, of_b)?);
        let how = if use_fast_accum { Scaling::Fast } else { Scaling::Promoted };
        return Ok((how, Scales { a, b, pitches: [0; 2] }));
    }
    for (name, view) in [("scale_a", a), ("scale_b", b)] {
        if view.element != Element::F32 {
            return Err(Refusal::Element { name, have: view.element, need: "float32".into() });
        }
    }
    if use_fast_accum {
        let need = "False, with scales of blocks,";
        return Err(Refusal::Option { name: "use_fast_accum", have: "True".into(), need });
    }
    // A dimension of one element may have any stride.
    let strides = |view: &View, next: u64, packed: u64| {
        let [first, second] = [0, 1].map(|i| view.strides.as_slice()[i] as u64);
        let rows = view.shape.as_slice()[0];
        (rows <= 1 || first == 1).then_some(if next > 1 { second } else { packed })
    };
    let a_pitch = strides(a, blocks_k, m.next_multiple_of(4))
        .filter(|&pitch| pitch >= m && (blocks_k <= 1 || pitch.is_multiple_of(4)));
    let b_pitch = strides(b, blocks_n, blocks_k).filter(|&pitch| pitch >= blocks_k);
    let what = "its columns must have adjacent elements, and begin at multiples of 4 elements";
    let a_pitch = a_pitch.ok_or_else(|| a.refuse("scale_a", what))?;
    let what = "its columns must have adjacent elements";
    let b_pitch = b_pitch.ok_or_else(|| b.refuse("scale_b", what))?;
    let span = |rows: u64, pitch: u64, values: u64| match (rows, values) {
        (0, _) | (_, 0) => 0,
        _ => (rows - 1) * pitch + values,
    };
    let (a_values, b_values) = (span(blocks_k, a_pitch, m), span(blocks_n, b_pitch, blocks_k));
    let scales =
        Scales { a: (a.addr, a_values), b: (b.addr, b_values), pitches: [a_pitch, b_pitch] };
    Ok((Scaling::Block, scales))
}

/// out = (scale_a * a) @ (scale_b * b), rounded to the type of `out`.
///
/// `a` [M, K] and `b` [K, N] are bytes that hold values of e4m3, and the columns of `b` have adjacent elements. `stream` is
/// a `CUstream`; tensors of the host go to the SM model. `zeros` allocates memory for workspaces: bytes to (address,
/// owner).
#[pyfunction]
pub fn scaled_mm(
    py: Python<'_>,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    scale_a: &Bound<'_, PyAny>,
    scale_b: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    use_fast_accum: bool,
    stream: i64,
    zeros: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let mut tensors = Imports::new(py, stream);
    let (a, b) = (&tensors.view("a", a)?, &tensors.view("b", b)?);
    let scale_a = &tensors.view("scale_a", scale_a)?;
    let scale_b = &tensors.view("scale_b", scale_b)?;
    let out = &tensors.view("out", out)?;
    let product = check([a, b], [scale_a, scale_b], out, use_fast_accum).map_err(|e| refuse(&e))?;
    match product.place {
        Place::Host => {
            // SAFETY: the tensors were checked, and the caller holds them.
            unsafe { model::run_scaled(py, product.size, [a, b], [scale_a, scale_b], out) }
        }
        Place::Cuda(device) => {
            let mut call = |bytes: usize| allocated(zeros, bytes);
            let zeros = zeros.is_some().then_some(&mut call as Zeros<'_>);
            engine::run(&product, device, stream as u64, 1.0, zeros, Workspace::Capture)
        }
        Place::Other(_) => Err(refuse(&Refusal::Device { name: "a", place: product.place })),
    }
}

fn check(
    [a, b]: [&View; 2],
    [scale_a, scale_b]: [&View; 2],
    out: &View,
    use_fast_accum: bool,
) -> Result<Product, Refusal> {
    for (name, tensor) in [("a", a), ("b", b)] {
        if tensor.element != Element::U8 {
            return Err(Refusal::Element { name, have: tensor.element, need: "uint8".into() });
        }
    }
    if ![Element::BF16, Element::F16, Element::F32].contains(&out.element) {
        let need = "bfloat16, float16 or float32".into();
        return Err(Refusal::Element { name: "out", have: out.element, need });
    }
    for (name, tensor) in [("b", b), ("scale_a", scale_a), ("scale_b", scale_b), ("out", out)] {
        if tensor.place != a.place {
            return Err(Refusal::Place { name, have: tensor.place, first: "a", need: a.place });
        }
    }
    let (a_rows, b_rows) = (rows("a", a, Order::Rows)?, rows("b", b, Order::Columns)?);
    let out_rows = rows("out", out, Order::Rows)?;
    let [m, k] = [a.shape.as_slice()[0], a.shape.as_slice()[1]].map(|size| size as u64);
    let n = b.shape.as_slice()[1] as u64;
    if b.shape.as_slice()[0] as u64 != k {
        let what = format!("a is {}, so b [K, N] must have K = {k}", a.shape);
        return Err(Refusal::Shape { name: "b", shape: b.shape.to_string(), what });
    }
    if out.shape.as_slice() != [m as i64, n as i64] {
        let what = format!("the result is [{m}, {n}]");
        return Err(Refusal::Shape { name: "out", shape: out.shape.to_string(), what });
    }
    if out.readonly {
        return Err(Refusal::ReadOnly);
    }
    let (out_start, out_end) = out.range();
    for (name, input) in [("a", a), ("b", b), ("scale_a", scale_a), ("scale_b", scale_b)] {
        let (start, end) = input.range();
        if start != end && out_start != out_end && out_start < end && start < out_end {
            return Err(Refusal::Alias { name, start, end, out_start, out_end });
        }
    }
    let (how, scales) = scaling([scale_a, scale_b], [m, n, k], use_fast_accum)?;
    let size = Size {
        m,
        n,
        k,
        ab: Element::E4M3,
        out: out.element,
        with_c: false,
        scaling: Some(how),
        layer: None,
    };
    Ok(Product {
        size,
        place: a.place,
        a: a_rows,
        b: b_rows,
        c: None,
        out: match out_rows {
            Layout::Rows(matrix) => Some(matrix),
            Layout::Copy => None,
        },
        out_shape: out.shape,
        beta: 0.0,
        scales: Some(scales),
        fusion: None,
    })
}
