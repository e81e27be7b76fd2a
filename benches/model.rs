//! The SM model's speed: how many schedules of a kernel can be tried, and how long a product takes.
//!
//! `cargo bench --bench model`

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use warpipe::GEMM_IMAGE;
use warpipe::gpu_kernels::examples::stream_copy::stream_copy;
use warpipe::host::gemm::{Gemm, GemmProblem};
use warpipe::host::sim::{Stats, Strategy, explore};
use warpipe::host::{Device, Dtype, Error, Param, SimConfig, TensorSpec, data};
use warpipe::isa::kernel::Kernel;
use warpipe::pipeline::tensor::TensorMap;
use warpipe::pipeline::tile::Tile;

/// Steps of the ring of four stages.
const STEPS: usize = 16;

/// One schedule of a TMA ring: a warp that loads, a warp group that copies, 256 threads.
fn ring(config: &SimConfig) -> Result<Stats, Error> {
    let device = Device::sim(config.clone());
    let bytes = vec![1; STEPS * 64 * 64 * 2];
    let from = device.upload(&bytes)?;
    let to = device.alloc(bytes.len())?;
    let spec = |buffer| TensorSpec {
        buffer,
        offset: 0,
        dtype: Dtype::Bf16,
        rows: 64 * STEPS as u64,
        cols: 64,
        pitch_bytes: 128,
    };
    let source = device.tensor_map_for::<&TensorMap<Tile<half::bf16, 64, 64>>>(&spec(&from))?;
    let target = device.tensor_map_for::<&TensorMap<Tile<half::bf16, 64, 64>>>(&spec(&to))?;
    let params = [Param::map(&source), Param::map(&target), Param::value(STEPS as u32)];
    device.launch_on_model(&<stream_copy as Kernel>::DESC, [1, 1, 1], &params)?;
    assert!(to.to_vec()? == bytes);
    Ok(device.model_stats().unwrap_or_default())
}

fn schedules(c: &mut Criterion) {
    let mut group = c.benchmark_group("schedules");
    group.sample_size(10);
    const SEEDS: u64 = 100;
    group.throughput(Throughput::Elements(SEEDS));
    let strategies = [
        ("random", Strategy::Random { seeds: 0..SEEDS }),
        ("pct 3", Strategy::Pct { seeds: 0..SEEDS, depth: 3 }),
    ];
    for (name, strategy) in strategies {
        group.bench_function(format!("ring of 4 stages, 16 steps, {name}"), |b| {
            b.iter(|| {
                explore(&SimConfig::default(), &strategy, ring).unwrap_or_else(|f| panic!("{f}"))
            });
        });
    }
    group.finish();
}

fn product(c: &mut Criterion) {
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::new(&device, &GEMM_IMAGE).expect("the embedded image");
    let problem =
        GemmProblem { m: 1024, n: 1024, k: 1024, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false };
    let plan = gemm.plan(&problem).expect("a plan");
    let bytes = data::encode(&data::normal(1, 1024 * 1024), Dtype::Bf16).expect("bf16");
    let (a, b) = (device.upload(&bytes).expect("A"), device.upload(&bytes).expect("B"));
    let mut d = device.alloc(problem.bytes('D') as usize).expect("D");
    let mut group = c.benchmark_group("gemm");
    group.sample_size(10);
    group.bench_function("1024x1024x1024 bf16", |bench| {
        bench.iter(|| plan.run(&a, &b, None, &mut d, 1.0, 0.0).expect("a run"));
    });
    group.finish();
}

criterion_group!(benches, schedules, product);
criterion_main!(benches);
