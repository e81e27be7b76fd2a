//! `tcgen05.mma` on the model: each kind by one CTA and by a pair, with A in shared memory and in tensor memory, against
//! products in f64; and the copies of a pair. No chip has run them.

use float8::F8E4M3;
use half::bf16;
use isa::tcgen05::{self, Swizzle, Ue4m3, Ue8m0};
use isa::{E2m1x2, Tf32, cluster, fence, mbarrier, shared, thread, warp};
use sim::{Config, GlobalMemory, Grid};
use std::sync::Mutex;

/// A kind of multiplication, with one of its element types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Case {
    Bf16,
    Tf32,
    E4m3,
    S8,
    Mxf8,
    Mxf4,
    Nvf4,
}
use Case::{Bf16, E4m3, Mxf4, Mxf8, Nvf4, S8};

impl Case {
    /// Elements of a row in one instruction.
    fn k(self) -> u32 {
        match self {
            Case::Tf32 => 8,
            Bf16 => 16,
            E4m3 | S8 | Mxf8 => 32,
            Mxf4 | Nvf4 => 64,
        }
    }
    /// Factors of a row in one instruction.
    fn factors(self) -> u32 {
        match self {
            Mxf8 => 1,
            Mxf4 => 2,
            Nvf4 => 4,
            _ => 0,
        }
    }
    /// Columns of D: by a pair no multiple of 32 with block scales, and otherwise one.
    fn n(self) -> u32 {
        if self.factors() > 0 { 48 } else { 64 }
    }
    /// The 32 bits of a row from element `first` on.
    fn word(self, operand: u32, row: u32, first: u32) -> u32 {
        let x = |i: u32| element(operand, row, first + i);
        let pair = |i: u32| E2m1x2::from_f32([x(i), x(i + 1)]).to_bits();
        let bytes: [u8; 4] = std::array::from_fn(|i| match (self, i as u32) {
            (Case::Tf32, _) => x(0).to_le_bytes()[i],
            (Bf16, at) => bf16::from_f32(x(at / 2)).to_le_bytes()[i % 2],
            (E4m3 | Mxf8, at) => F8E4M3::from_f32(x(at)).to_bits(),
            (S8, at) => (x(at) as i8).cast_unsigned(),
            (Mxf4 | Nvf4, at) => pair(2 * at),
        });
        u32::from_le_bytes(bytes)
    }
    /// A factor and its byte.
    fn factor(self, operand: u32, row: u32, block: u32) -> (f64, u8) {
        let i = (row + row / 32 + 3 * block + operand) % 3;
        match self {
            Mxf8 | Mxf4 => [(0.5, 126), (1.0, 127), (2.0, 128)][i as usize],
            Nvf4 => [(0.5, 0x30), (1.0, 0x38), (1.75, 0x3e)][i as usize],
            _ => (1.0, 0),
        }
    }
    /// An element of an operand, times its factor.
    fn scaled(self, operand: u32, row: u32, k: u32) -> f64 {
        let block = k * self.factors() / self.k();
        f64::from(element(operand, row, k)) * self.factor(operand, row, block).0
    }
}

/// A whole number that all types have.
fn element(operand: u32, row: u32, k: u32) -> f32 {
    ((7 * row + row / 8 + 5 * k + k / 16 + 3 * operand) % 5) as f32 - 2.0
}

/// Shared memory: the address of tensor memory, a barrier, and the operands without a swizzle.
const BAR: u32 = 16;
const A: u32 = 1024;
const B: u32 = A + 128 * 32;
const FACTORS: u32 = B + 64 * 32;
/// Columns of tensor memory behind D's: the factors of A and B, and A.
const SFA: u32 = 64;
const SFB: u32 = SFA + 4;
const A_COLUMN: u32 = SFB + 4;
const COLUMNS: u32 = 128;

/// Issues the multiplication.
unsafe fn multiply(case: Case, d: u32, s: u32, pair: bool, tensor: bool) {
    let describe = |at| tcgen05::shared(s + at, 128, 256, Swizzle::None);
    let (a, b, in_tensor) = (describe(A), describe(B), d + A_COLUMN);
    let (m, n, sfa, sfb) = (128 << u32::from(pair), case.n(), d + SFA, d + SFB);
    macro_rules! one_of {
        ($one:ident, $ts:ident, $two:ident, $two_ts:ident, $idesc:expr $(, $more:expr)*) => {
            match (pair, tensor) {
                (false, false) => tcgen05::$one(d, a, b, $idesc $(, $more)*, false),
                (false, true) => tcgen05::$ts(d, in_tensor, b, $idesc $(, $more)*, false),
                (true, false) => tcgen05::$two(d, a, b, $idesc $(, $more)*, false),
                (true, true) => tcgen05::$two_ts(d, in_tensor, b, $idesc $(, $more)*, false),
            }
        };
    }
    // SAFETY: the caller's: the operands are there, and the columns are allocated.
    unsafe {
        match case {
            Bf16 => {
                let idesc = tcgen05::instruction::<bf16, bf16>(m, n);
                one_of!(mma_f16, mma_f16_ts, mma_f16_2sm, mma_f16_ts_2sm, idesc);
            }
            Case::Tf32 => {
                let idesc = tcgen05::instruction::<Tf32, Tf32>(m, n);
                one_of!(mma_tf32, mma_tf32_ts, mma_tf32_2sm, mma_tf32_ts_2sm, idesc);
            }
            E4m3 => {
                let idesc = tcgen05::instruction::<F8E4M3, F8E4M3>(m, n);
                one_of!(mma_f8f6f4, mma_f8f6f4_ts, mma_f8f6f4_2sm, mma_f8f6f4_ts_2sm, idesc);
            }
            S8 => {
                let idesc = tcgen05::instruction::<i8, i8>(m, n);
                one_of!(mma_i8, mma_i8_ts, mma_i8_2sm, mma_i8_ts_2sm, idesc);
            }
            Mxf8 => one_of!(
                mma_mxf8f6f4_block_scale,
                mma_mxf8f6f4_block_scale_ts,
                mma_mxf8f6f4_block_scale_2sm,
                mma_mxf8f6f4_block_scale_ts_2sm,
                tcgen05::instruction_block_scale::<Ue8m0, F8E4M3, F8E4M3>(m, n, 0),
                sfa,
                sfb
            ),
            Mxf4 => one_of!(
                mma_mxf4_block_scale,
                mma_mxf4_block_scale_ts,
                mma_mxf4_block_scale_2sm,
                mma_mxf4_block_scale_ts_2sm,
                tcgen05::instruction_block_scale::<Ue8m0, E2m1x2, E2m1x2>(m, n, 0),
                sfa,
                sfb
            ),
            Nvf4 => one_of!(
                mma_mxf4nvf4_block_scale,
                mma_mxf4nvf4_block_scale_ts,
                mma_mxf4nvf4_block_scale_2sm,
                mma_mxf4nvf4_block_scale_ts_2sm,
                tcgen05::instruction_block_scale::<Ue4m3, E2m1x2, E2m1x2>(m, n, 0),
                sfa,
                sfb
            ),
        }
    }
}

/// All threads of the cluster have come, and their stores to tensor memory are over.
unsafe fn sync(wrote: bool) {
    // SAFETY: all threads of the cluster come.
    unsafe {
        if wrote {
            tcgen05::wait_st();
        }
        tcgen05::fence_before_thread_sync();
        cluster::arrive_release();
        cluster::wait_acquire();
        tcgen05::fence_after_thread_sync();
    }
}

/// Runs a CTA or a pair of 128 threads with 128 columns of tensor memory: `write` in all threads, `issue` in one thread of the
/// cluster, and, when that has completed, loads of all columns below `read`. Gives the rows of both CTAs.
fn run(
    pair: bool,
    read: usize,
    write: impl Fn(u32, u32) + Sync,
    issue: impl Fn(u32, u32) + Sync,
) -> Vec<Vec<u32>> {
    let ctas = 1 + u32::from(pair);
    let rows = Mutex::new(vec![Vec::new(); 128 * ctas as usize]);
    let entry = || {
        let (t, rank, s) = (thread::thread_idx_x(), cluster::cta_rank(), shared::dynamic_base());
        // SAFETY: as the order of the instructions says.
        unsafe {
            if t == 0 {
                mbarrier::init(s + BAR, 1);
                fence::mbarrier_init_release_cluster();
            }
            sync(false);
            if t < 32 && pair {
                tcgen05::alloc_2sm(s, COLUMNS);
            } else if t < 32 {
                tcgen05::alloc(s, COLUMNS);
            }
            thread::sync_threads();
            let d: u32 = shared::ld(s);
            write(s, d);
            fence::proxy_async_shared_cta();
            sync(true);
            if t < 32 && rank == 0 {
                if warp::elect_one() {
                    issue(s, d);
                    if pair {
                        tcgen05::commit_multicast_2sm(s + BAR, 3);
                    } else {
                        tcgen05::commit(s + BAR);
                    }
                }
                warp::sync_warp(u32::MAX);
            }
            mbarrier::wait_parity(s + BAR, 0);
            tcgen05::fence_after_thread_sync();
            let mut row = Vec::new();
            for column in (0..read as u32).step_by(16) {
                let loaded = tcgen05::ld_32x32b_x16(d + column + ((t / 32 * 32) << 16));
                tcgen05::wait_ld();
                row.extend(loaded.ready());
            }
            rows.lock().unwrap()[(128 * rank + t) as usize] = row;
            sync(false);
            if t < 32 && pair {
                tcgen05::dealloc_2sm(d, COLUMNS);
            } else if t < 32 {
                tcgen05::dealloc(d, COLUMNS);
            }
        }
    };
    let grid = Grid {
        grid: [ctas, 1, 1],
        block: [128, 1, 1],
        cluster: [ctas, 1, 1],
        min_ctas: 1,
        smem_bytes: 16384,
        name: "products",
    };
    for seed in 0..2 {
        let config = Config { seed, workers: Some(1), ..Config::default() };
        if let Err(report) = sim::launch(&config, &GlobalMemory::new(), &grid, &entry) {
            panic!("{report}");
        }
    }
    rows.into_inner().unwrap()
}

/// Writes this CTA's operands: its rows of A, its part of B's, and the factors, all of them for B.
unsafe fn write_operands(case: Case, s: u32, d: u32, pair: bool, tensor: bool) {
    let (t, rank) = (thread::thread_idx_x(), cluster::cta_rank());
    let own = case.n() >> u32::from(pair);
    let place = |row: u32, i: u32| row / 8 * 256 + i / 4 * 128 + row % 8 * 16 + i % 4 * 4;
    let word = |operand, row, i| case.word(operand, row, i * case.k() / 8);
    // SAFETY: each thread has its own row, in shared memory and in its warp's lanes.
    unsafe {
        if tensor {
            let row = std::array::from_fn(|i| word(0, 128 * rank + t, i as u32));
            tcgen05::st_32x32b_x8(d + A_COLUMN + ((t / 32 * 32) << 16), row);
        }
        for i in 0..8 {
            if !tensor {
                shared::st(s + A + place(t, i), word(0, 128 * rank + t, i));
            }
            if t < own {
                shared::st(s + B + place(t, i), word(1, own * rank + t, i));
            }
        }
        for (operand, row) in [(0, 128 * rank + t), (1, t)] {
            let bytes = std::array::from_fn(|i| case.factor(operand, row, i as u32).1);
            let at = s + FACTORS + 512 * operand + 16 * (t % 32) + 4 * (t / 32);
            shared::st(at, u32::from_le_bytes(bytes));
        }
    }
}

fn check(case: Case, pair: bool, tensor: bool) {
    let got = run(
        pair,
        case.n() as usize,
        // SAFETY: nobody else uses what the thread writes.
        |s, d| unsafe { write_operands(case, s, d, pair, tensor) },
        // SAFETY: the operands are there; the columns are allocated.
        |s, d| unsafe {
            if case.factors() > 0 {
                let copy =
                    if pair { tcgen05::cp_32x128b_warpx4_2sm } else { tcgen05::cp_32x128b_warpx4 };
                let from = |i: u32| tcgen05::shared(s + FACTORS + 512 * i, 16, 128, Swizzle::None);
                copy(d + SFA, from(0));
                copy(d + SFB, from(1));
            }
            multiply(case, d, s, pair, tensor);
        },
    );
    for (row, sums) in (0..).zip(&got) {
        assert_eq!(sums.len(), case.n() as usize, "all columns are read");
        for (column, &sum) in (0..).zip(sums) {
            let product = |k| case.scaled(0, row, k) * case.scaled(1, column, k);
            let want: f64 = (0..case.k()).map(product).sum();
            let sum = if case == S8 {
                f64::from(sum.cast_signed())
            } else {
                f64::from(f32::from_bits(sum))
            };
            assert!(
                sum.to_bits() == (want + 0.0).to_bits() || (sum == 0.0 && want == 0.0),
                "{case:?}, pair {pair}, A in tensor memory {tensor}: D({row}, {column}) is {sum}, not {want}"
            );
        }
    }
}

#[test]
fn a_cta_multiplies() {
    for case in [Bf16, Case::Tf32, E4m3, S8, Mxf8, Mxf4, Nvf4] {
        check(case, false, false);
    }
}

#[test]
fn a_cta_multiplies_an_a_in_tensor_memory() {
    for case in [Bf16, Case::Tf32, E4m3, S8, Mxf8, Mxf4, Nvf4] {
        check(case, false, true);
    }
}

/// Each CTA has the rows of its part of A, half of the rows of B, and with block scales the factors of all rows of B.
#[test]
fn a_pair_multiplies() {
    for case in [Bf16, Case::Tf32, E4m3, S8, Mxf8, Mxf4, Nvf4] {
        check(case, true, false);
    }
}

#[test]
fn a_pair_multiplies_an_a_in_tensor_memory() {
    for case in [Bf16, Case::Tf32, E4m3, S8, Mxf8, Mxf4, Nvf4] {
        check(case, true, true);
    }
}

/// A copy of a pair does in each CTA what the copy of one CTA does there.
#[test]
fn each_cta_of_a_pair_copies_its_own_rows() {
    type Copy = unsafe fn(u32, u64);
    let shapes: [(&str, u32, Copy, Copy); 6] = [
        ("128x256b", 0, tcgen05::cp_128x256b, tcgen05::cp_128x256b_2sm),
        ("4x256b", 7 << 16, tcgen05::cp_4x256b, tcgen05::cp_4x256b_2sm),
        ("128x128b", 0, tcgen05::cp_128x128b, tcgen05::cp_128x128b_2sm),
        ("02_13", 0, tcgen05::cp_64x128b_warpx2_02_13, tcgen05::cp_64x128b_warpx2_02_13_2sm),
        ("01_23", 0, tcgen05::cp_64x128b_warpx2_01_23, tcgen05::cp_64x128b_warpx2_01_23_2sm),
        ("warpx4", 0, tcgen05::cp_32x128b_warpx4, tcgen05::cp_32x128b_warpx4_2sm),
    ];
    for (name, lane, one, two) in shapes {
        // The words of the CTA with this rank, or with `second` those of rank 1 in a CTA alone.
        let copied = |pair: bool, second: u32, copy: Copy| {
            run(
                pair,
                16,
                // SAFETY: each thread has its own row, in shared memory and in its warp's lanes.
                |s, d| unsafe {
                    let (t, rank) = (thread::thread_idx_x(), cluster::cta_rank() + second);
                    for i in 0..8 {
                        let place = t / 8 * 256 + i / 4 * 128 + t % 8 * 16 + i % 4 * 4;
                        shared::st(s + A + place, 1 << 30 | rank << 20 | t << 8 | i);
                    }
                    let before = std::array::from_fn(|i| rank << 20 | t << 8 | i as u32);
                    tcgen05::st_32x32b_x16(d + ((t / 32 * 32) << 16), before);
                },
                // SAFETY: the columns are allocated, and nobody else uses them.
                |s, d| unsafe {
                    copy(d + 4 + lane, tcgen05::shared(s + A, 128, 256, Swizzle::None));
                },
            )
        };
        let alone = [copied(false, 0, one), copied(false, 1, one)].concat();
        assert!(alone.iter().flatten().any(|word| word >> 30 == 1), "{name} copies");
        assert!(copied(true, 0, two) == alone, "{name}");
    }
}
