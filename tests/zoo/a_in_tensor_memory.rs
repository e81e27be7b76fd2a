//! tcgen05: multiplications with A in tensor memory.

use crate::tensor_memory::{B, CTA, MULTIPLIES, N, describe, end, one, start};
use crate::world::{init, warp_id};
use crate::{Bug, bug, family};
use half::bf16;
use isa::{mbarrier, tcgen05};

family! { "a_in_tensor_memory.rs":
    an_a_that_nobody_wrote
    an_a_multiplied_before_its_stores_are_over
    an_a_multiplied_without_the_fence
    an_a_overwritten_under_the_multiplication
    an_a_among_the_sums
}

/// Columns of A, behind those of D.
const A: u32 = N;

#[track_caller]
unsafe fn multiply(d: u32) {
    let idesc = tcgen05::instruction::<bf16, bf16>(128, N);
    // SAFETY: B lies in shared memory; the caller has the columns.
    unsafe { tcgen05::mma_f16_ts(d, d + A, describe(B), idesc, false) }
}

/// This warp's rows of A.
#[track_caller]
unsafe fn store(d: u32) {
    // SAFETY: the warp's own lanes.
    unsafe { tcgen05::st_32x32b_x8(d + A + ((32 * warp_id()) << 16), [0x3f80_3f80; 8]) }
}

fn an_a_that_nobody_wrote() -> Bug {
    bug(
        "One warp leaves out its rows of A, because they are beyond the matrix: the multiplication reads them all the same",
        "PTX manual, `tcgen05.mma`: M is 128",
        CTA,
        // SAFETY: the missing rows are the bug.
        |_, bug| unsafe {
            let [stored, done] = init([128, 1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    mbarrier::wait_parity(stored, 0);
                    tcgen05::fence_after_thread_sync();
                    multiply(d); //~ WP054
                    tcgen05::commit(done);
                });
            } else {
                if !bug || warp_id() != 3 {
                    store(d);
                }
                tcgen05::wait_st();
                tcgen05::fence_before_thread_sync();
                mbarrier::arrive(stored);
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn an_a_multiplied_before_its_stores_are_over() -> Bug {
    bug(
        "The warps that store A arrive without `tcgen05.wait::st`",
        "PTX manual, *tcgen05 memory consistency model*: a fence orders what has been waited for",
        CTA,
        // SAFETY: the missing wait is the bug.
        |_, bug| unsafe {
            let [stored, done] = init([128, 1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    mbarrier::wait_parity(stored, 0);
                    tcgen05::fence_after_thread_sync();
                    multiply(d); //~ WP052
                    tcgen05::commit(done);
                });
            } else {
                store(d);
                if !bug {
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

fn an_a_multiplied_without_the_fence() -> Bug {
    bug(
        "The thread that multiplies waits for the stores of A, and has no `tcgen05.fence::after_thread_sync`",
        "PTX manual, *tcgen05 memory consistency model*",
        CTA,
        // SAFETY: the missing fence is the bug.
        |_, bug| unsafe {
            let [stored, done] = init([128, 1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    mbarrier::wait_parity(stored, 0);
                    if !bug {
                        tcgen05::fence_after_thread_sync();
                    }
                    multiply(d); //~ WP052
                    tcgen05::commit(done);
                });
            } else {
                store(d);
                tcgen05::wait_st();
                tcgen05::fence_before_thread_sync();
                mbarrier::arrive(stored);
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn an_a_overwritten_under_the_multiplication() -> Bug {
    bug(
        "The next A is stored when the multiplication is issued, and not when its commit has completed, as with P of the \
         next tile of attention",
        "PTX manual, `tcgen05.mma` is asynchronous",
        CTA,
        // SAFETY: the early store is the bug.
        |_, bug| unsafe {
            let [stored, issued, done] = init([128, 1, 1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    mbarrier::wait_parity(stored, 0);
                    tcgen05::fence_after_thread_sync();
                    multiply(d); //~ WP051
                    mbarrier::arrive(issued);
                    tcgen05::commit(done);
                });
            } else {
                store(d);
                tcgen05::wait_st();
                tcgen05::fence_before_thread_sync();
                mbarrier::arrive(stored);
                mbarrier::wait_parity(if bug { issued } else { done }, 0);
                tcgen05::fence_after_thread_sync();
                store(d); //~ WP051
                tcgen05::wait_st();
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn an_a_among_the_sums() -> Bug {
    bug(
        "A begins before the end of the sums: the columns of a narrower tile are counted",
        "the columns of S and P in a kernel of attention, which share an allocation",
        CTA,
        // SAFETY: the columns are the bug.
        |_, bug| unsafe {
            let [stored, done] = init([128, 1]);
            let d = start();
            let a = if bug { d + N / 2 } else { d + N };
            if warp_id() == MULTIPLIES {
                one(|| {
                    mbarrier::wait_parity(stored, 0);
                    tcgen05::fence_after_thread_sync();
                    let idesc = tcgen05::instruction::<bf16, bf16>(128, N);
                    tcgen05::mma_f16_ts(d, a, describe(B), idesc, false); //~ WP051
                    tcgen05::commit(done);
                });
            } else {
                tcgen05::st_32x32b_x8(a + ((32 * warp_id()) << 16), [0x3f80_3f80; 8]);
                tcgen05::wait_st();
                tcgen05::fence_before_thread_sync();
                mbarrier::arrive(stored);
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}
