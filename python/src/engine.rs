//! Products on a GPU: plans and bound products, kept for the next call of the same kind.
//!
//! Invariant: work on one stream, in one capture, has workspaces of its own, so products that run at the same time
//! share none. A plan without workspaces serves all streams. No call of Python happens while the lock is held:
//! another thread may hold the GIL and wait for the lock.

use crate::kept::PLANS;
use crate::layout::Element;
use crate::layout::{Layout, Matrix};
use crate::model::{activation, problem};
use crate::product::{LayerKind, Product, Scales, Scaling, Size};
use crate::python::{Error, raise};
use crate::tuning;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use warpipe::gpu_kernels::gemm::fused::FusedElement;
use warpipe::gpu_kernels::gemm::fusion::{LinCombPerColBiasEltAct, LinCombPerColBiasGated};
use warpipe::gpu_kernels::gemm::{Epilogue, Linear, Scaled};
use warpipe::half::{bf16, f16};
use warpipe::host::gemm::{
    BlockScales, BoundGemm, FusedGemm, Fusion, GatedGemm, Gemm, GemmPlan, GemmProblem,
    OperandScales, PlanInfo, ScaledGemm,
};
use warpipe::host::{self, Buffer, Device, Stream, View, ViewMut};

/// TMA takes row pitches that are multiples of this many bytes.
const UNIT: u64 = 16;
/// Most sets of operands of a plan whose tensor maps are kept.
const BOUND: usize = 1024;

/// Allocates zeroed memory of a device: its address, and what keeps it.
pub type Zeros<'a> = &'a mut dyn FnMut(usize) -> PyResult<(u64, Py<PyAny>)>;

/// How long a captured product keeps its workspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workspace {
    /// Until the capture ends: later products of the same capture share it.
    Capture,
    /// Until the product is queued. torch.compile's CUDA graphs require that nothing else holds memory of their
    /// pool.
    Call,
}

/// A device with its kernels.
struct Gpu {
    device: Device,
    gemm: Arc<Gemm>,
    /// Products with scales: promoted sums, and fast accumulation. Loaded at their first use.
    scaled: [Option<Arc<ScaledGemm>>; 2],
    /// Products with block scales. Loaded at their first use.
    block_scaled: Option<Arc<Gemm>>,
    /// Layers, by their kind and their type. Loaded at their first use.
    layers: HashMap<(LayerKind, Element), Arc<dyn LayerKernels>>,
    plans: HashMap<Key, Entry>,
    /// Calls so far.
    clock: u64,
}

/// What a plan is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    size: Size,
    /// Whether a view needs a staging copy that a packed operand would not need.
    odd: bool,
    /// The stream and the capture, for plans with workspaces or staging copies.
    owner: Option<(u64, Option<u64>)>,
}

/// The kernels of a product.
enum Kernels {
    Plain(Arc<Gemm>),
    Scaled(Arc<ScaledGemm>),
    BlockScaled(Arc<Gemm>),
    Layer(Arc<dyn LayerKernels>),
}

/// Kernels of layers: of one kind, for one type.
trait LayerKernels: Send + Sync {
    fn plan_in(
        &self,
        problem: &GemmProblem,
        alloc: &mut dyn FnMut(usize) -> Result<Buffer, host::Error>,
    ) -> Result<Box<dyn LayerPlan>, host::Error>;
}

/// A plan of such a kernel.
trait LayerPlan: Send {
    fn run(
        &mut self,
        device: &Device,
        operands: &Operands,
        fusion: Fusion<'_>,
        stream: &Stream,
    ) -> Result<(), host::Error>;
}

macro_rules! layer_kernels {
    ($kernels:ident, $epilogue:ident) => {
        impl<T: FusedElement> LayerKernels for $kernels<T> {
            fn plan_in(
                &self,
                problem: &GemmProblem,
                alloc: &mut dyn FnMut(usize) -> Result<Buffer, host::Error>,
            ) -> Result<Box<dyn LayerPlan>, host::Error> {
                let plan = self.plan_tuned_in(problem, &tuning::cache(), alloc)?;
                Ok(Box::new(Planned::new(plan)))
            }
        }

        impl<T: FusedElement> LayerPlan for Planned<$epilogue<'static, T>> {
            fn run(
                &mut self,
                device: &Device,
                operands: &Operands,
                fusion: Fusion<'_>,
                stream: &Stream,
            ) -> Result<(), host::Error> {
                self.bound(device, operands)?.run_fused(fusion, stream)
            }
        }
    };
}
layer_kernels!(FusedGemm, LinCombPerColBiasEltAct);
layer_kernels!(GatedGemm, LinCombPerColBiasGated);

impl Gpu {
    fn kernels(&mut self, size: &Size) -> Result<Kernels, host::Error> {
        let image = &warpipe::GEMM_IMAGE;
        if let Some(kind) = size.layer {
            let free = match self.layers.entry((kind, size.ab)) {
                Slot::Occupied(loaded) => return Ok(Kernels::Layer(Arc::clone(loaded.get()))),
                Slot::Vacant(free) => free,
            };
            let device = &self.device;
            let loaded: Arc<dyn LayerKernels> = match (kind, size.ab) {
                (LayerKind::Fused, Element::F16) => {
                    Arc::new(FusedGemm::<f16>::fused(device, image)?)
                }
                (LayerKind::Fused, _) => Arc::new(FusedGemm::<bf16>::fused(device, image)?),
                (LayerKind::Gated, Element::F16) => {
                    Arc::new(GatedGemm::<f16>::gated(device, image)?)
                }
                (LayerKind::Gated, _) => Arc::new(GatedGemm::<bf16>::gated(device, image)?),
            };
            return Ok(Kernels::Layer(Arc::clone(free.insert(loaded))));
        }
        let fast = match size.scaling {
            None => return Ok(Kernels::Plain(Arc::clone(&self.gemm))),
            Some(Scaling::Block) => {
                let gemm = match &self.block_scaled {
                    Some(loaded) => loaded,
                    None => {
                        self.block_scaled.insert(Arc::new(Gemm::block_scaled(&self.device, image)?))
                    }
                };
                return Ok(Kernels::BlockScaled(Arc::clone(gemm)));
            }
            Some(how) => how == Scaling::Fast,
        };
        let place = &mut self.scaled[usize::from(fast)];
        let loaded = if let Some(loaded) = place {
            loaded
        } else {
            let gemm = ScaledGemm::scaled(&self.device, image, fast)?;
            place.insert(Arc::new(gemm))
        };
        Ok(Kernels::Scaled(Arc::clone(loaded)))
    }
}

/// A plan and its bound products.
struct Planned<E: 'static> {
    /// Dropped before the plan, to which they point.
    bound: HashMap<[(u64, u64); 4], BoundGemm<'static, E>>,
    plan: Box<GemmPlan<E>>,
}

/// What an entry plans.
enum Work {
    Plain(Planned<Linear>),
    Scaled(Planned<Scaled<'static>>),
    BlockScaled(Planned<Linear>),
    Layer(Box<dyn LayerPlan>),
}

/// A plan with the memory that it needs.
struct Entry {
    work: Work,
    /// Memory of the workspaces.
    _keep: Vec<Py<PyAny>>,
    used: u64,
}

type Gpus = HashMap<i32, Gpu>;

fn gpus() -> MutexGuard<'static, Option<Gpus>> {
    static GPUS: Mutex<Option<Gpus>> = Mutex::new(None);
    GPUS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device of an ordinal, which is opened at its first use.
fn gpu(gpus: &mut Option<Gpus>, ordinal: i32) -> Result<&mut Gpu, host::Error> {
    match gpus.get_or_insert_default().entry(ordinal) {
        Slot::Occupied(gpu) => Ok(gpu.into_mut()),
        Slot::Vacant(free) => {
            let device = Device::cuda(ordinal as usize)?;
            let gemm = Arc::new(Gemm::new(&device, &warpipe::GEMM_IMAGE)?);
            let (scaled, layers, plans) = ([None, None], HashMap::new(), HashMap::new());
            Ok(free.insert(Gpu {
                device,
                gemm,
                scaled,
                block_scaled: None,
                layers,
                plans,
                clock: 0,
            }))
        }
    }
}

/// The device of an ordinal.
pub fn device(ordinal: i32) -> PyResult<Device> {
    let mut gpus = gpus();
    Ok(gpu(&mut gpus, ordinal).map_err(|e| raise(&e))?.device.clone())
}

/// The plan of a product.
pub fn describe(device: i32, problem: &GemmProblem) -> PyResult<PlanInfo> {
    let mut gpus = gpus();
    let gpu = gpu(&mut gpus, device).map_err(|e| raise(&e))?;
    let plan = gpu.gemm.plan_tuned(problem, &tuning::cache()).map_err(|e| raise(&e))?;
    Ok(plan.describe().clone())
}

/// The kernels of products without scales on a device.
pub fn gemm(device: i32) -> PyResult<Arc<Gemm>> {
    let mut gpus = gpus();
    Ok(Arc::clone(&gpu(&mut gpus, device).map_err(|e| raise(&e))?.gemm))
}

/// Drops the plans, so that the next call of each product plans it again. Those of captures stay.
pub fn forget() {
    let mut dropped = Vec::new();
    if let Some(gpus) = &mut *gpus() {
        for gpu in gpus.values_mut() {
            let captured = |key: &Key| matches!(key.owner, Some((_, Some(_))));
            dropped.extend(gpu.plans.extract_if(|key, _| !captured(key)));
        }
    }
    // Python's objects are released without the lock.
    drop(dropped);
}

/// The matrices of a product without copies.
#[derive(Clone, Copy)]
struct Operands {
    a: Matrix,
    b: Matrix,
    c: Option<Matrix>,
    d: Matrix,
}

impl Operands {
    fn of(product: &Product) -> Option<Self> {
        let rows = |layout| match layout {
            Layout::Rows(matrix) => Some(matrix),
            Layout::Copy => None,
        };
        let c = match product.c {
            Some(c) => Some(rows(c)?),
            None => None,
        };
        Some(Self { a: rows(product.a)?, b: rows(product.b)?, c, d: product.out? })
    }

    /// Whether TMA takes packed rows of this length, and not these rows.
    fn odd(&self) -> Option<Matrix> {
        let odd = |m: &Matrix| {
            m.rows > 1 && m.row_bytes.is_multiple_of(UNIT) && !m.pitch.is_multiple_of(UNIT)
        };
        self.all().find(odd)
    }

    fn all(&self) -> impl Iterator<Item = Matrix> {
        [Some(self.a), Some(self.b), self.c, Some(self.d)].into_iter().flatten()
    }

    fn key(&self) -> [(u64, u64); 4] {
        let of = |m: Matrix| (m.addr, m.pitch);
        [of(self.a), of(self.b), self.c.map_or((0, 0), of), of(self.d)]
    }
}

/// Queues the product of a checked call on a stream.
///
/// The first call of a kind plans it and loads its kernel. Workspaces are the driver's memory; in a capture, which
/// forbids that, they come from `zeros`, and are the graph's. `Workspace::Call` gives those back after the call.
pub fn run(
    product: &Product,
    device: i32,
    stream: u64,
    alpha: f32,
    zeros: Option<Zeros<'_>>,
    workspace: Workspace,
) -> PyResult<()> {
    let Some(operands) = Operands::of(product) else {
        return Err(Error::new_err("an operand needs a copy, which was not made"));
    };
    let mut gpus = gpus();
    let found = gpu(&mut gpus, device).map_err(|e| raise(&e))?;
    // SAFETY: the caller's library works on this stream at this moment. It is used during this call, and by plans
    // that share workspaces only as a name to compare with.
    let handle = unsafe { Stream::from_raw(&found.device, stream as *mut c_void) };
    let handle = handle.map_err(|e| raise(&e))?;
    let odd = operands.odd();
    let shared = Key { size: product.size, odd: false, owner: None };
    if odd.is_none()
        && let Some(entry) = found.plans.get_mut(&shared)
    {
        found.clock += 1;
        entry.used = found.clock;
        return entry.run(&found.device, &operands, product, alpha, &handle).map_err(|e| raise(&e));
    }
    let capture = handle.capture_id().map_err(|e| raise(&e))?;
    if let (Some(m), Some(_)) = (odd, capture) {
        return Err(Error::new_err(format!(
            "rows {} bytes apart need a copy, because TMA takes multiples of 16; a CUDA graph can't capture its \
             allocation: pass a contiguous tensor",
            m.pitch
        )));
    }
    let own = Key { odd: odd.is_some(), owner: Some((stream, capture)), ..shared };
    if !found.plans.contains_key(&own) {
        let opened = found.device.clone();
        drop(gpus);
        let zeros = zeros.filter(|_| capture.is_some());
        let (key, mut entry) = plan(device, [shared, own], zeros)?;
        if capture.is_some() && key == own && workspace == Workspace::Call {
            let run = entry.run(&opened, &operands, product, alpha, &handle);
            return run.map_err(|e| raise(&e));
        }
        keep(device, key, own, entry)?;
        gpus = self::gpus();
    }
    let found = gpu(&mut gpus, device).map_err(|e| raise(&e))?;
    found.clock += 1;
    let key = if found.plans.contains_key(&own) { own } else { shared };
    let Some(entry) = found.plans.get_mut(&key) else {
        return Err(Error::new_err("the plan was dropped by another thread; call again"));
    };
    entry.used = found.clock;
    entry.run(&found.device, &operands, product, alpha, &handle).map_err(|e| raise(&e))
}

/// Plans a product. The first key is that of a plan without workspaces and staging copies, the second that of
/// another.
fn plan(
    ordinal: i32,
    [shared, own]: [Key; 2],
    mut zeros: Option<Zeros<'_>>,
) -> PyResult<(Key, Entry)> {
    let (device, kernels) = {
        let mut gpus = gpus();
        let gpu = gpu(&mut gpus, ordinal).map_err(|e| raise(&e))?;
        (gpu.device.clone(), gpu.kernels(&shared.size).map_err(|e| raise(&e))?)
    };
    let (mut keep, mut failed, mut bytes_in_all) = (Vec::new(), None, 0);
    let mut alloc = |bytes| {
        bytes_in_all += bytes;
        match &mut zeros {
            _ if bytes == 0 => device.alloc(0),
            Some(zeros) => match zeros(bytes) {
                Ok((addr, owner)) => {
                    keep.push(owner);
                    // SAFETY: the entry keeps the owner as long as the plan. Its library frees memory in the
                    // order of the stream that uses the plan.
                    unsafe { Buffer::from_raw(&device, addr, bytes) }
                }
                Err(e) => {
                    failed = Some(e);
                    Err(host::Error::OutOfMemory { bytes: bytes as u64, free: 0, total: 0 })
                }
            },
            None => device.alloc_zeroed(bytes),
        }
    };
    let (problem, cache) = (problem(&shared.size), tuning::cache());
    let made = match kernels {
        Kernels::Plain(gemm) => {
            let plan = gemm.plan_tuned_in(&problem, &cache, alloc);
            plan.map(|p| Work::Plain(Planned::new(p)))
        }
        Kernels::Scaled(gemm) => {
            let plan = gemm.plan_tuned_in(&problem, &cache, alloc);
            plan.map(|p| Work::Scaled(Planned::new(p)))
        }
        Kernels::BlockScaled(gemm) => {
            let plan = gemm.plan_tuned_in(&problem, &cache, alloc);
            plan.map(|p| Work::BlockScaled(Planned::new(p)))
        }
        Kernels::Layer(kernels) => kernels.plan_in(&problem, &mut alloc).map(Work::Layer),
    };
    if let Some(e) = failed {
        return Err(e);
    }
    let work = made.map_err(|e| raise(&e))?;
    let key = if own.odd || bytes_in_all > 0 { own } else { shared };
    Ok((key, Entry { work, _keep: keep, used: 0 }))
}

/// Keeps a plan for later calls. `own` is the key of the call.
fn keep(ordinal: i32, key: Key, own: Key, mut entry: Entry) -> PyResult<()> {
    let mut dropped = Vec::new();
    {
        let mut gpus = gpus();
        let gpu = gpu(&mut gpus, ordinal).map_err(|e| raise(&e))?;
        gpu.clock += 1;
        // A capture that has ended keeps its workspaces alive in the graph's own memory pool.
        let current = own.owner.and_then(|(_, capture)| capture);
        let over = |k: &Key| matches!(k.owner, Some((_, Some(id))) if Some(id) != current);
        let ended: Vec<Key> = gpu.plans.keys().filter(|k| over(k)).copied().collect();
        dropped.extend(ended.iter().filter_map(|k| gpu.plans.remove(k)));
        // To drop a plan may free memory, which a capture forbids.
        if current.is_none() && gpu.plans.len() >= PLANS {
            let oldest = gpu.plans.iter().min_by_key(|(_, entry)| entry.used).map(|(k, _)| *k);
            dropped.extend(oldest.and_then(|k| gpu.plans.remove(&k)));
        }
        entry.used = gpu.clock;
        // Another thread may have planned it meanwhile: its plan stays, because work may be queued with it.
        if let Slot::Vacant(free) = gpu.plans.entry(key) {
            free.insert(entry);
        } else {
            dropped.push(entry);
        }
    }
    // Python's objects are released without the lock.
    drop(dropped);
    Ok(())
}

impl Entry {
    fn run(
        &mut self,
        device: &Device,
        operands: &Operands,
        product: &Product,
        alpha: f32,
        stream: &Stream,
    ) -> Result<(), host::Error> {
        match &mut self.work {
            Work::Plain(planned) => {
                planned.bound(device, operands)?.run(alpha, product.beta, stream)
            }
            Work::Layer(planned) => {
                let Some(fusion) = product.fusion else {
                    unreachable!("the key of a plan of a layer has no other products")
                };
                let bytes = product.size.n as usize * 2;
                // SAFETY: the caller holds the bias during this call, and its library frees it in the order of the
                // stream.
                let bias = fusion.bias.map(|addr| unsafe { Buffer::from_raw(device, addr, bytes) });
                let (bias, activation) = (bias.transpose()?, activation(fusion.activation));
                let (bias, residual) = (bias.as_ref(), product.beta);
                let fusion = Fusion { bias, activation, residual, ..Fusion::default() };
                planned.run(device, operands, fusion, stream)
            }
            Work::Scaled(planned) => {
                let bound = planned.bound(device, operands)?;
                let ([a, b], _) = scales(device, product)?;
                bound.run_scaled(OperandScales { a: &a, b: &b }, alpha, stream)
            }
            Work::BlockScaled(planned) => {
                let bound = planned.bound(device, operands)?;
                let ([a, b], [a_pitch, b_pitch]) = scales(device, product)?;
                let scales = BlockScales { a: &a, a_pitch, b: &b, b_pitch };
                bound.run_block_scaled(scales, Linear { alpha, beta: 0.0 }, stream)
            }
        }
    }
}

/// The scales of a product as buffers, and their pitches.
fn scales(device: &Device, product: &Product) -> Result<([Buffer; 2], [u64; 2]), host::Error> {
    let Some(Scales { a, b, pitches }) = product.scales else {
        unreachable!("the key of a plan with scales has no other products")
    };
    // SAFETY: the caller holds the scales during its call, and their library frees them in the order of the stream.
    let buffer =
        |(addr, values): (u64, u64)| unsafe { Buffer::from_raw(device, addr, 4 * values as usize) };
    Ok(([buffer(a)?, buffer(b)?], pitches))
}

impl<E: Epilogue> Planned<E> {
    fn new(plan: GemmPlan<E>) -> Self {
        Self { bound: HashMap::new(), plan: Box::new(plan) }
    }

    /// The plan with these operands.
    fn bound(
        &mut self,
        device: &Device,
        operands: &Operands,
    ) -> Result<&BoundGemm<'static, E>, host::Error> {
        if self.bound.len() >= BOUND && !self.bound.contains_key(&operands.key()) {
            self.bound.clear();
        }
        let free = match self.bound.entry(operands.key()) {
            Slot::Occupied(bound) => return Ok(bound.into_mut()),
            Slot::Vacant(free) => free,
        };
        let buffer = |m: &Matrix| {
            // SAFETY: the caller holds the tensor during this call. A bound product that is kept longer holds
            // addresses only, and runs again when a tensor of the same address, size and pitch is passed.
            unsafe { Buffer::from_raw(device, m.addr, m.span() as usize) }
        };
        let view = |m: &Matrix| Ok::<_, host::Error>(View::new(&buffer(m)?).pitch(m.pitch));
        let (a, b) = (view(&operands.a)?, view(&operands.b)?);
        let c = operands.c.as_ref().map(view).transpose()?;
        let d = ViewMut::new(&mut buffer(&operands.d)?).pitch(operands.d.pitch);
        // SAFETY: the plan is in a box of its own, which this value drops after the bound products.
        let plan: &'static GemmPlan<E> = unsafe { &*std::ptr::from_ref(&*self.plan) };
        Ok(free.insert(plan.bind(a, b, c, d)?))
    }
}
