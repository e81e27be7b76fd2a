//! TMA, bulk stores and `cp.async`: memory used during a copy, and copies that no thread waits for.

use crate::world::{BOX, init, init_cluster, load, meet, smem, tid, warp_id};
use crate::{Bug, bug, cluster as clusters, family, threads};
use isa::{
    cluster, cp_async, cp_async_bulk as bulk, fence, global, mbarrier, shared, thread, warp,
};

family! { "transfers.rs":
    a_tile_read_by_threads_that_did_not_wait
    a_store_source_overwritten
    a_wait_group_in_another_thread
    an_elected_lane_taken_for_lane_0
    a_store_not_drained_at_exit
    a_store_never_committed
    a_load_that_nobody_awaits
    a_tensor_updated_under_its_load
    cp_async_read_without_a_wait
    cp_async_wait_that_leaves_the_last_group
    cp_async_left_at_exit
    cp_async_whose_barrier_nobody_awaits
    a_multicast_to_a_peer_that_expects_nothing
    a_multicast_over_a_slot_in_use
    a_multicast_mask_of_four_in_a_cluster_of_two
    a_box_outside_of_a_map_that_begins_in_front_of_its_memory
}

/// Every thread writes its 8 bytes of the box at `at`, for a store by thread 0.
#[track_caller]
unsafe fn fill(at: u32) {
    // SAFETY: the box at `at` lies in shared memory, and each thread has 8 bytes of it.
    unsafe { shared::st(at + 8 * tid(), [tid(); 2]) };
    fence::proxy_async_shared_cta();
    // SAFETY: all threads of the CTA come.
    unsafe { thread::sync_threads() };
}

fn a_tile_read_by_threads_that_did_not_wait() -> Bug {
    bug(
        "The thread that issued the copy waits for it, and the others read",
        "row 3",
        threads(32),
        // SAFETY: the tile is read behind its phase, but for the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            if tid() == 0 {
                load(w, smem(128), full); //~ WP017
            }
            if !bug || tid() == 0 {
                mbarrier::wait_parity(full, 0);
            }
            shared::ld::<u32>(smem(128)); //~ WP017 WP016
        },
    )
}

fn a_store_source_overwritten() -> Bug {
    bug(
        "The staging buffer is filled again while the store still reads it",
        "row 18",
        threads(32),
        // SAFETY: the source is written again behind the wait, which the bug leaves out.
        |w, bug| unsafe {
            fill(smem(128));
            if tid() == 0 {
                bulk::tensor_store(w.map(), [0, 0], smem(128));
                bulk::commit_group();
                if !bug {
                    bulk::wait_group_read::<0>();
                }
            }
            thread::sync_threads();
            shared::st(smem(128 + 8 * tid()), [0_u32; 2]); //~ WP019
            if tid() == 0 {
                bulk::wait_group::<0>();
            }
        },
    )
}

fn a_wait_group_in_another_thread() -> Bug {
    bug(
        "Thread 0 issues the store, thread 1 waits for its groups, which are none",
        "row 19",
        threads(32),
        // SAFETY: the issuer waits for its group, but for the bug, where another does.
        |w, bug| unsafe {
            fill(smem(128));
            if tid() == 0 {
                bulk::tensor_store(w.map(), [0, 0], smem(128));
                bulk::commit_group();
            }
            if tid() == u32::from(bug) {
                bulk::wait_group_read::<0>();
            }
            thread::sync_threads();
            shared::st(smem(128 + 8 * tid()), [0_u32; 2]); //~ WP019
            if tid() == 0 {
                bulk::wait_group::<0>();
            }
        },
    )
}

fn an_elected_lane_taken_for_lane_0() -> Bug {
    bug(
        "The elected lane issues the store, and lane 0 waits for its groups: which lane is elected, nobody promises",
        "PTX manual, `elect.sync`; row 19",
        threads(32),
        // SAFETY: the issuer waits for its group, but for the bug, where lane 0 does.
        |w, bug| unsafe {
            fill(smem(128));
            let elected = warp::elect_one();
            if elected {
                bulk::tensor_store(w.map(), [0, 0], smem(128));
                bulk::commit_group();
            }
            if if bug { tid() == 0 } else { elected } {
                bulk::wait_group_read::<0>();
            }
            thread::sync_threads();
            shared::st(smem(128 + 8 * tid()), [0_u32; 2]); //~ WP019
            if elected {
                bulk::wait_group::<0>();
            }
        },
    )
}

fn a_store_not_drained_at_exit() -> Bug {
    bug(
        "The kernel returns after its last TMA store, and does not wait until it has read its source",
        "fast.cu; row 40",
        threads(32),
        // SAFETY: the store is waited for, but for the bug.
        |w, bug| unsafe {
            fill(smem(128));
            if tid() == 0 {
                bulk::tensor_store(w.map(), [0, 0], smem(128)); //~ WP028
                bulk::commit_group();
                if !bug {
                    bulk::wait_group::<0>();
                }
            }
        },
    )
}

fn a_store_never_committed() -> Bug {
    bug(
        "`wait_group` without `commit_group` waits for nothing",
        "row 40",
        threads(32),
        // SAFETY: the store is committed and waited for, but for the bug.
        |w, bug| unsafe {
            fill(smem(128));
            if tid() == 0 {
                bulk::tensor_store(w.map(), [0, 0], smem(128)); //~ WP028
                if !bug {
                    bulk::commit_group();
                }
                bulk::wait_group::<0>();
            }
        },
    )
}

fn a_load_that_nobody_awaits() -> Bug {
    bug(
        "The producer prefetches a step that the consumer does not have, and the CTA ends under it",
        "rows 27, 40",
        threads(64),
        // SAFETY: each load is waited for, but for the bug's second.
        |w, bug| unsafe {
            let full = init([1, 1]);
            if tid() == 0 {
                load(w, smem(128), full[0]);
                if bug {
                    load(w, smem(512), full[1]); //~ WP028
                }
            } else if warp_id() == 1 {
                mbarrier::wait_parity(full[0], 0);
            }
        },
    )
}

fn a_tensor_updated_under_its_load() -> Bug {
    bug(
        "A warp updates a tile in global memory in place, while the tile's load may still read it",
        "row 18, the other way round",
        threads(64),
        // SAFETY: 32 words of the tensor, written behind the load's phase but for the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            if tid() == 0 {
                load(w, smem(128), full); //~ WP035
            }
            if warp_id() == 1 {
                if !bug {
                    mbarrier::wait_parity(full, 0);
                }
                global::st(w.word(tid() - 32), 1); //~ WP035
            } else {
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}

fn cp_async_read_without_a_wait() -> Bug {
    bug(
        "`cp.async` is committed, and `__syncthreads` follows instead of a wait for the copy",
        "row 3",
        threads(32),
        // SAFETY: the copies are read behind their wait, which the bug leaves out.
        |w, bug| unsafe {
            let mine = smem(16 * tid());
            cp_async::copy_16(mine, w.words().add(16 * tid() as usize));
            cp_async::commit_group();
            if !bug {
                cp_async::wait_group::<0>();
            }
            thread::sync_threads();
            shared::ld::<u32>(smem(16 * (31 - tid()))); //~ WP017 WP016
            cp_async::wait_group::<0>();
        },
    )
}

fn cp_async_wait_that_leaves_the_last_group() -> Bug {
    bug(
        "The main loop's `wait_group 1` is also used for the last stage, and leaves that group pending",
        "row 3",
        threads(32),
        // SAFETY: each group is read behind its wait, but for the bug's last.
        |w, bug| unsafe {
            for stage in 0..2 {
                let from = w.words().add((512 * stage + 16 * tid()) as usize);
                cp_async::copy_16(smem(512 * stage + 16 * tid()), from);
                cp_async::commit_group();
            }
            for stage in 0..2 {
                if bug || stage == 0 {
                    cp_async::wait_group::<1>();
                } else {
                    cp_async::wait_group::<0>();
                }
                shared::ld::<u32>(smem(512 * stage + 16 * tid())); //~ WP017 WP016
            }
            cp_async::wait_group::<0>();
        },
    )
}

fn cp_async_left_at_exit() -> Bug {
    bug(
        "A kernel with an early exit leaves the copies of its prologue in flight",
        "row 40",
        threads(32),
        // SAFETY: the copy is waited for, but for the bug.
        |w, bug| unsafe {
            cp_async::copy_16(smem(16 * tid()), w.words().add(16 * tid() as usize)); //~ WP028
            cp_async::commit_group();
            if !bug {
                cp_async::wait_group::<0>();
            }
        },
    )
}

fn cp_async_whose_barrier_nobody_awaits() -> Bug {
    bug(
        "A warp copies, arrives by `cp.async.mbarrier.arrive.noinc` and returns, and the reader leaves without the last stage",
        "row 40; the twin: whose copies another warp waits for may return",
        threads(64),
        // SAFETY: each stage is read behind its phase, by a warp that waits for all, but for the bug.
        |w, bug| unsafe {
            let full = init([32, 32]);
            for (stage, full) in (0..).zip(full) {
                let slot = smem(512 * (stage + 1));
                if warp_id() == 0 {
                    cp_async::copy_16(slot + 16 * tid(), w.words().add(16 * tid() as usize)); //~ WP028
                    mbarrier::cp_async_arrive_noinc(full);
                } else if !bug || stage == 0 {
                    mbarrier::wait_parity(full, 0);
                    shared::ld::<u32>(slot + 16 * (63 - tid()));
                }
            }
        },
    )
}

fn a_multicast_to_a_peer_that_expects_nothing() -> Bug {
    bug(
        "One CTA multicasts a tile, and its peer waits for the tile without expecting its bytes",
        "row 30",
        clusters(2, 32),
        // SAFETY: both CTAs live until `meet`; that one expects no bytes is the bug.
        |w, bug| unsafe {
            let [full] = init_cluster([1]);
            if tid() == 0 {
                if bug && cluster::cta_rank() == 1 {
                    mbarrier::arrive(full); //~ WP003
                } else {
                    mbarrier::arrive_expect_tx(full, BOX);
                }
                if cluster::cta_rank() == 0 {
                    bulk::tensor_load_multicast(smem(128), w.map(), [0, 0], full, 3); //~ WP003
                }
            }
            mbarrier::wait_parity(full, 0);
            shared::ld::<u32>(smem(128)); //~ WP017 WP016
            meet();
        },
    )
}

fn a_multicast_over_a_slot_in_use() -> Bug {
    bug(
        "The empty barrier counts only the CTA's own release, and the multicast overwrites the slot that the peer reads",
        "row 30",
        clusters(2, 64),
        // SAFETY: both CTAs live until `meet`; the reader that is not counted is the bug.
        |w, bug| unsafe {
            let [full, empty] = init_cluster([1, if bug { 32 } else { 64 }]);
            for phase in [0, 1] {
                if tid() == 0 {
                    // Each CTA expects its own bytes; rank 0 loads for both.
                    mbarrier::arrive_expect_tx(full, BOX);
                    if cluster::cta_rank() == 0 {
                        mbarrier::wait_parity_cluster(empty, phase ^ 1);
                        bulk::tensor_load_multicast(smem(128), w.map(), [0, 0], full, 3); //~ WP003 WP017
                    }
                    mbarrier::wait_parity(full, phase);
                } else if warp_id() == 1 {
                    mbarrier::wait_parity(full, phase); //~ WP010 WP001
                    shared::ld::<u32>(smem(128)); //~ WP017
                    let readers = if bug { cluster::cta_rank() } else { 0 };
                    mbarrier::arrive_remote_release_cluster(cluster::mapa(empty, readers));
                }
            }
            meet();
        },
    )
}

fn a_multicast_mask_of_four_in_a_cluster_of_two() -> Bug {
    bug(
        "The multicast mask is a constant for clusters of four",
        "row 30",
        clusters(2, 32),
        // SAFETY: both CTAs live until `meet`; the mask beyond them is the bug.
        |w, bug| unsafe {
            let [full] = init_cluster([1]);
            if tid() == 0 {
                mbarrier::arrive_expect_tx(full, BOX);
                if cluster::cta_rank() == 0 {
                    let mask = if bug { 0b1111 } else { 0b11 };
                    bulk::tensor_load_multicast(smem(128), w.map(), [0, 0], full, mask); //~ WP033
                }
            }
            mbarrier::wait_parity(full, 0);
            meet();
        },
    )
}

fn a_box_outside_of_a_map_that_begins_in_front_of_its_memory() -> Bug {
    bug(
        "A map of packed rows begins in front of the first one, and a box of columns that do not exist is loaded for its zeros",
        "warpipe before 2026-11-30, heads of 136 to 192 columns; row 36",
        threads(32),
        // SAFETY: the box lies in shared memory, and in the tensor, but for the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            if tid() == 0 {
                mbarrier::arrive_expect_tx(full, BOX);
                let column = if bug { 64 } else { 56 };
                bulk::tensor_load(smem(128), w.behind(), [column, 100], full); //~ WP014
            }
            mbarrier::wait_parity(full, 0);
        },
    )
}
