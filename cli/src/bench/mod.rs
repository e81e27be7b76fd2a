//! `warpipe bench`: times products on a GPU, in turn with cuBLASLt.

mod epilogue;
mod grouped;
mod layouts;
mod measure;
mod own;
mod record;
mod roofline;
mod select;
mod types;

use super::args::{DeviceArg, result_dtype};
use super::error::Error;
use super::gemm::open;
use super::operands::check_size;
use super::output::Place;
use super::say;
use super::scaled::ScaleOf;
use super::tensor_file::one_line;
use super::tune::{TuneArgs, Tuner};
use clap::ValueEnum;
use host::dtype_name;
use host::gemm::{GemmProblem, Schedule};
use host::{Device, SimConfig};
use isa::kernel::Dtype;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use warpipe_bench::BenchConfig;
use warpipe_bench::line::{Line, Shape};
use warpipe_bench::report::Report;
use warpipe_bench::suites::Random;

const SHAPES: &str = "Shapes";
const METHOD: &str = "Method";
const OUTPUT: &str = "Output";
/// The file name that means stdout.
const STDOUT: &str = "-";

/// The library to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rival {
    /// NVIDIA's cuBLASLt, loaded at run time
    Cublaslt,
}

/// Times a suite.
type Command = fn(&Args) -> Result<(), Error>;

/// The suites with lines of their own.
const OWN: [(&str, Command); 3] = [
    (layouts::SUITE, layouts::run),
    (grouped::SUITE, grouped::run),
    (epilogue::SUITE, epilogue::run),
];

/// A product, and the suite that it is from.
type Item = (&'static str, GemmProblem);

/// Options of `warpipe bench`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Time these suites. "fp8" has the shapes of llm and decode with operands of e4m3. Three suites have lines of their own:
    /// "layouts" (the four layouts of operands, and batches), "grouped" (groups of rows), "epilogue" (linear layers)
    #[arg(help_heading = SHAPES, long, value_name = "NAME", value_delimiter = ',', value_parser = ["square", "llm", "decode", "ragged", "all", "random", "fp8", "layouts", "grouped", "epilogue"])]
    suite: Vec<String>,
    /// Number of shapes of the suite "random", which is not among "all"
    #[arg(help_heading = SHAPES, long, value_name = "COUNT", default_value_t = Random::default().shapes as u64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    random_shapes: u64,
    /// Seed of the suite "random"
    #[arg(help_heading = SHAPES, long, value_name = "SEED", default_value_t = Random::default().seed)]
    random_seed: u64,
    /// M of the suite "random", log-uniform
    #[arg(help_heading = SHAPES, long, value_name = "LEAST..MOST", default_value = "1..16384", value_parser = select::range)]
    random_m: RangeInclusive<u64>,
    /// N of the suite "random", log-uniform multiples of 8, or of 16 for e4m3
    #[arg(help_heading = SHAPES, long, value_name = "LEAST..MOST", default_value = "128..32768", value_parser = select::range)]
    random_n: RangeInclusive<u64>,
    /// K of the suite "random", log-uniform multiples of 8, or of 16 for e4m3
    #[arg(help_heading = SHAPES, long, value_name = "LEAST..MOST", default_value = "128..32768", value_parser = select::range)]
    random_k: RangeInclusive<u64>,
    /// Time these shapes. With the suite "epilogue": layers of these shapes, with bias and with bias and GELU
    #[arg(help_heading = SHAPES, long, value_name = "MxNxK", value_delimiter = ',')]
    shape: Vec<Shape>,
    /// Rows of A and D of a single shape
    #[arg(help_heading = SHAPES, long, value_name = "M", requires_all = ["n", "k"], conflicts_with_all = ["suite", "shape"])]
    m: Option<u64>,
    /// Rows of B, columns of D
    #[arg(help_heading = SHAPES, long, value_name = "N", requires_all = ["m", "k"])]
    n: Option<u64>,
    /// Columns of A and B
    #[arg(help_heading = SHAPES, long, value_name = "K", requires_all = ["m", "n"])]
    k: Option<u64>,
    /// Keep only the shapes whose "SUITE MxNxK" contains this text
    #[arg(help_heading = SHAPES, long, value_name = "TEXT")]
    only: Option<String>,
    /// Element type of A and B: bf16, f16 or e4m3 [default: bf16, or e4m3 with the suite fp8]
    #[arg(help_heading = SHAPES, long, value_parser = types::dtype)]
    dtype: Option<Dtype>,
    /// Element type of the result: bf16, f16 or f32 [default: that of A and B, or bf16 for e4m3]
    #[arg(help_heading = SHAPES, long, value_parser = result_dtype, value_name = "DTYPE")]
    out_dtype: Option<Dtype>,
    /// What has one scale, for operands of e4m3 [default: tensor]
    #[arg(help_heading = SHAPES, long)]
    scales: Option<ScaleOf>,
    /// The tensor cores keep the sums of e4m3, which are short, instead of adding each 128 of K to f32
    #[arg(help_heading = SHAPES, long)]
    fast_accum: bool,
    /// Time this library in turn with warpipe; if it is missing, warpipe is timed alone
    #[arg(help_heading = METHOD, long, value_name = "LIBRARY")]
    vs: Option<Rival>,
    /// Time this instance instead of the picker's choice: a kernel's name, or the end of one
    #[arg(help_heading = METHOD, long, value_name = "NAME", conflicts_with = "tune_cache")]
    instance: Option<String>,
    /// Time the instance in this schedule instead of the one with the shortest predicted time: number of
    /// clusters, and number of cluster tiles that are split along K
    #[arg(help_heading = METHOD, long, value_name = "CLUSTERS/STREAMED", requires = "instance")]
    schedule: Option<Schedule>,
    /// Time every instance that computes a shape in every schedule that is worth trying, in turn
    #[arg(help_heading = METHOD, long, conflicts_with_all = ["instance", "tune_cache"])]
    all_instances: bool,
    /// Time many instances and schedules of each shape briefly, and write their times to this file, a line of
    /// JSON for each shape: the data for the picker's predictions
    #[arg(help_heading = METHOD, long, value_name = "FILE", conflicts_with_all = ["instance", "all_instances", "tune_cache", "json", "svg", "isolated"])]
    record: Option<PathBuf>,
    /// Most instances and schedules of a shape that --record times: most of them have the shortest predicted
    /// times, the others any
    #[arg(help_heading = METHOD, long, value_name = "COUNT", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    record_plans: u64,
    /// Seconds after which --record begins no further shape
    #[arg(help_heading = METHOD, long, value_name = "SECONDS", default_value_t = 240, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    record_limit: u64,
    /// Time isolated launches too: each after a copy of 64 MiB, so that it overlaps with no other launch
    #[arg(help_heading = METHOD, long)]
    isolated: bool,
    #[command(flatten)]
    tuning: TuneArgs,
    /// Least number of timed samples of each contender
    #[arg(help_heading = METHOD, long, default_value_t = BenchConfig::default().rounds as u64, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rounds: u64,
    /// Milliseconds for all samples of a shape; --rounds takes precedence
    #[arg(help_heading = METHOD, long, value_name = "MS", default_value_t = 400, value_parser = clap::value_parser!(u64).range(0..=600_000))]
    budget: u64,
    /// Seed of the operands
    #[arg(help_heading = METHOD, long, default_value_t = 0)]
    seed: u64,
    /// The GPU: auto, cuda or cuda:N
    #[arg(help_heading = METHOD, long, default_value = "auto")]
    device: DeviceArg,
    /// Write one JSON object to this file; without FILE, to stdout instead of text
    #[arg(help_heading = OUTPUT, long, value_name = "FILE", num_args = 0..=1, default_missing_value = STDOUT)]
    json: Option<PathBuf>,
    /// Print and draw the report of an earlier --json instead of measuring
    #[arg(help_heading = OUTPUT, long, value_name = "FILE", conflicts_with_all = ["suite", "shape", "m", "only", "vs", "instance", "all_instances", "record", "isolated", "tune_cache"])]
    from: Option<PathBuf>,
    /// Draw a roofline (arithmetic intensity against TFLOP/s) into this file
    #[arg(help_heading = OUTPUT, long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Compute ceiling of the roofline [default: the GPU's at its highest clock]
    #[arg(help_heading = OUTPUT, long, value_name = "TFLOPS", requires = "svg", value_parser = positive)]
    peak_tflops: Option<f64>,
    /// Memory ceiling of the roofline in GB/s [default: the measured rate of a copy]
    #[arg(help_heading = OUTPUT, long, value_name = "GBS", requires = "svg", value_parser = positive)]
    peak_gbs: Option<f64>,
}

/// A number above 0.
fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("expected a number above 0".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Error> {
    // Types that do not fit together are reported before anything else.
    args.types()?;
    for (suite, run) in OWN {
        if args.suite.iter().any(|name| name == suite) {
            return run(args);
        }
    }
    let to_stdout = args.json.as_ref().is_some_and(|file| file.as_os_str() == STDOUT);
    let inputs: Vec<&Path> = args.from.iter().map(PathBuf::as_path).collect();
    let prepare = |file: &PathBuf| Place::prepare(file, &inputs);
    let json = args.json.as_ref().filter(|_| !to_stdout).map(prepare).transpose()?;
    let svg = args.svg.as_ref().map(prepare).transpose()?;
    let tell = |text: &str| if to_stdout { Ok(()) } else { say(text) };
    if let Some(file) = &args.record {
        let place = Place::prepare(file, &[])?;
        let (device, items) = prepared(args)?;
        return record::record(args, &device, &items, &place);
    }
    let report = match &args.from {
        Some(file) => {
            let report = read(file)?;
            tell(&report.to_string())?;
            report
        }
        None => measured(args, tell)?,
    };
    for summary in &report.summaries {
        tell(&summary.to_string())?;
    }
    let text = serde_json::json!(report).to_string();
    if to_stdout {
        say(&text)?;
    }
    if let Some(place) = json {
        place.write(text.as_bytes())?;
    }
    if let Some(place) = svg {
        let roof = roofline::Roof::of(&report, args.peak_tflops, args.peak_gbs);
        let drawn = roofline::draw(&report, &roof).map_err(|reason| place.refuse(&reason))?;
        place.write(drawn.as_bytes())?;
    }
    verdict(&report)
}

/// Reads an earlier report.
fn read(file: &Path) -> Result<Report, Error> {
    let text = std::fs::read_to_string(file)
        .map_err(|source| Error::Open { file: file.into(), source })?;
    serde_json::from_str(&text)
        .map_err(|e| Error::NotAReport { file: file.into(), reason: one_line(&e.to_string()) })
}

/// The GPU, and the products that the options select, each with its suite.
fn prepared(args: &Args) -> Result<(Device, Vec<Item>), Error> {
    let (types, items) = (args.types()?, select::select(args)?);
    let items: Vec<_> = items.iter().map(|&(suite, shape)| (suite, types.problem(shape))).collect();
    for (_, problem) in &items {
        check_size(problem)?;
    }
    let device = open(args.device, SimConfig::default())?;
    if device.is_sim() {
        let usage = format!("a benchmark needs a GPU; this is the {}", device.describe());
        return Err(Error::Usage(usage));
    }
    Ok((device, items))
}

/// Measures what the options select.
fn measured(args: &Args, tell: impl Fn(&str) -> Result<(), Error>) -> Result<Report, Error> {
    let tuner = Tuner::new(&args.tuning)?;
    let (device, items) = prepared(args)?;
    measure::measure(args, &device, &items, tuner, tell)
}

/// An error if any result is wrong or differs between runs.
fn verdict(report: &Report) -> Result<(), Error> {
    let wrong = |line: &&Line| !line.runs().all(|run| run.right);
    if let Some(line) = report.lines.iter().find(wrong) {
        let (out, bound) = types::bound_of_line(line);
        let run = line.runs().find(|run| !run.right).unwrap_or(&line.run);
        let (error, dtype) = (run.error, dtype_name(out));
        return Err(Error::Check { error, bound, dtype, k: line.shape.k });
    }
    let differs = |line: &Line| line.runs().find(|run| !run.same_bits).cloned();
    match report.lines.iter().find_map(|line| Some((line.shape, differs(line)?))) {
        Some((shape, run)) => Err(Error::Bits { shape: shape.to_string(), instance: run.name() }),
        None => Ok(()),
    }
}
