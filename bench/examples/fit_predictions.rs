//! Fits the constants of the picker's predictions to records of `warpipe bench --record`.
//!
//! ```text
//! cargo run --release -p warpipe-bench --example fit_predictions -- docs/data/h200-times.jsonl [more files]
//! ```
//! Every third shape is held out: the fit does not see it. The program prints how near the picked kernels come to the
//! fastest ones, for both parts, before and after, and the constants for `host/src/gemm/calibration.rs`.
//!
//! The fit begins with the constants as they are. It goes through them in turn, tries a larger and a smaller value of
//! each, and keeps what improves the score. The score has two parts. The first is the time that the picker loses: over
//! the pairs of kernel and schedule of a shape, the mean of ln(time / fastest time), with weights that fall off as the
//! predicted time rises above the shortest one, so that it changes smoothly where the picked pair jumps. The second is
//! the mean error of the predicted times of the pairs that come near the fastest. It keeps the constants physical.

use gpu_kernels::gemm::{INSTANCES, Instance};
use host::Dtype;
use host::gemm::{Calibration, GemmProblem, Schedule, predict};
use rayon::prelude::*;
use std::error::Error;
use warpipe_bench::line::Shape;
use warpipe_bench::record::Record;

/// Predictions within about this fraction of the shortest one count as candidates for the pick.
const NEAR: f64 = 0.02;
/// Weight of the mean error of the predicted times, relative to that of the lost time.
const ERROR_WEIGHT: f64 = 0.3;
/// Weight of the squared loss: a shape that loses much counts more than several that lose little.
const SQUARE_WEIGHT: f64 = 3.0;
/// Above this, power decides, and the order of neighbours is not repeatable.
const HELD_BY_POWER_US: f64 = 200.0;
/// Most rounds through all constants.
const ROUNDS: u32 = 60;
/// First and least step of a constant, as a fraction of it.
const STEPS: [f64; 2] = [0.2, 0.002];

/// A shape with its measured pairs.
struct Product {
    shape: Shape,
    problem: GemmProblem,
    best_us: f64,
    runs: Vec<(&'static Instance, Schedule, f64)>,
}

/// How near the picked kernels of some shapes come to the fastest ones.
struct Outcome {
    mean: f64,
    least: f64,
    least_shape: Shape,
    /// Mean of |ln(predicted / measured)| of the fastest pairs.
    error: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut products = Vec::new();
    for file in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
        // The first line is the header.
        for line in text.lines().skip(1) {
            products.push(Product::new(&serde_json::from_str(line)?)?);
        }
    }
    if products.is_empty() {
        return Err("usage: fit_predictions FILE.jsonl [more files]".into());
    }
    let (mut seen, mut held_out) = (Vec::new(), Vec::new());
    for (i, product) in products.into_iter().enumerate() {
        if i % 3 == 2 { held_out.push(product) } else { seen.push(product) }
    }
    let first = Calibration::H200;
    report("before", &first, &seen, &held_out);
    let mut best = fitted(&seen, &first);
    report("after", &best, &seen, &held_out);
    println!();
    for (name, value) in best.constants() {
        println!("    {name} = {};", short(*value));
    }
    Ok(())
}

impl Product {
    fn new(record: &Record) -> Result<Self, Box<dyn Error>> {
        let Shape { m, n, k } = record.shape;
        let mut runs = Vec::with_capacity(record.runs.len());
        for (kernel, clusters, streamed, us, _) in &record.runs {
            let name = format!("gemm_bf16_bf16_{kernel}");
            let instance = INSTANCES.iter().find(|i| i.desc.meta.name() == name);
            // The table may have lost kernels since the record was made.
            let Some(instance) = instance else { continue };
            let schedule = Schedule { clusters: *clusters, streamed: *streamed };
            runs.push((instance, schedule, *us));
        }
        let best_us = runs.iter().map(|run| run.2).min_by(f64::total_cmp);
        Ok(Self {
            shape: record.shape,
            problem: GemmProblem { m, n, k, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false },
            best_us: best_us.ok_or_else(|| format!("{}: no kernel of the table", record.shape))?,
            runs,
        })
    }

    /// Predicted and measured time of each pair.
    fn predicted(&self, calibration: &Calibration) -> Vec<(f64, f64)> {
        let of = |&(instance, schedule, us): &(&'static Instance, Schedule, f64)| {
            (predict(instance, &self.problem, schedule, 132, calibration).predicted_us, us)
        };
        self.runs.iter().map(of).collect()
    }

    /// The part of the score that this shape adds.
    fn loss(&self, calibration: &Calibration) -> f64 {
        let pairs = self.predicted(calibration);
        let shortest = pairs.iter().map(|pair| pair.0).fold(f64::INFINITY, f64::min);
        let (mut weights, mut lost) = (0.0, 0.0);
        let (mut near, mut error) = (0.0, 0.0);
        for (predicted, us) in &pairs {
            let slower = (us / self.best_us).ln();
            let weight = (-(predicted / shortest).ln() / NEAR).exp();
            weights += weight;
            lost += weight * slower;
            // A pair that is much slower than the fastest needs no exact prediction.
            let matters = (1.0 - 2.0 * slower).clamp(0.05, 1.0);
            near += matters;
            error += matters * (predicted / us).ln().abs();
        }
        let lost = lost / weights;
        let held = if self.best_us > HELD_BY_POWER_US { 0.4 } else { 1.0 };
        held * (lost + SQUARE_WEIGHT * lost * lost) + ERROR_WEIGHT * error / near
    }

    /// Time of the fastest pair divided by that of the picked one; predicted over measured time of the fastest.
    fn picked(&self, calibration: &Calibration) -> (f64, f64) {
        let pairs = self.predicted(calibration);
        let picked = pairs.iter().min_by(|a, b| a.0.total_cmp(&b.0)).map_or(f64::NAN, |p| p.1);
        let fastest = pairs.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        (self.best_us / picked, fastest.map_or(f64::NAN, |(predicted, us)| predicted / us))
    }
}

/// Changes one constant at a time as long as that improves the score.
fn fitted(products: &[Product], first: &Calibration) -> Calibration {
    let score = |calibration: &Calibration| {
        products.par_iter().map(|p| p.loss(calibration)).sum::<f64>() / products.len() as f64
    };
    let mut best = *first;
    let mut least = score(&best);
    let mut steps = vec![STEPS[0]; best.constants().len()];
    for round in 0..ROUNDS {
        let before = least;
        for (i, step) in steps.iter_mut().enumerate() {
            let mut improved = false;
            for factor in [1.0 + *step, 1.0 / (1.0 + *step)] {
                let mut changed = best;
                *changed.constants()[i].1 *= factor;
                let now = score(&changed);
                if now < least {
                    (best, least, improved) = (changed, now, true);
                    break;
                }
            }
            *step = (*step * if improved { 1.5 } else { 0.6 }).clamp(STEPS[1], 1.0);
        }
        if round % 10 == 9 {
            eprintln!("round {}: {before:.5} -> {least:.5}", round + 1);
        }
    }
    best
}

fn report(when: &str, calibration: &Calibration, seen: &[Product], held_out: &[Product]) {
    for (part, products) in [("seen", seen), ("held out", held_out)] {
        let Outcome { mean, least, least_shape, error } = outcome(calibration, products);
        println!(
            "{when}, {part}: {} shapes, {mean:.4} of the fastest, at worst {least:.3} ({least_shape}); \
             mean error of the fastest's predicted time {:.1} %",
            products.len(),
            100.0 * error
        );
    }
}

fn outcome(calibration: &Calibration, products: &[Product]) -> Outcome {
    let (mut sum, mut error) = (0.0, 0.0);
    let mut worst = (f64::INFINITY, Shape { m: 0, n: 0, k: 0 });
    for product in products {
        let (ratio, predicted) = product.picked(calibration);
        sum += ratio.ln();
        error += predicted.ln().abs();
        if ratio < worst.0 {
            worst = (ratio, product.shape);
        }
    }
    let count = products.len() as f64;
    let (least, least_shape) = worst;
    Outcome { mean: (sum / count).exp(), least, least_shape, error: error / count }
}

/// A constant with three digits, as Rust writes it.
fn short(value: f64) -> String {
    let digits = 2 - value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32;
    let scale = 10f64.powi(digits);
    format!("{:?}", (value * scale).round() / scale)
}
