//! Whose loads go first: load-order barriers of both starts on the SM model.
#![allow(missing_docs)]

use crate::common::run;
use pipeline::barrier::{EpilogueFirst, LoadOrderBarrier, MainLoopFirst, Start};
use pipeline::prelude::*;
use pipeline::ring::Name;
use sim::{GlobalMemory, Report, Rule};
use std::sync::Mutex;

names! { There = "main loop to epilogue", Back = "epilogue to main loop" }
roles! { Load = 1 x 40 registers, Idle = 1 x 40 registers }

type ThisCta<P> = Cta<(Load, Idle), Cluster<1, 1>, P>;
type OneWay<F> = SmemPlan<(LoadOrderBarrier<There, 1, F>,)>;
type BothWays<F, G> = SmemPlan<(LoadOrderBarrier<There, 1, F>, LoadOrderBarrier<Back, 1, G>)>;

/// Which warp did which step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    MainLoop(u32),
    Epilogue(u32),
}
use Did::{Epilogue, MainLoop};

/// One step each: what the two warps did, in order.
fn one_step<F: Start>(seed: u64) -> Vec<Did> {
    let log = Mutex::new(Vec::new());
    run(seed, &GlobalMemory::new(), |cta: ThisCta<OneWay<F>>| {
        let (cta, (order,)) = cta.init();
        cta.specialize(
            |load| {
                load.two_warps(
                    |warp| {
                        let Some(one) = warp.elect() else { return };
                        let mut order = order.main_loop.by(&one);
                        log.lock().unwrap().push(MainLoop(0));
                        order.arrive_and_step();
                    },
                    |warp| {
                        let Some(one) = warp.elect() else { return };
                        let mut order = order.epilogue.by(&one);
                        order.wait_and_step();
                        log.lock().unwrap().push(Epilogue(0));
                    },
                );
            },
            |_| {},
        );
    })
    .unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
    log.into_inner().unwrap()
}

#[test]
fn the_first_step_of_the_epilogue_waits_or_passes() {
    let (mut main_loop, mut epilogue) = (0, 0);
    for seed in 0..40 {
        assert_eq!(one_step::<MainLoopFirst>(seed), [MainLoop(0), Epilogue(0)], "seed {seed}");
        match one_step::<EpilogueFirst>(seed)[0] {
            MainLoop(_) => main_loop += 1,
            Epilogue(_) => epilogue += 1,
        }
    }
    assert!(main_loop > 0 && epilogue > 0, "{main_loop} and {epilogue} of 40 schedules");
}

/// Two barriers, one in each direction: the warps wait for each other, `steps` times.
fn in_turn<F: Start, G: Start>(seed: u64, steps: u32) -> Result<Vec<Did>, Box<Report>> {
    let log = Mutex::new(Vec::new());
    run(seed, &GlobalMemory::new(), |cta: ThisCta<BothWays<F, G>>| {
        let (cta, (there, back)) = cta.init();
        cta.specialize(
            |load| {
                load.two_warps(
                    |warp| {
                        let Some(one) = warp.elect() else { return };
                        let (mut mine, mut other) =
                            (back.epilogue.by(&one), there.main_loop.by(&one));
                        for step in 0..steps {
                            mine.wait_and_step();
                            log.lock().unwrap().push(MainLoop(step));
                            other.arrive_and_step();
                        }
                    },
                    |warp| {
                        let Some(one) = warp.elect() else { return };
                        let (mut mine, mut other) =
                            (there.epilogue.by(&one), back.main_loop.by(&one));
                        for step in 0..steps {
                            mine.wait_and_step();
                            log.lock().unwrap().push(Epilogue(step));
                            other.arrive_and_step();
                        }
                    },
                );
            },
            |_| {},
        );
    })?;
    Ok(log.into_inner().unwrap())
}

#[test]
fn opposite_starts_take_turns() {
    for (seed, steps) in (0..6).flat_map(|seed| [0, 1, 2, 7].map(|steps| (seed, steps))) {
        let have = in_turn::<MainLoopFirst, EpilogueFirst>(seed, steps).expect("no finding");
        let want: Vec<Did> = (0..steps).flat_map(|i| [MainLoop(i), Epilogue(i)]).collect();
        assert_eq!(have, want, "main loop first, seed {seed}");
        let have = in_turn::<EpilogueFirst, MainLoopFirst>(seed, steps).expect("no finding");
        let want: Vec<Did> = (0..steps).flat_map(|i| [Epilogue(i), MainLoop(i)]).collect();
        assert_eq!(have, want, "epilogue first, seed {seed}");
    }
}

#[test]
fn two_that_both_go_second_never_start() {
    for seed in 0..6 {
        let report = in_turn::<MainLoopFirst, MainLoopFirst>(seed, 1).expect_err("a deadlock");
        assert_eq!(report.rule, Rule::Deadlock, "{report}");
        let text = report.to_string();
        assert!(text.contains(There::NAME) && text.contains(Back::NAME), "{text}");
    }
}
