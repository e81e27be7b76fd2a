//! The types cost nothing: the time of the typed GEMM against that of the same GEMM by hand
//! (tests/fixtures/raw-gemm), on a GPU.
//!
//! Without a GPU a test prints a line and passes; with `WARPIPE_REQUIRE_GPU=1` it fails, and only
//! then the times are judged: a GPU that others use as well gives any ratio.
//! `cargo test --release --test gpu_zero_cost -- --nocapture` prints the numbers.

#[path = "common/twin.rs"]
mod twin;

use std::sync::{Mutex, MutexGuard, PoisonError};
use warpipe::host::gemm::BoundGemm;
use warpipe::host::{self, Buffer, Device, Dtype, Stream, data};
use warpipe_bench::{BenchConfig, Contender, Error, Timing, interleave};

/// How far the typed kernel's time may be above the raw one's.
const LIMIT: f64 = 1.01;

fn required() -> bool {
    std::env::var_os("WARPIPE_REQUIRE_GPU").is_some_and(|value| value == "1")
}

/// Device 0, for this test alone, or `None` with a printed line.
fn gpu(test: &str) -> Option<(Device, MutexGuard<'static, ()>)> {
    // The harness runs tests side by side; a measurement wants the device for itself.
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match Device::cuda(0).and_then(|device| device.load(&warpipe::GEMM_IMAGE).map(|_| device)) {
        Ok(device) => Some((device, turn)),
        Err(why) => {
            assert!(!required(), "WARPIPE_REQUIRE_GPU=1: {why}");
            println!("{test}: skipped, {why}");
            None
        }
    }
}

/// One of the two kernels with its sets of operands.
struct Twin<'a>(&'static str, Vec<BoundGemm<'a>>);

impl Contender for Twin<'_> {
    fn name(&self) -> &str {
        self.0
    }
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), Error> {
        Ok(self.1[set].run(1.0, 0.0, stream)?)
    }
}

/// Seeded normal operands A and B, `sets` copies of each.
fn operands(
    device: &Device,
    m: u64,
    n: u64,
    k: u64,
    sets: usize,
) -> Result<[Vec<Buffer>; 2], Error> {
    let copies = |seed, rows: u64| -> Result<Vec<Buffer>, host::Error> {
        let bytes = data::encode(&data::normal(seed, (rows * k) as usize), Dtype::Bf16)?;
        (0..sets).map(|_| device.upload(&bytes)).collect()
    };
    Ok([copies(1, m)?, copies(2, n)?])
}

fn poisoned(device: &Device, m: u64, n: u64) -> Result<Buffer, Error> {
    let mut d = device.alloc((m * n * 2) as usize)?;
    d.fill(0xff)?;
    Ok(d)
}

#[test]
fn both_give_the_same_bits() -> Result<(), Error> {
    let Some((device, _turn)) = gpu("both_give_the_same_bits") else { return Ok(()) };
    // One tile; residues in every dimension; fewer and more slots than the ring has; many tiles.
    let shapes =
        [(256, 256, 64), (300, 520, 72), (128, 256, 1000), (4096, 4096, 512), (8192, 8192, 8192)];
    for (m, n, k) in shapes {
        let [a, b] = operands(&device, m, n, k, 1)?;
        let [typed, raw] = twin::plans(&device, &twin::problem(m, n, k))?;
        let mut results = [poisoned(&device, m, n)?, poisoned(&device, m, n)?];
        for (plan, d) in [typed, raw].iter().zip(&mut results) {
            plan.run(&a[0], &b[0], None, d, 1.0, 0.0)?;
        }
        let [typed, raw] = [results[0].to_vec()?, results[1].to_vec()?];
        assert!(typed == raw, "{m}x{n}x{k}: the two kernels differ");
        // A poisoned element is a NaN with all bits set.
        assert!(typed.chunks_exact(2).all(|x| x != [0xff, 0xff]), "{m}x{n}x{k}: not all written");
    }
    Ok(())
}

/// A quantile of what is measured.
fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * q).round() as usize]
}

/// Per round, the time of `over` by that of `under`, each the sum of its turns.
fn ratios(over: &[&Timing], under: &[&Timing]) -> Vec<f64> {
    let sum = |of: &[&Timing], round: usize| of.iter().map(|t| t.samples_us[round]).sum::<f64>();
    (0..over[0].samples_us.len()).map(|round| sum(over, round) / sum(under, round)).collect()
}

fn compare(device: &Device, size: u64, rounds: usize) -> Result<(), Error> {
    let Some(info) = device.info() else { return Ok(()) };
    let problem = twin::problem(size, size, size);
    let plans = twin::plans(device, &problem)?;
    // Inputs twice the size of the cache: none is there when its turn comes again.
    let sets = (2 * info.l2_bytes).div_ceil(4 * size * size).clamp(1, 64) as usize;
    let [a, b] = operands(device, size, size, size, sets)?;
    let mut outputs = Vec::new();
    for _ in 0..2 * sets {
        outputs.push(poisoned(device, size, size)?);
    }
    let (typed_d, raw_d) = outputs.split_at_mut(sets);
    let bind = |name, plan: usize, d: &mut [Buffer]| -> Result<Twin<'_>, Error> {
        let sets = a.iter().zip(&b).zip(d).map(|((a, b), d)| plans[plan].bind(a, b, None, d));
        Ok(Twin(name, sets.collect::<Result<_, _>>()?))
    };
    // Typed, raw, raw, typed: a drift within a round meets both alike, and the raw kernel against
    // itself shows what the measurement is good for.
    let mut turns = [
        bind("typed", 0, typed_d)?,
        bind("raw", 1, raw_d)?,
        bind("raw", 1, raw_d)?,
        bind("typed", 0, typed_d)?,
    ];
    let mut contenders: Vec<&mut dyn Contender> = Vec::new();
    for turn in &mut turns {
        contenders.push(turn);
    }
    let config = BenchConfig { rounds, ..BenchConfig::default() };
    let flops = problem.flops();
    let (t, launches, graph) = interleave(device, &mut contenders, sets, flops, &config)?;
    let how = if graph { "from a CUDA graph" } else { "one by one" };
    println!("{size} cubed on {}: {rounds} rounds, {launches} launches each, {how}", info.name);
    for timing in &t {
        println!(
            "  {:6} {:9.2} us (p10 {:.2}, p90 {:.2})  {:6.1} TFLOP/s",
            timing.name, timing.median_us, timing.p10_us, timing.p90_us, timing.tflops
        );
    }
    let ratio = ratios(&[&t[0], &t[3]], &[&t[1], &t[2]]);
    let itself = ratios(&[&t[1]], &[&t[2]]);
    let median = quantile(&ratio, 0.5);
    for (what, values) in [("typed / raw", &ratio), ("raw / raw", &itself)] {
        let q = |q| quantile(values, q);
        println!("  {what:12} {:.4} (p10 {:.4}, p90 {:.4})", q(0.5), q(0.1), q(0.9));
    }
    if required() {
        assert!(median <= LIMIT, "{size} cubed: typed / raw is {median:.4}, the limit {LIMIT}");
    }
    Ok(())
}

#[test]
fn the_typed_kernel_takes_no_longer() -> Result<(), Error> {
    let Some((device, _turn)) = gpu("the_typed_kernel_takes_no_longer") else { return Ok(()) };
    compare(&device, 8192, 100)?;
    compare(&device, 2048, 300)
}
