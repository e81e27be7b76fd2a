//! Times the kernel on a GPU. Without one, it says so and ends.

use kernels::Alibi;
use std::process::ExitCode;
use warpipe::host::attention::Heads;
use warpipe::host::{Device, Dtype, Error, data};

use {{crate}}::{AlibiAttention, Size, slopes};

/// Runs per measurement.
const RUNS: u32 = 20;
const SIZE: Size = Size {
    batch: 4,
    tokens: 4096,
    heads: Heads {
        q: 16,
        kv: 16,
        dim: 128,
    },
};

/// Returns the milliseconds of one run, the shortest of five measurements, and the TFLOP of it.
fn measure(device: &Device) -> Result<(f64, f64), Error> {
    let upload = |values: &[f32], dtype| device.upload(&data::encode(values, dtype)?);
    let [queries, keys] = SIZE.values();
    let q = upload(&data::normal(1, queries), Dtype::Bf16)?;
    let k = upload(&data::normal(2, keys), Dtype::Bf16)?;
    let v = upload(&data::normal(3, keys), Dtype::Bf16)?;
    let slopes = upload(&slopes(SIZE.heads.q), Dtype::F32)?;
    let mut o = device.alloc(2 * queries)?;
    let plan = AlibiAttention::new(device)?.plan(SIZE)?;
    print!("{}", plan.describe());
    let stream = device.new_stream()?;
    let bound = plan.bind(&q, &k, &v, &mut o, None)?;
    let mut best = f64::INFINITY;
    // The first run also assembles the kernel; the shortest time is of a later one.
    for _ in 0..5 {
        let start = stream.record()?;
        for _ in 0..RUNS {
            let score = Alibi {
                slopes: slopes.dependent_slice(),
            };
            bound.run_with(score, &stream)?;
        }
        best = best.min(stream.record()?.elapsed_ms(&start)? / f64::from(RUNS));
    }
    Ok((best, 1e-12 * plan.problem().flops()))
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
    match measure(&device) {
        Ok((ms, tflop)) => {
            println!("{:.1} µs, {:.0} TFLOP/s", 1e3 * ms, 1e3 * tflop / ms);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
