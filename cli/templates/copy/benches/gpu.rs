//! Times the kernel on a GPU. Without one, it says so and ends.

use std::process::ExitCode;
use warpipe::host::{Device, Error};

use {{crate}}::Scale;

/// Launches per measurement.
const LAUNCHES: u32 = 50;
/// x and y are 256 MiB each: more than the L2 cache holds.
const SHAPE: [u32; 2] = [32768, 4096];

/// Returns the milliseconds of one launch, the shortest of five measurements.
fn measure(device: &Device) -> Result<f64, Error> {
    let bytes = 2 * SHAPE[0] as usize * SHAPE[1] as usize;
    let (x, mut y) = (device.alloc_zeroed(bytes)?, device.alloc(bytes)?);
    let (scale, stream) = (Scale::new(device)?, device.new_stream()?);
    let mut best = f64::INFINITY;
    // The first launch also assembles the kernel; the shortest time is of a later one.
    for _ in 0..5 {
        let start = stream.record()?;
        for _ in 0..LAUNCHES {
            scale.launch(&x, &mut y, SHAPE, 1.5, &stream)?;
        }
        best = best.min(stream.record()?.elapsed_ms(&start)? / f64::from(LAUNCHES));
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
    let [rows, cols] = SHAPE;
    match measure(&device) {
        Ok(ms) => {
            let gb = 4e-9 * f64::from(rows) * f64::from(cols);
            let rate = 1e3 * gb / ms;
            println!("scale {rows} x {cols}: {:.1} µs, {rate:.0} GB/s", 1e3 * ms);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
