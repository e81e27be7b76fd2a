//! Parities that no longer identify the phase.

use crate::world::{init, load, smem, tid, warp_id};
use crate::{Bug, bug, family, threads};
use isa::{mbarrier, shared, warp};

family! { "phases.rs":
    an_arriver_two_ahead
    a_second_waiter_that_nobody_awaits
    a_load_order_two_ahead_with_room
    lanes_that_leave_the_arrival_to_the_first
    a_phase_that_is_not_flipped
    a_phase_per_step_in_a_ring_of_two
    an_advance_between_wait_and_copy
    a_release_before_the_read
}

fn an_arriver_two_ahead() -> Bug {
    bug(
        "The first group of an ordered pair arrives once per tile, and nothing keeps it from running two tiles ahead",
        "row 11",
        threads(64),
        // SAFETY: barriers of two arrivers that wait for each other, but for the bug.
        |_, bug| unsafe {
            let [order, back] = init([1, 1]);
            for tile in 0..6 {
                let phase = tile & 1;
                if tid() == 0 {
                    mbarrier::arrive(order);
                    if !bug {
                        mbarrier::wait_parity(back, phase);
                    }
                } else if tid() == 32 {
                    mbarrier::wait_parity(order, phase); //~ WP010 WP001
                    mbarrier::arrive(back);
                }
            }
        },
    )
}

fn a_second_waiter_that_nobody_awaits() -> Bug {
    bug(
        "Two roles wait for each phase, and the barrier on which they answer counts only one of them",
        "row 35",
        threads(96),
        // SAFETY: all who wait arrive at `back`, but for the bug.
        |_, bug| unsafe {
            let [done, back] = init([1, if bug { 1 } else { 2 }]);
            for step in 0..4 {
                let phase = step & 1;
                if tid() == 0 {
                    mbarrier::arrive(done);
                    mbarrier::wait_parity(back, phase);
                } else if tid() == 32 {
                    mbarrier::wait_parity(done, phase);
                    mbarrier::arrive(back);
                } else if tid() == 64 {
                    mbarrier::wait_parity(done, phase); //~ WP010 WP001
                    if !bug {
                        mbarrier::arrive(back);
                    }
                }
            }
        },
    )
}

fn a_load_order_two_ahead_with_room() -> Bug {
    bug(
        "The main loop's loads are ordered before C's once per tile, and a ring of four slots lets them run four \
         tiles ahead: only a load warp that is very slow is lapped",
        "row 11",
        threads(96),
        // SAFETY: with one slot, a tile's loads begin when the tile before is over, and so is its wait.
        |_, bug| unsafe {
            let bars = init([1; 11]);
            let [order, c_full, c_empty] = [bars[8], bars[9], bars[10]];
            let stages = if bug { 4 } else { 1 };
            for tile in 0..8_u32 {
                let (stage, phase) = ((tile % stages) as usize, (tile / stages) & 1);
                let (full, empty) = (bars[stage], bars[4 + stage]);
                if tid() == 0 {
                    mbarrier::wait_parity(empty, phase ^ 1);
                    mbarrier::arrive(full);
                    mbarrier::arrive(order); //~ WP010
                } else if tid() == 32 {
                    mbarrier::wait_parity(order, tile & 1); //~ WP010 WP001
                    mbarrier::wait_parity(c_empty, (tile & 1) ^ 1);
                    mbarrier::arrive(c_full);
                } else if tid() == 64 {
                    mbarrier::wait_parity(full, phase);
                    mbarrier::wait_parity(c_full, tile & 1);
                    mbarrier::arrive(c_empty);
                    mbarrier::arrive(empty);
                }
            }
        },
    )
}

fn lanes_that_leave_the_arrival_to_the_first() -> Bug {
    bug(
        "A whole warp waits, and its first lane arrives for it without `bar.warp.sync`: the other lanes may be \
         waiting still",
        "`if (lane == 0) arrive` after a loop of try_wait",
        threads(64),
        // SAFETY: a barrier of one arrival in each direction, but for the bug.
        |_, bug| unsafe {
            let [full, empty] = init([1, 1]);
            for step in 0..4 {
                let phase = step & 1;
                if tid() == 0 {
                    mbarrier::wait_parity(empty, phase ^ 1);
                    mbarrier::arrive(full); //~ WP010
                } else if warp_id() == 1 {
                    mbarrier::wait_parity(full, phase); //~ WP010 WP001
                    if !bug {
                        warp::sync_warp(u32::MAX);
                    }
                    if tid() == 32 {
                        mbarrier::arrive(empty);
                    }
                }
            }
        },
    )
}

fn a_phase_that_is_not_flipped() -> Bug {
    bug(
        "The consumer forgets `phase ^= 1`: its second wait passes at once, and it reads what is in flight",
        "pyptx's page on mbarriers, step 3; row 9",
        threads(64),
        // SAFETY: the slot is read behind its phase, but for the bug.
        |w, bug| unsafe {
            let [full, empty] = init([1, 32]);
            for phase in [0, 1] {
                if tid() == 0 {
                    mbarrier::wait_parity(empty, phase ^ 1); //~ WP010
                    load(w, smem(128), full); //~ WP017 WP034
                } else if warp_id() == 1 {
                    mbarrier::wait_parity(full, if bug { 0 } else { phase }); //~ WP010
                    shared::ld::<u32>(smem(128)); //~ WP017 WP034
                    mbarrier::arrive(empty); //~ WP010
                }
            }
        },
    )
}

fn a_phase_per_step_in_a_ring_of_two() -> Bug {
    bug(
        "The phase flips with each step, as if the ring had one stage, not when the ring wraps",
        "row 9",
        threads(64),
        // SAFETY: each slot is read behind its phase, but for the bug.
        |w, bug| unsafe {
            let bars = init([1, 1, 32, 32]);
            for step in 0..4 {
                let stage = step % 2;
                let (full, empty) = (bars[stage], bars[2 + stage]);
                let phase = (step as u32 / 2) & 1;
                if tid() == 0 {
                    mbarrier::wait_parity(empty, phase ^ 1); //~ WP001
                    load(w, smem(256 + 256 * stage as u32), full);
                } else if warp_id() == 1 {
                    let phase = if bug { step as u32 & 1 } else { phase };
                    mbarrier::wait_parity(full, phase); //~ WP001 WP010
                    shared::ld::<u32>(smem(256 + 256 * stage as u32)); //~ WP016 WP017
                    mbarrier::arrive(empty);
                }
            }
        },
    )
}

fn an_advance_between_wait_and_copy() -> Bug {
    bug(
        "The producer advances its state between the wait and the copy: it fills the slot after the one it has",
        "rows 4, 9",
        threads(64),
        // SAFETY: each slot is filled behind its own wait, but for the bug.
        |w, bug| unsafe {
            let bars = init([1, 1, 32, 32]);
            for step in 0..4_u32 {
                let (stage, phase) = (step as usize % 2, (step / 2) & 1);
                let slot = smem(256 + 256 * stage as u32);
                if tid() == 0 {
                    let had = if bug { step.saturating_sub(1) } else { step };
                    mbarrier::wait_parity(bars[2 + had as usize % 2], ((had / 2) & 1) ^ 1); //~ WP001 WP010
                    load(w, slot, bars[stage]); //~ WP003 WP004 WP017
                } else if warp_id() == 1 {
                    mbarrier::wait_parity(bars[stage], phase); //~ WP010
                    shared::ld::<u32>(slot); //~ WP017
                    mbarrier::arrive(bars[2 + stage]);
                }
            }
        },
    )
}

fn a_release_before_the_read() -> Bug {
    bug(
        "The slot is released first and read after, when the next copy may be writing it",
        "TileLang #2420; row 3",
        threads(64),
        // SAFETY: the slot is read before its release, but for the bug.
        |w, bug| unsafe {
            let [full, empty] = init([1, 32]);
            for phase in [0, 1] {
                if tid() == 0 {
                    mbarrier::wait_parity(empty, phase ^ 1);
                    load(w, smem(128), full); //~ WP017 WP034
                } else if warp_id() == 1 {
                    mbarrier::wait_parity(full, phase);
                    if bug {
                        mbarrier::arrive(empty);
                    }
                    shared::ld::<u32>(smem(128)); //~ WP017 WP034
                    if !bug {
                        mbarrier::arrive(empty);
                    }
                }
            }
        },
    )
}
