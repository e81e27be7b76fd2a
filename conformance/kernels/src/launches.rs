//! Kernels that are launched in a row: what a dependent launch sees of the kernels ahead, and a CTA that spins
//! on a word that another one sets.
//!
//! What is looked at too early is accessed by atomics, by both sides: a race is allowed to them.

use isa::slice::DeviceSliceMut;
use isa::{global, griddepcontrol, kernel, misc, thread};

/// CTAs of a primary grid.
pub const CTAS: u32 = 4;
/// What a primary grid writes to word 0 when it is nearly done.
pub const DONE: u32 = 7;
/// What CTA 0 writes to word 1 of a spin.
pub const DATA: u32 = 9;
/// Looks at a word, at most. Each takes about a microsecond on a GPU.
const LOOKS: u32 = 1 << 16;

/// Word `i` at an address.
#[inline(always)]
fn word(at: u64, i: u32) -> *mut u32 {
    (at + 4 * u64::from(i)) as *mut u32
}

/// Waits so many microseconds.
#[inline(always)]
fn delay(microseconds: u32) {
    for _ in 0..microseconds {
        misc::nanosleep(1000);
    }
}

/// A primary grid: lets the dependent grid start (`who` = 0: nobody does, 1: one thread of each CTA, 2: all
/// threads), then waits, and then writes. Word 0 is [`DONE`]; word `1 + 32 cta + i` is `i + 1`.
#[kernel(threads = 32)]
pub fn writes_late(at: u64, who: u32, microseconds: u32) {
    let (cta, i) = (thread::block_idx_x(), thread::thread_idx_x());
    if who == 2 || (who == 1 && i == 5) {
        griddepcontrol::launch_dependents();
    }
    delay(microseconds);
    // SAFETY: each thread has a word of its own; all accesses to word 0 are atomic.
    unsafe {
        global::st(word(at, 1 + 32 * cta + i), i + 1);
        if cta + 1 == CTAS && i == 0 {
            global::st_release_gpu_u32(word(at, 0), DONE);
        }
    }
}

/// A dependent grid: looks at word 0, waits, and looks at everything. `out[0]` is what it saw early, `out[1]`
/// what it saw late, and `out[2]` counts the words that had come.
#[kernel(threads = 32, dependent = true)]
pub fn looks_twice(at: u64, out: u64) {
    if thread::thread_idx_x() != 0 {
        return;
    }
    // SAFETY: all accesses to word 0 are atomic; the others are read behind the wait; `out` is this thread's.
    unsafe {
        let early = global::ld_acquire_gpu_u32(word(at, 0));
        griddepcontrol::wait();
        let late = global::ld_acquire_gpu_u32(word(at, 0));
        let mut count = 0;
        for i in 0..32 * CTAS {
            let have: u32 = global::ld(word(at, 1 + i).cast_const());
            count += u32::from(have == i % 32 + 1);
        }
        global::st(word(out, 0), early);
        global::st(word(out, 1), late);
        global::st(word(out, 2), count);
    }
}

/// The kernel between two others: lets the next one start, and waits for the one ahead only if `waits`.
#[kernel(threads = 32, dependent = true)]
pub fn passes_by(waits: u32) {
    griddepcontrol::launch_dependents();
    if waits != 0 {
        griddepcontrol::wait();
    }
}

/// The last of three kernels: what it sees of the first behind its own wait, in `out[0]`.
#[kernel(threads = 32, dependent = true)]
pub fn looks_behind_the_wait(at: u64, out: u64) {
    griddepcontrol::wait();
    if thread::thread_idx_x() == 0 {
        // SAFETY: all accesses to word 0 are atomic; `out` is this thread's.
        unsafe { global::st(word(out, 0), global::ld_acquire_gpu_u32(word(at, 0))) };
    }
}

/// A CTA spins until the other one has set word 0: by `ld.acquire`, or by an atomic that adds 0. `out[0]` says
/// whether it saw that, and `out[1]`, for the acquire, what it then read in word 1. Word 0 is [`DONE`] at last.
#[kernel(threads = 32)]
pub fn spins(out: DeviceSliceMut<'_, u32>, at: u64, spinner: u32, by_acquire: u32) {
    if thread::thread_idx_x() != 0 {
        return;
    }
    // SAFETY: all accesses to word 0 are atomic; word 1 is read if the flag was acquired.
    unsafe {
        if thread::block_idx_x() == spinner {
            let mut seen = 0;
            for _ in 0..LOOKS {
                seen = if by_acquire != 0 {
                    global::ld_acquire_gpu_u32(word(at, 0))
                } else {
                    global::atomic_add_u32(word(at, 0), 0)
                };
                if seen != 0 {
                    break;
                }
            }
            let data = by_acquire != 0 && seen != 0;
            out.set(0, seen);
            out.set(1, if data { global::ld(word(at, 1).cast_const()) } else { DATA });
        } else {
            delay(50);
            global::st(word(at, 1), DATA);
            global::st_release_gpu_u32(word(at, 0), DONE);
        }
    }
}
