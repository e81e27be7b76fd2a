//! The host side on any machine: planning a product, walking its tiles, binding its operands, making and
//! checking its data, and the SM model running one.
//!
//! `cargo bench --bench host`

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use pipeline::prelude::Cluster;
use std::hint::black_box;
use warpipe::GEMM_IMAGE;
use warpipe::gpu_kernels::gemm::TileSchedulerParams;
use warpipe::gpu_kernels::gemm::scheduler::{StreamK, TileScheduler};
use warpipe::host::gemm::{Candidate, Gemm, GemmProblem, HardwareInfo, candidates, pick};
use warpipe::host::reference::Product;
use warpipe::host::{Device, Dtype, SimConfig, TensorBox, TensorSpec, data};

fn problem(m: u64, n: u64, k: u64) -> GemmProblem {
    GemmProblem { m, n, k, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false }
}

/// A plan is made once per shape; a serving loop with many shapes makes many.
fn plans(c: &mut Criterion) {
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::new(&device, &GEMM_IMAGE).expect("the embedded image");
    let mut group = c.benchmark_group("plan");
    for (m, n, k) in [(16, 4096, 4096), (8192, 8192, 8192)] {
        let problem = problem(m, n, k);
        group.bench_function(format!("pick {m}x{n}x{k}"), |b| {
            b.iter(|| {
                pick(gemm.instances(), &problem, false, HardwareInfo::h200(132))
                    .expect("an instance")
            });
        });
        group.bench_function(format!("all candidates {m}x{n}x{k}"), |b| {
            b.iter(|| {
                let mut all =
                    candidates(gemm.instances(), &problem, false, HardwareInfo::h200(132));
                all.sort_by(Candidate::order);
                all.len()
            });
        });
        group.bench_function(format!("plan {m}x{n}x{k}"), |b| {
            b.iter_batched(|| problem, |p| gemm.plan(&p).expect("a plan"), BatchSize::SmallInput);
        });
    }
    group.finish();
}

/// What every role of every CTA asks between tiles: where to go on. 8192 cubed in tiles of 128 x 256 by
/// clusters of two is 1024 cluster tiles of 128 stages, of which 66 clusters leave 34 for a last round.
fn scheduler(c: &mut Criterion) {
    type Pair = Cluster<2, 1>;
    let clusters = 66;
    let mut group = c.benchmark_group("tile scheduler");
    for streamed in [0, 34, 34 + clusters] {
        let p = TileSchedulerParams::new([32, 32], 128, 8, clusters, streamed);
        let walk = |cluster| {
            let at = Pair::coord(1);
            let scheduler = StreamK::<Pair>::on_host(at, cluster, &p);
            let origins = scheduler.clone();
            scheduler.fold((0, 0), |(works, sum), work| {
                let at = origins.origin(&work, 128, 256);
                (
                    works + 1,
                    sum + u64::from(at.row + at.col)
                        + origins.peers(&work).iter().map(u64::from).sum::<u64>(),
                )
            })
        };
        let works: u64 = (0..clusters).map(|cluster| walk(cluster).0).sum();
        group.throughput(Throughput::Elements(works));
        group.bench_function(format!("8192 cubed, all clusters, {clusters}/{streamed}"), |b| {
            b.iter(|| (0..clusters).map(|cluster| walk(black_box(cluster)).1).sum::<u64>());
        });
    }
    group.finish();
}

/// Operands change with every call; their tensor maps with them.
fn tensor_maps(c: &mut Criterion) {
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::new(&device, &GEMM_IMAGE).expect("the embedded image");
    let mut group = c.benchmark_group("tensor maps");
    let (rows, cols) = (4096, 4096);
    let buffer = device.alloc((rows * cols * 2) as usize).expect("a matrix");
    let (dtype, pitch_bytes) = (Dtype::Bf16, cols * 2);
    let spec = TensorSpec { buffer: &buffer, offset: 0, dtype, rows, cols, pitch_bytes };
    let tile = TensorBox { rows: 128, cols: 64, swizzle_bytes: 128 };
    group.bench_function("check and encode one, as the model has it", |b| {
        b.iter(|| device.tensor_map(&spec, tile).expect("a tensor map"));
    });
    let problem = problem(16, rows, cols);
    let plan = gemm.plan(&problem).expect("a plan");
    let a = device.alloc(problem.bytes('A') as usize).expect("A");
    let mut d = device.alloc(problem.bytes('D') as usize).expect("D");
    group.bench_function("bind a product's operands", |b| {
        b.iter(|| plan.bind(&a, &buffer, None, &mut d).expect("bound"));
    });
    group.finish();
}

/// What a benchmark or a check does on the CPU for each product.
fn values(c: &mut Criterion) {
    let mut group = c.benchmark_group("values");
    let count = 1 << 20;
    group.throughput(Throughput::Elements(count));
    group.bench_function("normal", |b| b.iter(|| data::normal(1, count as usize)));
    let values = data::normal(1, count as usize);
    group.bench_function("to bf16", |b| {
        b.iter(|| data::encode(&values, Dtype::Bf16).expect("bf16"));
    });
    let size = 256;
    let (x, y) = (&values[..size * size], &values[size * size..2 * size * size]);
    let product = Product { m: size, n: size, k: size, a: x, b: y, c: None, alpha: 1.0, beta: 0.0 };
    let d: Vec<f32> = product.compute().expect("sizes").iter().map(|&x| x as f32).collect();
    group.throughput(Throughput::Elements((size * size * size) as u64));
    group.bench_function("compare 256 cubed with f64", |b| {
        b.iter(|| product.check(&d).expect("sizes"));
    });
    group.finish();
}

/// The model's speed decides how many schedules of a kernel can be tried.
fn model(c: &mut Criterion) {
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::new(&device, &GEMM_IMAGE).expect("the embedded image");
    let mut group = c.benchmark_group("model");
    group.sample_size(10);
    // The last is 128 tiles of one stage: the tile scheduler, barriers and stores, hardly a product.
    for (m, n, k) in [(128, 128, 128), (512, 512, 512), (512, 1024, 64)] {
        let problem = problem(m, n, k);
        let plan = gemm.plan(&problem).expect("a plan");
        let operand = |seed, rows: u64| {
            let values = data::normal(seed, (rows * k) as usize);
            device.upload(&data::encode(&values, Dtype::Bf16).expect("bf16")).expect("an operand")
        };
        let (a, b) = (operand(1, m), operand(2, n));
        let mut d = device.alloc(problem.bytes('D') as usize).expect("D");
        group.throughput(Throughput::Elements(m * n * k));
        group.bench_function(format!("gemm {m}x{n}x{k}"), |bench| {
            bench.iter(|| plan.run(&a, &b, None, &mut d, 1.0, 0.0).expect("a run"));
        });
    }
    group.finish();
}

criterion_group!(benches, plans, scheduler, tensor_maps, values, model);
criterion_main!(benches);
