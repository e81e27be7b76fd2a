//! wgmma: its operands in shared memory, its warps, its groups.

use crate::world::{BOX, init, smem, tid, warp_id};
use crate::{Bug, Shape, bug, family, threads};
use half::bf16;
use isa::wgmma::{self, KMajor, M64, MnMajor, Shape as _, Swizzle};
use isa::{barrier, cp_async_bulk as bulk, fence, mbarrier, shared, thread};

family! { "tensor_core.rs":
    a_slot_released_under_the_tensor_core
    a_wait_that_leaves_the_batch_that_reads
    an_epilogue_over_an_operand
    a_warp_that_sits_out
    another_operand_in_each_warp
    an_operand_inside_the_swizzles_pattern
    a_k_major_step_of_an_mn_major_operand
    an_operand_that_nobody_loaded
    a_batch_that_nobody_awaits
    a_block_skipped_by_the_thread_that_releases
}

/// A's 64 rows of 32 bytes, then B's 8, then another A.
const A: u32 = 1024;
const B: u32 = A + 64 * 32;
const A2: u32 = B + 8 * 32;

/// A group of 128 threads.
const GROUP: Shape = Shape { smem: 8192, ..threads(128) };

/// 128 threads write the operands.
unsafe fn fill() {
    if tid() < 128 {
        for word in (tid()..136 * 8).step_by(128) {
            // SAFETY: the words of the operands lie in shared memory, and each thread has its own.
            unsafe { shared::st(smem(A + 4 * word), 0_u32) };
        }
        fence::proxy_async_shared_cta();
    }
    // SAFETY: all threads of the CTA come.
    unsafe { thread::sync_threads() };
}

/// One batch of the operands at `a` and [`B`], not swizzled.
#[track_caller]
unsafe fn batch(a: u32) {
    let describe = |at: u32| wgmma::descriptor(smem(at), 128, 256, Swizzle::None);
    let mut sums = <M64<8> as wgmma::Shape>::ZERO;
    // SAFETY: the group's threads come together, as the caller says; operands lie in shared memory.
    unsafe {
        wgmma::fence();
        M64::<8>::mma::<bf16, bf16, KMajor, KMajor>(&mut sums, describe(a), describe(B), false);
        wgmma::commit_group();
    }
}

fn a_slot_released_under_the_tensor_core() -> Bug {
    bug(
        "The slot is released after its wgmma is issued, and the next copy overwrites what the wgmma reads",
        "early release, as with tcgen05.mma; row 16",
        Shape { smem: 8192, ..threads(160) },
        // SAFETY: whole groups multiply; the slot's release before the batch is over is the bug.
        |w, bug| unsafe {
            let [full, empty] = init([1, 128]);
            fill();
            if tid() == 128 {
                mbarrier::wait_parity(empty, 0);
                mbarrier::arrive_expect_tx(full, BOX);
                bulk::tensor_load(smem(A), w.map(), [0, 0], full); //~ WP018
                mbarrier::wait_parity(full, 0);
            } else if tid() < 128 {
                batch(A); //~ WP018
                if bug {
                    mbarrier::arrive(empty);
                }
                batch(A2);
                wgmma::wait_group::<1>();
                if !bug {
                    mbarrier::arrive(empty);
                }
                wgmma::wait_group::<0>();
            }
        },
    )
}

fn a_wait_that_leaves_the_batch_that_reads() -> Bug {
    bug(
        "One batch stays in flight, and its own slot is released instead of the previous batch's",
        "CUTLASS's lagging release state; row 16",
        Shape { smem: 8192, ..threads(160) },
        // SAFETY: whole groups multiply; the slot's release before the batch is over is the bug.
        |w, bug| unsafe {
            let [full, first, second] = init([1, 128, 128]);
            fill();
            if tid() == 128 {
                mbarrier::wait_parity(second, 0);
                mbarrier::arrive_expect_tx(full, BOX);
                bulk::tensor_load(smem(A2), w.map(), [0, 0], full); //~ WP018
                mbarrier::wait_parity(full, 0);
            } else if tid() < 128 {
                batch(A);
                batch(A2); //~ WP018
                wgmma::wait_group::<1>();
                mbarrier::arrive(if bug { second } else { first });
                batch(A);
                wgmma::wait_group::<0>();
                mbarrier::arrive(if bug { first } else { second });
            }
        },
    )
}

fn an_epilogue_over_an_operand() -> Bug {
    bug(
        "The epilogue stages its tile where A was, before the last batch has been waited for",
        "row 31",
        GROUP,
        // SAFETY: a whole group multiplies; the write before the batch is over is the bug.
        |_, bug| unsafe {
            fill();
            batch(A); //~ WP018
            if !bug {
                wgmma::wait_group::<0>();
            }
            thread::sync_threads();
            shared::st(smem(A + 4 * tid()), 1_u32); //~ WP018
            wgmma::wait_group::<0>();
        },
    )
}

fn a_warp_that_sits_out() -> Bug {
    bug(
        "A warp without rows of its own skips the wgmma of its group",
        "row 25",
        GROUP,
        // SAFETY: a whole group multiplies, but for the bug.
        |_, bug| unsafe {
            fill();
            if !bug || warp_id() != 3 {
                batch(A); //~ WP021
            }
            wgmma::wait_group::<0>(); //~ WP021
        },
    )
}

fn another_operand_in_each_warp() -> Bug {
    bug(
        "Each warp points its descriptor at its own 16 rows, where the instruction wants the group's 64",
        "row 25",
        GROUP,
        // SAFETY: a whole group multiplies; that its warps' operands differ is the bug.
        |_, bug| unsafe {
            fill();
            batch(if bug { A + 512 * warp_id() } else { A }); //~ WP021
            wgmma::wait_group::<0>();
        },
    )
}

fn an_operand_inside_the_swizzles_pattern() -> Bug {
    bug(
        "A 128-byte-swizzled operand that starts half-way into its pattern of 1024 bytes",
        "row 21",
        Shape { smem: 12 * 1024, ..GROUP },
        // SAFETY: a whole group multiplies; the address inside the pattern is the bug.
        |_, bug| unsafe {
            for word in (tid()..3 * 1024).step_by(128) {
                shared::st(smem(4 * word), 0_u32);
            }
            fence::proxy_async_shared_cta();
            thread::sync_threads();
            let describe = |at: u32| wgmma::descriptor(smem(at), 16, 1024, Swizzle::B128);
            let mut sums = <M64<8> as wgmma::Shape>::ZERO;
            let b = if bug { 8192 + 512 } else { 8192 };
            wgmma::fence();
            M64::<8>::mma::<bf16, bf16, KMajor, KMajor>(&mut sums, describe(0), describe(b), false); //~ WP026
            wgmma::commit_group();
            wgmma::wait_group::<0>();
        },
    )
}

fn a_k_major_step_of_an_mn_major_operand() -> Bug {
    bug(
        "The next 16 of K are 32 bytes further in a B that is MN-major, where they are 16 lines further",
        "V of attention, [keys, D] in memory, read with the loop that reads K; row 21",
        Shape { smem: 12 * 1024, ..GROUP },
        // SAFETY: a whole group multiplies; the step inside of the first line is the bug.
        |_, bug| unsafe {
            for word in (tid()..3 * 1024).step_by(128) {
                shared::st(smem(4 * word), 0_u32);
            }
            fence::proxy_async_shared_cta();
            thread::sync_threads();
            let a = wgmma::descriptor(smem(0), 128, 256, Swizzle::None);
            let mut sums = <M64<64> as wgmma::Shape>::ZERO;
            wgmma::fence();
            for k in [0, 1] {
                let at = smem(8192) + k * if bug { 32 } else { 16 * 128 };
                let b = wgmma::descriptor(at, 32 * 128, 1024, Swizzle::B128);
                M64::<64>::mma::<bf16, bf16, KMajor, MnMajor>(&mut sums, a, b, k > 0); //~ WP026
            }
            wgmma::commit_group();
            wgmma::wait_group::<0>();
        },
    )
}

fn an_operand_that_nobody_loaded() -> Bug {
    bug(
        "The rows of a partial tile that no copy fills are read anyway",
        "row 39",
        GROUP,
        // SAFETY: a whole group multiplies; the rows that nobody wrote are the bug.
        |_, bug| unsafe {
            for word in (tid()..if bug { 40 * 8 } else { 72 * 8 }).step_by(128) {
                shared::st(smem(A + 4 * word), 0_u32);
            }
            fence::proxy_async_shared_cta();
            thread::sync_threads();
            batch(A); //~ WP016
            wgmma::wait_group::<0>();
        },
    )
}

fn a_batch_that_nobody_awaits() -> Bug {
    // SAFETY: a whole group multiplies, and waits for it but for the bug.
    bug("The kernel ends with its last batch in flight", "row 40", GROUP, |_, bug| unsafe {
        fill();
        batch(A); //~ WP028
        if !bug {
            wgmma::wait_group::<0>();
        }
    })
}

fn a_block_skipped_by_the_thread_that_releases() -> Bug {
    bug(
        "One thread releases the slots of its group. In a block that is skipped there is no wgmma between the \
         others' waits and its release, and a late warp finds that its phase has passed twice",
        "masked blocks in attention; row 35",
        Shape { smem: 8192, ..threads(160) },
        // SAFETY: whole groups multiply; the release before all have waited is the bug.
        |_, bug| unsafe {
            let [full, empty] = init([1, 1]);
            fill();
            for block in 0..6 {
                let phase = block & 1;
                if tid() == 128 {
                    mbarrier::wait_parity(empty, phase ^ 1);
                    mbarrier::arrive(full); //~ WP010
                } else if tid() < 128 {
                    mbarrier::wait_parity(full, phase); //~ WP010 WP001
                    if block % 3 != 1 {
                        batch(A);
                        wgmma::wait_group::<0>();
                    } else if !bug {
                        barrier::sync(1, 128);
                    }
                    if tid() == 0 {
                        mbarrier::arrive(empty);
                    }
                }
            }
        },
    )
}
