//! Protocol mistakes that types can't stop, planted: the model must name them.
#![allow(missing_docs)]

use crate::common::{Image, run};
use half::bf16;
use pipeline::barrier::LoadOrderBarrier;
use pipeline::prelude::*;
use sim::{GlobalMemory, Rule};

names! { Operands = "operands", Order = "load order" }
roles! { Load = 1 x 40 registers, Math = 1 x 232 registers }

type Alone = Cluster<1, 1>;
type ThisCta<P> = Cta<(Load, Math), Alone, P>;
type TileA = Tile<bf16, 64, 64>;
type TileB = Tile<bf16, 32, 64>;
type Product<const STAGES: usize> =
    SmemPlan<(Ring<STAGES, (TileA, TileB), Tma, Mma<Math>, Operands, Alone>,)>;

/// Keeps one batch in flight, and with it a slot, while it waits for the next.
fn lagging<const STAGES: usize>(
    cta: ThisCta<Product<STAGES>>,
    a: &TensorMap<TileA>,
    b: &TensorMap<TileB>,
) {
    let (cta, (ring,)) = cta.init();
    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for k in 0..2 {
                    loads
                        .acquire()
                        .load((a.tile(0, 64 * k, Peers::ALONE), b.tile(0, 64 * k, Peers::ALONE)));
                }
                loads.tail();
            });
        },
        |group| {
            let mut operands = ring.consumer.by(&group);
            let mut sum = Accumulator::<32>::start(&group, operands.wait());
            sum.next(operands.wait()).release();
            let (_, last) = sum.finish();
            last.release();
        },
    );
}

#[test]
fn a_lag_of_one_needs_two_stages() {
    let memory = GlobalMemory::new();
    let a = Image::new(&memory, 64, 128, |i| (i % 5) as f32);
    let b = Image::new(&memory, 32, 128, |i| (i % 3) as f32);
    let (a, b) = (a.map::<TileA, _>(), b.map::<TileB, _>());
    for seed in 0..5 {
        let kernel = |cta| lagging::<1>(cta, &a, &b);
        let report = run(seed, &memory, kernel).expect_err("a deadlock");
        assert_eq!(report.rule, Rule::Deadlock, "{report}");
        let text = report.to_string();
        assert!(text.contains("operands.full") && text.contains("operands.empty"), "{text}");
        // Both sides' waits, and where they close.
        let [one, other, closes] = &report.waits[..] else { panic!("{report}") };
        for part in ["(Load) waits", "(Math) wait", "have not released the slot", "planted.rs:"] {
            assert!(format!("{one} {other}").contains(part), "{part}: {report}");
        }
        assert!(closes.starts_with("which closes the cycle"), "{report}");
        let kernel = |cta| lagging::<2>(cta, &a, &b);
        run(seed, &memory, kernel).unwrap_or_else(|report| panic!("{report}"));
    }
}

type Orders = SmemPlan<(LoadOrderBarrier<Order>,)>;

/// Arrives once per tile with nothing that keeps it from running ahead.
fn unbounded(cta: ThisCta<Orders>, tiles: u32) {
    let (cta, (order,)) = cta.init();
    cta.specialize(
        |load| {
            load.two_warps(
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let mut order = order.main_loop.by(&one);
                    for _ in 0..tiles {
                        order.arrive_and_step();
                    }
                },
                |warp| {
                    let Some(one) = warp.elect() else { return };
                    let mut order = order.epilogue.by(&one);
                    for _ in 0..tiles {
                        order.wait_and_step();
                    }
                },
            );
        },
        |_| {},
    );
}

#[test]
fn an_arriver_two_ahead_is_reported() {
    let memory = GlobalMemory::new();
    // Once per kernel there is nothing to lap.
    for seed in 0..10 {
        run(seed, &memory, |cta| unbounded(cta, 1)).unwrap_or_else(|report| panic!("{report}"));
    }
    let rules: Vec<Rule> = (0..20)
        .filter_map(|seed| run(seed, &memory, |cta| unbounded(cta, 6)).err())
        .map(|report| report.rule)
        .collect();
    assert!(rules.contains(&Rule::Lapped), "{rules:?}");
}

/// Every line of a report is the kernel's: none is of `pipeline` or `isa`.
fn kernel_lines(report: &sim::Report) {
    let json = report.to_json();
    for library in ["pipeline/src", "isa/src", "sim/src"] {
        assert!(!json.contains(library), "{library} in {json}");
    }
    assert!(json.contains("planted.rs"), "{json}");
}

#[test]
fn initialisations_are_the_plans_line() {
    let line = line!() + 2;
    let kernel = |cta: ThisCta<Orders>| {
        let (cta, (order,)) = cta.init();
        cta.specialize(
            |load| {
                load.elect(|one| {
                    // Nobody arrives.
                    order.epilogue.by(&one).wait_and_step();
                });
            },
            |_| {},
        );
    };
    let report = run(0, &GlobalMemory::new(), kernel).expect_err("a wait without an arrival");
    assert_eq!(report.rule, Rule::Deadlock, "{report}");
    let [barrier] = &report.barriers[..] else { panic!("{report}") };
    let init = barrier.init.expect("a line");
    assert!(init.file.ends_with("planted.rs") && init.line == line, "{init}, not {line}: {report}");
    kernel_lines(&report);
}
