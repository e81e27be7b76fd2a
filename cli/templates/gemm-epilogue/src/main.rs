//! Runs D = max(A·Bᵀ + bias, 0) on a GPU, or on the SM model if there is none, and compares D with the CPU's.

use std::process::ExitCode;
use warpipe::host::{Device, Error, data};

use {{crate}}::{Linear, error};

/// Returns the largest relative error.
fn run(device: &Device, shape: [usize; 3]) -> Result<f64, Error> {
    let [m, n, k] = shape;
    let (a, b, bias) = (
        data::normal(1, m * k),
        data::normal(2, n * k),
        data::normal(3, n),
    );
    let linear = Linear::new(device)?;
    let plan = linear.plan(shape, None)?;
    print!("{}", plan.describe());
    let d = linear.run(&plan, &a, &b, &bias)?;
    error(shape, &a, &b, &bias, &d)
}

fn main() -> ExitCode {
    let device = Device::auto();
    println!("{}", device.describe());
    let [m, n, k] = [300, 520, 200];
    match run(&device, [m, n, k]) {
        Ok(error) if error < 5e-3 => {
            println!(
                "D = max(A·Bᵀ + bias, 0), {m} x {n} x {k}: largest relative error {error:.1e}"
            );
            ExitCode::SUCCESS
        }
        Ok(error) => {
            eprintln!("error: largest relative error {error:.1e}; it must be below 5e-3");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
