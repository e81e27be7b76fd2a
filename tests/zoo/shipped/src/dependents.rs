//! Bugs that shipped: dependent kernels that use memory before they have waited for the grid ahead.

use crate::world::{BOX, World, init, smem, tid, warp_id};
use isa::{barrier, cp_async_bulk as bulk, global, griddepcontrol, mbarrier, shared, thread};

shipped! { "dependents.rs", behind writes_a_row:
    a_kernel_without_the_wait: 128 threads, 1 ctas in clusters of 1;
        "flash-attention #2481",
        "A preprocessing kernel is launched as a dependent launch, and does not execute griddepcontrol.wait";
    a_load_warp_without_the_wait: 128 threads, 1 ctas in clusters of 1;
        "CUTLASS #3279, TensorRT-LLM #14668",
        "Two warps load tiles by TMA, and one of them has not waited for the grid ahead";
    a_scheduler_made_before_the_wait: 128 threads, 1 ctas in clusters of 1;
        "CUTLASS #2962",
        "The tile scheduler reads the problem's shape when it is made: before the wait for the grid ahead, which writes it";
}

/// The grid ahead: lets the dependent grid start, and then writes the tensor's first row.
#[inline(always)]
pub fn writes_a_row(w: &World) {
    griddepcontrol::launch_dependents();
    // SAFETY: each thread has a word of its own.
    unsafe { global::st(w.word(tid()), tid()) };
}

/// A kernel that reads what the kernel ahead writes.
#[inline(always)]
pub fn a_kernel_without_the_wait(w: &World, bug: bool) {
    if !bug {
        griddepcontrol::wait();
    }
    // SAFETY: the word is read behind the wait, which the bug leaves out.
    unsafe {
        let word: u32 = global::ld(w.word(tid())); //~ WP045
        global::st(w.out(tid()), word);
    }
}

/// A kernel with two load warps.
#[inline(always)]
pub fn a_load_warp_without_the_wait(w: &World, bug: bool) {
    let full = init([1, 1]);
    let role = warp_id();
    // SAFETY: each tile is read behind its phase. The wait that one warp lacks is the bug.
    unsafe {
        if role < 2 {
            if !bug || role == 0 {
                griddepcontrol::wait();
            }
            if tid().is_multiple_of(32) {
                let bar = full[0] + 8 * role;
                mbarrier::arrive_expect_tx(bar, BOX);
                bulk::tensor_load(smem(128 + BOX * role), w.map(), [0, 0], bar); //~ WP045
            }
        } else {
            mbarrier::wait_parity(full[0], 0);
            mbarrier::wait_parity(full[1], 0);
            let lane = tid() - 64;
            let sum: u32 =
                shared::ld::<u32>(smem(128 + 4 * lane)) + shared::ld::<u32>(smem(384 + 4 * lane));
            global::st(w.out(lane), sum);
        }
    }
}

/// A kernel whose scheduler reads the problem's shape from memory.
#[inline(always)]
pub fn a_scheduler_made_before_the_wait(w: &World, bug: bool) {
    // SAFETY: the shape is read behind the wait, but for the bug. All threads come to the barrier.
    unsafe {
        let shape = |w: &World| global::ld::<u32>(w.word(1)); //~ WP045
        let early = if bug { shape(w) } else { 0 };
        griddepcontrol::wait();
        let tiles = if bug { early } else { shape(w) };
        barrier::sync(1, thread::block_dim_x());
        global::st(w.out(tid()), tiles);
    }
}
