//! Barriers as objects: memory, lifetime, named barriers and the cluster barrier.

use crate::world::{init, init_cluster, meet, smem, tid, warp_id};
use crate::{Bug, Shape, bug, cluster as clusters, family, threads};
use isa::{barrier, cluster, fence, mbarrier, shared, thread};

family! { "barriers.rs":
    every_thread_initialises
    a_stage_beyond_the_last
    a_barrier_used_after_inval
    inval_under_a_waiter
    an_epilogue_over_the_barriers
    a_barrier_at_a_four_byte_offset
    a_wait_on_a_peers_barrier
    a_peer_that_has_left
    two_cluster_arrivals
    a_cluster_wait_without_arrival
    an_arrive_that_laps
    one_barrier_for_two_groups
    another_number_of_threads
    a_count_of_one_and_a_half_warps
    the_sixteenth_barrier
}

fn every_thread_initialises() -> Bug {
    // SAFETY: one thread initialises the barrier, but for the bug; all reach `sync_threads`.
    bug("`mbarrier.init` is not inside `if (tid == 0)`", "row 7", threads(32), |_, bug| unsafe {
        if bug || tid() == 0 {
            mbarrier::init(smem(0), 32); //~ WP007
            fence::mbarrier_init_release_cluster();
        }
        thread::sync_threads();
        mbarrier::arrive(smem(0));
        mbarrier::wait_parity(smem(0), 0);
    })
}

fn a_stage_beyond_the_last() -> Bug {
    bug(
        "The index of the stage wraps one step too late: stage 2 of two",
        "row 9",
        threads(32),
        // SAFETY: `init` made two barriers, and the bug alone arrives beside them.
        |_, bug| unsafe {
            let bars = init([1, 1]);
            if tid() == 0 {
                for step in 0..3 {
                    let stage = step % if bug { 3 } else { bars.len() as u32 };
                    mbarrier::arrive(bars[0] + 8 * stage); //~ WP006
                }
            }
        },
    )
}

fn a_barrier_used_after_inval() -> Bug {
    bug(
        "The barrier is invalidated at the end of a tile, and the next tile uses it",
        "row 34",
        threads(32),
        // SAFETY: thread 0 alone uses the barrier, and after `inval` only in the bug.
        |_, bug| unsafe {
            let [bar] = init([1]);
            if tid() == 0 {
                for phase in [0, 1] {
                    mbarrier::arrive(bar); //~ WP006
                    mbarrier::wait_parity(bar, phase);
                    if bug || phase == 1 {
                        mbarrier::inval(bar);
                    }
                }
            }
        },
    )
}

fn inval_under_a_waiter() -> Bug {
    bug(
        "One role is done and invalidates the barrier on which the other still waits",
        "row 34",
        threads(64),
        // SAFETY: `inval` comes behind `sync_threads`, when nobody waits any more, but for the bug.
        |_, bug| unsafe {
            let [bar] = init([1]);
            if tid() == 32 {
                mbarrier::wait_parity(bar, 0); //~ WP006
            }
            if tid() == 0 {
                mbarrier::arrive(bar);
            }
            if !bug {
                thread::sync_threads();
            }
            if tid() == 0 {
                mbarrier::inval(bar); //~ WP008
            }
        },
    )
}

fn an_epilogue_over_the_barriers() -> Bug {
    bug(
        "The epilogue's staging buffer starts at the plan's first byte, where the barriers are",
        "row 34",
        threads(32),
        // SAFETY: the words lie beside the barrier, but for the bug.
        |_, bug| unsafe {
            let [bar] = init([32]);
            mbarrier::arrive(bar);
            mbarrier::wait_parity(bar, 0);
            let staging = smem(if bug { 0 } else { 128 });
            shared::st(staging + 4 * tid(), 0_u32); //~ WP009
        },
    )
}

fn a_barrier_at_a_four_byte_offset() -> Bug {
    bug(
        "A flag of four bytes before the barriers moves them off their alignment",
        "row 20",
        threads(32),
        // SAFETY: nobody uses the barrier; its address is a multiple of 8, but for the bug.
        |_, bug| unsafe {
            if tid() == 0 {
                mbarrier::init(smem(if bug { 4 } else { 8 }), 1); //~ WP015
            }
        },
    )
}

fn a_wait_on_a_peers_barrier() -> Bug {
    bug(
        "A CTA waits on the barrier of its peer, which only the peer can do",
        "row 37",
        clusters(2, 32),
        // SAFETY: the peer lives until `meet`; a wait on its barrier is the bug.
        |_, bug| unsafe {
            let [bar] = init_cluster([32]);
            let peer = cluster::mapa(bar, cluster::cta_rank() ^ 1);
            mbarrier::arrive_remote_release_cluster(peer);
            mbarrier::wait_parity_cluster(if bug { peer } else { bar }, 0); //~ WP012
            meet();
        },
    )
}

fn a_peer_that_has_left() -> Bug {
    bug(
        "No cluster barrier at the kernel's end: a CTA returns while its peer can still arrive there",
        "Triton #10656; row 29",
        clusters(2, 32),
        // SAFETY: the peer lives until `meet`, which the bug leaves out.
        |_, bug| unsafe {
            let [bar] = init_cluster([1]);
            if cluster::cta_rank() == 0 && tid() == 0 {
                mbarrier::arrive_remote(cluster::mapa(bar, 1)); //~ WP027
            }
            if !bug {
                meet();
            }
        },
    )
}

fn two_cluster_arrivals() -> Bug {
    bug(
        "Roles split between the cluster's arrive and wait, and one of them arrives again",
        "row 42",
        clusters(2, 64),
        // SAFETY: every thread arrives once and waits once, but for the bug.
        |_, bug| unsafe {
            cluster::arrive_release();
            if bug && warp_id() == 1 {
                cluster::arrive_release(); //~ WP023
            }
            cluster::wait_acquire();
        },
    )
}

fn a_cluster_wait_without_arrival() -> Bug {
    bug(
        "A warp that skipped the setup waits for the cluster without having arrived",
        "row 42",
        clusters(2, 64),
        // SAFETY: every thread arrives once and waits once, but for the bug.
        |_, bug| unsafe {
            if !bug || warp_id() == 0 {
                cluster::arrive_release();
            }
            cluster::wait_acquire(); //~ WP023
        },
    )
}

fn an_arrive_that_laps() -> Bug {
    bug(
        "Warps without work arrive at a named barrier in a loop, and nothing stops them from lapping",
        "vLLM #26026 (CUTLASS MLA hang under load); row 13",
        threads(64),
        // SAFETY: both warps come whole, and in turn but for the bug.
        |_, bug| unsafe {
            for _tile in 0..3 {
                if warp_id() == 1 {
                    barrier::sync(1, 64);
                } else if bug {
                    barrier::arrive(1, 64); //~ WP022
                } else {
                    barrier::sync(1, 64);
                }
            }
        },
    )
}

fn one_barrier_for_two_groups() -> Bug {
    bug(
        "Two groups synchronise among themselves with one barrier id; mostly one of them comes much later",
        "`bar.sync 1, 64` in each of two roles; row 12",
        Shape { steps: 1 << 20, ..threads(128) },
        // SAFETY: each group has a barrier, but for the bug; a word of a thread is read behind it.
        |_, bug| unsafe {
            let group = warp_id() / 2;
            let own = smem(512 + 4 * tid());
            shared::st(own, 0_u32);
            thread::sync_threads();
            for _ in 0..400 * group {
                shared::ld::<u32>(own);
            }
            shared::st(own, tid()); //~ WP034
            barrier::sync(if bug { 1 } else { 1 + group }, 64); //~ WP022
            shared::ld::<u32>(smem(512 + 4 * (tid() ^ 32))); //~ WP034
        },
    )
}

fn another_number_of_threads() -> Bug {
    bug(
        "The two roles of a named barrier count its threads differently",
        "row 12",
        threads(96),
        // SAFETY: three whole warps come; that they name another number is the bug.
        |_, bug| unsafe {
            let both = if bug && warp_id() == 0 { 64 } else { 96 };
            barrier::sync(1, both); //~ WP022
        },
    )
}

fn a_count_of_one_and_a_half_warps() -> Bug {
    // SAFETY: both warps come whole; a count that is no multiple of 32 is the bug.
    bug("A named barrier for 48 threads", "row 12", threads(64), |_, bug| unsafe {
        barrier::sync(1, if bug { 48 } else { 64 }); //~ WP022
    })
}

fn the_sixteenth_barrier() -> Bug {
    // SAFETY: each warp has a barrier of its own, below 16 but for the bug.
    bug("Named barriers are numbered from 1 to 16", "row 12", threads(512), |_, bug| unsafe {
        let id = if bug { 1 + warp_id() } else { warp_id() };
        barrier::sync(id, 32); //~ WP022
    })
}
