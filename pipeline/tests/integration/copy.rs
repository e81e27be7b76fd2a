//! A stream copy through a ring, on the SM model: every stage count, step counts from none to many,
//! several schedules; the oracle is the data.

use crate::common::{Image, load_down, run};
use half::bf16;
use pipeline::prelude::*;
use sim::GlobalMemory;

names! { Copy = "copy" }

roles! { Load = 1 x 40 registers, Copier = 1 x 232 registers }

type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type Plan<const STAGES: usize> = SmemPlan<(
    Ring<STAGES, (Panel,), Tma, Reads<Copier>, Copy, Alone>,
    StoreBuffers<bf16, 2, Copier>,
)>;

/// Copies `steps` panels of 64 rows: TMA in, registers, TMA out.
fn copy<const STAGES: usize>(
    cta: Cta<(Load, Copier), Alone, Plan<STAGES>>,
    from: &TensorMap<Panel>,
    to: &TensorMap<Panel>,
    steps: u32,
) {
    let (cta, (ring, stores)) = cta.init();
    cta.specialize(
        |load| load_down(load, ring.producer, from, steps),
        |group| {
            let mut panels = ring.consumer.by(&group);
            let mut stores = stores.by(&group);
            for step in 0..steps {
                let panel = panels.wait();
                let mut out = stores.acquire();
                for fragment in 0..4 {
                    out.put(fragment, panel.fragment(&group, fragment));
                }
                panel.release();
                out.publish().store(to, 64 * step, 0);
            }
            stores.tail();
        },
    );
}

fn check<const STAGES: usize>(steps: u32, seed: u64) {
    // Rows and columns that don't fill the last panel: zero fill on the way in, clipping out.
    let (rows, cols) = ((64 * steps as usize).saturating_sub(5).max(1), 56);
    let memory = GlobalMemory::new();
    let from = Image::new(&memory, rows, cols, |i| (i % 251) as f32);
    let to = Image::new(&memory, rows, cols, |_| f32::NAN);
    let (source, target) = (from.map::<Panel, _>(), to.map::<Panel, _>());
    run(seed, &memory, |cta| copy::<STAGES>(cta, &source, &target, steps))
        .unwrap_or_else(|report| panic!("{STAGES} stages, {steps} steps, seed {seed}:\n{report}"));
    if steps > 0 {
        assert_eq!(from.read(), to.read(), "{STAGES} stages, {steps} steps, seed {seed}");
    }
}

#[test]
fn every_stage_count_copies_every_panel() {
    for steps in [0, 1, 2, 3, 7, 20] {
        check::<1>(steps, 1);
        check::<2>(steps, 2);
        check::<3>(steps, 3);
        check::<4>(steps, 4);
        check::<7>(steps, 5);
        check::<11>(steps, 6);
    }
}

#[test]
fn the_schedule_does_not_matter() {
    for seed in 0..20 {
        check::<3>(9, seed);
    }
}
