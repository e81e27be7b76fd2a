//! Instructions for a whole warp, and registers.

use crate::world::{tid, warp_id};
use crate::{Bug, bug, family, threads};
use isa::{barrier, setmaxnreg, thread, warp};

family! { "warps.rs":
    an_election_among_half_a_warp
    a_shuffle_after_lanes_have_left
    a_barrier_in_both_branches
    sync_threads_after_an_early_return
    registers_lowered_with_inc
    registers_raised_with_dec
}

fn an_election_among_half_a_warp() -> Bug {
    bug(
        "`elect.sync` of the full warp, inside a branch that half of it takes",
        "row 25",
        threads(32),
        // SAFETY: the whole warp comes, but for the bug.
        |_, bug| unsafe {
            if !bug || tid() < 16 {
                warp::elect_one(); //~ WP020
            }
        },
    )
}

fn a_shuffle_after_lanes_have_left() -> Bug {
    bug(
        "Lanes beyond the last column return before the warp's reduction",
        "row 25",
        threads(32),
        // SAFETY: the whole warp comes, but for the bug.
        |_, bug| unsafe {
            let inside = tid() < 20;
            if bug && !inside {
                return;
            }
            warp::shfl_xor(u32::from(inside), 1); //~ WP020
        },
    )
}

fn a_barrier_in_both_branches() -> Bug {
    #[allow(clippy::if_same_then_else)] // Two instructions, though they look the same.
    bug(
        "Both sides of a branch on the lane reach the same barrier, by two instructions",
        "row 25",
        threads(64),
        // SAFETY: each warp comes whole to one instruction, but for the bug.
        |_, bug| unsafe {
            if !bug || warp::lane_id() < 16 {
                barrier::sync(1, 64); //~ WP020
            } else {
                barrier::sync(1, 64); //~ WP020
            }
        },
    )
}

fn sync_threads_after_an_early_return() -> Bug {
    bug(
        "Threads without an element return before `__syncthreads`",
        "rows 25, 26",
        threads(64),
        // SAFETY: all threads come, but for the bug.
        |_, bug| unsafe {
            if bug && tid() >= 50 {
                return;
            }
            thread::sync_threads(); //~ WP020 WP001
        },
    )
}

fn registers_lowered_with_inc() -> Bug {
    bug(
        "The producer's group lowers its registers with `setmaxnreg.inc`",
        "row 24",
        threads(384),
        // SAFETY: a whole group gives registers up, with `dec` but for the bug.
        |_, bug| unsafe {
            if warp_id() < 4 {
                if bug {
                    setmaxnreg::inc::<40>(); //~ WP024
                } else {
                    setmaxnreg::dec::<40>();
                }
            }
        },
    )
}

fn registers_raised_with_dec() -> Bug {
    bug(
        "The math groups raise theirs with `setmaxnreg.dec`",
        "row 24",
        threads(384),
        // SAFETY: whole groups move registers that the pool has; the wrong verb is the bug.
        |_, bug| unsafe {
            if warp_id() < 4 {
                setmaxnreg::dec::<40>();
            } else if bug {
                setmaxnreg::dec::<232>(); //~ WP024
            } else {
                setmaxnreg::inc::<232>();
            }
        },
    )
}
