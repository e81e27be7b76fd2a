//! The lanes of threads: single warps, and warp groups whose warps do the same.

use super::model::{Source, because, object};
use super::timeline::{Kind, Lane, Place, Slice};
use host::sim::trace::{Event, What, cycles};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// A warp or a warp group. One of its threads represents it.
pub struct Actor {
    pub name: String,
    pub place: Place,
    /// The thread that represents the actor.
    pub thread: u32,
    /// First thread.
    first: u32,
    /// Number of threads.
    count: u32,
}

impl Actor {
    /// Whether a thread of the cluster belongs to this actor.
    pub fn has(&self, thread: u32) -> bool {
        thread.wrapping_sub(self.first) < self.count
    }
}

/// Whether an event appears in a lane.
fn acts(e: &Event) -> bool {
    use What::{CopyWait, Load, Store, StoreWait, Wait, Wgmma, WgmmaWait};
    matches!(
        e.what,
        Wait { .. }
            | Load { .. }
            | Store { .. }
            | StoreWait { .. }
            | CopyWait { .. }
            | Wgmma { .. }
            | WgmmaWait { .. }
    )
}

/// The warps and warp groups of a CTA that have events, warps first.
pub fn actors(source: &Source<'_>, rank: u32) -> Vec<Actor> {
    let trace = source.trace;
    let base = rank * trace.block;
    // For each thread of the CTA: the number of its events, and its waits.
    let mut acted = vec![0u32; trace.block as usize];
    let mut waits: Vec<Vec<(u32, u32)>> = vec![Vec::new(); trace.block as usize];
    let mut multiplies = vec![false; trace.block.div_ceil(128) as usize];
    for e in trace.events.iter().filter(|e| acts(e)) {
        let t = e.thread.wrapping_sub(base);
        if t >= trace.block {
            continue;
        }
        acted[t as usize] += 1;
        match e.what {
            What::Wait { barrier, phase } => waits[t as usize].push((barrier, phase)),
            What::Wgmma { .. } => multiplies[t as usize / 128] = true,
            _ => {}
        }
    }
    let busiest = |first: u32, count: u32| {
        let threads = first..(first + count).min(trace.block);
        threads.max_by_key(|&t| (acted[t as usize], std::cmp::Reverse(t))).unwrap_or(first)
    };
    let (mut warps, mut groups) = (Vec::new(), Vec::new());
    for (group, multiplies) in (0..).zip(multiplies) {
        let first = 128 * group;
        let leads: Vec<u32> = (0..4)
            .map(|w| first + 32 * w)
            .filter(|&f| f < trace.block)
            .map(|f| busiest(f, 32))
            .collect();
        let same = leads.windows(2).all(|w| waits[w[0] as usize] == waits[w[1] as usize]);
        let together = leads.len() == 4 && same && !waits[leads[0] as usize].is_empty();
        if multiplies || together {
            groups.push((busiest(first, 128), first, 128));
        } else {
            let acting = leads.into_iter().filter(|&t| acted[t as usize] > 0);
            warps.extend(acting.map(|t| (t, t / 32 * 32, 32)));
        }
    }
    let mut actors: Vec<Actor> = Vec::new();
    for (place, found) in [(Place::Warps, warps), (Place::Groups, groups)] {
        for &(thread, first, count) in &found {
            let role = |t: u32| trace.threads[(base + t) as usize].place.role;
            let what = if place == Place::Warps { "warp" } else { "group" };
            let number = match place {
                Place::Warps => first / 32,
                _ => {
                    found.iter().filter(|f| f.1 < first && role(f.1) == role(first)).count() as u32
                }
            };
            let role = role(thread)
                .map_or_else(|| format!("{what} {number}"), |r| format!("{r}, {what} {number}"));
            actors.push(Actor {
                name: role,
                place,
                thread: base + thread,
                first: base + first,
                count,
            });
        }
    }
    actors
}

/// Builds a lane event by event.
struct Builder {
    slices: Vec<Slice>,
    at: u64,
    /// Copies that were issued since `at`: slot, step and bytes.
    issued: Vec<(u32, Option<u32>, u64)>,
    /// For each slot of a ring, the step of the last wait.
    steps: HashMap<(&'static str, u32), u32>,
    /// Time since which wgmmas are in flight.
    mma: Option<u64>,
    /// End of the last wgmma.
    mma_until: u64,
    /// Whether the actor issues wgmmas.
    multiplies: bool,
    /// Whether the actor has issued wgmmas and all are retired.
    multiplied: bool,
    begun: bool,
}

impl Builder {
    fn push(
        &mut self,
        until: u64,
        kind: Kind,
        slot: Option<u32>,
        name: String,
        args: Map<String, Value>,
    ) {
        if until > self.at {
            self.slices.push(Slice { row: 0, from: self.at, until, kind, slot, name, args });
            self.at = until;
        }
    }

    /// Adds the time up to `until` as work.
    fn work(&mut self, until: u64) {
        let issued = std::mem::take(&mut self.issued);
        if let Some(&(slot, step, _)) = issued.first() {
            let bytes: u64 = issued.iter().map(|i| i.2).sum();
            let of = step.map_or_else(String::new, |step| format!(" step {step},"));
            let name = format!("issues{of} {} copies, {bytes} bytes", issued.len());
            let fields = [("slot", json!(slot)), ("step", json!(step)), ("bytes", json!(bytes))];
            self.push(until, Kind::Issue, Some(slot), name, object(&fields));
        } else if self.mma.is_some() {
            self.push(until, Kind::Mma, None, "wgmma in flight".to_owned(), Map::new());
        } else {
            let name = match (self.begun, self.multiplies, self.multiplied) {
                (false, ..) => "sets up",
                (true, true, true) => "epilogue",
                _ => "works",
            };
            self.push(until, Kind::Work, None, name.to_owned(), Map::new());
        }
    }

    /// Adds special functions of a thread.
    fn special(&mut self, e: &Event, count: u32) {
        self.work(e.from);
        let mma = if self.mma.is_some() { "; wgmmas in flight" } else { "" };
        self.push(
            e.until,
            Kind::Special,
            None,
            format!("{count} special functions{mma}"),
            Map::new(),
        );
    }

    /// Adds a wait. `of` is its slot and step.
    fn wait(&mut self, e: &Event, of: Option<(u32, u32)>, name: String) {
        self.work(e.from);
        let busy = e.until.min(self.mma_until);
        let slot = of.map(|(slot, _)| slot);
        let args = object(&[
            ("slot", json!(slot)),
            ("step", json!(of.map(|(_, step)| step))),
            ("line", json!(e.at.map(|at| at.to_string()))),
        ]);
        if self.mma.is_some() {
            let busy_name = format!("{name}; wgmmas in flight");
            self.push(busy, Kind::WaitMma, slot, busy_name, args.clone());
        }
        self.push(e.until, Kind::Wait, slot, name, args);
    }
}

impl Actor {
    /// The actor's lane.
    pub fn lane(&self, source: &Source<'_>, all: &[Self]) -> Lane {
        let trace = source.trace;
        let mine = |e: &&Event| {
            e.thread == self.thread || (self.has(e.thread) && matches!(e.what, What::Wgmma { .. }))
        };
        let mut events: Vec<&Event> = trace.events.iter().filter(mine).collect();
        events.sort_by_key(|e| (e.from, e.step));
        let multiplies = events.iter().any(|e| matches!(e.what, What::Wgmma { .. }));
        let mut b = Builder {
            slices: Vec::new(),
            at: 0,
            issued: Vec::new(),
            steps: HashMap::new(),
            mma: None,
            mma_until: 0,
            multiplies,
            multiplied: false,
            begun: false,
        };
        for e in events {
            match e.what {
                What::Wait { barrier, phase } => {
                    let ring = source.ring(barrier);
                    let at = ring.map(|r| (r.slot, r.step(phase)));
                    b.wait(e, at, because(source, all, e));
                    // The time before the first slot is the set-up.
                    b.begun |= ring.is_some();
                    if let (Some(r), Some((_, step))) = (ring, at) {
                        b.steps.insert((r.ring, r.slot), step);
                    }
                }
                What::Load { barrier, bytes, .. } => {
                    let ring = source.ring(barrier);
                    let step = ring.and_then(|r| b.steps.get(&(r.ring, r.slot)).copied());
                    let slot = ring.map_or(0, |r| r.slot);
                    b.issued.push((slot, step, u64::from(bytes)));
                    b.begun = true;
                }
                What::Wgmma { .. } => {
                    b.work(e.from.saturating_sub(cycles::INSTRUCTION));
                    b.mma.get_or_insert(e.from);
                    b.mma_until = b.mma_until.max(e.until);
                    b.multiplied = false;
                }
                What::WgmmaWait { left } => {
                    b.work(e.until);
                    if left == 0 {
                        b.mma = None;
                        b.multiplied = true;
                    }
                }
                What::StoreWait { read, .. } => {
                    let what = if read { "read" } else { "written" };
                    b.wait(e, None, format!("waits for stores to be {what}"));
                }
                What::Special { count } => b.special(e, count),
                What::CopyWait { .. } => b.wait(e, None, "waits for cp.async".to_owned()),
                What::Sync { id } => b.wait(e, None, format!("waits at named barrier {id}")),
                What::ClusterWait => b.wait(e, None, "waits for the cluster".to_owned()),
                _ => {}
            }
        }
        b.work(trace.threads[self.thread as usize].end);
        Lane { name: self.name.clone(), place: self.place, rows: 1, slices: b.slices }
    }
}
