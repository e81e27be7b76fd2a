//! Registers: the pool of a CTA, and barriers that count whole warps.

use crate::world::warp_id;
use crate::{Bug, bug, family, threads};
use isa::{barrier, setmaxnreg, thread, warp};

family! { "registers.rs":
    setmaxnreg_by_one_warp
    setmaxnreg_twice_without_a_meeting
    half_warps_at_an_unaligned_barrier
    half_warps_that_return
}

fn setmaxnreg_by_one_warp() -> Bug {
    bug(
        "Only the warp that loads gives its registers up; the other three of its group skip `setmaxnreg`",
        "FlashInfer's and TileLang's producer warps; row 24",
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
