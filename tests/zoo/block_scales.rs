//! tcgen05: block scales, which lie in tensor memory.

use crate::tensor_memory::{A, B, CTA, MULTIPLIES, N, describe, end, one, start};
use crate::world::{init, smem, tid, warp_id};
use crate::{Bug, Shape, bug, family};
use float8::F8E4M3;
use isa::tcgen05::{self, Swizzle, Ue8m0};
use isa::{E2m1x2, fence, mbarrier, shared};

family! { "block_scales.rs":
    factors_that_nobody_copied
    factors_overwritten_under_the_copy
    factors_copied_by_another_thread
    factors_of_another_type
    factors_stored_to_one_quarter
    two_factors_from_an_odd_byte
}

/// The factors of an operand in shared memory.
const FACTORS: u32 = 6144;
const SCALED: Shape = CTA;

/// The factors are written, all of them 1.
unsafe fn write_factors() {
    // SAFETY: each thread has its own words.
    unsafe {
        for word in (tid()..256).step_by(160) {
            shared::st(smem(FACTORS + 4 * word), 0x7f7f_7f7f_u32);
        }
        fence::proxy_async_shared_cta();
    }
}

/// The copy of the factors of A and B behind the accumulator at `d`.
#[track_caller]
unsafe fn copy(d: u32) {
    let from = |i: u32| tcgen05::shared(smem(FACTORS + 512 * i), 16, 128, Swizzle::None);
    // SAFETY: the columns are allocated.
    unsafe {
        tcgen05::cp_32x128b_warpx4(d + N, from(0));
        tcgen05::cp_32x128b_warpx4(d + N + 4, from(1));
    }
}

#[track_caller]
unsafe fn multiply(d: u32) {
    let idesc = tcgen05::instruction_block_scale::<Ue8m0, F8E4M3, F8E4M3>(128, N, 0);
    // SAFETY: the caller has the columns.
    unsafe {
        tcgen05::mma_mxf8f6f4_block_scale(
            d,
            describe(A),
            describe(B),
            idesc,
            d + N,
            d + N + 4,
            false,
        );
    }
}

fn factors_that_nobody_copied() -> Bug {
    bug(
        "The factors of B are never copied to tensor memory: the kernel copies those of A twice",
        "a second `tcgen05.cp` to the address of the first",
        SCALED,
        // SAFETY: the missing copy is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            write_factors();
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    let from = tcgen05::shared(smem(FACTORS), 16, 128, Swizzle::None);
                    tcgen05::cp_32x128b_warpx4(d + N, from);
                    tcgen05::cp_32x128b_warpx4(if bug { d + N } else { d + N + 4 }, from);
                    multiply(d); //~ WP054
                    tcgen05::commit(done);
                });
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn factors_overwritten_under_the_copy() -> Bug {
    bug(
        "The factors in shared memory are overwritten when the copy is issued, and not when a commit has completed",
        "PTX manual, `tcgen05.cp`: it is asynchronous",
        SCALED,
        // SAFETY: the early write is the bug.
        |_, bug| unsafe {
            let [done, issued] = init([1, 1]);
            write_factors();
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    copy(d); //~ WP018 WP034
                    mbarrier::arrive(issued);
                    multiply(d);
                    tcgen05::commit(done);
                });
            } else if tid() == 0 {
                mbarrier::wait_parity(if bug { issued } else { done }, 0);
                shared::st(smem(FACTORS), 0_u32); //~ WP018 WP034
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn factors_copied_by_another_thread() -> Bug {
    bug(
        "A warp of its own copies the factors, and the warp that multiplies does not wait for the copy: only instructions of one \
         thread are in order",
        "PTX manual, *Pipelined tcgen05 Instructions*",
        SCALED,
        // SAFETY: the missing wait is the bug.
        |_, bug| unsafe {
            let [done, copied, issued] = init([1, 1, 1]);
            write_factors();
            let d = start();
            if warp_id() == 0 {
                one(|| {
                    copy(d); //~ WP051
                    tcgen05::commit(copied);
                    mbarrier::arrive(issued);
                });
            } else if warp_id() == MULTIPLIES {
                one(|| {
                    mbarrier::wait_parity(issued, 0);
                    if !bug {
                        mbarrier::wait_parity(copied, 0);
                    }
                    tcgen05::fence_after_thread_sync();
                    multiply(d); //~ WP051 WP052
                    tcgen05::commit(done);
                });
            }
            mbarrier::wait_parity(done, 0);
            mbarrier::wait_parity(copied, 0);
            end(d);
        },
    )
}

fn factors_of_another_type() -> Bug {
    bug(
        "The instruction descriptor says that the factors are ue4m3, as with NVFP4",
        "PTX manual, *Instruction descriptor*: kind mxf8f6f4 has factors of ue8m0",
        SCALED,
        // SAFETY: the descriptor is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            write_factors();
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    copy(d);
                    let right =
                        tcgen05::instruction_block_scale::<Ue8m0, F8E4M3, F8E4M3>(128, N, 0);
                    let idesc = if bug { right & !(1 << 23) } else { right };
                    let (a, b) = (describe(A), describe(B));
                    tcgen05::mma_mxf8f6f4_block_scale(d, a, b, idesc, d + N, d + N + 4, false); //~ WP026
                    tcgen05::commit(done);
                });
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn factors_stored_to_one_quarter() -> Bug {
    bug(
        "One warp stores factors with `tcgen05.st`, to its own 32 lanes: the other quarters of tensor memory keep the old ones",
        "`tcgen05.cp` with `.warpx4` writes all four",
        SCALED,
        // SAFETY: the lanes are the bug.
        |_, bug| unsafe {
            let [copied, stored, done] = init([1, 128, 1]);
            write_factors();
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    copy(d);
                    tcgen05::commit(copied);
                    mbarrier::wait_parity(stored, 0);
                    tcgen05::fence_after_thread_sync();
                    multiply(d); //~ WP050
                    tcgen05::commit(done);
                });
            } else {
                mbarrier::wait_parity(copied, 0);
                tcgen05::fence_after_thread_sync();
                if !bug || warp_id() == 0 {
                    let at = d + N + ((32 * warp_id()) << 16);
                    tcgen05::st_32x32b_x4(at, [0x8080_8080; 4]);
                    tcgen05::wait_st();
                }
                tcgen05::fence_before_thread_sync();
                mbarrier::arrive(stored);
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn two_factors_from_an_odd_byte() -> Bug {
    bug(
        "The second step along K takes the factors from byte 1 on, as with MXFP8: MXFP4 has two factors for a row in each step",
        "PTX manual, `tcgen05.mma` with `.scale_vec::2X`: the bytes 0 and 1, or 2 and 3",
        SCALED,
        // SAFETY: the byte is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            write_factors();
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    copy(d);
                    let first =
                        tcgen05::instruction_block_scale::<Ue8m0, E2m1x2, E2m1x2>(128, N, 0);
                    let byte = if bug { 1 } else { 2 };
                    let idesc = first | byte << 4 | byte << 29;
                    let (a, b) = (describe(A), describe(B));
                    tcgen05::mma_mxf4_block_scale(d, a, b, first, d + N, d + N + 4, false);
                    tcgen05::mma_mxf4_block_scale(d, a, b, idesc, d + N, d + N + 4, true); //~ WP026
                    tcgen05::commit(done);
                });
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}
