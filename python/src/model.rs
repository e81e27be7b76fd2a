//! The SM model, which runs the GPU's kernels on the CPU, and products of host tensors on it.

use crate::layer::Tensors;
use crate::layout::{Element, Order, Place, View};
use crate::product::{Call, LayerKind, Op, Product, Scaling, Size};
use crate::python::raise;
use crate::tuning;
use pyo3::prelude::*;
use std::sync::{Mutex, OnceLock, PoisonError};
use warpipe::gpu_kernels::gemm::fused::FusedElement;
use warpipe::gpu_kernels::gemm::fusion::EltAct;
use warpipe::half::{bf16, f16};
use warpipe::host::attention::Attention;
use warpipe::host::gemm::{
    BlockScales, FusedGemm, Fusion, GatedGemm, Gemm, GemmProblem, OperandScales, PlanInfo,
    ScaledGemm,
};
use warpipe::host::{self, Device, Dtype, Error, SimConfig};

/// The host crate's name of an element type.
pub fn dtype(element: Element) -> Dtype {
    match element {
        Element::F16 => Dtype::F16,
        Element::BF16 => Dtype::Bf16,
        Element::E4M3 => Dtype::E4m3,
        _ => Dtype::F32,
    }
}

/// The host crate's description of a product.
pub fn problem(size: &Size) -> GemmProblem {
    let Size { m, n, k, ab, out, with_c, .. } = *size;
    GemmProblem { m, n, k, ab: dtype(ab), out: dtype(out), beta_c: with_c }
}

/// The model with its kernels.
pub struct Model {
    /// The device.
    pub device: Device,
    gemm: Gemm,
    /// The attention kernels.
    pub attention: Attention,
}

/// The model, made at the first call.
fn model() -> Result<&'static Model, Error> {
    static MODEL: OnceLock<Model> = OnceLock::new();
    if let Some(model) = MODEL.get() {
        return Ok(model);
    }
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE)?;
    let attention = Attention::new(&device, &warpipe::GEMM_IMAGE)?;
    // Another thread may have been faster; then this one is dropped.
    Ok(MODEL.get_or_init(|| Model { device, gemm, attention }))
}

/// Uses the model alone.
pub fn on_the_model<T>(work: impl FnOnce(&Model) -> Result<T, Error>) -> Result<T, Error> {
    // Launches of one device belong to one stream: a report about one call must not reach another's caller.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    work(model()?)
}

/// The plan of a product on the model.
pub fn describe(problem: &GemmProblem) -> PyResult<PlanInfo> {
    let plan = on_the_model(|model| model.gemm.plan_tuned(problem, &tuning::cache()));
    let plan = plan.map_err(|e| raise(&e))?;
    Ok(plan.describe().clone())
}

/// Computes the product of a checked call and writes `out`.
pub fn run(py: Python<'_>, call: &Call, product: &Product, alpha: f32) -> PyResult<()> {
    let Some(out) = call.out else { return Ok(()) };
    debug_assert_eq!(product.place, Place::Host);
    let b_order = if call.op == Op::Matmul { Order::Columns } else { Order::Rows };
    // SAFETY: `call` was checked, so all strides are positive and the elements of each tensor lie in its memory.
    // The caller holds the tensors.
    let (a, b, c) = unsafe {
        (
            gather(&call.a, Order::Rows),
            gather(&call.b, b_order),
            call.c.filter(|_| product.size.with_c).map(|c| gather(&c, Order::Rows)),
        )
    };
    let (size, beta) = (product.size, product.beta);
    let d = py
        .detach(move || {
            on_the_model(|model| multiply(model, &size, [&a, &b], c.as_deref(), [alpha, beta]))
        })
        .map_err(|e| raise(&e))?;
    // SAFETY: as above, and `out` is writable and apart from the operands.
    unsafe { scatter(&out, &d) };
    Ok(())
}

fn multiply(
    model: &Model,
    size: &Size,
    [a, b]: [&[u8]; 2],
    c: Option<&[u8]>,
    [alpha, beta]: [f32; 2],
) -> Result<Vec<u8>, Error> {
    let problem = problem(size);
    let Model { device, gemm, .. } = model;
    let plan = gemm.plan_tuned(&problem, &tuning::cache())?;
    let (a, b) = (device.upload(a)?, device.upload(b)?);
    let c = c.map(|c| device.upload(c)).transpose()?;
    let mut d = device.alloc(problem.bytes('D') as usize)?;
    plan.run(&a, &b, c.as_ref().map(host::View::from), &mut d, alpha, beta)?;
    d.to_vec()
}

/// Computes a product with scales of tensors of the host, and writes `out`.
///
/// # Safety
/// The tensors were checked: all strides are positive, and the elements of each lie in its memory, which the caller holds.
/// `out` is writable and apart from the operands.
pub unsafe fn run_scaled(
    py: Python<'_>,
    size: Size,
    [a, b]: [&View; 2],
    scales: [&View; 2],
    out: &View,
) -> PyResult<()> {
    let block = size.scaling == Some(Scaling::Block);
    let order = if block { Order::Columns } else { Order::Rows };
    // SAFETY: the caller's contract.
    let (a, b, mut scales) = unsafe {
        let scales = scales.map(|scale| gather(scale, order));
        (gather(a, Order::Rows), gather(b, Order::Columns), scales)
    };
    if block {
        // [K/128, M] without gaps: its rows are padded to a multiple of 4 values.
        let (row, pitch) = (4 * size.m as usize, 4 * size.m.next_multiple_of(4) as usize);
        let padded = |row: &[u8]| [row, &vec![0; pitch - row.len()][..]].concat();
        scales[0] = scales[0].chunks(row.max(1)).flat_map(padded).collect();
    }
    let multiply = |model: &Model| {
        let (problem, device) = (problem(&size), &model.device);
        let image = &warpipe::GEMM_IMAGE;
        let (a, b) = (device.upload(&a)?, device.upload(&b)?);
        let [scale_a, scale_b] = &scales;
        let (scale_a, scale_b) = (device.upload(scale_a)?, device.upload(scale_b)?);
        let mut d = device.alloc(problem.bytes('D') as usize)?;
        if block {
            let gemm = Gemm::block_scaled(device, image)?;
            let plan = gemm.plan_tuned(&problem, &tuning::cache())?;
            let scales = BlockScales::packed(&problem, &scale_a, &scale_b);
            plan.run_block_scaled(&a, &b, &mut d, scales, 1.0)?;
        } else {
            let fast = size.scaling == Some(Scaling::Fast);
            let gemm = ScaledGemm::scaled(device, image, fast)?;
            let plan = gemm.plan_tuned(&problem, &tuning::cache())?;
            plan.run_scaled(&a, &b, &mut d, OperandScales { a: &scale_a, b: &scale_b }, 1.0)?;
        }
        d.to_vec()
    };
    let d = py.detach(|| on_the_model(multiply)).map_err(|e| raise(&e))?;
    // SAFETY: the caller's contract.
    unsafe { scatter(out, &d) };
    Ok(())
}

/// The activation with this name.
pub fn activation(name: &str) -> EltAct {
    let found = EltAct::NAMES.iter().find(|(known, _)| *known == name);
    found.map_or(EltAct::IDENTITY, |(_, activation)| *activation)
}

/// Computes a layer of tensors of the host, and writes `out`.
///
/// # Safety
/// As of [`run_scaled`].
pub unsafe fn run_layer(py: Python<'_>, product: &Product, tensors: &Tensors) -> PyResult<()> {
    let Some(fusion) = product.fusion else { return Ok(()) };
    // SAFETY: the caller's contract.
    let rows = |view: &View| unsafe { gather(view, Order::Rows) };
    let (a, b) = (rows(&tensors.x), rows(&tensors.weight));
    let (bias, c) = (tensors.bias.as_ref().map(rows), tensors.residual.as_ref().map(rows));
    let operands = [Some(a), Some(b), bias, c];
    let (size, activation) = (product.size, activation(fusion.activation));
    let compute = |model: &Model| match size.ab {
        Element::F16 => layer::<f16>(&model.device, &size, &operands, activation),
        _ => layer::<bf16>(&model.device, &size, &operands, activation),
    };
    let d = py.detach(|| on_the_model(compute)).map_err(|e| raise(&e))?;
    // SAFETY: the caller's contract.
    unsafe { scatter(&tensors.out, &d) };
    Ok(())
}

fn layer<T: FusedElement>(
    device: &Device,
    size: &Size,
    operands: &[Option<Vec<u8>>; 4],
    activation: EltAct,
) -> Result<Vec<u8>, Error> {
    let problem = problem(size);
    let memory = |i: usize| operands[i].as_ref().map(|bytes| device.upload(bytes)).transpose();
    let [a, b, bias, c] = [memory(0)?, memory(1)?, memory(2)?, memory(3)?];
    let (Some(a), Some(b)) = (a, b) else { return Ok(Vec::new()) };
    let c = c.as_ref().map(host::View::from);
    let fusion = Fusion { bias: bias.as_ref(), activation, residual: 1.0, ..Fusion::default() };
    let bytes = problem.bytes('D') as usize;
    if size.layer == Some(LayerKind::Gated) {
        let gemm = GatedGemm::<T>::gated(device, &warpipe::GEMM_IMAGE)?;
        let plan = gemm.plan_tuned(&problem, &tuning::cache())?;
        let mut d = device.alloc(bytes / 2)?;
        plan.run_fused(&a, &b, c, &mut d, fusion)?;
        return d.to_vec();
    }
    let gemm = FusedGemm::<T>::fused(device, &warpipe::GEMM_IMAGE)?;
    let plan = gemm.plan_tuned(&problem, &tuning::cache())?;
    let mut d = device.alloc(bytes)?;
    plan.run_fused(&a, &b, c, &mut d, fusion)?;
    d.to_vec()
}

/// Visits the byte offsets of all elements, row by row.
fn offsets(view: &View, order: Order, mut visit: impl FnMut(isize)) {
    let mut dims: Vec<(i64, i64)> = view
        .shape
        .as_slice()
        .iter()
        .copied()
        .zip(view.strides.as_slice().iter().copied())
        .collect();
    if order == Order::Columns {
        let last = dims.len() - 1;
        dims.swap(last - 1, last);
    }
    let size = view.element.size() as i64;
    let count: i64 = dims.iter().map(|(n, _)| n).product();
    for mut index in 0..count {
        let mut at = 0;
        for (n, stride) in dims.iter().rev() {
            at += index % n * stride;
            index /= n;
        }
        visit((at * size) as isize);
    }
}

/// The elements of a tensor of the host, row by row without gaps.
///
/// # Safety
/// The tensor's memory is readable, and nothing writes it meanwhile.
pub unsafe fn gather(view: &View, order: Order) -> Vec<u8> {
    let size = view.element.size() as usize;
    let mut bytes = Vec::new();
    let base = view.addr as *const u8;
    offsets(view, order, |at| {
        // SAFETY: the caller's contract; `at` is the offset of one of the tensor's elements.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(base.offset(at), size) });
    });
    bytes
}

/// Writes the elements of a tensor of the host.
///
/// # Safety
/// The tensor's memory is writable, and nothing else uses it meanwhile.
pub unsafe fn scatter(view: &View, bytes: &[u8]) {
    let size = view.element.size() as usize;
    let base = view.addr as *mut u8;
    let mut elements = bytes.chunks_exact(size);
    offsets(view, Order::Rows, |at| {
        if let Some(element) = elements.next() {
            // SAFETY: the caller's contract; `at` is the offset of one of the tensor's elements.
            unsafe { base.offset(at).copy_from_nonoverlapping(element.as_ptr(), size) };
        }
    });
}
