//! Races in global memory: within a CTA, between CTAs, and between clusters that talk through flags.

use crate::common::{Map, smem, tid};
use sim::ops::cp_async_bulk::{self as bulk, ReduceOp};
use sim::ops::{cluster, cp_async, fence, global, mbarrier, shared, thread, warp};
use sim::tensor_map::{DataType, Swizzle, TensorMapDesc, encode};
use sim::{Config, GlobalMemory, Grid, Report, Rule};

fn block() -> u32 {
    thread::block_idx_x()
}

/// Runs `ctas` CTAs in clusters of `cluster`, on fresh memory of 4 KiB.
fn run(
    seed: u64,
    (ctas, cluster): (u32, u32),
    kernel: &(impl Fn(u64) + Sync),
) -> Result<(), Box<Report>> {
    let memory = GlobalMemory::new();
    let at = memory.alloc(4096);
    let grid = Grid {
        grid: [ctas, 1, 1],
        block: [32, 1, 1],
        cluster: [cluster, 1, 1],
        min_ctas: 1,
        smem_bytes: 2048,
        name: "test",
    };
    let config = Config { seed, workers: Some(1 + (seed % 2) as usize), ..Config::default() };
    sim::launch(&config, &memory, &grid, &|| kernel(at)).map(|_| ())
}

fn twins(rule: Rule, shape: (u32, u32), kernel: impl Fn(u64, bool) + Sync) -> Report {
    for seed in 0..100 {
        run(seed, shape, &|at| kernel(at, true)).unwrap_or_else(|r| panic!("seed {seed}\n{r}"));
    }
    let mut one = None;
    for seed in 0..40 {
        let report = run(seed, shape, &|at| kernel(at, false))
            .expect_err(&format!("{} is not found with seed {seed}", rule.code()));
        assert_eq!(report.rule, rule, "seed {seed}\n{report}");
        assert!(report.at.is_some() && report.other.is_some(), "two sides\n{report}");
        one = Some(*report);
    }
    one.expect("forty runs")
}

fn word(at: u64, i: u32) -> *mut u32 {
    (at + 4 * u64::from(i)) as *mut u32
}

/// What a report of two writers adds.
const WRONG_ADDRESS: &str = "; if the two should not share bytes, the address of one is wrong";

#[test]
fn threads_of_a_cta() {
    let report = twins(Rule::GlobalRace, (1, 1), |at, right| {
        global::st(word(at, tid()), tid());
        if right {
            thread::sync_threads();
        }
        global::ld(word(at, tid() ^ 1));
    });
    assert!(!report.message.contains(WRONG_ADDRESS), "{report}");
    // Halves of a word, by two threads.
    twins(Rule::GlobalRace, (1, 1), |at, right| {
        let half = if right { tid() } else { tid() / 2 };
        global::st((at + 2 * u64::from(half)) as *mut u16, 1);
    });
}

#[test]
fn two_ctas_write_one_row() {
    for cluster in [1, 2] {
        let report = twins(Rule::TwoWriters, (2, cluster), |at, right| {
            let row = if right { block() } else { 0 };
            global::st(word(at, 32 * row + tid()), tid());
        });
        assert!(report.message.contains("overwrites (st.global)"), "{report}");
        assert!(report.message.ends_with(WRONG_ADDRESS), "{report}");
    }
    // In order, if they say so.
    twins(Rule::TwoWriters, (2, 2), |at, right| {
        if block() == 0 {
            global::st(word(at, tid()), 1);
        }
        if right {
            cluster::arrive_release();
        } else {
            cluster::arrive_relaxed();
        }
        cluster::wait_acquire();
        if block() == 1 {
            global::st(word(at, tid()), 2);
        }
    });
}

#[test]
fn atomics_and_reductions_meet_freely() {
    twins(Rule::GlobalRace, (3, 1), |at, right| {
        global::atomic_add_u32(word(at, 0), 1);
        if !right && block() == 1 && tid() == 5 {
            global::ld(word(at, 0));
        }
        shared::st(smem(128 + 4 * tid()), 1u32);
        fence::proxy_async_shared_cta();
        warp::sync_warp(u32::MAX);
        if tid() == 0 {
            bulk::reduce_add_u32((at + 256) as *mut u8, smem(128), 128);
            bulk::commit_group();
            bulk::wait_group::<0>();
        }
    });
}

/// A 16 by 16 tensor of words in the memory, in boxes of 8 by 8.
fn tensor(at: u64) -> Map {
    Map(encode(&TensorMapDesc {
        dtype: DataType::U32,
        rank: 2,
        addr: at,
        dims: [16, 16, 0, 0, 0],
        strides: [64, 0, 0, 0],
        box_dims: [8, 8, 0, 0, 0],
        swizzle: Swizzle::None,
    })
    .unwrap())
}

fn fill() {
    shared::st(smem(128 + 8 * tid()), [block(); 2]);
    fence::proxy_async_shared_cta();
    warp::sync_warp(u32::MAX);
}

#[test]
fn boxes_of_two_ctas() {
    let report = twins(Rule::TwoWriters, (4, 1), |at, right| {
        fill();
        if tid() == 0 {
            let map = tensor(at);
            let row = if right { 8 * (block() / 2) } else { 8 * (block() / 2) - block() / 2 };
            bulk::tensor_store(map.at(), [8 * (block() % 2) as i32, row as i32], smem(128));
            bulk::commit_group();
            bulk::wait_group::<0>();
        }
    });
    assert!(report.message.contains("tma store"), "{report}");
    // Reductions of boxes overlap as they like; a store under them does not.
    twins(Rule::TwoWriters, (2, 1), |at, right| {
        fill();
        if tid() == 0 {
            let map = tensor(at);
            if right || block() == 0 {
                bulk::tensor_reduce(ReduceOp::Add, map.at(), [0, 0], smem(128));
            } else {
                bulk::tensor_store(map.at(), [4, 4], smem(128));
            }
            bulk::commit_group();
            bulk::wait_group::<0>();
        }
    });
}

/// What the memory's start has for a flag, and where the data lie.
const DATA: u64 = 1024;

fn wait_for(at: u64, n: u32) {
    while global::ld_acquire_gpu_u32(word(at, 0)) < n {}
}

/// Workers write parts, the owner adds them up: stream-K.
#[test]
fn parts_that_are_handed_over_through_a_flag() {
    enum Fault {
        None,
        NoRelease,
        NoAcquire,
        /// None: an atomic and a fence acquire.
        Fence,
        EarlyRelease,
        OnlyOneThreadReleases,
    }
    let kernel = |at: u64, fault: &Fault| {
        let (owner, part) = (block() == 0, at + DATA + 128 * u64::from(block()));
        if !owner {
            if matches!(fault, Fault::EarlyRelease) && tid() == 0 {
                global::red_release_gpu_add_u32(word(at, 0), 1);
            }
            global::st(word(part, tid()), tid());
            if !matches!(fault, Fault::OnlyOneThreadReleases) {
                thread::sync_threads();
            }
            if tid() == 0 {
                match fault {
                    Fault::NoRelease => {
                        global::atomic_add_u32(word(at, 0), 1);
                    }
                    Fault::EarlyRelease => {}
                    Fault::NoAcquire | Fault::Fence => {
                        global::red_release_gpu_add_u32(word(at, 1), 1);
                        global::atomic_add_u32(word(at, 0), 1);
                    }
                    _ => global::red_release_gpu_add_u32(word(at, 0), 1),
                }
            }
            return;
        }
        if tid() == 0 {
            wait_for(at, 2);
            if matches!(fault, Fault::NoAcquire | Fault::Fence) {
                // What was acquired carries no release; this word does, and is not acquired.
                assert_eq!(global::atomic_add_u32(word(at, 1), 0), 2);
            }
            if matches!(fault, Fault::Fence) {
                fence::acq_rel_gpu();
            }
        }
        thread::sync_threads();
        for b in 1..3 {
            global::ld(word(at + DATA + 128 * b, 31 - tid()));
        }
    };
    twins(Rule::GlobalRace, (3, 1), |at, right| {
        kernel(at, if right { &Fault::None } else { &Fault::NoRelease });
    });
    for fault in [Fault::NoAcquire, Fault::EarlyRelease, Fault::OnlyOneThreadReleases] {
        twins(Rule::GlobalRace, (3, 1), |at, right| {
            kernel(at, if right { &Fault::Fence } else { &fault });
        });
    }
}

#[test]
fn a_store_flag_and_fences_do_as_well() {
    twins(Rule::GlobalRace, (2, 1), |at, right| {
        if block() == 1 {
            global::st(word(at + DATA, tid()), tid());
            thread::sync_threads();
            if tid() == 0 {
                global::st_release_gpu_u32(word(at, 0), 1);
            }
            if !right {
                // What comes after the release was not released.
                global::st(word(at + DATA, tid()), tid());
            }
        } else {
            wait_for(at, 1);
            global::ld(word(at + DATA, tid()));
        }
    });
    twins(Rule::GlobalRace, (2, 1), |at, right| {
        if block() == 1 {
            global::st(word(at + DATA, tid()), tid());
            thread::sync_threads();
            if tid() == 0 {
                if right {
                    fence::acq_rel_gpu();
                } else {
                    // Reaches the own CTA, and no further.
                    fence::acq_rel_cta();
                }
                global::atomic_add_u32(word(at, 0), 1);
            }
        } else {
            wait_for(at, 1);
            global::ld(word(at + DATA, tid()));
        }
    });
}

/// The CTA that counts last reads what all wrote. A relaxed count tells nothing.
#[test]
fn the_last_cta_reads_what_all_wrote() {
    twins(Rule::GlobalRace, (3, 1), |at, right| {
        global::st(word(at + DATA + 128 * u64::from(block()), tid()), tid());
        thread::sync_threads();
        let mut found = 0;
        if tid() == 0 {
            found = if right {
                global::atomic_inc_acq_rel_gpu_u32(word(at, 0), 2)
            } else {
                global::atomic_add_u32(word(at, 0), 1)
            };
        }
        let found = warp::shfl_idx(found, 0);
        thread::sync_threads();
        if found == 2 {
            for b in 0..3 {
                assert_eq!(global::ld(word(at + DATA + 128 * b, 31 - tid())), 31 - tid());
            }
        }
    });
}

/// A bulk store is the issuer's to tell of once `wait_group` has passed; `.read` is too early.
#[test]
fn parts_that_bulk_stores_bring() {
    twins(Rule::GlobalRace, (2, 1), |at, right| {
        if block() == 1 {
            fill();
            if tid() == 0 {
                bulk::store((at + DATA) as *mut u8, smem(128), 128);
                bulk::commit_group();
                if right {
                    bulk::wait_group::<0>();
                } else {
                    bulk::wait_group_read::<0>();
                }
                global::red_release_gpu_add_u32(word(at, 0), 1);
            }
        } else {
            if tid() == 0 {
                wait_for(at, 1);
            }
            warp::sync_warp(u32::MAX);
            global::ld(word(at + DATA, tid()));
        }
    });
}

/// Read by TMA what another CTA's threads wrote: the fence between the proxies, of global memory.
#[test]
fn parts_that_bulk_loads_fetch() {
    twins(Rule::Proxy, (2, 1), |at, right| {
        if block() == 1 {
            global::st(word(at + DATA, tid()), tid());
            warp::sync_warp(u32::MAX);
            if tid() == 0 {
                global::red_release_gpu_add_u32(word(at, 0), 1);
            }
        } else if tid() == 0 {
            mbarrier::init(smem(0), 1);
            fence::mbarrier_init_release_cluster();
            wait_for(at, 1);
            if right {
                fence::proxy_async_global();
            }
            mbarrier::arrive_expect_tx(smem(0), 128);
            bulk::load(smem(128), (at + DATA) as *const u8, 128, smem(0));
            mbarrier::wait_parity(smem(0), 0);
        }
    });
}

/// What a copy reads is overwritten: after its barrier's phase, or too early.
#[test]
fn sources_of_loads() {
    for tiled in [true, false] {
        // By the issuer itself, which has not waited.
        let report = twins(Rule::GlobalRace, (1, 1), |at, right| {
            if tid() != 0 {
                return;
            }
            mbarrier::init(smem(0), 1);
            fence::mbarrier_init_release_cluster();
            mbarrier::arrive_expect_tx(smem(0), 256);
            let map = tensor(at);
            if tiled {
                bulk::tensor_load(smem(128), map.at(), [8, 0], smem(0));
            } else {
                bulk::load(smem(128), (at + 32) as *const u8, 256, smem(0));
            }
            // Words 0 to 7 of a row are not in the box.
            global::st(word(at, 7), 1);
            if right {
                mbarrier::wait_parity(smem(0), 0);
            }
            global::st(word(at, 8), 1);
            mbarrier::wait_parity(smem(0), 0);
        });
        let text = report.message;
        assert!(text.contains("overwrites") && text.contains("waited for phase 0 of"), "{text}");
    }
    // By another cluster, which is told that the load is over, and when it is not.
    twins(Rule::GlobalRace, (2, 1), |at, right| {
        if tid() != 0 {
            return;
        }
        if block() == 1 {
            wait_for(at, 1);
            global::st(word(at + DATA, 5), 1);
            return;
        }
        mbarrier::init(smem(0), 1);
        fence::mbarrier_init_release_cluster();
        mbarrier::arrive_expect_tx(smem(0), 128);
        bulk::load(smem(128), (at + DATA) as *const u8, 128, smem(0));
        if right {
            mbarrier::wait_parity(smem(0), 0);
        }
        global::red_release_gpu_add_u32(word(at, 0), 1);
        mbarrier::wait_parity(smem(0), 0);
    });
    // The same of `cp.async`.
    twins(Rule::GlobalRace, (1, 1), |at, right| {
        cp_async::copy_16(smem(16 * tid()), (at + 16 * u64::from(tid())) as *const u8);
        cp_async::commit_group();
        if right {
            cp_async::wait_group::<0>();
        }
        global::st(word(at, 4 * tid() + 3), 1);
        cp_async::wait_group::<0>();
    });
}

/// From the first to the third by the second, who passes on what it was told; and back again.
#[test]
fn order_is_handed_on_between_clusters() {
    twins(Rule::GlobalRace, (3, 1), |at, right| {
        let (first, second, third) = (word(at, 0), word(at, 1), word(at, 2));
        if tid() != 0 {
            return;
        }
        let until = |flag: *const u32| while global::ld_acquire_gpu_u32(flag) == 0 {};
        match block() {
            2 => {
                global::st(word(at + DATA, 0), 1);
                global::st_release_gpu_u32(first, 1);
                until(third);
                global::st(word(at + DATA, 0), 2);
            }
            1 => {
                until(first);
                if right {
                    global::st_release_gpu_u32(second, 1);
                } else {
                    global::atomic_add_u32(second, 1);
                }
            }
            _ => {
                until(second);
                global::ld(word(at + DATA, 0));
                global::st_release_gpu_u32(third, 1);
            }
        }
    });
}

#[test]
fn launches_follow_each_other() {
    let memory = GlobalMemory::new();
    let at = memory.alloc(4096);
    for cta in 0..2 {
        let grid = Grid {
            grid: [2, 1, 1],
            block: [32, 1, 1],
            cluster: [1, 1, 1],
            min_ctas: 1,
            smem_bytes: 0,
            name: "test",
        };
        sim::launch(&Config::default(), &memory, &grid, &|| {
            if block() == cta {
                global::st(word(at, tid()), cta);
            }
        })
        .unwrap_or_else(|r| panic!("{r}"));
    }
    // And nothing is looked for when nothing is asked.
    let grid = Grid {
        grid: [2, 1, 1],
        block: [32, 1, 1],
        cluster: [1, 1, 1],
        min_ctas: 1,
        smem_bytes: 0,
        name: "test",
    };
    let config = Config { races: false, ..Config::default() };
    sim::launch(&config, &memory, &grid, &|| global::st(word(at, tid()), 1))
        .unwrap_or_else(|r| panic!("{r}"));
}
