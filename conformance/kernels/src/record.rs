//! Recording of what a thread observes, and bounded waits on mbarriers.

use isa::slice::{DeviceSlice, DeviceSliceMut};
use isa::{fence, mbarrier, misc, shared, thread};

/// The record of a thread: one word after the other.
pub struct Notes<'a> {
    out: &'a DeviceSliceMut<'a, u32>,
    at: usize,
}

impl<'a> Notes<'a> {
    /// Makes a record that starts at word `at` of `out`.
    #[inline(always)]
    pub fn at(out: &'a DeviceSliceMut<'a, u32>, at: usize) -> Self {
        Self { out, at }
    }
    /// Writes a word.
    #[inline(always)]
    pub fn put(&mut self, value: u32) {
        self.out.set(self.at, value);
        self.at += 1;
    }
    /// Writes the number of arrivals that were pending when `token` was made.
    #[inline(always)]
    pub fn put_pending(&mut self, token: u64) {
        self.put(mbarrier::pending_count(token));
    }
}

/// For a kernel of one active thread: the address of its shared memory, and its record. Returns `None` in
/// the other threads.
#[inline(always)]
pub fn alone<'a>(out: &'a DeviceSliceMut<'a, u32>) -> Option<(u32, Notes<'a>)> {
    (thread::thread_idx_x() == 0).then(|| (shared::dynamic_base(), Notes::at(out, 0)))
}

/// Copies the words of `from` to `s` in shared memory with 128 threads, and makes them visible to the
/// asynchronous proxy.
///
/// # Safety
/// `s` is the CTA's own memory for as many words; all threads of the CTA, 128, call this.
#[inline(always)]
pub unsafe fn publish(s: u32, from: &DeviceSlice<'_, u32>) {
    let mut i = thread::thread_idx_x();
    // SAFETY: the caller's contract.
    unsafe {
        while let Some(v) = from.get(i as usize) {
            shared::st(s + 4 * i, v);
            i += 128;
        }
        fence::proxy_async_shared_cta();
        thread::sync_threads();
    }
}

/// Tests a parity repeatedly while nothing in flight can change it. Returns 0 if no test passes, 1 if all
/// pass, and 2 if some pass.
///
/// # Safety
/// As [`mbarrier::test_wait_parity`].
#[inline(always)]
pub unsafe fn look(bar: u32, parity: u32) -> u32 {
    let mut passed = 0;
    for _ in 0..3 {
        // SAFETY: the caller's contract.
        unsafe {
            passed += u32::from(mbarrier::test_wait_parity(bar, parity));
            passed += u32::from(mbarrier::try_wait_parity_for(bar, parity, 500));
        }
    }
    match passed {
        0 => 0,
        6 => 1,
        _ => 2,
    }
}

/// [`look`] with a token.
///
/// # Safety
/// As [`mbarrier::test_wait`].
#[inline(always)]
pub unsafe fn look_token(bar: u32, token: u64) -> u32 {
    let mut passed = 0;
    for _ in 0..3 {
        // SAFETY: the caller's contract.
        unsafe {
            passed += u32::from(mbarrier::test_wait(bar, token));
            passed += u32::from(mbarrier::try_wait(bar, token));
        }
    }
    match passed {
        0 => 0,
        6 => 1,
        _ => 2,
    }
}

/// Number of tries of a wait that should pass. It stays below 64, because the model reports a loop of 64
/// tests on an unchanged machine as a deadlock.
const TRIES: u32 = 40;

/// Waits with a limited number of tries (some milliseconds on a GPU). Returns 1 if the phase of that parity
/// completed, and otherwise 0.
///
/// # Safety
/// As [`mbarrier::try_wait_parity`].
#[inline(always)]
pub unsafe fn passes(bar: u32, parity: u32) -> u32 {
    for _ in 0..TRIES {
        // SAFETY: the caller's contract.
        if unsafe { mbarrier::try_wait_parity_for(bar, parity, 50_000) } {
            return 1;
        }
        misc::nanosleep(20_000);
    }
    0
}

/// [`passes`] with acquire at cluster scope.
///
/// # Safety
/// As [`mbarrier::test_wait_parity_cluster`].
#[inline(always)]
pub unsafe fn passes_cluster(bar: u32, parity: u32) -> u32 {
    for _ in 0..TRIES {
        // SAFETY: the caller's contract.
        if unsafe { mbarrier::test_wait_parity_cluster(bar, parity) } {
            return 1;
        }
        misc::nanosleep(50_000);
    }
    0
}
