//! Times the kernel on a GPU. Without one, it says so and ends.

use std::process::ExitCode;
use warpipe::host::{Device, Error};

use {{crate}}::RowSums;

/// Launches per measurement.
const LAUNCHES: u32 = 50;
/// x has 256 MiB: more than the L2 cache holds.
const SHAPE: [u32; 2] = [32768, 4096];

/// Returns the milliseconds of one launch, the shortest of five measurements.
fn measure(device: &Device) -> Result<f64, Error> {
    let bytes = 2 * SHAPE[0] as usize * SHAPE[1] as usize;
    let (x, mut sums) = (
        device.alloc_zeroed(bytes)?,
        device.alloc(4 * SHAPE[0] as usize)?,
    );
    let (row_sums, stream) = (RowSums::new(device)?, device.new_stream()?);
    let mut best = f64::INFINITY;
    // The first launch also assembles the kernel; the shortest time is of a later one.
    for _ in 0..5 {
        let start = stream.record()?;
        for _ in 0..LAUNCHES {
            row_sums.launch(&x, &mut sums, SHAPE, &stream)?;
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
            let gb = 2e-9 * f64::from(rows) * f64::from(cols);
            let rate = 1e3 * gb / ms;
            println!(
                "row sums of {rows} x {cols}: {:.1} µs, {rate:.0} GB/s",
                1e3 * ms
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
