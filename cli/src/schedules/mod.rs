//! `warpipe check`: runs a kernel on the SM model under many thread schedules and compares every result.

mod array;
pub mod attention;
mod certify;
pub mod examples;
mod family;
pub mod gemm;
mod sm100;
mod tables;

use super::args::{LayoutArg, finite};
use super::attention::shape::{BatchArgs, ShapeArgs};
use super::check::Judged;
use super::error::Error;
use super::family::FamilyArgs;
use super::progress::Progress;
use super::say;
use super::strided;
use clap::ValueEnum;
use host::SimConfig;
use host::gemm::Schedule;
use host::sim::{Explored, Finding, Report, Stats, Strategy, explore};
use isa::kernel::Dtype;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

/// Kind of kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The GEMM kernels
    Gemm,
    /// The attention kernels
    Attention,
    /// An example kernel, by its name
    Example,
}

/// What a step of the GEMM or of attention is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Steps {
    /// The k tiles of a tile of D, or the blocks of keys of a tile of queries
    K,
    /// The tiles of one CTA
    Tiles,
}

/// Options of `warpipe check`.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools)] // Options that do not depend on each other.
pub struct Args {
    /// What to check
    #[arg(value_enum, default_value = "gemm")]
    what: What,
    /// Name of the example; without one, all of them
    name: Option<String>,
    /// Number of schedules, one for each seed: random ones and, every second time, ones by priorities
    /// (PCT) of depth 2 or 3
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Schedule only by random priorities of threads and copies that change DEPTH - 1 times (PCT)
    #[arg(long, value_name = "DEPTH", conflicts_with = "exhaustive", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pct: Option<u32>,
    /// Run every schedule that can differ in its outcome
    #[arg(long, conflicts_with = "seeds")]
    exhaustive: bool,
    /// Runs after which --exhaustive stops
    #[arg(long, default_value_t = 10_000, value_name = "N", requires = "exhaustive", value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Certify the kernel for any number of steps, or say why that cannot be
    #[arg(long, conflicts_with_all = ["seeds", "pct", "exhaustive", "seed", "m", "schedule"])]
    certify: bool,
    /// Steps up to which --certify looks for a period
    #[arg(long, default_value_t = 128, value_name = "N", requires = "certify", value_parser = clap::value_parser!(u32).range(16..=4096))]
    max_steps: u32,
    /// What --certify counts as a step: k tiles of a tile (for attention, blocks of keys), or tiles of a CTA [default:
    /// both]
    #[arg(long, value_enum, requires = "certify")]
    steps: Option<Steps>,
    /// Run only this schedule: a seed, or the schedule that a finding prints
    #[arg(long, value_name = "SCHEDULE", conflicts_with_all = ["seeds", "pct", "exhaustive"])]
    seed: Option<String>,
    /// Rows of A and D [default, as for N and K: a shape with partial tiles]
    #[arg(long, value_name = "M", requires_all = ["n", "k"])]
    m: Option<u64>,
    /// Rows of B, columns of D
    #[arg(long, value_name = "N", requires = "k")]
    n: Option<u64>,
    /// Columns of A and B
    #[arg(long, value_name = "K", requires = "n")]
    k: Option<u64>,
    /// Add C, times X
    #[arg(long, value_parser = finite, allow_hyphen_values = true, value_name = "X")]
    beta: Option<f32>,
    /// Check this instance instead of the picker's: a kernel's name, or the end of one, in the table of the family that the
    /// options name. Those for Blackwell begin with gemm_sm100_
    #[arg(long, value_name = "NAME", conflicts_with = "all_instances")]
    instance: Option<String>,
    /// Check every instance of the table, or those of --dtype, --out-dtype and --beta, each with a shape that has partial tiles
    /// in every dimension
    #[arg(long)]
    all_instances: bool,
    /// Check this GEMM schedule instead of all that are worth trying: number of clusters, and number
    /// of cluster tiles that are split along K
    #[arg(long, value_name = "CLUSTERS/STREAMED", conflicts_with = "all_instances")]
    schedule: Option<Schedule>,
    /// Check the kernels for pointer arrays, with problems of these sizes: "M N K" on each line, as `gemm --problems`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["m", "n", "k", "beta", "schedule", "groups", "epilogue", "scales", "fast_accum", "dtype", "out_dtype", "layout", "batch", "column_major", "certify"])]
    problems: Option<PathBuf>,
    #[command(flatten)]
    family: FamilyArgs,
    /// How A and B lie in memory, as BLAS says it: tn is A [M, K] and B [N, K], tt is A [M, K] and B [K, N], nn is A [K, M]
    /// and B [N, K], nt is A [K, M] and B [K, N]. For attention, the order of the dimensions: bshd or bhsd
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<LayoutArg>,
    /// Number of products, each with matrices of its own; for attention, of sequences
    #[arg(long, value_name = "COUNT")]
    batch: Option<u32>,
    /// All products of the batch share one B
    #[arg(long, requires = "batch")]
    broadcast_b: bool,
    /// D lies in memory as [N, M]
    #[arg(long)]
    column_major: bool,
    #[command(flatten)]
    attention: ShapeArgs,
    /// Write the results to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Why a schedule failed.
#[derive(Debug)]
pub enum Failure {
    /// A report of the model.
    Report(Box<Report>),
    /// A wrong result, or a run that could not start.
    Other(String),
}

impl From<host::Error> for Failure {
    fn from(e: host::Error) -> Self {
        match e {
            host::Error::Model(report) => Self::Report(report),
            other => Self::Other(other.to_string()),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Report(report) => report.fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// A kernel with its data.
pub trait Case: Sync {
    /// Kernel and shape, for messages.
    fn name(&self) -> String;
    /// Runs the kernel once and compares the result.
    fn run(&self, config: &SimConfig) -> Result<Stats, Failure>;
}

/// A result that matched the f64 product. Later results with the same bits need no comparison.
#[derive(Default)]
struct Good(OnceLock<Vec<u8>>);

impl Good {
    /// Refuses a result that `judge` does not let pass. Nothing is compared with an empty one.
    fn accept<E: Into<Failure>>(
        &self,
        name: &str,
        d: Vec<u8>,
        judge: impl FnOnce(&[u8]) -> Result<Option<Judged>, E>,
    ) -> Result<(), Failure> {
        if self.0.get() == Some(&d) {
            return Ok(());
        }
        let judged = judge(&d).map_err(Into::into)?;
        if let Some(Judged { check, bound, passed: false }) = judged {
            let wrong = format!("{name}: wrong result: {check}, bound {bound:.0e}");
            return Err(Failure::Other(wrong));
        }
        // Another thread may have stored its result first; both are correct.
        let _ = self.0.set(d);
        Ok(())
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        match e {
            Error::Host(e) => e.into(),
            other => Self::Other(other.to_string()),
        }
    }
}

impl Args {
    /// The size of the product, if it is given.
    fn size(&self) -> Result<Option<[u64; 3]>, Error> {
        let Some((n, k)) = self.n.zip(self.k) else { return Ok(None) };
        match (self.m, &self.family.groups) {
            (Some(m), _) => Ok(Some([m, n, k])),
            // The groups say the rows.
            (None, Some(_)) => Ok(Some([1, n, k])),
            (None, None) => {
                Err(Error::Usage(format!("--n {n} and --k {k}: give --m, the rows of A, as well")))
            }
        }
    }

    /// The layouts and the batch of the GEMM.
    fn strided(&self) -> Result<strided::Options, Error> {
        let Self { batch, broadcast_b, column_major, .. } = *self;
        let layout = match self.layout {
            None => None,
            Some(LayoutArg::Gemm(layout)) => Some(layout),
            Some(LayoutArg::Attention(_)) => {
                let usage = "--layout bshd and bhsd are of attention; give tn, tt, nn or nt";
                return Err(Error::Usage(usage.to_owned()));
            }
        };
        Ok(strided::Options { layout, batch: batch.map(u64::from), broadcast_b, column_major })
    }

    /// The options of attention.
    fn attention(&self) -> Result<ShapeArgs, Error> {
        let layout = match self.layout {
            None => None,
            Some(LayoutArg::Attention(layout)) => Some(layout),
            Some(LayoutArg::Gemm(layout)) => {
                let usage = format!("--layout {layout} is of the GEMM; give bshd or bhsd");
                return Err(Error::Usage(usage));
            }
        };
        Ok(self.attention.in_order(BatchArgs { batch: self.batch, layout }))
    }

    /// The element type of attention.
    fn half(&self) -> Result<Dtype, Error> {
        let types = self.family.types();
        let half = matches!(types.a, Dtype::Bf16 | Dtype::F16);
        if half && !self.family.any() {
            return Ok(types.a);
        }
        let usage = "attention is of bf16 or f16, and has no scales, epilogue and groups of products: give --dtype bf16 or f16";
        Err(Error::Usage(usage.to_owned()))
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Error> {
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    if args.what != What::Example && args.name.is_some() {
        return usage("only an example has a name; give --instance NAME to choose a kernel");
    }
    if args.what != What::Gemm && args.problems.is_some() {
        return usage("--problems is an option of `check gemm`; omit it");
    }
    if args.what != What::Attention && args.attention.any() {
        return usage("--heads, --causal and the like are options of `check attention`; omit them");
    }
    let of_gemm = args.n.is_some()
        || args.beta.is_some()
        || args.family.out_dtype.is_some()
        || args.broadcast_b
        || args.column_major;
    if args.what == What::Attention && (of_gemm || args.schedule.is_some()) {
        return usage(
            "attention has no --m, --n, --k, --beta, --out-dtype, --schedule, --broadcast-b and --column-major; omit them",
        );
    }
    match args.what {
        What::Attention => {
            args.half()?;
            args.attention()?;
        }
        What::Gemm => drop(args.strided()?),
        What::Example if args.batch.is_some() || args.layout.is_some() => {
            return usage("an example has no --batch and --layout; omit them");
        }
        What::Example => {}
    }
    let sized = args.attention.any() || args.batch.is_some() || args.layout.is_some();
    if args.certify && args.what == What::Attention && sized {
        return usage("--certify has its own shapes; omit the options of attention");
    }
    let shaped = args.n.is_some()
        || args.schedule.is_some()
        || args.instance.is_some()
        || args.all_instances;
    if args.what == What::Example && (shaped || of_gemm || args.family.any()) {
        return usage("an example has its own shapes; omit the options of the GEMM");
    }
    if args.what == What::Example && args.steps.is_some() {
        return usage("an example has one kind of steps, its panels; omit --steps");
    }
    if args.certify {
        return certify::run(args);
    }
    let config = SimConfig::default();
    let replay = args.seed.as_deref().map(|text| host::testing::replay(&config, text));
    let replay = replay.transpose().map_err(|e| Error::Usage(e.to_string()))?;
    let cases: Vec<Box<dyn Case>> = match (args.what, &args.problems) {
        (What::Gemm, Some(problems)) => array::cases(args, problems)?,
        (What::Gemm, None) if sm100::is(args.instance.as_deref()) => sm100::cases(args)?,
        (What::Gemm, None) => gemm::cases(args)?,
        (What::Attention, _) => attention::cases(args)?,
        (What::Example, _) => examples::cases(args.name.as_deref())?,
    };
    let mut results = Vec::new();
    let mut verdict = Ok(());
    for case in &cases {
        let (json, outcome) = one(args, &config, replay.as_ref(), case.as_ref())?;
        results.push(json);
        if outcome.is_err() {
            verdict = outcome;
            break;
        }
    }
    write_json(args, results)?;
    verdict
}

/// Writes the results to the file of the options, if there is one.
fn write_json(args: &Args, results: Vec<Value>) -> Result<(), Error> {
    let Some(file) = &args.json else { return Ok(()) };
    let text = Value::Array(results).to_string();
    std::fs::write(file, text)
        .map_err(|e| Error::Output { file: file.clone(), reason: e.to_string() })
}

/// Checks one case. Returns its JSON and the verdict.
fn one(
    args: &Args,
    config: &SimConfig,
    replay: Option<&SimConfig>,
    case: &dyn Case,
) -> Result<(Value, Result<(), Error>), Error> {
    let start = Instant::now();
    let name = case.name();
    let strategy = strategy(args);
    let progress = Progress::new(match &strategy {
        Strategy::Exhaustive { limit } => *limit,
        _ if replay.is_some() => 1,
        _ => args.seeds,
    });
    let run = |config: &SimConfig| progress.step(&name, || case.run(config));
    let result = match replay {
        Some(config) => replayed(config, args.seed.as_deref().unwrap_or_default(), run),
        None => explore(config, &strategy, run),
    };
    drop(progress);
    let seconds = start.elapsed().as_secs_f64();
    match result {
        Ok(done) => {
            say(&format!("{name}: {}, no finding ({seconds:.1} s)", covered(&done)))?;
            let json = json!({
                "case": name, "schedules": done.schedules, "complete": done.complete,
                "runs": done.runs, "steps": done.steps, "seconds": seconds, "finding": null,
            });
            Ok((json, Ok(())))
        }
        Err(Finding { error, schedule, after }) => {
            say(&error.to_string())?;
            let report = match &error {
                Failure::Report(report) => json!(report),
                Failure::Other(text) => json!({ "message": text }),
            };
            let json = json!({
                "case": name, "schedules": after, "complete": false, "seconds": seconds,
                "schedule": schedule, "finding": report,
            });
            Ok((json, Err(Error::Finding { case: name, after, schedule })))
        }
    }
}

fn strategy(args: &Args) -> Strategy {
    let seeds = 0..args.seeds;
    match (args.exhaustive, args.pct) {
        (true, _) => Strategy::Exhaustive { limit: args.limit },
        (false, Some(depth)) => Strategy::Pct { seeds, depth },
        (false, None) => Strategy::Mixed { seeds },
    }
}

fn replayed(
    config: &SimConfig,
    schedule: &str,
    run: impl Fn(&SimConfig) -> Result<Stats, Failure>,
) -> Result<Explored, Finding<Failure>> {
    let one =
        |stats: Stats| Explored { schedules: 1, complete: false, runs: 1, steps: stats.steps };
    let failed = |error| Finding { error, schedule: schedule.to_owned(), after: 0 };
    run(config).map(one).map_err(failed)
}

/// Describes the schedules that were run.
fn covered(done: &Explored) -> String {
    match (done.complete, done.schedules) {
        (true, 1) => "1 schedule, and no other can differ".to_owned(),
        (true, n) => format!("all {n} schedules that can differ"),
        (false, 1) => "1 schedule".to_owned(),
        (false, n) => format!("{n} schedules"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::reference::Check;
    use host::sim::{GlobalMemory, Grid, Rule, launch, ops};

    #[test]
    fn a_result_is_judged_once_and_a_wrong_one_is_refused() {
        let judged = |passed: bool| {
            let [relative_error, max_abs_error] = [0.5; 2];
            let check =
                Check { relative_error, max_abs_error, compared: 1, elements: 1, sampled: false };
            move |_: &[u8]| Ok::<_, host::Error>(Some(Judged { check, bound: 4e-3, passed }))
        };
        let good = Good::default();
        let wrong = good.accept("a kernel", vec![1], judged(false)).unwrap_err().to_string();
        assert!(wrong.starts_with("a kernel: wrong result: relative"), "{wrong}");
        assert!(wrong.ends_with("bound 4e-3") && good.0.get().is_none(), "{wrong}");
        good.accept("a kernel", vec![2], judged(true)).unwrap();
        // The same bits are not compared again; others are.
        good.accept("a kernel", vec![2], judged(false)).unwrap();
        assert!(good.accept("a kernel", vec![3], judged(false)).is_err());
    }

    /// A kernel of two clusters that fails if the second one comes first.
    struct InTurn;

    impl Case for InTurn {
        fn name(&self) -> String {
            "in turn".to_owned()
        }
        fn run(&self, config: &SimConfig) -> Result<Stats, Failure> {
            let memory = GlobalMemory::new();
            let next = memory.alloc(4);
            let one = [1; 3];
            let grid = Grid {
                grid: [2, 1, 1],
                block: one,
                cluster: one,
                min_ctas: 1,
                smem_bytes: 0,
                name: "turns",
            };
            let kernel = || {
                let ticket = ops::global::atomic_add_u32(next as *mut u32, 1);
                assert_eq!(ticket, ops::thread::block_idx_x(), "not in turn");
            };
            launch(config, &memory, &grid, &kernel).map_err(Failure::Report)
        }
    }

    #[derive(clap::Parser)]
    struct TestLine {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_finding_names_its_schedule_and_can_be_repeated() {
        for options in [&["--seeds", "50"][..], &["--seeds", "50", "--pct", "2"]] {
            let line = ["check", "example"].iter().chain(options);
            let args = <TestLine as clap::Parser>::parse_from(line).args;
            let config = SimConfig::default();
            let (json, verdict) = one(&args, &config, None, &InTurn).unwrap();
            let Err(Error::Finding { case, schedule, .. }) = verdict else { panic!("{json}") };
            assert_eq!((case.as_str(), json["schedule"].as_str()), ("in turn", Some(&*schedule)));
            assert_eq!(json["finding"]["rule"], Rule::Panic.code(), "{json}");
            // `--seed` repeats the schedule.
            let again = host::testing::replay(&config, &schedule).unwrap();
            let args = Args { seed: Some(schedule.clone()), ..args };
            let (repeated, verdict) = one(&args, &config, Some(&again), &InTurn).unwrap();
            assert!(verdict.is_err(), "{schedule}");
            assert_eq!(json["finding"], repeated["finding"], "to the letter");
        }
    }
}
