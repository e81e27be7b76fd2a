//! A ring filled by `cp.async`, on the SM model: several stage and step counts, one and two groups
//! that copy, tiles over the matrix's edges, many schedules; the oracle is the data.
#![allow(missing_docs)]

use crate::common::{Image, run};
use half::bf16;
use isa::slice::DeviceSlice;
use pipeline::prelude::*;
use pipeline::ring::CpAsync;
use pipeline::tile::MatrixView;
use sim::{GlobalMemory, Rule};

names! { Copy = "copy" }
roles! {
    Fetch = 1 x 40 registers,
    Fetch2 = 2 x 40 registers,
    Work = 1 x 232 registers,
}

type Panel = Tile<bf16, 64, 64>;
/// Fewer chunks than a group has threads.
type Narrow = Tile<bf16, 8, 64>;
type Alone = Cluster<1, 1>;
type Pairs = SmemPlan<(Ring<2, (Panel, Narrow), CpAsync<Fetch>, Reads<Work>, Copy, Alone>,)>;
type Panels<const STAGES: usize> = SmemPlan<(
    Ring<STAGES, [Panel; 2], CpAsync<Fetch2>, Reads<Work>, Copy, Alone>,
    StoreBuffers<bf16, 2, Work>,
)>;

/// Rows and columns of the matrix, and elements from row to row.
#[derive(Clone, Copy)]
struct Shape {
    rows: u32,
    cols: u32,
    pitch: u32,
}

/// Copies `steps` pairs of panels side by side, every second slot after a look.
fn pairs<const STAGES: usize>(
    cta: Cta<(Fetch2, Work), Alone, Panels<STAGES>>,
    from: DeviceSlice<bf16>,
    shape: Shape,
    to: &TensorMap<Panel>,
    steps: u32,
) {
    let from = MatrixView::new(from, shape.rows, shape.cols, shape.pitch);
    let (cta, (ring, stores)) = cta.init();
    cta.specialize(
        |group| {
            let mut slots = ring.producer.by(&group);
            for step in 0..steps {
                let slot =
                    if step % 2 == 0 { slots.acquire() } else { slots.try_acquire().acquire() };
                slot.copy([from.tile(64 * step, 0), from.tile(64 * step, 64)]).commit();
            }
            slots.tail();
        },
        |group| {
            let (mut arrived, mut stores) = (ring.consumer.by(&group), stores.by(&group));
            for step in 0..steps {
                let slot = arrived.wait();
                for panel in 0..2 {
                    let mut out = stores.acquire();
                    for fragment in 0..4 {
                        out.put(fragment, slot.fragment(&group, panel, fragment));
                    }
                    out.publish().store(to, 64 * step, 64 * panel as u32);
                }
                slot.release();
            }
            stores.tail();
        },
    );
}

fn check<const STAGES: usize>(steps: u32, seed: u64) {
    let case = format!("{STAGES} stages, {steps} steps, seed {seed}");
    // The last panel has rows and columns outside of the matrix: a whole chunk and part of one.
    let rows = (64 * steps).saturating_sub(5).max(1);
    let shape = Shape { rows, cols: 115, pitch: 128 };
    let memory = GlobalMemory::new();
    let from = Image::new(&memory, rows as usize, 128, |i| (i % 251) as f32 + 1.0);
    let to = Image::new(&memory, 64 * steps.max(1) as usize, 128, |_| f32::NAN);
    let target = to.map();
    run(seed, &memory, |cta| {
        pairs::<STAGES>(cta, from.slice(), shape, &target, steps);
    })
    .unwrap_or_else(|report| panic!("{case}:\n{report}"));
    if steps == 0 {
        return;
    }
    let (from, to) = (from.read(), to.read());
    let inside = |at: usize| at < from.len() && at % 128 < 115;
    let want: Vec<f32> = (0..to.len()).map(|at| if inside(at) { from[at] } else { 0.0 }).collect();
    assert!(to == want, "{case}: another matrix came out");
}

#[test]
fn every_stage_count_copies_every_panel() {
    for steps in [0, 1, 2, 3, 7] {
        check::<1>(steps, 1);
        check::<2>(steps, 2);
        check::<3>(steps, 3);
        check::<5>(steps, 4);
    }
}

#[test]
fn the_schedule_does_not_matter() {
    for seed in 0..20 {
        check::<2>(5, seed);
    }
}

/// Slots of two tiles, of which the second has fewer chunks than the group has threads.
fn run_narrow(seed: u64, col: u32) -> Result<sim::Stats, Box<sim::Report>> {
    let memory = GlobalMemory::new();
    let from = Image::new(&memory, 64, 64, |i| i as f32);
    run(seed, &memory, |cta: Cta<(Fetch, Work), Alone, Pairs>| {
        let (cta, (ring,)) = cta.init();
        cta.specialize(
            |group| {
                let from = MatrixView::new(from.slice(), 64, 64, 64);
                let mut slots = ring.producer.by(&group);
                for _ in 0..3 {
                    slots.acquire().copy((from.tile(0, col), from.tile(8, 0))).commit();
                }
                slots.tail();
            },
            |group| {
                let mut arrived = ring.consumer.by(&group);
                for _ in 0..3 {
                    arrived.wait().release();
                }
            },
        );
    })
}

#[test]
fn threads_without_a_copy_arrive_all_the_same() {
    for seed in 0..10 {
        run_narrow(seed, 0).unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
    }
}

#[test]
fn a_column_that_cp_async_cannot_read_traps() {
    assert_eq!(run_narrow(0, 4).expect_err("8 bytes off").rule, Rule::Trap);
}

#[test]
fn a_view_beyond_its_slice_traps() {
    let memory = GlobalMemory::new();
    let from = Image::new(&memory, 64, 64, |i| i as f32);
    // One row too many; more columns than the pitch; a pitch that is no multiple of 16 bytes.
    for (rows, cols, pitch) in [(65, 64, 64), (2, 72, 64), (2, 60, 60)] {
        let report = run(0, &memory, |_: Cta<(Fetch, Work), Alone>| {
            let _ = MatrixView::new(from.slice(), rows, cols, pitch);
        });
        assert_eq!(report.expect_err("refused").rule, Rule::Trap, "{rows} {cols} {pitch}");
    }
    run(0, &memory, |_: Cta<(Fetch, Work), Alone>| {
        let _ = MatrixView::new(from.slice(), 64, 64, 64);
        let _ = MatrixView::new(from.slice(), 0, 8, 8);
    })
    .unwrap_or_else(|report| panic!("{report}"));
}
