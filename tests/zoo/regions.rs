//! Accesses that leave their region of shared memory.

use crate::world::{BOX, init, load, meet, smem, tid};
use crate::{Bug, Shape, bug, cluster, family, threads};
use half::bf16;
use isa::debug::region;
use isa::wgmma::{self, KMajor, M64, Shape as _, Swizzle};
use isa::{cp_async_bulk as bulk, fence, matrix, mbarrier, shared, thread, warp};

family! { "regions.rs":
    a_loop_of_stores_one_too_long
    a_store_before_its_region
    a_row_of_a_matrix_below_the_tile
    a_store_that_straddles_two_regions
    a_box_of_the_next_stage
    a_copy_longer_than_its_buffer
    an_operand_that_reaches_into_the_next_stage
    a_stage_index_that_is_not_wrapped
    a_peers_row_beyond_the_end
}

fn a_loop_of_stores_one_too_long() -> Bug {
    bug(
        "A loop stores a row more than its region has, into one that is idle, so that nobody sees it",
        "a region's end, word by word",
        threads(32),
        // SAFETY: the words lie in shared memory, and each thread has its own.
        |_, bug| unsafe {
            let out = region("out", smem(128), 2 * 128);
            let _idle = region("idle", smem(128 + 2 * 128), 512);
            for row in 0..if bug { 3 } else { 2 } {
                shared::st(out + 128 * row + 4 * tid(), row); //~ WP044
            }
        },
    )
}

fn a_store_before_its_region() -> Bug {
    bug(
        "A halo of one word to the left, which the first thread of the region has not",
        "a stencil's edge",
        threads(32),
        // SAFETY: the words lie in shared memory, and each thread has its own.
        |_, bug| unsafe {
            let _left = region("left", smem(0), 128);
            let row = region("row", smem(128), 128);
            if bug || tid() > 0 {
                shared::st(row + 4 * tid() - 4, tid()); //~ WP044
            }
        },
    )
}

fn a_row_of_a_matrix_below_the_tile() -> Bug {
    bug(
        "stmatrix with the pitch of a wider tile: the last rows are below the tile's",
        "a wrong leading dimension",
        threads(32),
        // SAFETY: the rows lie in shared memory; the warp is converged.
        |_, bug| unsafe {
            let tile = region("tile", smem(256), 8 * 16);
            let pitch = if bug { 32 } else { 16 };
            matrix::stmatrix_x1(tile + tid() % 8 * pitch, [tid()]); //~ WP044
        },
    )
}

fn a_store_that_straddles_two_regions() -> Bug {
    bug(
        "A region of 120 bytes is written 16 bytes at a time",
        "a vectorised epilogue with an odd width",
        threads(32),
        // SAFETY: the words lie in shared memory, and each thread has its own.
        |_, bug| unsafe {
            let out = region("out", smem(128), if bug { 120 } else { 128 });
            let _next = region("next", smem(128 + 120), 512);
            if tid() < 8 {
                shared::st(out + 16 * tid(), [1_u32, 2, 3, 4]); //~ WP044
            }
        },
    )
}

fn a_box_of_the_next_stage() -> Bug {
    bug(
        "A tensor map of a larger tile: its box fills the stage, and half of the next, which is empty",
        "row 21, without the host",
        threads(32),
        // SAFETY: the box lies in shared memory; nobody else uses it.
        |w, bug| unsafe {
            let [full] = init([1]);
            let stage = region("stage 0", smem(256), if bug { BOX / 2 } else { BOX });
            if tid() == 0 {
                load(w, stage, full); //~ WP044
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}

fn a_copy_longer_than_its_buffer() -> Bug {
    bug(
        "A bulk store of whole rows from a buffer that has less: it stores its neighbour's bytes as well",
        "row 31",
        threads(32),
        // SAFETY: the bytes lie in shared memory and in the output.
        |w, bug| unsafe {
            let buffer = region("buffer", smem(128), 128);
            let next = region("next", smem(256), 128);
            shared::st(buffer + 4 * tid(), tid());
            shared::st(next + 4 * tid(), tid());
            fence::proxy_async_shared_cta();
            warp::sync_warp(u32::MAX);
            if tid() == 0 {
                bulk::store(w.out(0).cast(), buffer, if bug { 144 } else { 128 }); //~ WP044
                bulk::commit_group();
                bulk::wait_group::<0>();
            }
        },
    )
}

fn an_operand_that_reaches_into_the_next_stage() -> Bug {
    bug(
        "A wgmma of 16 columns on a stage with 8 rows of B: the others are those of the next stage",
        "row 21, by hand",
        Shape { smem: 8192, ..threads(128) },
        // SAFETY: the operands lie in shared memory; the group's threads come together.
        |_, bug| unsafe {
            let a = region("A", smem(1024), 64 * 32);
            let rows = if bug { 8 } else { 16 };
            let b = region("B", smem(4096), rows * 32);
            let next = region("the next B", smem(4096) + rows * 32, 16 * 32);
            for word in (tid()..64 * 8).step_by(128) {
                shared::st(a + 4 * word, 0_u32);
            }
            for word in (tid()..rows * 8).step_by(128) {
                shared::st(b + 4 * word, 0_u32);
            }
            shared::st(next + 4 * tid(), 0_u32);
            fence::proxy_async_shared_cta();
            thread::sync_threads();
            let [a, b] = [a, b].map(|at| wgmma::descriptor(at, 128, 256, Swizzle::None));
            let mut sums = <M64<16> as wgmma::Shape>::ZERO;
            wgmma::fence();
            M64::<16>::mma::<bf16, bf16, KMajor, KMajor>(&mut sums, a, b, false); //~ WP044
            wgmma::commit_group();
            wgmma::wait_group::<0>();
        },
    )
}

fn a_stage_index_that_is_not_wrapped() -> Bug {
    bug(
        "The stage after the last one is not the first: the arrival goes to the barriers behind the array",
        "row 9",
        threads(32),
        // SAFETY: mbarriers of one arrival each, but for the bug.
        |_, bug| unsafe {
            let bars = init([1, 1, 1, 1]);
            let full = region("full barriers", bars[0], 16);
            if tid() == 0 {
                for step in 0..3 {
                    let stage = if bug { step } else { step % 2 };
                    mbarrier::arrive(full + 8 * stage); //~ WP044
                }
            }
        },
    )
}

fn a_peers_row_beyond_the_end() -> Bug {
    bug(
        "Each CTA writes the row after its own into its peer's region, which has one row for each CTA",
        "row 29",
        cluster(2, 32),
        // SAFETY: the words lie in the peer's shared memory, which lives until both meet again.
        |_, bug| unsafe {
            let rows = region("rows", smem(128), 2 * 128);
            let rank = isa::cluster::cta_rank();
            meet();
            let row = if bug { rank + 1 } else { rank };
            let to = isa::cluster::mapa(rows, 1 - rank);
            shared::st_cluster(to + 128 * row + 4 * tid(), rank); //~ WP044
            meet();
        },
    )
}
