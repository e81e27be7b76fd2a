//! How a run begins, ends and fails: panics, traps, unwinding, polling, seeds.

use crate::common::{Shape, breaks, run_on, tid};
use sim::ops::{barrier, cluster, global, mbarrier, misc, shared, thread, warp};
use sim::{Config, GlobalMemory, Grid, Rule};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

fn bar() -> u32 {
    shared::dynamic_base()
}

struct CountDrop<'a>(&'a AtomicU32);

impl Drop for CountDrop<'_> {
    fn drop(&mut self) {
        // Instructions in a drop are inert while the run is torn down: none of these may block.
        thread::sync_threads();
        mbarrier::wait_parity(bar(), 0);
        assert!(mbarrier::try_wait_parity(bar(), 1));
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_panic_is_a_report_and_all_locals_are_dropped() {
    let drops = AtomicU32::new(0);
    let report = run_on(&GlobalMemory::new(), 0, Shape(64, 2, 64), || {
        let _local = CountDrop(&drops);
        cluster::arrive_release();
        cluster::wait_acquire();
        if tid() == 40 && cluster::cta_rank() == 1 {
            let list = [1, 2, 3];
            assert!(list[tid() as usize % 3] == 7, "not the number that was wanted");
        }
        warp::sync_warp(u32::MAX);
        barrier::sync(1, 64);
    })
    .unwrap_err();
    assert_eq!(report.rule, Rule::Panic);
    assert!(report.message.contains("not the number that was wanted"), "{report}");
    assert!(report.message.contains("runs.rs:"), "{report}");
    let culprit = report.culprit.unwrap();
    assert_eq!((culprit.cta, culprit.warp, culprit.lane), (1, 1, 8));
    assert_eq!(drops.load(SeqCst), 128, "every thread had started, and was unwound");
}

#[test]
fn a_trap_names_its_line() {
    let report = breaks(Rule::Trap, Shape(1, 1, 0), || misc::trap());
    assert!(report.at.unwrap().file.ends_with("runs.rs"));
}

struct TrapInDrop;

impl Drop for TrapInDrop {
    fn drop(&mut self) {
        misc::trap();
    }
}

/// A drop that traps can neither return nor unwind: its thread is abandoned, the process lives.
#[test]
fn a_trap_in_a_drop_of_an_unwind() {
    breaks(Rule::Panic, Shape(32, 1, 0), || {
        let _trap = TrapInDrop;
        thread::sync_threads();
        assert!(tid() != 3);
        warp::sync_warp(u32::MAX);
    });
    // The next run is not harmed.
    run_on(&GlobalMemory::new(), 0, Shape(32, 1, 0), thread::sync_threads).unwrap();
}

/// Kernel code that catches the unwinding of a failed run, and goes on, is unwound again.
#[test]
fn unwinding_cannot_be_refused() {
    breaks(Rule::Trap, Shape(2, 1, 64), || {
        if tid() == 0 {
            mbarrier::init(bar(), 1);
            // Without an end: it is abandoned at last.
            loop {
                let wait = || mbarrier::wait_parity(bar(), 0);
                let _ = std::panic::catch_unwind(wait);
            }
        } else {
            misc::trap();
        }
    });
}

#[test]
fn a_loop_of_polls_is_a_deadlock() {
    let report = breaks(Rule::Deadlock, Shape(64, 1, 64), || {
        if tid() == 0 {
            mbarrier::init(bar(), 1);
        }
        thread::sync_threads();
        while !mbarrier::try_wait_parity(bar(), 0) {}
    });
    assert!(report.to_string().contains("64 threads: polls mbarrier"), "{report}");
    breaks(Rule::Deadlock, Shape(2, 1, 64), || {
        if tid() == 0 {
            mbarrier::init(bar(), 1);
        }
        barrier::sync_unaligned(1, 2);
        while !mbarrier::test_wait_parity(bar(), 0) {
            misc::nanosleep(100);
        }
    });
}

#[test]
fn a_poll_may_give_up_and_do_something_else() {
    run_on(&GlobalMemory::new(), 0, Shape(2, 1, 64), || {
        if tid() == 0 {
            mbarrier::init(bar(), 1);
        }
        barrier::sync_unaligned(1, 2);
        if tid() == 0 {
            // Nobody else can complete it: the poll must return.
            while !mbarrier::try_wait_parity(bar(), 0) {
                mbarrier::arrive(bar());
            }
        }
    })
    .unwrap();
}

#[test]
fn a_busy_loop_ends_at_the_step_limit() {
    let config = Config { max_steps: 10_000, ..Config::default() };
    let grid = Grid {
        grid: [1, 1, 1],
        block: [32, 1, 1],
        cluster: [1, 1, 1],
        min_ctas: 1,
        smem_bytes: 128,
        name: "spin",
    };
    let spin = || {
        let own = shared::dynamic_base() + 4 * tid();
        shared::st(own, 0u32);
        while shared::ld::<u32>(own) == 0 {}
    };
    let report = sim::launch(&config, &GlobalMemory::new(), &grid, &spin).unwrap_err();
    assert_eq!(report.rule, Rule::StepLimit);
    // Without a limit, loads that see nothing new are noticed by themselves.
    let report = sim::launch(&Config::default(), &GlobalMemory::new(), &grid, &spin).unwrap_err();
    assert!(report.message.contains("nothing changes"), "{report}");
}

fn over_clusters(n: u32, workers: usize, kernel: impl Fn() + Sync) -> Result<(), Rule> {
    let config = Config { workers: Some(workers), ..Config::default() };
    let grid = Grid {
        grid: [n, 1, 1],
        block: [32, 1, 1],
        cluster: [1, 1, 1],
        min_ctas: 1,
        smem_bytes: 0,
        name: "clusters",
    };
    sim::launch(&config, &GlobalMemory::new(), &grid, &kernel).map(|_| ()).map_err(|r| r.rule)
}

/// Clusters that wait for each other through global memory make progress, however few workers
/// there are.
#[test]
fn clusters_wait_for_later_clusters() {
    for workers in [1, 2, 3] {
        let memory = GlobalMemory::new();
        let flags = memory.alloc(64);
        let flag = |i: u32| (flags + u64::from(i) * 4) as *mut u32;
        let config = Config { workers: Some(workers), ..Config::default() };
        let grid = Grid {
            grid: [8, 1, 1],
            block: [32, 1, 1],
            cluster: [1, 1, 1],
            min_ctas: 1,
            smem_bytes: 0,
            name: "chain",
        };
        sim::launch(&config, &memory, &grid, &|| {
            let i = thread::block_idx_x();
            if tid() == 0 {
                while i < 7 && global::ld_acquire_gpu_u32(flag(i + 1)) == 0 {}
                global::st_release_gpu_u32(flag(i), 1);
            }
        })
        .unwrap();
    }
}

#[test]
fn clusters_that_wait_for_nothing_are_a_deadlock() {
    for workers in [1, 2] {
        let memory = GlobalMemory::new();
        let flag = memory.alloc(4) as *const u32 as usize;
        let config = Config { workers: Some(workers), ..Config::default() };
        let grid = Grid {
            grid: [4, 1, 1],
            block: [32, 1, 1],
            cluster: [1, 1, 1],
            min_ctas: 1,
            smem_bytes: 0,
            name: "stuck",
        };
        let report = sim::launch(&config, &memory, &grid, &|| {
            while global::ld_acquire_gpu_u32(flag as *const u32) == 0 {}
        })
        .unwrap_err();
        assert_eq!(report.rule, Rule::Deadlock);
        assert!(report.to_string().contains("polls global memory"), "{report}");
    }
}

#[test]
fn a_failing_cluster_ends_the_others() {
    let rule = over_clusters(16, 2, || {
        if thread::block_idx_x() == 5 {
            misc::trap();
        }
        thread::sync_threads();
    });
    assert_eq!(rule, Err(Rule::Trap));
}

#[test]
fn atomics_add_up_over_clusters() {
    let memory = GlobalMemory::new();
    let sum = memory.alloc(8);
    let grid = Grid {
        grid: [32, 2, 1],
        block: [8, 4, 2],
        cluster: [2, 2, 1],
        min_ctas: 1,
        smem_bytes: 16,
        name: "atomics",
    };
    sim::launch(&Config::default(), &memory, &grid, &|| {
        assert_eq!(cluster::num_ctas(), 4);
        assert_eq!(
            cluster::cta_rank(),
            cluster::ctaid_x() + cluster::nctaid_x() * cluster::ctaid_y()
        );
        assert_eq!(
            thread::block_idx_x(),
            cluster::clusterid_x() * cluster::nctaid_x() + cluster::ctaid_x()
        );
        assert_eq!(
            shared::dynamic_base(),
            cluster::mapa(shared::dynamic_base(), cluster::cta_rank()),
            "an address of the own CTA has its rank"
        );
        let linear =
            thread::thread_idx_x() + 8 * (thread::thread_idx_y() + 4 * thread::thread_idx_z());
        assert_eq!(linear % 32, warp::lane_id());
        if linear == 0 {
            shared::st(bar(), 0u32);
        }
        thread::sync_threads();
        shared::atomic_add_u32(bar(), 1);
        thread::sync_threads();
        assert_eq!(shared::ld::<u32>(bar()), 64);
        global::atomic_add_u32(sum as *mut u32, 1);
        global::red_release_gpu_add_u32(sum as *mut u32, 1);
        global::atomic_add_f32((sum + 4) as *mut f32, 1.0);
    })
    .unwrap();
    let mut out = [0; 8];
    memory.read(sum, &mut out).unwrap();
    assert_eq!(u32::from_le_bytes(out[..4].try_into().unwrap()), 2 * 64 * 64);
    assert_eq!(out[4..], 4096f32.to_le_bytes());
}

#[test]
fn launches_that_no_gpu_takes() {
    let good = Grid {
        grid: [4, 1, 1],
        block: [64, 1, 1],
        cluster: [2, 1, 1],
        min_ctas: 1,
        smem_bytes: 0,
        name: "launch",
    };
    let with = |f: fn(&mut Grid<'_>)| {
        let mut g = good.clone();
        f(&mut g);
        sim::launch(&Config::default(), &GlobalMemory::new(), &g, &|| ()).unwrap_err()
    };
    for (report, part) in [
        (with(|g| g.block[0] = 1025), "1025 threads"),
        (with(|g| g.grid[0] = 3), "does not divide"),
        (with(|g| g.grid[1] = 0), "0 CTAs"),
        (with(|g| g.cluster = [4, 8, 1]), "32 CTAs"),
        (with(|g| g.min_ctas = 0), "0 CTAs of 64 threads on an SM; 1 to 32"),
        (with(|g| g.min_ctas = 33), "33 CTAs of 64 threads on an SM; 1 to 32"),
        (with(|g| g.smem_bytes = 232_449), "at most 232448"),
    ] {
        assert_eq!(report.rule, Rule::Launch);
        assert!(report.message.contains(part), "{report}");
    }
}

/// The seed decides the order of threads; the same seed gives the same run.
#[test]
fn seeds() {
    let order = |seed| {
        let next = AtomicU32::new(0);
        let seen = std::sync::Mutex::new(vec![0; 64]);
        let stats = run_on(&GlobalMemory::new(), seed, Shape(64, 1, 0), || {
            seen.lock().unwrap()[tid() as usize] = next.fetch_add(1, SeqCst);
            thread::sync_threads();
        })
        .unwrap();
        (seen.into_inner().unwrap(), stats)
    };
    let runs: Vec<_> = (0..8).map(order).collect();
    for (seed, run) in runs.iter().enumerate() {
        assert_eq!(*run, order(seed as u64));
        assert!(runs[..seed].iter().all(|r| r.0 != run.0), "seed {seed} repeats another");
    }
}

/// An instruction outside a launch has no cluster to run in.
#[test]
#[should_panic = "outside sim::launch"]
fn instructions_outside_a_launch() {
    thread::sync_threads();
}
