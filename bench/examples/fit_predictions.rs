//! Fits the constants of the picker's predictions to the records in docs/data/records (`warpipe bench --record`).
//!
//! ```text
//! cargo run --release -p warpipe-bench --example fit_predictions
//! cargo run --release -p warpipe-bench --example fit_predictions -- --gpu h100
//! cargo run --release -p warpipe-bench --example fit_predictions -- --kernels
//! cargo run --release -p warpipe-bench --example fit_predictions -- --e4m3
//! ```
//! With `--kernels` it fits the kernels' rows alone, where kernels have joined the table.
//! Every fifth random shape is held out: the fit does not see it. The program prints how near the picked kernels come
//! to the fastest ones, for both parts, before and after, and which picks lose most. It writes the constants to
//! `host/src/gemm/calibration/GPU.rs`. Records of another GPU go into the same folder.
//!
//! A kernel that no record of a GPU has takes its row from another GPU's calibration, and 4 % more time for a k tile: it is
//! picked where it is clearly the fastest.
//!
//! With `--e4m3` it fits what the predictions have of their own for 8-bit floats, to the records whose names begin with `e4m3`:
//! the constants `e4m3_...` and the kernels' rows. All other constants stay as they are. Without it, these stay.
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

use host::gemm::{Calibration, KernelTimes};
use rayon::prelude::*;
use recorded::{BENCHED, E4M3, Product, Ratios, SUITES, is_of_suites, read, read_e4m3};
use std::error::Error;
use std::fmt::Write as _;

/// Predictions within about this fraction of the shortest one count as candidates for the pick.
const NEAR: f64 = 0.02;
/// Weight of the squared loss: a shape that loses much counts more than several that lose little.
const SQUARE_WEIGHT: f64 = 3.0;
/// Weight of the kernels' own factors, as the mean square of ln(factor).
const STEP_WEIGHT: f64 = 0.05;
/// Weight of the kernels' own times, as the mean square in microseconds.
const FIXED_WEIGHT: f64 = 0.02;
/// Weight of the constants' distances from where they were, as squares of ln(factor).
const DRIFT_WEIGHT: f64 = 3e-5;
/// Above this, power decides, and the order of neighbours is not repeatable.
const HELD_BY_POWER_US: f64 = 200.0;
/// Weight of a random shape that takes longer.
const HELD_WEIGHT: f64 = 0.4;
/// Weight of a shape of the suites: their operands are aligned as those of most networks are, and few random ones are.
const SUITE_WEIGHT: f64 = 4.0;
/// Weight of a shape of the suites whose few pairs the benchmark has timed. There each kernel runs alone, as it does for users:
/// where power decides, and where one launch overlaps the next, that is another time than in a record of many kernels.
const BENCHED_WEIGHT: f64 = 12.0;
/// A shape where the fastest pair is at most this many times as fast as the first of cuBLASLt's candidates: there a wrong pick
/// puts us behind. It counts as [`CLOSE_WEIGHT`] shapes.
const CLOSE: f64 = 1.06;
/// Weight of such a shape.
const CLOSE_WEIGHT: f64 = 3.0;
/// Pairs that take longer than this many times the fastest are no part of the fit.
const HOPELESS: f64 = 2.5;
/// Most rounds through all constants.
const ROUNDS: u32 = 60;
/// Shapes that are printed because their picks lose most.
const WORST: usize = 12;
/// First and least step of a constant, as a fraction of it, or in microseconds for a kernel's own time.
const STEPS: [f64; 2] = [0.1, 0.002];

/// Factor of the time of a k tile of a kernel that was measured on another GPU only.
const UNSEEN: f64 = 1.04;

/// What is fitted: the constants of a GPU, those of one part of the operands.
struct Asked {
    gpu: &'static Calibration,
    part: Part,
    /// Whether only the kernels' rows are fitted.
    kernels: bool,
}

impl Asked {
    /// What the arguments say.
    fn new() -> Result<Self, Box<dyn Error>> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (gpu, rest) = match &arguments[..] {
            ["--gpu", "h100", rest @ ..] => (&Calibration::H100, rest),
            ["--gpu", "h200", rest @ ..] | rest => (&Calibration::H200, rest),
        };
        let (part, kernels) = match rest {
            [] => (Part::Whole, false),
            ["--kernels"] => (Part::Whole, true),
            ["--e4m3"] => (Part::E4m3, false),
            _ => return Err("usage: fit_predictions [--gpu h100|h200] [--kernels|--e4m3]".into()),
        };
        Ok(Self { gpu, part, kernels })
    }
}

/// The operands whose part of the constants is fitted.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// Of 16 bits.
    Whole,
    /// 8-bit floats.
    E4m3,
}

impl Part {
    /// The records with kernels of the tables.
    fn products(self, gpu: &Calibration) -> Result<Vec<Product>, Box<dyn Error>> {
        let records = if self == Self::Whole { read(gpu)? } else { read_e4m3(gpu)? };
        let products = records.iter().map(Product::new);
        let products: Vec<Product> = products.filter(|p| !p.runs.is_empty()).collect();
        if products.is_empty() {
            let command = "warpipe bench --suite random --dtype e4m3 --record e4m3-random.jsonl";
            return Err(
                format!("docs/data/records has no e4m3*.jsonl: `{command}` writes one").into()
            );
        }
        Ok(products)
    }

    /// The constants of this part, with their names.
    fn constants(self, c: &mut Calibration) -> Vec<(&'static str, &mut f64)> {
        let of_part = |name: &str| name.starts_with(E4M3) == (self == Self::E4m3);
        c.constants().into_iter().filter(|(name, _)| of_part(name)).collect()
    }

    /// The kernels of this part.
    fn kernels(self, c: &mut Calibration) -> &mut [KernelTimes] {
        match self {
            Self::Whole => &mut c.kernels,
            Self::E4m3 => &mut c.e4m3_kernels,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let asked = Asked::new()?;
    let Asked { gpu, part, .. } = asked;
    let products = part.products(gpu)?;
    report("before", gpu, &products);
    let best = fitted(&asked, &products)?;
    report("after", &best, &products);
    worst(&best, &products);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/src/gemm/calibration");
    let path = format!("{folder}/{}.rs", gpu.gpu.to_lowercase());
    std::fs::write(&path, source(best)).map_err(|e| format!("{path}: {e}"))?;
    println!("written to {path}");
    Ok(())
}

/// The Rust file of a calibration.
fn source(mut c: Calibration) -> String {
    let (gpu, memory_gbs) = (c.gpu, c.memory_gbs);
    let mut text = format!(
        "//! One NVIDIA {gpu}, written by the example `fit_predictions` of warpipe-bench (`--gpu {}`).\n\n\
         use super::super::kernel_times::*;\n\
         use super::Calibration;\n\n\
         impl Calibration {{\n    \
             /// One NVIDIA {gpu} (SXM).\n    \
             pub const {gpu}: Self = Self {{\n        \
                 gpu: \"{gpu}\",\n        \
                 memory_gbs: {memory_gbs:?},\n",
        gpu.to_lowercase()
    );
    for (name, value) in c.constants() {
        let _ = writeln!(text, "        {name}: {},", short(*value));
    }
    for (name, rows) in [("kernels", &c.kernels[..]), ("e4m3_kernels", &c.e4m3_kernels[..])] {
        let _ = writeln!(text, "        {name}: [");
        for times in rows {
            let _ = writeln!(text, "            {}", times.row());
        }
        text += "        ],\n";
    }
    text + "    };\n}\n"
}

/// The weight of a shape.
fn weight(product: &Product) -> f64 {
    let close = product.cublaslt_us.is_some_and(|us| us < CLOSE * product.best_us);
    let close = if close { CLOSE_WEIGHT } else { 1.0 };
    match product.file.as_str() {
        BENCHED => BENCHED_WEIGHT,
        file if is_of_suites(file) => close * SUITE_WEIGHT,
        _ if product.best_us > HELD_BY_POWER_US => close * HELD_WEIGHT,
        _ => close,
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
fn fitted(
    &Asked { gpu: first, part, kernels: only_kernels }: &Asked,
    products: &[Product],
) -> Result<Calibration, Box<dyn Error>> {
    let seen: Vec<&Product> = products.iter().filter(|p| !p.held_out).collect();
    let constants = part.constants(&mut { *first }).len();
    let origin: Vec<f64> =
        part.constants(&mut { *first }).into_iter().map(|(_, value)| *value).collect();
    let weights: f64 = seen.iter().map(|p| weight(p)).sum();
    let score = |c: &Calibration| {
        let lost = seen.par_iter().map(|p| loss(p, c)).sum::<f64>() / weights;
        let own = |times: &KernelTimes| {
            STEP_WEIGHT * times.step.ln().powi(2) + FIXED_WEIGHT * times.fixed_us.powi(2)
        };
        let mut copy = *c;
        let drift = part.constants(&mut copy).into_iter().zip(&origin);
        let drift: f64 = drift.map(|((_, value), from)| (*value / from).ln().powi(2)).sum();
        let kernels = part.kernels(&mut copy);
        lost + DRIFT_WEIGHT * drift + kernels.iter().map(own).sum::<f64>() / kernels.len() as f64
    };
    let mut best = *first;
    let unseen = take_unseen(part, products, &mut best);
    let mut least = score(&best);
    // The distance of a constant from itself is ln(0 / 0) where it is 0.
    if let Some((name, at)) = part.constants(&mut { best }).into_iter().find(|(_, at)| **at <= 0.0)
    {
        let gpu = first.gpu;
        return Err(format!("{name} of the {gpu} is {at}; the fit needs a number above 0").into());
    }
    if !least.is_finite() {
        return Err(format!("the score of the constants as they are is {least}").into());
    }
    let kernels = part.kernels(&mut best).len();
    let mut steps = vec![STEPS[0]; constants + 2 * kernels];
    for round in 0..ROUNDS {
        let before = least;
        for (i, step) in steps.iter_mut().enumerate() {
            let fixed =
                if i < constants { only_kernels } else { unseen[(i - constants) % kernels] };
            if fixed {
                continue;
            }
            let mut improved = false;
            for by in [*step, -*step] {
                let mut changed = best;
                change(part, &mut changed, i, by);
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
    Ok(best)
}

/// Gives the kernels that no record has the rows of another GPU's calibration. Returns which ones these are.
fn take_unseen(part: Part, products: &[Product], c: &mut Calibration) -> Vec<bool> {
    let other = Calibration::ALL.into_iter().find(|other| other.gpu != c.gpu);
    let mut other = *other.expect("there are two calibrations");
    let seen = |times: &KernelTimes| {
        products.iter().any(|p| p.runs.iter().any(|(instance, ..)| times.are_of(instance)))
    };
    let rows = part.kernels(c).iter_mut().zip(part.kernels(&mut other));
    rows.map(|(times, other)| {
        let unseen = !seen(times);
        if unseen {
            (times.step, times.fixed_us) = (UNSEEN * other.step, other.fixed_us);
        }
        unseen
    })
    .collect()
}

/// Changes constant `i`: those of the GPU, then the kernels' factors, then their times.
fn change(part: Part, c: &mut Calibration, i: usize, by: f64) {
    let constants = part.constants(c).len();
    let kernels = part.kernels(c).len();
    if i < constants {
        *part.constants(c)[i].1 *= by.exp();
    } else if i < constants + kernels {
        part.kernels(c)[i - constants].step *= by.exp();
    } else {
        part.kernels(c)[i - constants - kernels].fixed_us += by;
    }
}

/// Prints how near the picked pairs come to the fastest ones, and how exact the predictions of the fastest are.
fn report(when: &str, calibration: &Calibration, products: &[Product]) {
    for name in [SUITES, BENCHED, "fitted", "held out"] {
        let of = products.iter().filter(|p| match name {
            SUITES => is_of_suites(&p.file) && p.file != BENCHED,
            BENCHED => p.file == BENCHED,
            "fitted" => !is_of_suites(&p.file) && !p.held_out,
            _ => p.held_out,
        });
        if of.clone().count() == 0 {
            continue;
        }
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

/// Prints the shapes whose picked pair loses most, with the measured and predicted times of that pair and of the fastest.
fn worst(calibration: &Calibration, products: &[Product]) {
    let lost = |p: &Product| {
        let mut all: Vec<_> = p.predicted(calibration).enumerate().collect();
        let fastest = all.iter().copied().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        all.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let (picked, fastest) = (all[0], fastest.unwrap_or(all[0]));
        let pair = |(i, (predicted, us)): (usize, (f64, f64))| {
            let (instance, schedule, _) = &p.runs[i];
            format!(
                "{} {schedule}: {us:.1} us, predicted {predicted:.1}",
                instance.desc.meta.name()
            )
        };
        (
            fastest.1.1 / picked.1.1,
            format!("{} {}: picked {}; fastest {}", p.file, p.shape, pair(picked), pair(fastest)),
        )
    };
    let mut all: Vec<_> = products.iter().map(lost).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (ratio, text) in all.iter().take(WORST) {
        println!("{ratio:.3} {text}");
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
