//! Tensor maps in memory: their fields, and the fences of the tensormap proxy.

use crate::common::{Map, Seen, smem, tid};
use sim::ops::cp_async_bulk::{self as bulk};
use sim::ops::{cluster, fence, global, mbarrier, shared, tensormap, thread, warp};
use sim::tensor_map::{DataType, Swizzle, TensorMapDesc, encode};
use sim::{Config, GlobalMemory, Grid, Report, Rule};

/// A tensor of 16 by 16 words in boxes of 8 by 8, and two slots for maps, of which the first holds the
/// tensor's.
struct World {
    map: Map,
    words: u64,
    slots: u64,
    flags: u64,
}

const BOX: u32 = 256;
const FULL: u32 = 0;
const MAP: u32 = 128;
const TILE: u32 = 512;

fn tensor(words: u64) -> TensorMapDesc {
    TensorMapDesc {
        dtype: DataType::U32,
        rank: 2,
        addr: words,
        dims: [16, 16, 0, 0, 0],
        strides: [64, 0, 0, 0],
        box_dims: [8, 8, 0, 0, 0],
        swizzle: Swizzle::None,
    }
}

impl World {
    fn slot(&self, i: u64) -> *const [u64; 16] {
        (self.slots + 128 * i) as *const [u64; 16]
    }
    fn flag(&self, i: u64) -> *mut u32 {
        (self.flags + 4 * i) as *mut u32
    }
}

/// Runs a kernel of warps on clusters, on fresh memory whose words count up.
fn run(
    seed: u64,
    (ctas, cluster, threads): (u32, u32, u32),
    kernel: &(impl Fn(&World) + Sync),
) -> Result<(), Box<Report>> {
    let memory = GlobalMemory::new();
    let (words, slots, flags) = (memory.alloc(2048), memory.alloc(256), memory.alloc(64));
    let bytes: Vec<u8> = (0..256_u32).flat_map(u32::to_le_bytes).collect();
    memory.write(words, &bytes).unwrap();
    let map = encode(&tensor(words)).unwrap();
    let bytes: Vec<u8> = map.iter().flat_map(|w| w.to_le_bytes()).collect();
    memory.write(slots, &bytes).unwrap();
    let world = World { map: Map(map), words, slots, flags };
    let grid = Grid {
        grid: [ctas, 1, 1],
        block: [threads, 1, 1],
        cluster: [cluster, 1, 1],
        min_ctas: 1,
        smem_bytes: 2048,
        name: "test",
    };
    let config = Config { seed, workers: Some(1 + (seed % 2) as usize), ..Config::default() };
    sim::launch(&config, &memory, &grid, &|| kernel(&world)).map(|_| ())
}

const ONE: (u32, u32, u32) = (1, 1, 32);

fn silent(shape: (u32, u32, u32), kernel: impl Fn(&World) + Sync) {
    for seed in 0..60 {
        run(seed, shape, &kernel).unwrap_or_else(|r| panic!("seed {seed}\n{r}"));
    }
}

fn found(rule: Rule, shape: (u32, u32, u32), kernel: impl Fn(&World) + Sync) -> Report {
    let mut one = None;
    for seed in 0..40 {
        let report = run(seed, shape, &kernel)
            .expect_err(&format!("{} is not found with seed {seed}", rule.code()));
        assert_eq!(report.rule, rule, "seed {seed}\n{report}");
        one = Some(*report);
    }
    one.expect("forty runs")
}

/// Thread 0 initialises the barrier, and the CTA meets.
fn init() {
    if tid() == 0 {
        mbarrier::init(smem(FULL), 1);
        fence::mbarrier_init_release_cluster();
    }
    thread::sync_threads();
}

/// The lanes of a warp copy the template to shared memory, and lane 0 changes it.
fn build(w: &World, change: impl Fn(u32)) {
    let lane = tid() % 32;
    let word = w.map.0[lane as usize / 2] >> (32 * (lane % 2));
    shared::st(smem(MAP + 4 * lane), word as u32);
    warp::sync_warp(u32::MAX);
    if lane == 0 {
        change(smem(MAP));
    }
    warp::sync_warp(u32::MAX);
}

fn issue(map: *const [u64; 16], at: [i32; 2]) {
    mbarrier::arrive_expect_tx(smem(FULL), BOX);
    bulk::tensor_load(smem(TILE), map, at, smem(FULL));
}

fn load(map: *const [u64; 16], at: [i32; 2], parity: u32) -> u32 {
    issue(map, at);
    mbarrier::wait_parity(smem(FULL), parity);
    shared::ld(smem(TILE))
}

/// Threads 0 to 31 fill the tile for a store.
fn fill() {
    shared::st(smem(TILE + 8 * tid()), [tid(); 2]);
    fence::proxy_async_shared_cta();
    thread::sync_threads();
}

/// Each field, replaced in shared and in global memory, changes what a load brings.
#[test]
fn fields_decide_what_a_load_brings() {
    type Change = fn(&World, u32);
    let second: [(Change, u32, [u32; 2]); 4] = [
        // The first word of the box at (8, 8), and the word behind its first row's end.
        (|w, m| tensormap::replace_global_address_shared(m, w.words + 16), 8, [140, 156]),
        (|_, m| tensormap::replace_global_stride_shared::<0>(m, 32), 8, [72, 80]),
        (|_, m| tensormap::replace_global_dim_shared::<1>(m, 9), 8, [136, 0]),
        (|_, m| tensormap::replace_box_dim_shared::<0>(m, 4), 4, [136, 152]),
    ];
    for (change, row, want) in second {
        let seen: Seen<[u32; 2]> = Seen::new();
        silent(ONE, |w| {
            init();
            build(w, |m| change(w, m));
            tensormap::cp_fenceproxy_cta(w.slot(1), smem(MAP));
            if tid() == 0 {
                fence::proxy_tensormap_acquire_cta(w.slot(1));
                mbarrier::arrive_expect_tx(smem(FULL), 32 * row);
                bulk::tensor_load(smem(TILE), w.slot(1), [8, 8], smem(FULL));
                mbarrier::wait_parity(smem(FULL), 0);
                seen.push([shared::ld(smem(TILE)), shared::ld(smem(TILE + 4 * row))]);
            }
        });
        assert!(seen.take().into_iter().all(|s| s == want), "{want:?}");
    }
}

/// A map made from zeros, in global memory, by one thread.
#[test]
fn a_map_from_zeros() {
    let seen: Seen<u32> = Seen::new();
    silent(ONE, |w| {
        init();
        if tid() == 0 {
            let map = w.slot(1);
            tensormap::replace_global_address_global(map, w.words);
            tensormap::replace_rank_global(map, 1);
            tensormap::replace_box_dim_global::<0>(map, 8);
            tensormap::replace_box_dim_global::<1>(map, 8);
            tensormap::replace_global_dim_global::<0>(map, 16);
            tensormap::replace_global_dim_global::<1>(map, 16);
            tensormap::replace_global_stride_global::<0>(map, 64);
            tensormap::replace_element_stride_global::<0>(map, 1);
            tensormap::replace_element_stride_global::<1>(map, 1);
            tensormap::replace_elemtype_global::<2>(map);
            tensormap::replace_interleave_layout_global::<0>(map);
            tensormap::replace_swizzle_mode_global::<1>(map);
            tensormap::replace_fill_mode_global::<0>(map);
            fence::proxy_tensormap_release_cta();
            fence::proxy_tensormap_acquire_cta(map);
            seen.push(load(map, [8, 8], 0));
        }
    });
    assert!(seen.take().into_iter().all(|word| word == 8 * 16 + 8));
}

#[test]
fn what_the_model_has_not() {
    found(Rule::TensorMap, ONE, |w| {
        build(w, |map| tensormap::replace_fill_mode_shared::<1>(map));
    });
    found(Rule::Operand, ONE, |w| build(w, |map| tensormap::replace_rank_shared(map, 5)));
    found(Rule::Uninitialised, ONE, |_| {
        if tid() == 0 {
            tensormap::replace_rank_shared(smem(MAP), 1);
        }
    });
    // Between two replacements a map may be nonsense, but not when it is used.
    found(Rule::TensorMap, ONE, |w| {
        init();
        build(w, |map| tensormap::replace_box_dim_shared::<0>(map, 0));
        tensormap::cp_fenceproxy_cta(w.slot(1), smem(MAP));
        if tid() == 0 {
            fence::proxy_tensormap_acquire_cta(w.slot(1));
            issue(w.slot(1), [0, 0]);
        }
    });
    found(Rule::Diverged, ONE, |w| {
        build(w, |_| ());
        if tid() < 16 {
            tensormap::cp_fenceproxy_cta(w.slot(1), smem(MAP));
        }
    });
}

/// A persistent grouped GEMM: a map for each group, in one slot of each CTA; between the groups the
/// issuing thread commits and awaits a bulk group, and not the loads (CUTLASS
/// `tensormaps_cp_fence_release`).
#[test]
fn a_map_for_each_group() {
    for waits in [true, false] {
        let kernel = |w: &World| {
            init();
            let slot = w.slot(0);
            for group in 0..4_u32 {
                build(w, |m| {
                    tensormap::replace_global_address_shared(m, w.words + 64 * u64::from(group));
                });
                if tid() == 0 && waits {
                    bulk::commit_group();
                    bulk::wait_group_read::<0>();
                }
                tensormap::cp_fenceproxy_gpu(slot, smem(MAP));
                // Every lane, as CUTLASS does it; then one of them issues.
                fence::proxy_tensormap_acquire_gpu(slot);
                if tid() == 5 {
                    if group > 0 {
                        mbarrier::wait_parity(smem(FULL), (group - 1) & 1);
                    }
                    issue(slot, [0, 0]);
                }
                // What was issued by lane 5 belongs to the groups of lane 5.
                if tid() == 5 && waits {
                    bulk::commit_group();
                    bulk::wait_group_read::<0>();
                }
            }
            // Lane 5 has waited for the phase before; without this the others could take its parity
            // for that of the last.
            warp::sync_warp(u32::MAX);
            mbarrier::wait_parity(smem(FULL), 1);
        };
        if waits {
            silent(ONE, kernel);
        } else {
            let report = found(Rule::GlobalRace, ONE, kernel);
            assert!(report.message.contains("overwrites (tensormap.cp_fenceproxy)"), "{report}");
        }
    }
}

/// One warp publishes, others of the CTA and of the cluster use: one acquire per CTA is enough, if the
/// users are ordered after it.
#[test]
fn one_acquire_for_a_cta() {
    let kernel = |w: &World, own: bool| {
        init();
        if cluster::cta_rank() == 0 && tid() < 32 {
            build(w, |m| tensormap::replace_global_address_shared(m, w.words + 64));
            tensormap::cp_fenceproxy_cluster(w.slot(1), smem(MAP));
        }
        cluster::arrive_release();
        cluster::wait_acquire();
        if tid() == 33 && (own || cluster::cta_rank() == 0) {
            fence::proxy_tensormap_acquire_cluster(w.slot(1));
        }
        cluster::arrive_release();
        cluster::wait_acquire();
        if tid() == 0 {
            assert_eq!(load(w.slot(1), [0, 0], 0), 16);
        }
    };
    silent((2, 2, 64), |w| kernel(w, true));
    let report = found(Rule::MapUnseen, (2, 2, 64), |w| kernel(w, false));
    assert!(report.message.contains("only threads of another CTA"), "{report}");
}

/// A proxy fence next to a relaxed atomic releases and acquires, as a memory fence does.
#[test]
fn proxy_fences_next_to_relaxed_atomics() {
    let kernel = |w: &World, acquire: bool| {
        init();
        if thread::block_idx_x() == 0 {
            if tid() == 0 {
                tensormap::replace_global_address_global(w.slot(0), w.words + 64);
                fence::proxy_tensormap_release_gpu();
                global::atomic_add_u32(w.flag(0), 1);
            }
        } else if tid() == 0 {
            while global::atomic_add_u32(w.flag(0), 0) == 0 {
                sim::ops::misc::nanosleep(100);
            }
            if acquire {
                fence::proxy_tensormap_acquire_gpu(w.slot(0));
            }
            assert_eq!(load(w.slot(0), [0, 0], 0), 16);
        }
    };
    // In one cluster: clusters of their own do not take turns at an atomic that nobody wakes.
    silent((2, 2, 32), |w| kernel(w, true));
    found(Rule::GlobalRace, (2, 2, 32), |w| kernel(w, false));
}

/// Another warp releases for the one that wrote, after a barrier.
#[test]
fn a_release_by_another_thread() {
    for releases in [true, false] {
        let kernel = |w: &World| {
            init();
            if tid() == 32 {
                tensormap::replace_global_dim_global::<0>(w.slot(0), 8);
            }
            thread::sync_threads();
            if tid() == 0 {
                if releases {
                    fence::proxy_tensormap_release_gpu();
                }
                fence::proxy_tensormap_acquire_gpu(w.slot(0));
                load(w.slot(0), [0, 0], 0);
            }
        };
        if releases {
            silent((1, 1, 64), kernel);
        } else {
            found(Rule::MapUnseen, (1, 1, 64), kernel);
        }
    }
}

/// A use by a store is over when the store has read; a use by a load when the load has landed, which
/// another thread may have waited for.
#[test]
fn when_a_use_is_over() {
    silent((1, 1, 64), |w| {
        init();
        if tid() < 32 {
            build(w, |m| tensormap::replace_global_address_shared(m, w.words + 64));
        }
        if tid() == 32 {
            issue(w.slot(0), [0, 0]);
        }
        if tid() == 7 {
            mbarrier::wait_parity(smem(FULL), 0);
        }
        if tid() < 32 {
            tensormap::cp_fenceproxy_cta(w.slot(0), smem(MAP));
        }
        mbarrier::wait_parity(smem(FULL), 0);
    });
    for reads in [true, false] {
        let kernel = |w: &World| {
            build(w, |m| tensormap::replace_global_address_shared(m, w.words + 64));
            fill();
            if tid() == 0 {
                bulk::tensor_store(w.slot(0), [0, 0], smem(TILE));
                bulk::commit_group();
                if reads {
                    bulk::wait_group_read::<0>();
                }
                tensormap::replace_global_dim_global::<0>(w.slot(0), 8);
                bulk::wait_group::<0>();
            }
        };
        if reads {
            silent(ONE, kernel);
        } else {
            found(Rule::GlobalRace, ONE, kernel);
        }
    }
}

/// Prefetches of the map itself are hints. A prefetch of a box uses the map.
#[test]
fn prefetches() {
    let kernel = |w: &World, acquires: bool| {
        init();
        if tid() == 0 {
            bulk::prefetch_tensormap(w.slot(0));
            tensormap::replace_global_dim_global::<0>(w.slot(0), 8);
            bulk::prefetch_tensormap(w.slot(0));
            fence::proxy_tensormap_release_gpu();
            if acquires {
                fence::proxy_tensormap_acquire_gpu(w.slot(0));
            }
            bulk::tensor_prefetch(w.slot(0), [0, 0]);
        }
    };
    silent(ONE, |w| kernel(w, true));
    found(Rule::MapUnseen, ONE, |w| kernel(w, false));
}

/// The start of a kernel does not acquire a map that the kernel before it published; the host's write
/// does away with that.
#[test]
fn a_map_of_the_kernel_before() {
    let memory = GlobalMemory::new();
    let (words, slot) = (memory.alloc(1024), memory.alloc(128));
    let map = Map(encode(&tensor(words)).unwrap());
    let at = || slot as *const [u64; 16];
    let grid = Grid {
        grid: [1, 1, 1],
        block: [32, 1, 1],
        cluster: [1, 1, 1],
        min_ctas: 1,
        smem_bytes: 2048,
        name: "test",
    };
    let launch = |kernel: &(dyn Fn() + Sync)| {
        sim::launch(&Config::default(), &memory, &grid, &kernel).map(|_| ())
    };
    let uses = |acquires: bool| {
        init();
        if tid() == 0 {
            if acquires {
                fence::proxy_tensormap_acquire_sys(at());
            }
            load(at(), [0, 0], 0);
        }
    };
    let lane = |i: usize| (map.0[i / 2] >> (32 * (i % 2))) as u32;
    launch(&|| {
        shared::st(smem(MAP + 4 * tid()), lane(tid() as usize));
        warp::sync_warp(u32::MAX);
        tensormap::cp_fenceproxy_gpu(at(), smem(MAP));
    })
    .unwrap();
    launch(&|| uses(true)).unwrap();
    let report = launch(&|| uses(false)).unwrap_err();
    assert_eq!(report.rule, Rule::MapUnseen, "{report}");
    assert!(report.message.contains("the start of a kernel is none"), "{report}");
    let bytes: Vec<u8> = map.0.iter().flat_map(|w| w.to_le_bytes()).collect();
    memory.write(slot, &bytes).unwrap();
    launch(&|| uses(false)).unwrap();
}

/// A tile from one CTA's TMA to another's: a proxy fence on the way, on either side. In one CTA, and for
/// ordinary loads, the wait for the store is enough.
#[test]
fn tiles_between_ctas() {
    #[derive(Clone, Copy, PartialEq)]
    enum At {
        Nowhere,
        Writer,
        Reader,
    }
    let kernel = |w: &World, at: At, tma: bool| {
        init();
        let first = thread::block_idx_x() == 0;
        if first {
            fill();
            if tid() == 0 {
                bulk::tensor_store(w.map.at(), [0, 0], smem(TILE));
                bulk::commit_group();
                bulk::wait_group::<0>();
                if at == At::Writer {
                    fence::proxy_async_global();
                }
                global::st_release_gpu_u32(w.flag(0), 1);
                // Its own CTA's loads need no fence.
                load(w.map.at(), [0, 0], 0);
            }
        } else if tid() == 0 {
            global::wait_acquire_gpu_u32(w.flag(0), 1);
            if at == At::Reader {
                fence::proxy_async_global();
            }
            if tma {
                load(w.map.at(), [0, 0], 0);
            } else {
                global::ld::<u32>(w.words as *const u32);
            }
        }
    };
    for cluster in [1, 2] {
        for at in [At::Writer, At::Reader] {
            silent((2, cluster, 32), |w| kernel(w, at, true));
        }
        silent((2, cluster, 32), |w| kernel(w, At::Nowhere, false));
        let report = found(Rule::Proxy, (2, cluster, 32), |w| kernel(w, At::Nowhere, true));
        assert!(report.message.contains("asynchronous work of different CTAs"), "{report}");
    }
}
