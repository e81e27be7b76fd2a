//! Store buffers of every depth, with every number of stores that may still be reading, on the SM
//! model.
#![allow(missing_docs)]

use crate::common::{Image, run};
use half::bf16;
use pipeline::prelude::*;
use pipeline::store::ALL_BUT_ONE;
use sim::GlobalMemory;

roles! { Idle = 1 x 40 registers, Write = 2 x 232 registers }

type ThisCta<P> = Cta<(Idle, Write), Cluster<1, 1>, P>;
type Panel = Tile<bf16, 64, 64>;
type Plan<const DEPTH: usize, const UNACQUIRED: usize> =
    SmemPlan<(StoreBuffers<bf16, DEPTH, Write, UNACQUIRED>,)>;

/// What every value of fragment `fragment` of panel `panel` is.
fn value(panel: u32, fragment: usize) -> f32 {
    ((4 * panel) % 256) as f32 + fragment as f32
}

/// Group g writes panels g, g + 2, …, without a pause in between.
fn write<const DEPTH: usize, const UNACQUIRED: usize>(
    cta: ThisCta<Plan<DEPTH, UNACQUIRED>>,
    to: &TensorMap<Panel>,
    panels: u32,
) {
    let (cta, (stores,)) = cta.init();
    cta.specialize(
        |_| {},
        |group| {
            let mut stores = stores.by(&group);
            for panel in (group.index()..panels).step_by(2) {
                let mut out = stores.acquire();
                for fragment in 0..4 {
                    out.put(fragment, [value(panel, fragment); 8]);
                }
                out.publish().store(to, 64 * panel, 0);
            }
            stores.tail();
        },
    );
}

fn check<const DEPTH: usize, const UNACQUIRED: usize>() {
    // Each group: none, one, as many as buffers, one more, several rounds. How soon a store reads is
    // up to the seed: of these, some let it wait for long.
    let depth = DEPTH as u32;
    let panels = [0, 1, 2 * depth, 2 * depth + 1, 7 * depth + 3];
    for (seed, panels) in (0..24).zip(panels.into_iter().cycle()) {
        let memory = GlobalMemory::new();
        let to = Image::new(&memory, 64 * panels.max(1) as usize, 64, |_| f32::NAN);
        let map = to.map();
        let kernel = |cta| write::<DEPTH, UNACQUIRED>(cta, &map, panels);
        run(seed, &memory, kernel)
            .unwrap_or_else(|report| panic!("{DEPTH} buffers, {UNACQUIRED} reading:\n{report}"));
        for (at, x) in to.read().into_iter().enumerate().take(64 * 64 * panels as usize) {
            let (row, col) = (at / 64, at % 64);
            let want = value(row as u32 / 64, col / 16);
            assert!(
                x.to_bits() == want.to_bits(),
                "{DEPTH} by {UNACQUIRED}: ({row}, {col}) is {x}, not {want}"
            );
        }
    }
}

macro_rules! depths {
    ($($depth:literal: $($unacquired:literal)*;)+) => {$(
        check::<$depth, ALL_BUT_ONE>();
        $(check::<$depth, $unacquired>();)*
    )+};
}

/// One group writes panels, one by one or all buffers at once, by turns that differ: whichever buffer's
/// turn it is, what is lent is never what a store still reads.
#[test]
fn all_buffers_at_once_and_one_by_one() {
    roles! { Rest = 1 x 40 registers, One = 1 x 232 registers }
    const DEPTH: usize = 3;
    const PANELS: u32 = 25;
    type Plan = SmemPlan<(StoreBuffers<bf16, DEPTH, One>,)>;
    for seed in 0..24u64 {
        let memory = GlobalMemory::new();
        let to = Image::new(&memory, 64, 64 * PANELS as usize, |_| f32::NAN);
        let map = to.map();
        let kernel = |cta: Cta<(Rest, One), Cluster<1, 1>, Plan>| {
            let (cta, (stores,)) = cta.init();
            cta.specialize(
                |_| {},
                |group| {
                    let mut stores = stores.by(&group);
                    let (mut panel, mut turns) = (0, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                    while panel < PANELS {
                        turns = turns.rotate_left(1);
                        let all = turns & 1 == 0 && panel + DEPTH as u32 <= PANELS;
                        if all {
                            let mut out = stores.acquire_all();
                            for fragment in 0..4 * DEPTH {
                                out.put(
                                    fragment,
                                    [value(panel + fragment as u32 / 4, fragment % 4); 8],
                                );
                            }
                            out.publish().store(&map, 0, 64 * panel);
                        } else {
                            let mut out = stores.acquire();
                            for fragment in 0..4 {
                                out.put(fragment, [value(panel, fragment); 8]);
                            }
                            out.publish().store(&map, 0, 64 * panel);
                        }
                        panel += if all { DEPTH as u32 } else { 1 };
                    }
                    stores.tail();
                },
            );
        };
        run(seed, &memory, kernel).unwrap_or_else(|report| panic!("{report}"));
        for (at, x) in to.read().into_iter().enumerate() {
            let col = at % (64 * PANELS as usize);
            let want = value(col as u32 / 64, col % 64 / 16);
            assert!(x.to_bits() == want.to_bits(), "seed {seed}: {at} is {x}, not {want}");
        }
    }
}

#[test]
fn panels_arrive_from_any_number_of_buffers() {
    depths! {
        1: 0;
        2: 0 1;
        3: 0 1 2;
        4: 0 1 2 3;
        5: 0 1 2 3 4;
        13: 5;
    }
}
