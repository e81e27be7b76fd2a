//! Scales a matrix on a GPU, or on the SM model if there is none, and compares the result with the CPU's.

use std::process::ExitCode;
use warpipe::host::{Device, Error, data};

use {{crate}}::{Scale, reference};

/// Returns how many elements differ from the CPU's.
fn run(device: &Device, shape: [u32; 2]) -> Result<usize, Error> {
    let factor = 1.5;
    let x = data::normal(1, (shape[0] * shape[1]) as usize);
    let y = Scale::new(device)?.run(&x, shape, factor)?;
    let want = reference(&x, factor)?;
    Ok((0..x.len()).filter(|&i| y[i] != want[i]).count())
}

fn main() -> ExitCode {
    let device = Device::auto();
    println!("{}", device.describe());
    let [rows, cols] = [300, 520];
    match run(&device, [rows, cols]) {
        Ok(0) => {
            println!("y = 1.5 x, {rows} x {cols}: equal to the CPU's, bit by bit");
            ExitCode::SUCCESS
        }
        Ok(wrong) => {
            let all = rows * cols;
            eprintln!("error: {wrong} of {all} elements differ from the CPU's");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
