//! `warpipe ceilings`: the measured ceilings of a GPU, and what the GEMM reaches of them.

use super::args::DeviceArg;
use super::error::Error;
use super::gemm::open;
use super::say;
use host::SimConfig;
use warpipe_bench::BenchConfig;
use warpipe_bench::ceilings::Ceilings;

/// Options of `warpipe ceilings`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Timed samples of each measurement, after as many untimed ones in which the clock settles
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
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
    let device = open(args.device, SimConfig::default())?;
    if device.is_sim() {
        let usage = format!("warpipe ceilings needs a GPU; this is the {}", device.describe());
        return Err(Error::Usage(usage));
    }
    let rounds = args.rounds as usize;
    let config = BenchConfig { rounds, warmup: rounds, seed: args.seed, ..BenchConfig::default() };
    let ceilings = Ceilings::measure(&device, &warpipe::GEMM_IMAGE, &config)?;
    if args.json {
        return say(&serde_json::json!(ceilings).to_string());
    }
    say(&ceilings.machine.to_string())?;
    say(&format!("{:32} {:>9} {:>5} {:>8}", "", "us", "+-%", "rate"))?;
    say(&ceilings.to_string())
}
