//! What reports say: the thread, the line and the barrier that explain a finding stand in its first lines.

use crate::common::{Map, Shape, breaks, breaks_on, run_on, smem, tensor, tid};
use sim::ops::cp_async_bulk as bulk;
use sim::ops::{barrier, debug, fence, mbarrier, setmaxnreg, shared, thread, warp};
use sim::{Finding, GlobalMemory, Report, Rule};

/// Address of a ring's `full` and `empty` of a stage.
fn full(stage: u32) -> u32 {
    smem(16 * stage)
}

fn empty(stage: u32) -> u32 {
    smem(16 * stage + 8)
}

/// A ring of two stages whose barriers have these counts, with names or without.
fn ring(counts: (u32, u32), named: bool) {
    if tid() == 0 {
        for stage in 0..2 {
            mbarrier::init(full(stage), counts.0);
            mbarrier::init(empty(stage), counts.1);
            if named {
                debug::label_barrier(full(stage), "tiles.full", stage);
                debug::label_barrier(empty(stage), "tiles.empty", stage);
            }
        }
        fence::mbarrier_init_release_cluster();
    }
    thread::sync_threads();
}

fn lane_0_of_warp_0() -> bool {
    tid() == 0
}

/// The line of this file that holds a mark.
fn line_of(mark: &str) -> String {
    let lines = include_str!("words.rs").lines();
    let line = 1 + lines.take_while(|l| !l.contains(&format!("// {mark}"))).count();
    format!("words.rs:{line}")
}

#[track_caller]
fn says(text: &str, parts: &[&str], report: &Report) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?} of\n{report}");
    }
}

#[track_caller]
fn message_says(report: &Report, parts: &[&str]) {
    says(&report.message, parts, report);
}

#[test]
fn a_role_that_has_returned_is_named_with_its_last_line() {
    let report = breaks(Rule::Deadlock, Shape(96, 1, 1024), || {
        ring((1, 64), true);
        if warp::warp_id() == 0 {
            debug::label_role("Load");
            for step in 0..4 {
                if lane_0_of_warp_0() {
                    mbarrier::wait_parity(empty(step % 2), (step / 2) ^ 1); // LOAD WAITS
                    mbarrier::arrive(full(step % 2));
                }
            }
        } else {
            debug::label_role("Math");
            for step in 0..4 {
                mbarrier::wait_parity(full(step % 2), step / 2);
                let last = warp::warp_id(); // MATH LEAVES
                if step == 1 && last == 2 {
                    return;
                }
                mbarrier::arrive(empty(step % 2)); // MATH RELEASES
            }
        }
    });
    // Stage 0 was released once by both warps. Stage 1 has the arrivals of one, and so is stage 0 later.
    message_says(
        &report,
        &["CTA 0, warp 0, lane 0 (Load) waits at", &line_of("LOAD WAITS"), "`tiles.empty["],
    );
    message_says(&report, &["CTA 0, warp 2 (Math)", "and has returned, after "]);
    message_says(&report, &[&line_of("MATH LEAVES")]);
    assert!(report.waits.iter().all(|l| !l.contains("itself")), "{report}");
    let page = report.to_string();
    says(&page, &["CTA 0, warp 2 (Math) has returned, after "], &report);
    assert!(!page.contains("no thread has arrived"), "{page}");
}

/// The slot that is kept, with names and without.
#[test]
fn a_forgotten_release_names_the_slot_and_where_it_was_taken() {
    for named in [true, false] {
        let report = breaks(Rule::Deadlock, Shape(64, 1, 1024), || {
            ring((1, 32), named);
            for step in 0..6 {
                let (stage, phase) = (step % 2, (step / 2) & 1);
                if lane_0_of_warp_0() {
                    mbarrier::wait_parity(empty(stage), phase ^ 1); // ASKS FOR THE SLOT
                    mbarrier::arrive(full(stage));
                } else if warp::warp_id() == 1 {
                    debug::label_role("Math");
                    mbarrier::wait_parity(full(stage), phase); // TAKES THE SLOT
                    if step != 3 {
                        mbarrier::arrive(empty(stage));
                    }
                }
            }
        });
        let (kept, taken) = if named {
            ("phase 1 (parity 1) of `tiles.empty[1]`", "with phase 1 of `tiles.full[1]`")
        } else {
            ("phase 1 (parity 1) of mbarrier at 0x418", "with phase 1 of mbarrier at 0x410")
        };
        let (asks, takes) = (line_of("ASKS FOR THE SLOT"), line_of("TAKES THE SLOT"));
        says(&report.to_string(), &["(in a ring: `release`) for each wait on"], &report);
        message_says(
            &report,
            &[&asks, kept, "CTA 0, warp 1 (Math), which has not released the slot", &takes, taken],
        );
    }
}

#[test]
fn a_count_too_low_is_named_by_a_race() {
    let mut rules = Vec::new();
    for seed in 0..60 {
        let kernel = || {
            ring((127, 1), true);
            if tid() < 128 {
                shared::st(smem(256 + 4 * tid()), tid());
                mbarrier::arrive(full(0));
            } else if tid() == 128 {
                mbarrier::wait_parity(full(0), 0); // READER WAITS
                for i in (0..128).rev() {
                    shared::ld::<u32>(smem(256 + 4 * i));
                }
            }
        };
        let Err(report) = run_on(&GlobalMemory::new(), seed, Shape(160, 1, 1024), kernel) else {
            panic!("seed {seed}")
        };
        rules.push(report.rule);
        let page = report.to_string();
        says(&page, &["128 threads arrive on", "`tiles.full[0]`", "has count 127"], &report);
        says(&page, &[&line_of("READER WAITS")], &report);
        if report.rule == Rule::SharedRace {
            let parts =
                ["phase 0 (parity 0) of `tiles.full[0]`, for which CTA 0, warp 4, lane 0 waited"];
            message_says(&report, &parts);
        }
    }
    assert!(rules.contains(&Rule::SharedRace), "{rules:?}");
}

#[test]
fn a_count_too_high_is_named_by_a_deadlock() {
    let report = breaks(Rule::Deadlock, Shape(160, 1, 1024), || {
        ring((129, 1), true);
        if tid() < 128 {
            mbarrier::arrive(full(0));
        } else {
            mbarrier::wait_parity(full(0), 0);
        }
    });
    message_says(
        &report,
        &["`tiles.full[0]`", "lacks 1 of 129 arrivals", "all 128 threads that arrive", "too high"],
    );
}

/// Of two warp groups that each arrive by one thread, one ends early: the threads of the other group are not to blame.
#[test]
fn a_warp_group_that_ends_early_is_named_alone() {
    let report = breaks(Rule::Deadlock, Shape(384, 1, 1024), || {
        ring((1, 2), true);
        if warp::warp_id() < 4 {
            if tid() == 0 {
                mbarrier::wait_parity(empty(1), 0);
            }
            return;
        }
        debug::label_role("Math");
        if warp::warp_id() < 8 && tid().is_multiple_of(128) {
            mbarrier::arrive(empty(1));
        }
    });
    let page = report.to_string();
    let parts = [
        "lacks 1 of 2 arrivals, due from CTA 0, warp 8, lane 0 (Math), which returned without arriving (CTA 0, warp 4, \
         lane 0 (Math) has)",
    ];
    says(&page, &parts, &report);
}

/// Two warps of one role: one waits for the other.
#[test]
fn warps_of_a_role_that_wait_for_each_other_are_told_apart() {
    let report = breaks(Rule::Deadlock, Shape(96, 1, 1024), || {
        ring((1, 32), true);
        if warp::warp_id() == 2 {
            debug::label_role("Math");
            mbarrier::arrive(empty(1)); // MATH RELEASES ONCE
            return;
        }
        debug::label_role("Load");
        if lane_0_of_warp_0() {
            for phase in [0, 1] {
                mbarrier::wait_parity(full(0), phase);
            }
        } else if tid() == 32 {
            for phase in [0, 1] {
                mbarrier::wait_parity(empty(1), phase);
                mbarrier::arrive(full(0));
            }
        }
    });
    let [first, second, end] = &report.waits[..] else { panic!("{report}") };
    says(first, &["CTA 0, warp 0, lane 0 (Load) waits", "CTA 0, warp 1, lane 0 (Load)"], &report);
    says(second, &["CTA 0, warp 1, lane 0 (Load) waits", "CTA 0, warp 2 (Math)"], &report);
    says(end, &["CTA 0, warp 2 (Math) has returned", &line_of("MATH RELEASES ONCE")], &report);
}

#[test]
fn a_named_barrier_names_those_who_have_not_come() {
    let report = breaks(Rule::Deadlock, Shape(64, 1, 1024), || {
        ring((1, 1), true);
        debug::label_named_barrier(0, "turns");
        if warp::warp_id() == 0 {
            barrier::sync(0, 64);
        } else {
            mbarrier::wait_parity(full(0), 0); // WAITS ELSEWHERE
        }
    });
    let page = report.to_string();
    let parts = [
        "named barrier 0 (`turns`), at which 32 of 64 threads have come, due from CTA 0, warp 1",
        "CTA 0, warp 0, 32 threads: waits on named barrier 0 (`turns`)",
    ];
    says(&page, &parts, &report);
    message_says(
        &report,
        &[&line_of("WAITS ELSEWHERE"), "`tiles.full[0]`", "no thread has arrived"],
    );
}

#[test]
fn registers_that_are_free_needed_and_held() {
    let report = breaks(Rule::Deadlock, Shape(384, 1, 0), || {
        if warp::warp_id() >= 4 {
            setmaxnreg::inc::<232>();
        }
    });
    message_says(
        &report,
        &["has 168 needs 32 x 64 = 2048 more", "has 0 free", "CTA 0, warps 0-3", "168 each"],
    );
    let page = report.to_string();
    let parts = ["64512 since the launch", "warps 0-11: 168 for each thread, 64512 in all"];
    says(&page, &parts, &report);
}

/// A tile of the tensor in stage 0, loaded as often as there are phases.
fn loads(map: &Map, phases: u32) {
    for phase in 0..phases {
        mbarrier::wait_parity(empty(0), (phase & 1) ^ 1);
        mbarrier::arrive_expect_tx(full(0), 256);
        bulk::tensor_load(smem(256), map.at(), [0, 0], full(0));
    }
}

#[test]
fn a_race_in_a_ring_names_the_last_waits_and_the_phases_that_they_saw() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    let (mut races, mut copies) = (0, 0);
    for seed in 0..60 {
        let kernel = || {
            ring((1, 32), true);
            if lane_0_of_warp_0() {
                loads(&map, 2);
            } else if tid() >= 32 {
                for _ in 0..2 {
                    mbarrier::wait_parity(full(0), 0); // NEVER FLIPPED
                    for word in 0..8 {
                        shared::ld::<u32>(smem(256 + 4 * word));
                    }
                    mbarrier::arrive(empty(0));
                }
            }
        };
        let Err(report) = run_on(&memory, seed, Shape(64, 1, 1024), kernel) else { continue };
        let page = report.to_string();
        let saw = format!("{}, saw phase 0 (parity 0) complete", line_of("NEVER FLIPPED"));
        match report.rule {
            Rule::SharedRace => {
                races += 1;
                says(
                    &page,
                    &["the last wait of CTA 0, warp 1, lane", "`tiles.full[0]`", &saw],
                    &report,
                );
                // It waited twice for one phase, or else another thread released the slot for it.
                let again = page.contains(&format!("{saw}, which the wait before it had seen"));
                let without =
                    "phase 0 (parity 0) of `tiles.empty[0]` completed without an arrival of";
                assert!(again || page.contains(without), "{report}");
            }
            Rule::CopyInFlight if report.message.starts_with("CTA 0, warp 1") => {
                copies += 1;
                message_says(&report, &["phase 1 of `tiles.full[0]`", "its last wait there", &saw]);
            }
            _ => {}
        }
    }
    assert!(races > 0, "{races} races, {copies} reads of a copy in flight");
}

#[test]
fn a_read_of_a_copy_in_flight_names_the_phase_of_the_copy() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    let report = breaks_on(&memory, Rule::CopyInFlight, Shape(64, 1, 1024), || {
        ring((1, 32), true);
        if lane_0_of_warp_0() {
            loads(&map, 1);
        } else if tid() >= 32 {
            mbarrier::wait_parity(full(1), 1); // WRONG STAGE AND PARITY
            shared::ld::<u32>(smem(256));
        }
    });
    message_says(&report, &["`tiles.full[0]`", "phase 0", "CTA 0, warp 1, lane"]);
    says(&report.to_string(), &[&line_of("WRONG STAGE"), "`tiles.full[1]`"], &report);
}

#[test]
fn an_uninitialised_read_names_the_wait_that_passed_on_a_fresh_barrier() {
    let report = breaks(Rule::Uninitialised, Shape(32, 1, 1024), || {
        ring((1, 1), true);
        mbarrier::wait_parity(full(1), 1); // PASSES
        shared::ld::<u32>(smem(256));
    });
    message_says(
        &report,
        &["which nothing has written", &line_of("PASSES"), "fresh barrier", "`tiles.full[1]`"],
    );
}

#[test]
fn a_load_in_flight_at_exit_names_the_tail() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    let report = breaks_on(&memory, Rule::InFlightAtExit, Shape(32, 1, 1024), || {
        ring((1, 32), true);
        if lane_0_of_warp_0() {
            loads(&map, 1);
        }
    });
    let page = report.to_string();
    says(&page, &["`tiles.full[0]`", "`tail` (CUTLASS: producer_tail)"], &report);
}

/// `main` and `unwrap` print errors with `Debug`.
#[test]
fn debug_is_the_page() {
    let report = breaks(Rule::NotABarrier, Shape(1, 1, 64), || {
        mbarrier::arrive(smem(8));
    });
    assert_eq!(format!("{report:?}"), report.to_string());
    let finding = Finding { error: report.clone(), schedule: "seed:7".into(), after: 7 };
    assert_eq!(format!("{finding:?}"), finding.to_string());
}
