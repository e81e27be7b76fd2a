//! tcgen05: the multiplications: their operands, their instruction descriptors, and the commits that end them.

use crate::tensor_memory::{A, B, CTA, MULTIPLIES, N, describe, end, multiply, one, start, tile};
use crate::world::{init, smem, tid, warp_id};
use crate::{Bug, Shape, bug, cluster, family};
use half::bf16;
use isa::Tf32;
use isa::tcgen05::{self, Swizzle};
use isa::{mbarrier, shared, thread};

family! { "umma.rs":
    an_operand_overwritten_under_a_multiplication
    multiplications_that_nobody_commits
    a_descriptor_of_the_generation_before
    an_instruction_of_half_the_rows
    types_of_another_kind
    sums_of_another_kind
    a_step_along_k_in_elements
    two_threads_multiply_into_one_accumulator
    a_commit_for_its_own_cta_alone
}

/// A kernel in which one thread issues one multiplication, and everybody waits for it.
unsafe fn one_multiplication(issue: impl Fn(u32)) {
    // SAFETY: as the order of the instructions says.
    unsafe {
        let [done] = init([1]);
        let d = start();
        if warp_id() == MULTIPLIES {
            one(|| {
                issue(d);
                tcgen05::commit(done);
            });
        }
        mbarrier::wait_parity(done, 0);
        end(d);
    }
}

fn an_operand_overwritten_under_a_multiplication() -> Bug {
    bug(
        "The slot is released by an ordinary arrival after `tcgen05.mma` is issued, not by a commit",
        "early release, as with wgmma; row 16",
        CTA,
        // SAFETY: the slot's release before the multiplication is over is the bug.
        |_, bug| unsafe {
            let [done, empty] = init([1, 1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d, false); //~ WP018
                    if bug {
                        mbarrier::arrive(empty);
                    } else {
                        tcgen05::commit(empty);
                    }
                    tcgen05::commit(done);
                });
            } else {
                mbarrier::wait_parity(empty, 0);
                shared::st(smem(A + 4 * tid()), 0_u32); //~ WP018
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn multiplications_that_nobody_commits() -> Bug {
    bug(
        "The kernel ends without a commit behind its last multiplications",
        "row 29",
        CTA,
        // SAFETY: the end without a commit is the bug.
        |_, bug| unsafe {
            let [done, last] = init([1, 1]);
            let d = start();
            tile(d, done);
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d + N, false); //~ WP028
                    if !bug {
                        tcgen05::commit(last);
                        mbarrier::wait_parity(last, 0);
                    }
                });
                if bug {
                    return;
                }
            }
            if bug { thread::sync_threads() } else { end(d) }
        },
    )
}

fn a_descriptor_of_the_generation_before() -> Bug {
    bug(
        "The operand's descriptor is that of wgmma: bits 48 to 46 are 0, and the swizzle has another code",
        "a kernel ported from Hopper",
        CTA,
        // SAFETY: the descriptor is the bug.
        |_, bug| unsafe {
            one_multiplication(|d| {
                let old = isa::wgmma::descriptor(smem(A), 128, 256, Swizzle::None);
                let a = if bug { old } else { describe(A) };
                let idesc = tcgen05::instruction::<bf16, bf16>(128, N);
                tcgen05::mma_f16(d, a, describe(B), idesc, false); //~ WP026
            });
        },
    )
}

fn an_instruction_of_half_the_rows() -> Bug {
    bug(
        "M stands in the instruction descriptor in units of 8, as N does",
        "PTX manual, *Instruction descriptor*: M is in units of 16",
        CTA,
        // SAFETY: the descriptor is the bug.
        |_, bug| unsafe {
            one_multiplication(|d| {
                let right = tcgen05::instruction::<bf16, bf16>(128, N);
                let idesc = if bug { right & !(0x1f << 24) | 16 << 24 } else { right };
                tcgen05::mma_f16(d, describe(A), describe(B), idesc, false); //~ WP026
            });
        },
    )
}

fn types_of_another_kind() -> Bug {
    bug(
        "The kernel was changed from bf16 to tf32, and its instruction descriptor still has the types of kind f16",
        "PTX manual, *Instruction descriptor*: each kind has codes of its own",
        CTA,
        // SAFETY: the descriptor is the bug.
        |_, bug| unsafe {
            one_multiplication(|d| {
                let of_bf16 = tcgen05::instruction::<bf16, bf16>(128, N);
                let idesc = if bug { of_bf16 } else { tcgen05::instruction::<Tf32, Tf32>(128, N) };
                tcgen05::mma_tf32(d, describe(A), describe(B), idesc, false); //~ WP026
            });
        },
    )
}

fn sums_of_another_kind() -> Bug {
    bug(
        "The sums of integers are declared as f32, as those of the other kinds are",
        "PTX manual, *Instruction descriptor*: kind i8 has sums of s32 alone",
        CTA,
        // SAFETY: the descriptor is the bug.
        |_, bug| unsafe {
            one_multiplication(|d| {
                let right = tcgen05::instruction::<i8, i8>(128, N);
                let idesc = if bug { right & !(3 << 4) | 1 << 4 } else { right };
                tcgen05::mma_i8(d, describe(A), describe(B), idesc, false); //~ WP026
            });
        },
    )
}

fn a_step_along_k_in_elements() -> Bug {
    bug(
        "The next step along K is 32 elements on, as with e4m3, and not 32 bytes: it leaves the row of the swizzle",
        "a kernel ported from fp8 to bf16",
        Shape { smem: 40_000, ..CTA },
        // SAFETY: the operand's address is the bug.
        |_, bug| unsafe {
            const ROWS: u32 = 2048;
            for word in (tid()..128 * 32).step_by(160) {
                shared::st(smem(16_384 + 4 * word), 0_u32);
            }
            for word in (tid()..128 * 8).step_by(160) {
                shared::st(smem(ROWS + 4 * word), 0_u32);
            }
            one_multiplication(|d| {
                let step = if bug { 64 } else { 32 };
                let of = |at, k| tcgen05::shared(smem(at) + k * step, 16, 1024, Swizzle::B128);
                let idesc = tcgen05::instruction::<bf16, bf16>(128, N);
                for k in 0_u32..4 {
                    tcgen05::mma_f16(d, of(16_384, k), of(ROWS, k), idesc, k > 0); //~ WP026
                }
            });
        },
    )
}

fn two_threads_multiply_into_one_accumulator() -> Bug {
    bug(
        "Two warps issue half of the steps along K each into one accumulator: only the multiplications of one thread are in \
         order",
        "split issue, as with several warps of `mma.sync`",
        CTA,
        // SAFETY: the missing order of the two is the bug.
        |_, bug| unsafe {
            let [first, second] = init([1, 1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d, false); //~ WP051
                    tcgen05::commit(first);
                });
            } else if warp_id() == 0 {
                one(|| {
                    if !bug {
                        mbarrier::wait_parity(first, 0);
                        tcgen05::fence_after_thread_sync();
                    }
                    multiply(d, true); //~ WP051 WP054
                    tcgen05::commit(second);
                });
            }
            mbarrier::wait_parity(first, 0);
            mbarrier::wait_parity(second, 0);
            end(d);
        },
    )
}

fn a_commit_for_its_own_cta_alone() -> Bug {
    bug(
        "A slot that two CTAs share is released by each CTA's commit for itself: the peer fills it while the other still multiplies",
        "`tcgen05.commit` without `.multicast::cluster` in a kernel that was given clusters",
        Shape { smem: 8192, ..cluster(2, 160) },
        // SAFETY: the release without the peer's commit is the bug.
        |_, bug| unsafe {
            let [done, empty] = init([1, if bug { 1 } else { 2 }]);
            let d = start();
            isa::cluster::arrive_release();
            isa::cluster::wait_acquire();
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d, false); //~ WP018 WP034
                    if bug {
                        tcgen05::commit(empty);
                    } else {
                        tcgen05::commit_multicast(empty, 3);
                    }
                    tcgen05::commit(done);
                });
            } else if tid() == 0 {
                mbarrier::wait_parity(empty, 0);
                let peer = isa::cluster::mapa(smem(A), isa::cluster::cta_rank() ^ 1);
                shared::st_cluster(peer, 0_u32); //~ WP018 WP034
            }
            mbarrier::wait_parity(done, 0);
            isa::cluster::arrive_release();
            isa::cluster::wait_acquire();
            end(d);
        },
    )
}
