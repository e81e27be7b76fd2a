//! Grids among each other: spins, room on the SMs, and launches that overlap.

use crate::{Bug, Shape, bug, family};
use isa::{global, thread};

family! { "launches.rs":
    a_flag_that_nobody_sets
}

/// CTAs of 32 threads, with the limits of the model as they are.
const fn grid(ctas: u32) -> Shape {
    Shape { threads: 32, ctas, cluster: 1, smem: 1024, steps: 1 << 36 }
}

fn a_flag_that_nobody_sets() -> Bug {
    bug(
        "CTA 1 spins on a flag with an atomic that adds 0; CTA 0 sets it only if the bug is not there",
        "a hang of the model itself",
        grid(2),
        |w, bug| {
            if thread::thread_idx_x() > 0 {
                return;
            }
            let flag = w.out(0);
            // SAFETY: all accesses to the flag are atomic; that nobody sets it is the bug.
            unsafe {
                if thread::block_idx_x() == 1 {
                    while global::atomic_add_u32(flag, 0) == 0 {} //~ WP031
                } else if !bug {
                    global::atomic_add_u32(flag, 1);
                }
            }
        },
    )
}
