//! What may be left when a CTA exits, and what may not; regions and tokens.

use crate::common::{Shape, breaks, init_cluster, passes, smem, tid};
use sim::Rule;
use sim::ops::{cluster, debug, fence, mbarrier, shared, thread};

fn init(count: u32) -> u32 {
    if tid() == 0 {
        mbarrier::init(smem(0), count);
        fence::mbarrier_init_release_cluster();
    }
    thread::sync_threads();
    smem(0)
}

#[test]
fn a_phase_that_some_began_names_who_came_and_who_did_not() {
    let report = breaks(Rule::MidPhase, Shape(64, 1, 64), || {
        let bar = init(2);
        debug::label_barrier(bar, "done", 0);
        debug::label_role(if tid() == 0 { "Load" } else { "Math" });
        for step in 0..3 {
            if tid() == 0 {
                mbarrier::arrive(bar);
            }
            if tid() == 32 && step < 2 {
                mbarrier::arrive(bar);
            }
            thread::sync_threads();
        }
    });
    let says = "in phase 2 of `done[0]`: 1 of 2 arrivals came (arrive at ";
    assert!(report.message.contains(says), "{report}");
    assert!(report.message.contains("by Load), and 1 never will; not again since"), "{report}");
    assert!(report.message.ends_with("by Math"), "{report}");
}

#[test]
fn whole_phases_and_those_who_leave_are_no_findings() {
    // Nobody waits for the last phases.
    passes(Shape(64, 1, 64), || {
        let bar = init(2);
        if tid().is_multiple_of(32) {
            mbarrier::arrive(bar);
        }
    });
    // A thread that leaves the barrier for good.
    passes(Shape(64, 1, 64), || {
        let bar = init(2);
        if tid() == 0 {
            mbarrier::arrive_drop(bar);
        }
    });
    // It is no barrier any more.
    passes(Shape(1, 1, 64), || {
        let bar = init(2);
        mbarrier::arrive(bar);
        mbarrier::inval(bar);
    });
}

/// A peer's arrival may come after the last thread of the barrier's CTA has returned: that is its own error.
#[test]
fn a_peer_that_comes_too_late_is_told_so() {
    breaks(Rule::PeerGone, Shape(32, 2, 64), || {
        init_cluster(0, 2);
        if tid() == 0 {
            if cluster::cta_rank() == 1 {
                for _ in 0..400 {
                    fence::acq_rel_cta();
                }
            }
            mbarrier::arrive_remote(cluster::mapa(smem(0), 0));
        }
    });
}

#[test]
fn addresses_of_a_region_reach_barriers_and_peers() {
    passes(Shape(32, 2, 1024), || {
        let bars = debug::region("barriers", smem(0), 16);
        let data = debug::region("data", smem(128), 128);
        if tid() == 0 {
            mbarrier::init(bars + 8, 1);
            debug::label_barrier(bars + 8, "ready", 0);
            fence::mbarrier_init_release_cluster();
        }
        cluster::arrive_release();
        cluster::wait_acquire();
        let peer = 1 - cluster::cta_rank();
        shared::st_cluster(cluster::mapa(data, peer) + 4 * tid(), tid());
        cluster::arrive_release();
        cluster::wait_acquire();
        assert_eq!(shared::ld::<u32>(data + 4 * tid()), tid());
        assert_eq!(shared::ld::<u32>(smem(128) + 4 * tid()), tid());
        if tid() == 0 {
            mbarrier::arrive_remote_release_cluster(cluster::mapa(bars + 8, peer));
        }
        // With the address that no region gave out.
        mbarrier::wait_parity_cluster(smem(8), 0);
    });
}

#[test]
fn a_deadlock_names_the_token_that_was_kept() {
    let report = breaks(Rule::Deadlock, Shape(64, 1, 64), || {
        let bar = init(1);
        if tid() == 32 {
            debug::label_role("Math");
            debug::hold(bar, "slot of ring", "tiles", 3, "released");
        } else if tid() == 0 {
            mbarrier::wait_parity(bar, 0);
        }
    });
    let says = "the slot of ring `tiles`, stage 3, taken at ";
    let note = report.notes.iter().find(|n| n.starts_with(says));
    let note = note.unwrap_or_else(|| panic!("{report}"));
    assert!(note.contains("by Math was never released; "), "{note}");
    assert!(note.ends_with("has returned"), "{note}");
}
