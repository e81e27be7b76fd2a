//! Roles that wait for each other, or for an arrival that never comes.

use crate::world::{init, load, smem, tid, warp_id};
use crate::{Bug, Shape, bug, family, threads};
use isa::{barrier, global, mbarrier, setmaxnreg, shared, thread};

family! { "deadlocks.rs":
    an_arrival_of_one_for_a_group
    a_first_wait_that_does_not_pass
    a_role_that_returns_early
    a_producer_one_step_short
    a_consumer_that_keeps_a_slot
    rings_in_opposite_orders
    roles_that_disagree_on_the_last_tile
    sync_threads_inside_roles
    a_turn_that_nobody_passes_on
    registers_that_nobody_gave_up
}

/// Threads 0 and 32 to 63 are the roles of most kernels here.
const PRODUCER: u32 = 0;

fn consumer() -> bool {
    warp_id() == 1
}

fn an_arrival_of_one_for_a_group() -> Bug {
    bug(
        "The empty barrier counts a warp of consumers, of which one arrives",
        "CUTLASS #2404, the other way round; row 8",
        threads(64),
        // SAFETY: each slot is waited for and released; that one of 32 releases it is the bug.
        |w, bug| unsafe {
            let [full, empty] = init([1, 32]);
            for phase in [0, 1] {
                if tid() == PRODUCER {
                    mbarrier::wait_parity(empty, phase ^ 1); //~ WP001
                    load(w, smem(128), full);
                } else if consumer() {
                    mbarrier::wait_parity(full, phase);
                    shared::ld::<u32>(smem(128));
                    if !bug || tid() == 32 {
                        mbarrier::arrive(empty);
                    }
                }
            }
        },
    )
}

fn a_first_wait_that_does_not_pass() -> Bug {
    bug(
        "The producer's first phase is 0, so it waits for a release that no consumer has to make",
        "row 9",
        threads(64),
        // SAFETY: each slot is waited for and released; the parity of the first wait is the bug.
        |w, bug| unsafe {
            let [full, empty] = init([1, 32]);
            if tid() == PRODUCER {
                mbarrier::wait_parity(empty, u32::from(!bug)); //~ WP001
                load(w, smem(128), full);
            } else if consumer() {
                mbarrier::wait_parity(full, 0);
                shared::ld::<u32>(smem(128));
                mbarrier::arrive(empty);
            }
        },
    )
}

fn a_role_that_returns_early() -> Bug {
    bug(
        "A warp without work leaves, and its arrival at the slot that the others share is missing",
        "row 26",
        threads(96),
        // SAFETY: each slot is waited for and released; that a warp leaves before is the bug.
        |w, bug| unsafe {
            let [full, empty] = init([1, 64]);
            for phase in [0, 1] {
                if tid() == PRODUCER {
                    mbarrier::wait_parity(empty, phase ^ 1); //~ WP001
                    load(w, smem(128), full);
                } else if warp_id() > 0 {
                    if bug && warp_id() == 2 {
                        return;
                    }
                    mbarrier::wait_parity(full, phase);
                    mbarrier::arrive(empty);
                }
            }
        },
    )
}

fn a_producer_one_step_short() -> Bug {
    bug(
        "The producer rounds the steps along K down, the consumers round them up",
        "row 27",
        threads(64),
        // SAFETY: each slot is waited for and released; the step that nobody loads is the bug.
        |w, bug| unsafe {
            let [full, empty] = init([1, 32]);
            let k = 20_u32;
            if tid() == PRODUCER {
                for step in 0..if bug { k / 8 } else { k.div_ceil(8) } {
                    mbarrier::wait_parity(empty, (step & 1) ^ 1);
                    load(w, smem(128), full);
                }
            } else if consumer() {
                for step in 0..k.div_ceil(8) {
                    mbarrier::wait_parity(full, step & 1); //~ WP001
                    mbarrier::arrive(empty);
                }
            }
        },
    )
}

fn a_consumer_that_keeps_a_slot() -> Bug {
    bug(
        "A masked-out step skips the release together with the arithmetic",
        "rows 38, 40",
        threads(64),
        // SAFETY: each slot is waited for and released; the step that keeps it is the bug.
        |w, bug| unsafe {
            let [full, empty] = init([1, 32]);
            for step in 0..3 {
                let (phase, masked) = (step & 1, step == 1);
                if tid() == PRODUCER {
                    mbarrier::wait_parity(empty, phase ^ 1); //~ WP001
                    load(w, smem(128), full);
                } else if consumer() {
                    mbarrier::wait_parity(full, phase);
                    if bug && masked {
                        continue;
                    }
                    mbarrier::arrive(empty);
                }
            }
        },
    )
}

fn rings_in_opposite_orders() -> Bug {
    bug(
        "The producer fills K's ring before V's, the consumer empties V's first",
        "row 28",
        threads(64),
        // SAFETY: each slot is waited for and released; that the roles' orders differ is the bug.
        |w, bug| unsafe {
            let [k_full, k_empty, v_full, v_empty] = init([1, 32, 1, 32]);
            if tid() == PRODUCER {
                for phase in [0, 1] {
                    mbarrier::wait_parity(k_empty, phase ^ 1); //~ WP001
                    load(w, smem(128), k_full);
                }
                mbarrier::wait_parity(v_empty, 1);
                load(w, smem(512), v_full);
            } else if consumer() {
                if bug {
                    mbarrier::wait_parity(v_full, 0); //~ WP001
                }
                for phase in [0, 1] {
                    mbarrier::wait_parity(k_full, phase);
                    mbarrier::arrive(k_empty);
                }
                if !bug {
                    mbarrier::wait_parity(v_full, 0);
                }
            }
        },
    )
}

fn roles_that_disagree_on_the_last_tile() -> Bug {
    const TILES: u32 = 5;
    bug(
        "Roles of a persistent kernel decode their work separately, and the consumers skip the last tile",
        "QuACK 0.6.4's grouped GEMM (marin #8870); row 32",
        Shape { ctas: 2, ..threads(64) },
        // SAFETY: each slot is waited for and released; the tile that one role lacks is the bug.
        |w, bug| unsafe {
            let [full, empty] = init([1, 32]);
            let (cta, ctas) = (thread::block_idx_x(), thread::grid_dim_x());
            let tiles = if bug && consumer() { TILES - 1 } else { TILES };
            for (step, _tile) in (cta..tiles).step_by(ctas as usize).enumerate() {
                let phase = step as u32 & 1;
                if tid() == PRODUCER {
                    mbarrier::wait_parity(empty, phase ^ 1);
                    load(w, smem(128), full);
                } else if consumer() {
                    mbarrier::wait_parity(full, phase);
                    mbarrier::arrive(empty);
                }
            }
            if tid() == PRODUCER {
                // The tail: CTAs of a cluster may not leave before their last slot was read.
                let steps = (TILES - cta).div_ceil(ctas);
                mbarrier::wait_parity(empty, (steps & 1) ^ 1); //~ WP001
            }
        },
    )
}

fn sync_threads_inside_roles() -> Bug {
    bug(
        "`bar.sync 0` before every wait, as in a kernel without roles: the producer has a step more",
        "pyptx's page on mbarriers, step 5",
        threads(64),
        // SAFETY: without the bug nobody calls `sync_threads`, with it not all do as often.
        |w, bug| unsafe {
            let [full, empty] = init([1, 32]);
            if warp_id() == 0 {
                for phase in [0, 1] {
                    if tid() == PRODUCER {
                        mbarrier::wait_parity(empty, phase ^ 1);
                        load(w, smem(128), full);
                    }
                    if bug {
                        thread::sync_threads(); //~ WP001
                    }
                }
                if tid() == PRODUCER {
                    mbarrier::wait_parity(empty, 1);
                }
                if bug {
                    thread::sync_threads(); //~ WP001
                }
            } else {
                for phase in [0, 1] {
                    if bug {
                        thread::sync_threads(); //~ WP001
                    }
                    mbarrier::wait_parity(full, phase);
                    mbarrier::arrive(empty);
                }
            }
        },
    )
}

fn a_turn_that_nobody_passes_on() -> Bug {
    bug(
        "Stream-K: the second CTA of a tile waits for a turn that the first forgets to pass on",
        "row 26, between CTAs",
        Shape { ctas: 2, ..threads(32) },
        // SAFETY: the word is read behind its release, which the bug leaves out.
        |w, bug| unsafe {
            if tid() > 0 {
                return;
            }
            let turn = w.out(0);
            if thread::block_idx_x() == 0 {
                global::st(w.out(1), 7);
                if !bug {
                    global::red_release_gpu_add_u32(turn, 1);
                }
            } else {
                global::wait_acquire_gpu_u32(turn, 1); //~ WP001
                global::ld::<u32>(w.out(1));
            }
        },
    )
}

fn registers_that_nobody_gave_up() -> Bug {
    bug(
        "The math groups ask for 232 registers, and the producer's group keeps its 168",
        "row 24",
        threads(384),
        // SAFETY: whole warp groups move registers that the pool has, but for the bug.
        |_, bug| unsafe {
            if warp_id() >= 4 {
                setmaxnreg::inc::<232>(); //~ WP001
                barrier::sync(1, 256);
            } else if !bug {
                setmaxnreg::dec::<40>();
            }
        },
    )
}
