//! The GEMM on a GPU, timed by the device's own events. Without a GPU it prints a line.
//!
//! `cargo bench --bench gemm`; for ratios against cuBLASLt, `warpipe bench --vs cublaslt`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::time::Duration;
use warpipe::GEMM_IMAGE;
use warpipe::host::gemm::{Gemm, GemmProblem};
use warpipe::host::{Device, Dtype, Error, data};

fn squares(c: &mut Criterion) {
    match Device::cuda(0).and_then(|device| device.load(&GEMM_IMAGE).map(|_| device)) {
        Ok(device) => on(c, &device).unwrap_or_else(|e| panic!("{e}")),
        Err(why) => {
            let required = std::env::var_os("WARPIPE_REQUIRE_GPU").is_some_and(|v| v == "1");
            assert!(!required, "WARPIPE_REQUIRE_GPU=1: {why}");
            eprintln!("gemm: skipped, {why}");
        }
    }
}

fn on(c: &mut Criterion, device: &Device) -> Result<(), Error> {
    let gemm = Gemm::new(device, &GEMM_IMAGE)?;
    let stream = device.stream();
    let mut group = c.benchmark_group("gemm");
    group.sample_size(20).measurement_time(Duration::from_secs(2));
    for size in [1024u64, 2048, 4096, 8192] {
        let (ab, out) = (Dtype::Bf16, Dtype::Bf16);
        let problem = GemmProblem { m: size, n: size, k: size, ab, out, beta_c: false };
        let bytes = data::encode(&data::normal(size, (size * size) as usize), ab)?;
        let (a, b) = (device.upload(&bytes)?, device.upload(&bytes)?);
        let mut d = device.alloc(problem.bytes('D') as usize)?;
        let plan = gemm.plan(&problem)?;
        let bound = plan.bind(&a, &b, None, &mut d)?;
        // What criterion calls elements are floating-point operations here.
        group.throughput(Throughput::Elements(problem.flops() as u64));
        group.bench_function(format!("{size} cubed"), |bench| {
            bench.iter_custom(|rounds| {
                let time = || -> Result<f64, Error> {
                    let start = stream.record()?;
                    for _ in 0..rounds {
                        bound.run(1.0, 0.0, &stream)?;
                    }
                    let end = stream.record()?;
                    stream.synchronize()?;
                    end.elapsed_ms(&start)
                };
                Duration::from_secs_f64(time().unwrap_or_else(|e| panic!("{e}")) * 1e-3)
            });
        });
    }
    group.finish();
    Ok(())
}

criterion_group!(benches, squares);
criterion_main!(benches);
