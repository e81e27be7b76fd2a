//! A raw warp-specialised GEMM in the instructions alone: TMA with multicast, a ring of mbarriers,
//! wgmma, setmaxnreg, stmatrix and TMA stores, in clusters of two.

use half::bf16;
use sim::ops::{
    barrier, cluster, cp_async_bulk as bulk, debug, fence, matrix, mbarrier, setmaxnreg, shared,
    thread, warp, wgmma,
};
use sim::tensor_map::{DataType, Swizzle, TensorMapDesc, encode};
use sim::{Config, GlobalMemory, Grid};

const BM: u32 = 128;
const BK: u32 = 64;
const STAGES: u32 = 3;

struct Gemm {
    a: [u64; 16],
    b: [u64; 16],
    d: [u64; 16],
    k: u32,
}

#[repr(align(64))]
struct Aligned<T>(T);

fn map(addr: u64, rows: u64, cols: u64, box_rows: u32) -> [u64; 16] {
    encode(&TensorMapDesc {
        dtype: DataType::Bf16,
        rank: 2,
        addr,
        dims: [cols, rows, 0, 0, 0],
        strides: [cols * 2, 0, 0, 0],
        box_dims: [64, box_rows, 0, 0, 0],
        swizzle: Swizzle::B128,
    })
    .unwrap()
}

fn descriptor(addr: u32) -> u64 {
    u64::from(addr >> 4) | 1 << 16 | (1024 >> 4) << 32 | 1 << 62
}

/// One CTA computes 128 by BN; the two CTAs of a cluster share their rows of B.
fn kernel<const BN: u32, const REGS: usize>(p: &Aligned<Gemm>) {
    let base = shared::dynamic_base();
    let a_bytes = BM * BK * 2;
    let b_bytes = BN * BK * 2;
    let tile = |s: u32| base + 1024 + s * (a_bytes + b_bytes);
    let full = |s: u32| base + 8 * s;
    let empty = |s: u32| base + 8 * (STAGES + s);
    let rank = cluster::cta_rank();
    let m0 = (cluster::clusterid_x() * 2 + rank) * BM;
    let n0 = thread::block_idx_y() * BN;
    if thread::thread_idx_x() == 0 {
        for s in 0..STAGES {
            mbarrier::init(full(s), 1);
            mbarrier::init(empty(s), 2 * 2);
            debug::label_barrier(full(s), "full", s);
            debug::label_barrier(empty(s), "empty", s);
        }
        fence::mbarrier_init_release_cluster();
    }
    cluster::arrive_release();
    cluster::wait_acquire();
    let steps = p.0.k.div_ceil(BK);
    if warp::warp_id() < 4 {
        setmaxnreg::dec::<40>();
        debug::label_role("producer");
        if warp::warp_id() == 0 && warp::elect_one() {
            for i in 0..steps {
                let (s, phase) = (i % STAGES, (i / STAGES) & 1);
                mbarrier::wait_parity(empty(s), phase ^ 1);
                mbarrier::arrive_expect_tx(full(s), a_bytes + b_bytes);
                let k = (i * BK) as i32;
                bulk::tensor_load(tile(s), &raw const p.0.a, [k, m0 as i32], full(s));
                let half = BN / 2 * rank;
                let dst = tile(s) + a_bytes + half * BK * 2;
                bulk::tensor_load_multicast(
                    dst,
                    &raw const p.0.b,
                    [k, (n0 + half) as i32],
                    full(s),
                    3,
                );
            }
            for i in steps..steps + STAGES {
                mbarrier::wait_parity(empty(i % STAGES), (i / STAGES) & 1 ^ 1);
            }
        }
        return;
    }
    setmaxnreg::inc::<232>();
    debug::label_role("consumer");
    let group = warp::warp_id() / 4 - 1;
    let mut d = [0.0f32; REGS];
    let member = thread::thread_idx_x() % 128;
    for i in 0..steps {
        let (s, phase) = (i % STAGES, (i / STAGES) & 1);
        mbarrier::wait_parity(full(s), phase);
        let a = descriptor(tile(s) + group * 64 * BK * 2);
        let b = descriptor(tile(s) + a_bytes);
        wgmma::fence();
        for k in 0..4 {
            let [a, b] = [a, b].map(|descriptor| (descriptor + k * 2, wgmma::Major::K));
            wgmma::mma_ss(&mut d, a, b, i > 0 || k > 0, [wgmma::OperandType::Bf16; 2]);
        }
        wgmma::commit_group();
        wgmma::wait_group::<0>();
        if member < 2 {
            mbarrier::arrive_remote(cluster::mapa(empty(s), member));
        }
    }
    wgmma::fence_operand(&mut d);
    // The epilogue takes 64 columns at a time through a tile of its own.
    let out = tile(STAGES) + group * 64 * 128;
    for fragment in 0..BN / 64 {
        let warp_row = member / 32 * 16;
        for j in 0..4u32 {
            let at = (fragment * 32 + j * 8) as usize;
            let lane = warp::lane_id();
            let row = warp_row + lane % 16;
            let addr = out + row * 128 + (j * 16 + lane / 16 * 8) * 2;
            let v =
                std::array::from_fn(|i| sim::ops::cvt::bf16x2(d[at + 2 * i], d[at + 2 * i + 1]));
            matrix::stmatrix_x4(Swizzle::B128.apply(addr), v);
        }
        fence::proxy_async_shared_cta();
        barrier::sync(1 + group, 128);
        if member == 0 {
            let (x, y) = ((n0 + fragment * 64) as i32, (m0 + group * 64) as i32);
            bulk::tensor_store(&raw const p.0.d, [x, y], out);
            bulk::commit_group();
            bulk::wait_group::<0>();
        }
        barrier::sync(1 + group, 128);
    }
}

fn random(n: usize, seed: u64) -> Vec<bf16> {
    let mut x = seed;
    (0..n)
        .map(|_| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            bf16::from_f32(((x >> 40) as f32 / 8388608.0) - 1.0)
        })
        .collect()
}

fn bytes(v: &[bf16]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Runs the GEMM; gives the largest error relative to the values' size, and the run's trace.
fn gemm<const BN: u32, const REGS: usize>(m: u32, n: u32, k: u32, seed: u64) -> (f32, u64) {
    gemm_with::<BN, REGS>(m, n, k, &Config { seed, ..Config::default() })
}

fn gemm_with<const BN: u32, const REGS: usize>(
    m: u32,
    n: u32,
    k: u32,
    config: &Config,
) -> (f32, u64) {
    let memory = GlobalMemory::new();
    let (a, b) = (random((m * k) as usize, 1), random((n * k) as usize, 2));
    let put = |v: &[bf16]| {
        let addr = memory.alloc(v.len() * 2);
        memory.write(addr, &bytes(v)).unwrap();
        addr
    };
    let (pa, pb) = (put(&a), put(&b));
    let pd = memory.alloc((m * n * 2) as usize);
    let (m64, n64, k64) = (u64::from(m), u64::from(n), u64::from(k));
    let p = Aligned(Gemm {
        a: map(pa, m64, k64, BM),
        b: map(pb, n64, k64, BN / 2),
        d: map(pd, m64, n64, 64),
        k,
    });
    let smem = 1024 + STAGES * (BM + BN) * BK * 2 + 2 * 64 * 128;
    let grid = Grid {
        grid: [m.div_ceil(2 * BM) * 2, n.div_ceil(BN), 1],
        block: [384, 1, 1],
        cluster: [2, 1, 1],
        min_ctas: 1,
        smem_bytes: smem,
        name: "gemm",
    };
    let stats = sim::launch(config, &memory, &grid, &|| kernel::<BN, REGS>(&p))
        .unwrap_or_else(|r| panic!("{r}"));
    let mut out = vec![0; (m * n * 2) as usize];
    memory.read(pd, &mut out).unwrap();
    let out: Vec<f32> =
        out.chunks_exact(2).map(|c| bf16::from_le_bytes([c[0], c[1]]).to_f32()).collect();
    let mut worst = 0.0f32;
    // Every row is computed alike: some rows in full are enough.
    for i in (0..m as usize).step_by(37) {
        for j in 0..n as usize {
            let ks = 0..k as usize;
            let at = |kk: usize| a[i * k as usize + kk].to_f32() * b[j * k as usize + kk].to_f32();
            let want: f32 = ks.map(at).sum();
            worst = worst.max((out[i * n as usize + j] - want).abs() / (k as f32).sqrt());
        }
    }
    (worst, stats.trace)
}

#[test]
fn gives_the_product() {
    let (error, _) = gemm::<256, 128>(256, 256, 192, 0);
    assert!(error < 4e-3, "{error}");
}

#[test]
fn ragged_shapes_are_filled_and_clipped() {
    let (error, _) = gemm::<128, 64>(200, 136, 72, 3);
    assert!(error < 4e-3, "{error}");
}

#[test]
fn the_seed_decides_the_steps_and_not_the_result() {
    let runs: Vec<_> = [1, 2, 3, 1].map(|seed| gemm::<64, 32>(256, 128, 128, seed)).into();
    assert_eq!(runs[0], runs[3]);
    assert_ne!(runs[0].1, runs[1].1);
    assert!(runs.iter().all(|r| r.0.to_bits() == runs[0].0.to_bits()));
}

/// `cargo test --release -p warpipe-sim --test model gemm -- --ignored --nocapture`
#[test]
#[ignore = "a measurement: 1024 cubed, in release"]
fn speed() {
    for races in [false, true, false, true] {
        let config = Config { races, ..Config::default() };
        let start = std::time::Instant::now();
        let (error, _) = gemm_with::<256, 128>(1024, 1024, 1024, &config);
        println!("1024x1024x1024, races {races}: {:?}, error {error}", start.elapsed());
    }
}
