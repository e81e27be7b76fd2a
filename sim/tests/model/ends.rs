//! What comes before a barrier's `inval`, and before a CTA exits: found under every schedule.

use crate::common::twins::{silent, silent_on};
use crate::common::{Shape, init_cluster as init, run_on, smem, tensor, tid};
use sim::ops::cp_async_bulk as bulk;
use sim::ops::{cluster, cp_async, mbarrier, shared, thread, warp};
use sim::{GlobalMemory, Report, Rule};

fn meet() {
    cluster::arrive_relaxed();
    cluster::wait_acquire();
}

/// A kernel with a fault and its twin without. The report may have one side: what comes too late is not there
/// yet.
fn twins_on(
    memory: &GlobalMemory,
    rule: Rule,
    shape: Shape,
    kernel: impl Fn(bool) + Sync,
) -> Report {
    silent_on(memory, shape, || kernel(true));
    let found = |seed| {
        let report = run_on(memory, seed, shape, || kernel(false)).expect_err("it is found");
        assert_eq!(report.rule, rule, "seed {seed}\n{report}");
        assert!(report.at.is_some(), "{report}");
        *report
    };
    (0..100).map(found).last().expect("a hundred runs")
}

fn twins(rule: Rule, shape: Shape, kernel: impl Fn(bool) + Sync) -> Report {
    twins_on(&GlobalMemory::new(), rule, shape, kernel)
}

#[test]
fn inval_comes_after_the_end_of_each_wait() {
    let kernel = |right: bool| {
        init(0, 1);
        if tid() == 32 {
            mbarrier::wait_parity(smem(0), 0);
        } else if tid() == 0 {
            mbarrier::arrive(smem(0));
        }
        if right {
            thread::sync_threads();
        }
        if tid() == 0 {
            mbarrier::inval(smem(0));
        }
    };
    silent(Shape(64, 1, 64), || kernel(true));
    let mut after = 0;
    for seed in 0..100 {
        let report = run_on(&GlobalMemory::new(), seed, Shape(64, 1, 64), || kernel(false));
        let report = report.expect_err("it is found");
        // Or the wait comes after inval.
        assert!(matches!(report.rule, Rule::InvalInUse | Rule::NotABarrier), "{report}");
        after += u32::from(report.message.contains("nothing orders the end of a wait"));
    }
    assert_ne!(after, 0, "in some runs the wait was over");
    // What the lanes of a warp do together is enough, and so is an answer.
    silent(Shape(64, 1, 64), || {
        init(0, 1);
        init(8, 1);
        if tid() >= 32 {
            mbarrier::wait_parity(smem(0), 0);
            if warp::elect_one() {
                mbarrier::arrive(smem(8));
            }
        } else if tid() == 0 {
            mbarrier::arrive(smem(0));
            mbarrier::wait_parity(smem(8), 0);
            mbarrier::inval(smem(0));
            mbarrier::inval(smem(8));
        }
    });
}

#[test]
fn somebody_of_the_cta_waits_for_each_load() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    // The thread that issues it may return before; the one that waits need not be the last.
    let report = twins_on(&memory, Rule::InFlightAtExit, Shape(96, 1, 1024), |right| {
        init(0, 1);
        if tid() == 0 {
            mbarrier::arrive_expect_tx(smem(0), 256);
            bulk::tensor_load(smem(128), map.at(), [0, 0], smem(0));
        }
        if tid() == 40 && right {
            mbarrier::wait_parity(smem(0), 0);
        }
    });
    assert!(report.message.contains("phase 0"), "{report}");
    // A multicast, of which each CTA waits for its own part.
    twins_on(&memory, Rule::InFlightAtExit, Shape(32, 2, 1024), |right| {
        init(0, 1);
        if tid() == 0 {
            mbarrier::arrive_expect_tx(smem(0), 256);
            if cluster::cta_rank() == 0 {
                bulk::tensor_load_multicast(smem(128), map.at(), [0, 0], smem(0), 3);
            }
        }
        if right || cluster::cta_rank() == 0 {
            mbarrier::wait_parity(smem(0), 0);
        }
        meet();
    });
}

#[test]
fn a_cta_hears_of_its_peers_last_accesses() {
    let peer = |at: u32| cluster::mapa(smem(at), 1 - cluster::cta_rank());
    let report = twins(Rule::PeerGone, Shape(32, 2, 256), |right| {
        init(0, 1);
        if cluster::cta_rank() == 0 {
            shared::st_cluster(cluster::mapa(smem(128), 1) + 4 * tid(), tid());
        }
        if right {
            meet();
        }
    });
    assert!(report.message.contains("CTA 1"), "{report}");
    // An arrival for which one thread waits, and others return at once.
    twins(Rule::PeerGone, Shape(64, 2, 256), |right| {
        init(0, 1);
        if tid() == 0 {
            mbarrier::arrive_remote(peer(0));
        }
        if tid() == 40 && right {
            mbarrier::wait_parity(smem(0), 0);
        }
    });
    // A load from the peer, and a relaxed arrival after it.
    silent(Shape(32, 2, 256), || {
        shared::st(smem(128 + 4 * tid()), tid());
        cluster::arrive_release();
        cluster::wait_acquire();
        shared::ld_cluster::<u32>(peer(128) + 4 * tid());
        meet();
    });
}

#[test]
fn cp_async_is_waited_for_by_its_thread_or_behind_its_mbarrier() {
    let memory = GlobalMemory::new();
    let from = memory.alloc(512);
    memory.write(from, &[7; 512]).unwrap();
    let copy =
        || cp_async::copy_16(smem(128 + 16 * tid()), (from + 16 * u64::from(tid())) as *const u8);
    // The threads that copy return, and a thread of another warp waits for them.
    let report = twins_on(&memory, Rule::InFlightAtExit, Shape(64, 1, 1024), |right| {
        init(0, 32);
        if tid() < 32 {
            copy();
            mbarrier::cp_async_arrive_noinc(smem(0));
        } else if right && tid() == 32 {
            mbarrier::wait_parity(smem(0), 0);
            assert_eq!(shared::ld::<u32>(smem(128)), 0x0707_0707);
        }
    });
    assert!(report.message.contains("cp.async"), "{report}");
    // Nobody can wait for a copy behind the last arrival.
    let report = twins_on(&memory, Rule::InFlightAtExit, Shape(64, 1, 1024), |right| {
        init(0, 32);
        if tid() < 32 {
            mbarrier::cp_async_arrive_noinc(smem(0));
            copy();
            cp_async::commit_group();
            if right {
                cp_async::wait_group::<0>();
            }
        } else if tid() == 32 {
            mbarrier::wait_parity(smem(0), 0);
        }
    });
    assert!(report.message.contains("cp.async"), "{report}");
}
