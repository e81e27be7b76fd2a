//! mbarriers that count arrivals: phases, parities, tokens, drops, limits.
//!
//! One thread each, but for `mbar_threads`.

use isa::slice::DeviceSliceMut;
use isa::{fence, kernel, mbarrier, shared, thread};

use crate::record::{alone, look, look_token, passes};

/// The largest count of arrivals and of bytes.
pub const LIMIT: u32 = (1 << 20) - 1;
/// Rounds of [`mbar_parity`](fn@mbar_parity) and [`mbar_threads`](fn@mbar_threads).
pub const ROUNDS: u32 = 9;
/// The largest count of [`mbar_counts`](fn@mbar_counts).
pub const COUNTS: u32 = 12;

/// Both parities of a fresh barrier, and after each of nine phases.
#[kernel(threads = 32, smem = 64)]
pub fn mbar_parity(out: DeviceSliceMut<'_, u32>) {
    let Some((bar, mut notes)) = alone(&out) else { return };
    // SAFETY: the thread's own barrier, of one arrival per phase.
    unsafe {
        mbarrier::init(bar, 1);
        notes.put(look(bar, 0));
        notes.put(look(bar, 1));
        for _ in 0..ROUNDS {
            mbarrier::arrive(bar);
            notes.put(look(bar, 0));
            notes.put(look(bar, 1));
        }
        mbarrier::inval(bar);
    }
}

/// Counts 1 to 12, each on a barrier initialised anew at the same place: after each arrival, what was
/// pending before it and whether the phase has completed.
#[kernel(threads = 32, smem = 64)]
pub fn mbar_counts(out: DeviceSliceMut<'_, u32>) {
    let Some((bar, mut notes)) = alone(&out) else { return };
    for count in 1..=COUNTS {
        // SAFETY: the thread's own barrier, invalidated before it is initialised again; `count`
        // arrivals complete its phase.
        unsafe {
            mbarrier::init(bar, count);
            for _ in 0..count {
                let token = mbarrier::arrive(bar);
                notes.put_pending(token);
                notes.put(look(bar, 0));
            }
            mbarrier::inval(bar);
        }
    }
}

/// Arrivals of several at once.
#[kernel(threads = 32, smem = 64)]
pub fn mbar_arrive_count(out: DeviceSliceMut<'_, u32>) {
    let Some((bar, mut notes)) = alone(&out) else { return };
    // SAFETY: the thread's own barrier; no phase gets more than its ten arrivals.
    unsafe {
        mbarrier::init(bar, 10);
        for parity in 0..2 {
            for n in [3, 6, 1] {
                let token = mbarrier::arrive_count(bar, n);
                notes.put_pending(token);
                notes.put(look(bar, parity));
            }
        }
        // All at once.
        let token = mbarrier::arrive_count(bar, 10);
        notes.put_pending(token);
        notes.put(look(bar, 0));
        mbarrier::inval(bar);
    }
}

/// Arrivals that leave: the phase in progress counts them, later ones do not.
#[kernel(threads = 32, smem = 64)]
pub fn mbar_drop(out: DeviceSliceMut<'_, u32>) {
    let Some((bar, mut notes)) = alone(&out) else { return };
    // SAFETY: the thread's own barrier; no phase gets more arrivals than it expects.
    unsafe {
        mbarrier::init(bar, 6);
        // Phase 0 expects 6, of which one leaves.
        notes.put_pending(mbarrier::arrive_drop(bar));
        mbarrier::arrive_count(bar, 4);
        notes.put(look(bar, 0));
        notes.put_pending(mbarrier::arrive(bar));
        notes.put(look(bar, 0));
        // Phase 1 expects 5, of which three leave.
        notes.put_pending(mbarrier::arrive_drop_count(bar, 3));
        notes.put(look(bar, 1));
        notes.put_pending(mbarrier::arrive(bar));
        notes.put(look(bar, 1));
        notes.put_pending(mbarrier::arrive(bar));
        notes.put(look(bar, 1));
        // Phase 2 expects 2; the one that leaves completes it.
        notes.put_pending(mbarrier::arrive(bar));
        notes.put(look(bar, 0));
        notes.put_pending(mbarrier::arrive_drop(bar));
        notes.put(look(bar, 0));
        // Phases 3 and 4 expect 1.
        notes.put_pending(mbarrier::arrive(bar));
        notes.put(look(bar, 1));
        notes.put_pending(mbarrier::arrive(bar));
        notes.put(look(bar, 0));
        mbarrier::inval(bar);
    }
}

/// Arrivals that do not complete.
#[kernel(threads = 32, smem = 64)]
pub fn mbar_no_complete(out: DeviceSliceMut<'_, u32>) {
    let Some((bar, mut notes)) = alone(&out) else { return };
    // SAFETY: the thread's own barrier; each phase gets its five arrivals, the last by a plain one.
    unsafe {
        mbarrier::init(bar, 5);
        for parity in 0..2 {
            notes.put_pending(mbarrier::arrive_no_complete(bar, 1));
            notes.put(look(bar, parity));
            notes.put_pending(mbarrier::arrive_no_complete(bar, 3));
            notes.put(look(bar, parity));
            notes.put_pending(mbarrier::arrive(bar));
            notes.put(look(bar, parity));
        }
        mbarrier::inval(bar);
    }
}

/// Waits by token instead of parity.
#[kernel(threads = 32, smem = 64)]
pub fn mbar_tokens(out: DeviceSliceMut<'_, u32>) {
    let Some((bar, mut notes)) = alone(&out) else { return };
    // SAFETY: the thread's own barrier; each token is of its present phase or the one before.
    unsafe {
        mbarrier::init(bar, 2);
        let first = mbarrier::arrive(bar);
        notes.put(look_token(bar, first));
        let second = mbarrier::arrive(bar);
        notes.put(look_token(bar, first));
        notes.put(look_token(bar, second));
        // Phase 1.
        let third = mbarrier::arrive_expect_tx(bar, 16);
        notes.put(look_token(bar, third));
        notes.put(look_token(bar, second));
        let fourth = mbarrier::arrive(bar);
        notes.put(look_token(bar, third));
        notes.put(look_token(bar, fourth));
        mbarrier::complete_tx(bar, 16);
        notes.put(look_token(bar, third));
        notes.put(look_token(bar, fourth));
        for token in [first, second, third, fourth] {
            notes.put_pending(token);
        }
        mbarrier::inval(bar);
    }
}

/// A barrier is invalidated in its second phase, its memory is used for something else, and a new barrier is
/// initialised there. The new one starts in its first phase.
#[kernel(threads = 32, smem = 64)]
pub fn mbar_reinit(out: DeviceSliceMut<'_, u32>) {
    let Some((base, mut notes)) = alone(&out) else { return };
    let bar = base + 8;
    // SAFETY: the thread's own barriers; their memory is used otherwise only after `inval`.
    unsafe {
        mbarrier::init(bar, 1);
        mbarrier::arrive(bar);
        notes.put(look(bar, 0));
        mbarrier::inval(bar);
        shared::st(bar, 0xdead_beef_u32);
        notes.put(shared::ld(bar));
        mbarrier::init(bar, 2);
        notes.put(look(bar, 0));
        notes.put(look(bar, 1));
        mbarrier::arrive(bar);
        notes.put(look(bar, 0));
        mbarrier::arrive(bar);
        notes.put(look(bar, 0));
        mbarrier::inval(bar);
        // Neighbours do not disturb each other.
        mbarrier::init(bar, 1);
        mbarrier::init(bar + 8, 1);
        mbarrier::arrive(bar + 8);
        notes.put(look(bar, 0));
        notes.put(look(bar + 8, 0));
        mbarrier::inval(bar);
        mbarrier::inval(bar + 8);
    }
}

/// The largest counts: arrivals, bytes owed, bytes ahead.
#[kernel(threads = 32, smem = 64)]
pub fn mbar_limits(out: DeviceSliceMut<'_, u32>) {
    let Some((bar, mut notes)) = alone(&out) else { return };
    // SAFETY: the thread's own barrier; every phase gets its arrivals and its bytes.
    unsafe {
        mbarrier::init(bar, LIMIT);
        notes.put_pending(mbarrier::arrive_count(bar, LIMIT));
        notes.put(look(bar, 0));
        notes.put_pending(mbarrier::arrive_count(bar, LIMIT - 1));
        notes.put(look(bar, 1));
        notes.put_pending(mbarrier::arrive(bar));
        notes.put(look(bar, 1));
        mbarrier::inval(bar);

        mbarrier::init(bar, 1);
        mbarrier::arrive_expect_tx(bar, LIMIT);
        notes.put(look(bar, 0));
        mbarrier::complete_tx(bar, LIMIT - 1);
        notes.put(look(bar, 0));
        mbarrier::complete_tx(bar, 1);
        notes.put(look(bar, 0));
        // Phase 1: all bytes before they are expected.
        mbarrier::complete_tx(bar, LIMIT);
        notes.put(look(bar, 1));
        mbarrier::arrive_expect_tx(bar, LIMIT);
        notes.put(look(bar, 1));
        mbarrier::inval(bar);
    }
}

/// 128 threads synchronise nine times at a barrier of 128 arrivals: thread i writes, all arrive, and thread
/// i reads its neighbour's word. `out[i]` counts the rounds in which the wait passed, and `out[128 + i]`
/// those in which the value was the neighbour's of that round.
#[kernel(threads = 128, smem = 1024)]
pub fn mbar_threads(out: DeviceSliceMut<'_, u32>) {
    let me = thread::thread_idx_x();
    let words = shared::dynamic_base();
    // Two, since a fast thread of the next round would overwrite what a slow one still reads.
    let bars = words + 512;
    let (mut passed, mut right) = (0, 0);
    // SAFETY: the barriers are initialised before all threads meet; each thread arrives once per
    // phase. A word is written before the first barrier of a round and read between the two.
    unsafe {
        if me == 0 {
            mbarrier::init(bars, 128);
            mbarrier::init(bars + 8, 128);
            fence::mbarrier_init_release_cluster();
        }
        thread::sync_threads();
        for round in 0..ROUNDS {
            shared::st(words + 4 * me, 1000 * round + me);
            mbarrier::arrive(bars);
            passed += passes(bars, round & 1);
            let neighbour = (me + 1) % 128;
            let seen: u32 = shared::ld(words + 4 * neighbour);
            right += u32::from(seen == 1000 * round + neighbour);
            mbarrier::arrive(bars + 8);
            passed += passes(bars + 8, round & 1);
        }
    }
    out.set(me as usize, passed);
    out.set(128 + me as usize, right);
}
