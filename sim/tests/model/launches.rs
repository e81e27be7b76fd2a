//! Launches that overlap, and room on the SMs.

use crate::common::tid;
use sim::ops::{barrier, fence, global, griddepcontrol, misc, thread};
use sim::{Config, GlobalMemory, Grid, Launch, Report, Rule, Stats, Strategy, explore, launch_all};
use std::collections::BTreeSet;
use std::sync::Mutex;

type Kernel<'a> = &'a (dyn Fn() + Sync);

fn grid(name: &str, ctas: u32, threads: u32) -> Grid<'_> {
    Grid {
        grid: [ctas, 1, 1],
        block: [threads, 1, 1],
        cluster: [1; 3],
        min_ctas: 1,
        smem_bytes: 227 * 1024,
        name,
    }
}

/// One CTA on each of four SMs.
fn small() -> Config {
    Config { sms: 4, workers: Some(1), ..Config::default() }
}

/// Kernels in turn, all but the first as dependent launches.
fn chain(
    config: &Config,
    memory: &GlobalMemory,
    kernels: &[(&str, u32, Kernel<'_>)],
) -> Result<Stats, Box<Report>> {
    let launches: Vec<_> = kernels
        .iter()
        .enumerate()
        .map(|(i, &(name, ctas, entry))| Launch {
            grid: grid(name, ctas, 32),
            entry,
            dependent: i > 0,
        })
        .collect();
    launch_all(config, memory, &launches)
}

fn word(base: u64, i: u32) -> *mut u32 {
    (base + 4 * u64::from(i)) as *mut u32
}

fn read(memory: &GlobalMemory, at: u64, n: usize) -> Vec<u32> {
    let mut bytes = vec![0; 4 * n];
    memory.read(at, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect()
}

fn configs() -> impl Iterator<Item = Config> {
    let random = (0..100).map(|seed| format!("seed:{seed}"));
    let pct = (0..100).map(|seed| format!("pct:{seed}:{}:100", 1 + seed % 4));
    let all = random.chain(pct).chain(["timed:", "choices:"].map(str::to_owned));
    all.map(|schedule| small().replay(&schedule).expect("a schedule"))
}

/// Two kernels, of which the second reads what the first writes after its signal, and writes what the
/// first reads.
fn pair(config: &Config, early: bool, waits: bool, accesses: bool) -> Result<(), Box<Report>> {
    let memory = GlobalMemory::new();
    let words = memory.alloc(64);
    let first = || {
        if tid() == 0 {
            griddepcontrol::launch_dependents();
            global::st(word(words, thread::block_idx_x()), 7);
            global::ld::<u32>(word(words, 4));
        }
    };
    let access = || {
        if thread::block_idx_x() == 0 && tid() == 1 {
            assert_eq!(global::ld::<u32>(word(words, 0)), 7);
            global::st(word(words, 4), 1);
        }
    };
    let second = || {
        if early && accesses {
            access();
        }
        if waits && tid() == 0 {
            griddepcontrol::wait();
        }
        // The wait of one thread is enough for those who meet it.
        barrier::sync_unaligned(0, 32);
        if !early && accesses {
            access();
        }
    };
    chain(config, &memory, &[("first", 2, &first), ("second", 3, &second)]).map(|_| ())
}

#[test]
fn the_wait_orders_what_comes_after_it() {
    for config in configs() {
        pair(&config, false, true, true).unwrap_or_else(|r| panic!("{r}"));
        pair(&config, true, false, false).unwrap_or_else(|r| panic!("{r}"));
    }
}

#[test]
fn before_the_wait_and_without_it_all_is_a_race() {
    for config in configs() {
        for waits in [false, true] {
            let report = pair(&config, true, waits, true).expect_err("a race");
            // It may have read too early as well.
            if report.rule == Rule::Panic {
                continue;
            }
            assert_eq!(report.rule, Rule::Dependent, "{report}");
            let text = report.to_string();
            assert!(text.contains("`first`") && text.contains("`second`"), "{text}");
            assert!(report.at.is_some() && report.other.is_some(), "{report}");
        }
        let report = pair(&config, false, false, true).expect_err("a race");
        assert!(matches!(report.rule, Rule::Dependent | Rule::Panic), "{report}");
    }
}

/// How far the two grids overlap: the clusters in the order in which each of their steps was made.
fn overlap(config: &Config) -> Result<(Stats, Vec<u32>), Box<Report>> {
    let memory = GlobalMemory::new();
    let (next, log) = (memory.alloc(4), memory.alloc(256));
    let step = |who: u32| {
        let ticket = global::atomic_add_u32(word(next, 0), 1);
        global::atomic_add_u32(word(log, ticket), who + 1);
    };
    let first = || {
        if tid() == 0 {
            griddepcontrol::launch_dependents();
            (0..3).for_each(|_| step(0));
        }
    };
    let second = || {
        if tid() == 0 {
            step(1);
            griddepcontrol::wait();
            step(2);
        }
    };
    let stats = chain(config, &memory, &[("first", 2, &first), ("second", 1, &second)])?;
    Ok((stats, read(&memory, log, 8)))
}

#[test]
fn seeds_overlap_the_grids_from_not_at_all_to_as_early_as_possible() {
    for strategy in [Strategy::Random { seeds: 0..300 }, Strategy::Pct { seeds: 0..300, depth: 3 }]
    {
        let orders = Mutex::new(BTreeSet::new());
        let seen = |config: &Config| {
            let config = Config { sms: 4, ..config.clone() };
            let (stats, order) = overlap(&config)?;
            let (again, same) = overlap(&config)?;
            assert_eq!((stats, &order), (again, &same), "a seed repeats its run");
            assert_eq!(order[7], 3, "the wait comes last");
            orders.lock().unwrap().insert(order.iter().position(|&w| w == 2).unwrap());
            Ok::<_, Box<Report>>(stats)
        };
        explore(&Config::default(), &strategy, seen).unwrap_or_else(|f| panic!("{f}"));
        let orders = orders.into_inner().unwrap();
        assert_eq!(orders, (0..7).collect(), "places of the early step: {strategy:?}");
    }
    let sequence = explore(&small(), &Strategy::Exhaustive { limit: 50 }, |config| {
        let (stats, order) = overlap(config)?;
        assert_eq!(order, [1, 1, 1, 1, 1, 1, 2, 3]);
        Ok::<_, Box<Report>>(stats)
    });
    sequence.unwrap_or_else(|f| panic!("{f}"));
}

/// Without room the dependent grid waits for CTAs ahead to end.
#[test]
fn a_dependent_grid_needs_room() {
    for config in configs() {
        let memory = GlobalMemory::new();
        let (ends, seen) = (memory.alloc(4), memory.alloc(16));
        let first = || {
            griddepcontrol::launch_dependents();
            if tid() == 0 {
                fence::acq_rel_gpu();
                global::atomic_add_u32(word(ends, 0), 1);
            }
        };
        let second = || {
            if tid() == 0 {
                let ended = global::atomic_add_u32(word(ends, 0), 0);
                global::st(word(seen, thread::block_idx_x()), ended);
            }
        };
        chain(&config, &memory, &[("first", 4, &first), ("second", 1, &second)])
            .unwrap_or_else(|r| panic!("{r}"));
        assert!(read(&memory, seen, 1)[0] >= 1, "a CTA has ended, and given its room");
    }
}

/// Three kernels: `third` reads what `first` wrote, and `second` waits or not.
fn three(config: &Config, second_waits: bool, third_dependent: bool) -> Result<(), Box<Report>> {
    let memory = GlobalMemory::new();
    let words = memory.alloc(64);
    let first = || {
        if tid() == 0 {
            griddepcontrol::launch_dependents();
            global::st(word(words, 0), 7);
        }
    };
    let second = || {
        griddepcontrol::launch_dependents();
        if tid() == 3 && second_waits {
            griddepcontrol::wait();
        }
    };
    let third = || {
        if tid() == 0 {
            griddepcontrol::wait();
            assert_eq!(global::ld::<u32>(word(words, 0)), 7);
        }
    };
    let launches = [
        Launch { grid: grid("first", 1, 32), entry: &first, dependent: false },
        Launch { grid: grid("second", 1, 32), entry: &second, dependent: true },
        Launch { grid: grid("third", 1, 32), entry: &third, dependent: third_dependent },
    ];
    launch_all(config, &memory, &launches).map(|_| ())
}

#[test]
fn a_grid_that_does_not_wait_breaks_the_chain() {
    let mut early = 0;
    for config in configs() {
        three(&config, true, true).unwrap_or_else(|r| panic!("{r}"));
        three(&config, false, false).unwrap_or_else(|r| panic!("{r}"));
        let report = three(&config, false, true).expect_err("a race");
        if report.rule == Rule::Panic {
            early += 1;
            continue;
        }
        assert_eq!(report.rule, Rule::Dependent, "{report}");
        assert!(report.message.contains("no thread of `second`, between the two"), "{report}");
    }
    assert_ne!(early, 0, "some seed shows it in the data");
}

#[test]
fn a_grid_that_waits_for_its_dependent_grid() {
    for config in configs().step_by(67) {
        let memory = GlobalMemory::new();
        let flag = memory.alloc(4);
        let first = || {
            griddepcontrol::launch_dependents();
            while tid() == 0 && global::atomic_add_u32(word(flag, 0), 0) == 0 {}
        };
        let second = || {
            griddepcontrol::wait();
            global::atomic_add_u32(word(flag, 0), 1);
        };
        let report = chain(&config, &memory, &[("first", 1, &first), ("second", 1, &second)])
            .expect_err("stuck");
        assert!(matches!(report.rule, Rule::Deadlock | Rule::StepLimit), "{report}");
    }
}

/// All CTAs of a grid meet through a counter.
fn meeting(config: &Config, ctas: u32, polls: bool) -> Result<(), Box<Report>> {
    let memory = GlobalMemory::new();
    let count = memory.alloc(4);
    let kernel = || {
        if tid() == 0 {
            global::atomic_add_u32(word(count, 0), 1);
            if polls {
                while global::ld_acquire_gpu_u32(word(count, 0)) != ctas {
                    misc::nanosleep(10);
                }
            } else {
                while global::atomic_add_u32(word(count, 0), 0) != ctas {}
            }
        }
    };
    chain(config, &memory, &[("meeting", ctas, &kernel)]).map(|_| ())
}

#[test]
fn ctas_that_meet_must_be_resident() {
    for config in configs() {
        for polls in [false, true] {
            meeting(&config, 4, polls).unwrap_or_else(|r| panic!("{r}"));
        }
    }
    // Polls are told apart from progress at once, spins after a million looks.
    let polls = (0..3).flat_map(|seed| [(seed, 1, true), (seed, 2, true)]);
    for (seed, workers, polls) in polls.chain([(0, 1, false), (1, 2, false)]) {
        let config = Config { seed, workers: Some(workers), ..small() };
        let report = meeting(&config, 5, polls).expect_err("no room for the fifth");
        assert_eq!(report.rule, Rule::Deadlock, "{report}");
        let part = "4 of 5 CTAs of `meeting` are resident (4 SMs x 1 CTAs each, limited by shared \
                    memory), 1 have not started";
        assert!(report.message.contains(part), "{report}");
    }
}

/// A grid that does not fit comes in waves.
#[test]
fn a_grid_larger_than_the_machine_ends() {
    for config in configs().chain([Config { sms: 4, ..Config::default() }]) {
        let memory = GlobalMemory::new();
        let (now, most) = (memory.alloc(4), memory.alloc(256));
        let kernel = || {
            if tid() == 0 {
                let there = global::atomic_add_u32(word(now, 0), 1) + 1;
                global::st(word(most, thread::block_idx_x()), there);
                misc::nanosleep(10);
                global::atomic_add_u32(word(now, 0), u32::MAX);
            }
        };
        chain(&config, &memory, &[("waves", 20, &kernel)]).unwrap_or_else(|r| panic!("{r}"));
        assert!(read(&memory, most, 20).iter().all(|&there| (1..=4).contains(&there)));
    }
}
