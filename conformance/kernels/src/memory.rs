//! Words of every size, atomics, and a flag between CTAs.

use isa::slice::DeviceSliceMut;
use isa::{global, kernel, shared, thread};

/// Words that [`memory_words`](fn@memory_words) writes.
pub const WORDS: u32 = 24;

/// Every word size through shared memory, and read again in smaller parts.
#[kernel(threads = 32, smem = 64)]
pub fn memory_words(out: DeviceSliceMut<'_, u32>, v: u32) {
    if thread::thread_idx_x() != 0 {
        return;
    }
    let s = shared::dynamic_base();
    let mut at = 0;
    let mut put = |v: u32| {
        out.set(at, v);
        at += 1;
    };
    // SAFETY: the thread's own memory.
    unsafe {
        shared::st::<[u32; 4]>(s, [v, v + 1, v + 2, v + 3]);
        for i in 0..4 {
            put(shared::ld(s + 4 * i));
        }
        let wide: u64 = shared::ld(s + 8);
        put(wide as u32);
        put((wide >> 32) as u32);
        let half: u16 = shared::ld(s + 2);
        put(half.into());
        shared::st::<[u32; 2]>(s + 16, [v ^ 0xffff, v ^ 0xffff_0000]);
        let pair: [u32; 2] = shared::ld(s + 16);
        put(pair[0]);
        put(pair[1]);
        shared::st::<u64>(s + 24, 0x0123_4567_89ab_cdef);
        let quad: [u32; 4] = shared::ld(s + 16);
        for word in quad {
            put(word);
        }
        shared::st::<u16>(s + 26, 0x7777);
        put(shared::ld(s + 24));
        shared::st::<f32>(s + 28, -1.5);
        put(shared::ld(s + 28));
        // The CTA's own memory by its address in the cluster.
        let own = isa::cluster::mapa(s, isa::cluster::cta_rank());
        put(shared::ld_cluster(own));
        shared::st_cluster(own + 4, v + 9);
        put(shared::ld(s + 4));
    }
    let first = at;
    for i in first..WORDS as usize {
        out.set(i, 0);
    }
}

/// 128 threads add to a word of shared memory and to one of global memory; each writes what it found.
/// `out`: 128 words found in shared memory, 128 found in global memory, the sum in shared memory.
/// `sums`: the word of integers, then one of floats.
#[kernel(threads = 128, smem = 16)]
pub fn memory_atomics(out: DeviceSliceMut<'_, u32>, sums: u64) {
    let me = thread::thread_idx_x();
    let word = shared::dynamic_base();
    let (integers, floats) = (sums as *mut u32, (sums + 4) as *mut f32);
    // SAFETY: the word is initialised before all threads meet, and read after they met again; the
    // host lends eight bytes at `sums`.
    unsafe {
        if me == 0 {
            shared::st(word, 7u32);
        }
        thread::sync_threads();
        out.set(me as usize, shared::atomic_add_u32(word, 3));
        out.set(128 + me as usize, global::atomic_add_u32(integers, 5));
        global::atomic_add_f32(floats, 0.5);
        thread::sync_threads();
        if me == 0 {
            out.set(256, shared::ld(word));
        }
    }
}

/// Three CTAs pass a value on: CTA i waits for flag i, reads word i, writes three times that plus one to
/// word i + 1, and sets flag i + 1. Flags are `chain[0..4]`, words `chain[4..8]`. `out[i]` is 1 if CTA i
/// saw its flag within a limited number of tries.
#[kernel(threads = 32)]
pub fn memory_flags(out: DeviceSliceMut<'_, u32>, chain: u64) {
    if thread::thread_idx_x() != 0 {
        return;
    }
    let cta = thread::block_idx_x();
    let word = |i: u32| (chain + u64::from(4 * i)) as *mut u32;
    let mut seen = 0;
    // SAFETY: the host lends eight words at `chain`; a word is read after its flag was acquired.
    unsafe {
        for _ in 0..100_000 {
            if global::ld_acquire_gpu_u32(word(cta)) != 0 {
                seen = 1;
                break;
            }
        }
        if seen != 0 {
            let v = global::ld(word(4 + cta).cast_const());
            global::st(word(5 + cta), 3 * v + 1);
            if cta == 1 {
                global::st_release_gpu_u32(word(cta + 1), 1);
            } else {
                global::red_release_gpu_add_u32(word(cta + 1), 1);
            }
        }
    }
    out.set(cta as usize, seen);
}

/// CTAs of [`memory_last`](fn@memory_last).
pub const LAST_CTAS: u32 = 8;

/// Each CTA writes 32 words and counts itself; the one that counts last adds up the words of all.
/// `out`: what each CTA found in the counter, then 32 sums. `words`: the counter, 31 words of padding, then 32 words a CTA.
#[kernel(threads = 32, smem = 16)]
pub fn memory_last(out: DeviceSliceMut<'_, u32>, words: u64) {
    let (cta, me) = (thread::block_idx_x(), thread::thread_idx_x());
    let word = |cta: u32| (words + u64::from(128 * (1 + cta) + 4 * me)) as *mut u32;
    let shared = shared::dynamic_base();
    // SAFETY: the host lends the words; others' are read after the counter was acquired, and the word of shared memory after
    // its writer has met all threads.
    unsafe {
        global::st(word(cta), 100 * cta + me);
        thread::sync_threads();
        if me == 0 {
            let found = global::atomic_inc_acq_rel_gpu_u32(words as *mut u32, LAST_CTAS - 1);
            out.set(cta as usize, found);
            shared::st(shared, found);
        }
        thread::sync_threads();
        if shared::ld::<u32>(shared) == LAST_CTAS - 1 {
            let all = (0..LAST_CTAS).map(|cta| global::ld(word(cta).cast_const()));
            out.set((LAST_CTAS + me) as usize, all.sum());
        }
    }
}
