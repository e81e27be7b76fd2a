//! Registers: accumulators and fragments of A while wgmmas are in flight, the register pool between
//! two meetings of a group, and what parts of a warp count at a barrier.

use crate::wgmma::{Operands, bring};
use half::bf16;
use isa::slice::{DeviceSlice, DeviceSliceMut};
use isa::wgmma::{self, KMajor, M64, Shape};
use isa::{barrier, kernel, misc, setmaxnreg, shared, thread, warp};

/// Bytes for the operands.
const SMEM: u32 = crate::wgmma::SMEM;
/// Looks of the warp that helps a barrier which is not complete, 80 µs apart. They are few, because the model
/// reports a loop of 64 looks at an unchanged machine as a deadlock.
const LOOKS: u32 = 25;

type S = M64<32>;

/// Four steps into one accumulator, each a group of its own, and one fence before the first: wgmmas of
/// one shape accumulate in order. Word `16 tid + r` is register r.
#[kernel(threads = 128, smem = SMEM)]
pub fn sums_in_flight(out: DeviceSliceMut<'_, u32>, bytes: DeviceSlice<'_, u32>, o: Operands) {
    bring(&bytes);
    let mut d = <S as Shape>::ZERO;
    let [a0, a1, a2, a3] = [0, 1, 2, 3].map(|k| o.descriptor(0, k));
    let [b0, b1, b2, b3] = [0, 1, 2, 3].map(|k| o.descriptor(1, k));
    <S as Shape>::fence_operand(&mut d);
    // SAFETY: all four warps are here; the operands are published, and not written again; the
    // accumulators are used after the wait.
    unsafe {
        wgmma::fence();
        S::mma::<bf16, bf16, KMajor, KMajor>(&mut d, a0, b0, false);
        wgmma::commit_group();
        S::mma::<bf16, bf16, KMajor, KMajor>(&mut d, a1, b1, true);
        wgmma::commit_group();
        S::mma::<bf16, bf16, KMajor, KMajor>(&mut d, a2, b2, true);
        wgmma::commit_group();
        S::mma::<bf16, bf16, KMajor, KMajor>(&mut d, a3, b3, true);
        wgmma::commit_group();
        wgmma::wait_group::<0>();
    }
    <S as Shape>::fence_operand(&mut d);
    let first = 16 * thread::thread_idx_x() as usize;
    for (r, v) in d.iter().enumerate() {
        out.set(first + r, v.to_bits());
    }
}

/// Two accumulators in turn, four groups: steps 0 and 2 into the first, 1 and 3 into the second. The
/// first is stored to shared memory when the last group may be in flight. Word `32 tid + r` is
/// register r of the first, `32 tid + 16 + r` of the second.
#[kernel(threads = 128, smem = SMEM + 128 * 64)]
pub fn sums_in_turn(out: DeviceSliceMut<'_, u32>, bytes: DeviceSlice<'_, u32>, o: Operands) {
    bring(&bytes);
    let (mut first, mut second) = (<S as Shape>::ZERO, <S as Shape>::ZERO);
    let [a0, a1, a2, a3] = [0, 1, 2, 3].map(|k| o.descriptor(0, k));
    let [b0, b1, b2, b3] = [0, 1, 2, 3].map(|k| o.descriptor(1, k));
    let own = shared::dynamic_base() + SMEM + 64 * thread::thread_idx_x();
    <S as Shape>::fence_operand(&mut first);
    <S as Shape>::fence_operand(&mut second);
    // SAFETY: as in `sums_in_flight`; 64 bytes behind the operands are the thread's own.
    unsafe {
        wgmma::fence();
        S::mma::<bf16, bf16, KMajor, KMajor>(&mut first, a0, b0, false);
        wgmma::commit_group();
        S::mma::<bf16, bf16, KMajor, KMajor>(&mut second, a1, b1, false);
        wgmma::commit_group();
        S::mma::<bf16, bf16, KMajor, KMajor>(&mut first, a2, b2, true);
        wgmma::commit_group();
        S::mma::<bf16, bf16, KMajor, KMajor>(&mut second, a3, b3, true);
        wgmma::commit_group();
        wgmma::wait_group::<1>();
        <S as Shape>::fence_operand(&mut first);
        for (at, v) in (own..).step_by(4).zip(&first) {
            shared::st(at, v.to_bits());
        }
        wgmma::wait_group::<0>();
    }
    <S as Shape>::fence_operand(&mut second);
    let base = 32 * thread::thread_idx_x() as usize;
    for (r, v) in second.iter().enumerate() {
        // SAFETY: the thread's own words, written above.
        out.set(base + r, unsafe { shared::ld(own + 4 * r as u32) });
        out.set(base + 16 + r, v.to_bits());
    }
}

/// Two steps with A in registers, each with a fragment of its own, in flight together. Word
/// `8 tid + r` of `a` is register r % 4 of step r / 4. Word `24 tid + r` is register r of D, and
/// `24 tid + 16 + r` that of `a` after the wait.
#[kernel(threads = 128, smem = SMEM)]
pub fn fragments_in_flight(
    out: DeviceSliceMut<'_, u32>,
    a: DeviceSlice<'_, u32>,
    bytes: DeviceSlice<'_, u32>,
    o: Operands,
) {
    bring(&bytes);
    let word = |r: usize| a.get(8 * thread::thread_idx_x() as usize + r).unwrap_or(0);
    let mut first = [word(0), word(1), word(2), word(3)];
    let mut second = [word(4), word(5), word(6), word(7)];
    let mut d = <S as Shape>::ZERO;
    let (b0, b1) = (o.descriptor(1, 0), o.descriptor(1, 1));
    <S as Shape>::fence_operand(&mut d);
    wgmma::fence_fragment(&mut first);
    wgmma::fence_fragment(&mut second);
    // SAFETY: as in `sums_in_flight`; the fragments are used after the wait.
    unsafe {
        wgmma::fence();
        S::mma_rs::<bf16, bf16, KMajor>(&mut d, &mut first, b0, false);
        S::mma_rs::<bf16, bf16, KMajor>(&mut d, &mut second, b1, true);
        wgmma::commit_group();
        wgmma::wait_group::<0>();
    }
    <S as Shape>::fence_operand(&mut d);
    wgmma::fence_fragment(&mut first);
    wgmma::fence_fragment(&mut second);
    let base = 24 * thread::thread_idx_x() as usize;
    for (r, v) in d.iter().enumerate() {
        out.set(base + r, v.to_bits());
    }
    for (r, v) in first.into_iter().chain(second).enumerate() {
        out.set(base + 16 + r, v);
    }
}

/// Two groups lower and raise their registers, and the four warps of a group meet in between. No group
/// takes more than it gave, so none waits for another. `out[group]` counts the steps.
#[kernel(threads = 384)]
pub fn register_rounds(out: DeviceSliceMut<'_, u32>) {
    let me = thread::thread_idx_x();
    let mut steps = 0;
    // SAFETY: all warps of a group execute the same, and meet between two of them; each group takes
    // what it gave before.
    unsafe {
        let group = warp::shfl_idx(me / 128, 0);
        if group == 0 {
            setmaxnreg::dec::<120>();
            barrier::sync(1, 128);
            setmaxnreg::inc::<168>();
            steps += 2;
        } else if group == 1 {
            setmaxnreg::dec::<120>();
            barrier::sync(2, 128);
            setmaxnreg::dec::<40>();
            barrier::sync(2, 128);
            setmaxnreg::inc::<160>();
            barrier::sync(2, 128);
            setmaxnreg::dec::<40>();
            steps += 4;
        }
        if me.is_multiple_of(128) {
            out.set(group as usize, steps);
        }
    }
}

/// Helps a barrier of 64 threads that is not complete after [`LOOKS`] looks at the flag, which its
/// waiters set when they have passed: one warp arrives. Says whether it did.
///
/// # Safety
/// The warp is convergent. The word is initialised.
#[inline(always)]
unsafe fn help(flag: u32) -> u32 {
    let mut passed = 0;
    // SAFETY: the caller's contract; an arrival more than the barrier needs waits for nobody.
    unsafe {
        if warp::lane_id() == 0 {
            for _ in 0..LOOKS {
                passed = shared::atomic_add_u32(flag, 0);
                if passed != 0 {
                    break;
                }
                misc::nanosleep(80_000);
            }
        }
        passed = warp::shfl_idx(passed, 0);
        if passed == 0 {
            barrier::arrive(1, 64);
        }
    }
    u32::from(passed == 0)
}

/// The two halves of warp 0 come to a barrier of 64 threads in two branches. Warp 1 helps if they do
/// not pass. `out[0]` says whether it had to, `out[1]` how many threads passed.
#[kernel(threads = 64, smem = 1024)]
pub fn two_halves(out: DeviceSliceMut<'_, u32>) {
    let (me, flag) = (thread::thread_idx_x(), shared::dynamic_base());
    // SAFETY: a barrier that does not complete is helped; the flag is initialised before all meet.
    unsafe {
        if me == 0 {
            shared::st(flag, 0_u32);
        }
        thread::sync_threads();
        let warp = warp::warp_id();
        let mut helped = 0;
        if warp == 1 {
            helped = help(flag);
        } else if me < 16 {
            barrier::sync_unaligned(1, 64);
            shared::atomic_add_u32(flag, 1);
        } else {
            misc::nanosleep(5000);
            barrier::sync_unaligned(1, 64);
            shared::atomic_add_u32(flag, 1);
        }
        // The halves come together again: the barrier of all is an aligned one.
        warp::sync_warp(u32::MAX);
        thread::sync_threads();
        if me == 32 {
            out.set(0, helped);
            out.set(1, shared::ld(flag));
        }
    }
}

/// Half of warp 0 has returned; its other half and warp 1 come to a barrier of 64 threads. Warp 2 helps
/// if they do not pass. `out[0]` says whether it had to.
#[kernel(threads = 96, smem = 1024)]
pub fn half_has_returned(out: DeviceSliceMut<'_, u32>) {
    let (me, flag) = (thread::thread_idx_x(), shared::dynamic_base());
    // SAFETY: a barrier that does not complete is helped; the flag is initialised before all meet.
    unsafe {
        if me == 0 {
            shared::st(flag, 0_u32);
        }
        thread::sync_threads();
        if warp::warp_id() == 2 {
            let helped = help(flag);
            if me == 64 {
                out.set(0, helped);
            }
        } else if !(16..32).contains(&me) {
            barrier::sync_unaligned(1, 64);
            shared::atomic_add_u32(flag, 1);
        }
    }
}
