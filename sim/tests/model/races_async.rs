//! Asynchronous copies and wgmma as agents of their own, and the fence between the proxies.

use crate::common::twins::{found, found_on, silent_on, twins, twins_on};
use crate::common::{Map, Shape, init_cluster as init, run_on, smem, tensor, tid};
use sim::ops::cp_async_bulk as bulk;
use sim::ops::{cluster, cp_async, fence, matrix, mbarrier, shared, thread, warp, wgmma};
use sim::{GlobalMemory, Rule};

fn line_of(mark: &str) -> u32 {
    let lines = include_str!("races_async.rs").lines();
    1 + lines.take_while(|l| !l.contains(mark)).count() as u32
}

fn store(map: &Map, src: u32) {
    store_at(map, src, 0);
}

fn store_at(map: &Map, src: u32, round: u32) {
    bulk::tensor_store(map.at(), [0, 8 * round as i32], src);
    bulk::commit_group();
}

#[test]
fn a_store_by_tma_needs_the_proxy_fence() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    let report = twins_on(&memory, Rule::Proxy, Shape(64, 1, 1024), |right| {
        shared::st(smem(128 + 4 * tid()), tid()); // WRITES
        // One thread that forgets it is enough.
        if right || tid() != 33 {
            fence::proxy_async_shared_cta();
        }
        thread::sync_threads();
        if tid() == 0 {
            store(&map, smem(128));
            bulk::wait_group_read::<0>();
        }
    });
    assert_eq!(report.other.unwrap().1.line, line_of("// WRITES"));
    assert!(report.message.contains("CTA 0, warp 1, lane 1 wrote"), "{}", report.message);
}

#[test]
fn a_fence_before_the_write_is_none() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    twins_on(&memory, Rule::Proxy, Shape(64, 1, 1024), |right| {
        if !right {
            fence::proxy_async_shared_cta();
        }
        shared::st(smem(128 + 4 * tid()), tid());
        if right {
            fence::proxy_async_shared_cta();
        } else {
            // For registers, and for another space.
            fence::proxy_async_global();
            wgmma_fence();
        }
        thread::sync_threads();
        if tid() == 0 {
            store(&map, smem(128));
            bulk::wait_group_read::<0>();
        }
    });
}

fn wgmma_fence() {
    wgmma::fence();
}

/// The manual lets the fence stand on the other side of the barrier, too.
#[test]
fn a_fence_by_the_issuer_after_the_barrier() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    silent_on(&memory, Shape(64, 1, 1024), || {
        shared::st(smem(128 + 4 * tid()), tid());
        thread::sync_threads();
        if tid() == 0 {
            fence::proxy_async();
            store(&map, smem(128));
            bulk::wait_group_read::<0>();
        }
    });
}

#[test]
fn a_source_overwritten_without_wait_group_read() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    let report = twins_on(&memory, Rule::StoreReads, Shape(64, 1, 1024), |right| {
        for round in 0..2u32 {
            shared::st(smem(128 + 4 * tid()), round); // OVERWRITES
            fence::proxy_async_shared_cta();
            thread::sync_threads();
            if tid() == 0 {
                store_at(&map, smem(128), round); // STORES
                if right {
                    bulk::wait_group_read::<0>();
                }
            }
            // The barrier says that it was issued, and not that it has read.
            thread::sync_threads();
        }
        if tid() == 0 {
            bulk::wait_group_read::<0>();
        }
    });
    assert_eq!(report.at.unwrap().line, line_of("// OVERWRITES"));
    // It speaks for the thread that executes it, and for nobody else.
    found_on(&memory, Rule::StoreReads, Shape(64, 1, 1024), || {
        for round in 0..2u32 {
            shared::st(smem(128 + 4 * tid()), round);
            fence::proxy_async_shared_cta();
            thread::sync_threads();
            if tid() == 0 {
                store_at(&map, smem(128), round);
            }
            thread::sync_threads();
            bulk::wait_group_read::<0>();
            if tid() == 32 {
                shared::st(smem(128), round);
            }
        }
    });
}

#[test]
fn stmatrix_and_a_store() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    for (rule, right_fence) in [(Rule::Proxy, true), (Rule::SharedRace, false)] {
        twins_on(&memory, rule, Shape(64, 1, 2048), |right| {
            if tid() < 32 {
                matrix::stmatrix_x2(smem(128 + 16 * (tid() % 16)), [tid(); 2]);
            }
            if right || !right_fence {
                fence::proxy_async_shared_cta();
            }
            if right || right_fence {
                thread::sync_threads();
            } else {
                warp::sync_warp(u32::MAX);
                late(tid() == 32);
            }
            if tid() == 32 {
                store(&map, smem(128));
                bulk::wait_group_read::<0>();
            }
        });
    }
}

/// Time for the others, which orders nothing: a step that counts as one, and a rest.
fn late(really: bool) {
    if really {
        for _ in 0..400 {
            fence::acq_rel_cta();
            sim::ops::misc::nanosleep(1);
        }
    }
}

#[test]
fn a_tile_that_was_not_waited_for() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    let report = twins_on(&memory, Rule::CopyInFlight, Shape(64, 1, 1024), |right| {
        init(0, 1);
        if tid() == 0 {
            mbarrier::arrive_expect_tx(smem(0), 256);
            bulk::tensor_load(smem(128), map.at(), [0, 0], smem(0)); // LOADS
        }
        // One warp waits; the other comes late enough to find the tile landed.
        if right || tid() < 32 {
            mbarrier::wait_parity(smem(0), 0);
        } else {
            late(true);
            mbarrier::test_wait_parity(smem(0), 1);
        }
        if right || tid() >= 32 {
            shared::ld::<u32>(smem(128 + 4 * (tid() % 32))); // READS
        }
    });
    assert_eq!(report.at.unwrap().line, line_of("// READS"));
    assert_eq!(report.other.unwrap().1.line, line_of("// LOADS"));
}

/// A ring of two slots that TMA fills and threads read.
fn ring(map: &Map, right: bool) {
    for slot in 0..2 {
        init(8 * slot, 1);
        init(16 + 8 * slot, 32);
    }
    for i in 0..6 {
        let (slot, phase) = (i % 2, (i / 2) & 1);
        let (full, empty) = (smem(8 * slot), smem(16 + 8 * slot));
        if tid() == 32 {
            if right || i != 4 {
                mbarrier::wait_parity(empty, phase ^ 1);
            }
            mbarrier::arrive_expect_tx(full, 256);
            bulk::tensor_load(smem(128 + 256 * slot), map.at(), [0, 0], full);
        } else if tid() < 32 {
            mbarrier::wait_parity(full, phase);
            shared::ld::<u32>(smem(128 + 256 * slot + 4 * tid()));
            mbarrier::arrive(empty);
        }
    }
}

#[test]
fn a_ring_whose_producer_does_not_wait() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    silent_on(&memory, Shape(64, 1, 1024), || ring(&map, true));
    for seed in 0..40 {
        let shape = Shape(64, 1, 1024);
        let report = run_on(&memory, seed, shape, || ring(&map, false)).unwrap_err();
        // It overwrites what was read, or what has not landed; or it arms a phase twice, or laps, or its bytes may count
        // in the phase before.
        let rules = [
            Rule::SharedRace,
            Rule::CopyInFlight,
            Rule::TooManyArrivals,
            Rule::Lapped,
            Rule::TxOverrun,
        ];
        assert!(rules.contains(&report.rule), "seed {seed}\n{report}");
    }
}

/// Reads through the generic proxy, then a load over them: the barrier is enough, as in CUTLASS.
/// Writes need the fence.
#[test]
fn a_load_over_what_threads_used() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    twins_on(&memory, Rule::Proxy, Shape(64, 1, 1024), |right| {
        init(0, 1);
        shared::st(smem(128 + 4 * tid()), tid());
        if right {
            fence::proxy_async_shared_cta();
        }
        shared::ld::<u32>(smem(128 + 4 * tid()));
        thread::sync_threads();
        if tid() == 0 {
            mbarrier::arrive_expect_tx(smem(0), 256);
            bulk::tensor_load(smem(128), map.at(), [0, 0], smem(0));
        }
        mbarrier::wait_parity(smem(0), 0);
        shared::ld::<u32>(smem(128 + 4 * (63 - tid())));
    });
}

/// A warp reads, and its elected lane loads over that, or says that the slot is free. `elect` orders no
/// memory; `bar.warp.sync` does, and the model asks for no fence between reads and the load.
#[test]
fn a_load_over_what_a_warp_reads() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    for another in [false, true] {
        let report = twins_on(&memory, Rule::SharedRace, Shape(64, 1, 1024), |right| {
            init(0, 1);
            init(8, 1);
            let fill = || {
                mbarrier::arrive_expect_tx(smem(0), 256);
                bulk::tensor_load(smem(128), map.at(), [0, 0], smem(0)); // FILLS
            };
            for phase in 0..2 {
                if another && tid() == 0 {
                    mbarrier::wait_parity(smem(8), phase ^ 1);
                    fill();
                }
                if tid() >= 32 {
                    if right {
                        warp::sync_warp(u32::MAX);
                    }
                    if !another && warp::elect_one() {
                        fill();
                    }
                    mbarrier::wait_parity(smem(0), phase);
                    shared::ld::<u32>(smem(4 * tid())); // READS A ROW
                    if another && right {
                        warp::sync_warp(u32::MAX);
                    }
                    if another && warp::elect_one() {
                        mbarrier::arrive(smem(8));
                    }
                }
            }
        });
        assert_eq!(report.at.unwrap().line, line_of("// FILLS"));
        assert_eq!(report.other.as_ref().unwrap().1.line, line_of("// READS A ROW"));
        assert!(report.message.contains("and bar.warp.sync does"), "{report}");
    }
}

/// The peer's slot: its release is of .cta scope, and says that its reads are over.
#[test]
fn a_multicast_over_slots_that_peers_released() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    for (rule, case) in [(Rule::SharedRace, 0), (Rule::SharedRace, 1)] {
        twins_on(&memory, rule, Shape(32, 2, 1024), |right| {
            init(0, 1);
            init(8, 64);
            for phase in 0..2 {
                if tid() == 0 {
                    mbarrier::arrive_expect_tx(smem(0), 256);
                }
                if cluster::cta_rank() == 0 && tid() == 0 {
                    if phase == 1 && (right || case == 0) {
                        mbarrier::wait_parity(smem(8), 0);
                    } else if phase == 1 {
                        late(true);
                    }
                    bulk::tensor_load_multicast(smem(128), map.at(), [0, 0], smem(0), 3);
                }
                warp::sync_warp(u32::MAX);
                mbarrier::wait_parity(smem(0), phase);
                if !right && case == 0 {
                    mbarrier::arrive_remote(cluster::mapa(smem(8), 0));
                }
                shared::ld::<u32>(smem(128 + 4 * tid()));
                if right || case == 1 {
                    mbarrier::arrive_remote(cluster::mapa(smem(8), 0));
                }
            }
            cluster::arrive_relaxed();
            cluster::wait_acquire();
        });
    }
}

#[test]
fn inits_for_copies_need_a_fence() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    for fence in [fence::mbarrier_init_release_cluster, fence::proxy_async] {
        let report = twins_on(&memory, Rule::InitUnseen, Shape(64, 1, 1024), |right| {
            if tid() == 0 {
                mbarrier::init(smem(0), 1);
                if right {
                    fence();
                }
            }
            thread::sync_threads();
            if tid() == 32 {
                mbarrier::arrive_expect_tx(smem(0), 256);
                bulk::tensor_load(smem(128), map.at(), [0, 0], smem(0));
                mbarrier::wait_parity(smem(0), 0);
            }
        });
        assert!(report.message.contains("makes it visible to copies"), "{report}");
    }
}

/// Descriptor of an operand of 64 rows of 32 bytes, not swizzled, at a 16-byte address.
fn descriptor(addr: u32) -> (u64, wgmma::Major) {
    (u64::from(addr >> 4) | (128 >> 4) << 16 | (256 >> 4) << 32, wgmma::Major::K)
}

fn multiply() {
    let mut d = [0.0; 32];
    wgmma::fence();
    let (a, b) = (descriptor(smem(0)), descriptor(smem(2048)));
    wgmma::mma_ss(&mut d, a, b, false, [wgmma::OperandType::F16; 2]); // MULTIPLIES
    wgmma::commit_group();
}

#[test]
fn operands_that_threads_wrote() {
    for (rule, no_fence) in [(Rule::Proxy, true), (Rule::SharedRace, false)] {
        twins(rule, Shape(128, 1, 4096), |right| {
            for i in 0..2 {
                shared::st(smem(tid() * 32 + i * 16), [0u32; 4]);
            }
            if right || !no_fence {
                fence::proxy_async_shared_cta();
            }
            if right || no_fence {
                thread::sync_threads();
            } else {
                // The lanes meet in the wgmma, which orders nothing.
                wgmma::fence();
            }
            multiply();
            wgmma::wait_group::<0>();
        });
    }
}

#[test]
fn operands_overwritten_before_they_are_read() {
    let report = twins(Rule::WgmmaReads, Shape(256, 1, 4096), |right| {
        for i in 0..2 {
            shared::st(smem(tid() % 128 * 32 + 16 * (tid() / 128 + i) % 32), [0u32; 4]);
            thread::sync_threads();
        }
        fence::proxy_async_shared_cta();
        thread::sync_threads();
        if tid() < 128 {
            multiply();
            if right {
                wgmma::wait_group::<0>();
            }
        }
        thread::sync_threads();
        if tid() >= 128 {
            shared::st(smem(tid() % 128 * 16), [1u32; 4]); // OVERWRITES AN OPERAND
        }
        thread::sync_threads();
        if tid() < 128 {
            wgmma::wait_group::<0>();
        }
    });
    assert_eq!(report.at.unwrap().line, line_of("// OVERWRITES AN OPERAND"));
    assert_eq!(report.other.unwrap().1.line, line_of("// MULTIPLIES"));
}

/// A wait for the group after the barrier that hands the slot over is too late.
#[test]
fn a_wait_group_after_the_release() {
    found(Rule::WgmmaReads, Shape(256, 1, 4096), || {
        if tid() < 128 {
            for i in 0..2 {
                shared::st(smem(tid() * 32 + i * 16), [0u32; 4]);
            }
            fence::proxy_async_shared_cta();
            sim::ops::barrier::sync(1, 128);
            multiply();
            sim::ops::barrier::arrive(2, 256);
            wgmma::wait_group::<0>();
        } else {
            sim::ops::barrier::sync(2, 256);
            late(true);
            shared::st(smem(tid() % 128 * 16), [1u32; 4]);
        }
    });
}

#[test]
fn cp_async_is_generic_and_asynchronous() {
    let memory = GlobalMemory::new();
    let src = memory.alloc(1024);
    twins_on(&memory, Rule::CopyInFlight, Shape(32, 1, 1024), |right| {
        cp_async::copy_16(smem(16 * tid()), (src + 16 * u64::from(tid())) as *const u8);
        cp_async::commit_group();
        if right {
            cp_async::wait_group::<0>();
        }
        warp::sync_warp(u32::MAX);
        shared::ld::<u32>(smem(16 * (31 - tid())));
        cp_async::wait_group::<0>();
    });
    let map = tensor(&memory);
    twins_on(&memory, Rule::Proxy, Shape(32, 1, 1024), |right| {
        cp_async::copy_16(smem(128 + 16 * (tid() % 16) + 256 * (tid() / 16)), src as *const u8);
        cp_async::commit_group();
        cp_async::wait_group::<0>();
        if right {
            fence::proxy_async_shared_cta();
        }
        thread::sync_threads();
        if tid() == 0 {
            store(&map, smem(128));
            bulk::wait_group_read::<0>();
        }
    });
    // Through a barrier; and a barrier that was told too early.
    twins_on(&memory, Rule::CopyInFlight, Shape(32, 1, 1024), |right| {
        init(0, 32);
        let copy = || {
            cp_async::copy_16(smem(128 + 16 * tid()), src as *const u8);
        };
        if right {
            copy();
        }
        mbarrier::cp_async_arrive_noinc(smem(0));
        if !right {
            copy();
        }
        mbarrier::wait_parity(smem(0), 0);
        shared::ld::<u32>(smem(128 + 16 * (31 - tid())));
        cp_async::commit_group();
        cp_async::wait_group::<0>();
    });
}

#[test]
fn copies_between_ctas() {
    // The source may be used again when the copy has completed where it went.
    twins(Rule::StoreReads, Shape(32, 2, 1024), |right| {
        init(0, 1);
        init(8, 1);
        let rank = cluster::cta_rank();
        let peer = |at| cluster::mapa(smem(at), rank ^ 1);
        shared::st(smem(128 + 4 * tid()), tid());
        fence::proxy_async();
        cluster::arrive_release();
        cluster::wait_acquire();
        if tid() == 0 {
            mbarrier::arrive_expect_tx(smem(0), 128);
            bulk::copy_to_cta(peer(256), smem(128), 128, peer(0));
        }
        warp::sync_warp(u32::MAX);
        mbarrier::wait_parity(smem(0), 0);
        shared::ld::<u32>(smem(256 + 4 * tid()));
        if right {
            cluster::arrive_release();
            cluster::wait_acquire();
        }
        shared::st(smem(128 + 4 * tid()), 1u32);
        cluster::arrive_release();
        cluster::wait_acquire();
    });
}
