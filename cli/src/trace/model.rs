//! Makes a timeline from the SM model's trace of a cluster.

use super::lanes::{Actor, actors};
use super::timeline::{Arrow, CtaLines, Kind, Lane, Place, Ring, Slice, Spot, Timeline, Use};
use host::sim::trace::{Cause, Event, Trace, What};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// A trace with lookup tables.
pub struct Source<'a> {
    pub trace: &'a Trace,
    /// For each barrier and phase: time and cause of its completion.
    phases: HashMap<(u32, u32), (u64, Cause)>,
    /// Copies to shared memory, by their number.
    loads: HashMap<u32, &'a Event>,
    /// Barriers that belong to a ring, with the ring's name.
    rings: HashMap<u32, (&'static str, Side)>,
    stages: HashMap<(u32, &'static str), u32>,
    /// Unit of the trace's times.
    unit: &'static str,
}

/// One of a slot's two barriers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Full,
    Empty,
}

/// A barrier of a ring.
#[derive(Clone, Copy)]
pub struct RingBarrier {
    pub ring: &'static str,
    pub side: Side,
    pub slot: u32,
    pub stages: u32,
}

impl RingBarrier {
    /// The step that waits for `phase`. A wait for an empty slot belongs to the next use of the slot.
    pub fn step(&self, phase: u32) -> u32 {
        let behind = u32::from(self.side == Side::Empty);
        phase.wrapping_add(behind) * self.stages + self.slot
    }
}

impl<'a> Source<'a> {
    fn new(trace: &'a Trace, unit: &'static str) -> Self {
        let (mut phases, mut loads) = (HashMap::new(), HashMap::new());
        for e in &trace.events {
            match e.what {
                What::Phase { barrier, phase, by } => {
                    phases.insert((barrier, phase), (e.until, by));
                }
                What::Load { copy, .. } => {
                    loads.insert(copy, e);
                }
                _ => {}
            }
        }
        let (mut rings, mut stages) = (HashMap::new(), HashMap::new());
        for (i, b) in (0..).zip(&trace.barriers) {
            let Some((label, stage)) = b.label else { continue };
            let side = match label.rsplit_once('.') {
                Some((ring, "full")) => (ring, Side::Full),
                Some((ring, "empty")) => (ring, Side::Empty),
                _ => continue,
            };
            rings.insert(i, side);
            let count = stages.entry((b.cta, side.0)).or_insert(0);
            *count = (stage + 1).max(*count);
        }
        Self { trace, phases, loads, rings, stages, unit }
    }

    /// The ring and slot that a barrier belongs to.
    pub fn ring(&self, barrier: u32) -> Option<RingBarrier> {
        let &(ring, side) = self.rings.get(&barrier)?;
        let b = &self.trace.barriers[barrier as usize];
        let slot = b.label?.1;
        Some(RingBarrier { ring, side, slot, stages: self.stages[&(b.cta, ring)] })
    }

    /// The name of a barrier.
    pub fn name(&self, barrier: u32) -> String {
        let b = &self.trace.barriers[barrier as usize];
        match b.label {
            Some((name, stage)) => format!("{name}[{stage}]"),
            None => format!("mbarrier {:#x}", b.addr),
        }
    }

    /// Time and cause of a phase's completion.
    pub fn phase(&self, barrier: u32, phase: u32) -> Option<(u64, Cause)> {
        self.phases.get(&(barrier, phase)).copied()
    }
}

/// The timeline of some CTAs of a cluster. Its times are in `unit`.
pub fn timeline(trace: &Trace, ranks: &[u32], title: String, unit: &'static str) -> Timeline {
    let source = Source::new(trace, unit);
    let ends = trace.threads.iter().map(|t| t.end);
    let end = ends.chain(trace.events.iter().map(|e| e.until)).max().unwrap_or(0);
    let ctas: Vec<_> = ranks.iter().map(|&rank| cta(&source, rank)).collect();
    let arrows = arrows(&source, &ctas);
    let ctas = ctas.into_iter().map(|(_, lines)| lines).collect();
    Timeline { title, unit, end, ctas, arrows }
}

fn cta(source: &Source<'_>, rank: u32) -> (Vec<Actor>, CtaLines) {
    let trace = source.trace;
    let actors = actors(source, rank);
    let mut lanes: Vec<Lane> = actors.iter().map(|actor| actor.lane(source, &actors)).collect();
    lanes.extend(
        [loads(source, rank), tensor(source, rank, &actors), stores(source, rank)]
            .into_iter()
            .flatten(),
    );
    lanes.sort_by_key(|lane| lane.place);
    let mut names: Vec<&'static str> = Vec::new();
    for (i, b) in (0..).zip(&trace.barriers) {
        if let (true, Some(ring)) = (b.cta == rank, source.ring(i))
            && !names.contains(&ring.ring)
        {
            names.push(ring.ring);
        }
    }
    let rings =
        names.iter().map(|name| ring(source, rank, name)).filter(|r| !r.uses.is_empty()).collect();
    (actors, CtaLines { rank, lanes, rings })
}

/// The CTA of an event's thread.
fn home(trace: &Trace, e: &Event) -> u32 {
    trace.threads[e.thread as usize].place.cta
}

/// The lane of copies to the CTA's shared memory.
fn loads(source: &Source<'_>, rank: u32) -> Option<Lane> {
    let slice = |e: &Event| {
        let What::Load { copy, started, cta, bytes, barrier, .. } = e.what else { return None };
        let ring = source.ring(barrier);
        let slot = ring.map(|r| r.slot);
        let args = object(&[
            ("copy", json!(copy)),
            ("bytes", json!(bytes)),
            ("slot", json!(slot)),
            ("barrier", json!(source.name(barrier))),
            ("engine starts", json!(started)),
            ("line", json!(e.at.map(|at| at.to_string()))),
        ]);
        let name = ring.map_or_else(|| source.name(barrier), |r| format!("{}[{}]", r.ring, r.slot));
        let (from, until) = (e.from, e.until);
        (cta == rank).then_some(Slice { row: 0, from, until, kind: Kind::Load, slot, name, args })
    };
    let slices: Vec<Slice> = source.trace.events.iter().filter_map(slice).collect();
    (!slices.is_empty()).then(|| Lane::packed("TMA loads".to_owned(), Place::Loads, slices))
}

/// The lane of copies from the CTA's shared memory. Each has two parts: reading shared memory, and writing
/// global memory.
fn stores(source: &Source<'_>, rank: u32) -> Option<Lane> {
    let mut spans = Vec::new();
    for e in source.trace.events.iter().filter(|e| home(source.trace, e) == rank) {
        let What::Store { copy, started, read, bytes } = e.what else { continue };
        let args = object(&[
            ("copy", json!(copy)),
            ("bytes", json!(bytes)),
            ("issued", json!(e.from)),
            ("line", json!(e.at.map(|at| at.to_string()))),
        ]);
        let name = format!("store of {bytes} bytes");
        spans.push(Slice {
            row: 0,
            from: started,
            until: e.until,
            kind: Kind::StoreRead,
            slot: None,
            name,
            args,
        });
        spans.last_mut().expect("just pushed").slot = Some((read - started) as u32);
    }
    if spans.is_empty() {
        return None;
    }
    let packed = Lane::packed("TMA stores".to_owned(), Place::Stores, spans);
    // Both halves of a store stay in its row.
    let halves = packed.slices.into_iter().flat_map(|whole| {
        let read = whole.from + u64::from(whole.slot.unwrap_or(0));
        let args = whole.args.clone();
        let name = format!("{}, read", whole.name);
        let half = Slice { until: read, slot: None, ..whole };
        let rest = Slice {
            row: half.row,
            from: read,
            until: whole.until,
            kind: Kind::StoreWrite,
            slot: None,
            name,
            args,
        };
        [half, rest]
    });
    Some(Lane {
        slices: halves.collect(),
        name: packed.name,
        place: packed.place,
        rows: packed.rows,
    })
}

/// The lane of the tensor core. Consecutive wgmmas of a warp group without a gap are one slice.
fn tensor(source: &Source<'_>, rank: u32, actors: &[Actor]) -> Option<Lane> {
    let mut busy: Vec<(u64, u64, u32, u32)> = Vec::new();
    for e in source.trace.events.iter().filter(|e| home(source.trace, e) == rank) {
        // A trace from a GPU does not have the wgmmas' end times.
        if let What::Wgmma { started, n: n @ 1.. } = e.what {
            busy.push((started, e.until, e.thread, n));
        }
    }
    busy.sort_unstable();
    let mut slices: Vec<(Slice, u32, u32)> = Vec::new();
    for (from, until, thread, n) in busy {
        let group = actors.iter().position(|a| a.has(thread)).unwrap_or(0);
        let first = actors.iter().position(|a| a.place == Place::Groups).unwrap_or(0);
        let slot = Some(group.saturating_sub(first) as u32);
        if let Some((last, count, columns)) = slices.last_mut()
            && (last.until, last.slot, *columns) == (from, slot, n)
        {
            (last.until, *count) = (until, *count + 1);
            continue;
        }
        let name = actors.get(group).map_or_else(String::new, |a| a.name.clone());
        slices.push((
            Slice { row: 0, from, until, kind: Kind::Tensor, slot, name, args: Map::new() },
            1,
            n,
        ));
    }
    let named = |(slice, count, n): (Slice, u32, u32)| {
        let s = if count == 1 { "" } else { "s" };
        Slice { name: format!("{}: {count} wgmma{s} m64n{n}k16", slice.name), ..slice }
    };
    let slices: Vec<Slice> = slices.into_iter().map(named).collect();
    (!slices.is_empty()).then(|| Lane {
        name: "tensor core".to_owned(),
        place: Place::Tensor,
        rows: 1,
        slices,
    })
}

/// The ring `name` with the uses of its slots.
fn ring(source: &Source<'_>, rank: u32, name: &str) -> Ring {
    let mut uses: BTreeMap<u32, Use> = BTreeMap::new();
    let (mut acquired, mut read) = (HashMap::new(), HashMap::new());
    let mut stages = 0;
    let of = |barrier: u32| {
        let here = source.trace.barriers[barrier as usize].cta == rank;
        source.ring(barrier).filter(|r| here && r.ring == name)
    };
    let earliest = |at: &mut u64, e: u64| *at = e.min(*at);
    for e in &source.trace.events {
        match e.what {
            What::Arrive { barrier, phase, .. } => {
                let Some(r) = of(barrier) else { continue };
                stages = r.stages;
                if r.side == Side::Full {
                    let step = r.step(phase);
                    let fresh = Use {
                        step,
                        slot: r.slot,
                        acquired: e.from,
                        full: None,
                        read: None,
                        released: None,
                    };
                    earliest(&mut uses.entry(step).or_insert(fresh).acquired, e.from);
                }
            }
            What::Wait { barrier, phase } => {
                let Some(r) = of(barrier) else { continue };
                let map = if r.side == Side::Full { &mut read } else { &mut acquired };
                earliest(map.entry(r.step(phase)).or_insert(e.until), e.until);
            }
            _ => {}
        }
    }
    for (&(barrier, phase), &(at, _)) in &source.phases {
        let Some(r) = of(barrier) else { continue };
        let Some(u) = uses.get_mut(&(phase * r.stages + r.slot)) else { continue };
        match r.side {
            Side::Full => u.full = Some(at),
            Side::Empty => u.released = Some(at),
        }
    }
    for u in uses.values_mut() {
        // With multicast, a peer's bytes can arrive before this CTA's producer has acquired the slot.
        u.acquired = acquired.get(&u.step).map_or(u.acquired, |&at| at.min(u.acquired));
        u.read = read.get(&u.step).copied();
    }
    Ring { name: name.to_owned(), stages, uses: uses.into_values().collect() }
}

/// Arrows from the cause of each wait to its end.
fn arrows(source: &Source<'_>, ctas: &[(Vec<Actor>, CtaLines)]) -> Vec<Arrow> {
    let mut copies = HashMap::new();
    for (cta, (_, lines)) in ctas.iter().enumerate() {
        for (lane, l) in lines.lanes.iter().enumerate().filter(|(_, l)| l.place == Place::Loads) {
            for s in &l.slices {
                copies.insert(s.args["copy"].as_u64(), Spot { cta, lane, row: s.row, at: s.until });
            }
        }
    }
    let thread = |t: u32, at: u64| {
        let mut all = ctas.iter().enumerate();
        all.find_map(|(cta, (actors, lines))| {
            let name = &actors.iter().find(|a| a.has(t))?.name;
            let lane = lines.lanes.iter().position(|l| l.name == *name)?;
            Some(Spot { cta, lane, row: 0, at })
        })
    };
    let mut arrows = Vec::new();
    for actor in ctas.iter().flat_map(|(actors, _)| actors) {
        let waits = |e: &&Event| e.thread == actor.thread && e.until > e.from;
        for e in source.trace.events.iter().filter(waits) {
            let What::Wait { barrier, phase } = e.what else { continue };
            let Some((at, cause)) = source.phase(barrier, phase) else { continue };
            let Some(to) = thread(actor.thread, e.until) else { continue };
            let from = match cause {
                Cause::Thread(t) => thread(t, at),
                Cause::Copy { copy, .. } => copies.get(&Some(u64::from(copy))).copied(),
            };
            let back = source.ring(barrier).is_some_and(|r| r.side == Side::Empty);
            let text = format!("{} {}", actor.name, because(source, &ctas[to.cta].0, e));
            arrows.push(Arrow { from, to, back, text });
        }
    }
    arrows
}

/// Describes a wait: its barrier, its length and its cause.
pub fn because(source: &Source<'_>, actors: &[Actor], e: &Event) -> String {
    let What::Wait { barrier, phase } = e.what else { return String::new() };
    let mut text = format!(
        "waits {} {} for phase {phase} of {}",
        e.until - e.from,
        source.unit,
        source.name(barrier)
    );
    let who = |t: u32| {
        let actor = actors.iter().find(|a| a.has(t));
        actor.map_or_else(|| source.trace.threads[t as usize].place.to_string(), |a| a.name.clone())
    };
    match source.phase(barrier, phase) {
        Some((at, Cause::Thread(t))) => {
            let _ = write!(text, ", which {} completes at {at}", who(t));
        }
        Some((at, Cause::Copy { copy, issuer })) => {
            let bytes = source.loads.get(&copy).map_or(0, |e| match e.what {
                What::Load { bytes, .. } => bytes,
                _ => 0,
            });
            let _ = write!(
                text,
                ", which a copy of {bytes} bytes completes at {at}, issued by {}",
                who(issuer)
            );
        }
        None => {}
    }
    text
}

/// A JSON object.
pub fn object(fields: &[(&str, Value)]) -> Map<String, Value> {
    let some = fields.iter().filter(|(_, value)| !value.is_null());
    some.map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}
