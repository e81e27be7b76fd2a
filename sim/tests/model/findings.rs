//! Each rule has a kernel that breaks it, and a report that names the line.

use crate::common::{Map, Shape, breaks, breaks_on, passes, run_on, run_with, smem, tensor, tid};
use sim::ops::cp_async_bulk as bulk;
use sim::ops::{
    barrier, cluster, cp_async, debug, fence, mbarrier, setmaxnreg, shared, thread, warp, wgmma,
};
use sim::{Config, GlobalMemory, Grid, Rule};

fn init(at: u32, count: u32) {
    if tid() == 0 {
        mbarrier::init(smem(at), count);
        fence::mbarrier_init_release_cluster();
    }
    thread::sync_threads();
}

#[test]
fn a_deadlock_names_lines_barriers_and_the_missing_arrival() {
    let report = breaks(Rule::Deadlock, Shape(64, 1, 64), || {
        debug::label_barrier(smem(0), "full", 0);
        debug::label_barrier(smem(8), "empty", 0);
        init(0, 1);
        init(8, 1);
        if warp::warp_id() == 0 {
            debug::label_role("producer");
            if warp::lane_id() == 0 {
                for phase in [1, 0] {
                    mbarrier::wait_parity(smem(8), phase); // PRODUCER WAITS
                    mbarrier::arrive(smem(0)); // PRODUCER ARRIVES
                }
            }
        } else {
            debug::label_role("consumer");
            for phase in [0, 1] {
                mbarrier::wait_parity(smem(0), phase); // CONSUMER WAITS, AND NEVER RELEASES
            }
        }
    });
    let (wait, arrive) = (line_of("PRODUCER WAITS"), line_of("PRODUCER ARRIVES"));
    let page = report.to_string();
    assert_eq!(report.threads.len(), 2, "{page}");
    for part in [
        "full[0] of CTA 0: phase 1 (parity 1), 1 of 1 arrivals pending",
        "empty[0] of CTA 0: phase 0 (parity 0), 1 of 1 arrivals pending",
        "CTA 0, warp 1 (consumer), which has not released the slot that it took",
        "CTA 0, warp 0, lane 0 (producer), which last arrived for phase 0 (parity 0)",
        "(consumer), 32 threads: waits on `full[0]`",
        &format!("findings.rs:{wait}"),
        &format!("findings.rs:{arrive}"),
        &format!("findings.rs:{}", line_of("CONSUMER WAITS")),
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
}

/// The line of this file that holds a mark.
fn line_of(mark: &str) -> u32 {
    let lines = include_str!("findings.rs").lines();
    1 + lines.take_while(|l| !l.contains(mark)).count() as u32
}

#[test]
fn expected_bytes_that_never_land() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    let report = breaks_on(&memory, Rule::TxLeftOver, Shape(32, 1, 1024), || {
        init(0, 1);
        if tid() == 0 {
            mbarrier::arrive_expect_tx(smem(0), 512); // EXPECTS TOO MUCH
            bulk::tensor_load(smem(128), map.at(), [0, 0], smem(0));
        }
        mbarrier::wait_parity(smem(0), 0);
    });
    assert_eq!((report.barriers[0].tx, report.barriers[0].pending), (256, 0), "{report}");
    assert_eq!(report.at.unwrap().line, line_of("EXPECTS TOO MUCH"));
}

#[test]
fn too_few_expected_bytes() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    let report = breaks_on(&memory, Rule::TxOverrun, Shape(1, 1, 1024), || {
        init(0, 1);
        mbarrier::arrive_expect_tx(smem(0), 128);
        bulk::tensor_load(smem(128), map.at(), [0, 0], smem(0)); // LANDS TOO MUCH
        mbarrier::wait_parity(smem(0), 0);
    });
    assert_eq!(report.at.unwrap().line, line_of("LANDS TOO MUCH"));
}

#[test]
fn an_arrival_too_many() {
    // All 32 lanes arrive where one arrival and its bytes were meant.
    let report = breaks(Rule::TooManyArrivals, Shape(32, 1, 64), || {
        init(0, 1);
        mbarrier::arrive_expect_tx(smem(0), 64);
    });
    assert_eq!(report.barriers[0].expected, 1);
}

#[test]
fn counts_and_operands() {
    breaks(Rule::CountRange, Shape(1, 1, 64), || mbarrier::init(smem(0), 0));
    breaks(Rule::CountRange, Shape(1, 1, 64), || {
        mbarrier::init(smem(0), 1);
        mbarrier::expect_tx(smem(0), 1 << 20);
    });
    breaks(Rule::NoComplete, Shape(1, 1, 64), || {
        mbarrier::init(smem(0), 1);
        mbarrier::arrive_no_complete(smem(0), 1);
    });
    breaks(Rule::Operand, Shape(1, 1, 64), || {
        mbarrier::init(smem(0), 1);
        mbarrier::wait_parity(smem(0), 2);
    });
}

#[test]
fn barriers_that_are_none() {
    breaks(Rule::NotABarrier, Shape(1, 1, 64), || {
        mbarrier::arrive(smem(8));
    });
    breaks(Rule::SharedBounds, Shape(1, 1, 64), || {
        mbarrier::arrive(smem(64));
    });
    breaks(Rule::Misaligned, Shape(1, 1, 64), || mbarrier::init(smem(4), 1));
    let report = breaks(Rule::InitTwice, Shape(2, 1, 64), || {
        mbarrier::init(smem(0), 1); // EVERY THREAD INITIALISES
    });
    assert_eq!(report.other.unwrap().1.line, line_of("EVERY THREAD INITIALISES"));
    breaks(Rule::BarrierMemory, Shape(1, 1, 64), || {
        mbarrier::init(smem(0), 1);
        shared::st(smem(4), 0u32);
    });
    breaks(Rule::InvalInUse, Shape(2, 1, 64), || {
        init(0, 1);
        if tid() == 0 {
            mbarrier::wait_parity(smem(0), 0);
        } else {
            mbarrier::inval(smem(0));
        }
    });
}

#[test]
fn a_waiter_two_phases_behind() {
    let kernel = || {
        init(0, 1);
        if tid() == 32 {
            mbarrier::arrive(smem(0));
            mbarrier::arrive(smem(0));
        } else if tid() == 0 {
            mbarrier::wait_parity(smem(0), 0);
        }
    };
    let rules = |races| -> Vec<_> {
        let rule = |seed| {
            let config = Config { seed, races, ..Config::default() };
            let run = run_with(&config, &GlobalMemory::new(), Shape(33, 1, 64), kernel);
            run.err().map(|report| report.rule)
        };
        (0..50).filter_map(rule).collect()
    };
    // It is fooled if it looks between the two, and stuck if it comes after both.
    let seen = rules(false);
    assert!(seen.contains(&Rule::Lapped) && seen.contains(&Rule::Deadlock), "{seen:?}");
    assert!(seen.iter().all(|&r| r == Rule::Lapped || r == Rule::Deadlock), "{seen:?}");
    // It need not happen: nothing orders the end of the wait before the second arrival.
    assert_eq!(rules(true), [Rule::Lapped; 50]);
}

#[test]
fn memory_that_is_not_there() {
    breaks(Rule::SharedBounds, Shape(1, 1, 64), || shared::st(smem(64), 0u32));
    breaks(Rule::SharedBounds, Shape(1, 1, 64), || {
        shared::ld::<u32>(smem(0) - 4);
    });
    breaks(Rule::Uninitialised, Shape(1, 1, 64), || {
        shared::st(smem(0), 1u32);
        shared::ld::<u64>(smem(0));
    });
    breaks(Rule::Misaligned, Shape(1, 1, 64), || shared::st(smem(4), [0u32; 2]));
    let memory = GlobalMemory::new();
    let at = memory.alloc(64);
    breaks_on(&memory, Rule::GlobalBounds, Shape(1, 1, 0), || {
        sim::ops::global::st((at + 64) as *mut u32, 1);
    });
    breaks_on(&memory, Rule::GlobalBounds, Shape(1, 1, 0), || {
        sim::ops::global::ld::<u32>(std::ptr::null());
    });
}

#[test]
fn global_memory_that_nobody_wrote() {
    use sim::ops::global;
    let memory = GlobalMemory::new();
    let at = memory.alloc_uninitialised(64).unwrap();
    let word = |i: u64| (at + 4 * i) as *mut u32;
    let (two, three, five) = (word(2) as usize, word(3) as usize, word(5) as usize);
    let one = Shape(1, 1, 0);
    let found = |kernel: &(dyn Fn() + Sync)| {
        let report = breaks_on(&memory, Rule::GlobalUnwritten, one, kernel);
        assert!(report.message.contains("nothing has written byte 12 of"), "{report}");
    };
    found(&|| {
        global::ld::<u32>(three as *const u32);
    });
    found(&|| {
        global::atomic_add_u32(three as *mut u32, 1);
    });
    found(&|| {
        global::ld_acquire_gpu_u32(three as *const u32);
    });
    found(&|| global::red_max_u32(three as *mut u32, 1));
    // A word of which half is written.
    memory.write(at + 8, &[1; 4]).unwrap();
    found(&|| {
        global::ld::<u64>(two as *const u64);
    });
    // The host or a kernel may write it first.
    run_on(&memory, 0, one, || {
        global::ld::<u32>(two as *const u32);
    })
    .unwrap();
    run_on(&memory, 0, one, || {
        global::st(three as *mut u32, 1u32);
        global::ld::<u64>(two as *const u64);
        global::atomic_add_u32(three as *mut u32, 1);
    })
    .unwrap();
    // Memory that is restored is as little written as it was.
    let before = memory.snapshot();
    let load = || {
        global::ld::<u32>(five as *const u32);
    };
    memory.write(at + 20, &[1; 4]).unwrap();
    run_on(&memory, 0, one, load).unwrap();
    memory.restore(&before);
    breaks_on(&memory, Rule::GlobalUnwritten, one, load);
    let config = Config { check_uninitialised: false, ..Config::default() };
    run_with(&config, &memory, one, load).unwrap();
}

#[test]
fn tma_operands() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    let report = breaks_on(&memory, Rule::Misaligned, Shape(1, 1, 1024), || {
        init(0, 1);
        bulk::tensor_load(smem(16), map.at(), [0, 0], smem(0));
    });
    assert!(report.message.contains("128"), "{report}");
    breaks_on(&memory, Rule::TensorMap, Shape(1, 1, 1024), || {
        init(0, 1);
        bulk::tensor_load(smem(128), map.at(), [0, 0, 0], smem(0));
    });
    let none = Map([0; 16]);
    breaks(Rule::TensorMap, Shape(1, 1, 1024), || bulk::tensor_store(none.at(), [0], smem(128)));
    breaks_on(&memory, Rule::SharedBounds, Shape(1, 1, 1024), || {
        init(0, 1);
        bulk::tensor_load(smem(896), map.at(), [0, 0], smem(0));
    });
    breaks_on(&memory, Rule::Operand, Shape(1, 1, 1024), || {
        init(0, 1);
        bulk::tensor_load_multicast(smem(128), map.at(), [0, 0], smem(0), 2);
    });
}

#[test]
fn a_tile_read_before_its_barrier() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    let report = breaks_on(&memory, Rule::CopyInFlight, Shape(1, 1, 1024), || {
        init(0, 1);
        mbarrier::arrive_expect_tx(smem(0), 256);
        bulk::tensor_load(smem(128), map.at(), [0, 0], smem(0)); // IN FLIGHT
        shared::ld::<u32>(smem(128)); // TOO EARLY
        mbarrier::wait_parity(smem(0), 0);
    });
    assert_eq!(report.at.unwrap().line, line_of("TOO EARLY"));
    assert_eq!(report.other.unwrap().1.line, line_of("IN FLIGHT"));
}

#[test]
fn a_store_source_overwritten() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    let report = breaks_on(&memory, Rule::StoreReads, Shape(32, 1, 1024), || {
        shared::st(smem(128 + 8 * tid()), [0u32; 2]);
        fence::proxy_async_shared_cta();
        thread::sync_threads();
        if tid() == 0 {
            bulk::tensor_store(map.at(), [0, 0], smem(128)); // STORES
            bulk::commit_group();
        }
        thread::sync_threads();
        shared::st(smem(128 + 8 * tid()), [1u32; 2]); // OVERWRITES
        if tid() == 0 {
            bulk::wait_group_read::<0>();
        }
    });
    assert_eq!(report.at.unwrap().line, line_of("// OVERWRITES"));
    assert_eq!(report.other.unwrap().1.line, line_of("// STORES"));
}

/// Descriptor of an operand of 64 rows of 32 bytes, not swizzled, at a 16-byte address.
fn descriptor(addr: u32) -> (u64, wgmma::Major) {
    (u64::from(addr >> 4) | (128 >> 4) << 16 | (256 >> 4) << 32, wgmma::Major::K)
}

#[test]
fn an_operand_overwritten_before_the_wait() {
    let report = breaks(Rule::WgmmaReads, Shape(128, 1, 4096), || {
        for i in 0..8 {
            shared::st(smem(tid() * 32 + i * 4), 0u32);
        }
        fence::proxy_async_shared_cta();
        thread::sync_threads();
        let mut d = [0.0; 32];
        let (a, b) = (descriptor(smem(0)), descriptor(smem(2048)));
        wgmma::fence();
        wgmma::mma_ss(&mut d, a, b, false, [wgmma::OperandType::F16; 2]); // THE WGMMA
        wgmma::commit_group();
        shared::st(smem(tid() * 16), 1u32); // OVERWRITES ITS OPERAND
        wgmma::wait_group::<0>();
    });
    assert_eq!(report.at.unwrap().line, line_of("// OVERWRITES ITS OPERAND"));
    assert_eq!(report.other.unwrap().1.line, line_of("// THE WGMMA"));
}

/// B is MN-major with a swizzle over 32 bytes: two panels of 16 elements along N, 1024 bytes apart, of
/// 512 bytes each. The first `zeros` bytes of shared memory are written before the wgmma; `after`
/// follows it.
fn two_panels(zeros: u32, after: impl Fn()) {
    for at in (16 * tid()..zeros).step_by(16 * 128) {
        shared::st(smem(at), [0u32; 4]);
    }
    fence::proxy_async_shared_cta();
    thread::sync_threads();
    let b = u64::from(smem(2048) >> 4) | (1024 >> 4) << 16 | (256 >> 4) << 32 | 3 << 62;
    let mut d = [0.0; 16];
    wgmma::fence();
    wgmma::mma_ss(
        &mut d,
        descriptor(smem(0)),
        (b, wgmma::Major::Mn),
        false,
        [wgmma::OperandType::F16; 2],
    );
    wgmma::commit_group();
    after();
    wgmma::wait_group::<0>();
}

#[test]
fn what_an_mn_major_operand_reads() {
    let shape = Shape(128, 1, 4096);
    // Between the panels, and behind the second one, there is nothing of it.
    passes(shape, || two_panels(4096, || shared::st(smem(2560 + 4 * tid()), 1u32)));
    passes(shape, || two_panels(4096, || shared::st(smem(3584 + 4 * tid()), 1u32)));
    passes(shape, || two_panels(3584, || {}));
    breaks(Rule::Uninitialised, shape, || two_panels(3584 - 16, || {}));
    for at in [2048, 2559 - 3, 3072, 3583 - 3] {
        breaks(Rule::WgmmaReads, shape, || {
            two_panels(4096, || {
                if tid() == 0 {
                    shared::st(smem(at), 1u32);
                }
            });
        });
    }
}

#[test]
fn descriptors_of_mn_major_operands() {
    // Start, leading and stride offset, code of the swizzle, and what the report says.
    let wrong = [
        (32, 2048, 1024, 1, "a step of 16 along K is twice the stride offset there, 2048 bytes"),
        (128, 2048, 1024, 1, "begins at a multiple of 1024"),
        (0, 16, 1024, 1, "leading offset 16"),
        (0, 2048, 128, 1, "stride offset 128"),
        (0, 512 + 256, 512, 2, "leading offset 768"),
        (0, 512, 128, 3, "stride offset 128"),
    ];
    for (start, leading, stride, code, says) in wrong {
        let report = breaks(Rule::Descriptor, Shape(128, 1, 8192), || {
            let b =
                u64::from(smem(start) >> 4) | leading >> 4 << 16 | stride >> 4 << 32 | code << 62;
            let mut d = [0.0; 64];
            wgmma::fence();
            let a = descriptor(smem(0));
            let b = (b, wgmma::Major::Mn);
            wgmma::mma_ss(&mut d, a, b, false, [wgmma::OperandType::F16; 2]);
        });
        assert!(report.message.contains(says), "{report}");
    }
}

#[test]
fn wgmma_out_of_order() {
    let mma = |a: (u64, wgmma::Major)| {
        let mut d = [0.0; 4];
        wgmma::fence();
        wgmma::mma_ss(&mut d, a, descriptor(smem(0)), false, [wgmma::OperandType::Bf16; 2]);
    };
    breaks(Rule::BrokenWarpgroup, Shape(96, 1, 4096), || mma(descriptor(smem(0))));
    breaks(Rule::BrokenWarpgroup, Shape(128, 1, 4096), || {
        if warp::warp_id() > 0 {
            mma(descriptor(smem(0)));
        }
    });
    breaks(Rule::BrokenWarpgroup, Shape(128, 1, 4096), || {
        mma(descriptor(smem(16 * warp::warp_id())));
    });
    breaks(Rule::Descriptor, Shape(128, 1, 4096), || {
        let (a, major) = descriptor(smem(128));
        mma((a | 1 << 62, major));
    });
    breaks(Rule::Uninitialised, Shape(128, 1, 4096), || mma(descriptor(smem(0))));
    breaks(Rule::InFlightAtExit, Shape(128, 1, 4096), || {
        for i in 0..8 {
            shared::st(smem(tid() * 32 + i * 4), 0u32);
        }
        fence::proxy_async_shared_cta();
        thread::sync_threads();
        mma(descriptor(smem(0)));
    });
}

#[test]
fn aligned_instructions_in_divergent_code() {
    let report = breaks(Rule::Diverged, Shape(32, 1, 0), || {
        if warp::lane_id() < 16 {
            warp::elect_one(); // HALF A WARP
        }
    });
    // Found when the other half returns, or when this one comes after it has.
    let line = report.other.map_or(report.at.unwrap(), |o| o.1).line;
    assert_eq!(line, line_of("HALF A WARP"));
    #[allow(clippy::if_same_then_else)] // Two instructions, though they look the same.
    breaks(Rule::Diverged, Shape(32, 1, 0), || {
        if warp::lane_id() < 16 {
            barrier::sync(1, 32);
        } else {
            barrier::sync(1, 32);
        }
    });
    breaks(Rule::Diverged, Shape(32, 1, 0), || {
        if warp::lane_id() == 0 {
            warp::sync_warp(3);
        }
    });
}

#[test]
fn named_barriers_against_their_rules() {
    breaks(Rule::NamedBarrier, Shape(32, 1, 0), || barrier::sync(16, 32));
    breaks(Rule::NamedBarrier, Shape(64, 1, 0), || barrier::sync(1, 48));
    breaks(Rule::NamedBarrier, Shape(64, 1, 0), || {
        barrier::sync(1, if warp::warp_id() == 0 { 64 } else { 32 });
    });
    // Nothing stops the arriver from lapping (the hang of a decode kernel's arrive in a loop).
    let report = breaks(Rule::NamedBarrier, Shape(64, 1, 0), || {
        for _ in 0..3 {
            if warp::warp_id() == 0 {
                barrier::arrive(1, 64); // LAPS
            } else {
                barrier::sync(1, 64);
            }
        }
    });
    assert_eq!(report.at.unwrap().line, line_of("// LAPS"));
    breaks(Rule::Deadlock, Shape(64, 1, 0), || {
        if warp::warp_id() == 0 {
            barrier::sync(1, 64);
        }
    });
}

#[test]
fn cluster_barrier_halves() {
    breaks(Rule::ClusterBarrier, Shape(32, 2, 0), cluster::wait_acquire);
    breaks(Rule::ClusterBarrier, Shape(32, 2, 0), || {
        cluster::arrive_release();
        cluster::arrive_relaxed();
    });
}

#[test]
fn peers_that_are_gone() {
    breaks(Rule::PeerGone, Shape(1, 2, 64), || {
        init(0, 1);
        cluster::arrive_release();
        cluster::wait_acquire();
        if cluster::cta_rank() == 0 {
            mbarrier::arrive_remote(cluster::mapa(smem(0), 1));
        }
    });
    breaks(Rule::RemoteAddress, Shape(1, 2, 64), || {
        init(0, 1);
        mbarrier::wait_parity(cluster::mapa(smem(0), cluster::cta_rank() ^ 1), 0);
    });
    breaks(Rule::RemoteAddress, Shape(1, 1, 64), || {
        mbarrier::arrive_remote(cluster::mapa(smem(0), 1));
    });
}

#[test]
fn work_in_flight_at_exit() {
    let memory = GlobalMemory::new();
    let map = tensor(&memory);
    let at = memory.alloc(256);
    let rule = Rule::InFlightAtExit;
    breaks_on(&memory, rule, Shape(1, 1, 1024), || {
        init(0, 1);
        mbarrier::arrive_expect_tx(smem(0), 256);
        bulk::tensor_load(smem(128), map.at(), [0, 0], smem(0));
    });
    for commit in [false, true] {
        breaks_on(&memory, rule, Shape(1, 1, 1024), || {
            shared::st(smem(128), [0u32; 4]);
            fence::proxy_async_shared_cta();
            bulk::store(at as *mut u8, smem(128), 16);
            if commit {
                bulk::commit_group();
            }
        });
    }
    breaks_on(&memory, rule, Shape(1, 1, 1024), || cp_async::copy_16(smem(0), at as *const u8));
}

#[test]
fn registers() {
    breaks(Rule::Registers, Shape(256, 1, 0), setmaxnreg::inc::<28>);
    breaks(Rule::Registers, Shape(384, 1, 0), setmaxnreg::inc::<40>);
    // 384 threads start with 168 each: without a dec there is nothing to hand out.
    let report = breaks(Rule::Deadlock, Shape(384, 1, 0), || {
        if warp::warp_id() >= 4 {
            setmaxnreg::inc::<232>();
        }
    });
    assert!(report.to_string().contains("in setmaxnreg for 232 registers, has 168"), "{report}");
    // Where an SM must hold two CTAs of 256 threads, a thread has 128.
    let half = |kernel: fn()| {
        let (block, one) = ([256, 1, 1], [1; 3]);
        let grid =
            Grid { grid: one, block, cluster: one, min_ctas: 2, smem_bytes: 0, name: "half" };
        sim::launch(&Config::default(), &GlobalMemory::new(), &grid, &kernel)
    };
    half(setmaxnreg::dec::<128>).expect("128 of 128");
    let report = half(setmaxnreg::dec::<136>).expect_err("more than there are");
    assert_eq!(report.rule, Rule::Registers);
    assert!(report.message.contains("setmaxnreg.dec to 136 registers from 128"), "{report}");
}

/// The names of the fields are what tools rely on.
#[test]
fn a_report_as_json() {
    let report = breaks(Rule::TooManyArrivals, Shape(2, 1, 64), || {
        sim::ops::debug::label_role("Twice");
        if tid() == 0 {
            mbarrier::init(shared::dynamic_base(), 1);
            sim::ops::debug::label_barrier(shared::dynamic_base(), "ring.full", 3);
        }
        barrier::sync_unaligned(1, 2);
        if tid() == 0 {
            mbarrier::expect_tx(shared::dynamic_base(), 16);
            mbarrier::arrive(shared::dynamic_base());
            mbarrier::arrive(shared::dynamic_base());
        }
    });
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let names: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let readme = include_str!("../../README.md");
    let table = readme.split("# Reports as JSON").nth(1).unwrap();
    for name in &names {
        assert!(table.contains(&format!("`{name}`")), "{name} is not in the README");
    }
    assert_eq!(names.len(), 17);
    assert_eq!(json["rule"], "WP004");
    assert_eq!(json["chapter"], "docs/semantics.md#mbarrier");
    assert_eq!(json["culprit"]["role"], "Twice");
    assert_eq!(json["barriers"][0]["stage"], 3);
    assert_eq!(json["barriers"][0]["tx"], 16);
    assert_eq!(json["steps"][0]["who"]["warp"], 0);
    assert_eq!(json["at"]["line"], report.at.unwrap().line);
    assert_eq!(json["trace"], format!("{:016x}", report.trace));
}
