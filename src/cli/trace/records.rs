//! From what a GPU's warps wrote down ([`isa::trace`]) to a trace like the model's, in nanoseconds.
//!
//! The records say what a warp saw. When a copy landed, or a wgmma was done, no warp sees: a copy
//! counts as landed when the first waiter went on, wgmmas as done when a wait for them was over.
//! Names, roles and sizes come from a trace of the same kernel on the model: what lies at an offset
//! in shared memory is the same on both.

use host::sim::trace::{BarrierName, Cause, Event, ThreadTrace, Trace, What};
use isa::trace::{CTAS, Event as Code, FIELD, HEADER_BYTES, RECORD_BYTES, RECORDS, WARPS};
use std::collections::{HashMap, VecDeque};
use std::num::NonZero;

/// A record.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// `%globaltimer`, of some.
    ns: Option<NonZero<u64>>,
    /// `%clock64`.
    clock: u64,
    code: Code,
    fields: [u32; 3],
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let part = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
    part.map_or(0, u64::from_le_bytes)
}

/// The records of a warp, and how many had no room.
fn of_warp(bytes: &[u8], cta: usize, warp: usize) -> (Vec<Record>, u64) {
    let place = cta * WARPS + warp;
    let wanted = number(bytes, 16 + 4 * place) as u32 as usize;
    let record = |i: usize| {
        let at = HEADER_BYTES + RECORD_BYTES * (RECORDS * place + i);
        let word = number(bytes, at + 16);
        let code = Code::ALL.get((word >> 56).checked_sub(1)? as usize)?;
        let mask = (1 << FIELD) - 1;
        let fields = [word & mask, word >> FIELD & mask, word >> (2 * FIELD) & 0xffff];
        let fields = fields.map(|f| f as u32);
        let ns = NonZero::new(number(bytes, at));
        Some(Record { ns, clock: number(bytes, at + 8), code: *code, fields })
    };
    let records = (0..wanted.min(RECORDS)).filter_map(record).collect();
    (records, wanted.saturating_sub(RECORDS) as u64)
}

/// A CTA's clock in nanoseconds. `%clock64` is fine and counts cycles, `%globaltimer` is the time and
/// coarse: the straight line through all pairs.
struct Line {
    clock: f64,
    ns: f64,
    slope: f64,
}

impl Line {
    fn through(pairs: &[(u64, u64)], origin: u64) -> Self {
        let n = pairs.len().max(1) as f64;
        let first = pairs.first().map_or(0, |p| p.0);
        let of = |&(clock, ns): &(u64, u64)| {
            (clock.wrapping_sub(first) as i64 as f64, ns.wrapping_sub(origin) as i64 as f64)
        };
        let mean = |f: fn((f64, f64)) -> f64| pairs.iter().map(|p| f(of(p))).sum::<f64>() / n;
        let (clock, ns) = (mean(|p| p.0), mean(|p| p.1));
        let (mut both, mut square) = (0.0, 0.0);
        for p in pairs {
            let (x, y) = of(p);
            both += (x - clock) * (y - ns);
            square += (x - clock).powi(2);
        }
        // Too short to tell: about an H100's clock.
        let slope = if square > 0.0 && both > 0.0 { both / square } else { 1.0 / 1.75 };
        Self { clock: clock + first as f64, ns, slope }
    }

    fn at(&self, clock: u64) -> f64 {
        self.ns + (clock as f64 - self.clock) * self.slope
    }
}

/// The trace of the recorded cluster, as far as there were records.
pub fn decode(bytes: &[u8], cluster: u32, model: &Trace) -> Trace {
    let ctas = (model.ctas as usize).min(CTAS);
    let warps = (model.block as usize).div_ceil(32).min(WARPS);
    let places = (0..ctas).flat_map(|cta| (0..warps).map(move |warp| (cta, warp)));
    let mut dropped = 0;
    let mut logs: Vec<(usize, usize, Vec<Record>)> = Vec::new();
    for (cta, warp) in places {
        let (records, more) = of_warp(bytes, cta, warp);
        dropped += more;
        logs.push((cta, warp, records));
    }
    let all = || logs.iter().flat_map(|(cta, _, records)| records.iter().map(move |r| (*cta, r)));
    let origin = all().filter_map(|(_, r)| r.ns).min().map_or(0, NonZero::get);
    let lines: Vec<Line> = (0..ctas)
        .map(|cta| {
            let own = all().filter(|(c, _)| *c == cta);
            let of = own.filter_map(|(_, r)| Some((r.clock, r.ns?.get())));
            Line::through(&of.collect::<Vec<_>>(), origin)
        })
        .collect();
    let time = |cta: usize, clock: u64| lines[cta].at(clock);
    let zero = all().map(|(cta, r)| time(cta, r.clock)).fold(f64::INFINITY, f64::min);
    let mut builder = Builder::new(model);
    for (cta, warp, records) in &logs {
        let at = |r: &Record| (time(*cta, r.clock) - zero).max(0.0).round() as u64;
        builder.warp(*cta as u32, *warp as u32, records.iter().map(|r| (at(r), *r)));
    }
    builder.finish(cluster, dropped)
}

/// What is waited on, arrived at and loaded, to be put together at the end.
struct Builder<'a> {
    model: &'a Trace,
    barriers: Vec<BarrierName>,
    places: HashMap<(u32, u32), u32>,
    /// Bytes that come to a shared address.
    bytes: HashMap<u32, u32>,
    events: Vec<Event>,
    ends: Vec<u64>,
    /// Arrivals: barrier and phase, with time and thread.
    arrivals: HashMap<(u32, u32), Vec<(u64, u32)>>,
    /// How often a warp has arrived at a barrier.
    arrived: HashMap<(u32, u32), u32>,
}

impl<'a> Builder<'a> {
    fn new(model: &'a Trace) -> Self {
        let place = |(i, b): (u32, &BarrierName)| ((b.cta, b.addr), i);
        let bytes = model.events.iter().filter_map(|e| match e.what {
            What::Load { addr, bytes, .. } => Some((addr, bytes)),
            _ => None,
        });
        Self {
            model,
            barriers: model.barriers.clone(),
            places: (0..).zip(&model.barriers).map(place).collect(),
            bytes: bytes.collect(),
            events: Vec::new(),
            ends: vec![0; model.threads.len()],
            arrivals: HashMap::new(),
            arrived: HashMap::new(),
        }
    }

    /// The barrier at an offset.
    fn barrier(&mut self, cta: u32, offset: u32) -> u32 {
        let addr = self.model.smem_base + offset;
        let barriers = &mut self.barriers;
        *self.places.entry((cta, addr)).or_insert_with(|| {
            barriers.push(BarrierName { cta, addr, label: None });
            barriers.len() as u32 - 1
        })
    }

    fn push(&mut self, thread: u32, from: u64, until: u64, what: What) {
        let step = self.events.len() as u64;
        self.events.push(Event { thread, step, from, until, at: None, what });
    }

    /// One warp's records.
    fn warp(&mut self, cta: u32, warp: u32, records: impl Iterator<Item = (u64, Record)>) {
        let thread = cta * self.model.block + 32 * warp;
        let mut open: HashMap<u8, (u64, [u32; 3])> = HashMap::new();
        let mut waited: HashMap<u32, u32> = HashMap::new();
        let (mut stores, mut mmas) = (VecDeque::new(), VecDeque::new());
        let mut end = 0;
        for (at, Record { code, fields, .. }) in records {
            end = end.max(at);
            let [first, second, third] = fields;
            // Lanes that come one by one write the same again: the first begins, the first ends.
            let mut begun = |code: Code| open.remove(&(code as u8));
            match code {
                Code::Wait | Code::StoreWait | Code::Sync | Code::MmaWait | Code::ClusterWait => {
                    open.entry(code as u8).or_insert((at, fields));
                }
                Code::WaitEnd => {
                    let Some((from, _)) = begun(Code::Wait) else { continue };
                    let barrier = self.barrier(cta, first);
                    // The next phase of that parity; the one before the first has parity 1.
                    let before = waited.get(&barrier).copied();
                    let phase = match before {
                        None if second == 1 => u32::MAX,
                        None => 0,
                        Some(p) if p & 1 == second => p,
                        Some(p) => p.wrapping_add(1),
                    };
                    waited.insert(barrier, phase);
                    self.push(thread, from, at, What::Wait { barrier, phase });
                }
                Code::Arrive => {
                    let barrier = self.barrier(third.checked_sub(1).unwrap_or(cta), first);
                    let phase = self.arrived.entry((thread, barrier)).or_insert(0);
                    self.arrivals.entry((barrier, *phase)).or_default().push((at, thread));
                    *phase += 1;
                    let what = What::Arrive { barrier, phase: *phase - 1, count: 1, bytes: None };
                    self.push(thread, at, at, what);
                }
                Code::Load => {
                    let own = self.barrier(cta, first);
                    let armed = self.arrived.get(&(thread, own)).copied().unwrap_or(0);
                    let mask = if third == 0 { 1 << cta } else { third };
                    for to in (0..self.model.ctas).filter(|to| mask >> to & 1 == 1) {
                        let barrier = self.barrier(to, first);
                        let addr = self.model.smem_base + second;
                        let bytes = self.bytes.get(&addr).copied().unwrap_or(0);
                        // The phase stands in for the time of landing, which is not known yet.
                        let started = u64::from(armed.wrapping_sub(1));
                        let what = What::Load { copy: 0, started, cta: to, addr, bytes, barrier };
                        self.push(thread, at, at, what);
                    }
                }
                Code::Store => stores.push_back(at),
                Code::Mma => mmas.push_back(at),
                Code::StoreWaitEnd => {
                    let Some((from, _)) = begun(Code::StoreWait) else { continue };
                    while stores.len() > first as usize {
                        self.store(thread, stores.pop_front().unwrap_or(at), at);
                    }
                    self.push(thread, from, at, What::StoreWait { left: first, read: second == 1 });
                }
                Code::MmaWaitEnd => {
                    let Some((from, _)) = begun(Code::MmaWait) else { continue };
                    while mmas.len() > first as usize {
                        let issued = mmas.pop_front().unwrap_or(at);
                        self.push(thread, issued, at, What::Wgmma { started: issued, n: 0 });
                    }
                    self.push(thread, from, at, What::WgmmaWait { left: first });
                }
                Code::SyncEnd => {
                    let Some((from, _)) = begun(Code::Sync) else { continue };
                    self.push(thread, from, at, What::Sync { id: first });
                }
                Code::ClusterWaitEnd => {
                    let Some((from, _)) = begun(Code::ClusterWait) else { continue };
                    self.push(thread, from, at, What::ClusterWait);
                }
            }
        }
        for issued in stores {
            self.store(thread, issued, end);
        }
        if let Some(last) = self.ends.get_mut(thread as usize) {
            *last = end;
        }
    }

    fn store(&mut self, thread: u32, issued: u64, read: u64) {
        let what = What::Store { copy: self.events.len() as u32, started: issued, read, bytes: 0 };
        self.push(thread, issued, read, what);
    }

    /// Phases, from arrivals and waits; and the copies that they end.
    fn finish(mut self, cluster: u32, dropped: u64) -> Trace {
        let mut seen: HashMap<(u32, u32), u64> = HashMap::new();
        let mut copies: HashMap<(u32, u32), (u32, u32)> = HashMap::new();
        for (i, e) in (0..).zip(&mut self.events) {
            match &mut e.what {
                What::Wait { barrier, phase } if *phase != u32::MAX => {
                    let at = seen.entry((*barrier, *phase)).or_insert(e.until);
                    *at = e.until.min(*at);
                }
                What::Load { copy, started, barrier, .. } => {
                    *copy = i;
                    copies.insert((*barrier, *started as u32), (i, e.thread));
                }
                _ => {}
            }
        }
        let mut phases: HashMap<(u32, u32), (u64, Cause)> = HashMap::new();
        for (&key, arrivals) in &self.arrivals {
            let Some(&(last, thread)) = arrivals.iter().max() else { continue };
            let seen = seen.get(&key).copied();
            let done = match copies.get(&key) {
                // Bytes come after the arrival that expects them.
                Some(&(copy, issuer)) => seen.map(|at| (at, Cause::Copy { copy, issuer })),
                None => Some((seen.map_or(last, |at| at.min(last)), Cause::Thread(thread))),
            };
            phases.extend(done.map(|done| (key, done)));
        }
        for e in &mut self.events {
            if let What::Load { started, barrier, .. } = &mut e.what {
                let landed = phases.get(&(*barrier, *started as u32)).map_or(e.from, |p| p.0);
                e.until = landed.max(e.from);
                *started = e.from;
            }
        }
        let mut phases: Vec<_> = phases.into_iter().collect();
        phases.sort_by_key(|&((barrier, phase), (at, _))| (at, barrier, phase));
        for ((barrier, phase), (at, by)) in phases {
            let (Cause::Thread(thread) | Cause::Copy { issuer: thread, .. }) = by;
            self.push(thread, at, at, What::Phase { barrier, phase, by });
        }
        let threads = self.model.threads.iter().zip(&self.ends);
        Trace {
            kernel: self.model.kernel.clone(),
            cluster,
            ctas: self.model.ctas,
            block: self.model.block,
            smem_base: self.model.smem_base,
            finished: true,
            threads: threads.map(|(t, &end)| ThreadTrace { place: t.place, end }).collect(),
            barriers: self.barriers,
            events: self.events,
            dropped,
        }
    }
}

#[cfg(test)]
mod tests;
