//! Bulk copies of contiguous bytes: completion on an mbarrier, and bulk groups of stores.

use isa::slice::{DeviceSlice, DeviceSliceMut};
use isa::{cp_async_bulk, fence, kernel, mbarrier, shared, thread};

use crate::record::{Notes, look, passes, publish};

/// Largest run of [`bulk_load`](fn@bulk_load).
pub const RUN: u32 = 4096;

/// Loads two runs of `bytes` each on one phase, the second after the first has been given its time.
/// Notes: the phase before anything, after the first run, after the second; then the next phase,
/// whose bytes are expected after the copy may have landed. Then the bytes of both runs.
#[kernel(threads = 128, smem = 2 * RUN + 16)]
pub fn bulk_load(out: DeviceSliceMut<'_, u32>, from: DeviceSlice<'_, u32>, bytes: u32) {
    let me = thread::thread_idx_x();
    let to = shared::dynamic_base();
    let bar = to + 2 * RUN;
    let src = from.as_ptr().cast::<u8>();
    // SAFETY: the runs are the CTA's own memory, read after the phase that counts their bytes; the
    // host lends `2 bytes` at `src`.
    unsafe {
        if me == 0 {
            let mut notes = Notes::at(&out, 0);
            mbarrier::init(bar, 1);
            fence::proxy_async();
            notes.put(look(bar, 0));
            mbarrier::arrive_expect_tx(bar, 2 * bytes);
            cp_async_bulk::load(to, src, bytes, bar);
            // Long enough for a copy on a chip; on the model it lands or does not.
            for _ in 0..20 {
                isa::misc::nanosleep(1000);
            }
            notes.put(look(bar, 0));
            cp_async_bulk::load(to + RUN, src.wrapping_add(bytes as usize), bytes, bar);
            notes.put(passes(bar, 0));
            // The next phase: issued first, expected by the arrival that was missing.
            cp_async_bulk::load(to, src.wrapping_add(bytes as usize), bytes, bar);
            notes.put(look(bar, 1));
            mbarrier::arrive_expect_tx(bar, bytes);
            notes.put(passes(bar, 1));
        }
        thread::sync_threads();
        let mut i = me;
        while i < bytes / 4 {
            out.set((8 + i) as usize, shared::ld(to + 4 * i));
            out.set((8 + bytes / 4 + i) as usize, shared::ld(to + RUN + 4 * i));
            i += 128;
        }
    }
}

/// Four groups of one store each, of 256 bytes. Group g stores the words `1000 g + i`; the source is
/// overwritten after `wait_group.read`, and only the last wait is for the writes. Notes, by the
/// issuing thread: a word of group 0 and of group 1 after `wait_group 2`, a word of each after
/// `wait_group 0`.
#[kernel(threads = 32, smem = 1024)]
pub fn bulk_groups(out: DeviceSliceMut<'_, u32>, to: u64) {
    let me = thread::thread_idx_x();
    let from = shared::dynamic_base();
    if me != 0 {
        return;
    }
    let word = |g: u32, i: u32| (to + u64::from(256 * g + 4 * i)) as *mut u32;
    let mut notes = Notes::at(&out, 0);
    // SAFETY: the thread's own memory; a source is overwritten after `wait_group.read` covered it,
    // and a result read after `wait_group` did. The host lends 1024 bytes at `to`.
    unsafe {
        for g in 0..4 {
            for i in 0..64 {
                shared::st(from + 256 * g + 4 * i, 1000 * g + i);
            }
        }
        fence::proxy_async_shared_cta();
        for g in 0..4 {
            cp_async_bulk::store(word(g, 0).cast(), from + 256 * g, 256);
            cp_async_bulk::commit_group();
        }
        cp_async_bulk::wait_group::<2>();
        notes.put(isa::global::ld(word(0, 5).cast_const()));
        notes.put(isa::global::ld(word(1, 63).cast_const()));
        cp_async_bulk::wait_group_read::<0>();
        for g in 0..4 {
            for i in 0..64 {
                shared::st(from + 256 * g + 4 * i, u32::MAX);
            }
        }
        cp_async_bulk::wait_group::<0>();
        for g in 0..4 {
            notes.put(isa::global::ld(word(g, 7).cast_const()));
        }
    }
}

/// One group of many stores out of one source, which is overwritten between two groups.
#[kernel(threads = 32, smem = 64)]
pub fn bulk_rounds(out: DeviceSliceMut<'_, u32>, to: u64, rounds: u32) {
    let from = shared::dynamic_base();
    if thread::thread_idx_x() != 0 {
        return;
    }
    // SAFETY: as in `bulk_groups`; the host lends `32 rounds` bytes at `to`.
    unsafe {
        for round in 0..rounds {
            for i in 0..4 {
                shared::st(from + 4 * i, 10 * round + i);
            }
            fence::proxy_async_shared_cta();
            let at = (to + u64::from(32 * round)) as *mut u8;
            cp_async_bulk::store(at, from, 16);
            cp_async_bulk::store(at.wrapping_add(16), from, 16);
            cp_async_bulk::commit_group();
            cp_async_bulk::wait_group_read::<0>();
        }
        cp_async_bulk::wait_group::<0>();
    }
    out.set(0, rounds);
}

/// Adds `bytes` of integers (`floats` 0) or floats (1) into global memory, twice.
#[kernel(threads = 128, smem = RUN)]
pub fn bulk_reduce(
    out: DeviceSliceMut<'_, u32>,
    from: DeviceSlice<'_, u32>,
    to: u64,
    bytes: u32,
    floats: u32,
) {
    let me = thread::thread_idx_x();
    let s = shared::dynamic_base();
    // SAFETY: the CTA's own memory, published to the asynchronous proxy before all threads meet; the
    // host lends `bytes` at `to`.
    unsafe {
        publish(s, &from);
        if me == 0 {
            for _ in 0..2 {
                if floats == 0 {
                    cp_async_bulk::reduce_add_u32(to as *mut u8, s, bytes);
                } else {
                    cp_async_bulk::reduce_add_f32(to as *mut u8, s, bytes);
                }
            }
            cp_async_bulk::commit_group();
            cp_async_bulk::wait_group::<0>();
            out.set(0, bytes);
        }
    }
}
