//! `warpipe plan`: the predicted time of every instance and schedule for a product. Needs no GPU.

use super::error::Error;
use super::family::{FamilyArgs, refuse_with_layouts};
use super::grouped::Groups;
use super::layer::Epilogue;
use super::{say, strided};
use host::gemm::{Candidate, Gemm, GemmProblem, HardwareInfo, Order, candidates, pick};
use host::{Device, SimConfig, dtype_name, pair_name};
use isa::kernel::Dtype;
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// Rows that are shown without `--all`.
const ROWS: usize = 12;

/// Options of `warpipe plan`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Rows of A and D; --groups says them otherwise
    #[arg(long, value_name = "M", required_unless_present = "groups", value_parser = clap::value_parser!(u64).range(1..))]
    m: Option<u64>,
    /// Rows of B, columns of D
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    n: u64,
    /// Columns of A and B
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    k: u64,
    #[command(flatten)]
    family: FamilyArgs,
    #[command(flatten)]
    layouts: strided::Options,
    /// Plan for beta * C, as in `warpipe gemm --beta`
    #[arg(long, conflicts_with = "groups")]
    with_c: bool,
    /// Streaming multiprocessors of the GPU: 132 of an H100 (SXM) or H200, 114 of an H100 (PCIe)
    #[arg(long, value_name = "SMS", default_value_t = 132, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sms: u32,
    /// GPU whose measured times and rates the predictions use
    #[arg(long, value_name = "GPU", default_value = "h200")]
    gpu: Gpu,
    /// Show all candidates instead of the best 12
    #[arg(long)]
    all: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The GPUs that were measured.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Gpu {
    H100,
    H200,
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
    /// Whether a plan takes this row.
    picked: bool,
    #[serde(flatten)]
    prediction: host::gemm::Prediction,
}

impl Row {
    /// `grouped` is for kernels of groups, which neither prefetch nor throttle.
    fn new(candidate: &Candidate<'_>, sms: u32, picked: bool, grouped: bool) -> Self {
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
            prefetch: if grouped { 0 } else { prediction.prefetch(sms) },
            throttled: !grouped && prediction.throttled(),
            picked,
            prediction,
        }
    }

    /// The last column: the pick, what the comparison with the other rows made of its time, prefetch and throttle.
    fn besides(&self) -> String {
        let picked = self.picked.then(|| "picked".into());
        let prefetch = (self.prefetch > 0).then(|| format!("prefetch {}", self.prefetch));
        let throttled = self.throttled.then(|| "throttle".into());
        let percent = 100.0 * (self.prediction.correction - 1.0);
        let compared = (percent.abs() >= 0.05).then(|| format!("compared {percent:+.1} %"));
        picked
            .into_iter()
            .chain(compared)
            .chain(prefetch)
            .chain(throttled)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// The kernels of the family that can compute the product.
struct Listed {
    /// The product in words.
    product: String,
    /// Types of A and B, and of D.
    types: [&'static str; 2],
    /// Rows of A and D, of all groups.
    m: u64,
    bytes: u64,
    /// What the predictions leave out.
    note: Option<&'static str>,
    candidates: Vec<Candidate<'static>>,
    /// The row of the table that a plan takes.
    picked: usize,
}

const FITTED: &str = "the constants of the predictions were fitted to kernels of bf16 and of e4m3: there are none of these types";
const STACKED: &str =
    "the predictions are those of a product of K-major matrices with as many tiles";
const MEAN: &str = "the predictions are those of groups that all have the mean number of rows";

/// All candidates, best first.
#[derive(Serialize)]
struct Report {
    #[serde(skip)]
    product: String,
    m: u64,
    n: u64,
    k: u64,
    ab: &'static str,
    out: &'static str,
    with_c: bool,
    sms: u32,
    /// The GPU whose times and rates the predictions use.
    gpu: &'static str,
    /// Least memory traffic: A, B, D, and C if there is one.
    bytes: u64,
    note: Option<&'static str>,
    /// Number of candidates.
    count: usize,
    candidates: Vec<Row>,
}

impl Args {
    /// What the predictions know of the GPU.
    fn hardware(&self) -> HardwareInfo {
        match self.gpu {
            Gpu::H100 => HardwareInfo::h100(self.sms),
            Gpu::H200 => HardwareInfo::h200(self.sms),
        }
    }

    /// A product of row-major matrices, with any epilogue.
    fn matrices(&self, device: &Device, m: u64) -> Result<Listed, Error> {
        let Self { n, k, with_c, .. } = *self;
        let hardware = self.hardware();
        let problem = self.family.problem([m, n, k], with_c)?;
        problem.check()?;
        let gated = self.family.epilogue.as_ref().is_some_and(Epilogue::gated);
        let GemmProblem { ab, out, beta_c, .. } = problem;
        let rows = self.family.kernels(device, &problem)?.rows();
        // Fails with a list of the table's types if no instance has these.
        let picked = pick(rows, &problem, beta_c, hardware)?.index;
        // There are constants of 16-bit operands, and of e4m3 without C and with results that are not quantised.
        let (types, columns) = (self.family.types(), if gated { n / 2 } else { n });
        let fitted = match ab {
            Dtype::Bf16 | Dtype::F16 => true,
            Dtype::E4m3 => types.b == Dtype::E4m3 && out != Dtype::E4m3 && !beta_c,
            _ => false,
        };
        let types = [pair_name(types.a, types.b), dtype_name(out)];
        let c = if beta_c { " + C" } else { "" };
        let epilogue = self.family.epilogue.as_ref().map(|e| format!(", {e}")).unwrap_or_default();
        let [of_ab, of_out] = types;
        let operands = if beta_c { "ABC" } else { "AB" };
        let of_c = |bytes: u64| if gated { bytes / 2 } else { bytes };
        let bytes: u64 = operands.chars().map(|operand| problem.bytes(operand)).sum();
        Ok(Listed {
            product: format!(
                "D[{m}, {columns}] {of_out} = A[{m}, {k}] B[{n}, {k}]^T {of_ab}{c}{epilogue}"
            ),
            types,
            m,
            bytes: bytes + of_c(problem.bytes('D')),
            note: (!fitted).then_some(FITTED),
            candidates: candidates(rows, &problem, beta_c, hardware),
            picked,
        })
    }

    /// A batch of products, or one with layouts.
    fn strided(&self, device: &Device, m: u64) -> Result<Listed, Error> {
        refuse_with_layouts(&[("--with-c", self.with_c)])?;
        let (problem, broadcast_b) =
            self.family.strided_problem(&self.layouts, [m, self.n, self.k])?;
        let gemm = Gemm::strided(device, &warpipe::GEMM_IMAGE)?.with_hardware(self.hardware());
        let candidates = gemm.candidates(&problem)?;
        let picked = candidates.iter().min_by(|a, b| a.order(b)).map_or(0, |best| best.index);
        let b = problem.bytes('B') / if broadcast_b { problem.batch.max(1) } else { 1 };
        let (batch, n, k, dtype) = (problem.batch, self.n, self.k, dtype_name(problem.dtype));
        let order = match problem.order {
            Order::RowMajor => "row-major",
            Order::ColumnMajor => "column-major",
        };
        Ok(Listed {
            product: format!(
                "D[{batch}, {m}, {n}] {order} = A[{batch}, {m}, {k}] B[{batch}, {n}, {k}]^T {dtype}, layout {}",
                problem.layout
            ),
            types: [dtype; 2],
            m,
            bytes: problem.bytes('A') + b + problem.bytes('D'),
            note: Some(STACKED),
            candidates,
            picked,
        })
    }

    /// A product whose rows are in groups.
    fn grouped(&self, device: &Device, file: &Path) -> Result<Listed, Error> {
        let (n, k) = (self.n, self.k);
        let groups = Groups::read(file, self.family.masked, [n, k])?;
        let problem = &groups.problem;
        let gemm = Gemm::grouped(device, &warpipe::GEMM_IMAGE)?.with_hardware(self.hardware());
        let plan = gemm.plan(problem)?;
        let Some(kernel) = &plan.describe().kernel else {
            let (file, count) = (file.display(), problem.groups);
            return Err(Error::Usage(format!("{file}: {count} groups without rows: D is empty")));
        };
        let (m, count, dtype) = (problem.total_rows(), problem.groups, dtype_name(problem.dtype));
        Ok(Listed {
            product: format!(
                "D[{m}, {n}] = A[{m}, {k}] B[{count}, {n}, {k}]^T {dtype}, {count} groups"
            ),
            types: [dtype; 2],
            m,
            bytes: ['A', 'B', 'D'].map(|operand| problem.bytes(operand)).iter().sum(),
            note: Some(MEAN),
            candidates: gemm.candidates(problem)?,
            picked: kernel.index,
        })
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Error> {
    let Args { n, k, sms, with_c, .. } = *args;
    let device = Device::sim(SimConfig { sms, ..SimConfig::default() });
    let listed = match (&args.family.groups, args.m) {
        (Some(file), _) => args.grouped(&device, file)?,
        (None, Some(m)) if args.layouts.any() => args.strided(&device, m)?,
        (None, m) => args.matrices(&device, m.unwrap_or(1))?,
    };
    let Listed { product, types: [ab, out], m, bytes, note, candidates: mut all, picked } = listed;
    all.sort_by(Candidate::order);
    let shown = if args.all { all.len() } else { ROWS.min(all.len()) };
    // A plan takes the picked kernel in the first of its schedules.
    let pick = all.iter().position(|candidate| candidate.index == picked);
    let grouped = args.family.groups.is_some();
    let row = |(at, candidate)| Row::new(candidate, sms, Some(at) == pick, grouped);
    let report = Report {
        product,
        m,
        n,
        k,
        ab,
        out,
        with_c,
        sms,
        gpu: args.hardware().calibration.gpu,
        bytes,
        note,
        count: all.len(),
        candidates: all[..shown].iter().enumerate().map(row).collect(),
    };
    say(&if args.json { serde_json::json!(report).to_string() } else { report.to_string() })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { product, sms, gpu, .. } = self;
        writeln!(f, "{product} on {sms} SMs, with the times and rates of an {gpu}")?;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(f, "{:.1} MiB of operands and result", mib(self.bytes))?;
        if let Some(note) = self.note {
            writeln!(f, "{note}")?;
        }
        let rows = &self.candidates;
        writeln!(
            f,
            "the best {} of {} pairs of instance and schedule; times in us",
            rows.len(),
            self.count
        )?;
        writeln!(
            f,
            "predicted = (launch + the longest of {{start + whole tiles + run + epilogues + fix-up, memory, power}}) x compared"
        )?;
        writeln!(
            f,
            "{:<32} {:>8} {:>9} {:>6} {:>9} {:>8} {:>9} {:>6} {:>8} {:>8} {:>14} {:>7} {:>8} {:>7} {:>8} {:>10}  besides",
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
