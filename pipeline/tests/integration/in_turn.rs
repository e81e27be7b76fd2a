//! Warp groups that read a ring in turn, and what orders them: a group that skips slots before their own
//! reader has waited for them passes its next wait by the parity of an older phase.
#![allow(missing_docs)]

use crate::common::{Image, load_down, run};
use half::bf16;
use pipeline::barrier::OrderedSequence;
use pipeline::prelude::*;
use pipeline::ring::{Consumer, ReadsInTurn};
use sim::{GlobalMemory, Report, Rule};
use std::sync::Mutex;

names! { Panels = "panels", Turns = "turns" }
roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }

type Alone = Cluster<1, 1>;
type Panel = Tile<bf16, 64, 64>;
type InTurn = Ring<2, (Panel,), Tma, ReadsInTurn<Math>, Panels, Alone>;
type Plan = SmemPlan<(InTurn, OrderedSequence<1, Math, Turns>)>;
type ThisCta = Cta<(Load, Math), Alone, Plan>;
type Arrived = Consumer<2, (Panel,), ReadsInTurn<Math>, Panels, Alone>;

/// Panels of a tile; a group reads every other tile.
const DEPTH: u32 = 2;
const TILES: u32 = 6;

/// Reads one tile, and notes the first value of each of its panels.
fn read(
    arrived: &mut Arrived,
    group: &Warpgroup<Math, Alone>,
    tile: u32,
    seen: &Mutex<Vec<(u32, f32)>>,
) {
    for panel in 0..DEPTH {
        let slot = arrived.wait();
        let first = slot.fragment(group, 0)[0];
        slot.release();
        if group.thread() == 0 {
            seen.lock().expect("no thread panics with it").push((DEPTH * tile + panel, first));
        }
    }
}

/// The groups read tiles in turn. Only with `ordered` does a group begin after the other one has read.
fn rotate(cta: ThisCta, from: &TensorMap<Panel>, ordered: bool, seen: &Mutex<Vec<(u32, f32)>>) {
    let (cta, (ring, turns)) = cta.init();
    cta.specialize(
        |load| load_down(load, ring.producer, from, DEPTH * TILES),
        |group| {
            let mut arrived = ring.consumer.by(&group);
            let mut turns = turns.by(&group);
            for tile in 0..TILES {
                if tile % 2 != group.index() {
                    arrived.skip(DEPTH);
                    continue;
                }
                if ordered {
                    let turn = turns.wait();
                    read(&mut arrived, &group, tile, seen);
                    turn.pass_on();
                } else {
                    read(&mut arrived, &group, tile, seen);
                }
            }
        },
    );
}

fn rows() -> (GlobalMemory, TensorMap<Panel>) {
    let memory = GlobalMemory::new();
    let panels = (DEPTH * TILES) as usize;
    let map = Image::new(&memory, 64 * panels, 64, |i| (i / 4096) as f32).map::<Panel, _>();
    (memory, map)
}

/// The report names the ring, and the line that waits.
fn is_early(report: &Report) {
    assert_eq!(report.rule, Rule::Lapped, "{report}");
    let text = report.to_string();
    for part in ["panels.full[", "in_turn.rs:"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A phase is left out that is in progress, or one that is over, of which nothing tells the thread.
    let was = ["has the same parity", "OrderedSequence"].iter().all(|part| text.contains(part));
    assert!(was || text.contains("leaves out a phase that may be in progress"), "{text}");
}

#[test]
fn a_group_that_skips_a_whole_ring_first_is_reported() {
    /// Nothing is loaded. The wait passes on the fresh barrier.
    fn kernel(cta: ThisCta) {
        let (cta, (ring, _turns)) = cta.init();
        cta.specialize(
            |_load| {},
            |group| {
                let mut arrived = ring.consumer.by(&group);
                arrived.skip(2);
                let slot = arrived.wait();
                let _garbage = slot.fragment(&group, 0);
                slot.release();
            },
        );
    }
    for seed in 0..100 {
        let memory = GlobalMemory::new();
        is_early(&run(seed, &memory, kernel).expect_err("the slot is not full"));
    }
}

#[test]
fn a_test_that_passes_early_is_reported_when_the_slot_is_taken() {
    fn kernel(cta: ThisCta) {
        let (cta, (ring, _turns)) = cta.init();
        cta.specialize(
            |_load| {},
            |group| {
                let mut arrived = ring.consumer.by(&group);
                arrived.skip(2);
                arrived.test_wait().wait().release();
            },
        );
    }
    for seed in 0..10 {
        is_early(&run(seed, &GlobalMemory::new(), kernel).expect_err("the slot is not full"));
    }
}

#[test]
fn groups_without_an_order_are_reported_and_with_one_they_read_every_panel() {
    let (memory, map) = rows();
    let unordered = |seed| run(seed, &memory, |cta| rotate(cta, &map, false, &Mutex::default()));
    let reports: Vec<_> = (0..100).filter_map(|seed| unordered(seed).err()).collect();
    for report in &reports {
        is_early(report);
    }
    assert_eq!(reports.len(), 100, "seeds of 100 that show it");

    for seed in 0..100 {
        let seen = Mutex::default();
        run(seed, &memory, |cta| rotate(cta, &map, true, &seen))
            .unwrap_or_else(|report| panic!("{report}"));
        let mut seen = seen.into_inner().expect("no thread panicked with it");
        seen.sort_by_key(|(panel, _)| *panel);
        let right: Vec<_> = (0..DEPTH * TILES).map(|panel| (panel, panel as f32)).collect();
        assert_eq!(seen, right, "seed {seed}");
    }
}
