//! Writing down what a thread saw, and looking at mbarriers a bounded number of times.

use isa::slice::DeviceSliceMut;
use isa::{mbarrier, misc};

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
