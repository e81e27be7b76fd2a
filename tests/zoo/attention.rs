//! Attention: two products in flight, an operand in registers, rings of Q, K and V, turns.

use crate::world::{BOX, World, init, load, smem, tid, warp_id};
use crate::{Bug, Shape, bug, family, threads};
use half::bf16;
use isa::wgmma::{self, KMajor, M64, Shape as _, Swizzle};
use isa::{barrier, cp_async_bulk as bulk, cvt, fence, global, mbarrier, shared, thread};
use std::hint::black_box;

family! { "attention.rs":
    a_p_packed_while_the_last_one_is_read
    a_v_released_when_the_scores_are_there
    a_v_released_in_place_of_k
    a_q_loaded_over_the_tile_that_is_read
    an_o_rescaled_beside_the_scores
    an_o_staged_over_the_next_tiles_q
    a_p_packed_behind_the_only_wgmma_fence
    a_v_armed_with_the_bytes_of_k
    a_v_awaited_with_the_parity_of_k
    a_turn_passed_on_twice
    a_turn_kept_in_a_masked_block
    a_first_turn_that_nobody_has
}

/// A group that multiplies.
const GROUP: Shape = Shape { smem: 8192, ..threads(128) };
/// The same, and a warp whose first thread loads.
const LOADED: Shape = Shape { smem: 8192, ..threads(160) };
/// Two groups that multiply.
const GROUPS: Shape = Shape { smem: 8192, ..threads(256) };

/// 64 queries of 32 bytes, two blocks of 16 keys, and two of 8 columns of 16 values.
const Q: u32 = 1024;
const K: [u32; 2] = [Q + 64 * 32, Q + 64 * 32 + 2 * BOX];
const V: [u32; 2] = [K[1] + 2 * BOX, K[1] + 3 * BOX];
const END: u32 = V[1] + BOX;

type Scores = [f32; 8];
type Sums = [f32; 4];

fn describe(at: u32) -> u64 {
    wgmma::descriptor(smem(at), 128, 256, Swizzle::None)
}

/// All threads write ones to all operands.
unsafe fn fill() {
    for at in (Q + 4 * tid()..END).step_by(4 * thread::block_dim_x() as usize) {
        // SAFETY: the words of the operands lie in shared memory, and each thread has its own.
        unsafe { shared::st(smem(at), 0x3f80_3f80_u32) };
    }
    fence::proxy_async_shared_cta();
    // SAFETY: all threads of the CTA come.
    unsafe { thread::sync_threads() };
}

/// S = Q·Kᵀ, a batch.
#[track_caller]
unsafe fn qk(s: &mut Scores, k: u32) {
    // SAFETY: the group's threads come together, as the caller says; operands lie in shared memory.
    unsafe {
        wgmma::fence();
        M64::<16>::mma::<bf16, bf16, KMajor, KMajor>(s, describe(Q), describe(k), false);
        wgmma::commit_group();
    }
}

/// O += P·V, a batch.
#[track_caller]
unsafe fn pv(o: &mut Sums, p: &mut [u32; 4], v: u32) {
    // SAFETY: the caller's contract, as in `qk`.
    unsafe {
        wgmma::fence();
        M64::<8>::mma_rs::<bf16, bf16, KMajor>(o, p, describe(v), true);
        wgmma::commit_group();
    }
}

/// Waits for all batches but the last `PENDING`, which are not those of the scores.
#[track_caller]
unsafe fn wait<const PENDING: u32>(s: &mut Scores) {
    // SAFETY: the caller's contract, as in `qk`.
    unsafe { wgmma::wait_group::<PENDING>() };
    <M64<16> as wgmma::Shape>::fence_operand(s);
}

/// Weights of a block: scores by some factor, in bf16.
fn pack(s: &Scores, by: f32) -> [u32; 4] {
    let by = black_box(by);
    std::array::from_fn(|i| cvt::bf16x2(by * s[2 * i], by * s[2 * i + 1]))
}

fn a_p_packed_while_the_last_one_is_read() -> Bug {
    bug(
        "`wait_group 1` waits for the scores, and no wait for P·V follows: the next weights are packed into the \
         registers that it still reads",
        "FlashAttention's overlap; ptxas's warning C7513",
        GROUP,
        // SAFETY: a whole group multiplies; the fragment's registers written in flight are the bug.
        |w, bug| unsafe {
            fill();
            let (mut s, mut o) = (<M64<16> as wgmma::Shape>::ZERO, <M64<8> as wgmma::Shape>::ZERO);
            qk(&mut s, K[0]);
            wait::<0>(&mut s);
            let mut p = pack(&s, 1.0);
            for block in 1..3_u8 {
                qk(&mut s, K[0]);
                pv(&mut o, &mut p, V[0]); //~ WP040
                wait::<1>(&mut s);
                if !bug {
                    wgmma::wait_group::<0>();
                    <M64<8> as wgmma::Shape>::fence_operand(&mut o);
                    wgmma::fence_fragment(&mut p);
                }
                p = pack(&s, 1.0 / f32::from(1 + block));
            }
            pv(&mut o, &mut p, V[0]);
            wgmma::wait_group::<0>();
            <M64<8> as wgmma::Shape>::fence_operand(&mut o);
            global::st(w.out(tid()), o[0].to_bits());
        },
    )
}

fn a_v_released_when_the_scores_are_there() -> Bug {
    bug(
        "S and P·V are in flight, `wait_group 1` leaves P·V, and V's slot is released with K's",
        "FlashAttention's overlap; row 16",
        LOADED,
        // SAFETY: a whole group multiplies; the slot's release before its batch is over is the bug.
        |w, bug| unsafe {
            let [full, empty] = init([1, 128]);
            fill();
            if tid() == 128 {
                mbarrier::wait_parity(empty, 0);
                load(w, smem(V[0]), full); //~ WP018
                mbarrier::wait_parity(full, 0);
            } else if tid() < 128 {
                let (mut s, mut o, mut p) =
                    (<M64<16> as wgmma::Shape>::ZERO, <M64<8> as wgmma::Shape>::ZERO, [0; 4]);
                qk(&mut s, K[0]);
                pv(&mut o, &mut p, V[0]); //~ WP018
                wait::<1>(&mut s);
                if bug {
                    mbarrier::arrive(empty);
                }
                global::st(w.out(tid()), s[0].to_bits());
                wgmma::wait_group::<0>();
                if !bug {
                    mbarrier::arrive(empty);
                }
            }
        },
    )
}

fn a_v_released_in_place_of_k() -> Bug {
    bug(
        "The rings of K and V are released in the wrong order: V's slot when the scores are there, K's at the end",
        "two rings that advance apart; row 4",
        LOADED,
        // SAFETY: a whole group multiplies; the release of the other ring's slot is the bug.
        |w, bug| unsafe {
            let [full, empty_k, empty_v] = init([2, 128, 128]);
            fill();
            if tid() == 128 {
                mbarrier::wait_parity(if bug { empty_v } else { empty_k }, 0);
                load(w, smem(if bug { V[0] } else { K[0] }), full); //~ WP018
                mbarrier::wait_parity(if bug { empty_k } else { empty_v }, 0);
                load(w, smem(if bug { K[0] } else { V[0] }), full);
                mbarrier::wait_parity(full, 0);
            } else if tid() < 128 {
                let (mut s, mut o, mut p) =
                    (<M64<16> as wgmma::Shape>::ZERO, <M64<8> as wgmma::Shape>::ZERO, [0; 4]);
                qk(&mut s, K[0]);
                pv(&mut o, &mut p, V[0]); //~ WP018
                wait::<1>(&mut s);
                mbarrier::arrive(if bug { empty_v } else { empty_k });
                global::st(w.out(tid()), s[0].to_bits());
                wgmma::wait_group::<0>();
                mbarrier::arrive(if bug { empty_k } else { empty_v });
            }
        },
    )
}

fn a_q_loaded_over_the_tile_that_is_read() -> Bug {
    bug(
        "The next tile's Q is loaded when the last K has been released, and not when Q has: there is one buffer",
        "a persistent kernel's seam between tiles; row 1",
        LOADED,
        // SAFETY: a whole group multiplies; the load without an acquire is the bug.
        |w, bug| unsafe {
            let [full, empty_k, empty_q] = init([1, 128, 128]);
            fill();
            if tid() == 128 {
                mbarrier::wait_parity(empty_k, 0);
                if !bug {
                    mbarrier::wait_parity(empty_q, 0);
                }
                load(w, smem(Q), full); //~ WP018
                mbarrier::wait_parity(full, 0);
            } else if tid() < 128 {
                let mut s = [<M64<16> as wgmma::Shape>::ZERO; 2];
                qk(&mut s[0], K[0]);
                qk(&mut s[1], K[1]); //~ WP018
                wgmma::wait_group::<1>();
                <M64<16> as wgmma::Shape>::fence_operand(&mut s[0]);
                mbarrier::arrive(empty_k);
                global::st(w.out(tid()), s[0][0].to_bits());
                wgmma::wait_group::<0>();
                mbarrier::arrive(empty_q);
            }
        },
    )
}

fn an_o_rescaled_beside_the_scores() -> Bug {
    bug(
        "The new maximum is known when the scores are there, and O is rescaled at once: P·V still adds to it",
        "FlashAttention's overlap; row 15",
        GROUP,
        // SAFETY: a whole group multiplies; the rescaling before the batch is over is the bug.
        |w, bug| unsafe {
            fill();
            let (mut s, mut o) = (<M64<16> as wgmma::Shape>::ZERO, <M64<8> as wgmma::Shape>::ZERO);
            let mut p = pack(&[1.0; 8], 1.0);
            let scale = |o: &mut Sums| *o = o.map(|x| x * black_box(0.5));
            pv(&mut o, &mut p, V[0]);
            for _block in 0..2 {
                qk(&mut s, K[0]);
                pv(&mut o, &mut p, V[0]); //~ WP040
                wait::<1>(&mut s);
                if bug {
                    scale(&mut o);
                }
                wgmma::wait_group::<0>();
                <M64<8> as wgmma::Shape>::fence_operand(&mut o);
                wgmma::fence_fragment(&mut p);
                if !bug {
                    scale(&mut o);
                }
            }
            global::st(w.out(tid()), o[0].to_bits());
        },
    )
}

fn an_o_staged_over_the_next_tiles_q() -> Bug {
    bug(
        "O is staged in the buffer of Q, as it may be at the end of a kernel; here the next tile's scores, whose Q is \
         in it, are in flight",
        "a persistent kernel's seam between tiles; row 31",
        GROUP,
        // SAFETY: a whole group multiplies; the write before the batch is over is the bug.
        |_, bug| unsafe {
            fill();
            let (mut s, mut o, mut p) =
                (<M64<16> as wgmma::Shape>::ZERO, <M64<8> as wgmma::Shape>::ZERO, [0; 4]);
            pv(&mut o, &mut p, V[0]);
            qk(&mut s, K[1]); //~ WP018
            if bug {
                wgmma::wait_group::<1>();
            } else {
                wait::<0>(&mut s);
            }
            <M64<8> as wgmma::Shape>::fence_operand(&mut o);
            thread::sync_threads();
            shared::st(smem(Q + 4 * tid()), o[0].to_bits()); //~ WP018
            wgmma::wait_group::<0>();
        },
    )
}

fn a_p_packed_behind_the_only_wgmma_fence() -> Bug {
    bug(
        "A block has one `wgmma.fence`, before its first product: the weights are packed behind it, and P·V reads them",
        "ptxas's warning C7519; `warpgroup_arrive` left out",
        GROUP,
        // SAFETY: a whole group multiplies; the missing fence is the bug.
        |w, bug| unsafe {
            fill();
            let (mut s, mut o) = (<M64<16> as wgmma::Shape>::ZERO, <M64<8> as wgmma::Shape>::ZERO);
            for _block in 0..2 {
                qk(&mut s, K[0]);
                wait::<0>(&mut s);
                let mut p = pack(&s, 1.0);
                if !bug {
                    wgmma::fence();
                }
                M64::<8>::mma_rs::<bf16, bf16, KMajor>(&mut o, &mut p, describe(V[0]), true); //~ WP041
                wgmma::commit_group();
                wgmma::wait_group::<0>();
                <M64<8> as wgmma::Shape>::fence_operand(&mut o);
                wgmma::fence_fragment(&mut p);
            }
            global::st(w.out(tid()), o[0].to_bits());
        },
    )
}

/// Loads a block of keys.
#[track_caller]
unsafe fn load_k(w: &World, to: u32, full: u32) {
    // SAFETY: the contracts of the instructions.
    unsafe {
        mbarrier::arrive_expect_tx(full, 2 * BOX);
        for half in [0, BOX] {
            bulk::tensor_load(smem(to + half), w.map(), [0, 0], full);
        }
    }
}

fn a_v_armed_with_the_bytes_of_k() -> Bug {
    bug(
        "V's barrier expects the bytes of a block of K, which is wider",
        "a head of K wider than one of V, as in MLA; row 6",
        LOADED,
        // SAFETY: a whole group multiplies what has arrived; the wrong bytes are the bug.
        |w, bug| unsafe {
            let [full_k, full_v] = init([1, 1]);
            fill();
            if tid() == 128 {
                load_k(w, K[0], full_k);
                mbarrier::arrive_expect_tx(full_v, if bug { 2 * BOX } else { BOX }); //~ WP002
                bulk::tensor_load(smem(V[0]), w.map(), [0, 0], full_v);
            } else if tid() < 128 {
                let (mut s, mut o, mut p) =
                    (<M64<16> as wgmma::Shape>::ZERO, <M64<8> as wgmma::Shape>::ZERO, [0; 4]);
                mbarrier::wait_parity(full_k, 0);
                qk(&mut s, K[0]);
                mbarrier::wait_parity(full_v, 0);
                pv(&mut o, &mut p, V[0]);
                wgmma::wait_group::<0>();
            }
        },
    )
}

fn a_v_awaited_with_the_parity_of_k() -> Bug {
    bug(
        "K has two stages and V one, and V is awaited with the phase of K's state: block 1 is multiplied by V 0, or by \
         a V that is on its way",
        "rings of different depths; row 9",
        LOADED,
        // SAFETY: a whole group multiplies; the wrong parity is the bug.
        |w, bug| unsafe {
            let [k0, k1, full_v, empty_v] = init([1, 1, 1, 128]);
            let full_k = [k0, k1];
            fill();
            if tid() == 128 {
                for block in 0..2 {
                    load_k(w, K[block as usize], full_k[block as usize]);
                    mbarrier::wait_parity(empty_v, block ^ 1);
                    load(w, smem(V[0]), full_v); //~ WP017
                }
            } else if tid() < 128 {
                let (mut s, mut o, mut p) =
                    (<M64<16> as wgmma::Shape>::ZERO, <M64<8> as wgmma::Shape>::ZERO, [0; 4]);
                for block in 0..2 {
                    mbarrier::wait_parity(full_k[block as usize], 0);
                    qk(&mut s, K[block as usize]);
                    wait::<0>(&mut s);
                    mbarrier::wait_parity(full_v, if bug { 0 } else { block }); //~ WP010
                    pv(&mut o, &mut p, V[0]);
                    wgmma::wait_group::<0>();
                    <M64<8> as wgmma::Shape>::fence_operand(&mut o);
                    mbarrier::arrive(empty_v);
                }
            }
        },
    )
}

/// The barrier at which a group waits for its turn.
const TURNS: u32 = 1;

fn a_turn_passed_on_twice() -> Bug {
    bug(
        "A group passes its turn on behind the scores' product, and again behind P·V",
        "FlashAttention-3's `warp_scheduler_barrier_arrive`; row 13",
        GROUPS,
        // SAFETY: whole groups multiply and meet; the second arrival is the bug.
        |_, bug| unsafe {
            fill();
            let (mut s, mut o, mut p) =
                (<M64<16> as wgmma::Shape>::ZERO, <M64<8> as wgmma::Shape>::ZERO, [0; 4]);
            let (own, next) = (warp_id() / 4, 1 - warp_id() / 4);
            if own == 1 {
                barrier::arrive(TURNS, 256);
            }
            for _block in 0..3 {
                barrier::sync(TURNS + own, 256);
                qk(&mut s, K[0]);
                if bug && own == 0 {
                    barrier::arrive(TURNS + next, 256); //~ WP022
                }
                pv(&mut o, &mut p, V[0]);
                barrier::arrive(TURNS + next, 256); //~ WP022
                wait::<0>(&mut s);
            }
        },
    )
}

fn a_turn_kept_in_a_masked_block() -> Bug {
    bug(
        "A group leaves out the blocks that its mask hides, and its turns with them; the other group waits for those turns",
        "masked blocks in attention; rows 26, 45",
        GROUPS,
        // SAFETY: whole groups multiply and meet; the missing arrival is the bug.
        |_, bug| unsafe {
            fill();
            let mut s = <M64<16> as wgmma::Shape>::ZERO;
            let (own, next) = (warp_id() / 4, 1 - warp_id() / 4);
            if own == 1 {
                barrier::arrive(TURNS, 256);
            }
            for block in 0..3 {
                let masked = own == 1 && block > 0;
                if bug && masked {
                    continue;
                }
                barrier::sync(TURNS + own, 256); //~ WP001
                if !masked {
                    qk(&mut s, K[0]);
                }
                barrier::arrive(TURNS + next, 256);
                if !masked {
                    wait::<0>(&mut s);
                }
            }
        },
    )
}

fn a_first_turn_that_nobody_has() -> Bug {
    bug(
        "Both groups wait for their turn, and nobody passed the first one to group 0",
        "FlashAttention-3's `mma_init` left out; row 26",
        GROUPS,
        // SAFETY: whole groups multiply and meet; the missing first arrival is the bug.
        |_, bug| unsafe {
            fill();
            let mut s = <M64<16> as wgmma::Shape>::ZERO;
            let (own, next) = (warp_id() / 4, 1 - warp_id() / 4);
            if !bug && own == 1 {
                barrier::arrive(TURNS, 256);
            }
            for _block in 0..3 {
                barrier::sync(TURNS + own, 256); //~ WP001
                qk(&mut s, K[0]);
                barrier::arrive(TURNS + next, 256);
                wait::<0>(&mut s);
            }
        },
    )
}
