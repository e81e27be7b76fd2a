//! Litmus kernels for Blackwell: tensor memory, commits, pairs of CTAs, block scales, A in tensor memory, launch control.
//!
//! **No chip has ever run them.** The SM model runs them, and ptxas assembles them for sm_100a and sm_103a.
//!
//! They use only `isa`. `out` is the address of the words to which a kernel writes what it observes.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

mod pairs;

pub use pairs::*;

use float8::F8E4M3;
use half::bf16;
use isa::E2m1x2;
use isa::tcgen05::{self, Swizzle, Ue4m3, Ue8m0};
use isa::{clusterlaunchcontrol, fence, global, kernel, mbarrier, shared, thread, warp};

/// Words of a thread that reads tensor memory.
pub const WORDS: u32 = 32;

/// The word with the address of tensor memory, two barriers, and the operands.
const ADDRESS: u32 = 0;
const BARS: u32 = 16;
const A: u32 = 1024;
const B: u32 = A + 128 * 32;
const FACTORS: u32 = B + 32 * 32;
/// The warp that multiplies, behind four that read.
const MULTIPLIES: u32 = 4;

fn put(out: u64, at: u32, value: u32) {
    // SAFETY: the launch gives as many words as the kernel writes.
    unsafe { global::st((out as *mut u32).wrapping_add(at as usize), value) }
}

/// The same of several words. The loop is unrolled: an array that is indexed at run time would lie in local memory.
#[isa::device]
#[allow(clippy::needless_range_loop)] // As above.
fn put_all<const N: usize>(out: u64, at: u32, values: [u32; N]) {
    for i in 0..N {
        put(out, at + i as u32, values[i]);
    }
}

/// Writes 16 bits of an operand of bf16 without a swizzle: element `k` of row `row`.
unsafe fn write(at: u32, row: u32, k: u32, value: u16) {
    let place = at + row / 8 * 256 + k / 8 * 128 + row % 8 * 16 + k % 8 * 2;
    // SAFETY: the element lies in the operand.
    unsafe { shared::st(place, value) }
}

/// bf16 of a whole number that it holds exactly.
fn bits(x: u32) -> u16 {
    ((x as f32).to_bits() >> 16) as u16
}

/// D(row, column) is `row + scale * column`, of the rows from `first_row` on and the columns from `first_column` on.
unsafe fn operands(s: u32, (first_row, first_column): (u32, u32), scale: u32) {
    let t = thread::thread_idx_x();
    // SAFETY: each thread has its own row.
    unsafe {
        if t < 128 {
            for k in 0..16 {
                let a = if k == 0 { first_row + t } else { u32::from(k == 1) };
                write(s + A, t, k, bits(a));
                if t < 16 {
                    let b = if k == 1 { scale * (first_column + t) } else { u32::from(k == 0) };
                    write(s + B, t, k, bits(b));
                }
            }
        }
        fence::proxy_async_shared_cta();
    }
}

fn describe(at: u32) -> u64 {
    tcgen05::shared(at, 128, 256, Swizzle::None)
}

/// One thread of the warp that multiplies runs `f`.
unsafe fn one(f: impl FnOnce()) {
    // SAFETY: the warp is converged.
    unsafe {
        if warp::warp_id() == MULTIPLIES {
            if warp::elect_one() {
                f();
            }
            warp::sync_warp(u32::MAX);
        }
    }
}

/// The barriers with their counts, and 32 columns of tensor memory: gives their address.
unsafe fn start(s: u32, counts: [u32; 2]) -> u32 {
    // SAFETY: all threads of the CTA come.
    unsafe {
        if thread::thread_idx_x() == 0 {
            mbarrier::init(s + BARS, counts[0]);
            mbarrier::init(s + BARS + 8, counts[1]);
            fence::mbarrier_init_release_cluster();
        }
        if warp::warp_id() == MULTIPLIES {
            tcgen05::alloc(s + ADDRESS, 32);
        }
        thread::sync_threads();
        shared::ld(s + ADDRESS)
    }
}

unsafe fn end(d: u32) {
    // SAFETY: all threads of the CTA come; nobody uses the columns any more.
    unsafe {
        thread::sync_threads();
        if warp::warp_id() == MULTIPLIES {
            tcgen05::dealloc(d, 32);
        }
    }
}

/// The places of D in the registers of two shapes of `tcgen05.ld`: 16 words of 32x32b, and 16 of 16x256b.
#[kernel(threads = 160, smem = 8192)]
pub fn layouts(out: u64) {
    let s = shared::dynamic_base();
    // SAFETY: as the order of the instructions says.
    unsafe {
        operands(s, (0, 0), 128);
        let d = start(s, [1, 1]);
        one(|| {
            let idesc = tcgen05::instruction::<bf16, bf16>(128, 16);
            tcgen05::mma_f16(d, describe(s + A), describe(s + B), idesc, false);
            tcgen05::commit(s + BARS);
        });
        if warp::warp_id() < MULTIPLIES {
            mbarrier::wait_parity(s + BARS, 0);
            tcgen05::fence_after_thread_sync();
            let at = d + ((32 * warp::warp_id()) << 16);
            let rows = tcgen05::ld_32x32b_x16(at);
            let upper = tcgen05::ld_16x256b_x2(at);
            let lower = tcgen05::ld_16x256b_x2(at + (16 << 16));
            tcgen05::wait_ld();
            let to = WORDS * thread::thread_idx_x();
            put_all(out, to, rows.ready());
            put_all(out, to + 16, upper.ready());
            put_all(out, to + 24, lower.ready());
        }
        end(d);
    }
}

/// What `tcgen05.st` wrote, in the thread that wrote it; and the arrivals of commits: one on a barrier that expects two, and
/// one without a multiplication since the commit before.
#[kernel(threads = 160, smem = 8192)]
pub fn stores_and_commits(out: u64) {
    let s = shared::dynamic_base();
    let t = thread::thread_idx_x();
    // SAFETY: as the order of the instructions says.
    unsafe {
        operands(s, (0, 0), 128);
        let d = start(s, [2, 1]);
        if warp::warp_id() < MULTIPLIES {
            let at = d + 16 + ((32 * warp::warp_id()) << 16);
            tcgen05::st_32x32b_x4(at, core::array::from_fn(|i| 100 * t + i as u32));
            tcgen05::wait_st();
            let back = tcgen05::ld_32x32b_x4(at);
            tcgen05::wait_ld();
            put_all(out, 4 * t, back.ready());
        }
        one(|| {
            let idesc = tcgen05::instruction::<bf16, bf16>(128, 16);
            tcgen05::mma_f16(d, describe(s + A), describe(s + B), idesc, false);
            tcgen05::commit(s + BARS);
            tcgen05::commit(s + BARS + 8);
            mbarrier::wait_parity(s + BARS + 8, 0);
            put(out, 512, u32::from(mbarrier::test_wait_parity(s + BARS, 0)));
            mbarrier::arrive(s + BARS);
            mbarrier::wait_parity(s + BARS, 0);
            tcgen05::commit(s + BARS + 8);
            mbarrier::wait_parity(s + BARS + 8, 1);
            put(out, 513, 1);
        });
        end(d);
    }
}

/// The exponents of the factors of a row of A, and of a row of B.
pub const fn exponents(row: u32, column: u32) -> (i32, i32) {
    (row as i32 % 9 - 4, column as i32 % 3)
}

/// The places of block scales: operands of ones, and factors that differ from row to row.
#[kernel(threads = 160, smem = 8192)]
pub fn factors(out: u64) {
    let s = shared::dynamic_base();
    let t = thread::thread_idx_x();
    // SAFETY: as the order of the instructions says.
    unsafe {
        let mut word = t;
        while word < 160 * 8 {
            shared::st(s + A + 4 * word, 0x3838_3838_u32);
            word += 160;
        }
        if t < 128 {
            // Byte 0 of the word of a row.
            let at = s + FACTORS + 16 * (t % 32) + 4 * (t / 32);
            let (a, b) = exponents(t, t);
            shared::st(at, (127 + a) as u32);
            shared::st(at + 512, (127 + b) as u32);
        }
        fence::proxy_async_shared_cta();
        let d = start(s, [1, 1]);
        one(|| {
            let from = |i: u32| tcgen05::shared(s + FACTORS + 512 * i, 16, 128, Swizzle::None);
            tcgen05::cp_32x128b_warpx4(d + 16, from(0));
            tcgen05::cp_32x128b_warpx4(d + 20, from(1));
            let idesc = tcgen05::instruction_block_scale::<Ue8m0, F8E4M3, F8E4M3>(128, 16, 0);
            let (a, b) = (describe(s + A), describe(s + B));
            tcgen05::mma_mxf8f6f4_block_scale(d, a, b, idesc, d + 16, d + 20, false);
            tcgen05::commit(s + BARS);
        });
        if warp::warp_id() < MULTIPLIES {
            mbarrier::wait_parity(s + BARS, 0);
            tcgen05::fence_after_thread_sync();
            let row = tcgen05::ld_32x32b_x16(d + ((32 * warp::warp_id()) << 16));
            tcgen05::wait_ld();
            put_all(out, 16 * t, row.ready());
        }
        end(d);
    }
}

/// The factor of ue4m3 of row `row` of an operand and of the 16 elements from `16 * i` on, and its byte.
pub const fn sixteenths(operand: u32, row: u32, i: u32) -> (f32, u8) {
    // A sign, four bits of exponent with a bias of 7, three bits of fraction.
    match (row + 3 * i + operand) % 5 {
        0 => (0.5, 0x30),
        1 => (1.0, 0x38),
        2 => (1.25, 0x3a),
        3 => (2.0, 0x40),
        _ => (3.5, 0x46),
    }
}

/// The places of block scales of NVFP4: operands of ones, and four factors for each row.
#[kernel(threads = 160, smem = 8192)]
pub fn factors_of_sixteen(out: u64) {
    let s = shared::dynamic_base();
    let t = thread::thread_idx_x();
    // SAFETY: as the order of the instructions says.
    unsafe {
        let mut word = t;
        while word < 160 * 8 {
            shared::st(s + A + 4 * word, 0x2222_2222_u32);
            word += 160;
        }
        if t < 128 {
            for operand in 0..2 {
                let bytes = core::array::from_fn(|i| sixteenths(operand, t, i as u32).1);
                let at = s + FACTORS + 512 * operand + 16 * (t % 32) + 4 * (t / 32);
                shared::st(at, u32::from_le_bytes(bytes));
            }
        }
        fence::proxy_async_shared_cta();
        let d = start(s, [1, 1]);
        one(|| {
            let from = |i: u32| tcgen05::shared(s + FACTORS + 512 * i, 16, 128, Swizzle::None);
            tcgen05::cp_32x128b_warpx4(d + 16, from(0));
            tcgen05::cp_32x128b_warpx4(d + 20, from(1));
            let idesc = tcgen05::instruction_block_scale::<Ue4m3, E2m1x2, E2m1x2>(128, 16, 0);
            let (a, b) = (describe(s + A), describe(s + B));
            tcgen05::mma_mxf4nvf4_block_scale(d, a, b, idesc, d + 16, d + 20, false);
            tcgen05::commit(s + BARS);
        });
        if warp::warp_id() < MULTIPLIES {
            mbarrier::wait_parity(s + BARS, 0);
            tcgen05::fence_after_thread_sync();
            let row = tcgen05::ld_32x32b_x16(d + ((32 * warp::warp_id()) << 16));
            tcgen05::wait_ld();
            put_all(out, 16 * t, row.ready());
        }
        end(d);
    }
}

/// The places of A in tensor memory: each thread stores its row.
#[kernel(threads = 160, smem = 8192)]
pub fn a_in_tensor_memory(out: u64) {
    let s = shared::dynamic_base();
    let t = thread::thread_idx_x();
    // SAFETY: as the order of the instructions says.
    unsafe {
        operands(s, (0, 0), 128);
        let d = start(s, [1, 128]);
        if warp::warp_id() < MULTIPLIES {
            // The elements 0 and 1, and zeros.
            let first = u32::from(bits(t)) | u32::from(bits(1)) << 16;
            let row = core::array::from_fn(|i| if i == 0 { first } else { 0 });
            tcgen05::st_32x32b_x8(d + 16 + ((32 * warp::warp_id()) << 16), row);
            tcgen05::wait_st();
            tcgen05::fence_before_thread_sync();
            mbarrier::arrive(s + BARS + 8);
        }
        one(|| {
            mbarrier::wait_parity(s + BARS + 8, 0);
            tcgen05::fence_after_thread_sync();
            let idesc = tcgen05::instruction::<bf16, bf16>(128, 16);
            tcgen05::mma_f16_ts(d, d + 16, describe(s + B), idesc, false);
            tcgen05::commit(s + BARS);
        });
        if warp::warp_id() < MULTIPLIES {
            mbarrier::wait_parity(s + BARS, 0);
            tcgen05::fence_after_thread_sync();
            let row = tcgen05::ld_32x32b_x16(d + ((32 * warp::warp_id()) << 16));
            tcgen05::wait_ld();
            put_all(out, 16 * t, row.ready());
        }
        end(d);
    }
}

/// What `tcgen05.shift` makes of the lanes 32 to 63, and of the first eight of 16 columns: each thread stores its row, and
/// reads it behind the shift.
#[kernel(threads = 160, smem = 8192)]
pub fn shifted(out: u64) {
    let s = shared::dynamic_base();
    let t = thread::thread_idx_x();
    // SAFETY: as the order of the instructions says.
    unsafe {
        let d = start(s, [1, 128]);
        let own = d + ((32 * (warp::warp_id() % 4)) << 16);
        if warp::warp_id() < MULTIPLIES {
            tcgen05::st_32x32b_x16(own, core::array::from_fn(|i| 100 * t + i as u32));
            tcgen05::wait_st();
            tcgen05::fence_before_thread_sync();
            mbarrier::arrive(s + BARS + 8);
        }
        one(|| {
            mbarrier::wait_parity(s + BARS + 8, 0);
            tcgen05::fence_after_thread_sync();
            tcgen05::shift_down(d + (32 << 16));
            tcgen05::commit(s + BARS);
        });
        if warp::warp_id() < MULTIPLIES {
            mbarrier::wait_parity(s + BARS, 0);
            tcgen05::fence_after_thread_sync();
            let row = tcgen05::ld_32x32b_x16(own);
            tcgen05::wait_ld();
            put_all(out, 16 * t, row.ready());
        }
        end(d);
    }
}

/// A grid of CTAs in which each word from 0 on counts how often a CTA's work was done. A CTA that has started writes how
/// much it did behind these words.
#[kernel(threads = 32, smem = 1024)]
pub fn claims(out: u64) {
    let s = shared::dynamic_base();
    if thread::thread_idx_x() != 0 {
        return;
    }
    let own = thread::block_idx_x();
    // SAFETY: one thread; the answer's memory is used again after the proxy fence.
    unsafe {
        mbarrier::init(s + BARS, 1);
        fence::mbarrier_init_release_cluster();
        let (mut work, mut done, mut parity) = (own, 0, 0);
        loop {
            global::atomic_add_u32((out as *mut u32).wrapping_add(work as usize), 1);
            done += 1;
            mbarrier::arrive_expect_tx(s + BARS, 16);
            clusterlaunchcontrol::try_cancel(s + 512, s + BARS);
            mbarrier::wait_parity(s + BARS, parity);
            parity ^= 1;
            let answer = clusterlaunchcontrol::query_cancel(s + 512);
            fence::proxy_async_shared_cta();
            let Some([next, ..]) = answer else { break };
            work = next;
        }
        put(out, thread::grid_dim_x() + own, done);
    }
}
