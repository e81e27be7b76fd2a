//! Sums the rows of a matrix on a GPU, or on the SM model if there is none, and compares the sums with the CPU's.

use std::process::ExitCode;
use warpipe::host::{Device, Error, data};

use {{crate}}::{RowSums, error};

/// Returns the largest relative error.
fn run(device: &Device, shape: [u32; 2]) -> Result<f64, Error> {
    let x = data::normal(1, (shape[0] * shape[1]) as usize);
    let sums = RowSums::new(device)?.run(&x, shape)?;
    error(&x, shape, &sums)
}

fn main() -> ExitCode {
    let device = Device::auto();
    println!("{}", device.describe());
    let [rows, cols] = [300, 520];
    match run(&device, [rows, cols]) {
        Ok(error) if error < 1e-6 => {
            println!("sums of {rows} rows of {cols}: largest relative error {error:.1e}");
            ExitCode::SUCCESS
        }
        Ok(error) => {
            eprintln!("error: largest relative error {error:.1e}; it must be below 1e-6");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
