//! Barriers that expect the wrong number of arrivals or bytes.

use crate::world::{BOX, init, load, smem, tid, warp_id};
use crate::{Bug, bug, family, threads};
use isa::{cp_async, cp_async_bulk as bulk, mbarrier, shared};

family! { "counts.rs":
    a_group_of_one_and_all_arrive
    a_whole_warp_arms_the_barrier
    swapped_counts
    a_cp_async_arrival_per_thread
    bytes_of_one_operand_of_two
    bytes_of_a_wider_element
    bytes_counted_in_bits
    a_count_that_rounds_to_nothing
    no_complete_that_completes
    a_parity_that_is_a_phase
}

fn a_group_of_one_and_all_arrive() -> Bug {
    bug(
        "The empty barrier counts 1 consumer thread, and every thread of the group releases the slot",
        "CUTLASS #2404; row 8",
        threads(64),
        // SAFETY: slot and barriers lie in the plan; the count that is too small is the bug.
        |w, bug| unsafe {
            let [full, empty] = init([1, if bug { 1 } else { 32 }]);
            for step in 0..4 {
                let phase = step & 1;
                if tid() == 0 {
                    mbarrier::wait_parity(empty, phase ^ 1); //~ WP001 WP010
                    load(w, smem(128), full); //~ WP017 WP034
                } else if warp_id() == 1 {
                    mbarrier::wait_parity(full, phase); //~ WP001 WP010
                    shared::ld::<u32>(smem(128)); //~ WP017 WP034
                    mbarrier::arrive(empty);
                }
            }
        },
    )
}

fn a_whole_warp_arms_the_barrier() -> Bug {
    bug(
        "All 32 lanes of the producer's warp expect the bytes, and the barrier counts one arrival",
        "Triton #9498's review; row 8",
        threads(32),
        // SAFETY: one lane expects and loads, but for the bug, where all expect.
        |w, bug| unsafe {
            let [full] = init([1]);
            if bug || tid() == 0 {
                mbarrier::arrive_expect_tx(full, BOX); //~ WP004
            }
            if tid() == 0 {
                bulk::tensor_load(smem(128), w.map(), [0, 0], full);
            }
            mbarrier::wait_parity(full, 0);
        },
    )
}

fn swapped_counts() -> Bug {
    bug(
        "The full barrier counts the math threads and the empty barrier the single producer",
        "the array of barriers of a skill file, `cuda-matmul-barrier`; row 8",
        threads(64),
        // SAFETY: slot and barriers lie in the plan; the counts that are swapped are the bug.
        |w, bug| unsafe {
            let math_threads = 32;
            let [full, empty] = init(if bug { [math_threads, 1] } else { [1, math_threads] });
            for phase in [0, 1] {
                if tid() == 0 {
                    mbarrier::wait_parity(empty, phase ^ 1); //~ WP001
                    load(w, smem(128), full);
                } else if warp_id() == 1 {
                    mbarrier::wait_parity(full, phase); //~ WP001
                    mbarrier::arrive(empty);
                }
            }
        },
    )
}

fn a_cp_async_arrival_per_thread() -> Bug {
    bug(
        "`cp.async.mbarrier.arrive.noinc` of 32 threads on a barrier of one arrival and its bytes",
        "PTX manual, `.noinc`; row 8",
        threads(32),
        // SAFETY: 16 bytes for each thread on both sides; the count that is too small is the bug.
        |w, bug| unsafe {
            let [full] = init([if bug { 31 } else { 32 }]);
            cp_async::copy_16(smem(128 + 16 * tid()), w.words().add(16 * tid() as usize));
            mbarrier::cp_async_arrive_noinc(full); //~ WP004
            mbarrier::wait_parity(full, 0); //~ WP017
            shared::ld::<u32>(smem(128 + 16 * tid())); //~ WP017
        },
    )
}

fn bytes_of_one_operand_of_two() -> Bug {
    bug(
        "Two copies complete on the barrier, and the bytes of one are expected",
        "pyptx's page on mbarriers, its checklist; row 6",
        threads(32),
        // SAFETY: both boxes lie in shared memory; that too few bytes are expected is the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            if tid() == 0 {
                mbarrier::arrive_expect_tx(full, if bug { BOX } else { 2 * BOX }); //~ WP003
                bulk::tensor_load(smem(128), w.map(), [0, 0], full); //~ WP003 WP028
                bulk::tensor_load(smem(512), w.map(), [8, 0], full); //~ WP003 WP028
            }
            mbarrier::wait_parity(full, 0);
        },
    )
}

fn bytes_of_a_wider_element() -> Bug {
    bug(
        "The expected bytes are computed with the accumulator's element, not the operand's",
        "row 6",
        threads(32),
        // SAFETY: the box lies in shared memory; that too many bytes are expected is the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            if tid() == 0 {
                mbarrier::arrive_expect_tx(full, if bug { 2 * BOX } else { BOX }); //~ WP002
                bulk::tensor_load(smem(128), w.map(), [0, 0], full);
            }
            mbarrier::wait_parity(full, 0);
        },
    )
}

fn bytes_counted_in_bits() -> Bug {
    bug(
        "The expected bytes of a large stage are given in bits: more than an mbarrier's 2^20 - 1",
        "row 33",
        threads(32),
        // SAFETY: what is expected is completed, within an mbarrier's range but for the bug.
        |_, bug| unsafe {
            let [full] = init([1]);
            let bytes = 160 * 1024;
            if tid() == 0 {
                mbarrier::expect_tx(full, if bug { 8 * bytes } else { bytes }); //~ WP005
                mbarrier::complete_tx(full, bytes);
                mbarrier::arrive(full);
            }
        },
    )
}

fn a_count_that_rounds_to_nothing() -> Bug {
    bug(
        "A count of warp groups, computed for a block that has less than one",
        "row 33",
        threads(64),
        // SAFETY: one thread initialises, with a count of at least 1 but for the bug.
        |_, bug| unsafe {
            if tid() == 0 {
                let groups = isa::thread::block_dim_x() / 128;
                mbarrier::init(smem(0), if bug { groups } else { groups.max(1) }); //~ WP005
            }
        },
    )
}

fn no_complete_that_completes() -> Bug {
    bug(
        "The last arrival of a phase is made with `arrive.noComplete`",
        "PTX manual, `mbarrier.arrive.noComplete`",
        threads(32),
        // SAFETY: one arrival is left for the last line, but for the bug.
        |_, bug| unsafe {
            let [bar] = init([2]);
            if tid() == 0 {
                mbarrier::arrive_no_complete(bar, if bug { 2 } else { 1 }); //~ WP011
                mbarrier::arrive(bar);
            }
        },
    )
}

fn a_parity_that_is_a_phase() -> Bug {
    bug(
        "The wait is given the number of the phase, not its parity",
        "row 9",
        threads(32),
        // SAFETY: each of 32 threads arrives and waits; a parity above 1 is the bug.
        |_, bug| unsafe {
            let [bar] = init([32]);
            for phase in 0..3 {
                mbarrier::arrive(bar);
                mbarrier::wait_parity(bar, if bug { phase } else { phase & 1 }); //~ WP033
            }
        },
    )
}
