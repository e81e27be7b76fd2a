//! tcgen05: tensor memory, its allocation, and what a multiplication into it may follow.

use crate::world::{init, smem, tid, warp_id};
use crate::{Bug, Shape, bug, family, threads};
use half::bf16;
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
    a_shift_read_without_its_commit
    a_shift_of_the_upper_half_of_a_warp
}

/// A's 128 rows of 32 bytes, then B's 16, then the word that has the address.
pub(crate) const A: u32 = 1024;
pub(crate) const B: u32 = A + 128 * 32;
const ADDRESS: u32 = B + 16 * 32;
pub(crate) const N: u32 = 16;

/// Four warps that read accumulators, and one that multiplies.
pub(crate) const CTA: Shape = Shape { smem: 8192, ..threads(160) };
pub(crate) const MULTIPLIES: u32 = 4;

/// The operands are written, and the last warp allocates 32 columns. Gives their address.
pub(crate) unsafe fn start() -> u32 {
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
pub(crate) unsafe fn end(d: u32) {
    // SAFETY: all threads of the CTA come; nobody uses the columns any more.
    unsafe {
        thread::sync_threads();
        if warp_id() == MULTIPLIES {
            tcgen05::dealloc(d, 32);
        }
    }
}

pub(crate) fn describe(at: u32) -> u64 {
    tcgen05::shared(smem(at), 128, 256, Swizzle::None)
}

/// One multiplication into the columns at `d`.
#[track_caller]
pub(crate) unsafe fn multiply(d: u32, adds: bool) {
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
pub(crate) unsafe fn one(f: impl FnOnce()) {
    // SAFETY: the warp is converged.
    unsafe {
        if warp::elect_one() {
            f();
        }
        warp::sync_warp(u32::MAX);
    }
}

/// A tile: it is multiplied, and each warp reads its lanes.
pub(crate) unsafe fn tile(d: u32, done: u32) {
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

fn a_shift_read_without_its_commit() -> Bug {
    bug(
        "The accumulator's rows are shifted behind the commit that the epilogue waits for",
        "PTX manual, `tcgen05.shift`: it is asynchronous",
        CTA,
        // SAFETY: the load before the shift is over is the bug.
        |_, bug| unsafe {
            let [done, all] = init([1, 1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d, false);
                    if bug {
                        tcgen05::commit(done);
                    }
                    tcgen05::shift_down(d); //~ WP051
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

fn a_shift_of_the_upper_half_of_a_warp() -> Bug {
    bug(
        "The 16 upper rows of a warp are to move, as `tcgen05.ld` with 16 lanes reads them",
        "PTX manual, `tcgen05.shift`: the lane is a multiple of 32",
        CTA,
        // SAFETY: the lane of the shift is the bug.
        |_, bug| unsafe {
            let [done] = init([1]);
            let d = start();
            if warp_id() == MULTIPLIES {
                one(|| {
                    multiply(d, false);
                    let lane = if bug { 16 } else { 32 };
                    tcgen05::shift_down(d + (lane << 16)); //~ WP050
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
            mbarrier::wait_parity(done, 0);
            end(d);
        },
    )
}
