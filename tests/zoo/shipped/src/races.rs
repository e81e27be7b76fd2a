//! Bugs that shipped: ordinary accesses that nothing orders.

use crate::world::{World, smem, tid, warp_id};
use isa::{fence, global, mbarrier, shared, thread};

shipped! { "races.rs":
    a_scratch_of_the_previous_round: 64 threads, 1 ctas in clusters of 1;
        "FlashInfer #3470, #3624",
        "The scratch memory of a block reduction is written again in the next round, without a barrier after the reads";
    a_barrier_left_out_for_48_threads: 64 threads, 1 ctas in clusters of 1;
        "TileLang #2556",
        "The compiler drops the barrier of a region with 48 threads, for 48 is no multiple of 32";
    a_table_searched_while_it_is_written: 64 threads, 1 ctas in clusters of 1;
        "SGLang #37663",
        "Each thread writes its entry of a table, and all search the table at once";
    warps_that_sync_at_different_lines: 64 threads, 1 ctas in clusters of 1;
        "llama.cpp #13438, #13469",
        "A barrier against a race is reached by some warps only, so that warps meet at different barriers from then on";
    a_barrier_that_not_all_have_seen_made: 32 threads, 1 ctas in clusters of 1;
        "Fuser #1552",
        "`__syncthreads` is missing after `mbarrier.init`";
    a_sum_announced_without_release: 32 threads, 4 ctas in clusters of 1;
        "TensorRT-LLM #8612",
        "All-reduce: each CTA writes its part and adds to a counter with a relaxed atomic";
}

/// Three rounds of an argmax over two warps.
#[inline(always)]
pub fn a_scratch_of_the_previous_round(w: &World, bug: bool) {
    let mut sum = 0;
    for round in 0..3_u32 {
        // SAFETY: all threads come. The words are written behind the reads, but for the bug.
        unsafe {
            if tid().is_multiple_of(32) {
                shared::st(smem(4 * warp_id()), tid() + round); //~ WP034
            }
            thread::sync_threads();
            sum += shared::ld::<u32>(smem(0)) + shared::ld::<u32>(smem(4)); //~ WP034
            if !bug {
                thread::sync_threads();
            }
        }
    }
    // SAFETY: a word of the results for each thread.
    unsafe { global::st(w.out(tid()), sum) };
}

/// 48 of 64 threads exchange words.
#[inline(always)]
pub fn a_barrier_left_out_for_48_threads(w: &World, bug: bool) {
    let active = tid() < 48;
    // SAFETY: all threads come. The words are read behind the barrier, but for the bug.
    unsafe {
        if active {
            shared::st(smem(4 * tid()), tid()); //~ WP034
        }
        if !bug {
            thread::sync_threads();
        }
        if active {
            global::st(w.out(tid()), shared::ld::<u32>(smem(4 * (47 - tid())))); //~ WP034 WP016
        }
    }
}

/// A table of 32 offsets, and a binary search in it.
#[inline(always)]
pub fn a_table_searched_while_it_is_written(w: &World, bug: bool) {
    // SAFETY: all threads come. The table is read behind the barrier, but for the bug.
    unsafe {
        if tid() < 32 {
            shared::st(smem(4 * tid()), 2 * tid()); //~ WP034
        }
        if !bug {
            thread::sync_threads();
        }
        let (mut low, mut high) = (0, 32);
        while high - low > 1 {
            let middle = u32::midpoint(low, high);
            let begins: u32 = shared::ld(smem(4 * middle)); //~ WP034 WP016
            if begins <= tid() {
                low = middle;
            } else {
                high = middle;
            }
        }
        global::st(w.out(tid()), low);
    }
}

/// Two warps exchange words in two rounds.
#[inline(always)]
pub fn warps_that_sync_at_different_lines(w: &World, bug: bool) {
    for round in 0..3_u32 {
        // SAFETY: all threads come to each barrier, and words are read behind it, but for the bug.
        unsafe {
            shared::st(smem(4 * tid()), round); //~ WP034
            thread::sync_threads(); //~ WP001
            let other: u32 = shared::ld(smem(4 * (63 - tid()))); //~ WP034
            global::st(w.out(tid()), other);
            if !bug || warp_id() == 0 {
                thread::sync_threads(); //~ WP001
            }
        }
    }
}

/// A barrier of 32 arrivals.
#[inline(always)]
pub fn a_barrier_that_not_all_have_seen_made(_: &World, bug: bool) {
    let bar = smem(0);
    // SAFETY: thread 0 initialises the barrier. That the others may come before is the bug.
    unsafe {
        if tid() == 0 {
            mbarrier::init(bar, 32); //~ WP039
            fence::mbarrier_init_release_cluster();
        }
        if !bug {
            thread::sync_threads();
        }
        mbarrier::arrive(bar); //~ WP039 WP006
        mbarrier::wait_parity(bar, 0);
    }
}

/// Each CTA writes a word, and adds those of all.
#[inline(always)]
pub fn a_sum_announced_without_release(w: &World, bug: bool) {
    if tid() > 0 {
        return;
    }
    let (cta, ctas) = (thread::block_idx_x(), thread::grid_dim_x());
    // SAFETY: the words are read behind the counter, which the bug does not release.
    unsafe {
        let arrived = w.out(0);
        global::st(w.out(32 + cta), cta); //~ WP035
        if bug {
            global::atomic_add_u32(arrived, 1);
        } else {
            global::red_release_gpu_add_u32(arrived, 1);
        }
        global::wait_acquire_gpu_u32(arrived, ctas);
        let mut sum = 0;
        for other in 0..ctas {
            sum += global::ld::<u32>(w.out(32 + other)); //~ WP035
        }
        global::st(w.out(64 + cta), sum);
    }
}
