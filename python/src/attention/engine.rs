//! Attention on a GPU: plans and bound plans, kept for the next call of the same kind.
//!
//! Invariant: a plan that a capture has used is never dropped, because the graph's kernels read its work lists. No
//! call of Python happens while the lock is held: another thread may hold the GIL and wait for the lock.

use super::{Attended, Size, Strides};
use crate::engine;
use crate::model::dtype;
use crate::python::raise;
use pyo3::PyResult;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};
use warpipe::host::attention::Strides as HostStrides;
use warpipe::host::attention::{
    Attention, AttentionInfo, AttentionPlan, AttentionProblem, BoundAttention, Heads, Mask,
    Operand, Sequences,
};
use warpipe::host::{self, Buffer, Device, Stream, View, ViewMut};

/// Most plans of a device that are kept, beside those of captures.
const PLANS: usize = 256;
/// Most sets of operands of a plan whose tensor maps are kept.
const BOUND: usize = 1024;

/// Addresses of Q, K, V, O and LSE; LSE's is 0 if it is not asked for.
pub type Addresses = [u64; 5];

/// What a plan is for.
type Key = (Size, [Strides; 4]);

/// A device with its kernels.
struct Gpu {
    device: Device,
    attention: Attention,
    plans: HashMap<Key, Entry>,
    /// Calls so far.
    clock: u64,
}

/// A plan with its operands so far.
struct Entry {
    /// Dropped before the plan, to which they point.
    bound: HashMap<Addresses, BoundAttention<'static>>,
    plan: Box<AttentionPlan>,
    used: u64,
    /// Whether a graph may have kernels of this plan.
    captured: bool,
}

type Gpus = HashMap<i32, Gpu>;

fn gpus() -> MutexGuard<'static, Option<Gpus>> {
    static GPUS: Mutex<Option<Gpus>> = Mutex::new(None);
    GPUS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gpu(gpus: &mut Option<Gpus>, ordinal: i32) -> PyResult<&mut Gpu> {
    match gpus.get_or_insert_default().entry(ordinal) {
        Slot::Occupied(gpu) => Ok(gpu.into_mut()),
        Slot::Vacant(free) => {
            let device = engine::device(ordinal)?;
            let made = Attention::new(&device, &warpipe::GEMM_IMAGE).map_err(|e| raise(&e))?;
            Ok(free.insert(Gpu { device, attention: made, plans: HashMap::new(), clock: 0 }))
        }
    }
}

/// The host crate's description of attention.
pub fn problem(size: &Size, strides: &[Strides; 4]) -> AttentionProblem {
    let heads = Heads { q: size.heads_q, kv: size.heads_kv, dim: size.dim };
    let sequences = Sequences::Equal { batch: size.batch, q: size.seq_q, kv: size.seq_kv };
    let [q, k, v, o] = strides.map(|[batch, head, seq]| HostStrides { batch, head, seq });
    let options = &size.options;
    AttentionProblem {
        mask: Mask { left: options.left, right: options.right },
        scale: options.scale(),
        softcap: options.softcap(),
        lse: options.lse,
        q,
        k,
        v,
        o,
        ..AttentionProblem::bshd(dtype(size.element), heads, sequences)
    }
}

/// The plan of a call.
pub fn describe(device: i32, call: &Attended) -> PyResult<AttentionInfo> {
    let mut gpus = gpus();
    let gpu = gpu(&mut gpus, device)?;
    let plan = gpu.attention.plan(&problem(&call.size, &call.strides)).map_err(|e| raise(&e))?;
    Ok(plan.describe().clone())
}

/// Queues attention of a checked call, whose tensors need no copy, on a stream.
///
/// The first call of a kind plans it and loads its kernel, also in a capture.
pub fn run(call: &Attended, at: Addresses, device: i32, stream: u64) -> PyResult<()> {
    if call.is_empty() {
        return Ok(());
    }
    let mut gpus = gpus();
    let found = gpu(&mut gpus, device)?;
    // SAFETY: the caller's library works on this stream at this moment. It is used during this call only.
    let handle = unsafe { Stream::from_raw(&found.device, stream as *mut c_void) };
    found.run(call, at, handle).map_err(|e| raise(&e))
}

impl Gpu {
    fn run(
        &mut self,
        call: &Attended,
        at: Addresses,
        stream: Result<Stream, host::Error>,
    ) -> Result<(), host::Error> {
        let stream = stream?;
        let captured = stream.capture_id()?.is_some();
        let key = (call.size, call.strides);
        if !self.plans.contains_key(&key) {
            let plan = Box::new(self.attention.plan(&problem(&call.size, &call.strides))?);
            if !captured {
                self.drop_oldest();
            }
            self.plans.insert(key, Entry { bound: HashMap::new(), plan, used: 0, captured: false });
        }
        self.clock += 1;
        let (clock, device) = (self.clock, &self.device);
        let Some(entry) = self.plans.get_mut(&key) else { return Ok(()) };
        entry.used = clock;
        entry.captured |= captured;
        entry.run(device, at, &stream)
    }

    /// Makes room for a plan. To drop one frees its work lists, for which the driver waits until its kernels ended.
    fn drop_oldest(&mut self) {
        let free = || self.plans.iter().filter(|(_, entry)| !entry.captured);
        if free().count() < PLANS {
            return;
        }
        if let Some(oldest) = free().min_by_key(|(_, entry)| entry.used).map(|(key, _)| *key) {
            self.plans.remove(&oldest);
        }
    }
}

impl Entry {
    fn run(&mut self, device: &Device, at: Addresses, stream: &Stream) -> Result<(), host::Error> {
        if let Some(bound) = self.bound.get(&at) {
            return bound.run(stream);
        }
        if self.bound.len() >= BOUND {
            self.bound.clear();
        }
        // SAFETY: the plan is in a box of its own, which this entry drops after the bound ones.
        let plan: &'static AttentionPlan = unsafe { &*std::ptr::from_ref(&*self.plan) };
        let operands = [Operand::Q, Operand::K, Operand::V, Operand::O, Operand::Lse];
        let buffer = |i: usize| {
            let bytes = plan.problem().bytes(operands[i])? as usize;
            // SAFETY: the caller holds the tensor during this call. A bound plan that is kept longer holds addresses
            // only, and runs again when tensors of the same addresses and strides are passed.
            unsafe { Buffer::from_raw(device, at[i], bytes) }
        };
        let view = |i: usize| Ok::<_, host::Error>(View::new(&buffer(i)?));
        let o = ViewMut::new(&mut buffer(3)?);
        let lse = if plan.problem().lse { Some(ViewMut::new(&mut buffer(4)?)) } else { None };
        let bound = plan.bind(view(0)?, view(1)?, view(2)?, o, lse)?;
        bound.run(stream)?;
        self.bound.insert(at, bound);
        Ok(())
    }
}
