//! That seeds differ: in what threads and copies of a cluster do, and in the order of the clusters.

use crate::common::tid;
use sim::ops::{cp_async_bulk as bulk, fence, global, mbarrier, shared, thread};
use sim::{Config, GlobalMemory, Grid, Report, Rule, Stats, Strategy, explore};
use std::collections::BTreeSet;
use std::sync::Mutex;

const STAGES: u32 = 2;
const BYTES: u32 = 64;

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
        smem_bytes: 512,
        name: "seeds",
    };
    sim::launch(config, memory, &grid, &kernel)
}

/// A ring of two slots: thread 0 loads four steps, a warp reads them.
fn ring(config: &Config) -> Result<Stats, Box<Report>> {
    let memory = GlobalMemory::new();
    let from = memory.alloc(4 * BYTES as usize);
    launch(config, &memory, (1, 64), || {
        let base = shared::dynamic_base();
        let (full, empty) = (|s: u32| base + 8 * s, |s: u32| base + 8 * (STAGES + s));
        if tid() == 0 {
            for stage in 0..STAGES {
                mbarrier::init(full(stage), 1);
                mbarrier::init(empty(stage), 32);
            }
            fence::mbarrier_init_release_cluster();
        }
        thread::sync_threads();
        for step in 0..4 {
            let (stage, phase) = (step % STAGES, (step / STAGES) & 1);
            let slot = base + 128 + BYTES * stage;
            if tid() == 0 {
                mbarrier::wait_parity(empty(stage), phase ^ 1);
                mbarrier::arrive_expect_tx(full(stage), BYTES);
                let row = (from + u64::from(BYTES * step)) as *const u8;
                bulk::load(slot, row, BYTES, full(stage));
            } else if tid() >= 32 {
                mbarrier::wait_parity(full(stage), phase);
                shared::ld::<u32>(slot + tid() % 16 * 4);
                mbarrier::arrive(empty(stage));
            }
        }
    })
}

#[test]
fn a_seed_is_a_schedule_of_its_own() {
    for strategy in [Strategy::Random { seeds: 0..300 }, Strategy::Pct { seeds: 0..300, depth: 3 }]
    {
        let traces = Mutex::new(BTreeSet::new());
        let seen = |config: &Config| {
            let stats = ring(config)?;
            traces.lock().unwrap().insert(stats.trace);
            Ok::<_, Box<Report>>(stats)
        };
        explore(&Config::default(), &strategy, seen).unwrap_or_else(|f| panic!("{f}"));
        let traces = traces.into_inner().unwrap();
        assert!(traces.len() >= 299, "{} traces of 300 seeds: {strategy:?}", traces.len());
    }
}

/// Clusters of one thread take two tickets each: who got which, in order of the tickets. Before each they
/// store so many times to shared memory.
fn tickets_after(
    stores: u32,
    config: &Config,
    clusters: u32,
) -> Result<(Stats, Vec<u32>), Box<Report>> {
    let memory = GlobalMemory::new();
    let (next, log) = (memory.alloc(4), memory.alloc(8 * clusters as usize));
    let stats = launch(config, &memory, (clusters, 1), || {
        for _ in 0..2 {
            (0..stores).for_each(|i| shared::st(shared::dynamic_base(), i));
            let ticket = global::atomic_add_u32(next as *mut u32, 1);
            global::st((log + 4 * u64::from(ticket)) as *mut u32, thread::block_idx_x());
        }
    })?;
    let mut bytes = vec![0; 8 * clusters as usize];
    memory.read(log, &mut bytes).unwrap();
    let words = bytes.chunks_exact(4).map(|w| u32::from_le_bytes(w.try_into().unwrap()));
    Ok((stats, words.collect()))
}

fn tickets(config: &Config, clusters: u32) -> Result<(Stats, Vec<u32>), Box<Report>> {
    tickets_after(0, config, clusters)
}

/// Turns end where clusters can see each other, so that what they do in between changes no order.
#[test]
fn what_no_other_cluster_sees_takes_no_turns() {
    for seed in 0..100 {
        let config = Config { seed, workers: Some(1), ..Config::default() };
        let order = |stores| tickets_after(stores, &config, 3).unwrap_or_else(|r| panic!("{r}")).1;
        assert_eq!(order(0), order(100), "seed {seed}");
    }
}

fn orders(strategy: &Strategy, clusters: u32) -> BTreeSet<Vec<u32>> {
    let orders = Mutex::new(BTreeSet::new());
    let seen = |config: &Config| {
        let (stats, order) = tickets(config, clusters)?;
        let (_, again) = tickets(config, clusters)?;
        assert_eq!(order, again, "a seed repeats its order");
        orders.lock().unwrap().insert(order);
        Ok::<_, Box<Report>>(stats)
    };
    explore(&Config::default(), strategy, seen).unwrap_or_else(|f| panic!("{f}"));
    orders.into_inner().unwrap()
}

#[test]
fn clusters_come_in_every_order() {
    // Of twice a and twice b: 4! / 2! / 2!; of three clusters 6! / 2!^3.
    assert_eq!(orders(&Strategy::Random { seeds: 0..500 }, 2).len(), 6);
    let drawn = orders(&Strategy::Random { seeds: 0..2000 }, 3);
    assert!(drawn.len() > 80, "{} of 90", drawn.len());
    let by_priority = |depth: u32, clusters: u32| {
        let config = |seed| Config::default().replay(&format!("pct:{seed}:{depth}:4")).unwrap();
        let order = |seed| tickets(&config(seed), clusters).unwrap_or_else(|r| panic!("{r}")).1;
        (0..300).map(order).collect::<BTreeSet<_>>()
    };
    // One change of priority, of two clusters: aabb, abba, and the same for b.
    assert_eq!(by_priority(2, 2).len(), 4);
    // None: each runs through.
    assert_eq!(by_priority(1, 3).len(), 6);
    // The exhaustive walk takes them as they lie.
    let one = orders(&Strategy::Exhaustive { limit: 1 }, 3);
    assert_eq!(one.into_iter().collect::<Vec<_>>(), [[0, 0, 1, 1, 2, 2]]);
}

/// The last to come adds up: right, and the same with the flag raised before the part is written,
/// which only shows in the sum when another cluster runs in between.
#[test]
fn a_part_that_comes_too_late_is_missed_under_some_seed() {
    // A race, which would be found at once if it were looked for.
    let config = Config { races: false, ..Config::default() };
    let sum = |config: &Config, right: bool| -> Result<Stats, String> {
        let memory = GlobalMemory::new();
        let (count, parts, out) = (memory.alloc(4), memory.alloc(12), memory.alloc(4));
        let word = |at: u64, i: u32| (at + 4 * u64::from(i)) as *mut u32;
        let stats = launch(config, &memory, (3, 1), || {
            let mine = thread::block_idx_x();
            if right {
                global::st(word(parts, mine), 1);
            }
            let before = global::atomic_add_u32(word(count, 0), 1);
            if !right {
                global::st(word(parts, mine), 1);
            }
            if before == 2 {
                global::st(word(out, 0), (0..3).map(|i| global::ld(word(parts, i))).sum::<u32>());
            }
        })
        .map_err(|report| report.to_string())?;
        let mut bytes = [0; 4];
        memory.read(out, &mut bytes).unwrap();
        let sum = u32::from_le_bytes(bytes);
        if sum == 3 { Ok(stats) } else { Err(format!("the sum is {sum}")) }
    };
    for strategy in
        [Strategy::Random { seeds: 0..1000 }, Strategy::Pct { seeds: 0..1000, depth: 2 }]
    {
        explore(&config, &strategy, |c| sum(c, true)).unwrap_or_else(|f| panic!("{f}"));
        let found = explore(&config, &strategy, |c| sum(c, false)).expect_err("a part is missed");
        let again = config.replay(&found.schedule).unwrap();
        assert_eq!(sum(&again, false).unwrap_err(), found.error, "{}", found.schedule);
    }
}

/// Clusters that all wait, and are interrupted while they do, are found out.
#[test]
fn clusters_that_wait_for_each_other() {
    for seed in 0..100 {
        let memory = GlobalMemory::new();
        let flags = memory.alloc(16);
        let config = Config { seed, workers: Some(1 + seed as usize % 2), ..Config::default() };
        let report = launch(&config, &memory, (3, 1), || {
            let mine = thread::block_idx_x();
            let flag = |i: u32| (flags + 4 * u64::from(i)) as *mut u32;
            global::wait_acquire_gpu_u32(flag((mine + 1) % 3), 1);
            global::st_release_gpu_u32(flag(mine), 1);
        })
        .expect_err("a circle");
        assert_eq!(report.rule, Rule::Deadlock, "seed {seed}\n{report}");
    }
}
