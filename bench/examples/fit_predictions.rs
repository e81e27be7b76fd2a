//! Fits the constants of the picker's predictions to the records in docs/data/records (`warpipe bench --record`).
//!
//! ```text
//! cargo run --release -p warpipe-bench --example fit_predictions
//! ```
//! Every third random shape is held out: the fit does not see it. The program prints how near the picked kernels come
//! to the fastest ones, for both parts, before and after; then the constants for `host/src/gemm/calibration.rs`, and
//! the rows for `host/src/gemm/kernel_times.rs`. Records of another GPU go into the same folder.
//!
//! The fit begins with the constants as they are. It goes through them in turn, tries a larger and a smaller value of
//! each, and keeps what improves the score. The score has three parts:
//! - The time that the picker loses: over the pairs of kernel and schedule of a shape, the mean of ln(time / fastest
//!   time), with weights that fall off as the predicted time rises above the shortest one, so that it changes smoothly
//!   where the picked pair jumps.
//! - The mean error of the predicted times of the pairs that come near the fastest. It keeps the constants physical.
//! - The size of what single kernels have of their own, so that the physics explains what it can; and how far the
//!   constants go from where they were, so that those which the shapes say little about stay.

#[path = "../tests/integration/recorded.rs"]
mod recorded;

use host::gemm::Calibration;
use rayon::prelude::*;
use recorded::{BENCHED, Product, Ratios, SUITES, read};
use std::error::Error;

/// Predictions within about this fraction of the shortest one count as candidates for the pick.
const NEAR: f64 = 0.02;
/// Weight of the squared loss: a shape that loses much counts more than several that lose little.
const SQUARE_WEIGHT: f64 = 3.0;
/// Weight of the kernels' own factors, as the mean square of ln(factor).
const STEP_WEIGHT: f64 = 0.05;
/// Weight of the kernels' own times, as the mean square in microseconds.
const FIXED_WEIGHT: f64 = 0.02;
/// Weight of the constants' distances from where they were, as squares of ln(factor).
const DRIFT_WEIGHT: f64 = 3e-4;
/// Above this, power decides, and the order of neighbours is not repeatable.
const HELD_BY_POWER_US: f64 = 200.0;
/// Weight of a shape of the suites: their operands are aligned as those of most networks are, and few random ones are.
const SUITE_WEIGHT: f64 = 2.0;
/// Weight of a shape of the suites whose few pairs the benchmark has timed. There each kernel runs alone, as it does for users:
/// where power decides, and where one launch overlaps the next, that is another time than in a record of many kernels.
const BENCHED_WEIGHT: f64 = 4.0;
/// A shape where the fastest pair is at most this many times as fast as the first of cuBLASLt's candidates: there a wrong pick
/// puts us behind. It counts as [`CLOSE_WEIGHT`] shapes.
const CLOSE: f64 = 1.06;
/// Weight of such a shape.
const CLOSE_WEIGHT: f64 = 3.0;
/// Pairs that take longer than this many times the fastest are no part of the fit.
const HOPELESS: f64 = 2.5;
/// Most rounds through all constants.
const ROUNDS: u32 = 60;
/// First and least step of a constant, as a fraction of it, or in microseconds for a kernel's own time.
const STEPS: [f64; 2] = [0.1, 0.002];

fn main() -> Result<(), Box<dyn Error>> {
    let products: Vec<Product> =
        read()?.iter().map(Product::new).filter(|p| !p.runs.is_empty()).collect();
    let first = Calibration::H200;
    report("before", &first, &products);
    let best = fitted(&products, &first);
    report("after", &best, &products);
    println!();
    for (name, value) in { best }.constants() {
        println!("    {name} = {};", short(*value));
    }
    println!();
    for times in best.kernels {
        println!("    {}", times.row());
    }
    Ok(())
}

/// The weight of a shape.
fn weight(product: &Product) -> f64 {
    let held = if product.best_us > HELD_BY_POWER_US { 0.4 } else { 1.0 };
    let close = product.cublaslt_us.is_some_and(|us| us < CLOSE * product.best_us);
    let held = if close { CLOSE_WEIGHT * held } else { held };
    match product.file {
        BENCHED => BENCHED_WEIGHT,
        SUITES => held * SUITE_WEIGHT,
        _ => held,
    }
}

/// The part of the score that a shape adds.
fn loss(product: &Product, calibration: &Calibration) -> f64 {
    let pairs: Vec<_> =
        product.predicted(calibration).filter(|(_, us)| *us < HOPELESS * product.best_us).collect();
    let shortest = pairs.iter().map(|pair| pair.0).fold(f64::INFINITY, f64::min);
    let (mut weights, mut lost) = (0.0, 0.0);
    let (mut near, mut error) = (0.0, 0.0);
    for (predicted, us) in &pairs {
        let slower = (us / product.best_us).ln();
        let weight = (-(predicted / shortest).ln() / NEAR).exp();
        weights += weight;
        lost += weight * slower;
        // A pair that is much slower than the fastest needs no exact prediction.
        let matters = (1.0 - 2.0 * slower).clamp(0.05, 1.0);
        near += matters;
        error += matters * (predicted / us).ln().abs();
    }
    let lost = lost / weights;
    weight(product) * (lost + SQUARE_WEIGHT * lost * lost + error / near)
}

/// Changes one constant at a time as long as that improves the score.
fn fitted(products: &[Product], first: &Calibration) -> Calibration {
    let seen: Vec<&Product> = products.iter().filter(|p| !p.held_out).collect();
    let origin: Vec<f64> = { *first }.constants().into_iter().map(|(_, value)| *value).collect();
    let weights: f64 = seen.iter().map(|p| weight(p)).sum();
    let score = |c: &Calibration| {
        let lost = seen.par_iter().map(|p| loss(p, c)).sum::<f64>() / weights;
        let own = |times: &host::gemm::KernelTimes| {
            STEP_WEIGHT * times.step.ln().powi(2) + FIXED_WEIGHT * times.fixed_us.powi(2)
        };
        let mut copy = *c;
        let drift = copy.constants().into_iter().zip(&origin);
        let drift: f64 = drift.map(|((_, value), from)| (*value / from).ln().powi(2)).sum();
        lost + DRIFT_WEIGHT * drift
            + c.kernels.iter().map(own).sum::<f64>() / c.kernels.len() as f64
    };
    let mut best = *first;
    let mut least = score(&best);
    let mut steps = vec![STEPS[0]; best.constants().len() + 2 * best.kernels.len()];
    for round in 0..ROUNDS {
        let before = least;
        for (i, step) in steps.iter_mut().enumerate() {
            let mut improved = false;
            for by in [*step, -*step] {
                let mut changed = best;
                change(&mut changed, i, by);
                let now = score(&changed);
                if now < least {
                    (best, least, improved) = (changed, now, true);
                    break;
                }
            }
            *step = (*step * if improved { 1.5 } else { 0.6 }).clamp(STEPS[1], 0.5);
        }
        if round % 10 == 9 {
            eprintln!("round {}: {before:.5} -> {least:.5}", round + 1);
        }
        if before - least < 1e-6 {
            break;
        }
    }
    best
}

/// Changes constant `i`: those of the GPU, then the kernels' factors, then their times.
fn change(c: &mut Calibration, i: usize, by: f64) {
    let constants = c.constants().len();
    let kernels = c.kernels.len();
    if i < constants {
        *c.constants()[i].1 *= by.exp();
    } else if i < constants + kernels {
        c.kernels[i - constants].step *= by.exp();
    } else {
        c.kernels[i - constants - kernels].fixed_us += by;
    }
}

/// Prints how near the picked pairs come to the fastest ones, and how exact the predictions of the fastest are.
fn report(when: &str, calibration: &Calibration, products: &[Product]) {
    for name in [SUITES, BENCHED, "fitted", "held out"] {
        let of = products.iter().filter(|p| match name {
            SUITES | BENCHED => p.file == name,
            "fitted" => ![SUITES, BENCHED].contains(&p.file) && !p.held_out,
            _ => p.held_out,
        });
        let picked = |p: &Product| {
            let shortest = p.predicted(calibration).min_by(|a, b| a.0.total_cmp(&b.0));
            (p.best_us / shortest.map_or(f64::NAN, |pair| pair.1), p.shape)
        };
        let Ratios { count, mean, least, low } = Ratios::of(of.clone().map(picked));
        let error = |p: &Product| {
            let fastest = p.predicted(calibration).min_by(|a, b| a.1.total_cmp(&b.1));
            fastest.map_or(f64::NAN, |(predicted, us)| (predicted / us).ln().abs())
        };
        let error = of.map(error).sum::<f64>() / count as f64;
        println!(
            "{when}, {name}: {count} shapes; picked {mean:.4} of the fastest, least {least:.3?}, {low} below 0.88; the \
             time of the fastest is predicted within {:.1} %",
            error * 100.0
        );
    }
}

/// A constant with three digits, as Rust writes it.
fn short(value: f64) -> String {
    let (digits, exponent) = format!("{value:.2e}").split_once('e').map_or_else(
        || (value.to_string(), 0),
        |(digits, exponent)| (digits.to_owned(), exponent.parse().unwrap_or(0)),
    );
    let plain: f64 = format!("{digits}e{exponent}").parse().unwrap_or(value);
    if (-3..5).contains(&exponent) { format!("{plain:?}") } else { format!("{digits}e{exponent}") }
}
