//! Exploring schedules: what every strategy finds, that its findings can be repeated, and that the
//! reduction leaves nothing out.

use crate::common::{Seen, tid};
use proptest::prelude::*;
use proptest::strategy::Strategy as Strategy_;
use sim::ops::{barrier, cp_async_bulk, fence, global, mbarrier, misc, shared, thread};
use sim::{Config, Explored, Finding, GlobalMemory, Grid, Report, Rule, Stats, Strategy, explore};
use std::collections::BTreeSet;
use std::sync::Mutex;

fn launch(
    config: &Config,
    memory: &GlobalMemory,
    threads: u32,
    kernel: impl Fn() + Sync,
) -> Result<Stats, Box<Report>> {
    let one = [1, 1, 1];
    let grid = Grid {
        grid: one,
        block: [threads, 1, 1],
        cluster: one,
        min_ctas: 1,
        smem_bytes: 256,
        name: "litmus",
    };
    sim::launch(config, memory, &grid, &kernel)
}

fn base() -> u32 {
    shared::dynamic_base()
}

/// One instruction of a litmus program. Loads and polls are seen by the test.
#[derive(Clone, Copy, Debug)]
enum Op {
    Store(u32, u32),
    Load(u32),
    Add(u32),
    StoreGlobal(u32),
    Acquire,
    Arrive(u32),
    ExpectTx(u32),
    CompleteTx(u32),
    Wait(u32),
    Test(u32),
    /// Loads 16 bytes of global memory over both words, and 16 more, completing them on barrier 1.
    Copy,
}

/// Where things are in shared memory: two words in the same 16 bytes, and two barriers.
fn word(i: u32) -> u32 {
    base() + 64 + 4 * i
}
fn bar(i: u32) -> u32 {
    base() + 8 * i
}

/// Runs a program under a strategy: all outcomes, and whether all schedules were run.
fn outcomes(
    program: &[Vec<Op>],
    counts: [u32; 2],
    strategy: &Strategy,
) -> (BTreeSet<String>, Explored) {
    let found = Mutex::new(BTreeSet::new());
    // The values count: programs that race are what these schedules differ in.
    let config = Config { check_uninitialised: false, races: false, ..Config::default() };
    let explored = explore(&config, strategy, |config| {
        let memory = GlobalMemory::new();
        let g = memory.alloc(64);
        let seen = Seen::new();
        let threads = program.len() as u32;
        let result = launch(config, &memory, threads, || {
            if tid() == 0 {
                mbarrier::init(bar(0), counts[0]);
                mbarrier::init(bar(1), counts[1]);
            }
            barrier::sync_unaligned(1, threads);
            for (i, op) in program[tid() as usize].iter().enumerate() {
                let value = match *op {
                    Op::Store(w, v) => {
                        shared::st(word(w), v);
                        continue;
                    }
                    Op::Load(w) => shared::ld::<u32>(word(w)),
                    Op::Add(w) => shared::atomic_add_u32(word(w), 10),
                    Op::StoreGlobal(v) => {
                        global::st((g + 32) as *mut u32, v);
                        continue;
                    }
                    Op::Acquire => global::ld_acquire_gpu_u32((g + 32) as *const u32),
                    Op::Arrive(b) => {
                        mbarrier::arrive(bar(b));
                        continue;
                    }
                    Op::ExpectTx(b) => {
                        mbarrier::expect_tx(bar(b), 16);
                        continue;
                    }
                    Op::CompleteTx(b) => {
                        mbarrier::complete_tx(bar(b), 16);
                        continue;
                    }
                    Op::Wait(b) => {
                        mbarrier::wait_parity(bar(b), 0);
                        continue;
                    }
                    Op::Test(b) => u32::from(mbarrier::test_wait_parity(bar(b), 0)),
                    Op::Copy => {
                        mbarrier::expect_tx(bar(1), 16);
                        cp_async_bulk::load(word(0), g as *const u8, 16, bar(1));
                        continue;
                    }
                };
                seen.push((tid(), i, value));
            }
        });
        let text = match &result {
            Ok(_) => {
                let mut seen = seen.take();
                seen.sort_unstable();
                format!("{seen:?}")
            }
            Err(report) => report.rule.code().to_owned(),
        };
        found.lock().unwrap().insert(text);
        Ok::<_, ()>(result.unwrap_or_default())
    });
    (found.into_inner().unwrap(), explored.unwrap())
}

fn op() -> impl Strategy_<Value = Op> {
    prop_oneof![
        3 => (0..2u32, 1..3u32).prop_map(|(w, v)| Op::Store(w, v)),
        3 => (0..2u32).prop_map(Op::Load),
        1 => (0..2u32).prop_map(Op::Add),
        1 => (1..3u32).prop_map(Op::StoreGlobal),
        1 => Just(Op::Acquire),
        4 => (0..2u32).prop_map(Op::Arrive),
        1 => (0..2u32).prop_map(Op::ExpectTx),
        1 => (0..2u32).prop_map(Op::CompleteTx),
        2 => (0..2u32).prop_map(Op::Wait),
        3 => (0..2u32).prop_map(Op::Test),
        1 => Just(Op::Copy),
    ]
}

fn program() -> impl Strategy_<Value = (Vec<Vec<Op>>, [u32; 2])> {
    let threads = prop_oneof![
        prop::collection::vec(prop::collection::vec(op(), 1..=3), 2),
        prop::collection::vec(prop::collection::vec(op(), 1..=2), 3),
    ];
    (threads, [1..4u32, 1..4u32])
}

fn same_outcomes(program: &[Vec<Op>], counts: [u32; 2]) -> Result<(), TestCaseError> {
    let limit = 20_000;
    let (full, all) = outcomes(program, counts, &Strategy::Full { limit });
    let (reduced, some) = outcomes(program, counts, &Strategy::Exhaustive { limit });
    if !all.complete {
        return Ok(());
    }
    prop_assert!(some.complete, "{some:?} where {all:?}");
    prop_assert!(some.schedules <= all.schedules, "{some:?} where {all:?}");
    // Behind a finding there may be others that only a run to the end would show.
    let fault = |s: &BTreeSet<String>| s.iter().any(|o| o.starts_with("WP"));
    if fault(&full) {
        prop_assert!(fault(&reduced), "{reduced:?} where {full:?}");
    } else {
        prop_assert_eq!(reduced, full);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    /// The reduction finds what all orders of all steps find.
    #[test]
    fn the_reduction_leaves_nothing_out((program, counts) in program()) {
        same_outcomes(&program, counts)?;
    }
}

/// A few programs by name, so that a failure is told at once.
#[test]
fn known_programs() {
    use Op::{Acquire, Add, Arrive, Copy, Load, Store, StoreGlobal, Test, Wait};
    let programs = [
        // Store buffering, and message passing without a barrier.
        vec![vec![Store(0, 1), Load(1)], vec![Store(1, 1), Load(0)]],
        vec![vec![Store(0, 1), StoreGlobal(1)], vec![Acquire, Load(0)]],
        // Through a barrier, the load has one outcome.
        vec![vec![Store(0, 1), Arrive(0)], vec![Wait(0), Load(0)]],
        // Polls that see one phase, or two.
        vec![vec![Arrive(0)], vec![Arrive(0)], vec![Test(0), Test(0)]],
        vec![vec![Add(0), Arrive(0)], vec![Add(0)], vec![Test(0), Load(0)]],
        // A copy that lands before its reader, or while it reads.
        vec![vec![Copy, Arrive(1)], vec![Wait(1), Load(0)]],
        vec![vec![Copy, Arrive(1)], vec![Load(1)]],
    ];
    for program in programs {
        same_outcomes(&program, [1, 1]).unwrap_or_else(|e| panic!("{program:?}: {e}"));
    }
    let through = [vec![Store(0, 1), Arrive(0)], vec![Wait(0), Load(0)]];
    let (seen, explored) = outcomes(&through, [1, 1], &Strategy::Exhaustive { limit: 100 });
    assert_eq!((seen.len(), explored.schedules, explored.complete), (1, 1, true));
}

/// Adds one without an atomic instruction, in two threads that do other things before: a
/// drawn schedule interrupts no thread before its sixteenth instruction.
fn lost_update(config: &Config, warm_up: u32) -> Result<Stats, String> {
    let memory = GlobalMemory::new();
    let sum = memory.alloc(64);
    let stats = launch(config, &memory, 2, || {
        for i in 0..warm_up {
            shared::st(base() + 4 * tid(), i);
        }
        let old: u32 = global::ld(sum as *const u32);
        global::st(sum as *mut u32, old + 1);
    })
    .map_err(|report| report.to_string())?;
    let mut bytes = [0; 4];
    memory.read(sum, &mut bytes).unwrap();
    let sum = u32::from_le_bytes(bytes);
    if sum == 2 { Ok(stats) } else { Err(format!("sum {sum}, trace {:x}", stats.trace)) }
}

#[test]
fn every_strategy_finds_a_lost_update_and_can_repeat_it() {
    // A race, which would be found at once if it were looked for.
    let config = Config { races: false, ..Config::default() };
    for strategy in [
        Strategy::Random { seeds: 5..5000 },
        Strategy::Pct { seeds: 3..5000, depth: 2 },
        Strategy::Mixed { seeds: 3..5000 },
        Strategy::Exhaustive { limit: 50 },
    ] {
        let run = |config: &Config| lost_update(config, 40);
        let finding: Finding<String> =
            explore(&config, &strategy, run).expect_err("an update is lost");
        assert!(finding.error.starts_with("sum 1"), "{strategy:?}: {finding}");
        // To the letter: the trace is a hash of every step.
        let again = config.replay(&finding.schedule).unwrap();
        assert_eq!(run(&again).unwrap_err(), finding.error, "{strategy:?}: {}", finding.schedule);
    }
}

/// One thread is ordered after another, which may come four steps ahead of it: only a thread that is kept
/// waiting for long is lapped. (In any schedule it is found by what orders the threads, if that is looked
/// for.)
#[test]
fn mixed_schedules_keep_a_thread_waiting_for_long() {
    let config = Config { races: false, ..Config::default() };
    let run = |config: &Config| {
        launch(config, &GlobalMemory::new(), 3, || {
            let [order, c_full, c_empty] = [bar(8), bar(9), bar(10)];
            if tid() == 0 {
                (0..11).for_each(|i| mbarrier::init(bar(i), 1));
            }
            thread::sync_threads();
            for tile in 0..8 {
                let (full, empty, phase) = (bar(tile % 4), bar(4 + tile % 4), tile / 4);
                match tid() {
                    0 => {
                        mbarrier::wait_parity(empty, phase ^ 1);
                        mbarrier::arrive(full);
                        mbarrier::arrive(order);
                    }
                    1 => {
                        mbarrier::wait_parity(order, tile & 1);
                        mbarrier::wait_parity(c_empty, (tile & 1) ^ 1);
                        mbarrier::arrive(c_full);
                    }
                    _ => {
                        mbarrier::wait_parity(full, phase);
                        mbarrier::wait_parity(c_full, tile & 1);
                        mbarrier::arrive(c_empty);
                        mbarrier::arrive(empty);
                    }
                }
            }
        })
    };
    let finding = explore(&config, &Strategy::Mixed { seeds: 0..100 }, run).expect_err("a lap");
    assert!([Rule::Lapped, Rule::Deadlock].contains(&finding.error.rule), "{finding}");
    let finding = explore(&Config::default(), &Strategy::Random { seeds: 0..1 }, run);
    assert_eq!(finding.expect_err("a lap that could be").error.rule, Rule::Lapped);
}

#[test]
fn a_report_can_be_repeated_too() {
    // Two copies over the same bytes, and nobody who waits: many ways to fail.
    let run = |config: &Config| {
        let memory = GlobalMemory::new();
        let g = memory.alloc(64);
        launch(config, &memory, 2, || {
            if tid() == 0 {
                mbarrier::init(bar(0), 1);
                fence::proxy_async();
                mbarrier::expect_tx(bar(0), 16);
                cp_async_bulk::load(word(0), g as *const u8, 16, bar(0));
            }
            barrier::sync_unaligned(1, 2);
            if tid() == 1 {
                shared::st(word(2), 1u32);
            }
            if tid() == 0 {
                mbarrier::arrive(bar(0));
            }
            mbarrier::wait_parity(bar(0), 0);
        })
    };
    for strategy in [
        Strategy::Random { seeds: 0..1000 },
        Strategy::Pct { seeds: 0..1000, depth: 3 },
        Strategy::Mixed { seeds: 0..1000 },
        Strategy::Exhaustive { limit: 50 },
    ] {
        let finding = explore(&Config::default(), &strategy, run).expect_err("a copy in flight");
        assert_eq!(finding.error.rule, Rule::CopyInFlight, "{finding}");
        for schedule in [&finding.schedule, &finding.error.schedule] {
            let again = run(&Config::default().replay(schedule).unwrap()).expect_err(schedule);
            assert_eq!(again.trace, finding.error.trace, "{schedule}");
            assert_eq!(again.message, finding.error.message, "{schedule}");
        }
    }
}

/// Loops that wait for memory come to an end, in every schedule.
#[test]
fn loops_that_poll_memory() {
    let explored = explore(&Config::default(), &Strategy::Exhaustive { limit: 1000 }, |config| {
        let memory = GlobalMemory::new();
        let flag = memory.alloc(64);
        launch(config, &memory, 2, || {
            if tid() == 0 {
                shared::st(base(), 7u32);
                global::st_release_gpu_u32(flag as *mut u32, 1);
            } else {
                while global::ld_acquire_gpu_u32(flag as *const u32) == 0 {
                    misc::nanosleep(20);
                }
                assert_eq!(shared::ld::<u32>(base()), 7);
            }
        })
    })
    .unwrap_or_else(|finding| panic!("{finding}"));
    assert!(explored.complete && explored.schedules <= 4, "{explored:?}");
    // Ordinary loads, of shared memory that nobody will write.
    let finding = explore(&Config::default(), &Strategy::Exhaustive { limit: 1000 }, |config| {
        launch(config, &GlobalMemory::new(), 2, || {
            if tid() == 0 {
                shared::st(base(), 0u32);
            }
            barrier::sync_unaligned(1, 2);
            while shared::ld::<u32>(base()) == 0 {}
        })
    })
    .expect_err("a loop without an end");
    assert_eq!(finding.error.rule, Rule::StepLimit, "{finding}");
}

#[test]
fn deadlocks_that_need_an_order() {
    // Two barriers in opposite orders: only some schedules are stuck.
    let run = |config: &Config| {
        launch(config, &GlobalMemory::new(), 2, || {
            if tid() == 0 {
                mbarrier::init(bar(0), 1);
                mbarrier::init(bar(1), 1);
            }
            barrier::sync_unaligned(1, 2);
            let (mine, other) = (bar(tid()), bar(1 - tid()));
            if !mbarrier::test_wait_parity(other, 0) {
                mbarrier::arrive(mine);
            }
            mbarrier::wait_parity(mine, 0);
        })
    };
    let finding = explore(&Config::default(), &Strategy::Exhaustive { limit: 100 }, run)
        .expect_err("whoever looks late is stuck");
    assert_eq!(finding.error.rule, Rule::Deadlock, "{finding}");
}
