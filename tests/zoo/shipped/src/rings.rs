//! Bugs that shipped: buffers that are used too early or too long.

use crate::world::{BOX, World, init, init_cluster, load, meet, smem, tid, warp_id};
use half::bf16;
use isa::wgmma::{self, KMajor, M64, Shape, Swizzle};
use isa::{barrier, cluster, cp_async_bulk as bulk, fence, mbarrier, shared, thread, warp};

shipped! { "rings.rs":
    a_slot_freed_before_it_is_read: 64 threads, 1 ctas in clusters of 1;
        "TileLang #2410, #2420",
        "The readers of a schedule slot say that it is free, and read the tile's number afterwards";
    a_store_wait_one_group_short: 32 threads, 1 ctas in clusters of 1;
        "DeepEP #657",
        "A copy with two stages waits until one store is left, and that is the store from the stage that it fills next";
    a_store_awaited_by_its_issuer_alone: 64 threads, 1 ctas in clusters of 1;
        "cuDNN frontend #1049",
        "Each issuer of a bulk reduction waits for its own, and then all threads write all rows of the staging buffer";
    an_elected_arrival_for_a_whole_warp: 64 threads, 1 ctas in clusters of 1;
        "cuDNN frontend #426",
        "All lanes of the load warp write, and one arrives for them, without a warp barrier before it";
    a_wait_on_the_first_stages_barrier: 64 threads, 1 ctas in clusters of 1;
        "TensorRT-LLM #15338; FlashInfer #3630",
        "The address of the barrier is computed before the loop, so that every step waits for the first stage";
    a_parity_of_the_loop: 32 threads, 2 ctas in clusters of 2;
        "TileLang #2927",
        "The parity is computed from the loop's index, and every step has a barrier of its own";
    a_phase_that_restarts_with_each_tile: 64 threads, 1 ctas in clusters of 1;
        "TileLang #2674",
        "Slot and phase are computed from the step of the tile, and start again with the next tile";
    a_wgmma_wait_for_one_group_of_two: 256 threads, 1 ctas in clusters of 1;
        "Triton #11047; TileLang #2613",
        "Each warp group waits for its own wgmma, and both overwrite the operand that they share";
    a_release_without_a_wgmma_wait: 160 threads, 1 ctas in clusters of 1;
        "Fuser #3561",
        "The math warps release a slot without commit and wait for the wgmma that reads it";
}

/// Thread 0 schedules tiles for warp 1.
#[inline(always)]
pub fn a_slot_freed_before_it_is_read(_: &World, bug: bool) {
    let [ready, free] = init([1, 32]);
    for tile in 0..4 {
        let phase = tile & 1;
        // SAFETY: the slot is written and read behind its phases, but for the bug.
        unsafe {
            if tid() == 0 {
                mbarrier::wait_parity(free, phase ^ 1);
                shared::st(smem(128), tile); //~ WP034
                mbarrier::arrive(ready);
            } else if warp_id() == 1 {
                mbarrier::wait_parity(ready, phase);
                if bug {
                    mbarrier::arrive(free);
                }
                shared::ld::<u32>(smem(128)); //~ WP034
                if !bug {
                    mbarrier::arrive(free);
                }
            }
        }
    }
}

/// One thread copies from global memory to global memory, through two stages.
#[inline(always)]
pub fn a_store_wait_one_group_short(w: &World, bug: bool) {
    const STEPS: u32 = 6;
    let full = init([1, 1]);
    if tid() > 0 {
        return;
    }
    // SAFETY: a stage is stored after its load, and filled again after its store, but for the bug.
    unsafe {
        for stage in 0..2 {
            load(w, smem(128 + BOX * stage), full[0] + 8 * stage);
        }
        for step in 0..STEPS {
            let stage = step & 1;
            let (buffer, bar) = (smem(128 + BOX * stage), full[0] + 8 * stage);
            mbarrier::wait_parity(bar, (step >> 1) & 1);
            bulk::store(w.out(64 * step).cast(), buffer, BOX); //~ WP019
            bulk::commit_group();
            if step + 2 < STEPS {
                if bug {
                    bulk::wait_group_read::<1>();
                } else {
                    bulk::wait_group_read::<0>();
                }
                load(w, buffer, bar); //~ WP019
            }
        }
        bulk::wait_group::<0>();
    }
}

/// Two rows of staging; all threads write both, and the first lane of each warp reduces one.
#[inline(always)]
pub fn a_store_awaited_by_its_issuer_alone(w: &World, bug: bool) {
    for block in 0..3_u32 {
        bulk::wait_group_read::<0>();
        // SAFETY: all threads come. The rows are written behind the reductions that read them, but for the
        // bug.
        unsafe {
            if !bug {
                barrier::sync(1, 64);
            }
            for row in 0..2 {
                shared::st(smem(128 + BOX * row + 4 * tid()), block); //~ WP019 WP034
            }
            fence::proxy_async_shared_cta();
            barrier::sync(2, 64);
            if tid().is_multiple_of(32) {
                let row = warp_id();
                bulk::reduce_add_u32(w.out(64 * row).cast(), smem(128 + BOX * row), BOX); //~ WP019 WP034
                bulk::commit_group();
            }
        }
    }
    bulk::wait_group::<0>();
}

/// Warp 0 writes a table for warp 1.
#[inline(always)]
pub fn an_elected_arrival_for_a_whole_warp(_: &World, bug: bool) {
    let [full] = init([1]);
    // SAFETY: the words are read behind the arrival, which orders only its own lane's in the bug.
    unsafe {
        if warp_id() == 0 {
            for word in (tid()..128).step_by(32) {
                shared::st(smem(128 + 4 * word), word); //~ WP034
            }
            if !bug {
                warp::sync_warp(!0);
            }
            if warp::elect_one() {
                mbarrier::arrive(full);
            }
        } else {
            mbarrier::wait_parity(full, 0);
            for word in (tid() - 32..128).step_by(32) {
                shared::ld::<u32>(smem(128 + 4 * (127 - word))); //~ WP034 WP016
            }
        }
    }
}

/// Thread 0 fills four stages, warp 1 reads them.
#[inline(always)]
pub fn a_wait_on_the_first_stages_barrier(w: &World, bug: bool) {
    const STAGES: u32 = 4;
    let full = init([1; STAGES as usize]);
    for stage in 0..STAGES {
        let buffer = smem(128 + BOX * stage);
        // SAFETY: a stage is read behind its phase, but for the bug.
        unsafe {
            if tid() == 0 {
                load(w, buffer, full[0] + 8 * stage); //~ WP017
            } else if warp_id() == 1 {
                mbarrier::wait_parity(full[0] + if bug { 0 } else { 8 * stage }, 0);
                shared::ld::<u32>(buffer + 4 * (tid() - 32)); //~ WP017 WP016
            }
        }
    }
    // SAFETY: no copy is left at the end.
    unsafe {
        for stage in 0..STAGES {
            mbarrier::wait_parity(full[0] + 8 * stage, 0);
        }
    }
}

/// Rank 0 multicasts four tiles, each on its own barrier.
#[inline(always)]
pub fn a_parity_of_the_loop(w: &World, bug: bool) {
    let full = init_cluster([1; 4]);
    for step in 0..4 {
        let (buffer, bar) = (smem(128 + BOX * step), full[0] + 8 * step);
        // SAFETY: both CTAs live until `meet`. A tile is read behind its phase, but for the bug.
        unsafe {
            if tid() == 0 {
                mbarrier::arrive_expect_tx(bar, BOX);
                if cluster::cta_rank() == 0 {
                    bulk::tensor_load_multicast(buffer, w.map(), [0, 0], bar, 3); //~ WP017
                }
            }
            mbarrier::wait_parity(bar, if bug { step & 1 } else { 0 });
            shared::ld::<u32>(buffer + 4 * tid()); //~ WP017 WP016
        }
    }
    // SAFETY: no copy is left at the end.
    unsafe {
        for step in 0..4 {
            mbarrier::wait_parity(full[0] + 8 * step, 0);
        }
    }
    meet();
}

/// A persistent kernel: three steps per tile through a ring of two.
#[inline(always)]
pub fn a_phase_that_restarts_with_each_tile(w: &World, bug: bool) {
    const STEPS: u32 = 3;
    let bars = init([1, 1, 32, 32]);
    for tile in 0..4 {
        for k in 0..STEPS {
            let step = if bug { k } else { tile * STEPS + k };
            let (slot, phase) = (step & 1, (step >> 1) & 1);
            let (full, empty) = (bars[0] + 8 * slot, bars[2] + 8 * slot);
            // SAFETY: a slot is filled and read behind its phases, but for the bug.
            unsafe {
                if tid() == 0 {
                    mbarrier::wait_parity(empty, phase ^ 1); //~ WP001
                    load(w, smem(128 + BOX * slot), full); //~ WP003 WP017 WP004
                } else if warp_id() == 1 {
                    mbarrier::wait_parity(full, phase); //~ WP001 WP010
                    shared::ld::<u32>(smem(128 + BOX * slot + 4 * (tid() - 32))); //~ WP017
                    mbarrier::arrive(empty);
                }
            }
        }
    }
}

/// Shared addresses of the operands: A's 64 rows of 32 bytes for each group, then B's 8 rows.
const A: u32 = 1024;
const B: u32 = A + 2 * 64 * 32;

/// One wgmma of 64 x 8 x 16. It is not committed.
#[inline(always)]
#[track_caller]
unsafe fn multiply(sums: &mut <M64<8> as wgmma::Shape>::Regs, a: u32, b: u32) {
    let describe = |at: u32| wgmma::descriptor(smem(at), 128, 256, Swizzle::None);
    // SAFETY: the group's threads come together, as the caller says; the operands lie in shared memory.
    unsafe {
        wgmma::fence();
        M64::<8>::mma::<bf16, bf16, KMajor, KMajor>(sums, describe(a), describe(b), true);
    }
}

/// Zeros in the words of all operands.
#[inline(always)]
fn zero_operands(threads: u32) {
    let mut word = tid();
    while word < (B - A + 8 * 32) / 4 {
        // SAFETY: the words of the operands lie in shared memory, and each thread has its own.
        unsafe { shared::st(smem(A + 4 * word), 0_u32) };
        word += threads;
    }
    fence::proxy_async_shared_cta();
    // SAFETY: all threads of the CTA come.
    unsafe { thread::sync_threads() };
}

/// Two groups with an A each and one B, which they write again for the second step.
#[inline(always)]
pub fn a_wgmma_wait_for_one_group_of_two(_: &World, bug: bool) {
    zero_operands(256);
    let a = A + 2048 * (tid() / 128);
    let mut sums = <M64<8> as Shape>::ZERO;
    // SAFETY: whole groups multiply. B is written behind the batches that read it, but for the bug.
    unsafe {
        multiply(&mut sums, a, B); //~ WP018 WP034
        wgmma::commit_group();
        wgmma::wait_group::<0>();
        if !bug {
            thread::sync_threads();
        }
        if tid() < 64 {
            shared::st(smem(B + 4 * tid()), 0_u32); //~ WP018 WP034
        }
        fence::proxy_async_shared_cta();
        thread::sync_threads();
        multiply(&mut sums, a, B);
        wgmma::commit_group();
        wgmma::wait_group::<0>();
    }
}

/// Group 0 multiplies out of a slot, and thread 128 fills it again.
#[inline(always)]
pub fn a_release_without_a_wgmma_wait(w: &World, bug: bool) {
    let [full, empty] = init([1, 128]);
    zero_operands(160);
    let mut sums = <M64<8> as Shape>::ZERO;
    // SAFETY: a whole group multiplies. The slot is released behind its batch, but for the bug.
    unsafe {
        if tid() == 128 {
            mbarrier::wait_parity(empty, 0);
            load(w, smem(A), full); //~ WP018
            mbarrier::wait_parity(full, 0);
        } else if tid() < 128 {
            multiply(&mut sums, A, B); //~ WP018
            if bug {
                mbarrier::arrive(empty);
            }
            wgmma::commit_group();
            wgmma::wait_group::<0>();
            if !bug {
                mbarrier::arrive(empty);
            }
        }
    }
}
