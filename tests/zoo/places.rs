//! Kernels that stop by themselves, never stop, or never start.

use crate::world::{smem, tid};
use crate::{Bug, Shape, bug, cluster, family, threads};
use isa::{global, misc, shared, thread};

family! { "places.rs":
    an_index_from_a_table_of_fewer
    a_shape_that_the_kernel_refuses
    a_flag_read_as_plain_memory
    a_cluster_that_does_not_divide_the_grid
    more_shared_memory_than_an_sm_has
}

fn an_index_from_a_table_of_fewer() -> Bug {
    bug(
        "The tile's order is a table for 4 CTAs, and the grid has 5",
        "a bounds check of Rust's",
        Shape { ctas: 5, ..threads(32) },
        // SAFETY: 32 words for each of four tiles lie in the output.
        |w, bug| unsafe {
            let order = [2, 0, 3, 1];
            let cta = thread::block_idx_x() as usize;
            if bug || cta < order.len() {
                let tile = order[cta]; //~ WP029
                global::st(w.out(32 * tile + tid()), tile);
            }
        },
    )
}

fn a_shape_that_the_kernel_refuses() -> Bug {
    bug(
        "A width of 12 for a kernel that copies 16 bytes at a time: its own check traps",
        "row 22, without the host",
        threads(32),
        // SAFETY: a word for each thread lies in shared memory; a trap may come anywhere.
        |_, bug| unsafe {
            let columns = if bug { 12_u32 } else { 16 };
            if !columns.is_multiple_of(8) {
                misc::trap(); //~ WP030
            }
            shared::st(smem(4 * tid()), columns);
        },
    )
}

fn a_flag_read_as_plain_memory() -> Bug {
    bug(
        "A loop of ordinary loads on a flag that is set only after the loop",
        "row 26",
        Shape { steps: 500, ..threads(32) },
        // SAFETY: one thread alone uses the word.
        |_, bug| unsafe {
            if tid() == 0 {
                shared::st(smem(0), u32::from(!bug));
                while shared::ld::<u32>(smem(0)) == 0 {} //~ WP031
                shared::st(smem(0), 1_u32);
            }
        },
    )
}

fn a_cluster_that_does_not_divide_the_grid() -> Bug {
    bug(
        "The grid is the number of tiles, 3, and CTAs come in clusters of two",
        "row 23",
        Shape { ctas: 3, ..cluster(2, 32) }, //~ WP032
        // SAFETY: 32 words for each CTA lie in the output.
        |w, _| unsafe { global::st(w.out(thread::block_idx_x() * 32 + tid()), 1) },
    )
    .right(Shape { ctas: 4, ..cluster(2, 32) })
}

fn more_shared_memory_than_an_sm_has() -> Bug {
    bug(
        "One stage too many: 228 KiB, which an SM has, but a CTA can have only 227",
        "row 20",
        Shape { smem: 228 * 1024, ..threads(32) }, //~ WP032
        // SAFETY: a word for each thread lies in shared memory.
        |_, _| unsafe { shared::st(smem(4 * tid()), 0_u32) },
    )
    .right(Shape { smem: 227 * 1024, ..threads(32) })
}
