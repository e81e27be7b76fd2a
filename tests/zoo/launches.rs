//! Grids among each other: spins, room on the SMs, and launches that overlap.

use crate::world::{World, init, load, smem, tid};
use crate::{Bug, Shape, bug, family};
use isa::{global, griddepcontrol, mbarrier, misc, shared, thread};

family! { "launches.rs":
    a_flag_that_nobody_sets
    a_flag_that_is_polled_and_never_set
    a_grid_barrier_among_more_than_fit
    a_read_before_the_wait
    a_tma_load_before_the_wait
    a_write_before_the_wait
    a_dependent_kernel_that_never_waits
    a_chain_with_a_kernel_that_never_waits
    a_primary_that_waits_for_its_dependent
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
            if tid() > 0 {
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

fn a_flag_that_is_polled_and_never_set() -> Bug {
    bug(
        "CTA 1 polls a flag with ld.acquire and nanosleep; CTA 0 sets another word",
        "",
        grid(2),
        |w, bug| {
            if tid() > 0 {
                return;
            }
            // SAFETY: all accesses to the flag are atomic; that the other one is set is the bug.
            unsafe {
                if thread::block_idx_x() == 1 {
                    loop {
                        let flag = global::ld_acquire_gpu_u32(w.out(0)); //~ WP001
                        if flag != 0 {
                            break;
                        }
                        misc::nanosleep(20); //~ WP001
                    }
                } else {
                    global::st_release_gpu_u32(w.out(u32::from(bug)), 1);
                }
            }
        },
    )
}

/// CTAs of which an SM holds one.
const fn large(ctas: u32) -> Shape {
    Shape { smem: 227 * 1024, ..grid(ctas) }
}

fn a_grid_barrier_among_more_than_fit() -> Bug {
    bug(
        "133 CTAs meet through a counter, and 132 SMs hold one CTA each",
        "a grid barrier without a cooperative launch",
        large(133),
        |w, _| {
            if tid() > 0 {
                return;
            }
            // SAFETY: all accesses to the counter are atomic; that not all CTAs are there is the bug.
            unsafe {
                global::red_release_gpu_add_u32(w.out(0), 1);
                while global::ld_acquire_gpu_u32(w.out(0)) < thread::grid_dim_x() {} //~ WP001
            }
        },
    )
    .right(large(132))
}

/// The primary of most entries: lets its dependent grid start, and then writes.
fn primary(w: &World, _: bool) {
    griddepcontrol::launch_dependents();
    // SAFETY: each thread of the grid has a word.
    unsafe { global::st(w.word(32 * thread::block_idx_x() + tid()), tid()) }
}

fn a_read_before_the_wait() -> Bug {
    bug(
        "A dependent kernel reads what its primary writes, and waits after that",
        "NVIDIA/cccl #5297, fixed in #5456",
        grid(2),
        primary,
    )
    .then(&[("dependent", |w, bug| {
        if !bug {
            griddepcontrol::wait();
        }
        // SAFETY: that the wait may come too late is the bug.
        let v = unsafe { global::ld::<u32>(w.word(tid())) }; //~ WP045
        griddepcontrol::wait();
        // SAFETY: each thread of the grid has a word.
        unsafe { global::st(w.out(32 * thread::block_idx_x() + tid()), v) };
    })])
}

fn a_tma_load_before_the_wait() -> Bug {
    bug(
        "The producer of a dependent kernel loads its first tile before the wait of the kernel",
        "",
        grid(1),
        primary,
    )
    .then(&[("dependent", |w, bug| {
        let [full] = init([1]);
        if !bug {
            griddepcontrol::wait();
        }
        // SAFETY: one load, and one phase; that the tile may not be there is the bug.
        unsafe {
            if tid() == 0 {
                load(w, smem(128), full); //~ WP045
            }
            griddepcontrol::wait();
            mbarrier::wait_parity(full, 0);
            shared::ld::<u32>(smem(128 + 4 * tid()));
        }
    })])
}

fn a_write_before_the_wait() -> Bug {
    bug(
        "A dependent kernel clears a buffer that its primary still reads",
        "NVIDIA/cccl #3131, the same hazard",
        grid(1),
        |w, _| {
            griddepcontrol::launch_dependents();
            // SAFETY: only read.
            let v = unsafe { global::ld::<u32>(w.word(tid())) }; //~ WP045
            // SAFETY: each thread has a word.
            unsafe { global::st(w.out(tid()), v) };
        },
    )
    .then(&[("dependent", |w, bug| {
        if !bug {
            griddepcontrol::wait();
        }
        // SAFETY: each thread has a word; that the primary may still read it is the bug.
        unsafe { global::st(w.word(tid()), 0) }; //~ WP045
        griddepcontrol::wait();
    })])
}

fn a_dependent_kernel_that_never_waits() -> Bug {
    bug(
        "A kernel is launched as a dependent launch and does not execute griddepcontrol.wait",
        "NVIDIA/cccl #9134",
        grid(2),
        primary,
    )
    .then(&[("dependent", |w, bug| {
        // One thread waits for all of its CTA.
        if !bug && tid() == 7 {
            griddepcontrol::wait();
        }
        // SAFETY: all threads come.
        unsafe { thread::sync_threads() };
        // SAFETY: that nobody may have waited is the bug.
        let v = unsafe { global::ld::<u32>(w.word(tid())) }; //~ WP045
        // SAFETY: each thread of the grid has a word.
        unsafe { global::st(w.out(32 * thread::block_idx_x() + tid()), v) };
    })])
}

fn a_chain_with_a_kernel_that_never_waits() -> Bug {
    bug(
        "The second of three kernels needs nothing of the first and does not wait; the third reads what the first wrote",
        "gwoltman/gpuowl #33, the reason for its rule",
        grid(1),
        primary,
    )
    .then(&[
        ("between", |_, bug| {
            griddepcontrol::launch_dependents();
            if !bug {
                griddepcontrol::wait();
            }
        }),
        ("third", |w, _| {
            griddepcontrol::wait();
            // SAFETY: that the first kernel may still run is the bug.
            let v = unsafe { global::ld::<u32>(w.word(tid())) }; //~ WP045
            // SAFETY: each thread has a word.
            unsafe { global::st(w.out(tid()), v) };
        }),
    ])
}

fn a_primary_that_waits_for_its_dependent() -> Bug {
    bug(
        "A kernel waits for a flag that its dependent kernel sets after griddepcontrol.wait",
        "",
        grid(1),
        |w, bug| {
            griddepcontrol::launch_dependents();
            if bug && tid() == 0 {
                // SAFETY: all accesses to the flag are atomic; that it is set too late is the bug.
                while unsafe { global::ld_acquire_gpu_u32(w.out(0)) } == 0 {} //~ WP001
            }
        },
    )
    .then(&[("dependent", |w, _| {
        griddepcontrol::wait();
        if tid() == 0 {
            // SAFETY: all accesses to the flag are atomic.
            unsafe { global::st_release_gpu_u32(w.out(0), 1) };
        }
    })])
}
