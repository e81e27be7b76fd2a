//! Registers: what a wgmma in flight holds, the pool of a CTA, and barriers that count whole warps.

use crate::world::{smem, tid, warp_id};
use crate::{Bug, Shape, bug, family, threads};
use half::bf16;
use isa::wgmma::{self, KMajor, M64, Shape as _, Swizzle};
use isa::{barrier, cvt, fence, global, setmaxnreg, shared, thread, warp};
use std::hint::black_box;

family! { "registers.rs":
    a_sum_read_while_its_batch_is_in_flight
    an_accumulator_rescaled_in_flight
    a_fragment_overwritten_before_the_wait
    a_fragment_replaced_before_its_fence
    an_accumulator_changed_without_wgmma_fence
    a_first_wgmma_without_wgmma_fence
    a_sum_used_without_fence_operand
    setmaxnreg_by_one_warp
    setmaxnreg_twice_without_a_meeting
    half_warps_at_an_unaligned_barrier
    half_warps_that_return
}

/// A group of 128 threads.
const GROUP: Shape = Shape { smem: 8192, ..threads(128) };

/// The 64 rows of A, then the 8 of B, 32 bytes each.
const A: u32 = 1024;
const B: u32 = A + 64 * 32;

type Sums = [f32; 4];

fn describe(at: u32) -> u64 {
    wgmma::descriptor(smem(at), 128, 256, Swizzle::None)
}

/// 128 threads write the operands.
unsafe fn fill() {
    for word in (tid()..72 * 8).step_by(128) {
        // SAFETY: the words of the operands lie in shared memory, and each thread has its own.
        unsafe { shared::st(smem(A + 4 * word), 0x3f80_3f80_u32) };
    }
    fence::proxy_async_shared_cta();
    // SAFETY: all threads of the CTA come.
    unsafe { thread::sync_threads() };
}

/// One wgmma into the sums, a batch, without a fence before it.
#[track_caller]
unsafe fn multiply(sums: &mut Sums, accumulate: bool) {
    // SAFETY: the group's threads come together, as the caller says; operands lie in shared memory.
    unsafe {
        M64::<8>::mma::<bf16, bf16, KMajor, KMajor>(sums, describe(A), describe(B), accumulate);
        wgmma::commit_group();
    }
}

/// One batch into the sums.
#[track_caller]
unsafe fn batch(sums: &mut Sums, accumulate: bool) {
    // SAFETY: the caller's contract.
    unsafe {
        wgmma::fence();
        multiply(sums, accumulate);
    }
}

fn scale(sums: &mut Sums) {
    let factor = black_box(0.5);
    for x in sums.iter_mut() {
        *x *= factor;
    }
}

fn a_sum_read_while_its_batch_is_in_flight() -> Bug {
    bug(
        "Two batches are in flight, `wait_group 1` leaves the second, and the second's sum is used",
        "softmax of S while O += P V is in flight, in the wrong order; row 15",
        GROUP,
        // SAFETY: a whole group multiplies; the use of the sum before its batch is over is the bug.
        |w, bug| unsafe {
            fill();
            let (mut o, mut s) = (<M64<8> as wgmma::Shape>::ZERO, <M64<8> as wgmma::Shape>::ZERO);
            batch(&mut o, false);
            batch(&mut s, false); //~ WP040
            wgmma::wait_group::<1>();
            <M64<8> as wgmma::Shape>::fence_operand(&mut o);
            <M64<8> as wgmma::Shape>::fence_operand(&mut s);
            let early = if bug { s } else { o };
            global::st(w.out(tid()), cvt::bf16x2(early[0], early[1])); //~ WP040
            wgmma::wait_group::<0>();
            <M64<8> as wgmma::Shape>::fence_operand(&mut s);
            global::st(w.out(128 + tid()), s[0].to_bits());
        },
    )
}

fn an_accumulator_rescaled_in_flight() -> Bug {
    bug(
        "The running sum is rescaled by the new maximum while a batch still adds to it",
        "the rescaling of O in attention",
        GROUP,
        // SAFETY: a whole group multiplies; the rescaling before the batch is over is the bug.
        |w, bug| unsafe {
            fill();
            let mut o = <M64<8> as wgmma::Shape>::ZERO;
            batch(&mut o, false);
            batch(&mut o, true); //~ WP040
            if bug {
                scale(&mut o);
            }
            wgmma::wait_group::<0>();
            <M64<8> as wgmma::Shape>::fence_operand(&mut o); //~ WP040
            if !bug {
                scale(&mut o);
            }
            batch(&mut o, true);
            wgmma::wait_group::<0>();
            <M64<8> as wgmma::Shape>::fence_operand(&mut o);
            global::st(w.out(tid()), o[0].to_bits());
        },
    )
}

fn a_fragment_overwritten_before_the_wait() -> Bug {
    bug(
        "A loop packs the next fragment of A into the registers that the batch in flight still reads",
        "P in registers, as in attention",
        GROUP,
        // SAFETY: a whole group multiplies; the fragment's registers written in flight are the bug.
        |w, bug| unsafe {
            fill();
            let (mut o, mut a) = (<M64<8> as wgmma::Shape>::ZERO, [0; 4]);
            for step in 0..3_u8 {
                if !bug && step > 0 {
                    wgmma::wait_group::<0>();
                    wgmma::fence_fragment(&mut a);
                }
                a = [cvt::bf16x2(f32::from(step), 1.0); 4];
                wgmma::fence();
                M64::<8>::mma_rs::<bf16, bf16, KMajor>(&mut o, &mut a, describe(B), step > 0); //~ WP040
                wgmma::commit_group();
            }
            wgmma::wait_group::<0>();
            <M64<8> as wgmma::Shape>::fence_operand(&mut o);
            global::st(w.out(tid()), o[0].to_bits());
        },
    )
}

fn a_fragment_replaced_before_its_fence() -> Bug {
    bug(
        "The next fragment of A is packed as soon as a batch is committed; the wait and `fence_fragment` follow",
        "P in registers, as in attention; ptxas's warning C7513",
        GROUP,
        // SAFETY: a whole group multiplies; the fragment's registers written in flight are the bug.
        |w, bug| unsafe {
            fill();
            let (mut o, mut a) = (<M64<8> as wgmma::Shape>::ZERO, [cvt::bf16x2(1.0, 1.0); 4]);
            let next = [cvt::bf16x2(black_box(2.0), 1.0); 4];
            wgmma::fence();
            M64::<8>::mma_rs::<bf16, bf16, KMajor>(&mut o, &mut a, describe(B), false); //~ WP040
            wgmma::commit_group();
            if bug {
                a = next;
            }
            wgmma::wait_group::<0>();
            wgmma::fence_fragment(&mut a); //~ WP040
            if !bug {
                a = next;
            }
            wgmma::fence();
            M64::<8>::mma_rs::<bf16, bf16, KMajor>(&mut o, &mut a, describe(B), true);
            wgmma::commit_group();
            wgmma::wait_group::<0>();
            wgmma::fence_fragment(&mut a);
            <M64<8> as wgmma::Shape>::fence_operand(&mut o);
            global::st(w.out(tid()), o[0].to_bits());
        },
    )
}

fn an_accumulator_changed_without_wgmma_fence() -> Bug {
    bug(
        "The sum is rescaled between two batches, and no `wgmma.fence` orders that before the second",
        "ptxas's warning C7519; `warpgroup_arrive` left out",
        GROUP,
        // SAFETY: a whole group multiplies; the missing fence is the bug.
        |w, bug| unsafe {
            fill();
            let mut o = <M64<8> as wgmma::Shape>::ZERO;
            batch(&mut o, false);
            wgmma::wait_group::<0>();
            <M64<8> as wgmma::Shape>::fence_operand(&mut o);
            scale(&mut o);
            if !bug {
                wgmma::fence();
            }
            multiply(&mut o, true); //~ WP041
            wgmma::wait_group::<0>();
            <M64<8> as wgmma::Shape>::fence_operand(&mut o);
            global::st(w.out(tid()), o[0].to_bits());
        },
    )
}

fn a_first_wgmma_without_wgmma_fence() -> Bug {
    bug(
        "The kernel's first wgmma has no `wgmma.fence` before it",
        "`warpgroup_arrive` left out",
        GROUP,
        // SAFETY: a whole group multiplies; the missing fence is the bug.
        |_, bug| unsafe {
            fill();
            let mut o = <M64<8> as wgmma::Shape>::ZERO;
            if !bug {
                wgmma::fence();
            }
            multiply(&mut o, true); //~ WP041
            wgmma::wait_group::<0>();
        },
    )
}

fn a_sum_used_without_fence_operand() -> Bug {
    bug(
        "The sum is used after the wait, but nothing keeps the compiler from moving the use above it",
        "`warpgroup_fence_operand` left out",
        GROUP,
        // SAFETY: a whole group multiplies; the missing fence is the bug.
        |w, bug| unsafe {
            fill();
            let mut o = <M64<8> as wgmma::Shape>::ZERO;
            batch(&mut o, false); //~ WP041
            wgmma::wait_group::<0>();
            if !bug {
                <M64<8> as wgmma::Shape>::fence_operand(&mut o);
            }
            let scaled = o.map(|x| x * black_box(2.0));
            global::st(w.out(tid()), scaled[0].to_bits()); //~ WP041
        },
    )
}

fn setmaxnreg_by_one_warp() -> Bug {
    bug(
        "Only the warp that loads gives its registers up; the other three of its group skip `setmaxnreg`",
        "row 24",
        threads(256),
        // SAFETY: a whole group gives registers up, but for the bug.
        |_, bug| unsafe {
            if warp_id() == 4 || (!bug && warp_id() > 4) {
                setmaxnreg::dec::<40>(); //~ WP024
            }
        },
    )
}

fn setmaxnreg_twice_without_a_meeting() -> Bug {
    bug(
        "A group lowers its registers and raises them again, and its warps do not meet in between",
        "row 24",
        threads(128),
        // SAFETY: the group moves registers that the pool has; the missing barrier is the bug.
        |_, bug| unsafe {
            setmaxnreg::dec::<40>(); //~ WP024
            if !bug {
                barrier::sync(1, 128);
            }
            setmaxnreg::inc::<96>(); //~ WP024
        },
    )
}

fn half_warps_at_an_unaligned_barrier() -> Bug {
    bug(
        "A barrier counts 32 threads: half of each of two warps, where the hardware counts whole warps",
        "`barrier.sync` in divergent code; row 26",
        threads(64),
        // SAFETY: the threads of a whole warp come to the barrier, but for the bug.
        |_, bug| unsafe {
            let comes = if bug { warp::lane_id() < 16 } else { warp_id() == 0 };
            if comes {
                barrier::sync_unaligned(1, 32); //~ WP022
            }
            thread::sync_threads();
        },
    )
}

fn half_warps_that_return() -> Bug {
    bug(
        "The other halves return, so each half completes the barrier alone and waits for nobody",
        "`barrier.sync` in divergent code; row 26",
        threads(64),
        // SAFETY: whole warps come to the barrier; the count of 32 is the bug.
        |_, bug| unsafe {
            if warp::lane_id() < 16 {
                barrier::sync_unaligned(1, if bug { 32 } else { 64 }); //~ WP022
            }
        },
    )
}
