//! tcgen05: pairs of CTAs (`.cta_group::2`), which multiply together.

use crate::tensor_memory::{A, B, MULTIPLIES, describe, one};
use crate::world::{init, smem, tid, warp_id};
use crate::{Bug, Shape, bug, cluster, family};
use half::bf16;
use isa::cluster::{arrive_release, cta_rank, mapa, wait_acquire};
use isa::{fence, mbarrier, shared, tcgen05};

family! { "pairs.rs":
    a_pair_that_the_odd_cta_leads
    a_pair_with_an_allocation_of_one_cta
    a_pair_that_allocates_two_sizes
    a_pair_of_which_one_cta_leaves
    the_peers_operand_not_waited_for
    an_instruction_of_one_cta_by_a_pair
    a_commit_that_the_peer_does_not_get
    an_accumulator_that_the_peer_still_reads
    a_peer_that_leaves_under_the_multiplication
    a_load_that_signals_the_leader_as_one_cta
    a_shift_by_one_cta_of_a_pair
}

/// The word that has the address of tensor memory.
const ADDRESS: u32 = B + 16 * 32;
/// Columns of the accumulator: each CTA has 16 rows of B.
const N: u32 = 32;
/// Four warps that read, and one that allocates, and multiplies in CTA 0.
const PAIR: Shape = Shape { smem: 8192, ..cluster(2, 160) };

unsafe fn cluster_sync() {
    // SAFETY: all threads of the cluster come.
    unsafe {
        arrive_release();
        wait_acquire();
    }
}

/// This CTA's operands.
unsafe fn write_operands() {
    // SAFETY: each thread has its own words.
    unsafe {
        for word in (tid()..(ADDRESS - A) / 4).step_by(160) {
            shared::st(smem(A + 4 * word), 0x3f80_3f80_u32);
        }
        fence::proxy_async_shared_cta();
    }
}

/// The last warp of each CTA allocates for the pair. Gives the address.
unsafe fn allocate() -> u32 {
    // SAFETY: all threads of the cluster come.
    unsafe {
        if warp_id() == MULTIPLIES {
            tcgen05::alloc_2sm(smem(ADDRESS), 64);
        }
        cluster_sync();
        shared::ld(smem(ADDRESS))
    }
}

/// The operands are written in both CTAs, and the columns allocated.
unsafe fn start() -> u32 {
    // SAFETY: as above.
    unsafe {
        write_operands();
        cluster_sync();
        allocate()
    }
}

/// The last warps free the columns, when all others are done.
unsafe fn end(d: u32) {
    // SAFETY: all threads of the cluster come; nobody uses the columns any more.
    unsafe {
        cluster_sync();
        if warp_id() == MULTIPLIES {
            tcgen05::dealloc_2sm(d, 64);
        }
    }
}

/// One multiplication of the pair into the columns at `d`.
#[track_caller]
unsafe fn multiply(d: u32) {
    let idesc = tcgen05::instruction::<bf16, bf16>(256, N);
    // SAFETY: the operands lie in shared memory; the caller has the columns.
    unsafe { tcgen05::mma_f16_2sm(d, describe(A), describe(B), idesc, false) }
}

/// This warp's lanes of the columns at `d`.
unsafe fn check(d: u32) {
    // SAFETY: the warp's own lanes.
    unsafe {
        let loaded = tcgen05::ld_32x32b_x32(d + ((32 * (warp_id() % 4)) << 16));
        tcgen05::wait_ld();
        assert!(loaded.ready().iter().all(|&x| x == 16.0_f32.to_bits()));
    }
}

/// The thread that multiplies for both CTAs runs `f`.
unsafe fn leader(f: impl FnOnce()) {
    if warp_id() == MULTIPLIES && cta_rank() == 0 {
        // SAFETY: the warp is converged.
        unsafe { one(f) }
    }
}

fn a_pair_that_the_odd_cta_leads() -> Bug {
    bug(
        "Each CTA of the pair believes that it leads, or the wrong one does: the multiplication is issued where the rank is odd",
        "CUTLASS `is_mma_leader_cta`; PTX manual, *CTA Pair*",
        PAIR,
        // SAFETY: the issuing CTA is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            let d = start();
            let leads = u32::from(bug);
            if warp_id() == MULTIPLIES && cta_rank() == leads {
                one(|| {
                    multiply(d); //~ WP055
                    tcgen05::commit_multicast_2sm(done, 3);
                });
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn a_pair_with_an_allocation_of_one_cta() -> Bug {
    bug(
        "Each CTA allocates by itself (`.cta_group::1`), and the pair multiplies (`.cta_group::2`)",
        "PTX manual, `tcgen05.alloc`: all instructions of a kernel have the same `.cta_group`",
        PAIR,
        // SAFETY: the other group is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            write_operands();
            cluster_sync();
            if bug && warp_id() == MULTIPLIES {
                tcgen05::alloc(smem(ADDRESS), 64); //~ WP055
            }
            if bug {
                cluster_sync();
            }
            let d = if bug { shared::ld(smem(ADDRESS)) } else { allocate() };
            leader(|| {
                multiply(d); //~ WP055
                tcgen05::commit_multicast_2sm(done, 3);
            });
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn a_pair_that_allocates_two_sizes() -> Bug {
    bug(
        "The CTAs of a pair allocate different numbers of columns: only the one that multiplies asks for a second accumulator",
        "PTX manual, `tcgen05.alloc`: both warps do it together",
        PAIR,
        // SAFETY: the number of columns is the bug.
        |_, bug| unsafe {
            cluster_sync();
            if warp_id() == MULTIPLIES {
                let columns = if bug { 64 >> cta_rank() } else { 64 };
                tcgen05::alloc_2sm(smem(ADDRESS), columns); //~ WP047
                isa::warp::sync_warp(u32::MAX);
                tcgen05::dealloc_2sm(shared::ld(smem(ADDRESS)), columns);
            }
        },
    )
}

fn a_pair_of_which_one_cta_leaves() -> Bug {
    bug(
        "A CTA of the pair has no tile, and returns at once: the other one waits for it to allocate",
        "an early return for CTAs beyond the tensor, kept from a kernel without pairs",
        PAIR,
        // SAFETY: the early end is the bug.
        |_, bug| unsafe {
            cluster_sync();
            if bug && cta_rank() == 1 {
                return;
            }
            if warp_id() == MULTIPLIES {
                tcgen05::alloc_2sm(smem(ADDRESS), 64); //~ WP055
                isa::warp::sync_warp(u32::MAX);
                tcgen05::dealloc_2sm(shared::ld(smem(ADDRESS)), 64);
            }
        },
    )
}

fn the_peers_operand_not_waited_for() -> Bug {
    bug(
        "The leader waits for its own operands, and not for those that its peer brings: the full barrier counts the bytes of one CTA",
        "the transaction bytes of `PipelineTmaUmmaAsync`, which are those of both CTAs",
        PAIR,
        // SAFETY: the missing wait for the peer is the bug.
        |_, bug| unsafe {
            let [full, done] = init([if bug { 160 } else { 320 }, 1]);
            cluster_sync();
            let d = allocate();
            write_operands(); //~ WP016 WP034 WP036
            if !bug || cta_rank() == 0 {
                mbarrier::arrive_remote_release_cluster(mapa(full, 0));
            }
            leader(|| {
                mbarrier::wait_parity_cluster(full, 0);
                multiply(d); //~ WP016 WP034 WP036
                tcgen05::commit_multicast_2sm(done, 3);
            });
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn an_instruction_of_one_cta_by_a_pair() -> Bug {
    bug(
        "The instruction descriptor of a pair still has the 128 rows of one CTA",
        "PTX manual, *Instruction descriptor*: M is that of both CTAs",
        PAIR,
        // SAFETY: the descriptor is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            let d = start();
            leader(|| {
                let of_one = tcgen05::instruction::<bf16, bf16>(128, N);
                let of_two = tcgen05::instruction::<bf16, bf16>(256, N);
                let idesc = if bug { of_one } else { of_two };
                tcgen05::mma_f16_2sm(d, describe(A), describe(B), idesc, false); //~ WP026
                tcgen05::commit_multicast_2sm(done, 3);
            });
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn a_commit_that_the_peer_does_not_get() -> Bug {
    bug(
        "The leader releases its peer's slot when the multiplication is issued, and its own by the commit: the peer overwrites \
         its operand under the multiplication",
        "`umma_arrive_2x1SM` in place of `umma_arrive_multicast_2x1SM`",
        PAIR,
        // SAFETY: the early release is the bug.
        |_, bug| unsafe {
            let [empty, done] = init([1, 1]);
            let d = start();
            leader(|| {
                multiply(d); //~ WP018
                if bug {
                    mbarrier::arrive_remote_release_cluster(mapa(empty, 1));
                    tcgen05::commit_2sm(empty);
                } else {
                    tcgen05::commit_multicast_2sm(empty, 3);
                }
                tcgen05::commit_multicast_2sm(done, 3);
            });
            if warp_id() == 0 && cta_rank() == 1 {
                mbarrier::wait_parity_cluster(empty, 0);
                shared::st(smem(A + 4 * tid()), 0_u32); //~ WP018
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn an_accumulator_that_the_peer_still_reads() -> Bug {
    bug(
        "The leader waits until its own epilogue has read the accumulator, and not for that of the other CTA, before it multiplies \
         the next tile",
        "the count of the accumulator's empty barrier: the readers of both CTAs",
        PAIR,
        // SAFETY: the missing wait for the peer is the bug.
        |_, bug| unsafe {
            let [done, empty, second] = init([1, if bug { 128 } else { 256 }, 1]);
            let d = start();
            leader(|| {
                multiply(d);
                tcgen05::commit_multicast_2sm(done, 3);
                mbarrier::wait_parity_cluster(empty, 0);
                tcgen05::fence_after_thread_sync();
                multiply(d); //~ WP051 WP052
                tcgen05::commit_multicast_2sm(second, 3);
            });
            if warp_id() != MULTIPLIES {
                mbarrier::wait_parity(done, 0);
                tcgen05::fence_after_thread_sync();
                check(d); //~ WP051
                tcgen05::fence_before_thread_sync();
                if !bug || cta_rank() == 0 {
                    mbarrier::arrive_remote_release_cluster(mapa(empty, 0));
                }
                mbarrier::wait_parity(second, 0);
            }
            end(d);
        },
    )
}

fn a_peer_that_leaves_under_the_multiplication() -> Bug {
    bug(
        "The peer frees its columns when it has brought its operands, while the leader's multiplication still reads and writes both \
         CTAs' memory",
        "the deallocation barrier of CUTLASS, left out",
        PAIR,
        // SAFETY: the early dealloc is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            let d = start();
            leader(|| {
                multiply(d); //~ WP027 WP028 WP051
                tcgen05::commit_multicast_2sm(done, 3); //~ WP028
            });
            if !bug || cta_rank() == 0 {
                mbarrier::wait_parity(done, 0);
            }
            if warp_id() == MULTIPLIES {
                tcgen05::dealloc_2sm(d, 64); //~ WP051
            }
        },
    )
}

fn a_load_that_signals_the_leader_as_one_cta() -> Bug {
    bug(
        "The peer's load names the leader's mbarrier, and has no `.cta_group::2`",
        "CUTLASS `SM90_TMA_LOAD` in place of `SM100_TMA_2SM_LOAD`",
        PAIR,
        // SAFETY: the instruction is the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            cluster_sync();
            if tid() == 0 {
                let there = mapa(full, 0);
                if cta_rank() == 0 {
                    mbarrier::arrive_expect_tx(full, 2 * 256);
                }
                if bug {
                    isa::cp_async_bulk::tensor_load(smem(A), w.map(), [0, 0], there); //~ WP012
                } else {
                    tcgen05::tensor_load_2sm(smem(A), w.map(), [0, 0], there);
                }
                if cta_rank() == 0 {
                    mbarrier::wait_parity(full, 0);
                }
            }
            cluster_sync();
        },
    )
}

fn a_shift_by_one_cta_of_a_pair() -> Bug {
    bug(
        "The leader shifts the rows of both CTAs with the instruction of one",
        "PTX manual, `tcgen05.shift`: `.cta_group::2` touches both CTAs; all instructions of a kernel say the same",
        PAIR,
        // SAFETY: the instruction is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            let d = start();
            let row = 128 * cta_rank() + tid();
            let own = d + N + ((32 * (warp_id() % 4)) << 16);
            if warp_id() != MULTIPLIES {
                tcgen05::st_32x32b_x8(own, [row; 8]);
                tcgen05::wait_st();
            }
            tcgen05::fence_before_thread_sync();
            cluster_sync();
            leader(|| {
                tcgen05::fence_after_thread_sync();
                let last = d + N + (96 << 16);
                if bug {
                    tcgen05::shift_down(last); //~ WP055
                } else {
                    tcgen05::shift_down_2sm(last);
                }
                tcgen05::commit_multicast_2sm(done, 3);
            });
            mbarrier::wait_parity(done, 0);
            tcgen05::fence_after_thread_sync();
            if warp_id() != MULTIPLIES {
                let loaded = tcgen05::ld_32x32b_x8(own);
                tcgen05::wait_ld();
                // Lanes 96 to 127 moved, in both CTAs.
                let from = if tid() > 96 { row - 1 } else { row };
                assert_eq!(loaded.ready(), [from; 8], "row {row}");
            }
            end(d);
        },
    )
}
