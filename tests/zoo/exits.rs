//! What a CTA leaves behind when it exits.

use crate::world::{init, init_cluster, load, meet, smem, tid, warp_id};
use crate::{Bug, bug, cluster, family, threads};
use isa::{cp_async_bulk as bulk, debug, fence, mbarrier, shared, warp};

family! { "exits.rs":
    three_of_four_arrivals
    a_reader_that_skips_its_last_release
    an_arrival_after_the_last_phase
    a_cluster_wide_count_and_one_cta_that_arrives
    a_slot_that_is_never_released
    a_buffer_that_is_filled_and_not_stored
}

fn three_of_four_arrivals() -> Bug {
    bug(
        "A barrier of four warps at which three arrive; nobody waits for it in the end",
        "row 8",
        threads(128),
        // SAFETY: a barrier of four arrivals, one from each warp, but for the bug.
        |_, bug| unsafe {
            let [done] = init([4]);
            if tid().is_multiple_of(32) && !(bug && warp_id() == 3) {
                mbarrier::arrive(done); //~ WP043
            }
        },
    )
}

fn a_reader_that_skips_its_last_release() -> Bug {
    bug(
        "One of two readers leaves its loop before the last release, and the producer does not wait for it",
        "rows 38, 40",
        threads(96),
        // SAFETY: the slot is filled behind `empty` and read behind `full`.
        |w, bug| unsafe {
            let [full, empty] = init([1, 2]);
            let last = 2;
            for step in 0..=last {
                let phase = step & 1;
                if tid() == 0 {
                    mbarrier::wait_parity(empty, phase ^ 1);
                    load(w, smem(256), full);
                } else if warp_id() > 0 {
                    mbarrier::wait_parity(full, phase);
                    shared::ld::<u32>(smem(256));
                    warp::sync_warp(u32::MAX);
                    let leaves = bug && warp_id() == 2 && step == last;
                    if tid().is_multiple_of(32) && !leaves {
                        mbarrier::arrive(empty); //~ WP043
                    }
                }
            }
        },
    )
}

fn an_arrival_after_the_last_phase() -> Bug {
    bug(
        "Both lanes of a pair arrive for the last step, and one of them a step more: it begins a phase for nobody",
        "row 32",
        threads(64),
        // SAFETY: each phase has two arrivals, but for the bug.
        |_, bug| unsafe {
            let [pair] = init([2]);
            if tid().is_multiple_of(32) {
                for phase in 0..3 {
                    mbarrier::arrive(pair); //~ WP043
                    mbarrier::wait_parity(pair, phase & 1);
                }
                if bug && tid() == 0 {
                    mbarrier::arrive(pair); //~ WP043
                }
            }
        },
    )
}

fn a_cluster_wide_count_and_one_cta_that_arrives() -> Bug {
    bug(
        "A barrier counts a release from each CTA of the cluster, and each CTA releases only its own slot",
        "row 8",
        cluster(2, 32),
        // SAFETY: the peer lives until both meet; a barrier of two arrivals, but for the bug.
        |_, bug| unsafe {
            let [empty] = init_cluster([2]);
            if tid() == 0 {
                for rank in 0..2 {
                    if !bug || rank == isa::cluster::cta_rank() {
                        mbarrier::arrive_remote(isa::cluster::mapa(empty, rank)); //~ WP043
                    }
                }
            }
            warp::sync_warp(u32::MAX);
            meet();
        },
    )
}

fn a_slot_that_is_never_released() -> Bug {
    bug(
        "The last slot is read and not released: no one waits for it any more, and the next kernel's copy will",
        "row 38",
        threads(64),
        // SAFETY: the slot is filled behind `empty` and read behind `full`.
        |w, bug| unsafe {
            let [full, empty] = init([1, 1]);
            for step in 0..2 {
                if tid() == 0 {
                    mbarrier::wait_parity(empty, step ^ 1);
                    load(w, smem(256), full);
                } else if tid() == 32 {
                    mbarrier::wait_parity(full, step);
                    debug::hold(empty, "slot of ring", "tiles", 0, "released"); //~ WP046
                    shared::ld::<u32>(smem(256));
                    if !bug || step == 0 {
                        debug::let_go(empty);
                        mbarrier::arrive(empty);
                    }
                }
            }
        },
    )
}

fn a_buffer_that_is_filled_and_not_stored() -> Bug {
    bug(
        "The epilogue fills a buffer and fences it, and the branch that stores it is not taken for the last tile",
        "row 38",
        threads(32),
        // SAFETY: the bytes lie in shared memory and in the output; stores are waited for.
        |w, bug| unsafe {
            for tile in 0..2 {
                debug::hold(smem(128), "store buffer", "D", 0, "stored"); //~ WP046
                shared::st(smem(128) + 4 * tid(), tile);
                fence::proxy_async_shared_cta();
                warp::sync_warp(u32::MAX);
                if !bug || tile == 0 {
                    debug::let_go(smem(128));
                    if tid() == 0 {
                        bulk::store(w.out(32 * tile).cast(), smem(128), 128);
                        bulk::commit_group();
                        bulk::wait_group::<0>();
                    }
                }
                warp::sync_warp(u32::MAX);
            }
        },
    )
}
