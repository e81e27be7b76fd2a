//! Timing on a GPU: contenders take turns, so that clocks, heat and power meet all of them alike.
//!
//! A sample is the time of `launches` launches between two events, divided by their number; short
//! products are launched from a CUDA graph, for which the host is no bottleneck. Inputs rotate over
//! so many buffers that a product can't find its own in the second-level cache.

use crate::buffer::Buffer;
use crate::cublaslt::CublasLtPlan;
use crate::data;
use crate::device::Device;
use crate::error::Error;
use crate::gemm::{BoundGemm, GemmPlan, PlanInfo};
use crate::reference::{Check, Product};
use crate::stream::Stream;
use serde::Serialize;

/// How to measure.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BenchConfig {
    /// Samples of each contender.
    pub rounds: usize,
    /// Untimed turns before them.
    pub warmup: usize,
    /// Shortest sample in microseconds: shorter products are launched several times for one.
    pub sample_us: f64,
    /// Seed of the operands.
    pub seed: u64,
    /// Whether results are compared with the f64 product, before and after.
    pub check: bool,
}

impl Default for BenchConfig {
    fn default() -> Self {
        Self { rounds: 30, warmup: 10, sample_us: 500.0, seed: 0, check: true }
    }
}

/// Times of one contender in microseconds per launch.
#[derive(Clone, Debug, Serialize)]
pub struct Timing {
    /// Whose.
    pub name: String,
    /// The median.
    pub median_us: f64,
    /// The fastest.
    pub min_us: f64,
    /// A tenth of the samples is below.
    pub p10_us: f64,
    /// A tenth of the samples is above.
    pub p90_us: f64,
    /// Products per second at the median, as 10^12 operations per second.
    pub tflops: f64,
    /// All, in the order of the rounds.
    pub samples_us: Vec<f64>,
}

/// A comparison.
#[derive(Clone, Debug, Serialize)]
pub struct BenchResult {
    /// What ran.
    pub plan: PlanInfo,
    /// How it was measured.
    pub config: BenchConfig,
    /// Launches of one sample.
    pub launches: usize,
    /// Whether they came from a CUDA graph.
    pub graph: bool,
    /// Sets of operands that were rotated.
    pub sets: usize,
    /// Ours.
    pub ours: Timing,
    /// cuBLASLt's, if it was there.
    pub cublaslt: Option<Timing>,
    /// Its median over ours: above 1 we are faster.
    pub ratio: Option<f64>,
    /// The result against the f64 product, before and after timing.
    pub checks: Vec<Check>,
}

/// Something that can be launched with one of several sets of operands.
pub trait Contender {
    /// Its name.
    fn name(&self) -> &str;
    /// Queues one launch with set `set`.
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), Error>;
}

/// Times contenders in turn: A B A B, `rounds` times.
///
/// # Errors
/// [`Error::BenchSetting`] without rounds, sets or contenders; [`Error::NotOnModel`]; what launches
/// report.
pub fn interleave(
    device: &Device,
    contenders: &mut [&mut dyn Contender],
    sets: usize,
    flops: f64,
    config: &BenchConfig,
) -> Result<(Vec<Timing>, usize, bool), Error> {
    if device.is_sim() {
        return Err(Error::NotOnModel { what: "a benchmark" });
    }
    let numbers = [("rounds", config.rounds), ("sets", sets), ("contenders", contenders.len())];
    for (what, value) in numbers {
        if value == 0 {
            return Err(Error::BenchSetting { what, value: 0, least: 1 });
        }
    }
    let stream = device.new_stream()?;
    let launches = launches_per_sample(contenders, sets, config, &stream)?;
    let mut work = Vec::with_capacity(contenders.len());
    for contender in contenders.iter_mut() {
        let turn = |contender: &mut dyn Contender| {
            (0..launches).try_for_each(|i| contender.launch(i % sets, &stream))
        };
        let graph = if launches > 1 { Some(stream.capture(|| turn(*contender))?) } else { None };
        work.push(graph);
    }
    // Everything is queued before anything is waited for: the GPU goes from one sample to the next
    // without a gap, and each event ends one sample and begins the next.
    let mut samples = vec![Vec::with_capacity(config.rounds); contenders.len()];
    let mut marks = Vec::new();
    for round in 0..config.warmup + config.rounds {
        if round == config.warmup {
            marks.push(stream.record()?);
        }
        for (contender, graph) in contenders.iter_mut().zip(&work) {
            match graph {
                Some(graph) => graph.launch()?,
                None => contender.launch(round % sets, &stream)?,
            }
            if round >= config.warmup {
                marks.push(stream.record()?);
            }
        }
    }
    for (i, pair) in marks.windows(2).enumerate() {
        let us = pair[1].elapsed_ms(&pair[0])? * 1e3 / launches as f64;
        samples[i % contenders.len()].push(us);
    }
    let timings = contenders
        .iter()
        .zip(samples)
        .map(|(contender, samples)| Timing::new(contender.name(), samples, flops))
        .collect();
    Ok((timings, launches, launches > 1))
}

/// How many launches make a sample of the shortest length.
fn launches_per_sample(
    contenders: &mut [&mut dyn Contender],
    sets: usize,
    config: &BenchConfig,
    stream: &Stream,
) -> Result<usize, Error> {
    let mut fastest = f64::INFINITY;
    for contender in contenders.iter_mut() {
        for i in 0..5 {
            let start = stream.record()?;
            contender.launch(i % sets, stream)?;
            fastest = fastest.min(stream.record()?.elapsed_ms(&start)? * 1e3);
        }
    }
    // Launched alone, a product is timed with the host's delay: never too many launches.
    let launches = ((config.sample_us / fastest.max(1.0)).ceil() as usize).clamp(1, 1000);
    // Several launches take every set at least once.
    Ok(if launches > 1 { launches.max(sets) } else { 1 })
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

/// A quantile of sorted values, between neighbours linearly; NaN of none.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = q * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * at.fract()
}

/// Operands of one product, several times over.
struct Sets {
    a: Vec<Buffer>,
    b: Vec<Buffer>,
    d: Vec<Buffer>,
}

/// Ours.
struct Ours<'a>(Vec<BoundGemm<'a>>);

impl Contender for Ours<'_> {
    fn name(&self) -> &'static str {
        "warpipe"
    }
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), Error> {
        self.0[set].run(1.0, 0.0, stream)
    }
}

/// cuBLASLt.
struct Theirs<'a>(&'a CublasLtPlan, &'a mut Sets);

impl Contender for Theirs<'_> {
    fn name(&self) -> &'static str {
        "cuBLASLt"
    }
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), Error> {
        let Sets { a, b, d } = &mut *self.1;
        self.0.run((&a[set], &b[set], None), &mut d[set], (1.0, 0.0), stream)
    }
}

/// Times a planned product (without C), with cuBLASLt's in turn if there is one.
///
/// Operands are seeded normal data; results are poisoned with NaN first and, unless
/// `config.check` is off, compared with the f64 product before and after. The comparison is given
/// back, not judged.
///
/// # Errors
/// As [`interleave`]; [`Error::OperandC`] for a plan with C; what any part reports.
pub fn gemm(
    device: &Device,
    plan: &GemmPlan,
    cublaslt: Option<&CublasLtPlan>,
    config: &BenchConfig,
) -> Result<BenchResult, Error> {
    let Some(gpu) = device.info() else {
        return Err(Error::NotOnModel { what: "a benchmark" });
    };
    let p = *plan.problem();
    let (m, n, k) = (p.m as usize, p.n as usize, p.k as usize);
    let values = |seed, rows, cols| -> Result<_, Error> {
        let bytes = data::encode(&data::normal(seed, rows * cols), p.ab)?;
        Ok((data::decode(&bytes, p.ab)?, bytes))
    };
    let (a, a_bytes) = values(config.seed, m, k)?;
    let (b, b_bytes) = values(config.seed ^ 0x9e37_79b9_7f4a_7c15, n, k)?;
    // Twice the cache: nothing of a set is left there when its turn comes again.
    let per_set = (a_bytes.len() + b_bytes.len()).max(1) as u64;
    let sets = (2 * gpu.l2_bytes).div_ceil(per_set).clamp(1, 256) as usize;
    let upload = |bytes: &[u8]| (0..sets).map(|_| device.upload(bytes)).collect();
    let results = || -> Result<Vec<Buffer>, Error> {
        let poisoned = |_| {
            let mut d = device.alloc(p.bytes('D') as usize)?;
            d.fill(0xff)?;
            Ok(d)
        };
        (0..sets).map(poisoned).collect()
    };
    let (operands_a, operands_b): (Result<Vec<_>, _>, Result<Vec<_>, _>) =
        (upload(&a_bytes), upload(&b_bytes));
    let mut all = Sets { a: operands_a?, b: operands_b?, d: results()? };
    let mut ours_d = results()?;
    let mut ours = Ours(Vec::with_capacity(sets));
    for ((a, b), d) in all.a.iter().zip(&all.b).zip(&mut ours_d) {
        ours.0.push(plan.bind(a, b, None, d)?);
    }
    let product = Product { m, n, k, a: &a, b: &b, c: None, alpha: 1.0, beta: 0.0 };
    let mut checks = Vec::new();
    if config.check {
        ours.launch(0, &device.stream())?;
        checks.push(product.check(&data::decode(&ours_d[0].to_vec()?, p.out)?)?);
        // What is there afterwards is what the timed launches wrote.
        ours_d[0].fill(0xff)?;
    }
    let mut theirs = cublaslt.map(|plan| Theirs(plan, &mut all));
    let mut contenders: Vec<&mut dyn Contender> = vec![&mut ours];
    contenders.extend(theirs.as_mut().map(|t| -> &mut dyn Contender { t }));
    let (timings, launches, graph) = interleave(device, &mut contenders, sets, p.flops(), config)?;
    if config.check {
        checks.push(product.check(&data::decode(&ours_d[0].to_vec()?, p.out)?)?);
    }
    let mut timings = timings.into_iter();
    // `interleave` gives one timing for each contender, in order.
    let Some(first) = timings.next() else {
        return Err(Error::BenchSetting { what: "contenders", value: 0, least: 1 });
    };
    let second = timings.next();
    Ok(BenchResult {
        plan: plan.describe().clone(),
        config: *config,
        launches,
        graph,
        sets,
        ratio: second.as_ref().map(|t| t.median_us / first.median_us),
        ours: first,
        cublaslt: second,
        checks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let values = [1.0, 2.0, 4.0, 8.0];
        for (q, want) in [(0.0, 1.0), (0.5, 3.0), (1.0, 8.0), (0.1, 1.3)] {
            assert!((quantile(&values, q) - want).abs() < 1e-12, "{q}");
        }
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn a_timing_has_the_median_and_its_rate() {
        let t = Timing::new("x", vec![30.0, 10.0, 20.0], 4e9);
        assert_eq!((t.median_us, t.min_us, t.tflops), (20.0, 10.0, 200.0));
        assert_eq!(t.samples_us, [30.0, 10.0, 20.0]);
    }
}
