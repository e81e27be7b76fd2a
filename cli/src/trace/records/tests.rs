//! A run of the model, written down as a GPU would, and read again.

use super::*;
use crate::trace::gpu;
use crate::trace::model::timeline;
use isa::trace::{BYTES, FIELD, HEADER_BYTES, LANES, PAD, RECORD_BYTES, RECORDS, TIMED};
use std::collections::BTreeMap;

/// What a GPU would write that runs as the model did: one cycle in `slope` ns, `%globaltimer` in
/// steps of 32.
struct Written<'a> {
    bytes: Vec<u8>,
    model: &'a Trace,
    /// Records of a thread.
    counts: HashMap<usize, usize>,
}

impl Written<'_> {
    const SLOPE: f64 = 0.625;
    /// Bytes between the header and the records.
    const BEGIN: usize = 1008;
    /// The lower half of the clock goes round during the run.
    const CLOCK: u64 = (5 << 32) - 3000;

    fn new(model: &Trace) -> Written<'_> {
        let mut bytes = vec![0; BYTES];
        bytes[PAD..PAD + 4].copy_from_slice(&(Self::BEGIN as u32).to_le_bytes());
        Written { bytes, model, counts: HashMap::new() }
    }

    fn put(&mut self, place: usize, word: u64, clocks: u64) {
        let i = self.counts.entry(place).or_insert(0);
        if *i < RECORDS {
            let at = HEADER_BYTES + Self::BEGIN + RECORD_BYTES * (RECORDS * place + *i);
            self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            self.bytes[at + 8..at + 16].copy_from_slice(&clocks.to_le_bytes());
            *i += 1;
        }
    }

    fn record(&mut self, thread: u32, (from, at): (u64, u64), code: Code, fields: [u32; 3]) {
        let of = &self.model.threads[thread as usize].place;
        let place = (of.cta as usize * WARPS + of.warp as usize) * LANES + of.lane as usize;
        if self.counts.get(&place).is_none_or(|i| i.is_multiple_of(TIMED)) {
            let ns = 1_000_000 + (at as f64 * Self::SLOPE) as u64 / 32 * 32;
            self.put(place, (Code::Time as u64) << 56 | ns, Self::CLOCK + at);
        }
        let [a, b, c] = fields.map(u64::from);
        let word = (code as u64) << 56 | c << (2 * FIELD) | b << FIELD | a;
        let [from, until] = [from, at].map(|t| (Self::CLOCK + t) & 0xffff_ffff);
        self.put(place, word, until << 32 | from);
    }

    fn barrier(&self, barrier: u32) -> (u32, u32) {
        let b = &self.model.barriers[barrier as usize];
        (b.cta, b.addr - self.model.smem_base)
    }
}

/// The model's events of each warp's first lane, and every lane's arrivals, as records.
fn log(model: &Trace) -> Vec<u8> {
    let mut log = Written::new(model);
    let mut records = Vec::new();
    let mut masks: HashMap<(u32, u64, u32), u32> = HashMap::new();
    for e in &model.events {
        if let What::Load { cta, addr, .. } = e.what {
            *masks.entry((e.thread, e.step, addr)).or_insert(0) |= 1 << cta;
        }
    }
    for e in &model.events {
        let place = model.threads[e.thread as usize].place;
        let mut put =
            |code, fields| records.push(((e.from, e.until), e.step, e.thread, code, fields));
        match e.what {
            What::Arrive { barrier, .. } => {
                let (cta, offset) = log.barrier(barrier);
                put(Code::Arrive, [offset, 0, cta + 1]);
            }
            What::Load { addr, barrier, .. } => {
                if let Some(mask) = masks.remove(&(e.thread, e.step, addr)) {
                    let (_, offset) = log.barrier(barrier);
                    put(Code::Load, [offset, addr - model.smem_base, mask]);
                }
            }
            _ if place.lane != 0 => {}
            What::Wait { barrier, phase } => {
                put(Code::Wait, [log.barrier(barrier).1, phase & 1, 0]);
            }
            What::Store { .. } => put(Code::Store, [0; 3]),
            What::StoreWait { left, read } => put(Code::StoreWait, [left, u32::from(read), 0]),
            What::WgmmaWait { left } => put(Code::MmaWait, [left, 0, 0]),
            What::Sync { id } => put(Code::Sync, [id, 0, 0]),
            _ => {}
        }
    }
    // A thread writes when something is over; what takes no time, when it begins.
    for (times, _, _, code, _) in &mut records {
        if matches!(code, Code::Arrive | Code::Load | Code::Store) {
            times.1 = times.0;
        }
    }
    records.sort_by_key(|r| (r.2, r.0.1, r.1));
    for (times, _, thread, code, fields) in records {
        log.record(thread, times, code, fields);
    }
    log.bytes
}

/// Time as the log has it: from its first record.
fn scaled(t: u64, zero: u64) -> f64 {
    (t - zero) as f64 * Written::SLOPE
}

#[test]
fn a_run_that_is_written_down_is_read_again() {
    for kernel in gpu::KERNELS {
        let model = gpu::model(kernel).unwrap();
        read_again(&model);
    }
}

fn read_again(model: &Trace) {
    let have = decode(&log(model), 5, model).unwrap();
    assert_eq!((have.cluster, have.ctas, have.dropped), (5, model.ctas, 0));
    let lanes = |t: &Trace, e: &Event| t.threads[e.thread as usize].place.lane == 0;
    let waits = |t: &Trace| {
        let mut waits: Vec<_> = t
            .events
            .iter()
            .filter(|e| lanes(t, e))
            .filter_map(|e| match e.what {
                What::Wait { barrier, phase } => Some((e.thread, barrier, phase, e.until)),
                _ => None,
            })
            .collect();
        waits.sort_by_key(|w| (w.0, w.3, w.1));
        waits
    };
    let (want, got) = (waits(model), waits(&have));
    let what = |w: &[(u32, u32, u32, u64)]| w.iter().map(|w| (w.0, w.1, w.2)).collect::<Vec<_>>();
    assert!(want.len() > 100);
    assert_eq!(what(&got), what(&want));
    let zero = want.iter().zip(&got).map(|(w, g)| w.3 as f64 - g.3 as f64 / Written::SLOPE);
    let zero = zero.sum::<f64>() / want.len() as f64;
    let zero = zero.round() as u64;
    for (w, g) in want.iter().zip(&got) {
        // The clock's rate comes from a timer with steps of 32 ns.
        assert!((scaled(w.3, zero) - g.3 as f64).abs() < 40.0, "{w:?} {g:?}");
    }

    let loads = |t: &Trace| {
        let mut loads: Vec<_> = t
            .events
            .iter()
            .filter_map(|e| match e.what {
                What::Load { cta, addr, bytes, barrier, .. } => {
                    Some((e.thread, cta, addr, bytes, barrier))
                }
                _ => None,
            })
            .collect();
        loads.sort_unstable();
        loads
    };
    assert_eq!(loads(&have), loads(model));

    let phases = |t: &Trace| -> HashMap<(u32, u32), (u64, Cause)> {
        let phase = |e: &Event| match e.what {
            What::Phase { barrier, phase, by } => Some(((barrier, phase), (e.until, by))),
            _ => None,
        };
        t.events.iter().filter_map(phase).collect()
    };
    let (want, got) = (phases(model), phases(&have));
    for (key, (at, by)) in &got {
        let label = model.barriers[key.0 as usize].label.expect("all have names").0;
        let done = scaled(want[key].0, zero);
        // A copy is seen to have landed when somebody goes on; a release is written down.
        assert!(*at as f64 > done - 40.0, "{label} {key:?}");
        assert_eq!(matches!(by, Cause::Copy { .. }), label == "main loop.full", "{label}");
        if label == "main loop.empty" {
            assert!((*at as f64 - done).abs() < 40.0, "{label} {key:?}: {at}, {done}");
        }
    }
    let full = |phases: &HashMap<(u32, u32), (u64, Cause)>| phases.len();
    assert!(full(&got) > 30 && full(&got) <= full(&want));

    // What is drawn of it has the same steps, each filled, full and read.
    let drawn = |t: &Trace, unit| timeline(t, &[0], String::new(), unit);
    let (want, got) = (drawn(model, "cycles"), drawn(&have, "ns"));
    for (want, got) in want.ctas[0].rings.iter().zip(&got.ctas[0].rings) {
        assert_eq!((&got.name, got.uses.len()), (&want.name, want.uses.len()));
    }
    assert_eq!(got.ctas[0].rings.len(), want.ctas[0].rings.len());
}

#[test]
fn a_list_without_room_is_refused_and_noise_is_left_out() {
    let model = gpu::model(gpu::KERNELS[0]).unwrap();
    let mut log = Written::new(&model);
    let most = RECORDS as u64 - RECORDS.div_ceil(TIMED) as u64 - 1;
    for i in 0..most {
        log.record(32, (i, i + 1), Code::Sync, [1, 0, 0]);
    }
    assert_eq!(decode(&log.bytes, 0, &model).unwrap().events.len() as u64, most);
    log.record(32, (most, most), Code::Sync, [1, 0, 0]);
    let said = decode(&log.bytes, 0, &model).unwrap_err().to_string();
    assert!(said.contains("warp 1 of CTA 0") && said.contains("2048 records"), "{said}");

    // An event that does not exist, and nothing at all.
    let mut log = Written::new(&model);
    log.record(0, (5, 6), Code::Sync, [1, 0, 0]);
    log.bytes[HEADER_BYTES + Written::BEGIN + RECORD_BYTES + 7] = 200;
    assert!(decode(&log.bytes, 0, &model).unwrap().events.is_empty());
    assert!(decode(&vec![0; BYTES], 0, &model).unwrap().events.is_empty());
}

#[test]
fn lanes_that_come_one_by_one_are_one_warp() {
    let model = gpu::model(gpu::KERNELS[0]).unwrap();
    let mut log = Written::new(&model);
    let waits = [(0, (10, 50)), (3, (12, 52)), (0, (60, 70)), (3, (61, 72)), (3, (80, 90))];
    for (lane, times) in waits {
        log.record(128 + lane, times, Code::Sync, [2, 0, 0]);
    }
    let trace = decode(&log.bytes, 0, &model).unwrap();
    let mut spans = BTreeMap::new();
    for e in &trace.events {
        assert_eq!((e.thread, e.what), (128, What::Sync { id: 2 }));
        spans.insert(e.from, e.until);
    }
    assert_eq!(spans.len(), 3, "{spans:?}");
}
