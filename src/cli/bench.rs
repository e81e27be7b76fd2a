//! `warpipe bench`: one product timed on a GPU, in turn with cuBLASLt.

use super::args::{DeviceArg, operand_dtype, result_dtype};
use super::check::bound;
use super::error::Error;
use super::gemm::open;
use super::operands::check_size;
use super::progress::Progress;
use super::say;
use clap::ValueEnum;
use host::bench::{BenchConfig, BenchResult, Timing};
use host::cublaslt::CublasLt;
use host::gemm::{Gemm, GemmProblem};
use host::{Device, SimConfig, dtype_name};
use isa::kernel::Dtype;
use std::fmt;

/// What to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rival {
    /// NVIDIA's library, loaded at run time
    Cublaslt,
}

/// Options of `warpipe bench`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Rows of A and D
    #[arg(long, value_name = "M")]
    m: u64,
    /// Rows of B, columns of D
    #[arg(long, value_name = "N")]
    n: u64,
    /// Columns of A and B
    #[arg(long, value_name = "K")]
    k: u64,
    /// Element type of A and B: bf16 or f16
    #[arg(long, value_parser = operand_dtype, default_value = "bf16")]
    dtype: Dtype,
    /// Element type of the result: bf16, f16 or f32 [default: that of A and B]
    #[arg(long, value_parser = result_dtype, value_name = "DTYPE")]
    out_dtype: Option<Dtype>,
    /// Time this in turn with ours, in the same run; where it is missing, ours is timed alone
    #[arg(long, value_name = "LIBRARY")]
    vs: Option<Rival>,
    /// Timed samples of each
    #[arg(long, default_value_t = BenchConfig::default().rounds as u64, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rounds: u64,
    /// Seed of the operands
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The GPU: auto, cuda or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceArg,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Error> {
    let out = args.out_dtype.unwrap_or(args.dtype);
    let problem =
        GemmProblem { m: args.m, n: args.n, k: args.k, ab: args.dtype, out, beta_c: false };
    check_size(&problem)?;
    let device = open(args.device, SimConfig::default())?;
    if device.is_sim() {
        let usage = format!("a benchmark needs a GPU; this is the {}", device.describe());
        return Err(Error::Usage(usage));
    }
    let config =
        BenchConfig { rounds: args.rounds as usize, seed: args.seed, ..BenchConfig::default() };
    let plan = Gemm::new(&device, &warpipe::GEMM_IMAGE)?.plan(&problem)?;
    let rival = match args.vs {
        None => Ok(None),
        Some(Rival::Cublaslt) => cublaslt(&device, &problem).map(Some),
    };
    let (rival, absent) = match rival {
        Ok(rival) => (rival, None),
        Err(e @ host::Error::NoCublasLt { .. }) => (None, Some(e.to_string())),
        Err(e) => return Err(e.into()),
    };
    let progress = Progress::new(1);
    let result = progress.step(&format!("timing on {}", device.describe()), || {
        host::bench::gemm(&device, &plan, rival.as_ref(), &config)
    })?;
    drop(progress);
    let text = if args.json {
        serde_json::json!({ "result": result, "cublaslt_absent": absent }).to_string()
    } else {
        Table { result: &result, absent: absent.as_deref() }.to_string()
    };
    say(&text)?;
    verdict(&result, out, args.k)
}

fn cublaslt(
    device: &Device,
    problem: &GemmProblem,
) -> Result<host::cublaslt::CublasLtPlan, host::Error> {
    CublasLt::new(device)?.plan(problem)
}

/// A time of a wrong product is no time.
fn verdict(result: &BenchResult, out: Dtype, k: u64) -> Result<(), Error> {
    let bound = bound(out, k);
    match result.checks.iter().find(|check| !check.below(bound)) {
        Some(check) => {
            let (error, dtype) = (check.relative_error, dtype_name(out));
            Err(Error::Check { error, bound, dtype, k })
        }
        None => Ok(()),
    }
}

/// The result as text.
struct Table<'a> {
    result: &'a BenchResult,
    absent: Option<&'a str>,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { result, absent } = self;
        write!(f, "{}", result.plan)?;
        writeln!(
            f,
            "{} samples of {} launches{}, {} sets of operands in rotation",
            result.config.rounds,
            result.launches,
            if result.graph { " from a CUDA graph" } else { "" },
            result.sets
        )?;
        writeln!(
            f,
            "{:<10} {:>10} {:>10} {:>10} {:>10}",
            "", "median us", "p10", "p90", "TFLOP/s"
        )?;
        for Timing { name, median_us, p10_us, p90_us, tflops, .. } in
            [Some(&result.ours), result.cublaslt.as_ref()].into_iter().flatten()
        {
            writeln!(
                f,
                "{name:<10} {median_us:>10.2} {p10_us:>10.2} {p90_us:>10.2} {tflops:>10.1}"
            )?;
        }
        if let Some(ratio) = result.ratio {
            writeln!(f, "ratio      {ratio:.3} (above 1: warpipe is faster)")?;
        }
        for check in &result.checks {
            writeln!(f, "check      {check}")?;
        }
        absent.map_or(Ok(()), |why| writeln!(f, "{why}"))
    }
}
