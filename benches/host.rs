//! The host side on any machine: planning a product, and the SM model running one.
//!
//! `cargo bench --bench host`

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use warpipe::GEMM_IMAGE;
use warpipe::host::gemm::{Gemm, GemmProblem, pick};
use warpipe::host::{Device, Dtype, SimConfig, data};

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
            b.iter(|| pick(gemm.instances(), &problem, false, 132).expect("an instance"));
        });
        group.bench_function(format!("plan {m}x{n}x{k}"), |b| {
            b.iter_batched(|| problem, |p| gemm.plan(&p).expect("a plan"), BatchSize::SmallInput);
        });
    }
    group.finish();
}

/// The model's speed decides how many schedules of a kernel can be tried.
fn model(c: &mut Criterion) {
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::new(&device, &GEMM_IMAGE).expect("the embedded image");
    let mut group = c.benchmark_group("model");
    group.sample_size(10);
    for size in [128, 512] {
        let problem = problem(size, size, size);
        let plan = gemm.plan(&problem).expect("a plan");
        let values = data::normal(1, (size * size) as usize);
        let bytes = data::encode(&values, Dtype::Bf16).expect("bf16");
        let (a, b) = (device.upload(&bytes).expect("A"), device.upload(&bytes).expect("B"));
        let mut d = device.alloc(problem.bytes('D') as usize).expect("D");
        group.throughput(Throughput::Elements(size * size * size));
        group.bench_function(format!("gemm {size} cubed"), |bench| {
            bench.iter(|| plan.run(&a, &b, None, &mut d, 1.0, 0.0).expect("a run"));
        });
    }
    group.finish();
}

criterion_group!(benches, plans, model);
criterion_main!(benches);
