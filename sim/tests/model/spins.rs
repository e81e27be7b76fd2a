//! Loops that wait for somebody: those that somebody ends do end, under every schedule; the others are
//! found.

use crate::common::tid;
use sim::ops::{barrier, fence, global, misc, shared, thread};
use sim::{Config, GlobalMemory, Grid, Report, Rule, Stats, Strategy, explore};

/// A way to look at a flag until it is set.
type Way = (&'static str, fn(*mut u32));

/// Some.
const WAYS: [Way; 7] = [
    ("atomic", |p| while global::atomic_add_u32(p, 0) == 0 {}),
    ("load", |p| while global::ld(p) == 0u32 {}),
    ("acquire", |p| while global::ld_acquire_gpu_u32(p) == 0 {}),
    ("atomic, sleeping", |p| {
        while global::atomic_add_u32(p, 0) == 0 {
            misc::nanosleep(20);
        }
    }),
    ("load, sleeping", |p| {
        while global::ld(p) == 0u32 {
            misc::nanosleep(20);
        }
    }),
    ("load and fence", |p| {
        while global::ld(p) == 0u32 {
            fence::acq_rel_gpu();
        }
    }),
    ("two flags", |p| {
        while global::atomic_add_u32(p, 0) == 0 && global::atomic_add_u32(p.wrapping_add(8), 0) == 0
        {
        }
    }),
];

fn launch(
    config: &Config,
    memory: &GlobalMemory,
    (ctas, threads): (u32, u32),
    kernel: impl Fn() + Sync,
) -> Result<Stats, Box<Report>> {
    let grid = Grid {
        grid: [ctas, 1, 1],
        block: [threads, 1, 1],
        cluster: [1; 3],
        min_ctas: 1,
        smem_bytes: 256,
        name: "spins",
    };
    sim::launch(config, memory, &grid, &kernel)
}

/// Schedules of every kind, on one worker. Flags that are read by ordinary loads race: that is not the
/// subject here.
fn schedules() -> impl Iterator<Item = Config> {
    let random = (0..60).map(|seed| format!("seed:{seed}"));
    let pct = (0..60).map(|seed| format!("pct:{seed}:{}:200", 1 + seed % 4));
    let base = Config { races: false, ..Config::default() };
    random
        .chain(pct)
        .chain(["timed:".to_owned()])
        .map(move |s| base.replay(&s).expect("a schedule"))
}

#[test]
fn a_flag_of_another_cta_is_seen() {
    for config in schedules() {
        for (name, wait) in WAYS {
            let memory = GlobalMemory::new();
            let flag = memory.alloc(64) as usize;
            launch(&config, &memory, (3, 1), || match thread::block_idx_x() {
                0 => wait(flag as *mut u32),
                1 => {
                    wait(flag as *mut u32);
                    global::st((flag + 8) as *mut u32, 1);
                }
                _ => {
                    global::atomic_add_u32(flag as *mut u32, 1);
                }
            })
            .unwrap_or_else(|r| panic!("{name}, {:?}\n{r}", config.schedule));
        }
    }
}

/// The same, run by the explorer.
#[test]
fn a_flag_is_seen_by_every_walk() {
    let config = Config { races: false, ..Config::default() };
    for (name, wait) in WAYS {
        let strategy = Strategy::Exhaustive { limit: 1000 };
        let run = |config: &Config, sets: bool| {
            let memory = GlobalMemory::new();
            let flag = memory.alloc(64) as usize;
            launch(config, &memory, (2, 2), || match (thread::block_idx_x(), tid()) {
                (1, 0) if sets => {
                    global::atomic_add_u32(flag as *mut u32, 1);
                }
                (0, _) => wait(flag as *mut u32),
                _ => {}
            })
        };
        explore(&config, &strategy, |c| run(c, true)).unwrap_or_else(|f| panic!("{name}\n{f}"));
        explore(&config, &strategy, |c| run(c, false)).expect_err(name);
    }
}

#[test]
fn a_flag_of_another_thread_is_seen() {
    for config in schedules() {
        for sleeps in [false, true] {
            launch(&config, &GlobalMemory::new(), (1, 2), || {
                let flag = shared::dynamic_base();
                if tid() == 0 {
                    shared::st(flag, 0u32);
                    shared::st(flag + 4, 0u32);
                }
                barrier::sync_unaligned(1, 2);
                let me = tid();
                // To and fro.
                for round in 1..4 {
                    if me == 0 {
                        shared::st(flag, round);
                    }
                    while shared::ld::<u32>(flag + 4 * (1 - me)) != round {
                        if sleeps {
                            misc::nanosleep(5);
                        }
                    }
                    if me == 1 {
                        shared::st(flag + 4, round);
                    }
                    barrier::sync_unaligned(1, 2);
                }
            })
            .unwrap_or_else(|r| panic!("{:?}\n{r}", config.schedule));
        }
    }
}

/// Tickets are real increments, and the looks at whose turn it is are none.
#[test]
fn a_lock_is_passed_on() {
    for config in schedules() {
        let memory = GlobalMemory::new();
        let words = memory.alloc(64);
        let word = |i: u64| (words + 4 * i) as *mut u32;
        launch(&config, &memory, (3, 2), || {
            for _ in 0..2 {
                let mine = global::atomic_add_u32(word(0), 1);
                while global::atomic_add_u32(word(1), 0) != mine {}
                let sum: u32 = global::ld(word(2));
                global::st(word(2), sum + 1);
                global::red_release_gpu_add_u32(word(1), 1);
            }
        })
        .unwrap_or_else(|r| panic!("{:?}\n{r}", config.schedule));
        let mut sum = [0; 4];
        memory.read(words + 8, &mut sum).unwrap();
        assert_eq!(u32::from_le_bytes(sum), 12);
    }
}

/// A lock that is taken by compare-and-swap: both the taking that fails and an exchange of like for like
/// change nothing. Races are looked for.
#[test]
fn a_spin_lock() {
    for config in schedules() {
        let config = Config { races: true, ..config };
        let memory = GlobalMemory::new();
        let words = memory.alloc(64);
        let word = |i: u64| (words + 4 * i) as *mut u32;
        launch(&config, &memory, (2, 2), || {
            for way in 0..2 {
                match way {
                    0 => while global::atomic_cas_u32(word(0), 0, 1) != 0 {},
                    _ => while global::atomic_exch_u32(word(0), 1) != 0 {},
                }
                fence::acq_rel_gpu();
                let sum: u32 = global::ld(word(2));
                global::st(word(2), sum + 1);
                fence::acq_rel_gpu();
                global::atomic_exch_u32(word(0), 0);
            }
        })
        .unwrap_or_else(|r| panic!("{:?}\n{r}", config.schedule));
        let mut sum = [0; 4];
        memory.read(words + 8, &mut sum).unwrap();
        assert_eq!(u32::from_le_bytes(sum), 8);
    }
}

/// With the limits as they are, and with one worker or more.
#[test]
fn a_flag_that_nobody_sets_is_found() {
    let schedules = [(1, "seed:0"), (2, "seed:3"), (1, "pct:1:3:50")];
    // A million looks take a second: one way with all schedules, and the others with one each.
    let first = schedules.map(|schedule| (WAYS[0], schedule));
    let others = WAYS.into_iter().zip(schedules.into_iter().cycle()).skip(1);
    for ((name, wait), (workers, schedule)) in first.into_iter().chain(others) {
        let config = Config { workers: Some(workers), ..Config::default() };
        let config = Config { races: false, ..config.replay(schedule).unwrap() };
        let memory = GlobalMemory::new();
        let flag = memory.alloc(64) as usize;
        let report = launch(&config, &memory, (2, 1), || wait(flag as *mut u32))
            .expect_err("nobody sets it");
        let found = matches!(report.rule, Rule::StepLimit | Rule::Deadlock);
        assert!(found, "{name}, {schedule}\n{report}");
    }
}

#[test]
fn every_instruction_counts() {
    let config = Config { max_steps: 5000, ..Config::default() };
    let memory = GlobalMemory::new();
    let word = memory.alloc(4);
    let report = launch(&config, &memory, (1, 1), || {
        loop {
            global::atomic_add_u32(word as *mut u32, 1);
        }
    })
    .expect_err("it has no end");
    assert_eq!(report.rule, Rule::StepLimit, "{report}");
    let mut count = [0; 4];
    memory.read(word, &mut count).unwrap();
    assert_eq!(u32::from_le_bytes(count), 5000, "to the letter");
    // As many are allowed.
    let stats = launch(&config, &memory, (1, 1), || {
        for _ in 0..5000 {
            global::atomic_add_u32(word as *mut u32, 1);
        }
    });
    assert_eq!(stats.map(|s| s.steps).map_err(|r| r.to_string()), Ok(5000));
    // Instructions that change nothing, without a limit.
    let report = launch(&Config::default(), &memory, (1, 2), || {
        loop {
            barrier::sync_unaligned(1, 2);
        }
    })
    .expect_err("it has no end");
    assert!(report.message.contains("nothing changes"), "{report}");
}
