//! Says which kernels pay, from the records in docs/data/records.
//!
//! ```text
//! cargo run -p warpipe-bench --example choose_kernels
//! ```
//! The records have the times of more kernels than the table. The program begins with the kernels that the table has
//! for all types. It adds the kernel that gains most, again and again, until a kernel gains less than [`LEAST_GAIN`].
//! The gain is over the random shapes that are not held out; the suites take no part. For each step it prints the
//! geometric mean of (time of cuBLASLt's fastest kernel / time of the fastest chosen kernel), for these shapes and for
//! those held out. At the end come the kernels of the table that it did not choose.

#[path = "../tests/integration/recorded.rs"]
mod recorded;

use gpu_kernels::gemm::INSTANCES;
use host::gemm::Calibration;
use recorded::{Ratios, Recorded, is_of_suites, read};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

/// The table has these for all types, or for those of network layers.
const FIRST: [&str; 6] =
    ["128x256_2x1", "128x128_1x1", "128x128_1x1_pp", "64x128_1x1", "128x192_2x1", "64x64_1x1"];
/// A shape where we are behind by more than this counts half as much again.
const BEHIND: f64 = 0.97;
/// What a kernel must gain, as a mean of ln(ratio). A kernel is built twice, for bf16 and for f16: two cores take about
/// 0.8 s, and the image grows by about 20 KB, 0.5 % of what it may have.
const LEAST_GAIN: f64 = 0.0005;

/// Time of cuBLASLt's fastest kernel for a shape, and the fastest time of each of our kernels.
struct Times<'r> {
    rival_us: f64,
    kernels: BTreeMap<&'r str, f64>,
    held_out: bool,
}

impl<'r> Times<'r> {
    /// Returns `None` for the suites, and for a shape that cuBLASLt refused.
    fn of(recorded: &'r Recorded) -> Option<Self> {
        let rival_us = recorded.record.fastest_us.filter(|_| !is_of_suites(&recorded.file))?;
        let mut kernels = BTreeMap::new();
        for (name, _, _, us, _) in &recorded.record.runs {
            let least = kernels.entry(name.as_str()).or_insert(f64::INFINITY);
            *least = us.min(*least);
        }
        Some(Self { rival_us, kernels, held_out: recorded.held_out })
    }

    fn ratio(&self, chosen: &[&str]) -> f64 {
        let us = chosen.iter().filter_map(|name| self.kernels.get(name));
        self.rival_us / us.fold(f64::INFINITY, |a, b| a.min(*b))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let records = read(&Calibration::H200)?;
    let shapes: Vec<Times<'_>> = records.iter().filter_map(Times::of).collect();
    let mut rest: BTreeSet<&str> = shapes.iter().flat_map(|s| s.kernels.keys().copied()).collect();
    rest.retain(|name| !FIRST.contains(name));
    let in_table = |name: &str| {
        INSTANCES.iter().any(|i| i.desc.meta.name() == format!("gemm_bf16_bf16_{name}"))
    };
    let mean = |chosen: &[&str], held_out: bool| {
        let some = shapes.iter().filter(|s| s.held_out == held_out);
        Ratios::of(some.map(|s| (s.ratio(chosen), ()))).mean
    };
    let score = |chosen: &[&str]| {
        let seen = shapes.iter().filter(|s| !s.held_out);
        let (mut sum, mut count) = (0.0, 0.0);
        for ratio in seen.map(|s| s.ratio(chosen)) {
            sum += ratio.ln() + 0.5 * (ratio / BEHIND).ln().min(0.0);
            count += 1.0;
        }
        sum / count
    };
    let mut chosen = FIRST.to_vec();
    println!("{} random shapes; cuBLASLt's fastest / our fastest: seen, held out", shapes.len());
    loop {
        println!("    {:.4} {:.4}", mean(&chosen, false), mean(&chosen, true));
        let with = |name| [chosen.as_slice(), &[name]].concat();
        let gains = rest.iter().map(|name| (score(&with(*name)) - score(&chosen), *name));
        let Some((gain, name)) = gains.max_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        if gain < LEAST_GAIN {
            break;
        }
        print!("{name:<16} {gain:.5}{}", if in_table(name) { "" } else { " (not in the table)" });
        rest.remove(name);
        chosen.push(name);
    }
    let unused: Vec<&str> = rest.into_iter().filter(|name| in_table(name)).collect();
    println!("not chosen, but in the table: {}", unused.join(", "));
    Ok(())
}
