//! Converts the records of a GPU's warps ([`isa::trace`]) to a trace like the model's, in nanoseconds.
//!
//! The records have only what a warp observes. No warp observes the completion of a copy or a wgmma. A
//! copy therefore counts as complete when the first wait for it ends, and wgmmas when a wait for them
//! ends. Names, roles and sizes come from a trace of the same kernel on the model, because shared-memory
//! offsets are the same on both.

mod log;

use crate::error::Error;
use host::sim::trace::{BarrierName, Cause, Event, ThreadTrace, Trace, What};
use isa::trace::{CTAS, Event as Code, WARPS};
use log::{Line, Log, Record};
use std::collections::{HashMap, HashSet, VecDeque};

/// Makes the trace of the recorded cluster.
pub fn decode(bytes: &[u8], cluster: u32, model: &Trace) -> Result<Trace, Error> {
    let ctas = (model.ctas as usize).min(CTAS);
    let warps = (model.block as usize).div_ceil(32).min(WARPS);
    let logs = (0..ctas).map(|cta| Log::read(bytes, cta, warps));
    let logs = logs.collect::<Result<Vec<_>, _>>()?;
    let origin = logs.iter().flat_map(|log| &log.times).map(|time| time.1).min().unwrap_or(0);
    let lines: Vec<Line> = logs.iter().map(|log| Line::through(&log.times, origin)).collect();
    let all = logs
        .iter()
        .zip(&lines)
        .flat_map(|(log, line)| log.warps.iter().flatten().map(|record| line.at(record.from)));
    let zero = all.fold(f64::INFINITY, f64::min);
    let mut builder = Builder::new(model);
    let mut warps = Vec::new();
    for (cta, (log, line)) in (0..).zip(logs.iter().zip(&lines)) {
        let time = |clock| (line.at(clock) - zero).max(0.0).round() as u64;
        let timed = |r: &Record| Record { from: time(r.from), until: time(r.until), ..*r };
        warps.extend((0..).zip(&log.warps).map(|(warp, records): (u32, _)| {
            (cta, warp, records.iter().map(timed).collect::<Vec<_>>())
        }));
    }
    // All arrivals come first, because the arrivals that end a wait determine its phase.
    for (cta, warp, records) in &warps {
        builder.arrivals(*cta, *warp, records);
    }
    builder.count_phases();
    for (cta, warp, records) in &warps {
        builder.warp(*cta, *warp, records);
    }
    Ok(builder.finish(cluster))
}

/// Collects waits, arrivals and loads, and combines them at the end.
struct Builder<'a> {
    model: &'a Trace,
    barriers: Vec<BarrierName>,
    places: HashMap<(u32, u32), u32>,
    /// Bytes of the copy to each shared address.
    bytes: HashMap<u32, u32>,
    events: Vec<Event>,
    ends: Vec<u64>,
    /// Number of warps that arrive in each phase of the barrier at (CTA, address).
    expected: HashMap<(u32, u32), usize>,
    /// Arrivals at a barrier (time and thread) in the order of time. Each phase has the expected number.
    arrivals: HashMap<u32, Vec<(u64, u32)>>,
    /// For each barrier and thread, the phases of the arrivals that were not yet processed.
    coming: HashMap<(u32, u32), VecDeque<u32>>,
}

/// Largest difference between the clocks of two CTAs, in nanoseconds. It is less than the length of a phase.
const SKEW: u64 = 500;

impl<'a> Builder<'a> {
    fn new(model: &'a Trace) -> Self {
        let place = |(i, b): (u32, &BarrierName)| ((b.cta, b.addr), i);
        let bytes = model.events.iter().filter_map(|e| match e.what {
            What::Load { addr, bytes, .. } => Some((addr, bytes)),
            _ => None,
        });
        let mut arriving: HashMap<(u32, u32), HashSet<u32>> = HashMap::new();
        for e in &model.events {
            if let What::Arrive { barrier, phase, .. } = e.what {
                arriving.entry((barrier, phase)).or_default().insert(e.thread / 32);
            }
        }
        let mut expected = HashMap::new();
        for ((barrier, _), warps) in arriving {
            let BarrierName { cta, addr, .. } = model.barriers[barrier as usize];
            let most = expected.entry((cta, addr)).or_insert(0);
            *most = warps.len().max(*most);
        }
        Self {
            model,
            barriers: model.barriers.clone(),
            places: (0..).zip(&model.barriers).map(place).collect(),
            bytes: bytes.collect(),
            events: Vec::new(),
            ends: vec![0; model.threads.len()],
            expected,
            arrivals: HashMap::new(),
            coming: HashMap::new(),
        }
    }

    /// The index of the barrier at an offset.
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

    fn thread(&self, cta: u32, warp: u32) -> u32 {
        cta * self.model.block + 32 * warp
    }

    /// The barrier at which a record arrives.
    fn arrives_at(&mut self, cta: u32, fields: [u32; 3]) -> u32 {
        self.barrier(fields[2].checked_sub(1).unwrap_or(cta), fields[0])
    }

    /// Adds the arrivals of one warp.
    fn arrivals(&mut self, cta: u32, warp: u32, records: &[Record]) {
        let thread = self.thread(cta, warp);
        for r in records.iter().filter(|r| r.code == Code::Arrive) {
            let barrier = self.arrives_at(cta, r.fields);
            self.arrivals.entry(barrier).or_default().push((r.until, thread));
        }
    }

    /// Number of warps that arrive in a phase.
    fn expected(&self, barrier: u32) -> usize {
        let BarrierName { cta, addr, .. } = self.barriers[barrier as usize];
        self.expected.get(&(cta, addr)).copied().unwrap_or(1)
    }

    /// Determines the phase of each arrival.
    fn count_phases(&mut self) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        for (&barrier, all) in &mut arrivals {
            all.sort_unstable();
            let expected = self.expected(barrier);
            for (i, &(_, thread)) in all.iter().enumerate() {
                let phase = (i / expected) as u32;
                self.coming.entry((thread, barrier)).or_default().push_back(phase);
            }
        }
        self.arrivals = arrivals;
    }

    /// The phase that a wait with `parity` waited for, if the wait ended at `until`: the last phase of that
    /// parity at which all had arrived. The phase before the first one has parity 1. For phases without
    /// recorded arrivals, it is the one after `before`.
    fn waited_for(&self, barrier: u32, parity: u32, until: u64, before: Option<u32>) -> u32 {
        let arrivals = self.arrivals.get(&barrier).map_or(&[][..], Vec::as_slice);
        let complete = arrivals.chunks_exact(self.expected(barrier));
        let complete = complete.map(|phase| phase[phase.len() - 1].0);
        let done = complete.take_while(|at| *at <= until + SKEW).count() as u32;
        let last = done.wrapping_sub(1);
        let known = [last, last.wrapping_sub(1)].into_iter().filter(|_| !arrivals.is_empty());
        let known = known.filter(|p| p & 1 == parity && (*p == u32::MAX || *p < done));
        if let Some(phase) = known.max() {
            return phase;
        }
        match before {
            None if parity == 1 => u32::MAX,
            None => 0,
            Some(p) if p & 1 == parity => p,
            Some(p) => p.wrapping_add(1),
        }
    }

    /// Adds the records of one warp, in nanoseconds.
    fn warp(&mut self, cta: u32, warp: u32, records: &[Record]) {
        let thread = self.thread(cta, warp);
        let mut waited: HashMap<u32, u32> = HashMap::new();
        let mut armed: HashMap<u32, u32> = HashMap::new();
        let mut seen: HashMap<(u8, [u32; 3]), (usize, u64)> = HashMap::new();
        let (mut stores, mut mmas) = (VecDeque::new(), VecDeque::new());
        let mut end = 0;
        for &Record { lane, from, until: at, code, fields } in records {
            end = end.max(at);
            let [first, second, third] = fields;
            // Lanes that arrive one by one record the same wait again.
            let before = seen.insert((code as u8, fields), (lane, at));
            if from < at && before.is_some_and(|(other, until)| other != lane && from < until) {
                continue;
            }
            match code {
                Code::Wait => {
                    let barrier = self.barrier(cta, first);
                    let before = waited.get(&barrier).copied();
                    let phase = self.waited_for(barrier, second, at, before);
                    waited.insert(barrier, phase);
                    self.push(thread, from, at, What::Wait { barrier, phase });
                }
                Code::Arrive => {
                    let barrier = self.arrives_at(cta, fields);
                    let coming = self.coming.get_mut(&(thread, barrier));
                    let phase = coming.and_then(VecDeque::pop_front).unwrap_or(0);
                    armed.insert(barrier, phase);
                    self.push(
                        thread,
                        at,
                        at,
                        What::Arrive { barrier, phase, count: 1, bytes: None },
                    );
                }
                Code::Load => {
                    let own = self.barrier(cta, first);
                    let started = armed.get(&own).copied().map_or(u64::MAX, u64::from);
                    let mask = if third == 0 { 1 << cta } else { third };
                    for to in (0..self.model.ctas).filter(|to| mask >> to & 1 == 1) {
                        let barrier = self.barrier(to, first);
                        let addr = self.model.smem_base + second;
                        let bytes = self.bytes.get(&addr).copied().unwrap_or(0);
                        // `started` holds the phase until the completion time is known.
                        let what = What::Load { copy: 0, started, cta: to, addr, bytes, barrier };
                        self.push(thread, at, at, what);
                    }
                }
                Code::Store => stores.push_back(at),
                Code::Mma => mmas.push_back(at),
                Code::StoreWait => {
                    while stores.len() > first as usize {
                        self.store(thread, stores.pop_front().unwrap_or(at), at);
                    }
                    self.push(thread, from, at, What::StoreWait { left: first, read: second == 1 });
                }
                Code::MmaWait => {
                    while mmas.len() > first as usize {
                        let issued = mmas.pop_front().unwrap_or(at);
                        self.push(thread, issued, at, What::Wgmma { started: issued, n: 0 });
                    }
                    self.push(thread, from, at, What::WgmmaWait { left: first });
                }
                Code::Sync => self.push(thread, from, at, What::Sync { id: first }),
                Code::ClusterWait => self.push(thread, from, at, What::ClusterWait),
                Code::Time => {}
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

    /// Derives the phases from arrivals and waits, and the end of each copy from its phase.
    fn finish(mut self, cluster: u32) -> Trace {
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
        for (&barrier, arrivals) in &self.arrivals {
            let of_phases = arrivals.chunks_exact(self.expected(barrier));
            for (phase, of_phase) in (0..).zip(of_phases) {
                let (key, (last, thread)) = ((barrier, phase), of_phase[of_phase.len() - 1]);
                let seen = seen.get(&key).copied();
                let done = match copies.get(&key) {
                    // The bytes arrive after the arrival that expects them.
                    Some(&(copy, issuer)) => seen.map(|at| (at, Cause::Copy { copy, issuer })),
                    None => Some((seen.map_or(last, |at| at.min(last)), Cause::Thread(thread))),
                };
                phases.extend(done.map(|done| (key, done)));
            }
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
            dropped: 0,
        }
    }
}

#[cfg(test)]
mod tests;
