//! Runs causal attention with ALiBi on a GPU, or on the SM model if there is none, and compares O with the CPU's.

use std::process::ExitCode;
use warpipe::host::attention::Heads;
use warpipe::host::{Device, Error, data};

use {{crate}}::{AlibiAttention, Size, error, slopes};

/// Returns the largest error, in units of what rounding explains.
fn run(device: &Device, size: Size) -> Result<f64, Error> {
    let [queries, keys] = size.values();
    let (q, k, v) = (
        data::normal(1, queries),
        data::normal(2, keys),
        data::normal(3, keys),
    );
    let slopes = slopes(size.heads.q);
    let attention = AlibiAttention::new(device)?;
    let plan = attention.plan(size)?;
    print!("{}", plan.describe());
    let o = attention.run(&plan, [&q, &k, &v], &slopes)?;
    error(size, [&q, &k, &v], &slopes, &o)
}

fn main() -> ExitCode {
    let device = Device::auto();
    println!("{}", device.describe());
    let size = Size {
        batch: 1,
        tokens: 300,
        heads: Heads {
            q: 2,
            kv: 1,
            dim: 128,
        },
    };
    match run(&device, size) {
        Ok(error) if error <= 1.0 => {
            println!(
                "causal attention with ALiBi, 300 tokens, 2 heads: {error:.2} of the error that rounding explains"
            );
            ExitCode::SUCCESS
        }
        Ok(error) => {
            eprintln!(
                "error: {error:.2} of the error that rounding explains; it must be at most 1"
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
