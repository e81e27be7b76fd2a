//! A run of the model, written down as a GPU would, and read again.

use super::*;
use crate::cli::trace::gpu;
use isa::trace::{BYTES, TIMED};

/// What a GPU would write that runs as the model did: one cycle in `slope` ns, `%globaltimer` in
/// steps of 32.
struct Log<'a> {
    bytes: Vec<u8>,
    model: &'a Trace,
}

impl Log<'_> {
    const SLOPE: f64 = 0.625;

    fn new(model: &Trace) -> Log<'_> {
        Log { bytes: vec![0; BYTES], model }
    }

    fn record(&mut self, thread: u32, at: u64, code: Code, fields: [u32; 3]) {
        let place = &self.model.threads[thread as usize].place;
        let place = place.cta as usize * WARPS + place.warp as usize;
        let cursor = 16 + 4 * place;
        let i = number(&self.bytes, cursor) as u32 as usize;
        self.bytes[cursor..cursor + 4].copy_from_slice(&(i as u32 + 1).to_le_bytes());
        if i >= RECORDS {
            return;
        }
        let [a, b, c] = fields.map(u64::from);
        let word = (code as u64) << 56 | c << (2 * FIELD) | b << FIELD | a;
        let timed = i.is_multiple_of(TIMED);
        let ns = if timed { 1_000_000 + (at as f64 * Self::SLOPE) as u64 / 32 * 32 } else { 0 };
        let at_place = HEADER_BYTES + RECORD_BYTES * (RECORDS * place + i);
        for (i, x) in [ns, 77_000 + at, word].into_iter().enumerate() {
            self.bytes[at_place + 8 * i..][..8].copy_from_slice(&x.to_le_bytes());
        }
    }

    fn barrier(&self, barrier: u32) -> (u32, u32) {
        let b = &self.model.barriers[barrier as usize];
        (b.cta, b.addr - self.model.smem_base)
    }
}

/// The model's events of each warp's first lane, and every lane's arrivals, as records.
fn log(model: &Trace) -> Vec<u8> {
    let mut log = Log::new(model);
    let mut records: Vec<(u64, u64, u32, Code, [u32; 3])> = Vec::new();
    let mut masks: HashMap<(u32, u64, u32), u32> = HashMap::new();
    for e in &model.events {
        if let What::Load { cta, addr, .. } = e.what {
            *masks.entry((e.thread, e.step, addr)).or_insert(0) |= 1 << cta;
        }
    }
    for e in &model.events {
        let place = model.threads[e.thread as usize].place;
        let mut put = |at, code, fields| records.push((at, e.step, e.thread, code, fields));
        match e.what {
            What::Arrive { barrier, .. } => {
                let (cta, offset) = log.barrier(barrier);
                put(e.from, Code::Arrive, [offset, 0, cta + 1]);
            }
            What::Load { addr, barrier, .. } => {
                if let Some(mask) = masks.remove(&(e.thread, e.step, addr)) {
                    let (_, offset) = log.barrier(barrier);
                    put(e.from, Code::Load, [offset, addr - model.smem_base, mask]);
                }
            }
            _ if place.lane != 0 => {}
            What::Wait { barrier, phase } => {
                let fields = [log.barrier(barrier).1, phase & 1, 0];
                put(e.from, Code::Wait, fields);
                put(e.until, Code::WaitEnd, fields);
            }
            What::Store { .. } => put(e.from, Code::Store, [0; 3]),
            What::StoreWait { left, read } => {
                put(e.from, Code::StoreWait, [left, u32::from(read), 0]);
                put(e.until, Code::StoreWaitEnd, [left, u32::from(read), 0]);
            }
            What::WgmmaWait { left } => {
                put(e.from, Code::MmaWait, [left, 0, 0]);
                put(e.until, Code::MmaWaitEnd, [left, 0, 0]);
            }
            What::Sync { id } => {
                put(e.from, Code::Sync, [id, 0, 0]);
                put(e.until, Code::SyncEnd, [id, 0, 0]);
            }
            _ => {}
        }
    }
    // A warp writes in the order of its time.
    records.sort_by_key(|r| (r.2 / 32, r.0, r.1));
    for (at, _, thread, code, fields) in records {
        log.record(thread, at, code, fields);
    }
    log.bytes
}

/// Time as the log has it: from its first record.
fn scaled(t: u64, zero: u64) -> f64 {
    (t - zero) as f64 * Log::SLOPE
}

#[test]
fn a_run_that_is_written_down_is_read_again() {
    let model = gpu::model().unwrap();
    let have = decode(&log(&model), 5, &model);
    assert_eq!((have.cluster, have.ctas, have.dropped), (5, 2, 0));
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
    let (want, got) = (waits(&model), waits(&have));
    let what = |w: &[(u32, u32, u32, u64)]| w.iter().map(|w| (w.0, w.1, w.2)).collect::<Vec<_>>();
    assert!(want.len() > 100);
    assert_eq!(what(&got), what(&want));
    let zero = want.iter().zip(&got).map(|(w, g)| w.3 as f64 - g.3 as f64 / Log::SLOPE);
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
    assert_eq!(loads(&have), loads(&model));

    let phases = |t: &Trace| -> HashMap<(u32, u32), (u64, Cause)> {
        let phase = |e: &Event| match e.what {
            What::Phase { barrier, phase, by } => Some(((barrier, phase), (e.until, by))),
            _ => None,
        };
        t.events.iter().filter_map(phase).collect()
    };
    let (want, got) = (phases(&model), phases(&have));
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
}

#[test]
fn records_without_room_are_counted_and_noise_is_left_out() {
    let model = gpu::model().unwrap();
    let mut log = Log::new(&model);
    for i in 0..RECORDS as u64 + 3 {
        log.record(0, i, Code::Sync, [1, 0, 0]);
    }
    // Ends without a beginning, and an event that does not exist.
    log.record(32, 5, Code::WaitEnd, [0, 0, 0]);
    log.record(32, 6, Code::MmaWaitEnd, [0, 0, 0]);
    log.bytes[HEADER_BYTES + RECORD_BYTES * RECORDS + 23] = 200;
    let trace = decode(&log.bytes, 0, &model);
    assert_eq!((trace.dropped, trace.events.len()), (3, 0));
    assert!(decode(&vec![0; BYTES], 0, &model).events.is_empty());
}
