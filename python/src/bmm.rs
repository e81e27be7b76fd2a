//! Batches of products, and products of transposed tensors.

use crate::batch::{Batch, Products, check};
use crate::engine;
use crate::interchange::Imports;
use crate::kept::Kept;
use crate::layout::{Order as Dimensions, Place, View};
use crate::model::{dtype, gather, on_the_model, scatter};
use crate::python::{Error, raise, refuse};
use crate::refusal::Refusal;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use warpipe::host::gemm::{
    Gemm, Layout, Major, Order, Strided, StridedGemm, StridedMut, StridedPlan, StridedProblem,
};
use warpipe::host::{self, Buffer, Device, Stream};

/// The host crate's description of a batch of products.
fn problem(products: &Products) -> StridedProblem {
    let Products { sizes: [batch, m, n, k], element, tensors: [a, b, out], c, .. } = *products;
    let major = |k_major| if k_major { Major::K } else { Major::Mn };
    // The rows of `a` are lines along K, and so are the columns of `b`.
    let layout = Layout { a: major(!a.by_columns), b: major(b.by_columns) };
    let order = if out.by_columns { Order::ColumnMajor } else { Order::RowMajor };
    let (dtype, beta_c) = (dtype(element), c.is_some());
    StridedProblem { batch, m, n, k, dtype, layout, order, beta_c }
}

/// out = alpha * a @ b + beta * c, matrix by matrix, in the layouts in which the tensors lie.
///
/// `a` is [batch, M, K] or [M, K], `b` [batch, K, N] or [K, N], and `c` and `out` are [batch, M, N] or [M, N]. `stream` is a `CUstream`;
/// tensors of the host go to the SM model.
#[pyfunction]
pub fn bmm(
    py: Python<'_>,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    c: Option<&Bound<'_, PyAny>>,
    factors: [f32; 2],
    out: &Bound<'_, PyAny>,
    stream: i64,
) -> PyResult<()> {
    let mut tensors = Imports::new(py, stream);
    let (a, b) = (&tensors.view("a", a)?, &tensors.view("b", b)?);
    let c = c.map(|c| tensors.view("c", c)).transpose()?;
    let out = &tensors.view("out", out)?;
    let products = check(a, b, c.as_ref(), out).map_err(|e| refuse(&e))?;
    match products.place {
        // SAFETY: the tensors were checked, and the caller holds them.
        Place::Host => unsafe {
            on_host(py, &products, [Some(a), Some(b), c.as_ref()], factors, out)
        },
        Place::Cuda(device) => on_gpu(&products, factors, device, stream as u64),
        Place::Other(_) => Err(refuse(&Refusal::Device { name: "a", place: products.place })),
    }
}

/// Computes products of tensors of the host on the model, in the same layouts.
///
/// # Safety
/// The tensors were checked: all strides are positive, and the elements of each lie in its memory, which the caller holds.
/// `out` is writable and apart from the operands.
unsafe fn on_host(
    py: Python<'_>,
    products: &Products,
    operands: [Option<&View>; 3],
    [alpha, beta]: [f32; 2],
    out: &View,
) -> PyResult<()> {
    let (problem, size) = (problem(products), products.element.size());
    let dimensions =
        |batch: &Batch| if batch.by_columns { Dimensions::Columns } else { Dimensions::Rows };
    let [of_a, of_b, of_out] = products.tensors;
    let of = [Some(of_a), Some(of_b), products.c];
    // SAFETY: the caller's contract.
    let read = |view: &View, batch: &Batch| unsafe { gather(view, dimensions(batch)) };
    let values: Vec<(Vec<u8>, Batch)> = operands
        .into_iter()
        .zip(of)
        .filter_map(|(view, batch)| Some((read(view?, &batch?), batch?)))
        .collect();
    let multiply = |device: &Device| {
        let plan = Gemm::strided(device, &warpipe::GEMM_IMAGE)?.plan(&problem)?;
        let upload = |(bytes, batch): &(Vec<u8>, Batch)| {
            let matrices = Strided::from(&device.upload(bytes)?);
            // A matrix for each product, or one for all.
            let one = bytes.len() as u64 == batch.lines[0] * batch.lines[1] * size;
            Ok::<_, host::Error>(if one { matrices.broadcast() } else { matrices })
        };
        let mut operands = values.iter().map(upload).collect::<Result<Vec<_>, _>>()?.into_iter();
        let mut d = device.alloc(problem.bytes('D') as usize)?;
        if let (Some(a), Some(b), c) = (operands.next(), operands.next(), operands.next()) {
            plan.run(a, b, c, &mut d, alpha, beta)?;
        }
        d.to_vec()
    };
    let d = py.detach(|| on_the_model(|model| multiply(&model.device))).map_err(|e| raise(&e))?;
    let turned = of_out.by_columns;
    let d = if turned { transposed(&d, of_out.lines, size as usize) } else { d };
    // SAFETY: the caller's contract.
    unsafe { scatter(out, &d) };
    Ok(())
}

/// Matrices of so many lines and elements, with lines and elements exchanged.
fn transposed(bytes: &[u8], [lines, elements]: [u64; 2], size: usize) -> Vec<u8> {
    let (lines, elements) = (lines as usize, elements as usize);
    let mut turned = Vec::with_capacity(bytes.len());
    for matrix in bytes.chunks_exact((lines * elements * size).max(1)) {
        for element in 0..elements {
            for line in 0..lines {
                turned.extend_from_slice(&matrix[(line * elements + element) * size..][..size]);
            }
        }
    }
    turned
}

/// The kernels of a device, and its plans. A plan that uses memory of its own, for split tiles or for copies, is for one stream, so
/// that products that run at the same time share none. The others, without a stream here, are for all.
struct Gpu {
    gemm: StridedGemm,
    plans: Kept<(StridedProblem, Option<u64>), StridedPlan>,
}

/// Whether each run may copy a tensor: TMA takes addresses, pitches, strides and lines of the result that are multiples of 16
/// bytes.
fn copies(products: &Products) -> bool {
    let [a, b, out] = &products.tensors;
    let apart = |batch: &Batch| [batch.addr, batch.pitch, batch.stride];
    let all = [Some(a), Some(b), products.c.as_ref(), Some(out)];
    let line = out.lines[1] * products.element.size();
    let numbers = all.into_iter().flatten().flat_map(apart).chain([line]);
    numbers.into_iter().any(|bytes| !bytes.is_multiple_of(16))
}

/// The plan of products for a stream.
fn plan(
    device: &Device,
    ordinal: i32,
    products: &Products,
    stream: &Stream,
) -> PyResult<Arc<StridedPlan>> {
    static GPUS: Mutex<Option<HashMap<i32, Gpu>>> = Mutex::new(None);
    let (problem, copies) = (problem(products), copies(products));
    let keys = [(problem, None), (problem, Some(stream.raw() as u64))];
    let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
    let gpus = gpus.get_or_insert_default();
    let captured = stream.capture_id().map_err(|e| raise(&e))?.is_some();
    let mut known = keys.iter().skip(usize::from(copies));
    let kept =
        gpus.get_mut(&ordinal).and_then(|gpu| known.find_map(|key| gpu.plans.get(key, captured)));
    if let Some(plan) = kept {
        return Ok(plan);
    }
    // A plan allocates its memory, and the first one loads the kernels; a capture forbids both.
    if captured {
        return Err(Error::new_err(
            "bmm is captured before a first call: call it once with these sizes and layouts on this stream, and then capture it",
        ));
    }
    let gpu = match gpus.entry(ordinal) {
        std::collections::hash_map::Entry::Occupied(gpu) => gpu.into_mut(),
        std::collections::hash_map::Entry::Vacant(free) => {
            let gemm = Gemm::strided(device, &warpipe::GEMM_IMAGE).map_err(|e| raise(&e))?;
            free.insert(Gpu { gemm, plans: Kept::default() })
        }
    };
    let plan = gpu.gemm.plan(&problem).map_err(|e| raise(&e))?;
    let own = copies || plan.workspace_bytes() > 0;
    Ok(gpu.plans.insert(keys[usize::from(own)], plan, false))
}

/// Queues products on a stream of the GPU.
fn on_gpu(products: &Products, factors: [f32; 2], ordinal: i32, stream: u64) -> PyResult<()> {
    let device = engine::device(ordinal)?;
    // SAFETY: the caller's library works on this stream at this moment. It is used during this call, and by plans that
    // have a workspace only as a name to compare with.
    let stream = unsafe { Stream::from_raw(&device, stream as *mut c_void) };
    let stream = stream.map_err(|e| raise(&e))?;
    let plan = plan(&device, ordinal, products, &stream)?;
    run(&plan, &device, products, factors, &stream).map_err(|e| raise(&e))
}

fn run(
    plan: &StridedPlan,
    device: &Device,
    products: &Products,
    [alpha, beta]: [f32; 2],
    stream: &Stream,
) -> Result<(), host::Error> {
    let [a, b, out] = &products.tensors;
    // SAFETY: the caller holds the tensors during this call, and its library frees them in the order of the stream.
    let buffer =
        |batch: &Batch| unsafe { Buffer::from_raw(device, batch.addr, batch.bytes as usize) };
    let view = |batch: &Batch| {
        let view = host::View::new(&buffer(batch)?).pitch(batch.pitch);
        Ok::<_, host::Error>(Strided::from(view).batch_stride(batch.stride))
    };
    let d = host::ViewMut::new(&mut buffer(out)?).pitch(out.pitch);
    let d = StridedMut::from(d).batch_stride(out.stride);
    let c = products.c.as_ref().map(view).transpose()?;
    plan.bind(view(a)?, view(b)?, c, d)?.run(alpha, beta, stream)
}
