//! Plans run on the SM model with the plainest of kernels, which keeps to the GEMM's calling
//! convention and to nothing else: what is tested is what the host does around it. Every operand is
//! staged in some case, and results are compared with the f64 product.

use crate::map::{Map, TILE};
use gpu_kernels::gemm::instance::Instances;
use gpu_kernels::gemm::{Instance, KernelSchedule, Linear, LoadArgs, TileSchedulerParams};
use host::data::{decode, encode, normal, rounded};
use host::gemm::{Gemm, GemmProblem};
use host::reference::Product;
use host::{Device, Dtype, SimConfig, View};
use isa::kernel;
use isa::kernel::{Image, Kernel, KernelDesc, KernelMeta};
use isa::{cp_async_bulk, cvt, fence, mbarrier, shared, thread};

/// Rows of every box; columns are 64 bf16.
const SIDE: u32 = TILE.rows;
const TILE_BYTES: u32 = SIDE * 128;
const THREADS: u32 = 128;
/// Elements of the tile of D that one thread computes.
const MINE: u32 = SIDE * SIDE / THREADS;

/// Shared memory of the kernel: tiles of A, B, and of C and D; a barrier.
#[derive(Clone, Copy)]
struct Smem {
    a: u32,
    b: u32,
    d: u32,
    bar: u32,
}

/// Loads one box into `dst` and waits for it; all threads of the CTA meet before and after.
fn load(map: &Map, dst: u32, row: u32, col: u32, bar: u32, phase: &mut u32) {
    // SAFETY: `dst` is a tile of the CTA's own memory that nobody uses between the two epochs;
    // the barrier is armed with the bytes of the box.
    unsafe {
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            mbarrier::arrive_expect_tx(bar, TILE_BYTES);
            cp_async_bulk::tensor_load(dst, &raw const map.0, [col as i32, row as i32], bar);
        }
        mbarrier::wait_parity(bar, *phase);
    }
    *phase ^= 1;
}

/// Address of an element of a tile with the 128-byte swizzle.
fn at(tile: u32, row: u32, col: u32) -> u32 {
    tile + row * 128 + (((col / 8) ^ (row % 8)) * 16) + col % 8 * 2
}

/// Elements (row, col) and (row, col + 1), col even.
fn pair(tile: u32, row: u32, col: u32) -> [f32; 2] {
    // SAFETY: inside of a tile that was loaded.
    cvt::bf16x2_to_f32(unsafe { shared::ld(at(tile, row, col)) })
}

/// One tile of D at (row, col).
fn one_tile(
    maps: [&Map; 4],
    (linear, p): (Linear, TileSchedulerParams),
    with_c: bool,
    s: Smem,
    row: u32,
    col: u32,
    phase: &mut u32,
) {
    let me = thread::thread_idx_x() * MINE;
    let (y, x) = (me / SIDE, me % SIDE);
    let mut sums = [0.0f32; MINE as usize];
    for k in (0..p.k_tiles()).map(|k| k * SIDE) {
        load(maps[0], s.a, row, k, s.bar, phase);
        load(maps[1], s.b, col, k, s.bar, phase);
        for (j, sum) in (0..).zip(&mut sums) {
            for k in (0..SIDE).step_by(2) {
                let ([a0, a1], [b0, b1]) = (pair(s.a, y, k), pair(s.b, x + j, k));
                *sum += a0 * b0 + a1 * b1;
            }
        }
    }
    if with_c {
        load(maps[2], s.d, row, col, s.bar, phase);
    }
    for (j, sums) in (0..MINE).step_by(2).zip(sums.chunks_exact(2)) {
        let c = if with_c { pair(s.d, y, x + j) } else { [0.0; 2] };
        let d =
            [0, 1].map(|i| linear.alpha * sums[i] + if with_c { linear.beta * c[i] } else { 0.0 });
        // SAFETY: each thread writes its own elements of the tile, and makes them visible to the
        // copy engine before the meeting; one thread then stores the tile and waits.
        unsafe { shared::st(at(s.d, y, x + j), cvt::bf16x2(d[0], d[1])) };
    }
    fence::proxy_async_shared_cta();
    // SAFETY: as above.
    unsafe {
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            let map = &raw const maps[3].0;
            cp_async_bulk::tensor_store(map, [col as i32, row as i32], s.d);
            cp_async_bulk::commit_group();
            cp_async_bulk::wait_group::<0>();
        }
        thread::sync_threads();
    }
}

fn plain_gemm(maps: [&Map; 4], args: (Linear, TileSchedulerParams), with_c: bool) {
    let p = args.1;
    let base = shared::dynamic_base();
    let s = Smem {
        a: base,
        b: base + TILE_BYTES,
        d: base + 2 * TILE_BYTES,
        bar: base + 3 * TILE_BYTES,
    };
    // SAFETY: the CTA's own memory; initialised once, published, and met before use.
    unsafe {
        if thread::thread_idx_x() == 0 {
            mbarrier::init(s.bar, 1);
            fence::mbarrier_init_release_cluster();
            fence::proxy_async();
        }
        thread::sync_threads();
    }
    let mut phase = 0;
    let tiles = p.tiles();
    let columns = tiles / p.tiles_m();
    for tile in (thread::block_idx_x()..tiles).step_by(thread::grid_dim_x() as usize) {
        let (row, col) = (tile / columns * SIDE, tile % columns * SIDE);
        one_tile(maps, args, with_c, s, row, col, &mut phase);
    }
}

/// Without C.
#[kernel(threads = THREADS, smem = 3 * TILE_BYTES + 8)]
pub fn plain(
    a: &Map,
    b: &Map,
    c: &Map,
    d: &Map,
    _loads: LoadArgs<'_>,
    epilogue: Linear,
    scheduler: TileSchedulerParams,
) {
    plain_gemm([a, b, c, d], (epilogue, scheduler), false);
}

/// With C.
#[kernel(threads = THREADS, smem = 3 * TILE_BYTES + 8)]
pub fn plain_c(
    a: &Map,
    b: &Map,
    c: &Map,
    d: &Map,
    _loads: LoadArgs<'_>,
    epilogue: Linear,
    scheduler: TileSchedulerParams,
) {
    plain_gemm([a, b, c, d], (epilogue, scheduler), true);
}

static PLAIN: KernelDesc = plain::DESC;
static PLAIN_C: KernelDesc = plain_c::DESC;
static KERNELS: [KernelMeta; 2] = [PLAIN.meta, PLAIN_C.meta];
pub static IMAGE: Image =
    Image { name: "plain", arch: "sm_90a", code: &[], kernels: &KERNELS, ptxas: None, others: &[] };

const fn instance(desc: &'static KernelDesc, has_c: bool) -> Instance {
    Instance {
        desc,
        bm: SIDE,
        bn: SIDE,
        bk: SIDE,
        stages: 1,
        stage_bytes: 2 * SIDE * SIDE * 2,
        groups: 1,
        splits_k: false,
        kernel_schedule: KernelSchedule::Cooperative,
        cluster_m: 1,
        cluster_n: 1,
        a_mn_major: false,
        b_mn_major: false,
        batched: false,
        ab: Dtype::Bf16,
        b: Dtype::Bf16,
        out: Dtype::Bf16,
        promotes: false,
        scale_granularity: None,
        has_c,
        swap_ab: false,
        gated: false,
        activates: false,
    }
}
pub static TABLE: [Instance; 2] = [instance(&PLAIN, false), instance(&PLAIN_C, true)];

/// Plans and runs twice; both results must be the product, to the bit the same.
fn right((m, n, k): (usize, usize, usize), alpha: f32, beta: Option<f32>, staged: &str) {
    let device = Device::sim(SimConfig { sms: 4, ..SimConfig::default() });
    let gemm = Gemm::with_instances(&device, &IMAGE, Instances::<Linear>::of(&TABLE)).unwrap();
    let bf16 = Dtype::Bf16;
    let [a, b, c] = [(1, m * k), (2, n * k), (3, m * n)]
        .map(|(seed, count)| rounded(&normal(seed, count), bf16).unwrap());
    let up = |values: &[f32]| device.upload(&encode(values, bf16).unwrap()).unwrap();
    let (da, db) = (up(&a), up(&b));
    // What beta = 0 must not read.
    let dc = beta.map(|beta| if beta == 0.0 { up(&vec![f32::NAN; m * n]) } else { up(&c) });
    let problem = GemmProblem {
        m: m as u64,
        n: n as u64,
        k: k as u64,
        ab: bf16,
        out: bf16,
        beta_c: beta.is_some(),
    };
    let plan = gemm.plan(&problem).unwrap();
    let operands: String = plan.describe().staging.iter().map(|s| s.operand).collect();
    assert_eq!(operands, staged, "{problem:?}");
    let beta = beta.unwrap_or(0.0);
    let run = || {
        let mut d = device.alloc(2 * m * n).unwrap();
        d.fill(0xff).unwrap();
        plan.run(&da, &db, dc.as_ref().map(View::from), &mut d, alpha, beta)
            .unwrap_or_else(|e| panic!("{e}"));
        d.to_vec().unwrap()
    };
    let (first, second) = (run(), run());
    assert!(first == second, "{problem:?}");
    let product = Product { m, n, k, a: &a, b: &b, c: Some(&c), alpha, beta };
    let check = product.check(&decode(&first, bf16).unwrap()).unwrap();
    assert!(check.below(4e-3), "{problem:?}: {check}");
}

#[test]
fn aligned_operands_are_used_in_place() {
    right((128, 64, 64), 1.0, None, "");
    right((64, 128, 128), 0.5, Some(-2.0), "");
}

#[test]
fn ragged_operands_are_staged() {
    // Rows of A and B of 130 bytes; of C and D of 134.
    right((33, 67, 65), 1.0, None, "ABD");
    right((33, 67, 65), 0.5, Some(2.0), "ABCD");
    // A and B as they are, D of 10 bytes.
    right((70, 5, 8), 1.0, None, "D");
}

#[test]
fn single_rows_are_staged_only_to_be_written() {
    right((1, 1, 1), 1.0, None, "D");
    right((1, 9, 3), 1.0, None, "BD");
    right((1, 8, 8), 1.0, None, "");
}

#[test]
fn without_k_there_is_beta_c() {
    right((20, 24, 0), 1.0, Some(3.0), "");
    right((20, 24, 0), 1.0, None, "");
}

#[test]
fn c_is_not_read_when_beta_is_zero() {
    right((64, 64, 16), 1.0, Some(0.0), "");
}

#[test]
fn empty_results_are_empty() {
    right((0, 64, 16), 1.0, None, "");
    right((64, 0, 16), 1.0, Some(1.0), "");
}
