//! Races in shared memory between threads: whichever came first in a run, they are found.

use crate::common::twins::{found, silent, twins};
use crate::common::{Shape, init_cluster as init, smem, tid};
use sim::Rule;
use sim::ops::{barrier, cluster, fence, matrix, mbarrier, shared, thread, warp};

/// The line of this file that holds a mark.
fn line_of(mark: &str) -> u32 {
    let lines = include_str!("races.rs").lines();
    1 + lines.take_while(|l| !l.contains(mark)).count() as u32
}

#[test]
fn a_store_and_a_load_of_two_warps() {
    let report = twins(Rule::SharedRace, Shape(64, 1, 1024), |right| {
        if tid() < 32 {
            shared::st(smem(4 * tid()), tid()); // STORES
        }
        if right {
            thread::sync_threads();
        }
        if tid() >= 32 {
            // A plain wait for the value, as code that forgot the barrier may have.
            warp::sync_warp(u32::MAX);
            shared::st(smem(4 * (tid() - 32)), 7u32); // OVERWRITES
        }
    });
    let mut lines = [report.at.unwrap().line, report.other.unwrap().1.line];
    lines.sort_unstable();
    assert_eq!(lines, [line_of("// STORES"), line_of("// OVERWRITES")]);
    assert!(report.message.contains("has not synchronised with CTA 0, warp"), "{}", report.message);
}

#[test]
fn lanes_of_a_warp_without_sync_warp() {
    twins(Rule::SharedRace, Shape(32, 1, 1024), |right| {
        shared::st(smem(4 * tid()), tid());
        // A vote brings the lanes together, and orders no memory.
        assert!(warp::vote_all(true));
        if right {
            warp::sync_warp(u32::MAX);
        }
        shared::ld::<u32>(smem(4 * (tid() ^ 1)));
    });
}

#[test]
fn half_a_warp_that_meets_does_not_speak_for_the_other() {
    twins(Rule::SharedRace, Shape(32, 1, 1024), |right| {
        shared::st(smem(4 * tid()), tid());
        warp::vote_all(true);
        warp::sync_warp(if tid() < 16 { 0xffff } else { 0xffff_0000 });
        let partner = if right { tid() ^ 1 } else { tid() ^ 16 };
        shared::ld::<u32>(smem(4 * partner));
    });
}

#[test]
fn neighbours_in_a_word_and_readers_of_it_do_not_race() {
    silent(Shape(64, 1, 1024), || {
        shared::st(smem(2 * tid()), tid() as u16);
        thread::sync_threads();
        shared::ld::<u32>(smem(4 * (tid() / 2)));
        shared::ld::<[u32; 4]>(smem(0));
        thread::sync_threads();
        shared::st(smem(2 * tid()), tid() as u16);
    });
    let report = found(Rule::SharedRace, Shape(64, 1, 1024), || {
        // The words overlap by half.
        if tid().is_multiple_of(32) {
            shared::st(smem(0), u64::from(tid()));
        }
        if tid() == 32 {
            shared::st(smem(6), 1u16);
        }
    });
    assert!(report.message.contains("(base + "), "{report}");
}

#[test]
fn a_read_that_the_next_write_does_not_wait_for() {
    twins(Rule::SharedRace, Shape(64, 1, 1024), |right| {
        if tid() == 0 {
            shared::st(smem(0), 1u32);
        }
        thread::sync_threads();
        if tid() > 0 {
            shared::ld::<u32>(smem(0));
        }
        if right {
            thread::sync_threads();
        }
        if tid() == 0 {
            shared::st(smem(0), 2u32);
        }
    });
}

#[test]
fn a_named_barrier_orders_those_who_arrive_before_those_who_sync() {
    twins(Rule::SharedRace, Shape(96, 1, 1024), |right| {
        let warp = tid() / 32;
        if warp == 0 {
            if !right {
                barrier::arrive(1, 64);
            }
            shared::st(smem(4 * tid()), tid());
            if right {
                barrier::arrive(1, 64);
            }
        } else if warp == 1 {
            barrier::sync(1, 64);
            shared::ld::<u32>(smem(256 + 4 * tid()).min(smem(4 * (tid() - 32))));
        }
    });
    // It says nothing to those who only arrive.
    found(Rule::SharedRace, Shape(64, 1, 1024), || {
        if tid() < 32 {
            barrier::arrive(1, 64);
            shared::st(smem(0), 1u32);
        } else {
            shared::st(smem(0), 1u32);
            barrier::sync(1, 64);
        }
    });
}

/// A ring of one slot, filled and read by threads.
#[test]
fn a_ring_without_the_wait_for_an_empty_slot() {
    twins(Rule::SharedRace, Shape(64, 1, 1024), |right| {
        shared::st(smem(128 + 4 * tid()), 0u32);
        init(0, 32);
        init(8, 32);
        for round in 0..4 {
            let parity = round & 1;
            if tid() < 32 {
                if right {
                    mbarrier::wait_parity(smem(8), parity ^ 1);
                } else if round > 1 {
                    // Too late by one: the slot may still be read. (Not at all would lap it.)
                    mbarrier::wait_parity(smem(8), parity);
                }
                shared::st(smem(128 + 4 * tid()), round);
                mbarrier::arrive(smem(0));
            } else {
                mbarrier::wait_parity(smem(0), parity);
                shared::ld::<u32>(smem(128 + 4 * (63 - tid())));
                mbarrier::arrive(smem(8));
            }
        }
    });
}

#[test]
fn polls_and_tokens_acquire_too() {
    twins(Rule::SharedRace, Shape(64, 1, 1024), |right| {
        shared::st(smem(128 + 4 * tid()), 0u32);
        init(0, 64);
        shared::st(smem(128 + 4 * tid()), tid());
        let token = mbarrier::arrive(smem(0));
        if right {
            if tid().is_multiple_of(2) {
                while !mbarrier::try_wait(smem(0), token) {}
            } else {
                while !mbarrier::test_wait_parity(smem(0), 0) {}
            }
        } else {
            // What a failed poll says is nothing.
            mbarrier::try_wait_parity(smem(0), 1);
        }
        shared::ld::<u32>(smem(128 + 4 * (63 - tid())));
        cluster::arrive_release();
        cluster::wait_acquire();
    });
}

/// A fence makes a release of a relaxed arrival, if it reaches as far.
#[test]
fn a_relaxed_arrival_after_a_fence() {
    twins(Rule::SharedRace, Shape(32, 2, 1024), |right| {
        shared::st(smem(4 * tid()), tid());
        if right {
            fence::acq_rel_cluster();
        } else {
            fence::acq_rel_cta();
        }
        cluster::arrive_relaxed();
        cluster::wait_acquire();
        shared::ld_cluster::<u32>(cluster::mapa(smem(4 * tid()), cluster::cta_rank() ^ 1));
        cluster::arrive_relaxed();
        cluster::wait_acquire();
    });
}

#[test]
fn the_halves_of_the_cluster_barrier() {
    twins(Rule::SharedRace, Shape(32, 2, 1024), |right| {
        let peer = cluster::mapa(smem(4 * tid()), cluster::cta_rank() ^ 1);
        shared::st(smem(4 * tid()), tid());
        if right {
            cluster::arrive_release();
        } else {
            cluster::arrive_relaxed();
        }
        cluster::wait_acquire();
        shared::ld_cluster::<u32>(peer);
        cluster::arrive_release();
        cluster::wait_acquire();
    });
}

/// Data in the peer's shared memory, and a flag there: both ends at cluster scope, or it is none.
#[test]
fn a_remote_store_needs_cluster_scope_at_both_ends() {
    for narrow_release in [true, false] {
        let report = twins(Rule::Scope, Shape(32, 2, 1024), |right| {
            init(0, 32);
            let peer = cluster::cta_rank() ^ 1;
            shared::st_cluster(cluster::mapa(smem(128 + 4 * tid()), peer), tid());
            if right || !narrow_release {
                mbarrier::arrive_remote_release_cluster(cluster::mapa(smem(0), peer));
            } else {
                mbarrier::arrive_remote(cluster::mapa(smem(0), peer));
            }
            if right || narrow_release {
                mbarrier::wait_parity_cluster(smem(0), 0);
            } else {
                mbarrier::wait_parity(smem(0), 0);
            }
            shared::ld::<u32>(smem(128 + 4 * (tid() ^ 1)));
            cluster::arrive_release();
            cluster::wait_acquire();
        });
        assert!(report.message.contains("only operations of .cta scope"), "{report}");
    }
}

/// Local data and a local flag; then the peer, who was told by a third.
#[test]
fn order_is_handed_on() {
    silent(Shape(64, 2, 1024), || {
        init(0, 32);
        let rank = cluster::cta_rank();
        if rank == 0 && tid() < 32 {
            shared::st(smem(128 + 4 * tid()), tid());
            mbarrier::arrive(smem(0));
        } else if rank == 0 {
            mbarrier::wait_parity(smem(0), 0);
        }
        cluster::arrive_release();
        cluster::wait_acquire();
        if rank == 1 {
            shared::ld_cluster::<u32>(cluster::mapa(smem(128 + 4 * (tid() % 32)), 0));
        }
        cluster::arrive_relaxed();
        cluster::wait_acquire();
    });
}

#[test]
fn a_barrier_whose_init_nobody_waited_for() {
    let report = twins(Rule::InitUnseen, Shape(64, 1, 1024), |right| {
        if tid() == 0 {
            mbarrier::init(smem(0), 64); // INITIALISES
        }
        // Brings the threads together, and tells them nothing: phases of another kind.
        warp::vote_all(true);
        if right {
            thread::sync_threads();
        } else if tid() >= 32 {
            // The model finds no barrier if this comes too early: wait until there is one.
            while !started() {}
        }
        if right || tid() == 0 || tid() >= 32 {
            mbarrier::arrive(smem(0));
        }
    });
    assert_eq!(report.other.unwrap().1.line, line_of("// INITIALISES"));
}

/// Whether some time has passed: enough for the first warp to get there, under any seed.
fn started() -> bool {
    (0..400).all(|_| {
        fence::acq_rel_cta();
        sim::ops::misc::nanosleep(1);
        true
    })
}

/// An init of the peer's: a relaxed arrival carries it, after the fence for that.
#[test]
fn an_init_for_the_cluster() {
    twins(Rule::InitUnseen, Shape(32, 2, 1024), |right| {
        if tid() == 0 {
            mbarrier::init(smem(0), 32);
            if right {
                fence::mbarrier_init_release_cluster();
            }
        }
        cluster::arrive_relaxed();
        cluster::wait_acquire();
        mbarrier::arrive_remote(cluster::mapa(smem(0), cluster::cta_rank() ^ 1));
        mbarrier::wait_parity(smem(0), 0);
        cluster::arrive_relaxed();
        cluster::wait_acquire();
    });
}

#[test]
fn memory_of_a_barrier_that_is_over() {
    twins(Rule::SharedRace, Shape(64, 1, 1024), |right| {
        init(0, 64);
        mbarrier::arrive(smem(0));
        mbarrier::wait_parity(smem(0), 0);
        thread::sync_threads();
        if tid() == 0 {
            mbarrier::inval(smem(0));
            shared::st(smem(0), 1u64);
        }
        if right {
            thread::sync_threads();
        } else {
            // Not ordered, and late enough to find the barrier gone.
            started();
        }
        if tid() == 32 {
            shared::st(smem(0), 2u64);
        }
    });
}

#[test]
fn matrices_through_shared_memory() {
    twins(Rule::SharedRace, Shape(64, 1, 4096), |right| {
        let row = smem(512 * (tid() / 32) + 16 * (tid() % 32));
        matrix::stmatrix_x4(row, [tid(); 4]);
        if right {
            warp::sync_warp(u32::MAX);
        }
        matrix::ldmatrix_x4_trans(smem(512 * (tid() / 32) + 16 * (31 - tid() % 32)));
    });
}

#[test]
fn atomics_do_not_race_with_each_other() {
    twins(Rule::SharedRace, Shape(64, 1, 1024), |right| {
        if tid() == 0 {
            shared::st(smem(0), 0u32);
        }
        thread::sync_threads();
        if right || tid() != 33 {
            shared::atomic_add_u32(smem(0), 1);
        } else {
            shared::st(smem(0), 5u32);
        }
        thread::sync_threads();
        shared::ld::<u32>(smem(0));
    });
    // With fences around it, an atomic is a flag.
    for right in [true, false] {
        let flag = || {
            if tid() == 0 {
                shared::st(smem(0), 0u32);
            }
            thread::sync_threads();
            if tid() == 0 {
                shared::st(smem(16), 1u32);
                fence::acq_rel_cta();
                shared::atomic_add_u32(smem(0), 1);
            } else if tid() == 32 {
                while shared::atomic_add_u32(smem(0), 0) == 0 {}
                if right {
                    fence::acq_rel_cta();
                }
                shared::ld::<u32>(smem(16));
            }
        };
        if right {
            silent(Shape(64, 1, 1024), flag);
        } else {
            found(Rule::SharedRace, Shape(64, 1, 1024), flag);
        }
    }
}
