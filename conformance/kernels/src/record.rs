//! Writing down what a thread saw, and looking at mbarriers a bounded number of times.

use isa::slice::{DeviceSlice, DeviceSliceMut};
use isa::{fence, mbarrier, misc, shared, thread};

/// A thread's notes: one word after the other.
pub struct Notes<'a> {
    out: &'a DeviceSliceMut<'a, u32>,
    at: usize,
}

impl<'a> Notes<'a> {
    /// Notes that start at word `at` of `out`.
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
    /// Writes how many arrivals were pending when `token` was made.
    #[inline(always)]
    pub fn put_pending(&mut self, token: u64) {
        self.put(mbarrier::pending_count(token));
    }
}

/// For a kernel of one thread: the first word of its shared memory, and its notes. `None` to the
/// others.
#[inline(always)]
pub fn alone<'a>(out: &'a DeviceSliceMut<'a, u32>) -> Option<(u32, Notes<'a>)> {
    (thread::thread_idx_x() == 0).then(|| (shared::dynamic_base(), Notes::at(out, 0)))
}

/// Puts the words of `from` at `s` in shared memory, with 128 threads, and publishes them to the
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

/// Looks at a parity that nothing in flight will change: 0 when no look passes, 1 when all do, 2
/// when some do.
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

/// The same with a token.
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

/// Tries of a wait that should pass. The model counts a loop of 64 looks at an unchanged machine as a
/// deadlock; this stays below.
const TRIES: u32 = 40;

/// Waits, but not for ever: 1 when the phase of that parity completed, 0 when the tries ran out
/// (some milliseconds on a chip).
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

/// As [`passes`], acquiring at cluster scope.
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
