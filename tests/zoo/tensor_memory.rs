//! tcgen05: tensor memory, its allocation, and what a multiplication into it may follow.

use crate::world::{init, smem, tid, warp_id};
use crate::{Bug, Shape, bug, cluster, family, threads};
use half::bf16;
use isa::Tf32;
use isa::tcgen05::{self, Swizzle};
use isa::{fence, mbarrier, shared, thread, warp};

family! { "tensor_memory.rs":
    tensor_memory_never_freed
    tensor_memory_freed_twice
    tensor_memory_used_after_its_end
    tensor_memory_used_before_it_is_there
    columns_beyond_the_allocation
    forty_eight_columns
    an_allocation_after_the_permit_is_gone
    lanes_of_another_warp
    an_accumulator_read_without_the_barrier
    a_barrier_of_the_commit_before
    an_accumulator_read_without_the_fence
    an_accumulator_overwritten_while_it_is_read
    an_accumulator_released_without_the_fence
    an_accumulator_released_before_its_loads_are_over
    registers_used_before_the_wait
    a_first_step_that_adds
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

/// A's 128 rows of 32 bytes, then B's 16, then the word that has the address.
const A: u32 = 1024;
const B: u32 = A + 128 * 32;
const ADDRESS: u32 = B + 16 * 32;
const N: u32 = 16;

/// Four warps that read accumulators, and one that multiplies.
const CTA: Shape = Shape { smem: 8192, ..threads(160) };
const MULTIPLIES: u32 = 4;

/// The operands are written, and the last warp allocates 32 columns. Gives their address.
unsafe fn start() -> u32 {
    // SAFETY: each thread has its own words; all threads of the CTA come to the barrier.
    unsafe {
        for word in (tid()..(ADDRESS - A) / 4).step_by(160) {
            shared::st(smem(A + 4 * word), 0x3f80_3f80_u32);
        }
        fence::proxy_async_shared_cta();
        if warp_id() == MULTIPLIES {
            tcgen05::alloc(smem(ADDRESS), 32);
        }
        thread::sync_threads();
        shared::ld(smem(ADDRESS))
    }
}

/// The last warp frees the columns, when all others are done.
unsafe fn end(d: u32) {
    // SAFETY: all threads of the CTA come; nobody uses the columns any more.
    unsafe {
        thread::sync_threads();
        if warp_id() == MULTIPLIES {
            tcgen05::dealloc(d, 32);
        }
    }
}

fn describe(at: u32) -> u64 {
    tcgen05::shared(smem(at), 128, 256, Swizzle::None)
}

/// One multiplication into the columns at `d`.
#[track_caller]
unsafe fn multiply(d: u32, adds: bool) {
    let idesc = tcgen05::instruction::<bf16, bf16>(128, N);
    // SAFETY: the operands lie in shared memory; the caller has the columns.
    unsafe { tcgen05::mma_f16(d, describe(A), describe(B), idesc, adds) }
}

/// This warp's lanes of the columns at `d`.
#[track_caller]
unsafe fn load(d: u32) -> tcgen05::Loaded<16> {
    // SAFETY: the warp's own lanes.
    unsafe { tcgen05::ld_32x32b_x16(d + ((32 * (warp_id() % 4)) << 16)) }
}

/// One thread of the last warp runs `f`.
unsafe fn one(f: impl FnOnce()) {
    // SAFETY: the warp is converged.
    unsafe {
        if warp::elect_one() {
            f();
        }
        warp::sync_warp(u32::MAX);
    }
}

/// A tile: it is multiplied, and each warp reads its lanes.
unsafe fn tile(d: u32, done: u32) {
    // SAFETY: as the order of the instructions says.
    unsafe {
        if warp_id() == MULTIPLIES {
            one(|| {
                multiply(d, false);
                tcgen05::commit(done);
            });
        } else {
            mbarrier::wait_parity(done, 0);
            tcgen05::fence_after_thread_sync();
            let loaded = load(d);
            tcgen05::wait_ld();
            assert!(loaded.ready().iter().all(|&x| x == 16.0_f32.to_bits()));
            tcgen05::fence_before_thread_sync();
        }
    }
}

fn tensor_memory_never_freed() -> Bug {
    bug(
        "The kernel returns with columns allocated: the next CTA of the SM waits for them for ever",
        "PTX manual, `tcgen05.alloc`",
        CTA,
        // SAFETY: the end without dealloc is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            let d = start();
            tile(d, done);
            thread::sync_threads();
            if !bug && warp_id() == MULTIPLIES {
                tcgen05::dealloc(d, 32);
            }
            if bug && warp_id() == MULTIPLIES {
                tcgen05::alloc(smem(ADDRESS), 64); //~ WP049
                tcgen05::dealloc(d, 32);
            }
        },
    )
}

fn tensor_memory_freed_twice() -> Bug {
    bug(
        "Two warps free the same columns at the end",
        "PTX manual, `tcgen05.dealloc`",
        CTA,
        // SAFETY: the second dealloc is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            let d = start();
            tile(d, done);
            thread::sync_threads();
            if warp_id() == MULTIPLIES || bug && warp_id() == 0 {
                tcgen05::dealloc(d, 32); //~ WP047
            }
        },
    )
}

fn tensor_memory_used_after_its_end() -> Bug {
    bug(
        "The columns are freed by the warp that multiplies as soon as it is done, and the epilogue still reads them",
        "CUTLASS's deallocation barrier, left out",
        CTA,
        // SAFETY: the dealloc before the loads is the bug.
        |_, bug| unsafe {
            let [done, read] = init([1, 128]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d, false);
                    tcgen05::commit(done);
                });
                mbarrier::wait_parity(done, 0);
                if !bug {
                    mbarrier::wait_parity(read, 0);
                }
                tcgen05::dealloc(d, 32); //~ WP048 WP051
            } else {
                mbarrier::wait_parity(done, 0);
                tcgen05::fence_after_thread_sync();
                let loaded = load(d); //~ WP048
                tcgen05::wait_ld();
                let _ = loaded.ready();
                mbarrier::arrive(read);
            }
        },
    )
}

fn tensor_memory_used_before_it_is_there() -> Bug {
    bug(
        "The thread that multiplies takes address 0 for granted, and does not wait for the allocation",
        "kernels that assume one CTA to an SM",
        CTA,
        // SAFETY: the multiplication before the allocation is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            if bug && warp_id() == MULTIPLIES {
                one(|| multiply(0, false)); //~ WP048
            }
            let d = start();
            tile(d, done);
            end(d);
        },
    )
}

fn columns_beyond_the_allocation() -> Bug {
    bug(
        "The second accumulator begins at column 32 of an allocation of 32",
        "a number of stages that the allocation does not have",
        CTA,
        // SAFETY: the columns that nobody allocated are the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d, false);
                    multiply(d + if bug { 2 * N } else { N }, false); //~ WP048
                    tcgen05::commit(done);
                });
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn forty_eight_columns() -> Bug {
    bug(
        "The allocation is as large as three accumulators of 16 columns, which is no power of two",
        "PTX manual, `tcgen05.alloc`",
        CTA,
        // SAFETY: the number of columns is the bug.
        |_, bug| unsafe {
            init::<0>([]);
            if warp_id() == MULTIPLIES {
                let columns = if bug { 48 } else { 64 };
                tcgen05::alloc(smem(ADDRESS), columns); //~ WP047
                warp::sync_warp(u32::MAX);
                tcgen05::dealloc(shared::ld(smem(ADDRESS)), columns);
            }
        },
    )
}

fn an_allocation_after_the_permit_is_gone() -> Bug {
    bug(
        "A later phase of the kernel allocates again, though the CTA gave up its permit",
        "PTX manual, `tcgen05.relinquish_alloc_permit`",
        CTA,
        // SAFETY: the second allocation is the bug.
        |_, bug| unsafe {
            init::<0>([]);
            if warp_id() == MULTIPLIES {
                let word = smem(ADDRESS);
                tcgen05::alloc(word, 32);
                warp::sync_warp(u32::MAX);
                tcgen05::dealloc(shared::ld(word), 32);
                if bug {
                    tcgen05::relinquish_alloc_permit();
                }
                warp::sync_warp(u32::MAX);
                tcgen05::alloc(word, 32); //~ WP047
                warp::sync_warp(u32::MAX);
                tcgen05::dealloc(shared::ld(word), 32);
            }
        },
    )
}

fn lanes_of_another_warp() -> Bug {
    bug(
        "The epilogue is the warps 1 to 4, and warp 1 takes the first 32 lanes: they are those of warp 0 of each four",
        "the epilogue behind a single producer warp",
        CTA,
        // SAFETY: the lanes are the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d, false);
                    tcgen05::commit(done);
                });
            }
            mbarrier::wait_parity(done, 0);
            tcgen05::fence_after_thread_sync();
            if warp_id() > 0 {
                let own = if bug { warp_id() - 1 } else { warp_id() % 4 };
                let loaded = tcgen05::ld_32x32b_x16(d + ((32 * own) << 16)); //~ WP050
                tcgen05::wait_ld();
                let _ = loaded.ready();
            }
            end(d);
        },
    )
}

fn an_accumulator_read_without_the_barrier() -> Bug {
    bug(
        "The epilogue waits for the threads that multiply, not for the multiplication",
        "`__syncthreads` in place of commit and mbarrier",
        CTA,
        // SAFETY: the load before the wait is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d, false); //~ WP051
                    tcgen05::commit(done);
                });
            }
            thread::sync_threads();
            if !bug {
                mbarrier::wait_parity(done, 0);
            }
            tcgen05::fence_after_thread_sync();
            if warp_id() < 4 {
                let loaded = load(d); //~ WP051
                tcgen05::wait_ld();
                let _ = loaded.ready();
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}

fn a_barrier_of_the_commit_before() -> Bug {
    bug(
        "The barrier for the epilogue is committed before the last step along K is issued",
        "a commit that slipped into the loop",
        CTA,
        // SAFETY: the load before the last multiplication is over is the bug.
        |_, bug| unsafe {
            let [done, all] = init([1, 1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d, false);
                    if bug {
                        tcgen05::commit(done);
                    }
                    multiply(d, true); //~ WP051
                    if !bug {
                        tcgen05::commit(done);
                    }
                    tcgen05::commit(all);
                });
            } else {
                mbarrier::wait_parity(done, 0);
                tcgen05::fence_after_thread_sync();
                let loaded = load(d); //~ WP051
                tcgen05::wait_ld();
                let _ = loaded.ready();
            }
            mbarrier::wait_parity(all, 0);
            end(d);
        },
    )
}

fn an_accumulator_read_without_the_fence() -> Bug {
    bug(
        "No `tcgen05.fence::after_thread_sync` stands between the wait for the barrier and the load",
        "PTX manual, *tcgen05 memory consistency model*",
        CTA,
        // SAFETY: the load without the fence is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d, false); //~ WP052
                    tcgen05::commit(done);
                });
            } else {
                mbarrier::wait_parity(done, 0);
                if !bug {
                    tcgen05::fence_after_thread_sync();
                }
                let loaded = load(d); //~ WP052
                tcgen05::wait_ld();
                let _ = loaded.ready();
            }
            end(d);
        },
    )
}

/// Two tiles in one accumulator; `release` is what each thread of the epilogue does after its loads, `acquire` what
/// precedes the second multiplication.
unsafe fn two_tiles(
    d: u32,
    [done, read, second]: [u32; 3],
    acquire: impl Fn(),
    release: impl Fn(tcgen05::Loaded<16>),
    load: impl Fn() -> tcgen05::Loaded<16>,
    again: impl Fn(),
) {
    // SAFETY: as the callers say.
    unsafe {
        if warp_id() == MULTIPLIES {
            one(|| {
                multiply(d, false);
                tcgen05::commit(done);
                acquire();
                again();
                tcgen05::commit(second);
            });
        } else {
            mbarrier::wait_parity(done, 0);
            tcgen05::fence_after_thread_sync();
            release(load());
            mbarrier::wait_parity(read, 0);
        }
        mbarrier::wait_parity(second, 0);
        end(d);
    }
}

fn an_accumulator_overwritten_while_it_is_read() -> Bug {
    bug(
        "The next tile is multiplied into the accumulator that the epilogue reads, without waiting for it",
        "a double buffer with one buffer",
        CTA,
        // SAFETY: the multiplication over the loads is the bug.
        |_, bug| unsafe {
            let bars @ [_, read, _] = init([1, 128, 1]);
            let d = start();
            let acquire = || {
                if !bug {
                    mbarrier::wait_parity(read, 0);
                    tcgen05::fence_after_thread_sync();
                }
            };
            let release = |loaded: tcgen05::Loaded<16>| {
                tcgen05::wait_ld();
                let _ = loaded.ready();
                tcgen05::fence_before_thread_sync();
                mbarrier::arrive(read);
            };
            let load = || load(d); //~ WP051
            two_tiles(d, bars, acquire, release, load, || multiply(d, false)); //~ WP051
        },
    )
}

fn an_accumulator_released_without_the_fence() -> Bug {
    bug(
        "The epilogue releases the accumulator after `wait::ld`, without `tcgen05.fence::before_thread_sync`",
        "PTX manual, *tcgen05 memory consistency model*",
        CTA,
        // SAFETY: the release without the fence is the bug.
        |_, bug| unsafe {
            let bars @ [_, read, _] = init([1, 128, 1]);
            let d = start();
            let acquire = || {
                mbarrier::wait_parity(read, 0);
                tcgen05::fence_after_thread_sync();
            };
            let release = |loaded: tcgen05::Loaded<16>| {
                tcgen05::wait_ld();
                let _ = loaded.ready();
                if !bug {
                    tcgen05::fence_before_thread_sync();
                }
                mbarrier::arrive(read);
            };
            let load = || load(d); //~ WP052
            two_tiles(d, bars, acquire, release, load, || multiply(d, false)); //~ WP052
        },
    )
}

fn an_accumulator_released_before_its_loads_are_over() -> Bug {
    bug(
        "The epilogue releases the accumulator when its loads are issued, before `wait::ld`",
        "the release moved up, as for ordinary loads",
        CTA,
        // SAFETY: the release before the wait is the bug.
        |_, bug| unsafe {
            let bars @ [_, read, _] = init([1, 128, 1]);
            let d = start();
            let acquire = || {
                mbarrier::wait_parity(read, 0);
                tcgen05::fence_after_thread_sync();
            };
            let release = |loaded: tcgen05::Loaded<16>| {
                if !bug {
                    tcgen05::wait_ld();
                }
                tcgen05::fence_before_thread_sync();
                mbarrier::arrive(read);
                if bug {
                    tcgen05::wait_ld();
                }
                let _ = loaded.ready();
            };
            let load = || load(d); //~ WP052
            two_tiles(d, bars, acquire, release, load, || multiply(d, false)); //~ WP052
        },
    )
}

fn registers_used_before_the_wait() -> Bug {
    bug(
        "The registers of a load are stored before `wait::ld`",
        "a `tcgen05.ld` taken for an ordinary load",
        CTA,
        // SAFETY: the use before the wait is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d, false);
                    tcgen05::commit(done);
                });
            } else {
                mbarrier::wait_parity(done, 0);
                tcgen05::fence_after_thread_sync();
                let loaded = load(d); //~ WP053
                if !bug {
                    tcgen05::wait_ld();
                }
                let values = loaded.ready(); //~ WP053
                shared::st(smem(A + 4 * tid()), values[0]);
                tcgen05::wait_ld();
            }
            end(d);
        },
    )
}

fn a_first_step_that_adds() -> Bug {
    bug(
        "The first step along K adds to what the allocation happened to hold",
        "`enable-input-d` of the first MMA",
        CTA,
        // SAFETY: the addition to nothing is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d, bug); //~ WP054
                    tcgen05::commit(done);
                });
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
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
            let [done] = init([1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    let old = isa::wgmma::descriptor(smem(A), 128, 256, Swizzle::None);
                    let a = if bug { old } else { describe(A) };
                    let idesc = tcgen05::instruction::<bf16, bf16>(128, N);
                    tcgen05::mma_f16(d, a, describe(B), idesc, false); //~ WP026
                    tcgen05::commit(done);
                });
            }
            mbarrier::wait_parity(done, 0);
            end(d);
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
            let [done] = init([1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    let right = tcgen05::instruction::<bf16, bf16>(128, N);
                    let idesc = if bug { right & !(0x1f << 24) | 16 << 24 } else { right };
                    tcgen05::mma_f16(d, describe(A), describe(B), idesc, false); //~ WP026
                    tcgen05::commit(done);
                });
            }
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
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
