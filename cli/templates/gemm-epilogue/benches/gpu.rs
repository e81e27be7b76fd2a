//! Times the product on a GPU. Without one, it says so and ends.

use kernels::BiasRelu;
use std::process::ExitCode;
use warpipe::host::{Device, Dtype, Error, data};

use {{crate}}::Linear;

/// Runs per measurement.
const RUNS: u32 = 50;
/// M, N and K.
const SHAPE: [usize; 3] = [8192, 4096, 4096];

/// Returns the milliseconds of one run, the shortest of five measurements.
fn measure(device: &Device) -> Result<f64, Error> {
    let [m, n, k] = SHAPE;
    let upload = |values: &[f32], dtype| device.upload(&data::encode(values, dtype)?);
    // The power, and with it the clock, depends on the values; zeros would be too fast.
    let a = upload(&data::normal(1, m * k), Dtype::Bf16)?;
    let b = upload(&data::normal(2, n * k), Dtype::Bf16)?;
    let bias = upload(&data::normal(3, n), Dtype::F32)?;
    let mut d = device.alloc(2 * m * n)?;
    let plan = Linear::new(device)?.plan(SHAPE, None)?;
    print!("{}", plan.describe());
    let stream = device.new_stream()?;
    let bound = plan.bind(&a, &b, None, &mut d)?;
    let mut best = f64::INFINITY;
    // The first run also assembles the kernel; the shortest time is of a later one.
    for _ in 0..5 {
        let start = stream.record()?;
        for _ in 0..RUNS {
            let epilogue = BiasRelu {
                bias: bias.dependent_slice(),
            };
            bound.run_with(epilogue, &stream)?;
        }
        best = best.min(stream.record()?.elapsed_ms(&start)? / f64::from(RUNS));
    }
    Ok(best)
}

fn main() -> ExitCode {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(why) => {
            println!("no benchmark without a GPU: {why}");
            return ExitCode::SUCCESS;
        }
    };
    println!("{}", device.describe());
    let [m, n, k] = SHAPE;
    match measure(&device) {
        Ok(ms) => {
            let tflop = 2e-12 * m as f64 * n as f64 * k as f64;
            let rate = 1e3 * tflop / ms;
            println!("{m} x {n} x {k}: {:.1} µs, {rate:.0} TFLOP/s", 1e3 * ms);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
