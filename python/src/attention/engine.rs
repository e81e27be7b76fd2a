//! Attention on a GPU: plans and bound plans, kept for the next call of the same kind.
//!
//! Invariant: a plan that a capture has used is never dropped, because the graph's kernels read its work lists. A plan
//! with a workspace that a capture has used is that capture's own, so its graph may run beside anything else. No call of
//! Python happens while the lock is held: another thread may hold the GIL and wait for the lock.

use super::problem::strided;
use super::{Attended, Form, Sequences, Size, Strides};
use crate::engine;
use crate::kept::PLANS;
use crate::python::raise;
use pyo3::PyResult;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};
use warpipe::host::attention::{
    Attention, AttentionInfo, AttentionPlan, BoundAttention, Operand, Sequences as HostSequences,
};
use warpipe::host::{self, Buffer, Device, Stream, View, ViewMut};

/// Most bytes of these plans' work lists and workspaces.
const BYTES: u64 = 512 << 20;
/// Most sets of operands of a plan whose tensor maps are kept.
const BOUND: usize = 1024;

/// Addresses of Q, K, V, O, LSE and the block table; 0 for one that there is not.
pub type Addresses = [u64; 6];

/// What a plan is for.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    size: Size,
    strides: [Strides; 4],
    /// The starts of packed sequences. Those of a cache can be changed, but not in a capture.
    lengths: Vec<u32>,
    /// The capture, for a plan that is its own.
    capture: Option<u64>,
    /// The `CacheSeqlens` whose lengths a plan of a capture has.
    owner: Option<u64>,
}

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
    /// The lengths that the plan has now.
    lengths: Vec<u32>,
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

/// The plan of a call.
pub fn describe(device: i32, call: &Attended) -> PyResult<AttentionInfo> {
    let mut gpus = gpus();
    let gpu = gpu(&mut gpus, device)?;
    let problem = strided(&call.size, &call.lengths, &call.strides);
    let plan = gpu.attention.plan(&problem).map_err(|e| raise(&e))?;
    Ok(plan.describe().clone())
}

/// The devices with plans of captures that have the lengths of a `CacheSeqlens`.
pub fn devices_of(owner: u64) -> Vec<i32> {
    let gpus = gpus();
    let has = |gpu: &Gpu| gpu.plans.keys().any(|key| key.owner == Some(owner));
    gpus.iter().flatten().filter(|(_, gpu)| has(gpu)).map(|(ordinal, _)| *ordinal).collect()
}

/// Gives the plans of captures with the lengths of a `CacheSeqlens` other ones, in the order of each device's stream.
pub fn set_keys(owner: u64, keys: &[u32], streams: &[(i32, u64)]) -> PyResult<()> {
    let mut gpus = gpus();
    let mut work = Vec::new();
    for (ordinal, gpu) in gpus.iter_mut().flatten() {
        let Some((_, stream)) = streams.iter().find(|(device, _)| device == ordinal) else {
            continue;
        };
        // SAFETY: the caller's library has this stream at this moment. It is used during this call, and by the plans
        // only as a name to compare with.
        let stream = unsafe { Stream::from_raw(&gpu.device, *stream as *mut c_void) };
        let stream = stream.map_err(|e| raise(&e))?;
        let own = gpu.plans.iter_mut().filter(|(key, _)| key.owner == Some(owner));
        work.extend(own.map(|(_, entry)| (entry, stream.clone())));
    }
    // All of them are checked before the first one is changed.
    for (entry, stream) in &work {
        entry.check_keys(keys, stream).map_err(|e| raise(&e))?;
    }
    for (entry, stream) in &mut work {
        entry.set_keys(keys, stream).map_err(|e| raise(&e))?;
    }
    Ok(())
}

/// Queues attention of a checked call, whose tensors need no copy, on a stream.
///
/// The first call of a kind plans it and loads its kernel, also in a capture.
pub fn run(
    call: &Attended,
    sequences: &Sequences,
    at: Addresses,
    device: i32,
    stream: u64,
) -> PyResult<()> {
    if call.is_empty() {
        return Ok(());
    }
    let mut gpus = gpus();
    let found = gpu(&mut gpus, device)?;
    // SAFETY: the caller's library works on this stream at this moment. It is used during this call, and by plans
    // with workspaces only as a name to compare with.
    let handle = unsafe { Stream::from_raw(&found.device, stream as *mut c_void) };
    let owner = sequences.owner();
    found.run(call, owner, at, handle).map_err(|e| raise(&e))
}

impl Gpu {
    fn run(
        &mut self,
        call: &Attended,
        owner: Option<u64>,
        at: Addresses,
        stream: Result<Stream, host::Error>,
    ) -> Result<(), host::Error> {
        let stream = stream?;
        let capture = stream.capture_id()?;
        let key = self.key(call, owner, capture)?;
        self.clock += 1;
        let (clock, device) = (self.clock, &self.device);
        let Some(entry) = self.plans.get_mut(&key) else { return Ok(()) };
        entry.used = clock;
        entry.captured |= capture.is_some();
        if key.lengths.is_empty() && entry.lengths != call.lengths {
            entry.set_keys(&call.lengths, &stream)?;
        }
        entry.run(device, at, &stream)
    }

    /// The key of a call's plan, which is made if there is none.
    fn key(
        &mut self,
        call: &Attended,
        owner: Option<u64>,
        capture: Option<u64>,
    ) -> Result<Key, host::Error> {
        let Attended { size, strides, .. } = *call;
        let lengths = if size.form == Form::Packed { call.lengths.clone() } else { Vec::new() };
        let shared = Key { size, strides, lengths, capture: None, owner: None };
        match (self.plans.get(&shared), capture) {
            (Some(_), None) => return Ok(shared),
            (Some(entry), Some(_)) if entry.plan.describe().workspace_bytes == 0 => {
                return Ok(shared);
            }
            _ => {}
        }
        // Lengths can't be changed in a capture: another list has another plan.
        let lengths = if owner.is_some() { Vec::new() } else { call.lengths.clone() };
        let own = Key { lengths, capture, owner, ..shared.clone() };
        if capture.is_some() && self.plans.contains_key(&own) {
            return Ok(own);
        }
        let problem = strided(&size, &call.lengths, &strides);
        let plan = Box::new(self.attention.plan(&problem)?);
        let info = plan.describe();
        let key = if capture.is_some() && info.workspace_bytes > 0 { own } else { shared };
        if capture.is_none() {
            self.make_room(info.work_bytes + info.workspace_bytes);
        }
        let (bound, lengths) = (HashMap::new(), call.lengths.clone());
        self.plans.insert(key.clone(), Entry { bound, plan, lengths, used: 0, captured: false });
        Ok(key)
    }

    /// Makes room for a plan. To drop one frees its memory, for which the driver waits until its kernels ended.
    fn make_room(&mut self, bytes: u64) {
        loop {
            let free = || self.plans.iter().filter(|(_, entry)| !entry.captured);
            let used: u64 = free().map(|(_, entry)| entry.bytes()).sum();
            if free().count() < PLANS && used + bytes <= BYTES {
                return;
            }
            let oldest = free().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return };
            self.plans.remove(&oldest);
        }
    }
}

impl Entry {
    /// Memory of the plan on the device.
    fn bytes(&self) -> u64 {
        let info = self.plan.describe();
        info.work_bytes + info.workspace_bytes
    }

    /// Whether [`Entry::set_keys`] takes these lengths, and the stream is not in a capture.
    fn check_keys(&self, keys: &[u32], stream: &Stream) -> Result<(), host::Error> {
        let mut problem = self.plan.problem().clone();
        if let HostSequences::Cache { keys: own, .. } | HostSequences::Paged { keys: own, .. } =
            &mut problem.sequences
        {
            *own = keys.to_vec();
        }
        problem.check()?;
        match stream.capture_id()? {
            Some(_) => Err(host::attention::AttentionError::KeysInCapture.into()),
            None => Ok(()),
        }
    }

    /// Gives the sequences of a cache other lengths.
    fn set_keys(&mut self, keys: &[u32], stream: &Stream) -> Result<(), host::Error> {
        self.plan.set_keys(keys, stream)?;
        self.lengths = keys.to_vec();
        Ok(())
    }

    fn run(&mut self, device: &Device, at: Addresses, stream: &Stream) -> Result<(), host::Error> {
        if let Some(bound) = self.bound.get(&at) {
            return bound.run(stream);
        }
        if self.bound.len() >= BOUND {
            self.bound.clear();
        }
        // SAFETY: the plan is in a box of its own, which this entry drops after the bound ones.
        let plan: &'static AttentionPlan = unsafe { &*std::ptr::from_ref(&*self.plan) };
        let buffer = |i: usize, operand| {
            let bytes = plan.problem().bytes(operand)? as usize;
            // SAFETY: the caller holds the tensor during this call. A bound plan that is kept longer holds addresses
            // only, and runs again when tensors of the same addresses and strides are passed.
            unsafe { Buffer::from_raw(device, at[i], bytes) }
        };
        let view = |i: usize, operand| Ok::<_, host::Error>(View::new(&buffer(i, operand)?));
        let (q, k, v) = (view(0, Operand::Q)?, view(1, Operand::K)?, view(2, Operand::V)?);
        let o = ViewMut::new(&mut buffer(3, Operand::O)?);
        let lse = plan.problem().lse.then(|| buffer(4, Operand::Lse)).transpose()?;
        let lse = lse.map(|mut lse| ViewMut::new(&mut lse));
        let bound = match plan.problem().sequences {
            HostSequences::Paged { .. } => {
                plan.bind_paged(q, k, v, view(5, Operand::BlockTable)?, o, lse)?
            }
            _ => plan.bind(q, k, v, o, lse)?,
        };
        bound.run(stream)?;
        self.bound.insert(at, bound);
        Ok(())
    }
}
