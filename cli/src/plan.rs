//! `warpipe plan`: the predicted time of every instance and schedule for a product. Needs no device.

use super::args::{operand_dtype, result_dtype};
use super::error::Error;
use super::say;
use host::dtype_name;
use host::gemm::{Candidate, GemmProblem, candidates, pick};
use isa::kernel::Dtype;
use serde::Serialize;
use std::fmt;
use warpipe::gpu_kernels::gemm::INSTANCES;

/// Rows that are shown without `--all`.
const ROWS: usize = 12;

/// Options of `warpipe plan`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Rows of A and D
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u64).range(1..))]
    m: u64,
    /// Rows of B, columns of D
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    n: u64,
    /// Columns of A and B
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    k: u64,
    /// Element type of A and B: bf16 or f16
    #[arg(long, value_parser = operand_dtype, default_value = "bf16")]
    dtype: Dtype,
    /// Element type of the result: bf16, f16 or f32 [default: that of A and B]
    #[arg(long, value_parser = result_dtype, value_name = "DTYPE")]
    out_dtype: Option<Dtype>,
    /// Plan for beta * C, as in `warpipe gemm --beta`
    #[arg(long)]
    with_c: bool,
    /// Streaming multiprocessors of the GPU: 132 of an H100 (SXM) or H200, 114 of an H100 (PCIe)
    #[arg(long, value_name = "SMS", default_value_t = 132, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sms: u32,
    /// Show all candidates instead of the best 12
    #[arg(long)]
    all: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// An instance in a schedule, and its predicted time.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    index: usize,
    tile: [u32; 3],
    ring_stages: u32,
    cluster: [u32; 2],
    threads: u32,
    smem_bytes: u32,
    whole_us: f64,
    run_us: f64,
    epilogues_us: f64,
    /// Utilisation of the clusters.
    filled: f64,
    fetched_bytes: u64,
    /// K tiles that a CTA prefetches while the primary grid still runs.
    prefetch: u32,
    /// Whether the grid is throttled.
    throttled: bool,
    #[serde(flatten)]
    prediction: host::gemm::Prediction,
}

impl Row {
    fn new(candidate: &Candidate<'_>, sms: u32) -> Self {
        let Candidate { index, instance: i, prediction } = *candidate;
        Self {
            name: i.desc.meta.name(),
            index,
            tile: [i.bm, i.bn, i.bk],
            ring_stages: i.stages,
            cluster: [i.cluster_m, i.cluster_n],
            threads: i.desc.meta.threads,
            smem_bytes: i.desc.meta.smem_bytes,
            whole_us: prediction.whole_us(),
            run_us: prediction.run_us(),
            epilogues_us: prediction.epilogues_us(),
            filled: prediction.filled(),
            fetched_bytes: candidate.fetched_bytes(),
            prefetch: prediction.prefetch(sms),
            throttled: prediction.throttled(),
            prediction,
        }
    }

    /// The last column: prefetch and throttle.
    fn besides(&self) -> String {
        let prefetch = (self.prefetch > 0).then(|| format!("prefetch {}", self.prefetch));
        let throttled = self.throttled.then(|| "throttle".into());
        prefetch.into_iter().chain(throttled).collect::<Vec<_>>().join(", ")
    }
}

/// All candidates, best first.
#[derive(Serialize)]
struct Report {
    m: u64,
    n: u64,
    k: u64,
    ab: &'static str,
    out: &'static str,
    with_c: bool,
    sms: u32,
    /// Least memory traffic: A, B, D, and C if there is one.
    bytes: u64,
    /// Number of candidates.
    count: usize,
    candidates: Vec<Row>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Error> {
    let out = args.out_dtype.unwrap_or(args.dtype);
    let Args { m, n, k, sms, .. } = *args;
    let problem = GemmProblem { m, n, k, ab: args.dtype, out, beta_c: args.with_c };
    problem.check()?;
    // Fails with a list of the table's types if no instance has these.
    pick(&INSTANCES, &problem, args.with_c, sms)?;
    let mut all: Vec<Candidate<'_>> = candidates(&INSTANCES, &problem, args.with_c, sms).collect();
    all.sort_by(Candidate::order);
    let shown = if args.all { all.len() } else { ROWS.min(all.len()) };
    let operands = if args.with_c { "ABCD" } else { "ABD" };
    let report = Report {
        m,
        n,
        k,
        ab: dtype_name(args.dtype),
        out: dtype_name(out),
        with_c: args.with_c,
        sms,
        bytes: operands.chars().map(|operand| problem.bytes(operand)).sum(),
        count: all.len(),
        candidates: all[..shown].iter().map(|candidate| Row::new(candidate, sms)).collect(),
    };
    say(&if args.json { serde_json::json!(report).to_string() } else { report.to_string() })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k, ab, out, sms, .. } = self;
        let c = if self.with_c { " + C" } else { "" };
        writeln!(f, "D[{m}, {n}] {out} = A[{m}, {k}] B[{n}, {k}]^T {ab}{c} on {sms} SMs")?;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(f, "{:.1} MiB of operands and result", mib(self.bytes))?;
        let rows = &self.candidates;
        writeln!(
            f,
            "the best {} of {} pairs of instance and schedule; times in us",
            rows.len(),
            self.count
        )?;
        writeln!(
            f,
            "predicted = launch + the longest of {{start + whole tiles + run + epilogues + fix-up, memory, power}}"
        )?;
        writeln!(
            f,
            "{:<28} {:>8} {:>9} {:>6} {:>9} {:>8} {:>9} {:>6} {:>8} {:>8} {:>14} {:>7} {:>8} {:>7} {:>8} {:>10}  besides",
            "instance",
            "schedule",
            "predicted",
            "launch",
            "whole",
            "run",
            "epilogues",
            "fix-up",
            "memory",
            "power",
            "k tiles",
            "tiles",
            "clusters",
            "filled",
            "smem",
            "fetched"
        )?;
        for row in rows {
            let p = &row.prediction;
            writeln!(
                f,
                "{:<28} {:>8} {:>9.2} {:>6.2} {:>9.2} {:>8.2} {:>9.2} {:>6.2} {:>8.2} {:>8.2} {:>14} {:>7} {:>8} {:>6.1}% {:>4} KiB {:>6.0} MiB  {}",
                row.name,
                p.schedule,
                p.predicted_us,
                p.launch_us,
                row.whole_us,
                row.run_us,
                row.epilogues_us,
                p.fixup_us,
                p.memory_us,
                p.power_us,
                format!("{} x {} + {}", p.rounds, p.k_tiles, p.run),
                p.tiles,
                p.cluster_tiles,
                100.0 * row.filled,
                row.smem_bytes / 1024,
                mib(row.fetched_bytes),
                row.besides()
            )?;
        }
        Ok(())
    }
}
