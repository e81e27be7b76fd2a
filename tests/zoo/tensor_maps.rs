//! Tensor maps that a kernel changes, and tiles that pass from one CTA's TMA to another's.

use crate::world::{BOX, World, init, load, smem, tid};
use crate::{Bug, Shape, bug, family, threads};
use isa::{cp_async_bulk as bulk, fence, global, mbarrier, shared, tensormap, thread, warp};

family! { "tensor_maps.rs":
    a_map_stored_and_used_without_fences
    a_map_changed_without_a_barrier
    a_map_changed_without_the_release_fence
    a_map_used_without_the_acquire_fence
    a_map_acquired_before_it_is_released
    a_map_acquired_by_another_cta
    a_map_released_to_the_cta_only
    a_map_rewritten_under_its_load
    a_map_rewritten_under_its_store
    a_map_published_before_all_lanes_wrote_it
    a_map_stored_by_hand_from_shared_memory
    a_map_changed_after_its_release
    a_tile_passed_on_without_the_proxy_fence
    a_tile_passed_on_before_it_is_written
}

/// Where a map lies in shared memory, behind the barriers.
const MAP: u32 = 128;
/// Where a box lies.
const TILE: u32 = 512;

/// Two CTAs of a warp, in clusters of their own.
const TWO: Shape = Shape { ctas: 2, ..threads(32) };

/// The lanes of a warp copy the template to shared memory, and lane 0 sets its address to that of the
/// tensor's row `row`.
///
/// # Safety
/// All lanes of the warp come, and nothing else uses the map.
#[track_caller]
unsafe fn build(w: &World, row: u32) {
    // SAFETY: the caller's contract; the lanes meet between their accesses.
    unsafe {
        shared::st(smem(MAP + 4 * tid()), w.map_word(tid()));
        warp::sync_warp(u32::MAX);
        if tid() == 0 {
            tensormap::replace_global_address_shared(
                smem(MAP),
                w.words() as u64 + 256 * u64::from(row),
            );
        }
        warp::sync_warp(u32::MAX);
    }
}

/// Loads the first box of the map in global memory, and waits for it.
///
/// # Safety
/// One thread calls this, once for each phase of the barrier; the map may be used.
#[track_caller]
unsafe fn load_by_slot(w: &World, full: u32, parity: u32) {
    // SAFETY: the caller's contract.
    unsafe {
        mbarrier::arrive_expect_tx(full, BOX);
        bulk::tensor_load(smem(TILE), w.slot(), [0, 0], full);
        mbarrier::wait_parity(full, parity);
    }
}

/// The threads fill a box in shared memory for TMA.
///
/// # Safety
/// All threads of the CTA come, 32, and nothing else uses the box.
#[track_caller]
unsafe fn fill() {
    // SAFETY: the caller's contract: each thread has 8 bytes of it.
    unsafe {
        shared::st(smem(TILE + 8 * tid()), [tid(); 2]);
        fence::proxy_async_shared_cta();
        thread::sync_threads();
    }
}

fn a_map_stored_and_used_without_fences() -> Bug {
    bug(
        "Threads copy a tensor map to global memory, synchronise, and one loads with it: no fence of the tensormap proxy",
        "grouped GEMM; PTX manual, *Memory Consistency Model*, proxies",
        threads(32),
        // SAFETY: the load is awaited; the fences that its map needs are the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            let word = w.slot().cast::<u32>().wrapping_add(tid() as usize);
            global::st(word, w.map_word(tid())); //~ WP042
            if !bug {
                fence::proxy_tensormap_release_cta();
            }
            thread::sync_threads();
            if tid() == 0 {
                if !bug {
                    fence::proxy_tensormap_acquire_cta(w.slot());
                }
                mbarrier::arrive_expect_tx(full, BOX);
                bulk::tensor_load(smem(TILE), w.slot(), [0, 0], full); //~ WP042
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}

fn a_map_changed_without_a_barrier() -> Bug {
    bug(
        "One thread sets the address in a tensor map, another loads with the map, and nothing orders the two",
        "grouped GEMM",
        threads(64),
        // SAFETY: the load is awaited; the order of change and use is the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            if tid() == 32 {
                tensormap::replace_global_address_global(w.slot(), w.words() as u64 + 256); //~ WP035
                fence::proxy_tensormap_release_cta();
            }
            if !bug {
                thread::sync_threads();
            }
            if tid() == 0 {
                fence::proxy_tensormap_acquire_cta(w.slot());
                mbarrier::arrive_expect_tx(full, BOX);
                bulk::tensor_load(smem(TILE), w.slot(), [0, 0], full); //~ WP035
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}

fn a_map_changed_without_the_release_fence() -> Bug {
    bug(
        "A tensor map is changed in global memory; its user acquires it, but nobody has released it",
        "CUTLASS `tma_descriptor_fence_release`",
        threads(64),
        // SAFETY: the load is awaited; the fence that is left out is the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            if tid() == 32 {
                tensormap::replace_global_address_global(w.slot(), w.words() as u64 + 256); //~ WP042
                if !bug {
                    fence::proxy_tensormap_release_gpu();
                }
            }
            thread::sync_threads();
            if tid() == 0 {
                fence::proxy_tensormap_acquire_gpu(w.slot());
                mbarrier::arrive_expect_tx(full, BOX);
                bulk::tensor_load(smem(TILE), w.slot(), [0, 0], full); //~ WP042
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}

fn a_map_used_without_the_acquire_fence() -> Bug {
    bug(
        "A CTA publishes a tensor map with `cp_fenceproxy` and raises a flag; another sees the flag and loads with the map",
        "CUTLASS `tensormaps_fence_acquire`",
        TWO,
        // SAFETY: the flag hands the map over, but for the fence that the bug leaves out.
        |w, bug| unsafe {
            let [full] = init([1]);
            if thread::block_idx_x() == 0 {
                build(w, 1);
                tensormap::cp_fenceproxy_gpu(w.slot(), smem(MAP)); //~ WP042
                if tid() == 0 {
                    global::st_release_gpu_u32(w.out(0), 1);
                }
            } else if tid() == 0 {
                global::wait_acquire_gpu_u32(w.out(0), 1);
                if !bug {
                    fence::proxy_tensormap_acquire_gpu(w.slot());
                }
                mbarrier::arrive_expect_tx(full, BOX);
                bulk::tensor_load(smem(TILE), w.slot(), [0, 0], full); //~ WP042
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}

fn a_map_acquired_before_it_is_released() -> Bug {
    bug(
        "The acquire fence of the tensor map stands before the wait for the flag, and not after it",
        "grouped GEMM",
        TWO,
        // SAFETY: the flag hands the map over, but for the place of the fence.
        |w, bug| unsafe {
            let [full] = init([1]);
            if thread::block_idx_x() == 0 {
                build(w, 1);
                tensormap::cp_fenceproxy_gpu(w.slot(), smem(MAP)); //~ WP042
                if tid() == 0 {
                    global::st_release_gpu_u32(w.out(0), 1);
                }
            } else if tid() == 0 {
                if bug {
                    fence::proxy_tensormap_acquire_gpu(w.slot());
                }
                global::wait_acquire_gpu_u32(w.out(0), 1);
                if !bug {
                    fence::proxy_tensormap_acquire_gpu(w.slot());
                }
                mbarrier::arrive_expect_tx(full, BOX);
                bulk::tensor_load(smem(TILE), w.slot(), [0, 0], full); //~ WP042
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}

fn a_map_acquired_by_another_cta() -> Bug {
    bug(
        "The CTA that publishes a tensor map executes the acquire fence as well, in place of the CTA that uses it",
        "the fence empties the cache of the SM that executes it",
        TWO,
        // SAFETY: the flag hands the map over, but for the CTA of the fence.
        |w, bug| unsafe {
            let [full] = init([1]);
            if thread::block_idx_x() == 0 {
                build(w, 1);
                tensormap::cp_fenceproxy_gpu(w.slot(), smem(MAP)); //~ WP042
                fence::proxy_tensormap_acquire_gpu(w.slot());
                if tid() == 0 {
                    global::st_release_gpu_u32(w.out(0), 1);
                }
            } else if tid() == 0 {
                global::wait_acquire_gpu_u32(w.out(0), 1);
                if !bug {
                    fence::proxy_tensormap_acquire_gpu(w.slot());
                }
                mbarrier::arrive_expect_tx(full, BOX);
                bulk::tensor_load(smem(TILE), w.slot(), [0, 0], full); //~ WP042
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}

fn a_map_released_to_the_cta_only() -> Bug {
    bug(
        "A tensor map for another CTA is published with `cp_fenceproxy` of `.cta` scope",
        "row 37",
        TWO,
        // SAFETY: the flag hands the map over, but for the scope of its release.
        |w, bug| unsafe {
            let [full] = init([1]);
            if thread::block_idx_x() == 0 {
                build(w, 1);
                if bug {
                    tensormap::cp_fenceproxy_cta(w.slot(), smem(MAP)); //~ WP042
                } else {
                    tensormap::cp_fenceproxy_gpu(w.slot(), smem(MAP));
                }
                if tid() == 0 {
                    global::st_release_gpu_u32(w.out(0), 1);
                }
            } else if tid() == 0 {
                global::wait_acquire_gpu_u32(w.out(0), 1);
                fence::proxy_tensormap_acquire_gpu(w.slot());
                mbarrier::arrive_expect_tx(full, BOX);
                bulk::tensor_load(smem(TILE), w.slot(), [0, 0], full); //~ WP042
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}

fn a_map_rewritten_under_its_load() -> Bug {
    bug(
        "A CTA publishes the next group's tensor map while a load with the present one is in flight",
        "SGLang #9392; CUTLASS #2912",
        threads(32),
        // SAFETY: both loads are awaited; that the first one is when the map changes is left out.
        |w, bug| unsafe {
            let [full] = init([1]);
            build(w, 1);
            if tid() == 0 {
                mbarrier::arrive_expect_tx(full, BOX);
                bulk::tensor_load(smem(TILE), w.slot(), [0, 0], full); //~ WP035
            }
            if !bug && tid() == 0 {
                mbarrier::wait_parity(full, 0);
            }
            tensormap::cp_fenceproxy_cta(w.slot(), smem(MAP)); //~ WP035
            if tid() == 0 {
                mbarrier::wait_parity(full, 0);
                fence::proxy_tensormap_acquire_cta(w.slot());
                load_by_slot(w, full, 1);
            }
        },
    )
}

fn a_map_rewritten_under_its_store() -> Bug {
    bug(
        "A CTA publishes the next group's tensor map while a store with the present one is in flight",
        "CUTLASS #2162",
        threads(32),
        // SAFETY: the store is awaited; that it is when the map changes is left out.
        |w, bug| unsafe {
            build(w, 1);
            fill();
            if tid() == 0 {
                bulk::tensor_store(w.slot(), [0, 0], smem(TILE)); //~ WP035
                bulk::commit_group();
                if !bug {
                    bulk::wait_group_read::<0>();
                }
            }
            tensormap::cp_fenceproxy_cta(w.slot(), smem(MAP)); //~ WP035
            if tid() == 0 {
                bulk::wait_group::<0>();
            }
        },
    )
}

fn a_map_published_before_all_lanes_wrote_it() -> Bug {
    bug(
        "Each lane writes its word of a tensor map in shared memory, and no `bar.warp.sync` stands before `cp_fenceproxy`",
        "CUDA programming guide, *Encoding a Tensor Map on Device*",
        threads(32),
        // SAFETY: the lanes meet in `cp_fenceproxy`, which orders none of their writes: the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            shared::st(smem(MAP + 4 * tid()), w.map_word(tid())); //~ WP034
            if !bug {
                warp::sync_warp(u32::MAX);
            }
            tensormap::cp_fenceproxy_cta(w.slot(), smem(MAP)); //~ WP034
            if tid() == 0 {
                fence::proxy_tensormap_acquire_cta(w.slot());
                load_by_slot(w, full, 0);
            }
        },
    )
}

fn a_map_stored_by_hand_from_shared_memory() -> Bug {
    bug(
        "A tensor map is changed in shared memory, and plain stores copy it to global memory, with no release fence",
        "CUTLASS `tma_descriptor_cp_fence_release`",
        threads(32),
        // SAFETY: the load is awaited; the fence that is left out is the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            build(w, 1);
            let word = w.slot().cast::<u32>().wrapping_add(tid() as usize);
            global::st(word, shared::ld::<u32>(smem(MAP + 4 * tid()))); //~ WP042
            if !bug {
                fence::proxy_tensormap_release_gpu();
            }
            warp::sync_warp(u32::MAX);
            if tid() == 0 {
                fence::proxy_tensormap_acquire_gpu(w.slot());
                mbarrier::arrive_expect_tx(full, BOX);
                bulk::tensor_load(smem(TILE), w.slot(), [0, 0], full); //~ WP042
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}

fn a_map_changed_after_its_release() -> Bug {
    bug(
        "A thread publishes a tensor map, and then sets one more field of it in global memory",
        "grouped GEMM",
        threads(32),
        // SAFETY: the load is awaited; the place of the change is the bug.
        |w, bug| unsafe {
            let [full] = init([1]);
            if tid() == 0 {
                if !bug {
                    tensormap::replace_global_dim_global::<1>(w.slot(), 8);
                }
                tensormap::replace_global_address_global(w.slot(), w.words() as u64 + 256);
                fence::proxy_tensormap_release_cta();
                if bug {
                    tensormap::replace_global_dim_global::<1>(w.slot(), 8); //~ WP042
                }
                fence::proxy_tensormap_acquire_cta(w.slot());
                mbarrier::arrive_expect_tx(full, BOX);
                bulk::tensor_load(smem(TILE), w.slot(), [0, 0], full); //~ WP042
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}

fn a_tile_passed_on_without_the_proxy_fence() -> Bug {
    bug(
        "A CTA stores a tile by TMA, waits for it and raises a flag; another acquires the flag and loads the tile by TMA",
        "DeepEP #632; PTX manual, *Causality Order*",
        TWO,
        // SAFETY: the flag hands the tile over, but for the proxy fence.
        |w, bug| unsafe {
            let [full] = init([1]);
            if thread::block_idx_x() == 0 {
                fill();
                if tid() == 0 {
                    bulk::tensor_store(w.map(), [0, 0], smem(TILE)); //~ WP036
                    bulk::commit_group();
                    bulk::wait_group::<0>();
                    global::st_release_gpu_u32(w.out(0), 1);
                }
            } else if tid() == 0 {
                global::wait_acquire_gpu_u32(w.out(0), 1);
                if !bug {
                    fence::proxy_async_global();
                }
                load(w, smem(TILE), full); //~ WP036
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}

fn a_tile_passed_on_before_it_is_written() -> Bug {
    bug(
        "A CTA raises the flag for a tile after `wait_group.read`, which does not wait for the tile's write",
        "row 19",
        TWO,
        // SAFETY: the flag hands the tile over, but for the kind of wait.
        |w, bug| unsafe {
            let [full] = init([1]);
            if thread::block_idx_x() == 0 {
                fill();
                if tid() == 0 {
                    bulk::tensor_store(w.map(), [0, 0], smem(TILE)); //~ WP035
                    bulk::commit_group();
                    if bug {
                        bulk::wait_group_read::<0>();
                    } else {
                        bulk::wait_group::<0>();
                    }
                    global::st_release_gpu_u32(w.out(0), 1);
                }
            } else if tid() == 0 {
                global::wait_acquire_gpu_u32(w.out(0), 1);
                fence::proxy_async_global();
                load(w, smem(TILE), full); //~ WP035
                mbarrier::wait_parity(full, 0);
            }
        },
    )
}
