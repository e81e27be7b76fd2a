//! The trace of a cluster, and model time.

use crate::common::tid;
use sim::ops::wgmma::{self, Major, OperandType};
use sim::ops::{barrier, cp_async_bulk as bulk, debug, fence, math, mbarrier, shared, thread};
use sim::trace::{Cause, Event, Trace, Tracing, What, cycles};
use sim::{Config, GlobalMemory, Grid, Report, Rule, Schedule, Stats, launch};
use std::sync::Arc;

const STAGES: u32 = 2;
const STEPS: u32 = 7;
const BYTES: u32 = 4096;
/// The producer's thread, and the consumer's.
const LOADS: u32 = 0;
const READS: u32 = 32;

fn smem(at: u32) -> u32 {
    shared::dynamic_base() + at
}
fn full(step: u32) -> u32 {
    smem(8 * (step % STAGES))
}
fn empty(step: u32) -> u32 {
    smem(8 * (STAGES + step % STAGES))
}
fn slot(step: u32) -> u32 {
    smem(128 + BYTES * (step % STAGES))
}
fn parity(step: u32) -> u32 {
    (step / STAGES) & 1
}

/// One thread loads, one reads a word of each slot `reads` times and releases it.
fn ring(from: u64, reads: u32) {
    if tid() == LOADS {
        for i in 0..STAGES {
            mbarrier::init(full(i), 1);
            mbarrier::init(empty(i), 1);
            debug::label_barrier(full(i), "ring.full", i);
            debug::label_barrier(empty(i), "ring.empty", i);
        }
        fence::mbarrier_init_release_cluster();
    }
    thread::sync_threads();
    if tid() == LOADS {
        for i in 0..STEPS {
            mbarrier::wait_parity(empty(i), parity(i) ^ 1);
            mbarrier::arrive_expect_tx(full(i), BYTES);
            bulk::load(slot(i), from as *const u8, BYTES, full(i));
        }
    } else if tid() == READS {
        for i in 0..STEPS {
            mbarrier::wait_parity(full(i), parity(i));
            for _ in 0..reads {
                shared::ld::<u32>(slot(i));
            }
            mbarrier::arrive(empty(i));
        }
    }
}

const GRID: Grid<'_> = Grid {
    grid: [3, 1, 1],
    block: [64, 1, 1],
    cluster: [1, 1, 1],
    min_ctas: 1,
    smem_bytes: 128 + STAGES * BYTES,
    name: "ring",
};

fn run(config: &Config, reads: u32) -> Result<Stats, Box<Report>> {
    let memory = GlobalMemory::new();
    let from = memory.alloc(BYTES as usize);
    memory.write(from, &[7; BYTES as usize]).unwrap();
    launch(config, &memory, &GRID, &|| ring(from, reads))
}

fn traced(config: &Config, reads: u32) -> Trace {
    let tracing = Arc::new(Tracing::new(1, 10_000));
    let config = Config { trace: Some(Arc::clone(&tracing)), ..config.clone() };
    run(&config, reads).unwrap_or_else(|r| panic!("{r}"));
    let [trace] = <[Trace; 1]>::try_from(tracing.take()).expect("one launch");
    assert!(tracing.take().is_empty());
    trace
}

fn schedules() -> Vec<Config> {
    let seeds = (0..12).map(|seed| Config { seed, ..Config::default() });
    let pct =
        (0..4).map(|seed| Config { seed, schedule: Schedule::pct(3, 500), ..Config::default() });
    let timed = Config { schedule: Schedule::timed(), ..Config::default() };
    seeds.chain(pct).chain([timed]).collect()
}

fn of(trace: &Trace, thread: u32) -> impl Iterator<Item = &Event> {
    trace.events.iter().filter(move |e| e.thread == thread)
}

/// Issue, start and landing of the loads.
fn loads(trace: &Trace) -> Vec<(u64, u64, u64)> {
    let load = |e: &Event| match e.what {
        What::Load { started, .. } => Some((e.from, started, e.until)),
        _ => None,
    };
    of(trace, LOADS).filter_map(load).collect()
}

/// When the slots are released.
fn releases(trace: &Trace) -> Vec<u64> {
    of(trace, READS).filter(|e| matches!(e.what, What::Arrive { .. })).map(|e| e.from).collect()
}

#[test]
fn asking_for_a_trace_changes_no_schedule() {
    for config in schedules() {
        let without = run(&config, 3).unwrap();
        let tracing = Some(Arc::new(Tracing::new(1, 100)));
        let with = run(&Config { trace: tracing, ..config.clone() }, 3).unwrap();
        assert_eq!(with, without, "{:?}", config.schedule);
    }
}

#[test]
fn times_follow_from_the_dependencies_whatever_the_schedule() {
    let events = |trace: &Trace| {
        let mut all: Vec<_> = trace
            .events
            .iter()
            .map(|e| (e.thread, e.from, e.until, format!("{:?}", e.what)))
            .collect();
        all.sort();
        all
    };
    let first = traced(&schedules()[0], 40);
    assert!(first.finished && first.dropped == 0);
    assert_eq!((first.kernel.as_str(), first.cluster, first.ctas, first.block), ("ring", 1, 1, 64));
    for config in &schedules()[1..] {
        assert_eq!(events(&traced(config, 40)), events(&first), "{:?}", config.schedule);
    }
}

#[test]
fn a_producer_runs_ahead_and_waits_for_the_slot() {
    for reads in [0, 500] {
        let trace = traced(&Config::default(), reads);
        let (loads, releases) = (loads(&trace), releases(&trace));
        assert_eq!((loads.len(), releases.len()), (STEPS as usize, STEPS as usize));
        let transfer = u64::from(BYTES) / cycles::BYTES;
        for (i, &(issued, started, landed)) in loads.iter().enumerate() {
            assert!(issued <= started);
            assert_eq!(landed, started + cycles::LATENCY + transfer);
            if let Some(&released) = i.checked_sub(STAGES as usize).and_then(|i| releases.get(i)) {
                // A wait that was over before it began takes no time.
                assert!(issued > released, "load {i} at {issued}, slot free at {released}");
            }
            assert!(releases[i] > landed);
        }
        assert!(loads[1].0 < loads[0].2, "the second load is issued before the first has landed");
        let waits: Vec<&Event> =
            of(&trace, LOADS).filter(|e| matches!(e.what, What::Wait { .. })).collect();
        // The first waits find slots that nobody has used.
        for (i, wait) in waits.iter().enumerate() {
            let What::Wait { barrier, phase } = wait.what else { unreachable!() };
            assert_eq!(
                trace.barriers[barrier as usize].label,
                Some(("ring.empty", i as u32 % STAGES))
            );
            assert_eq!(phase, (i as u32 / STAGES).wrapping_sub(1));
            let released = i.checked_sub(STAGES as usize).map_or(0, |i| releases[i]);
            assert_eq!(wait.until, wait.from.max(released));
        }
    }
}

#[test]
fn a_phase_names_what_completed_it() {
    let trace = traced(&Config::default(), 5);
    let mut copies = 0;
    for e in &trace.events {
        let What::Phase { barrier, phase, by } = e.what else { continue };
        match (trace.barriers[barrier as usize].label.unwrap().0, by) {
            ("ring.full", Cause::Copy { copy, issuer }) => {
                assert_eq!((issuer, e.thread), (LOADS, LOADS));
                let load = trace.events.iter().find(|e| {
                    matches!(e.what, What::Load { copy: c, barrier: b, .. } if (c, b) == (copy, barrier))
                });
                assert_eq!(load.unwrap().until, e.until);
                copies += 1;
            }
            ("ring.empty", Cause::Thread(READS)) => {
                let step = phase * STAGES + trace.barriers[barrier as usize].label.unwrap().1;
                assert_eq!(e.until, releases(&trace)[step as usize]);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(copies, STEPS);
}

#[test]
fn what_is_beyond_the_limit_is_counted() {
    let all = traced(&Config::default(), 1).events.len();
    let tracing = Arc::new(Tracing::new(1, 10));
    run(&Config { trace: Some(Arc::clone(&tracing)), ..Config::default() }, 1).unwrap();
    let trace = &tracing.take()[0];
    assert_eq!((trace.events.len(), trace.dropped), (10, all as u64 - 10));
}

#[test]
fn a_cluster_that_is_not_there_leaves_no_trace() {
    let tracing = Arc::new(Tracing::new(3, 10));
    run(&Config { trace: Some(Arc::clone(&tracing)), ..Config::default() }, 1).unwrap();
    assert!(tracing.take().is_empty());
}

#[test]
fn a_run_that_fails_leaves_what_came_before() {
    let tracing = Arc::new(Tracing::new(0, 10_000));
    let config = Config { trace: Some(Arc::clone(&tracing)), ..Config::default() };
    let grid = Grid { grid: [1, 1, 1], ..GRID };
    let report = launch(&config, &GlobalMemory::new(), &grid, &|| {
        if tid() == 0 {
            mbarrier::init(smem(0), 2);
            mbarrier::arrive(smem(0));
        }
        thread::sync_threads();
        mbarrier::wait_parity(smem(0), 0);
    })
    .unwrap_err();
    assert_eq!(report.rule, Rule::Deadlock);
    let trace = &tracing.take()[0];
    assert!(!trace.finished);
    assert_eq!(trace.events.iter().filter(|e| matches!(e.what, What::Arrive { .. })).count(), 1);
}

#[test]
fn special_functions_take_time() {
    let tracing = Arc::new(Tracing::new(0, 10_000));
    let config = Config { trace: Some(Arc::clone(&tracing)), ..Config::default() };
    let grid = Grid { grid: [1, 1, 1], ..GRID };
    launch(&config, &GlobalMemory::new(), &grid, &|| {
        if tid() == 40 {
            let sum: f32 = (0..10).map(|i| math::ex2_approx(i as f32)).sum();
            assert_eq!(math::abs(sum).to_bits(), 1023f32.to_bits());
        }
        barrier::sync_unaligned(3, 64);
    })
    .unwrap();
    let trace = &tracing.take()[0];
    let special = |e: &&Event| matches!(e.what, What::Special { .. });
    let found: Vec<_> = trace.events.iter().filter(special).collect();
    let [e] = found[..] else { panic!("{found:?}") };
    assert_eq!((e.thread, e.what), (40, What::Special { count: 10 }));
    assert_eq!((e.from, e.until), (0, 10 * cycles::SPECIAL));
    let waited = of(trace, 0).find(|e| e.what == What::Sync { id: 3 }).expect("it waited");
    assert_eq!(waited.until, 10 * cycles::SPECIAL + cycles::INSTRUCTION);
}

#[test]
fn the_last_to_come_to_a_named_barrier_is_waited_for() {
    let late = 100;
    let tracing = Arc::new(Tracing::new(0, 10_000));
    let config = Config { trace: Some(Arc::clone(&tracing)), ..Config::default() };
    let grid = Grid { grid: [1, 1, 1], ..GRID };
    launch(&config, &GlobalMemory::new(), &grid, &|| {
        if tid() == 40 {
            for _ in 0..late {
                fence::proxy_async_shared_cta();
            }
        }
        barrier::sync_unaligned(3, 64);
    })
    .unwrap();
    let trace = &tracing.take()[0];
    let at = (late + 1) * cycles::INSTRUCTION;
    for t in 0..64 {
        let e = of(trace, t).find(|e| e.what == What::Sync { id: 3 }).expect("it waited");
        let from = if t == 40 { at } else { cycles::INSTRUCTION };
        assert_eq!((e.from, e.until), (from, at), "thread {t}");
        assert_eq!(trace.threads[t as usize].end, at);
    }
}

/// Two warp groups, one tensor core: it is never busy with both, and a wait ends with its group.
#[test]
fn warp_groups_share_the_tensor_core() {
    const N: u32 = 256;
    let tracing = Arc::new(Tracing::new(0, 100_000));
    let config = Config {
        schedule: Schedule::timed(),
        trace: Some(Arc::clone(&tracing)),
        check_uninitialised: false,
        ..Config::default()
    };
    let grid = Grid { block: [256, 1, 1], grid: [1, 1, 1], smem_bytes: 32 * 1024, ..GRID };
    launch(&config, &GlobalMemory::new(), &grid, &|| {
        // 16 columns without swizzle: core matrices of 128 bytes along the rows, of N * 16 along K.
        let descriptor = u64::from(smem(0) >> 4) | u64::from(N) << 16 | (128 >> 4) << 32;
        let operand = (descriptor, Major::K);
        let mut d = [0.0; N as usize / 2];
        wgmma::fence();
        for _ in 0..3 {
            wgmma::mma_ss(&mut d, operand, operand, true, [OperandType::Bf16; 2]);
            wgmma::commit_group();
        }
        wgmma::wait_group::<1>();
        wgmma::wait_group::<0>();
    })
    .unwrap();
    let trace = &tracing.take()[0];
    let len = u64::from(64 * N * 16) / cycles::MULTIPLICATIONS;
    let mma = |e: &Event| match e.what {
        What::Wgmma { started, n: N } => Some((started, e.until, e.thread)),
        _ => None,
    };
    let mut busy: Vec<_> = trace.events.iter().filter_map(mma).collect();
    busy.sort_unstable();
    assert_eq!(busy.len(), 6);
    assert!(busy.iter().all(|&(from, until, _)| until - from == len));
    assert!(
        busy.windows(2).all(|w| w[0].1 == w[1].0),
        "one after the other, without a gap: {busy:?}"
    );
    for group in [0, 128] {
        let ends: Vec<u64> = busy.iter().filter(|b| b.2 == group).map(|b| b.1).collect();
        let wait = |e: &Event| matches!(e.what, What::WgmmaWait { .. }).then_some(e.until);
        let waits: Vec<u64> = of(trace, group + 7).filter_map(wait).collect();
        assert_eq!(waits[0], ends[1]);
        assert_eq!(waits[1], ends[2].max(ends[1] + cycles::INSTRUCTION));
    }
}

#[test]
fn a_store_is_read_and_then_written() {
    let tracing = Arc::new(Tracing::new(0, 1000));
    let config = Config {
        trace: Some(Arc::clone(&tracing)),
        check_uninitialised: false,
        ..Config::default()
    };
    let grid = Grid { grid: [1, 1, 1], ..GRID };
    let memory = GlobalMemory::new();
    let to = memory.alloc(2 * BYTES as usize);
    launch(&config, &memory, &grid, &|| {
        if tid() == 0 {
            for i in 0..2 {
                bulk::store((to + u64::from(i * BYTES)) as *mut u8, slot(i), BYTES);
                bulk::commit_group();
            }
            bulk::wait_group_read::<1>();
            bulk::wait_group_read::<0>();
            bulk::wait_group::<0>();
        }
    })
    .unwrap();
    let trace = &tracing.take()[0];
    let stores: Vec<_> = of(trace, 0)
        .filter_map(|e| match e.what {
            What::Store { started, read, bytes: BYTES, .. } => Some((started, read, e.until)),
            _ => None,
        })
        .collect();
    let len = u64::from(BYTES) / cycles::BYTES;
    assert_eq!(stores[1].0, stores[0].1, "one after the other");
    for &(started, read, written) in &stores {
        assert_eq!((read - started, written - read), (len, cycles::LATENCY));
    }
    let wait = |e: &Event| matches!(e.what, What::StoreWait { .. }).then_some(e.until);
    let waits: Vec<u64> = of(trace, 0).filter_map(wait).collect();
    assert_eq!(waits, [stores[0].1, stores[1].1, stores[1].2]);
}
