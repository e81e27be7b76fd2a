//! Named barriers of a CTA, and the register pool of its warp groups.

use isa::slice::DeviceSliceMut;
use isa::{barrier, kernel, setmaxnreg, shared, thread, warp};

/// Warps that arrive without waiting; four more wait.
pub const ARRIVERS: u32 = 2;

/// Barriers 1 to 15 in turn: two warps write and arrive, four wait and read what the two wrote. Each
/// slot counts 64 + 128 threads. The arrivers wait at slot 0 of all for the readers, round by round.
/// `out[tid]` of a reader sums what it read.
#[kernel(threads = 192, smem = 1024)]
pub fn named_pairs(out: DeviceSliceMut<'_, u32>) {
    let me = thread::thread_idx_x();
    let words = shared::dynamic_base();
    let mut sum = 0;
    // SAFETY: every warp is convergent; 192 threads come to each slot; a word is read between the
    // arrival that follows its writing and the meeting of all, and written again after it.
    unsafe {
        let writer = warp::warp_id() < ARRIVERS;
        for id in 1..16 {
            if writer {
                shared::st(words + 4 * me, id * 100 + me);
                barrier::arrive(id, 192);
            } else {
                barrier::sync(id, 192);
                for i in 0..64 {
                    sum += shared::ld::<u32>(words + 4 * i);
                }
            }
            thread::sync_threads();
        }
    }
    out.set(me as usize, sum);
}

/// Counts from 32 to 160 by 32: one warp arrives, the others that the count takes wait, on slot 5 with
/// the unaligned forms; `out` as in [`named_pairs`](fn@named_pairs).
#[kernel(threads = 160, smem = 1024)]
pub fn named_counts(out: DeviceSliceMut<'_, u32>) {
    let me = thread::thread_idx_x();
    let words = shared::dynamic_base();
    let mut sum = 0;
    // SAFETY: `32 n` threads come to the slot, the first warp without waiting; between two uses of
    // it all threads meet.
    unsafe {
        let warp = warp::warp_id();
        for n in 2..=5 {
            if warp == 0 {
                shared::st(words + 4 * me, n * 1000 + me);
                barrier::arrive_unaligned(5, 32 * n);
            } else if warp < n {
                barrier::sync_unaligned(5, 32 * n);
                for i in 0..32 {
                    sum += shared::ld::<u32>(words + 4 * i);
                }
            }
            thread::sync_threads();
        }
    }
    out.set(me as usize, sum);
}

/// Reductions over the first 96 of 128 threads, on slots 3, 4 and 9, for `p(thread) = thread < bound`;
/// word `4 tid` and on: popc, and, or, bound.
#[kernel(threads = 128)]
pub fn named_reductions(out: DeviceSliceMut<'_, u32>, bound: u32) {
    let me = thread::thread_idx_x();
    let p = me < bound;
    let mut got = [u32::MAX; 3];
    // SAFETY: three whole warps come to each slot.
    unsafe {
        if warp::warp_id() < 3 {
            got[0] = barrier::red_popc(3, 96, p);
            got[1] = barrier::red_and(4, 96, p).into();
            got[2] = barrier::red_or(9, 96, p).into();
        }
    }
    let at = 4 * me as usize;
    out.set(at, got[0]);
    out.set(at + 1, got[1]);
    out.set(at + 2, got[2]);
    out.set(at + 3, bound);
}

/// Three warp groups move registers: the first one releases some; the others take, release and take again.
/// `out[group]` is 3 if the group reached the end.
#[kernel(threads = 384)]
pub fn register_pool(out: DeviceSliceMut<'_, u32>) {
    let me = thread::thread_idx_x();
    let mut steps = 0;
    // SAFETY: all warps of a warp group execute the same; 40 + 232 + 232 registers of 128 threads
    // each are in the pool, and the second round follows the meeting of all.
    unsafe {
        let group = warp::shfl_idx(me / 128, 0);
        if group == 0 {
            setmaxnreg::dec::<40>();
            steps += 1;
        } else {
            setmaxnreg::inc::<232>();
            steps += 1;
        }
        thread::sync_threads();
        if group != 0 {
            setmaxnreg::dec::<160>();
            steps += 1;
        } else {
            steps += 1;
        }
        thread::sync_threads();
        if group == 1 {
            setmaxnreg::inc::<240>();
            steps += 1;
        } else {
            steps += 1;
        }
        if me.is_multiple_of(128) {
            out.set(group as usize, steps);
        }
    }
}
