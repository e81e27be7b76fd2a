//! Accesses that nothing orders: races, fences, scopes.

use crate::world::{OUT, init, init_cluster, load, meet, smem, tid};
use crate::{Bug, Shape, bug, cluster as clusters, family, threads};
use half::bf16;
use isa::wgmma::{self, KMajor, M64, Shape as _, Swizzle};
use isa::{cluster, cp_async_bulk as bulk, fence, global, mbarrier, shared, thread, warp};

family! { "races.rs":
    partials_read_before_the_barrier
    a_tile_stored_without_the_proxy_fence
    an_operand_written_without_the_proxy_fence
    a_turn_passed_on_without_release
    an_arrival_that_ends_at_the_cta
    tiles_that_overlap_by_a_row
    a_copy_on_a_barrier_without_its_fence
    an_elected_release_of_what_a_warp_reads
    an_elected_load_over_what_a_warp_reads
}

fn partials_read_before_the_barrier() -> Bug {
    bug(
        "The partial sums of the warps are read without `__syncthreads` after the writes",
        "the race rules' first example",
        threads(64),
        // SAFETY: words are read behind `sync_threads`, but for the bug.
        |_, bug| unsafe {
            shared::st(smem(4 * tid()), tid()); //~ WP034
            if !bug {
                thread::sync_threads();
            }
            if tid() == 0 {
                for other in 0..64 {
                    shared::ld::<u32>(smem(4 * other)); //~ WP034 WP016
                }
            }
        },
    )
}

fn a_tile_stored_without_the_proxy_fence() -> Bug {
    bug(
        "The epilogue's tile is written, the threads synchronise, and TMA stores it without `fence.proxy.async`",
        "fast.cu; FlashKDA #24; row 17",
        threads(32),
        // SAFETY: the store is waited for, and what it reads is fenced but for the bug.
        |w, bug| unsafe {
            shared::st(smem(128 + 8 * tid()), [tid(); 2]); //~ WP036
            if !bug {
                fence::proxy_async_shared_cta();
            }
            thread::sync_threads();
            if tid() == 0 {
                bulk::tensor_store(w.map(), [0, 0], smem(128)); //~ WP036
                bulk::commit_group();
                bulk::wait_group::<0>();
            }
        },
    )
}

fn an_operand_written_without_the_proxy_fence() -> Bug {
    bug(
        "Threads convert an operand in shared memory, and wgmma reads it without a proxy fence",
        "row 17",
        Shape { smem: 4096, ..threads(128) },
        // SAFETY: 128 threads issue one batch and await it; it reads what is fenced, but for the bug.
        |_, bug| unsafe {
            for word in (tid()..72 * 8).step_by(128) {
                shared::st(smem(4 * word), 0_u32); //~ WP036
            }
            if !bug {
                fence::proxy_async_shared_cta();
            }
            thread::sync_threads();
            let [a, b] =
                [0, 64 * 32].map(|at| wgmma::descriptor(smem(at), 128, 256, Swizzle::None));
            let mut sums = <M64<8> as wgmma::Shape>::ZERO;
            wgmma::fence();
            M64::<8>::mma::<bf16, bf16, KMajor, KMajor>(&mut sums, a, b, false); //~ WP036
            wgmma::commit_group();
            wgmma::wait_group::<0>();
        },
    )
}

fn a_turn_passed_on_without_release() -> Bug {
    bug(
        "Stream-K: the partial sum is written, and the turn is passed on with a relaxed atomic",
        "the same, between CTAs",
        Shape { ctas: 2, ..threads(32) },
        // SAFETY: the word is read behind the turn, which the bug does not release.
        |w, bug| unsafe {
            let turn = w.out(0);
            if tid() > 0 {
                return;
            }
            if thread::block_idx_x() == 0 {
                global::st(w.out(8), 7); //~ WP035
                if bug {
                    global::atomic_add_u32(turn, 1);
                } else {
                    global::red_release_gpu_add_u32(turn, 1);
                }
            } else {
                global::wait_acquire_gpu_u32(turn, 1);
                global::ld::<u32>(w.out(8)); //~ WP035
            }
        },
    )
}

fn an_arrival_that_ends_at_the_cta() -> Bug {
    bug(
        "A CTA receives its peer's word with a wait that acquires at CTA scope only",
        "Triton #10922; row 37",
        clusters(2, 32),
        // SAFETY: the peer lives until `meet`; the wait's scope is the bug.
        |_, bug| unsafe {
            let [bar] = init_cluster([1]);
            if tid() == 0 {
                let peer = cluster::cta_rank() ^ 1;
                shared::st_cluster(cluster::mapa(smem(128), peer), 7_u32); //~ WP037
                mbarrier::arrive_remote_release_cluster(cluster::mapa(bar, peer));
                if bug {
                    mbarrier::wait_parity(bar, 0);
                } else {
                    mbarrier::wait_parity_cluster(bar, 0);
                }
                shared::ld::<u32>(smem(128)); //~ WP037
            }
            meet();
        },
    )
}

fn tiles_that_overlap_by_a_row() -> Bug {
    bug(
        "The tiles of the output are 32 wide, and their stride is 31: two CTAs write a word",
        "row 36",
        Shape { ctas: 4, ..threads(32) },
        // SAFETY: the words lie in the output, and apart but for the bug.
        |w, bug| unsafe {
            let stride = if bug { 31 } else { 32 };
            let at = thread::block_idx_x() * stride + tid();
            debug_assert!(at < OUT / 4);
            global::st(w.out(at), at); //~ WP038
        },
    )
}

fn a_copy_on_a_barrier_without_its_fence() -> Bug {
    bug(
        "A barrier for the threads follows `mbarrier.init`, but no fence for the copy that completes on the mbarrier",
        "FlashKDA #24; row 7",
        threads(32),
        // SAFETY: one thread initialises, all wait; the fence that is left out is the bug.
        |w, bug| unsafe {
            let full = if bug { smem(0) } else { init([1])[0] };
            if bug {
                if tid() == 0 {
                    mbarrier::init(full, 1); //~ WP039
                }
                thread::sync_threads();
            }
            if tid() == 0 {
                load(w, smem(128), full); //~ WP039
            }
            mbarrier::wait_parity(full, 0);
        },
    )
}

fn an_elected_release_of_what_a_warp_reads() -> Bug {
    bug(
        "The lanes of a warp read a slot, and the elected one releases it: `elect` does not order their reads",
        "DeepEP #621, #642; row 3",
        threads(64),
        // SAFETY: the slot is filled behind the reads of its words, but for the bug.
        |w, bug| unsafe {
            let [full, empty] = init([1, 1]);
            for step in 0..2 {
                let phase = step & 1;
                if tid() == 0 {
                    mbarrier::wait_parity(empty, phase ^ 1);
                    load(w, smem(128), full); //~ WP034
                } else if tid() >= 32 {
                    mbarrier::wait_parity(full, phase);
                    shared::ld::<u32>(smem(4 * tid())); //~ WP034
                    if !bug {
                        fence::proxy_async_shared_cta();
                        warp::sync_warp(!0);
                    }
                    if warp::elect_one() {
                        mbarrier::arrive(empty);
                    }
                }
            }
        },
    )
}

fn an_elected_load_over_what_a_warp_reads() -> Bug {
    bug(
        "A warp reads one of two slots, and its elected lane fills it again: `elect` does not order the reads of the others",
        "DeepGEMM #389; row 3",
        threads(32),
        // SAFETY: a slot is filled behind the reads of its words, but for the bug.
        |w, bug| unsafe {
            let full = init([1, 1]);
            for step in 0..4 {
                if !bug {
                    fence::proxy_async_shared_cta();
                    warp::sync_warp(!0);
                }
                if warp::elect_one() {
                    load(w, smem(256 + 256 * (step & 1)), full[step as usize & 1]); //~ WP034
                }
                // The step before this one.
                if step > 0 {
                    let (slot, phase) = ((step - 1) & 1, ((step - 1) / 2) & 1);
                    mbarrier::wait_parity(full[slot as usize], phase);
                    shared::ld::<u32>(smem(256 + 256 * slot + 4 * tid())); //~ WP034
                }
            }
            mbarrier::wait_parity(full[1], 1);
        },
    )
}
