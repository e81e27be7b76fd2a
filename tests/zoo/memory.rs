//! Addresses and contents: bounds, alignment, uninitialised memory.

use crate::world::{BOX, OUT, init, load, smem, tid};
use crate::{Bug, Shape, bug, family, threads};
use isa::{cp_async_bulk as bulk, global, mbarrier, shared, thread};

family! { "memory.rs":
    a_grid_beyond_the_output
    a_partial_beyond_the_shared_memory
    a_tile_beyond_the_shared_memory
    a_partial_of_a_warp_that_is_not_there
    a_tile_at_a_sixteen_byte_offset
    a_run_of_odd_bytes
    three_coordinates_for_a_matrix
    a_ticket_that_nobody_has_zeroed
    a_flag_in_a_workspace_as_it_was_allocated
}

fn a_grid_beyond_the_output() -> Bug {
    bug(
        "The grid is rounded up, and the kernel does not check whether its element exists",
        "row 36",
        Shape { ctas: 5, ..threads(256) },
        // SAFETY: the words lie in the output, but for the bug.
        |w, bug| unsafe {
            let i = thread::block_idx_x() * 256 + tid();
            if bug || i < OUT / 4 {
                global::st(w.out(i), i); //~ WP014
            }
        },
    )
}

fn a_partial_beyond_the_shared_memory() -> Bug {
    bug(
        "Each thread writes a word, and shared memory has one word per warp",
        "row 20",
        Shape { smem: 16, ..threads(128) },
        // SAFETY: a word for each warp is in the plan, a word for each thread is the bug.
        |_, bug| unsafe {
            let at = if bug { tid() } else { tid() / 32 };
            if bug || tid().is_multiple_of(32) {
                shared::st(smem(4 * at), tid()); //~ WP013
            }
        },
    )
}

fn a_tile_beyond_the_shared_memory() -> Bug {
    bug(
        "The launch's shared memory leaves out the padding for the tile's alignment",
        "row 20",
        Shape { smem: 256, ..threads(32) },
        // SAFETY: the launch of the twin has room for the box, that of the bug has not.
        |w, _| unsafe {
            let [full] = init([1]);
            if tid() == 0 {
                load(w, smem(128), full); //~ WP013
            }
            mbarrier::wait_parity(full, 0);
        },
    )
    .right(Shape { smem: 384, ..threads(32) })
}

fn a_partial_of_a_warp_that_is_not_there() -> Bug {
    bug(
        "A reduction sums the partials of 32 warps, and the block has two",
        "row 39",
        threads(64),
        // SAFETY: words are read behind `sync_threads`; those that nobody wrote are the bug.
        |w, bug| unsafe {
            if tid().is_multiple_of(32) {
                shared::st(smem(tid() / 8), tid());
            }
            thread::sync_threads();
            if tid() == 0 {
                let warps = if bug { 32 } else { thread::block_dim_x() / 32 };
                let sum = (0..warps).map(|i| shared::ld::<u32>(smem(4 * i))).sum(); //~ WP016
                global::st(w.out(0), sum);
            }
        },
    )
}

fn a_tile_at_a_sixteen_byte_offset() -> Bug {
    bug(
        "The tile comes right after two barriers: aligned for a vector, not for TMA",
        "row 20",
        threads(32),
        // SAFETY: the box's address is a multiple of 128, but for the bug.
        |w, bug| unsafe {
            let [full, _] = init([1, 1]);
            if tid() == 0 {
                load(w, smem(if bug { 16 } else { 128 }), full); //~ WP015
            }
            mbarrier::wait_parity(full, 0);
        },
    )
}

fn a_run_of_odd_bytes() -> Bug {
    bug(
        "A bulk copy of exactly the bytes that are left, 4 short of a multiple of 16",
        "row 20",
        threads(32),
        // SAFETY: the run lies in the tensor, and is a multiple of 16 bytes but for the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            let bytes = if bug { BOX - 4 } else { BOX };
            if tid() == 0 {
                mbarrier::arrive_expect_tx(full, bytes);
                bulk::load(smem(128), w.words(), bytes, full); //~ WP015
            }
            mbarrier::wait_parity(full, 0);
        },
    )
}

fn three_coordinates_for_a_matrix() -> Bug {
    bug(
        "The instruction for a batch of matrices, with the tensor map of one",
        "row 21",
        threads(32),
        // SAFETY: the map lives as long as the launch; its rank is the bug's error.
        |w, bug| unsafe {
            let [full] = init([1]);
            if tid() == 0 {
                mbarrier::arrive_expect_tx(full, BOX);
                if bug {
                    bulk::tensor_load(smem(128), w.map(), [0, 0, 0], full); //~ WP025
                } else {
                    bulk::tensor_load(smem(128), w.map(), [0, 0], full);
                }
            }
            mbarrier::wait_parity(full, 0);
        },
    )
}

fn a_ticket_that_nobody_has_zeroed() -> Bug {
    bug(
        "The last thread to come takes the ticket back for the next launch, and nobody has zeroed it before the first",
        "the counters of a split sum's workspace, which its host must zero; row 39",
        threads(2),
        // SAFETY: the word is in the workspace. That it has no value is the bug.
        |w, bug| unsafe {
            let ticket = w.fresh(0);
            if tid() == 0 && !bug {
                global::st(ticket, 0);
            }
            thread::sync_threads();
            let before = global::atomic_add_u32(ticket, 1); //~ WP057
            if before == 1 {
                global::atomic_exch_u32(ticket, 0);
            }
        },
    )
}

fn a_flag_in_a_workspace_as_it_was_allocated() -> Bug {
    bug(
        "A CTA waits for its neighbour's flag in memory that was allocated and not zeroed: whatever lies there may be the value",
        "CUTLASS's semaphores, whose workspace `initialize` clears; row 39",
        Shape { ctas: 2, ..threads(1) },
        // SAFETY: the words are in the workspace and the results. That the flag has no value is the bug.
        |w, bug| unsafe {
            let flag = if bug { w.fresh(1) } else { w.out(1) };
            if thread::block_idx_x() == 0 {
                global::st(w.out(0), 7);
                global::red_release_gpu_add_u32(flag, 1); //~ WP057
            } else {
                while global::ld_acquire_gpu_u32(flag) != 1 {} //~ WP057
                global::ld(w.out(0));
            }
        },
    )
}
