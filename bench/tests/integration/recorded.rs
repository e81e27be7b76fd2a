//! The records in docs/data/records: times of many kernels and schedules for many shapes, on one H200 and on one H100.
#![allow(dead_code, reason = "the examples include this file too, and each program uses a part")]

use flate2::read::GzDecoder;
use gpu_kernels::gemm::{
    BLOCK_SCALED_INSTANCES, FAST_ACCUM_INSTANCES, INSTANCES, Instance, SCALED_INSTANCES,
};
use host::Dtype;
use host::gemm::{Calibration, GemmProblem, HardwareInfo, Schedule, candidates, predict};
use std::collections::HashSet;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use warpipe_bench::ScaleOf;
use warpipe_bench::line::Shape;
use warpipe_bench::record::{FORMAT, Header, Record};

/// The checked-in files of an H200: random shapes, few tiles with a long K, a tall and narrow D, shapes on which the kernels or the
/// pick of a day were slow, and the suites of the benchmark. Those from `suites6` on have at least 80 kernels.
const FILES: [&str; 36] = [
    "random46",
    "random50",
    "random51",
    "random57",
    "random58",
    "corner12",
    "tall13",
    "slow49",
    SUITES,
    BENCHED,
    "suites6",
    "random506",
    "slow701",
    "random702",
    "tall703",
    "slow704",
    "random705",
    "random706",
    "slow707",
    "slow708",
    "random709",
    "random710",
    "slow619",
    "slow620",
    "random711",
    "random712",
    "slow624",
    "random713",
    "slow626",
    "few741",
    "slow731",
    "random744",
    "few745",
    "slow733",
    "random751",
    "random752",
];

/// The one of them with the benchmark's own shapes.
pub const SUITES: &str = "suites";

/// Files of shapes on which the kernels or the pick of a day were slow have this in their names.
const SLOW: &str = "slow";

/// The same shapes, timed by the benchmark in turn with cuBLASLt alone, so that power and heat are those of one kernel. A
/// record has the pairs that were picked on several days, the older ones' times in the scale of cuBLASLt's on the last one.
pub const BENCHED: &str = "suites2";

/// Random shapes of which neither the constants nor the network have seen anything, of both GPUs.
const FRESH: [&str; 5] =
    ["random710", "random711", "h100-random96", "h100-random97", "h100-random98"];

/// The names of the records of kernels for e4m3 begin with this, those of an H100 with [`H100_E4M3`]. Those of suites have [`SUITES`] in their names.
pub const E4M3: &str = "e4m3";
const H100_E4M3: &str = "h100-e4m3";

/// A record, with its file.
pub struct Recorded {
    pub file: String,
    /// All fresh shapes, and every fifth one of the files that are neither of suites nor of slow shapes. The constants of the
    /// predictions are fitted without them, except those of an H100 and for e4m3: these were fitted when every third one was held
    /// out. Slow shapes were chosen because the pick of a day was slow, so they are no sample.
    pub held_out: bool,
    pub header: Arc<Header>,
    pub record: Record,
}

/// What the picker picked for 200 fresh random shapes, timed by the benchmark after the fit. Each record has that pair alone.
pub const PICKS: &str = "picks733";

/// Those of an H100: the suites, random shapes, some on which the kernels of a day were slow (`slow`), and [fresh](is_fresh)
/// ones. Others are of a kind: large products, short K with many results, few rows, and products of 100 us.
const H100_FILES: [&str; 18] = [
    "h100-suites",
    "h100-suites3",
    "h100-suites4",
    "h100-random105",
    "h100-random106",
    "h100-random75",
    "h100-random83",
    "h100-random84",
    "h100-slow81",
    "h100-random96",
    "h100-random97",
    "h100-random98",
    "h100-large311",
    "h100-large402",
    "h100-short501",
    "h100-few502",
    "h100-mid503",
    "h100-slow401",
];

/// 2026-11-28, in seconds since 1970: records since then have the throttle of that day.
const THROTTLED: u64 = 1_795_824_000;

/// All records of many kernels of a GPU.
pub fn read(calibration: &Calibration) -> Result<Vec<Recorded>, Box<dyn Error>> {
    let names = if calibration.gpu == "H100" { &H100_FILES[..] } else { &FILES[..] };
    let files: Result<Vec<_>, _> = names.iter().map(|name| read_file(name)).collect();
    Ok(files?.into_iter().flatten().collect())
}

/// All records of kernels for e4m3 of a GPU: the files of the folder whose names begin with [`E4M3`] or [`H100_E4M3`], as `warpipe bench --record` writes
/// them (`.jsonl`) or packed (`.jsonl.gz`).
pub fn read_e4m3(calibration: &Calibration) -> Result<Vec<Recorded>, Box<dyn Error>> {
    let prefix = if calibration.gpu == "H100" { H100_E4M3 } else { E4M3 };
    let mut names = Vec::new();
    for entry in folder().read_dir()? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        names.extend(
            name.strip_suffix(".jsonl").filter(|n| n.starts_with(prefix)).map(String::from),
        );
    }
    names.sort();
    names.dedup();
    let files: Result<Vec<_>, _> = names.iter().map(|name| read_file(name)).collect();
    Ok(files?.into_iter().flatten().collect())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/data/records")
}

/// The records of a file.
pub fn read_file(file: &str) -> Result<Vec<Recorded>, Box<dyn Error>> {
    let plain = folder().join(format!("{file}.jsonl"));
    let packed = folder().join(format!("{file}.jsonl.gz"));
    let path = if plain.exists() { &plain } else { &packed };
    let open = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let bytes: Box<dyn Read> =
        if *path == plain { Box::new(open) } else { Box::new(GzDecoder::new(open)) };
    let mut lines = BufReader::new(bytes).lines();
    let header: Header = serde_json::from_str(&lines.next().ok_or("an empty file")??)?;
    if header.format != FORMAT {
        return Err(format!("{}: {}, not {FORMAT}", path.display(), header.format).into());
    }
    let header = Arc::new(header);
    let mut all = Vec::new();
    for (i, line) in lines.enumerate() {
        let record: Record = serde_json::from_str(&line?)?;
        if header.unix_time < THROTTLED && ran_apart(&record.shape) {
            continue;
        }
        all.push(Recorded {
            file: file.to_owned(),
            held_out: is_fresh(file) || i % 5 == 4 && !is_of_suites(file) && !file.contains(SLOW),
            header: Arc::clone(&header),
            record,
        });
    }
    Ok(all)
}

/// Until 2026-11-28 the grid throttle let CTAs run apart. In products of these operands, whose rows straddle sectors, most
/// kernels took up to 1.4 times as long.
fn ran_apart(&Shape { m, n, k }: &Shape) -> bool {
    let operands = 2 * (m + n) * k;
    operands > 300_000_000 && !(2 * k).is_multiple_of(32)
}

/// Whether the constants of the predictions have seen nothing of a file: it was recorded after the fit.
pub fn is_fresh(file: &str) -> bool {
    FRESH.contains(&file)
}

/// Whether a file has the shapes of the benchmark's suites.
pub fn is_of_suites(file: &str) -> bool {
    file.contains(SUITES)
}

/// The table that the kernels of a record are of.
pub fn table(header: &Header) -> &'static [Instance] {
    match (header.scales, header.fast_accum) {
        (None, _) => INSTANCES.rows,
        (Some(ScaleOf::Block), _) => BLOCK_SCALED_INSTANCES.rows,
        (Some(_), true) => FAST_ACCUM_INSTANCES.rows,
        (Some(_), false) => SCALED_INSTANCES.rows,
    }
}

fn dtype(name: &str) -> Dtype {
    match name {
        "f16" => Dtype::F16,
        "f32" => Dtype::F32,
        "e4m3" => Dtype::E4m3,
        _ => Dtype::Bf16,
    }
}

/// A shape with the measured pairs of kernel and schedule. Kernels that are not in the table are left out.
pub struct Product {
    pub file: String,
    pub held_out: bool,
    pub shape: Shape,
    pub problem: GemmProblem,
    /// Time of the fastest pair, of all that were timed.
    pub best_us: f64,
    /// Time of the kernel that cuBLASLt's heuristic proposes first, where it took part.
    pub cublaslt_us: Option<f64>,
    /// The pairs among which the picker chooses.
    pub runs: Vec<(&'static Instance, Schedule, f64)>,
}

impl Product {
    pub fn new(recorded: &Recorded) -> Self {
        let Recorded { file, held_out, header, record } = recorded;
        let Shape { m, n, k } = record.shape;
        let prefix = format!("gemm_{}_{}_", header.ab, header.out);
        let of_table = |(kernel, clusters, streamed, us, _): &(String, u32, u32, f64, bool)| {
            let named = |i: &&Instance| {
                i.desc.meta.name().strip_prefix(prefix.as_str()) == Some(kernel.as_str())
            };
            let schedule = Schedule { clusters: *clusters, streamed: *streamed };
            table(header).iter().find(named).map(|instance| (instance, schedule, *us))
        };
        let mut runs: Vec<_> = record.runs.iter().filter_map(of_table).collect();
        let best_us = runs.iter().map(|run| run.2).fold(f64::INFINITY, f64::min);
        let problem =
            GemmProblem { m, n, k, ab: dtype(&header.ab), out: dtype(&header.out), beta_c: false };
        let tried: HashSet<(&str, Schedule)> =
            candidates(table(header), &problem, false, HardwareInfo::h200(132))
                .iter()
                .map(|c| (c.instance.desc.meta.name(), c.prediction.schedule))
                .collect();
        runs.retain(|(instance, schedule, _)| {
            tried.contains(&(instance.desc.meta.name(), *schedule))
        });
        Self {
            file: file.clone(),
            held_out: *held_out,
            shape: record.shape,
            problem,
            cublaslt_us: record.cublaslt_us,
            best_us,
            runs,
        }
    }

    /// Predicted and measured time of each pair.
    pub fn predicted(&self, calibration: &Calibration) -> impl Iterator<Item = (f64, f64)> {
        self.runs.iter().map(|&(instance, schedule, us)| {
            (predict(instance, &self.problem, schedule, 132, calibration).predicted_us, us)
        })
    }
}

/// Geometric mean and least of some ratios, with what the least belongs to.
pub struct Ratios<T> {
    pub count: usize,
    pub mean: f64,
    pub least: (f64, Option<T>),
    /// Ratios below 0.88.
    pub low: usize,
}

impl<T> Ratios<T> {
    pub fn of(ratios: impl IntoIterator<Item = (f64, T)>) -> Self {
        let mut all = Self { count: 0, mean: 0.0, least: (f64::INFINITY, None), low: 0 };
        for (ratio, of) in ratios {
            all.count += 1;
            all.mean += ratio.ln();
            all.low += usize::from(ratio < 0.88);
            if ratio < all.least.0 {
                all.least = (ratio, Some(of));
            }
        }
        all.mean = (all.mean / all.count as f64).exp();
        all
    }
}
