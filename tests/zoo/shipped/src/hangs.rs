//! Bugs that shipped: kernels that hang, or whose waits pass at the wrong time.

use crate::world::{World, init, load, rounds, smem, tid, warp_id};
use isa::{barrier, global, mbarrier, setmaxnreg, shared, thread, warp};

shipped! { "hangs.rs":
    arrivals_that_overtake_a_sync: 96 threads, 1 ctas in clusters of 1;
        "FlashInfer #3700, #4732",
        "Math warps arrive at a named barrier for tile after tile, before the warp that gathers has waited for the previous tile";
    a_barrier_that_counts_one_load_warp: 160 threads, 1 ctas in clusters of 1;
        "QuACK #146",
        "A named barrier counts one load warp and the epilogue's, and with a gathered operand there are four load warps";
    sync_threads_in_one_role: 128 threads, 1 ctas in clusters of 1;
        "FlashInfer #2996",
        "The math warps reduce with `__syncthreads`, which the copying warps never reach";
    a_spectator_that_nobody_awaits: 128 threads, 1 ctas in clusters of 1;
        "FlashInfer #5001, #5048",
        "Copying threads without a row wait on the ring's barriers like the others, but no barrier counts them";
    a_wait_by_lanes_that_issue_nothing: 64 threads, 1 ctas in clusters of 1;
        "CUTLASS #3654 (suspected there)",
        "All lanes wait for the empty slot, and one fills it without waiting for the others, so that a late lane waits for a phase that has passed";
    a_phase_flipped_for_an_empty_tile: 64 threads, 1 ctas in clusters of 1;
        "flash-attention #2258",
        "For a tile without work, one role flips its phase, although the other has not arrived for it";
    a_counter_reset_under_a_spinning_peer: 32 threads, 8 ctas in clusters of 1;
        "FlashInfer #3610, #3615",
        "The first CTA resets the counter of a barrier between CTAs, while another still waits for its final value";
    registers_for_one_producer_group_of_two: 512 threads, 1 ctas in clusters of 1;
        "TileLang #2406, #2567",
        "The register counts fit one producer group and two consumer groups, and this kernel has two of each";
}

/// Math warps 0 and 1 read a tile and arrive. Warp 2 gathers two tiles ahead, and syncs before it fills a
/// buffer again.
#[inline(always)]
pub fn arrivals_that_overtake_a_sync(_: &World, bug: bool) {
    const TILES: u32 = 16;
    let full = init([1, 1]);
    // The correct kernel has two barriers, one per buffer.
    let id = |tile: u32| if bug { 1 } else { 1 + 4 * (tile & 1) };
    for tile in 0..TILES {
        let (buffer, phase) = (full[0] + 8 * (tile & 1), (tile >> 1) & 1);
        // SAFETY: whole warps come. A second arrival before the sync is the bug.
        unsafe {
            if warp_id() < 2 {
                mbarrier::wait_parity(buffer, phase);
                barrier::arrive(id(tile), 96); //~ WP022
            } else {
                if tile >= 2 {
                    barrier::sync(id(tile), 96);
                }
                if tid() == 64 {
                    mbarrier::arrive(buffer);
                }
            }
        }
    }
    if warp_id() == 2 {
        // SAFETY: the last two tiles.
        unsafe {
            barrier::sync(id(TILES), 96);
            barrier::sync(id(TILES + 1), 96);
        }
    }
}

/// Warps 0 to 3 issue their first loads and arrive. Warp 4 loads for the epilogue after them.
#[inline(always)]
pub fn a_barrier_that_counts_one_load_warp(_: &World, bug: bool) {
    let [tile_known] = init([4]);
    let threads = if bug { 2 * 32 } else { (4 + 1) * 32 };
    // SAFETY: whole warps come; the number of threads is the bug.
    unsafe {
        if warp_id() < 4 {
            barrier::arrive(1, threads); //~ WP022
            if warp::elect_one() {
                mbarrier::arrive(tile_known);
            }
        } else {
            mbarrier::wait_parity(tile_known, 0);
            barrier::sync(1, threads); //~ WP001 WP022
        }
    }
}

/// Warps 0 and 1 do the math, warps 2 and 3 copy.
#[inline(always)]
pub fn sync_threads_in_one_role(w: &World, bug: bool) {
    let full = init([1, 1]);
    // SAFETY: the tile is read behind its phase. That the copying warps do not come to `sync_threads` is
    // the bug.
    unsafe {
        if warp_id() >= 2 {
            if warp::elect_one() {
                let copy = warp_id() - 2;
                load(w, smem(128 + 256 * copy), full[0] + 8 * copy);
            }
        } else {
            mbarrier::wait_parity(full[0], 0);
            mbarrier::wait_parity(full[1], 0);
            let sum: u32 = shared::ld::<u32>(smem(128 + 4 * tid())) + shared::ld::<u32>(smem(384));
            shared::st(smem(1024 + 4 * tid()), sum);
            if bug {
                thread::sync_threads(); //~ WP001 WP020
            } else {
                barrier::sync(1, 64);
            }
            shared::ld::<u32>(smem(1024 + 4 * (63 - tid())));
        }
    }
}

/// Warp 0 computes, and warps 1 to 3 copy a tile of eight rows, one row per thread.
#[inline(always)]
pub fn a_spectator_that_nobody_awaits(_: &World, bug: bool) {
    const ROWS: u32 = 8;
    let [full, empty] = init([ROWS, 1]);
    let copies = tid() >= 32 && tid() < 32 + ROWS;
    if warp_id() > 0 && !copies && !bug {
        return;
    }
    for tile in 0..rounds(128, 3) {
        let phase = tile & 1;
        // SAFETY: the slot is waited for and released. The waits that nobody awaits are the bug.
        unsafe {
            if warp_id() == 0 {
                mbarrier::wait_parity(full, phase);
                shared::ld::<u32>(smem(128 + 4 * (tid() % ROWS)));
                warp::sync_warp(!0);
                if tid() == 0 {
                    mbarrier::arrive(empty);
                }
            } else {
                mbarrier::wait_parity(empty, phase ^ 1); //~ WP010 WP001
                if copies {
                    shared::st(smem(128 + 4 * (tid() - 32)), tile);
                    mbarrier::arrive(full);
                }
            }
        }
    }
}

/// Warp 0 loads a tile, thread 32 uses it.
#[inline(always)]
pub fn a_wait_by_lanes_that_issue_nothing(w: &World, bug: bool) {
    let [full, empty] = init([1, 1]);
    // SAFETY: the warp is convergent.
    let leader = unsafe { warp::elect_one() };
    for tile in 0..rounds(600, 3) {
        let phase = tile & 1;
        // SAFETY: the slot is waited for and released. The order that the lanes lack is the bug.
        unsafe {
            if warp_id() == 0 {
                mbarrier::wait_parity(empty, phase ^ 1); //~ WP010 WP001
                if !bug {
                    warp::sync_warp(!0);
                }
                if leader {
                    load(w, smem(128), full);
                }
            } else if tid() == 32 {
                mbarrier::wait_parity(full, phase);
                shared::ld::<u32>(smem(128));
                mbarrier::arrive(empty);
            }
        }
    }
}

/// Warp 0 computes a tile where there is work, and warp 1 corrects and stores it. Tile 1 is empty.
#[inline(always)]
pub fn a_phase_flipped_for_an_empty_tile(w: &World, bug: bool) {
    let [full, empty] = init([32, 32]);
    let mut phase = 0;
    for tile in 0..4_u32 {
        let work = tile != 1;
        // SAFETY: a tile is written and read behind its phases, but for the bug.
        unsafe {
            if work && warp_id() == 0 {
                mbarrier::wait_parity(empty, phase ^ 1);
                shared::st(smem(128 + 4 * tid()), tile); //~ WP034 WP016
                mbarrier::arrive(full);
            } else if work {
                mbarrier::wait_parity(full, phase); //~ WP001
                let value: u32 = shared::ld(smem(128 + 4 * (tid() - 32))); //~ WP034 WP016
                global::st(w.out(tid() - 32), value);
                mbarrier::arrive(empty);
            }
        }
        if work || bug && warp_id() == 1 {
            phase ^= 1;
        }
    }
}

/// The CTAs meet once for each problem, at a counter of global memory that is zero again for the next launch.
#[inline(always)]
pub fn a_counter_reset_under_a_spinning_peer(w: &World, bug: bool) {
    let ctas = thread::grid_dim_x();
    if tid() > 0 {
        return;
    }
    for problem in 0..rounds(16, 4) {
        let (arrived, left) = (w.out(2 * problem), w.out(2 * problem + 1));
        // SAFETY: words with only atomic accesses. That one is reset too early is the bug.
        unsafe {
            global::red_release_gpu_add_u32(arrived, 1);
            while global::ld_acquire_gpu_u32(arrived) < ctas {} //~ WP001 WP031
            if bug {
                if thread::block_idx_x() == 0 {
                    global::st_release_gpu_u32(arrived, 0);
                }
            } else if global::atomic_add_u32(left, 1) == ctas - 1 {
                global::st_release_gpu_u32(left, 0);
                global::st_release_gpu_u32(arrived, 0);
            }
        }
    }
}

/// Groups 0 and 1 copy, groups 2 and 3 multiply: 65536 registers for 512 threads.
#[inline(always)]
pub fn registers_for_one_producer_group_of_two(_: &World, bug: bool) {
    // SAFETY: whole warp groups move registers. That the pool has too few is the bug.
    unsafe {
        if tid() < 256 {
            setmaxnreg::dec::<24>();
        } else {
            // Two barriers, because the assembler must know how many registers the code after them has.
            if bug {
                setmaxnreg::inc::<240>(); //~ WP001
                barrier::sync(1, 256);
            } else {
                setmaxnreg::inc::<224>();
                barrier::sync(2, 256);
            }
        }
    }
}
