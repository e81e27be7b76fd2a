//! Writes a timeline as a Chrome trace, which ui.perfetto.dev opens. It has a process for each CTA, a
//! track for each row of a lane and for each slot, counters of full slots, and flows from causes to waits.

use super::timeline::{CtaLines, Lane, Ring, Slice, Spot, Timeline};
use serde_json::{Value, json};

/// The timeline as a Chrome trace in JSON.
pub fn write(timeline: &Timeline) -> String {
    let mut out = Vec::new();
    let mut firsts = Vec::new();
    for cta in &timeline.ctas {
        let mut tracks = Tracks { pid: cta.rank + 1, next: 0, out: &mut out };
        firsts.push(tracks.cta(timeline, cta));
    }
    for (id, arrow) in timeline.arrows.iter().enumerate() {
        let Some(from) = arrow.from else { continue };
        let end = |ph: &str, spot: Spot| {
            // A flow is bound to the slices around its ends, so it uses the last moment of cause and wait.
            json!({
                "ph": ph, "bp": "e", "cat": "waits for", "name": "waits for", "id": id,
                "pid": timeline.ctas[spot.cta].rank + 1, "tid": firsts[spot.cta][spot.lane] + spot.row as u32,
                "ts": micros(spot.at.saturating_sub(1)), "args": { "why": arrow.text },
            })
        };
        out.extend([end("s", from), end("f", arrow.to)]);
    }
    let about = json!({ "title": timeline.title, "unit": timeline.unit, "end": timeline.end });
    json!({ "displayTimeUnit": "ns", "otherData": about, "traceEvents": out }).to_string()
}

/// The format's unit is a microsecond; a nanosecond or a cycle is a thousandth.
fn micros(at: u64) -> f64 {
    at as f64 / 1e3
}

struct Tracks<'a> {
    pid: u32,
    next: u32,
    out: &'a mut Vec<Value>,
}

impl Tracks<'_> {
    fn about(&mut self, what: &str, tid: u32, args: &Value) {
        self.out
            .push(json!({ "ph": "M", "name": what, "pid": self.pid, "tid": tid, "args": args }));
    }

    /// Adds a track.
    fn track(&mut self, name: &str) -> u32 {
        self.next += 1;
        let tid = self.next;
        self.about("thread_name", tid, &json!({ "name": name }));
        self.about("thread_sort_index", tid, &json!({ "sort_index": tid }));
        tid
    }

    fn span(
        &mut self,
        tid: u32,
        category: &str,
        name: &str,
        (from, until): (u64, u64),
        args: &Value,
    ) {
        self.out.push(json!({
            "ph": "X", "cat": category, "name": name, "pid": self.pid, "tid": tid,
            "ts": micros(from), "dur": micros(until - from), "args": args,
        }));
    }

    /// Adds the tracks of a CTA. Returns the first track of each lane.
    fn cta(&mut self, timeline: &Timeline, cta: &CtaLines) -> Vec<u32> {
        let name = format!("CTA {} (1 ns is one of its {})", cta.rank, timeline.unit);
        self.about("process_name", 0, &json!({ "name": name }));
        let firsts: Vec<u32> = cta.lanes.iter().map(|lane| self.lane(lane)).collect();
        for ring in &cta.rings {
            self.ring(ring);
        }
        firsts
    }

    /// Adds the tracks of a lane. Returns the first one.
    fn lane(&mut self, lane: &Lane) -> u32 {
        let first = self.next + 1;
        for row in 0..lane.rows {
            let name =
                if lane.rows == 1 { lane.name.clone() } else { format!("{} {row}", lane.name) };
            let tid = self.track(&name);
            for slice in lane.slices.iter().filter(|slice| slice.row == row) {
                let Slice { from, until, kind, name, args, .. } = slice;
                let category = format!("{kind:?}").to_lowercase();
                self.span(tid, &category, name, (*from, *until), &json!(args));
            }
        }
        first
    }

    fn ring(&mut self, ring: &Ring) {
        for slot in 0..ring.stages {
            let tid = self.track(&format!("{} slot {slot}", ring.name));
            for u in ring.uses.iter().filter(|u| u.slot == slot) {
                let args = json!({ "ring": ring.name, "slot": slot, "step": u.step });
                let times = [Some(u.acquired), u.full, u.read, u.released];
                for (what, pair) in ["filling", "full", "read"].into_iter().zip(times.windows(2)) {
                    if let [Some(from), Some(until)] = *pair {
                        self.span(tid, "slot", what, (from, until.max(from)), &args);
                    }
                }
            }
        }
        for (at, ahead, full) in ring.ahead() {
            self.out.push(json!({
                "ph": "C", "name": format!("{} slots", ring.name), "pid": self.pid, "ts": micros(at),
                "args": { "full": full, "filling": ahead - full },
            }));
        }
    }
}
