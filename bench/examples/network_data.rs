//! Writes what the network of the picker's predictions is trained on (`bench/network/train.py`): the pairs of kernel and schedule
//! in docs/data/records whose predicted times come near the shortest.
//!
//! ```text
//! cargo run --release -p warpipe-bench --example network_data -- FILE
//! ```
//! The file has 32-bit floats, little endian: how many numbers a row has, then the rows. A row has the [`HEAD`], then what the
//! network is told of the pair ([`features_of`]).

#[path = "../tests/integration/recorded.rs"]
mod recorded;

use gpu_kernels::gemm::INSTANCES;
use host::gemm::{Calibration, FEATURES, HardwareInfo, candidates, features_of};
use rayon::prelude::*;
use recorded::{BENCHED, Product, is_of_suites, read};
use std::error::Error;

/// Pairs whose predicted time is more than this many times the shortest are left out.
const NEAR: f64 = 1.35;
/// Numbers before the features. Times are in microseconds.
/// - The number of the product.
/// - 1 if it is held out.
/// - 1 if its shape is of the suites, 2 if the benchmark timed it in turn with cuBLASLt alone.
/// - The measured time, and the predicted one.
/// - The time of the product's fastest pair, and of cuBLASLt's first candidate, or 0.
/// - The row of the kernel among the calibration's times, or -1.
const HEAD: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: network_data FILE")?;
    let mut rows: Vec<f32> = Vec::new();
    let mut count = 0;
    for calibration in Calibration::ALL {
        let records = read(calibration)?;
        let products = records.iter().map(Product::new).filter(|p| !p.runs.is_empty());
        let products: Vec<Product> = products.collect();
        let pairs = products.par_iter().enumerate();
        let of = pairs.map(|(at, product)| pairs_of(count + at, product, calibration));
        rows.extend(of.collect::<Vec<_>>().into_iter().flatten());
        count += products.len();
    }
    let width = HEAD + FEATURES;
    let numbers = std::iter::once(width as f32).chain(rows.iter().copied());
    let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
    std::fs::write(&path, bytes).map_err(|e| format!("{path}: {e}"))?;
    println!("{} pairs of {count} products, {width} numbers each", rows.len() / width);
    Ok(())
}

/// The rows of a product.
fn pairs_of(at: usize, product: &Product, calibration: &'static Calibration) -> Vec<f32> {
    let sms = 132;
    let all = candidates(&INSTANCES, &product.problem, false, HardwareInfo { sms, calibration });
    let terms = all.iter().map(|c| c.prediction.predicted_us / c.prediction.correction);
    let shortest = terms.fold(f64::INFINITY, f64::min);
    let suite = match product.file.as_str() {
        BENCHED => 2.0,
        file if is_of_suites(file) => 1.0,
        _ => 0.0,
    };
    let mut rows = Vec::new();
    for &(instance, schedule, us) in &product.runs {
        let (features, kernel, predicted_us) =
            features_of(instance, &product.problem, schedule, sms, calibration);
        if predicted_us > NEAR * shortest {
            continue;
        }
        let held_out = f32::from(u8::from(product.held_out));
        let [us, predicted, fastest, cublaslt] =
            [us, predicted_us, product.best_us, product.cublaslt_us.unwrap_or(0.0)]
                .map(|us| us as f32);
        let kernel = kernel.map_or(-1.0, |row| row as f32);
        let head: [f32; HEAD] =
            [at as f32, held_out, suite, us, predicted, fastest, cublaslt, kernel];
        rows.extend(head);
        rows.extend(features);
    }
    rows
}
