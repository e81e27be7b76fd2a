//! mbarriers, named and cluster barriers, in the PTX manual's words.

use crate::common::{Seen, Shape, init_cluster as init, passes, run_with, tid};
use sim::ops::{barrier, cluster, fence, mbarrier, shared, thread, warp};
use sim::{Config, GlobalMemory, Schedule};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

fn bar(i: u32) -> u32 {
    shared::dynamic_base() + 8 * i
}

/// "test_wait.parity waits for the completion of the phase indicated by phaseParity: even phases
/// have parity 0": on a fresh barrier the phase before it (odd) counts as complete.
#[test]
fn fresh_barrier_parities() {
    passes(Shape(1, 1, 64), || {
        mbarrier::init(bar(0), 1);
        assert!(mbarrier::test_wait_parity(bar(0), 1));
        assert!(!mbarrier::test_wait_parity(bar(0), 0));
        mbarrier::wait_parity(bar(0), 1);
        mbarrier::arrive(bar(0));
        assert!(mbarrier::try_wait_parity(bar(0), 0));
        assert!(!mbarrier::try_wait_parity_for(bar(0), 1, 100));
    });
}

/// "mbarrier.arrive returns the state of the mbarrier prior to the arrive-on"; a token's phase is
/// waited for; pending_count reads it.
#[test]
fn tokens_of_arrivals() {
    passes(Shape(1, 1, 64), || {
        mbarrier::init(bar(0), 3);
        let first = mbarrier::arrive(bar(0));
        assert_eq!(mbarrier::pending_count(first), 3);
        let second = mbarrier::arrive_count(bar(0), 1);
        assert_eq!(mbarrier::pending_count(second), 2);
        assert!(!mbarrier::test_wait(bar(0), first));
        mbarrier::arrive(bar(0));
        assert!(mbarrier::test_wait(bar(0), first) && mbarrier::try_wait(bar(0), second));
    });
}

#[test]
fn drop_and_no_complete() {
    passes(Shape(1, 1, 64), || {
        mbarrier::init(bar(0), 3);
        mbarrier::arrive_no_complete(bar(0), 1);
        mbarrier::arrive_drop(bar(0));
        mbarrier::arrive(bar(0));
        mbarrier::wait_parity(bar(0), 0);
        mbarrier::arrive_count(bar(0), 2);
        mbarrier::wait_parity(bar(0), 1);
        mbarrier::inval(bar(0));
        mbarrier::init(bar(0), 1);
    });
}

#[test]
fn transactions_by_hand() {
    passes(Shape(2, 1, 64), || {
        if tid() == 0 {
            mbarrier::init(bar(0), 1);
        }
        barrier::sync_unaligned(1, 2);
        if tid() == 0 {
            // May complete before it is expected: the missing arrival holds the phase.
            mbarrier::complete_tx(bar(0), 40);
        } else {
            mbarrier::expect_tx(bar(0), 24);
            mbarrier::arrive_expect_tx(bar(0), 16);
        }
        mbarrier::wait_parity(bar(0), 0);
    });
}

/// All threads wait for each of several phases, and nobody is ever let through early.
#[test]
fn many_waiters_many_phases() {
    let count = AtomicU32::new(0);
    let run = || {
        count.store(0, SeqCst);
        passes(Shape(96, 1, 64), || {
            if tid() == 0 {
                mbarrier::init(bar(0), 96);
                count.store(0, SeqCst);
            }
            thread::sync_threads();
            for phase in 0..5 {
                count.fetch_add(1, SeqCst);
                mbarrier::arrive(bar(0));
                mbarrier::wait_parity(bar(0), phase & 1);
                assert!(count.load(SeqCst) >= 96 * (phase + 1));
            }
        });
    };
    run();
}

#[test]
fn remote_arrivals_and_expectations() {
    passes(Shape(32, 2, 64), || {
        if tid() == 0 {
            mbarrier::init(bar(0), 4);
            fence::mbarrier_init_release_cluster();
        }
        cluster::arrive_release();
        cluster::wait_acquire();
        if tid() == 0 {
            let peer = cluster::mapa(bar(0), cluster::cta_rank() ^ 1);
            mbarrier::arrive_remote(peer);
            mbarrier::arrive_remote_count(peer, 1);
            mbarrier::arrive_remote_release_cluster(peer);
            mbarrier::expect_tx_remote(peer, 8);
            mbarrier::arrive_expect_tx_remote(peer, 8);
            mbarrier::complete_tx_remote(peer, 16);
        }
        mbarrier::wait_parity_cluster(bar(0), 0);
        cluster::arrive_relaxed();
        cluster::wait_acquire();
    });
}

/// "The barrier count is in threads: arrive and sync count together."
#[test]
fn named_barriers_count_threads() {
    let order = AtomicU32::new(0);
    passes(Shape(160, 1, 0), || {
        if tid() == 0 {
            order.store(0, SeqCst);
        }
        thread::sync_threads();
        if tid() < 32 {
            order.fetch_add(1, SeqCst);
            barrier::arrive(3, 160);
        } else {
            barrier::sync(3, 160);
            assert_eq!(order.load(SeqCst), 32);
        }
    });
}

#[test]
fn reductions_over_a_barrier() {
    passes(Shape(64, 1, 0), || {
        let odd = tid() % 2 == 1;
        assert_eq!(barrier::red_popc(1, 64, odd), 32);
        assert!(!barrier::red_and(1, 64, odd));
        assert!(barrier::red_or(1, 64, odd));
        assert!(barrier::red_and(1, 64, true));
        assert!(!barrier::red_or(1, 64, false));
    });
}

/// "barrier.cluster.wait waits for all non-exited threads of the cluster."
#[test]
fn exited_threads_do_not_hold_the_cluster_barrier() {
    passes(Shape(64, 2, 0), || {
        if warp::warp_id() == 1 {
            return;
        }
        for _ in 0..3 {
            cluster::arrive_release_unaligned();
            cluster::wait_acquire_unaligned();
        }
    });
}

#[test]
fn warps_exchange() {
    let seen = Seen::new();
    passes(Shape(32, 1, 0), || {
        let lane = warp::lane_id();
        seen.push(lane);
        assert_eq!(warp::shfl_idx(lane * 10, 7), 70);
        assert_eq!(warp::shfl_xor(lane, 5), lane ^ 5);
        assert_eq!(warp::shfl_up(lane, 3), if lane < 3 { lane } else { lane - 3 });
        assert_eq!(warp::shfl_down(lane, 3), if lane > 28 { lane } else { lane + 3 });
        assert_eq!(warp::ballot(lane.is_multiple_of(4)), 0x1111_1111);
        assert!(warp::vote_any(lane == 9) && !warp::vote_all(lane == 9) && warp::vote_all(true));
        assert_eq!(warp::ballot(warp::elect_one()).count_ones(), 1);
        if lane < 8 {
            warp::sync_warp(0xff);
        } else {
            warp::sync_warp(!0xff);
        }
        warp::sync_warp(u32::MAX);
    });
    assert_eq!(seen.take().len(), 32 * 20);
}

/// "mbarrier.try_wait is a potentially blocking instruction": it may return false.
#[test]
fn a_first_poll_answers_false_unless_the_phase_is_known_to_be_over() {
    passes(Shape(64, 1, 128), || {
        init(0, 1);
        init(64, 1);
        if tid() == 0 {
            mbarrier::arrive(bar(0));
            assert!(mbarrier::try_wait_parity(bar(0), 0), "its own arrival was the last");
            mbarrier::arrive_expect_tx(bar(8), 16);
            mbarrier::complete_tx(bar(8), 16);
            assert!(mbarrier::try_wait_parity(bar(8), 0), "its own bytes were the last");
        }
        if tid() == 32 {
            assert!(!mbarrier::try_wait_parity(bar(0), 0));
            while !mbarrier::test_wait_parity(bar(0), 0) {}
            assert!(mbarrier::try_wait_parity(bar(0), 0), "it has seen the phase");
        }
        thread::sync_threads();
        assert!(mbarrier::test_wait_parity(bar(0), 0), "all know of the phase");
    });
}

#[test]
fn polls_of_later_phases_and_polls_by_priority_answer_either() {
    let kernel = |answers: &Seen<(u32, bool)>| {
        init(0, 1);
        for phase in 0..2 {
            if tid() == 0 {
                mbarrier::arrive(bar(0));
            } else if tid() == 32 {
                answers.push((phase, mbarrier::try_wait_parity(bar(0), phase)));
            }
            thread::sync_threads();
        }
    };
    let seen = |schedule: fn() -> Schedule| {
        let answers = Seen::new();
        for seed in 0..40 {
            let config = Config { seed, schedule: schedule(), ..Config::default() };
            run_with(&config, &GlobalMemory::new(), Shape(64, 1, 64), || kernel(&answers)).unwrap();
        }
        let mut all = answers.take();
        all.sort_unstable();
        all.dedup();
        all
    };
    assert_eq!(seen(Schedule::random), [(0, false), (1, false), (1, true)]);
    assert_eq!(seen(|| Schedule::pct(2, 100)).len(), 4);
}
