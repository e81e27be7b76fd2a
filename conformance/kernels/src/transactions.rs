//! mbarrier transaction counts: every order of expect, complete and arrive.

use isa::slice::DeviceSliceMut;
use isa::{kernel, mbarrier};

use crate::record::{alone, look, look_token};

/// Seven phases of one barrier of one arrival, each with its bytes in another order.
#[kernel(threads = 32, smem = 64)]
pub fn tx_orders(out: DeviceSliceMut<'_, u32>) {
    let Some((bar, mut notes)) = alone(&out) else { return };
    // SAFETY: the thread's own barrier; the bytes of every phase add up to zero.
    unsafe {
        mbarrier::init(bar, 1);
        // 0: expect, arrive, complete in halves.
        mbarrier::expect_tx(bar, 64);
        notes.put(look(bar, 0));
        mbarrier::arrive(bar);
        notes.put(look(bar, 0));
        mbarrier::complete_tx(bar, 32);
        notes.put(look(bar, 0));
        mbarrier::complete_tx(bar, 32);
        notes.put(look(bar, 0));
        // 1: complete before anybody expects; the missing arrival holds the phase.
        mbarrier::complete_tx(bar, 48);
        notes.put(look(bar, 1));
        mbarrier::expect_tx(bar, 48);
        notes.put(look(bar, 1));
        mbarrier::arrive(bar);
        notes.put(look(bar, 1));
        // 2: complete first, then expect and arrive in one.
        mbarrier::complete_tx(bar, 80);
        notes.put(look(bar, 0));
        mbarrier::arrive_expect_tx(bar, 80);
        notes.put(look(bar, 0));
        // 3: expectations add up.
        mbarrier::expect_tx(bar, 16);
        mbarrier::expect_tx(bar, 32);
        mbarrier::arrive_expect_tx(bar, 64);
        notes.put(look(bar, 1));
        mbarrier::complete_tx(bar, 111);
        notes.put(look(bar, 1));
        mbarrier::complete_tx(bar, 1);
        notes.put(look(bar, 1));
        // 4: balanced before the arrival, which then completes.
        mbarrier::expect_tx(bar, 16);
        mbarrier::complete_tx(bar, 16);
        notes.put(look(bar, 0));
        mbarrier::arrive(bar);
        notes.put(look(bar, 0));
        // 5: through zero in both directions while the arrival is missing.
        mbarrier::expect_tx(bar, 10);
        mbarrier::complete_tx(bar, 30);
        mbarrier::expect_tx(bar, 40);
        mbarrier::complete_tx(bar, 20);
        notes.put(look(bar, 1));
        mbarrier::arrive(bar);
        notes.put(look(bar, 1));
        // 6: no bytes at all, by an expectation of none.
        mbarrier::arrive_expect_tx(bar, 0);
        notes.put(look(bar, 0));
        mbarrier::inval(bar);
    }
}

/// Two arrivals: bytes that are complete do not end a phase that lacks one.
#[kernel(threads = 32, smem = 64)]
pub fn tx_two_arrivals(out: DeviceSliceMut<'_, u32>) {
    let Some((bar, mut notes)) = alone(&out) else { return };
    // SAFETY: the thread's own barrier; the bytes of every phase add up to zero.
    unsafe {
        mbarrier::init(bar, 2);
        notes.put_pending(mbarrier::arrive_expect_tx(bar, 16));
        notes.put(look(bar, 0));
        mbarrier::complete_tx(bar, 16);
        notes.put(look(bar, 0));
        notes.put_pending(mbarrier::arrive_expect_tx(bar, 16));
        notes.put(look(bar, 0));
        mbarrier::complete_tx(bar, 16);
        notes.put(look(bar, 0));
        // A drop with bytes outstanding: the next phase has one arrival and no bytes.
        mbarrier::expect_tx(bar, 32);
        mbarrier::arrive_drop(bar);
        mbarrier::arrive(bar);
        notes.put(look(bar, 1));
        mbarrier::complete_tx(bar, 32);
        notes.put(look(bar, 1));
        notes.put_pending(mbarrier::arrive(bar));
        notes.put(look(bar, 0));
        mbarrier::inval(bar);
    }
}

/// Outside of PTX's rules: all threads arrived, and more bytes completed than were expected. Then the
/// missing bytes are expected.
#[kernel(threads = 32, smem = 64)]
pub fn tx_overrun(out: DeviceSliceMut<'_, u32>) {
    let Some((bar, mut notes)) = alone(&out) else { return };
    // SAFETY: the thread's own barrier; that its bytes don't add up is what is looked at.
    unsafe {
        mbarrier::init(bar, 1);
        mbarrier::expect_tx(bar, 32);
        mbarrier::arrive(bar);
        notes.put(look(bar, 0));
        mbarrier::complete_tx(bar, 64);
        notes.put(look(bar, 0));
        mbarrier::expect_tx(bar, 32);
        notes.put(look(bar, 0));
        mbarrier::arrive(bar);
        notes.put(look(bar, 0));
        notes.put(look(bar, 1));
    }
}

/// Outside of PTX's rules: more bytes completed than are expected, and then the last thread arrives.
#[kernel(threads = 32, smem = 64)]
pub fn tx_overrun_first(out: DeviceSliceMut<'_, u32>) {
    let Some((bar, mut notes)) = alone(&out) else { return };
    // SAFETY: the thread's own barrier; that its bytes don't add up is what is looked at.
    unsafe {
        mbarrier::init(bar, 1);
        mbarrier::expect_tx(bar, 32);
        mbarrier::complete_tx(bar, 64);
        notes.put(look(bar, 0));
        mbarrier::arrive(bar);
        notes.put(look(bar, 0));
        mbarrier::expect_tx(bar, 32);
        notes.put(look(bar, 0));
    }
}

/// Outside of PTX's rules: the kernel ends while bytes are expected.
#[kernel(threads = 32, smem = 64)]
pub fn tx_short(out: DeviceSliceMut<'_, u32>) {
    let Some((bar, mut notes)) = alone(&out) else { return };
    // SAFETY: the thread's own barrier; that its bytes don't come is what is looked at.
    unsafe {
        mbarrier::init(bar, 1);
        let token = mbarrier::arrive_expect_tx(bar, 64);
        mbarrier::complete_tx(bar, 48);
        notes.put(look(bar, 0));
        notes.put(look_token(bar, token));
    }
}
