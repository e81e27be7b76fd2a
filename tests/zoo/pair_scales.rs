//! tcgen05: pairs of CTAs with block scales, or with A in tensor memory.

use crate::tensor_memory::{A, B, MULTIPLIES, describe, one};
use crate::world::{init, smem, tid, warp_id};
use crate::{Bug, Shape, bug, cluster, family};
use float8::F8E4M3;
use half::bf16;
use isa::cluster::{arrive_release, cta_rank, mapa, wait_acquire};
use isa::tcgen05::{self, Swizzle, Ue8m0};
use isa::{fence, mbarrier, shared};

family! { "pair_scales.rs":
    factors_of_half_the_columns
    factors_copied_for_one_cta
    the_peers_factors_not_waited_for
    factors_that_each_cta_copies
    a_descriptor_of_one_cta_with_factors
    an_a_of_which_the_peer_stored_nothing
}

/// Columns of the accumulator. Their factors take two blocks, and those of a CTA's own half one.
const N: u32 = 160;
/// A block of factors of A, and two of B.
const FACTORS: u32 = B + N / 2 * 32;
const BLOCK: u32 = 512;
/// The word that has the address of tensor memory.
const ADDRESS: u32 = FACTORS + 3 * BLOCK;
/// Columns behind the accumulator: the factors of A, those of B, and an A in tensor memory.
const SFA: u32 = N;
const SFB: u32 = SFA + 4;
const A_COLUMNS: u32 = SFB + 8;
/// Four warps that read, and one that allocates, and multiplies in CTA 0.
const PAIR: Shape = Shape { smem: 10_240, ..cluster(2, 160) };

unsafe fn cluster_sync() {
    // SAFETY: all threads of the cluster come.
    unsafe {
        arrive_release();
        wait_acquire();
    }
}

/// This CTA's operands: all elements of e4m3 are 1.
unsafe fn write_operands() {
    // SAFETY: each thread has its own words.
    unsafe {
        for word in (tid()..(FACTORS - A) / 4).step_by(160) {
            shared::st(smem(A + 4 * word), 0x3838_3838_u32);
        }
        fence::proxy_async_shared_cta();
    }
}

/// This CTA's factors, all of them 1.
unsafe fn write_factors() {
    // SAFETY: each thread has its own words.
    unsafe {
        for word in (tid()..3 * BLOCK / 4).step_by(160) {
            shared::st(smem(FACTORS + 4 * word), 0x7f7f_7f7f_u32);
        }
        fence::proxy_async_shared_cta();
    }
}

/// The operands are written in both CTAs, and the columns allocated. Gives their address.
unsafe fn start() -> u32 {
    // SAFETY: all threads of the cluster come.
    unsafe {
        write_operands();
        if warp_id() == MULTIPLIES {
            tcgen05::alloc_2sm(smem(ADDRESS), 256);
        }
        cluster_sync();
        shared::ld(smem(ADDRESS))
    }
}

/// The last warps free the columns, when all others are done.
unsafe fn end(d: u32) {
    // SAFETY: all threads of the cluster come; nobody uses the columns any more.
    unsafe {
        cluster_sync();
        if warp_id() == MULTIPLIES {
            tcgen05::dealloc_2sm(d, 256);
        }
    }
}

/// The descriptor of a block of factors.
fn block(i: u32) -> u64 {
    tcgen05::shared(smem(FACTORS + BLOCK * i), 16, 128, Swizzle::None)
}

/// The copies of the factors, in both CTAs: `blocks` of B's two.
#[track_caller]
unsafe fn copy(d: u32, blocks: u32) {
    // SAFETY: the columns are allocated.
    unsafe {
        tcgen05::cp_32x128b_warpx4_2sm(d + SFA, block(0));
        for i in 0..blocks {
            tcgen05::cp_32x128b_warpx4_2sm(d + SFB + 4 * i, block(1 + i));
        }
    }
}

#[track_caller]
unsafe fn multiply(d: u32) {
    let idesc = tcgen05::instruction_block_scale::<Ue8m0, F8E4M3, F8E4M3>(256, N, 0);
    let (a, b) = (describe(A), describe(B));
    // SAFETY: the operands lie in shared memory; the caller has the columns.
    unsafe {
        tcgen05::mma_mxf8f6f4_block_scale_2sm(d, a, b, idesc, d + SFA, d + SFB, false);
    }
}

/// This warp's lanes of the last columns of D: each sum is of 32 ones.
unsafe fn check(d: u32) {
    // SAFETY: the warp's own lanes.
    unsafe {
        if warp_id() != MULTIPLIES {
            tcgen05::fence_after_thread_sync();
            let loaded = tcgen05::ld_32x32b_x16(d + N - 16 + ((32 * warp_id()) << 16));
            tcgen05::wait_ld();
            assert!(loaded.ready().iter().all(|&x| x == 32.0_f32.to_bits()));
        }
    }
}

/// The thread that multiplies for both CTAs runs `f`.
unsafe fn leader(f: impl FnOnce()) {
    if warp_id() == MULTIPLIES && cta_rank() == 0 {
        // SAFETY: the warp is converged.
        unsafe { one(f) }
    }
}

fn factors_of_half_the_columns() -> Bug {
    bug(
        "Each CTA has the factors of its own half of the columns, as it has half of B: it multiplies its rows with all of them",
        "CUTLASS `SM100_MMA_MXF8F6F4_2x1SM_SS`: the layout of SFB has all N columns in each CTA",
        PAIR,
        // SAFETY: the missing factors are the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            write_factors();
            let d = start();
            leader(|| {
                copy(d, if bug { 1 } else { 2 });
                multiply(d); //~ WP054
                tcgen05::commit_multicast_2sm(done, 3);
            });
            mbarrier::wait_parity(done, 0);
            check(d);
            end(d);
        },
    )
}

fn factors_copied_for_one_cta() -> Bug {
    bug(
        "The leader copies the factors with the instruction of one CTA: the tensor memory of its peer has none",
        "`SM100_UTCCP_4x32dp128bit_1cta` in place of `SM100_UTCCP_4x32dp128bit_2cta`",
        PAIR,
        // SAFETY: the instruction is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            write_factors();
            let d = start();
            leader(|| {
                if bug {
                    for i in 0..3 {
                        tcgen05::cp_32x128b_warpx4(d + SFA + 4 * i, block(i)); //~ WP055
                    }
                } else {
                    copy(d, 2);
                }
                multiply(d);
                tcgen05::commit_multicast_2sm(done, 3);
            });
            mbarrier::wait_parity(done, 0);
            check(d);
            end(d);
        },
    )
}

fn the_peers_factors_not_waited_for() -> Bug {
    bug(
        "The leader waits for its own factors, and not for those that its peer brings, before it copies both",
        "the transaction bytes of a slot: the factors of both CTAs count",
        PAIR,
        // SAFETY: the missing wait for the peer is the bug.
        |_, bug| unsafe {
            let [full, done] = init([if bug { 160 } else { 320 }, 1]);
            let d = start();
            for word in (tid()..3 * BLOCK / 4).step_by(160) {
                shared::st(smem(FACTORS + 4 * word), 0x7f7f_7f7f_u32); //~ WP016 WP034 WP036
            }
            fence::proxy_async_shared_cta();
            if !bug || cta_rank() == 0 {
                mbarrier::arrive_remote_release_cluster(mapa(full, 0));
            }
            leader(|| {
                mbarrier::wait_parity_cluster(full, 0);
                copy(d, 2); //~ WP016 WP034 WP036
                multiply(d);
                tcgen05::commit_multicast_2sm(done, 3);
            });
            mbarrier::wait_parity(done, 0);
            check(d);
            end(d);
        },
    )
}

fn factors_that_each_cta_copies() -> Bug {
    bug(
        "A thread of each CTA copies factors with `.cta_group::2`, each believing that they are its own CTA's: the peer's copy writes \
         what the leader's wrote, and nothing orders the two",
        "PTX manual, `tcgen05.cp`: with `.cta_group::2` one thread copies in both CTAs",
        PAIR,
        // SAFETY: the second copy is the bug.
        |_, bug| unsafe {
            let [done, copied] = init([1, 1]);
            write_factors();
            let d = start();
            if bug && warp_id() == MULTIPLIES && cta_rank() == 1 {
                one(|| {
                    copy(d, 2); //~ WP051
                    tcgen05::commit_2sm(copied);
                });
                mbarrier::wait_parity(copied, 0);
            }
            leader(|| {
                copy(d, 2); //~ WP051
                multiply(d); //~ WP051
                tcgen05::commit_multicast_2sm(done, 3);
            });
            mbarrier::wait_parity(done, 0);
            check(d);
            end(d);
        },
    )
}

fn a_descriptor_of_one_cta_with_factors() -> Bug {
    bug(
        "The instruction descriptor of a pair with block scales still has the 128 rows of one CTA",
        "PTX manual, *Instruction descriptor*: M is that of both CTAs",
        PAIR,
        // SAFETY: the descriptor is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            write_factors();
            let d = start();
            leader(|| {
                copy(d, 2);
                let rows = if bug { 128 } else { 256 };
                let idesc = tcgen05::instruction_block_scale::<Ue8m0, F8E4M3, F8E4M3>(rows, N, 0);
                let (a, b, sfa, sfb) = (describe(A), describe(B), d + SFA, d + SFB);
                tcgen05::mma_mxf8f6f4_block_scale_2sm(d, a, b, idesc, sfa, sfb, false); //~ WP026
                tcgen05::commit_multicast_2sm(done, 3);
            });
            mbarrier::wait_parity(done, 0);
            check(d);
            end(d);
        },
    )
}

fn an_a_of_which_the_peer_stored_nothing() -> Bug {
    bug(
        "The leader's CTA stores its rows of A in tensor memory, and the peer does not: the multiplication reads those of both",
        "PTX manual, `tcgen05.mma`: with `.cta_group::2` each CTA has half of A's rows",
        PAIR,
        // SAFETY: the missing rows are the bug.
        |_, bug| unsafe {
            let [stored, done] = init([256, 1]);
            let d = start();
            leader(|| {
                mbarrier::wait_parity_cluster(stored, 0);
                tcgen05::fence_after_thread_sync();
                let idesc = tcgen05::instruction::<bf16, bf16>(256, N);
                tcgen05::mma_f16_ts_2sm(d, d + A_COLUMNS, describe(B), idesc, false); //~ WP054
                tcgen05::commit_multicast_2sm(done, 3);
            });
            if warp_id() != MULTIPLIES {
                if !bug || cta_rank() == 0 {
                    let own = d + A_COLUMNS + ((32 * warp_id()) << 16);
                    tcgen05::st_32x32b_x8(own, [0x3f80_3f80; 8]);
                    tcgen05::wait_st();
                }
                tcgen05::fence_before_thread_sync();
                mbarrier::arrive_remote_release_cluster(mapa(stored, 0));
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}
