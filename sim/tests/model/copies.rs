//! Bulk copies: boxes, multicast, zero fill, clipping, groups, reductions.

use crate::common::{Map, Shape, init_cluster, run_on, smem, tid};
use sim::ops::cp_async_bulk::{self as bulk, ReduceOp};
use sim::ops::{cluster, cp_async, fence, mbarrier, shared, thread};
use sim::tensor_map::{DataType, Swizzle, TensorMapDesc, encode};
use sim::{GlobalMemory, Rule};

const BAR: u32 = 0;

fn filled(memory: &GlobalMemory, words: u32) -> u64 {
    let addr = memory.alloc(words as usize * 4);
    let bytes: Vec<u8> = (0..words).flat_map(|i| (i + 1).to_le_bytes()).collect();
    memory.write(addr, &bytes).unwrap();
    addr
}

fn words(memory: &GlobalMemory, addr: u64, n: usize) -> Vec<u32> {
    let mut out = vec![0; n * 4];
    memory.read(addr, &mut out).unwrap();
    out.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// A tensor of u32 whose dimension sizes are `dims`, contiguous.
fn map(addr: u64, dims: &[u64], boxes: &[u32], swizzle: Swizzle) -> Map {
    let mut d = TensorMapDesc {
        dtype: DataType::U32,
        rank: dims.len() as u32,
        addr,
        dims: [0; 5],
        strides: [0; 4],
        box_dims: [0; 5],
        swizzle,
    };
    let mut stride = 4;
    for (i, &n) in dims.iter().enumerate() {
        (d.dims[i], d.box_dims[i]) = (n, boxes[i]);
        stride *= n;
        if i + 1 < dims.len() {
            d.strides[i] = stride;
        }
    }
    Map(encode(&d).unwrap())
}

fn init(count: u32) {
    if tid() == 0 {
        mbarrier::init(smem(BAR), count);
        fence::mbarrier_init_release_cluster();
    }
    cluster::arrive_release();
    cluster::wait_acquire();
}

/// Multicast writes, and completes on the barrier, at the same offset in each destination.
#[test]
fn multicast_to_two() {
    let memory = GlobalMemory::new();
    let m = map(filled(&memory, 64 * 8), &[64, 8], &[32, 8], Swizzle::None);
    for seed in 0..20 {
        run_on(&memory, seed, Shape(32, 2, 8192), || {
            init(1);
            let rank = cluster::cta_rank();
            if tid() == 0 {
                mbarrier::arrive_expect_tx(smem(BAR), 2 * 1024);
                let dst = smem(1024 + 1024 * rank);
                let coords = [rank as i32 * 32, 0];
                bulk::tensor_load_multicast(dst, m.at(), coords, smem(BAR), 3);
            }
            mbarrier::wait_parity(smem(BAR), 0);
            for half in 0..2 {
                let got: u32 = shared::ld(smem(1024 + 1024 * half + 128 + 4 * tid()));
                assert_eq!(got, 1 + 64 + 32 * half + tid(), "row 1 of half {half}");
            }
            cluster::arrive_release();
            cluster::wait_acquire();
        })
        .unwrap_or_else(|r| panic!("{r}"));
    }
}

/// Outside the tensor, on every side, loads give zero, and the whole box counts in bytes.
#[test]
fn zero_fill_on_all_sides() {
    let memory = GlobalMemory::new();
    let m = map(filled(&memory, 8 * 4), &[8, 4], &[8, 8], Swizzle::B32);
    run_on(&memory, 0, Shape(1, 1, 1024), || {
        init(1);
        mbarrier::arrive_expect_tx(smem(BAR), 256);
        bulk::tensor_load(smem(256), m.at(), [-4, -2], smem(BAR));
        mbarrier::wait_parity(smem(BAR), 0);
        for y in 0..8 {
            for x in 0..8 {
                let got: u32 = shared::ld(Swizzle::B32.apply(smem(256 + y * 32 + x * 4)));
                let inside = (4..12).contains(&x) && (2..6).contains(&y);
                assert_eq!(got, if inside { 1 + (y - 2) * 8 + (x - 4) } else { 0 }, "{x} {y}");
            }
        }
    })
    .unwrap_or_else(|r| panic!("{r}"));
}

/// In 1 to 5 dimensions a box comes in and goes out, clipped, to where it was.
#[test]
fn every_rank_in_and_out() {
    fn round<const D: usize>(dims: [u64; D], boxes: [u32; D], at: [i32; D]) {
        let memory = GlobalMemory::new();
        let n: u64 = dims.iter().product();
        let (src, dst) = (filled(&memory, n as u32), memory.alloc(n as usize * 4));
        let (from, to) =
            (map(src, &dims, &boxes, Swizzle::None), map(dst, &dims, &boxes, Swizzle::None));
        run_on(&memory, 7, Shape(1, 1, 16384), || {
            init(1);
            let bytes = 4 * boxes.iter().product::<u32>();
            mbarrier::arrive_expect_tx(smem(BAR), bytes);
            bulk::tensor_load(smem(128), from.at(), at, smem(BAR));
            mbarrier::wait_parity(smem(BAR), 0);
            // Only loads may begin before the tensor.
            if at.iter().all(|&x| x >= 0) {
                bulk::tensor_store(to.at(), at, smem(128));
                bulk::commit_group();
                bulk::wait_group_read::<0>();
            }
        })
        .unwrap_or_else(|r| panic!("{r}"));
        for (i, got) in words(&memory, dst, n as usize).into_iter().enumerate() {
            let mut rest = i as u64;
            let inside = at.iter().all(|&x| x >= 0)
                && (0..D).all(|d| {
                    let x = (rest % dims[d]) as i32 - at[d];
                    rest /= dims[d];
                    (0..boxes[d] as i32).contains(&x)
                });
            assert_eq!(got, if inside { i as u32 + 1 } else { 0 }, "{i} of {dims:?}");
        }
    }
    round([100], [64], [48]);
    round([12, 5], [8, 4], [8, 3]);
    round([8, 3, 4], [4, 2, 2], [4, -1, 1]);
    round([8, 3, 2, 3], [8, 2, 2, 2], [4, -1, 0, 2]);
    round([4, 3, 2, 2, 3], [4, 2, 1, 2, 2], [0, 1, 1, 1, -1]);
}

/// A box begins on 16 bytes of a row, as the chip demands (docs/conformance.md).
#[test]
fn boxes_begin_on_sixteen_bytes() {
    for (x, store) in [(1, false), (-2, false), (3, true)] {
        let memory = GlobalMemory::new();
        let (dims, boxes) = ([64], [16]);
        let m = map(filled(&memory, 64), &dims, &boxes, Swizzle::None);
        let report = run_on(&memory, 0, Shape(1, 1, 1024), || {
            if store {
                bulk::tensor_store(m.at(), [x], smem(128));
            } else {
                init(1);
                mbarrier::arrive_expect_tx(smem(BAR), 64);
                bulk::tensor_load(smem(128), m.at(), [x], smem(BAR));
            }
        });
        let report = report.expect_err("a box between boundaries");
        assert_eq!(report.rule, sim::Rule::Misaligned);
        let said = report.to_string();
        assert!(said.contains(&format!("element {x} of a row, 4 bytes each")), "{said}");
    }
}

/// A store or reduction begins inside of the tensor or beyond it, never before (docs/conformance.md).
#[test]
fn stores_do_not_begin_before_the_tensor() {
    for at in [[-4, 0], [4, -1]] {
        let memory = GlobalMemory::new();
        let m = map(filled(&memory, 64), &[8, 8], &[4, 2], Swizzle::None);
        let report = run_on(&memory, 0, Shape(1, 1, 1024), || {
            bulk::tensor_store(m.at(), at, smem(128));
        });
        assert_eq!(report.expect_err("a store before the tensor").rule, sim::Rule::Operand);
    }
}

/// A box that lies wholly outside of the tensor reads from the map's address if it is loaded, as on an H200. A store of it touches
/// nothing.
#[test]
fn a_load_outside_of_the_tensor_reads_from_the_map_s_address() {
    for (mapped, outside, store) in
        [(false, true, false), (true, true, false), (false, false, false), (false, true, true)]
    {
        let memory = GlobalMemory::new();
        let tensor = filled(&memory, 64);
        // Rows 100 to 107 of the map are the tensor's.
        let desc = TensorMapDesc {
            dtype: DataType::U32,
            rank: 2,
            addr: if mapped { tensor } else { tensor - 100 * 32 },
            dims: [4, 108, 1, 1, 1],
            strides: [32, 0, 0, 0],
            box_dims: [4, 4, 1, 1, 1],
            swizzle: Swizzle::None,
        };
        let m = Map(encode(&desc).unwrap());
        let at = if outside { [4, 100] } else { [0, 104] };
        let ran = run_on(&memory, 0, Shape(1, 1, 1024), || {
            if store {
                (0..16).for_each(|i| shared::st(smem(128 + 4 * i), i));
                fence::proxy_async_shared_cta();
                bulk::tensor_store(m.at(), at, smem(128));
                bulk::commit_group();
                bulk::wait_group::<0>();
            } else {
                init(1);
                mbarrier::arrive_expect_tx(smem(BAR), 64);
                bulk::tensor_load(smem(128), m.at(), at, smem(BAR));
                mbarrier::wait_parity(smem(BAR), 0);
            }
        });
        let fails = outside && !mapped && !store;
        let said = ran.err().map(|report| (report.rule, report.to_string()));
        assert_eq!(said.as_ref().map(|said| said.0), fails.then_some(Rule::GlobalBounds));
        assert!(said.is_none_or(|(_, said)| said.contains("reads from the tensor map's address")));
    }
}

/// A store writes whole runs of 16 bytes: the end of a clipped row takes the rest of its run with
/// it, as an H200 does (64 columns of 16 bits to a tensor of 57 write 64, to one of 33 write 40).
#[test]
fn clipped_rows_are_written_to_the_end_of_their_sixteen_bytes() {
    for (cols, written) in [(16, 16), (15, 16), (13, 16), (12, 12), (9, 12), (1, 4)] {
        let memory = GlobalMemory::new();
        let dst = memory.alloc(2 * 80);
        let desc = TensorMapDesc {
            dtype: DataType::U32,
            rank: 2,
            addr: dst,
            dims: [cols, 2, 1, 1, 1],
            strides: [80, 0, 0, 0],
            box_dims: [16, 2, 1, 1, 1],
            swizzle: Swizzle::None,
        };
        let to = Map(encode(&desc).unwrap());
        run_on(&memory, 0, Shape(32, 1, 1024), || {
            shared::st(smem(128 + 4 * tid()), tid() + 1);
            fence::proxy_async_shared_cta();
            sim::ops::thread::sync_threads();
            if tid() == 0 {
                bulk::tensor_store(to.at(), [0, 0], smem(128));
                bulk::commit_group();
                bulk::wait_group::<0>();
            }
        })
        .unwrap_or_else(|r| panic!("{r}"));
        let got = words(&memory, dst, 40);
        for (i, got) in got.into_iter().enumerate() {
            let (row, col) = (i as u32 / 20, i as u32 % 20);
            let want = if col < written { row * 16 + col + 1 } else { 0 };
            assert_eq!(got, want, "row {row}, column {col} of {cols}");
        }
    }
}

#[test]
fn plain_runs_and_copies_between_ctas() {
    let memory = GlobalMemory::new();
    let (src, dst) = (filled(&memory, 32), memory.alloc(256));
    for seed in 0..20 {
        run_on(&memory, seed, Shape(1, 2, 1024), || {
            init(1);
            let rank = cluster::cta_rank();
            mbarrier::arrive_expect_tx(smem(BAR), if rank == 0 { 128 } else { 64 });
            if rank == 0 {
                bulk::load(smem(128), src as *const u8, 128, smem(BAR));
                mbarrier::wait_parity(smem(BAR), 0);
                let peer = |at| cluster::mapa(smem(at), 1);
                bulk::copy_to_cta(peer(256), smem(160), 64, peer(BAR));
            } else {
                mbarrier::wait_parity(smem(BAR), 0);
                assert_eq!(shared::ld::<[u32; 4]>(smem(256)), [9, 10, 11, 12]);
                bulk::store(dst as *mut u8, smem(256), 64);
                bulk::commit_group();
                bulk::wait_group::<0>();
                assert_eq!(sim::ops::global::ld(dst as *const u32), 9);
            }
            cluster::arrive_release();
            cluster::wait_acquire();
        })
        .unwrap_or_else(|r| panic!("{r}"));
    }
    assert_eq!(words(&memory, dst, 16), (9..25).collect::<Vec<u32>>());
}

#[test]
fn reductions_add_up() {
    let memory = GlobalMemory::new();
    let (tensor, run) = (filled(&memory, 64), filled(&memory, 4));
    let m = map(tensor, &[8, 8], &[8, 8], Swizzle::None);
    let float = memory.alloc(16);
    run_on(&memory, 0, Shape(32, 1, 1024), || {
        shared::st(smem(128 + 8 * tid()), [100u32; 2]);
        fence::proxy_async_shared_cta();
        thread::sync_threads();
        if tid() == 0 {
            shared::st(smem(512), [1.5f32.to_bits(); 4]);
            fence::proxy_async_shared_cta();
            bulk::tensor_reduce(ReduceOp::Add, m.at(), [0, 0], smem(128));
            bulk::reduce_add_u32(run as *mut u8, smem(128), 16);
            bulk::reduce_add_f32(float as *mut u8, smem(512), 16);
            bulk::reduce_add_f32(float as *mut u8, smem(512), 16);
            bulk::commit_group();
            bulk::wait_group::<0>();
        }
    })
    .unwrap_or_else(|r| panic!("{r}"));
    assert_eq!(words(&memory, tensor, 64), (101..165).collect::<Vec<u32>>());
    assert_eq!(words(&memory, run, 4), [101, 102, 103, 104]);
    assert_eq!(words(&memory, float, 4), [3f32.to_bits(); 4]);
}

#[test]
fn cp_async_by_group_and_by_barrier() {
    let memory = GlobalMemory::new();
    let src = filled(&memory, 64);
    for seed in 0..20 {
        run_on(&memory, seed, Shape(4, 1, 1024), || {
            init(4);
            let at = |i: u32| (src + u64::from(i) * 16) as *const u8;
            for i in 0..3 {
                cp_async::copy_16(smem(128 + 16 * (3 * tid() + i)), at(i));
                cp_async::commit_group();
            }
            cp_async::wait_group::<1>();
            assert_eq!(shared::ld::<u32>(smem(128 + 48 * tid() + 16)), 5);
            cp_async::wait_group::<0>();
            cp_async::copy_16(smem(512 + 16 * tid()), at(4 + tid()));
            mbarrier::cp_async_arrive_noinc(smem(BAR));
            mbarrier::wait_parity(smem(BAR), 0);
            let other = (tid() + 1) % 4;
            assert_eq!(shared::ld::<u32>(smem(512 + 16 * other)), 17 + 4 * other);
        })
        .unwrap_or_else(|r| panic!("{r}"));
    }
}

/// Beyond the bytes that are read there are zeros, and nothing is read for a copy of no bytes.
#[test]
fn cp_async_fills_with_zeros() {
    let memory = GlobalMemory::new();
    let src = filled(&memory, 64);
    run_on(&memory, 0, Shape(1, 1, 1024), || {
        for (i, (at, bytes)) in [(src, 16), (src, 6), (0, 0)].into_iter().enumerate() {
            let dst = smem(128 + 16 * i as u32);
            shared::st(dst, [u32::MAX; 4]);
            cp_async::copy_16_zfill(dst, at as *const u8, bytes);
        }
        cp_async::commit_group();
        cp_async::wait_group::<0>();
        let words: [[u32; 4]; 3] =
            core::array::from_fn(|i| shared::ld::<[u32; 4]>(smem(128 + 16 * i as u32)));
        assert_eq!(words, [[1, 2, 3, 4], [1, 2, 0, 0], [0; 4]]);
    })
    .unwrap_or_else(|r| panic!("{r}"));
    breaks_zfill(&memory, src);
}

fn breaks_zfill(memory: &GlobalMemory, src: u64) {
    let report = run_on(memory, 0, Shape(1, 1, 1024), || {
        cp_async::copy_16_zfill(smem(128), src as *const u8, 17);
    });
    assert_eq!(report.expect_err("17 of 16 bytes").rule, sim::Rule::Misaligned);
}

/// A tensor map may lie in global memory as well.
#[test]
fn tensor_maps_in_global_memory() {
    let memory = GlobalMemory::new();
    let m = map(filled(&memory, 64), &[8, 8], &[8, 8], Swizzle::None);
    let at = memory.alloc(128);
    let bytes: Vec<u8> = m.0.iter().flat_map(|w| w.to_le_bytes()).collect();
    memory.write(at, &bytes).unwrap();
    run_on(&memory, 0, Shape(1, 1, 1024), || {
        init(1);
        let map = at as *const [u64; 16];
        bulk::prefetch_tensormap(map);
        bulk::tensor_prefetch(map, [0, 0]);
        mbarrier::arrive_expect_tx(smem(BAR), 256);
        bulk::tensor_load(smem(128), map, [0, 0], smem(BAR));
        mbarrier::wait_parity(smem(BAR), 0);
        assert_eq!(shared::ld::<u32>(smem(128 + 252)), 64);
    })
    .unwrap_or_else(|r| panic!("{r}"));
}

/// Bytes count in the phase in which they land: the readers of a slot tell who fills it that the phase before is over.
#[test]
fn a_copy_is_issued_by_who_knows_that_the_phase_before_is_over() {
    let memory = GlobalMemory::new();
    let from = memory.alloc(16);
    memory.write(from, &[7; 16]).unwrap();
    let kernel = |told: bool| {
        init_cluster(BAR, 1);
        init_cluster(BAR + 8, 1);
        for phase in 0..2 {
            if tid() == 32 {
                mbarrier::arrive_expect_tx(smem(BAR), 16);
                mbarrier::wait_parity(smem(BAR), phase);
                shared::ld::<u32>(smem(128 + 16 * phase));
                mbarrier::arrive(smem(BAR + 8));
            } else if tid() == 0 {
                bulk::load(smem(128 + 16 * phase), from as *const u8, 16, smem(BAR));
                if told {
                    mbarrier::wait_parity(smem(BAR + 8), phase);
                }
            }
        }
    };
    for seed in 0..20 {
        run_on(&memory, seed, Shape(64, 1, 1024), || kernel(true)).unwrap();
        let report = run_on(&memory, seed, Shape(64, 1, 1024), || kernel(false)).unwrap_err();
        // Or both landed in the first phase, which can't end.
        assert!(matches!(report.rule, Rule::TxOverrun | Rule::Deadlock), "{report}");
    }
}
