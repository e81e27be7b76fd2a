//! Expected bytes, copies, counters and flags that nothing orders.

use crate::world::{BOX, init, init_cluster, smem, tid, warp_id};
use crate::{Bug, Shape, bug, cluster as clusters, family, threads};
use isa::{cluster, cp_async_bulk as bulk, fence, global, mbarrier, shared, thread};

family! { "unordered.rs":
    bytes_expected_beside_the_last_arrival
    a_copy_that_counts_in_the_phase_before
    a_copy_whose_sender_leaves
    a_counter_zeroed_beside_its_adds
    zeros_by_one_cta_and_sums_by_all
    zeros_by_one_cta_and_bulk_reductions_by_all
    a_flag_that_a_plain_load_looks_at_first
    a_reduced_tile_loaded_without_the_proxy_fence
}

/// Two CTAs of a warp, in clusters of their own.
const TWO: Shape = Shape { ctas: 2, steps: 1 << 20, ..threads(32) };
const TILE: u32 = 512;

/// The threads of a CTA of 32 fill a box for TMA.
unsafe fn fill() {
    // SAFETY: each thread has 8 bytes of the box, and all threads come.
    unsafe {
        shared::st(smem(TILE + 8 * tid()), [tid(); 2]);
        fence::proxy_async_shared_cta();
        thread::sync_threads();
    }
}

fn bytes_expected_beside_the_last_arrival() -> Bug {
    bug(
        "Full counts the loader and a warp that writes scales, and the loader expects its bytes after its arrival: the other's may end the phase between",
        "arrive and expect_tx as two instructions; row 6",
        threads(96),
        // SAFETY: the bytes are expected before the arrival, but for the bug.
        |w, bug| unsafe {
            let [full] = init([2]);
            if tid() == 0 {
                if bug {
                    mbarrier::arrive(full);
                    mbarrier::expect_tx(full, BOX); //~ WP003
                } else {
                    mbarrier::arrive_expect_tx(full, BOX);
                }
                bulk::tensor_load(smem(TILE), w.map(), [0, 0], full); //~ WP017
            } else if tid() == 32 {
                shared::st(smem(1024), 7_u32);
                mbarrier::arrive(full);
            } else if warp_id() == 2 {
                mbarrier::wait_parity(full, 0);
                shared::ld::<u32>(smem(1024));
                shared::ld::<u32>(smem(TILE)); //~ WP016 WP017
            }
        },
    )
}

fn a_copy_that_counts_in_the_phase_before() -> Bug {
    bug(
        "Two buffers share a barrier, and the second one's copy is issued before the first one's phase is over: whichever lands first ends it",
        "a prefetch without a barrier of its own; row 6",
        threads(32),
        // SAFETY: each copy is issued in its own phase, but for the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            if tid() > 0 {
                return;
            }
            let second = || bulk::tensor_load(smem(1024), w.map(), [0, 0], full); //~ WP003
            mbarrier::arrive_expect_tx(full, BOX);
            bulk::tensor_load(smem(TILE), w.map(), [0, 0], full);
            if bug {
                second();
            }
            mbarrier::wait_parity(full, 0);
            shared::ld::<u32>(smem(TILE));
            if !bug {
                second();
            }
            mbarrier::arrive_expect_tx(full, BOX);
            mbarrier::wait_parity(full, 1);
            shared::ld::<u32>(smem(1024));
        },
    )
}

fn a_copy_whose_sender_leaves() -> Bug {
    bug(
        "A CTA sends a tile to its peer by cp.async.bulk and returns: the copy may still read its shared memory",
        "row 29, the sender's side",
        clusters(2, 32),
        // SAFETY: the sender waits until the tile has come, but for the bug.
        |_, bug| unsafe {
            let [full, done] = init_cluster([1, 1]);
            fill();
            if tid() > 0 {
                return;
            }
            if cluster::cta_rank() == 0 {
                let (to, bar) = (cluster::mapa(smem(1024), 1), cluster::mapa(full, 1));
                bulk::copy_to_cta(to, smem(TILE), BOX, bar); //~ WP028
                if !bug {
                    mbarrier::wait_parity_cluster(done, 0);
                }
            } else {
                mbarrier::arrive_expect_tx(full, BOX);
                mbarrier::wait_parity_cluster(full, 0);
                if !bug {
                    mbarrier::arrive_remote_release_cluster(cluster::mapa(done, 0));
                }
            }
        },
    )
}

fn a_counter_zeroed_beside_its_adds() -> Bug {
    bug(
        "Thread 0 zeroes the counter of the tile before and adds to it, and the others add without a barrier behind the zero",
        "`if (tid == 0) n = 0; atomicAdd(&n, 1)`",
        threads(64),
        // SAFETY: the counter is zeroed before all add, but for the bug.
        |_, bug| unsafe {
            if tid() == 0 {
                shared::st(smem(0), 0_u32);
            }
            thread::sync_threads();
            shared::atomic_add_u32(smem(0), 1);
            thread::sync_threads();
            if tid() == 0 {
                shared::st(smem(0), 0_u32); //~ WP034
            }
            if !bug {
                thread::sync_threads();
            }
            shared::atomic_add_u32(smem(0), 1); //~ WP034
        },
    )
}

fn zeros_by_one_cta_and_sums_by_all() -> Bug {
    bug(
        "CTA 0 zeroes a word by an ordinary store and adds to it; CTA 1 adds without waiting for the zero",
        "split-K by atomics; row 36",
        TWO,
        // SAFETY: the flag orders the zero before the adds, but for the bug.
        |w, bug| unsafe {
            if tid() > 0 {
                return;
            }
            if thread::block_idx_x() == 0 {
                global::st(w.out(64), 0); //~ WP038
                global::st_release_gpu_u32(w.out(0), 1);
            } else if !bug {
                global::wait_acquire_gpu_u32(w.out(0), 1);
            }
            global::atomic_add_u32(w.out(64), 1); //~ WP038
        },
    )
}

fn zeros_by_one_cta_and_bulk_reductions_by_all() -> Bug {
    bug(
        "CTA 0 zeroes the output and reduces its part by TMA; CTA 1 reduces without waiting for the zeros",
        "split-K by cp.reduce.async.bulk",
        TWO,
        // SAFETY: the flag orders the zeros before the reductions, but for the bug.
        |w, bug| unsafe {
            fill();
            if thread::block_idx_x() == 0 {
                global::st(w.out(64 + tid()), 0); //~ WP038
                fence::proxy_async_global();
                thread::sync_threads();
                if tid() == 0 {
                    global::st_release_gpu_u32(w.out(0), 1);
                }
            } else if !bug && tid() == 0 {
                global::wait_acquire_gpu_u32(w.out(0), 1);
                fence::proxy_async_global();
            }
            if tid() == 0 {
                bulk::reduce_add_u32(w.out(64).cast(), smem(TILE), 128); //~ WP038
                bulk::commit_group();
                bulk::wait_group::<0>();
            }
        },
    )
}

fn a_flag_that_a_plain_load_looks_at_first() -> Bug {
    bug(
        "Fast path: an ordinary load looks at the flag, and ld.acquire waits only if it is not set",
        "double-checked locking",
        TWO,
        // SAFETY: the flag is acquired, but for the bug.
        |w, bug| unsafe {
            if tid() > 0 {
                return;
            }
            if thread::block_idx_x() == 0 {
                global::st(w.out(64), 7);
                global::st_release_gpu_u32(w.out(0), 1); //~ WP035
            } else {
                let there = bug && global::ld::<u32>(w.out(0)) == 1; //~ WP035
                if !there {
                    global::wait_acquire_gpu_u32(w.out(0), 1);
                }
                global::ld::<u32>(w.out(64));
            }
        },
    )
}

fn a_reduced_tile_loaded_without_the_proxy_fence() -> Bug {
    bug(
        "CTAs reduce into a tile by TMA and count; the last one loads the tile by TMA without a proxy fence",
        "PTX manual, *Causality Order*; the reductions' form of DeepEP #632",
        TWO,
        // SAFETY: the count orders all, but for the proxy fence.
        |w, bug| unsafe {
            let [full] = init([1]);
            fill();
            if tid() > 0 {
                return;
            }
            bulk::reduce_add_u32(w.out(64).cast(), smem(TILE), 128); //~ WP036
            bulk::commit_group();
            bulk::wait_group::<0>();
            if !bug {
                fence::proxy_async_global();
            }
            fence::acq_rel_gpu();
            let last = global::atomic_add_u32(w.out(0), 1) == 1;
            fence::acq_rel_gpu();
            if last {
                mbarrier::arrive_expect_tx(full, 128);
                bulk::load(smem(1024), w.out(64).cast(), 128, full); //~ WP036
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}
