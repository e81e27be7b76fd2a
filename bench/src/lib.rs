//! Benchmarks of the GEMM on a GPU, in turn with cuBLASLt, and the GPU's measured ceilings.
//!
//! Contenders run in turn, so that clock, temperature and power are the same for all of them. Every
//! result is compared with the product in f64.
//!
//! A sample is the time of `launches` launches between two events, divided by `launches`. Short products
//! are launched from a CUDA graph, so that the host does not limit them. The operands rotate over many
//! buffers, so that a product does not find its own operands in the L2 cache.
//!
//! [`Bench`] times plans of a product in turn with [`cublaslt`]. [`strided`], [`grouped`] and [`epilogue`] time products with
//! layouts, with groups, and linear layers. [`ceilings`] times the tensor cores and
//! memory alone. [`machine`] describes the GPU, [`suites`] lists the shapes, and [`line`](mod@line) and
//! [`report`] hold the results as text and JSON.

pub mod ceilings;
mod check;
pub mod cublaslt;
pub mod epilogue;
mod error;
pub mod grouped;
mod isolated;
pub mod line;
pub mod machine;
mod measure;
mod pool;
pub mod record;
pub mod report;
mod runs;
mod scales;
mod search;
pub mod strided;
pub mod suites;

pub use check::{Projected, ResultCheck};
pub use error::Error;
pub use measure::{Bench, Fastest, Isolated, Measured, Ours};
pub use pool::rotating_sets;
pub use scales::{Launch, ProductScales, ScaleOf};
pub use search::Search;

use host::timing::{Samples, in_turn, launches, quantile};
use host::{Device, Stream};
use serde::{Deserialize, Serialize};

/// Settings of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchConfig {
    /// Samples of each contender. With a budget, this is the least number.
    pub rounds: usize,
    /// Untimed rounds before the samples. With a budget, this is the largest number.
    pub warmup: usize,
    /// Milliseconds for all samples together. With 0, there are `rounds` samples.
    pub budget_ms: f64,
    /// Shortest sample in microseconds. Shorter products are launched several times per sample.
    pub sample_us: f64,
    /// Seed of the operands.
    pub seed: u64,
    /// Whether isolated launches are timed too ([`Isolated`]).
    #[serde(default)]
    pub isolated: bool,
}

impl Default for BenchConfig {
    fn default() -> Self {
        Self { rounds: 30, warmup: 10, budget_ms: 0.0, sample_us: 500.0, seed: 0, isolated: false }
    }
}

/// Times of one contender in microseconds per launch.
#[derive(Clone, Debug, Serialize)]
pub struct Timing {
    /// Name of the contender.
    pub name: String,
    /// Median.
    pub median_us: f64,
    /// Minimum.
    pub min_us: f64,
    /// 10th percentile.
    pub p10_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// Rate at the median, in TFLOP/s.
    pub tflops: f64,
    /// All samples, in the order of the rounds.
    pub samples_us: Vec<f64>,
}

/// Something that can be launched with one of several sets of operands.
pub trait Contender {
    /// Name for the report.
    fn name(&self) -> &str;
    /// Queues one launch with operand set `set`.
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), Error>;
}

/// Times contenders in turn (A B A B ...). Returns the times of each contender, the launches per sample,
/// and whether they were launched from a CUDA graph.
///
/// # Errors
/// [`Error::Setting`] without rounds, sets or contenders; [`host::Error::NotOnModel`] on the SM model;
/// errors of the launches.
pub fn interleave(
    device: &Device,
    contenders: &mut [&mut dyn Contender],
    sets: usize,
    flops: f64,
    config: &BenchConfig,
) -> Result<(Vec<Timing>, usize, bool), Error> {
    if device.is_sim() {
        return Err(host::Error::NotOnModel { what: "a benchmark" }.into());
    }
    let numbers = [("rounds", config.rounds), ("sets", sets), ("contenders", contenders.len())];
    for (what, value) in numbers {
        if value == 0 {
            return Err(Error::Setting { what, value: 0, least: 1 });
        }
    }
    let stream = device.new_stream()?;
    let settings = sampling(contenders, sets, config, &stream)?;
    let launch = |contender| {
        let contender: &mut dyn Contender = contender;
        move |set: usize, stream: &Stream| contender.launch(set, stream)
    };
    let mut turns: Vec<_> = contenders.iter_mut().map(|c| launch(&mut **c)).collect();
    let samples = in_turn(&mut turns, sets, settings, &stream)?;
    drop(turns);
    let timings = contenders
        .iter()
        .zip(samples)
        .map(|(contender, samples)| Timing::new(contender.name(), samples, flops))
        .collect();
    Ok((timings, settings.launches, settings.launches > 1))
}

/// Launches every contender five times and derives the numbers from the shortest times.
fn sampling(
    contenders: &mut [&mut dyn Contender],
    sets: usize,
    config: &BenchConfig,
    stream: &Stream,
) -> Result<Samples, Error> {
    let mut best = Vec::with_capacity(contenders.len());
    for contender in contenders.iter_mut() {
        let mut fastest = f64::INFINITY;
        for i in 0..5 {
            let start = stream.record()?;
            contender.launch(i % sets, stream)?;
            fastest = fastest.min(stream.record()?.elapsed_ms(&start)? * 1e3);
        }
        best.push(fastest);
    }
    Ok(samples_of(&best, sets, config))
}

/// Chooses the numbers for contenders that take `best_us` microseconds each.
fn samples_of(best_us: &[f64], sets: usize, config: &BenchConfig) -> Samples {
    let fastest = best_us.iter().copied().fold(f64::INFINITY, f64::min);
    // The time of a single launch includes the host's delay, so this is never too many launches.
    let launches = launches(fastest, sets, config.sample_us);
    if config.budget_ms <= 0.0 {
        return Samples { launches, warmup: config.warmup, rounds: config.rounds };
    }
    let round_us = best_us.iter().sum::<f64>() * launches as f64;
    let fit = |share: f64| (share * config.budget_ms * 1e3 / round_us.max(1.0)) as usize;
    // More than ten times as many samples add no information. The first rounds warm up the clock and
    // the caches.
    let rounds = fit(1.0).clamp(config.rounds, 10 * config.rounds);
    Samples { launches, warmup: fit(0.2).clamp(2, config.warmup.max(2)), rounds }
}

impl Timing {
    fn new(name: &str, samples_us: Vec<f64>, flops: f64) -> Self {
        let mut sorted = samples_us.clone();
        sorted.sort_by(f64::total_cmp);
        let median_us = quantile(&sorted, 0.5);
        Self {
            name: name.into(),
            median_us,
            min_us: quantile(&sorted, 0.0),
            p10_us: quantile(&sorted, 0.1),
            p90_us: quantile(&sorted, 0.9),
            tflops: flops / median_us / 1e6,
            samples_us,
        }
    }
}

/// Joins the lines of a text into one line.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_fill_the_budget_and_are_never_too_few() {
        let config = BenchConfig { budget_ms: 400.0, ..BenchConfig::default() };
        let of = |best: &[f64], sets| {
            let s = samples_of(best, sets, &config);
            (s.launches, s.warmup, s.rounds)
        };
        // 125 launches of 4 us make a sample of 500 us, two of them a round.
        assert_eq!(of(&[4.0, 4.0], 120), (125, 10, 300));
        // Every set takes part: 256 launches, a round of 1 ms.
        assert_eq!(of(&[2.0, 2.0], 256), (256, 10, 300));
        assert_eq!(of(&[100.0, 300.0], 4), (5, 10, 200));
        // Products of 13 ms: 30 samples take longer than the budget.
        assert_eq!(of(&[13000.0, 13000.0], 1), (1, 3, 30));
        let config = BenchConfig::default();
        let s = samples_of(&[13000.0], 1, &config);
        assert_eq!(s, Samples { launches: 1, warmup: 10, rounds: 30 });
    }

    #[test]
    fn a_timing_has_the_median_and_its_rate() {
        let t = Timing::new("x", vec![30.0, 10.0, 20.0], 4e9);
        assert_eq!((t.median_us, t.min_us, t.tflops), (20.0, 10.0, 200.0));
        assert_eq!(t.samples_us, [30.0, 10.0, 20.0]);
    }
}
