//! The litmus kernels of pairs of CTAs.

use crate::{A, ADDRESS, B, BARS, FACTORS, MULTIPLIES, WORDS};
use crate::{describe, exponents, one, operands, put_all};
use float8::F8E4M3;
use half::bf16;
use isa::tcgen05::{self, Swizzle, Ue8m0};
use isa::{cluster, fence, kernel, mbarrier, shared, thread, warp};

/// The barrier, and columns of tensor memory of both CTAs: gives their address.
unsafe fn start(s: u32, columns: u32) -> u32 {
    // SAFETY: all threads of the cluster come.
    unsafe {
        if thread::thread_idx_x() == 0 {
            mbarrier::init(s + BARS, 1);
            fence::mbarrier_init_release_cluster();
        }
        cluster::arrive_release();
        cluster::wait_acquire();
        if warp::warp_id() == MULTIPLIES {
            tcgen05::alloc_2sm(s + ADDRESS, columns);
        }
        thread::sync_threads();
        shared::ld(s + ADDRESS)
    }
}

/// Writes this CTA's rows of D, of 32 columns, when the multiplication has completed, and frees the columns.
unsafe fn end(out: u64, s: u32, d: u32, columns: u32) {
    // SAFETY: all threads of the cluster come. The barrier's arrival is that of the commit.
    unsafe {
        mbarrier::wait_parity(s + BARS, 0);
        if warp::warp_id() < MULTIPLIES {
            tcgen05::fence_after_thread_sync();
            let row = tcgen05::ld_32x32b_x32(d + ((32 * warp::warp_id()) << 16));
            tcgen05::wait_ld();
            let to = 128 * cluster::cta_rank() + thread::thread_idx_x();
            put_all(out, WORDS * to, row.ready());
        }
        cluster::arrive_release();
        cluster::wait_acquire();
        if warp::warp_id() == MULTIPLIES {
            tcgen05::dealloc_2sm(d, columns);
        }
    }
}

/// The places of D of a pair: each CTA has 128 rows of all columns, and brought half of these.
#[kernel(threads = 160, smem = 8192, cluster = (2, 1, 1))]
pub fn pair(out: u64) {
    let (s, rank) = (shared::dynamic_base(), cluster::cta_rank());
    // SAFETY: as the order of the instructions says.
    unsafe {
        operands(s, (128 * rank, 16 * rank), 256);
        let d = start(s, 32);
        if rank == 0 {
            one(|| {
                let idesc = tcgen05::instruction::<bf16, bf16>(256, 32);
                tcgen05::mma_f16_2sm(d, describe(s + A), describe(s + B), idesc, false);
                tcgen05::commit_multicast_2sm(s + BARS, 3);
            });
        }
        end(out, s, d, 32);
    }
}

/// The places of block scales of a pair: operands of ones; each CTA has the factors of its rows of A, and of all columns.
#[kernel(threads = 160, smem = 8192, cluster = (2, 1, 1))]
pub fn factors_of_a_pair(out: u64) {
    let (s, rank) = (shared::dynamic_base(), cluster::cta_rank());
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
            let (a, b) = exponents(128 * rank + t, t);
            shared::st(at, (127 + a) as u32);
            shared::st(at + 512, (127 + b) as u32);
        }
        fence::proxy_async_shared_cta();
        let d = start(s, 64);
        if rank == 0 {
            one(|| {
                let from = |i: u32| tcgen05::shared(s + FACTORS + 512 * i, 16, 128, Swizzle::None);
                tcgen05::cp_32x128b_warpx4_2sm(d + 32, from(0));
                tcgen05::cp_32x128b_warpx4_2sm(d + 36, from(1));
                let idesc = tcgen05::instruction_block_scale::<Ue8m0, F8E4M3, F8E4M3>(256, 32, 0);
                let (a, b) = (describe(s + A), describe(s + B));
                tcgen05::mma_mxf8f6f4_block_scale_2sm(d, a, b, idesc, d + 32, d + 36, false);
                tcgen05::commit_multicast_2sm(s + BARS, 3);
            });
        }
        end(out, s, d, 64);
    }
}
