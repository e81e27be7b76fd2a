//! `--tune`: finds the fastest instance and schedule of a product by timing all of them, and stores it in
//! a file.
//!
//! A file that is not a tune cache is never overwritten. A tune cache is one JSON object with a line for
//! each product on each kind of GPU. It is replaced as a whole.

use super::check::bound_of;
use super::error::Error;
use super::output::Place;
use super::tensor_file::one_line;
use host::gemm::{Gemm, GemmPlan, GemmProblem, Schedule};
use host::{Device, dtype_name};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use warpipe::gpu_kernels::gemm::Instance;
use warpipe_bench::{Bench, BenchConfig, Launch};

/// Value of the file's first field.
const FORMAT: &str = "warpipe tune cache 1";

/// Options of commands that plan products.
#[derive(clap::Args, Debug, Default)]
pub struct TuneArgs {
    /// Time every instance and schedule for the product on the GPU, and store the fastest in the
    /// tune cache; a product that the cache has is not timed again
    #[arg(help_heading = "Tuning", long, requires = "tune_cache")]
    tune: bool,
    /// Use the instance and schedule that this file has for the product, or otherwise the picker's
    #[arg(help_heading = "Tuning", long, value_name = "FILE")]
    tune_cache: Option<PathBuf>,
}

/// The contents of the file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cache {
    format: String,
    entries: Vec<Entry>,
}

/// A product on a kind of GPU, and its fastest instance and schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    key: Key,
    instance: String,
    schedule: Schedule,
    /// Median time in microseconds when it was tuned.
    us: f64,
}

/// The GPU and product that an entry is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Key {
    gpu: String,
    sms: u32,
    m: u64,
    n: u64,
    k: u64,
    ab: String,
    out: String,
}

impl Key {
    fn new(device: &Device, problem: &GemmProblem) -> Self {
        let GemmProblem { m, n, k, ab, out, .. } = *problem;
        // The model has no times, so no entry ever has this name.
        let gpu = device.info().map_or_else(|| "SM model".to_owned(), |info| info.name.clone());
        let [ab, out] = [ab, out].map(|dtype| dtype_name(dtype).to_owned());
        Self { gpu, sms: device.sms(), m, n, k, ab, out }
    }
}

/// Plans products with a tune cache.
pub struct Tuner {
    file: PathBuf,
    cache: Cache,
    /// The file to write new entries to; `None` without `--tune`.
    place: Option<Place>,
}

impl TuneArgs {
    /// Whether an option is given.
    pub fn any(&self) -> bool {
        self.tune || self.tune_cache.is_some()
    }
}

impl Tuner {
    /// Reads the file that the options name. Returns `None` if they name none.
    pub fn new(args: &TuneArgs) -> Result<Option<Self>, Error> {
        let Some(file) = args.tune_cache.clone() else { return Ok(None) };
        let cache = read(&file, args.tune)?;
        let place = args.tune.then(|| Place::prepare(&file, &[])).transpose()?;
        Ok(Some(Self { file, cache, place }))
    }

    /// Plans a product with the cache's entry, or by timing (`--tune`), or otherwise with the picker.
    pub fn plan<E: Launch>(
        &mut self,
        device: &Device,
        gemm: &Gemm<E>,
        problem: &GemmProblem,
        bench: Option<&mut Bench>,
    ) -> Result<GemmPlan<E>, Error> {
        if problem.beta_c {
            return match self.place {
                None => Ok(gemm.plan(problem)?),
                Some(_) => Err(Error::Usage("--tune times products without C".to_owned())),
            };
        }
        let key = Key::new(device, problem);
        if let Some(entry) = self.cache.entries.iter().find(|entry| entry.key == key) {
            match cached(gemm, problem, entry) {
                Ok(plan) => return Ok(plan),
                Err(reason) if self.place.is_none() => {
                    return Err(Error::TuneStale {
                        file: self.file.clone(),
                        instance: format!("{} {}", entry.instance, entry.schedule),
                        shape: format!("{}x{}x{}", key.m, key.n, key.k),
                        reason,
                    });
                }
                Err(_) => {}
            }
        }
        let Some(place) = &self.place else { return Ok(gemm.plan(problem)?) };
        let (plan, entry) = if let Some(bench) = bench {
            fastest(gemm, problem, key, bench)?
        } else {
            let mut bench = Bench::new(device, problem.ab, 0, &[*problem])?;
            fastest(gemm, problem, key, &mut bench)?
        };
        self.cache.entries.retain(|other| other.key != entry.key);
        self.cache.entries.push(entry);
        place.write(text(&self.cache).as_bytes())?;
        Ok(plan)
    }
}

/// The plan of an entry, or the reason why it cannot be planned.
fn cached<E: Launch>(
    gemm: &Gemm<E>,
    problem: &GemmProblem,
    entry: &Entry,
) -> Result<GemmPlan<E>, String> {
    let named = |i: &Instance| {
        i.desc.meta.name() == entry.instance
            && (i.ab, i.out, i.has_c) == (problem.ab, problem.out, false)
    };
    let index = gemm.instances().iter().position(named);
    let index = index.ok_or("this program has no such kernel")?;
    gemm.plan_scheduled(problem, index, entry.schedule).map_err(|e| e.to_string())
}

/// Times every instance in every schedule and returns the fastest one with a correct result.
fn fastest<E: Launch>(
    gemm: &Gemm<E>,
    problem: &GemmProblem,
    key: Key,
    bench: &mut Bench,
) -> Result<(GemmPlan<E>, Entry), Error> {
    let plans = gemm.plan_every(problem)?;
    let config = BenchConfig { budget_ms: 400.0, ..BenchConfig::default() };
    let measured = bench.measure(&plans, &[], &config)?;
    let bound = bound_of(problem);
    let right = measured.ours.iter().zip(plans).filter(|(ours, _)| ours.check.below(bound));
    let by_time = right.min_by(|(a, _), (b, _)| a.timing.median_us.total_cmp(&b.timing.median_us));
    let Some((ours, plan)) = by_time else {
        let error = measured.ours.first().map_or(f64::NAN, |ours| ours.check.error());
        return Err(Error::Check { error, bound, dtype: dtype_name(problem.out), k: problem.k });
    };
    let Some(kernel) = &plan.describe().kernel else {
        unreachable!("a benchmark has no empty products")
    };
    let (instance, schedule) = (kernel.name.clone(), kernel.schedule());
    Ok((plan, Entry { key, instance, schedule, us: ours.timing.median_us }))
}

/// Reads the cache in `file`. If there is no file and `may_be_new`, returns an empty cache.
fn read(file: &Path, may_be_new: bool) -> Result<Cache, Error> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound && may_be_new => {
            return Ok(Cache { format: FORMAT.to_owned(), entries: Vec::new() });
        }
        Err(source) => return Err(Error::Open { file: file.into(), source }),
    };
    let refuse = |reason: String| Error::NotATuneCache { file: file.into(), reason };
    let cache: Cache = serde_json::from_str(&text).map_err(|e| refuse(one_line(&e.to_string())))?;
    if cache.format != FORMAT {
        let format = one_line(&cache.format.chars().take(40).collect::<String>());
        return Err(refuse(format!("its format is \"{format}\", this program's \"{FORMAT}\"")));
    }
    Ok(cache)
}

/// The file's contents, with one entry per line, so that a diff shows changed entries.
fn text(cache: &Cache) -> String {
    let lines: Vec<String> =
        cache.entries.iter().map(|entry| serde_json::json!(entry).to_string()).collect();
    let format = serde_json::json!(cache.format);
    format!("{{\"format\": {format}, \"entries\": [\n{}\n]}}\n", lines.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::{Dtype, SimConfig};
    use std::fs;

    const NAME: &str = "gemm_bf16_bf16_64x64_1x1";

    fn problem(m: u64) -> GemmProblem {
        GemmProblem { m, n: 64, k: 64, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false }
    }

    fn entry(device: &Device, m: u64, instance: &str, clusters: u32) -> Entry {
        let (key, schedule) = (Key::new(device, &problem(m)), Schedule { clusters, streamed: 0 });
        Entry { key, instance: instance.to_owned(), schedule, us: 3.5 }
    }

    fn tuner(file: &Path, tune: bool) -> Result<Tuner, Error> {
        let args = TuneArgs { tune, tune_cache: Some(file.to_owned()) };
        Tuner::new(&args).map(|tuner| tuner.expect("a file was named"))
    }

    #[test]
    fn a_plan_looks_into_the_cache_first() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cache.json");
        let device = Device::sim(SimConfig::default());
        let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE).unwrap();
        let entries = vec![
            entry(&device, 512, NAME, 3),
            entry(&device, 9, "gemm_of_last_year", 1),
            entry(&device, 10, NAME, 5000),
        ];
        let cache = Cache { format: FORMAT.to_owned(), entries };
        fs::write(&file, text(&cache)).unwrap();
        assert_eq!(read(&file, false).unwrap(), cache);
        let mut tuner = tuner(&file, false).unwrap();
        let mut planned = |m, k| {
            let plan = tuner.plan(&device, &gemm, &GemmProblem { k, ..problem(m) }, None)?;
            Ok::<_, Error>(plan.describe().kernel.clone().unwrap())
        };
        let kernel = planned(512, 64).unwrap();
        assert_eq!((kernel.name.as_str(), kernel.why.as_str()), (NAME, "the caller asked for it"));
        // The picker never tries eight tiles on three CTAs.
        assert_eq!((kernel.tiles, kernel.schedule().to_string().as_str()), (8, "3/0"));
        // Another K is another product: the picker's.
        assert!(planned(512, 72).unwrap().why.contains("predicted"));
        let stale = planned(9, 64).unwrap_err().to_string();
        assert!(stale.contains("gemm_of_last_year 1/0 for 9x64x64"), "{stale}");
        let stale = planned(10, 64).unwrap_err().to_string();
        assert!(
            stale.contains("5000/0 for 10x64x64") && stale.contains("holds 1 to 132 clusters"),
            "{stale}"
        );
    }

    #[test]
    fn another_gpu_or_type_is_another_product() {
        let key = Key::new(&Device::sim(SimConfig::default()), &problem(8));
        let fewer = Device::sim(SimConfig { sms: 7, ..SimConfig::default() });
        assert_ne!(key, Key::new(&fewer, &problem(8)));
        let single = GemmProblem { out: Dtype::F32, ..problem(8) };
        assert_ne!(key, Key::new(&Device::sim(SimConfig::default()), &single));
    }

    #[test]
    fn what_is_no_cache_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cache.json");
        let missing = r#"{"format": "warpipe tune cache 1", "entries": [{"gpu": "H200"}]}"#;
        for (contents, word) in [
            ("", "EOF"),
            ("{\"format\": \"warpipe tune cache 1\", \"entries\": [", "EOF"),
            ("{\"format\": \"warpipe tune cache 2\", \"entries\": []}", "cache 2"),
            ("{\"lines\": []}", "lines"),
            ("[1, 2]", "invalid"),
            (missing, "missing field"),
        ] {
            for tune in [false, true] {
                fs::write(&file, contents).unwrap();
                let said = tuner(&file, tune).err().expect("must be refused").to_string();
                assert!(said.contains("not a tune cache") && said.contains(word), "{said}");
                assert!(!said.contains('\n'), "{said}");
                assert_eq!(fs::read_to_string(&file).unwrap(), contents);
            }
        }
        fs::remove_file(&file).unwrap();
        assert!(matches!(tuner(&file, false), Err(Error::Open { .. })));
        // Nothing was found yet, so nothing is written.
        assert!(tuner(&file, true).is_ok() && !file.exists());
    }

    #[test]
    fn tuning_needs_a_gpu_and_no_c() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cache.json");
        let device = Device::sim(SimConfig::default());
        let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE).unwrap();
        let mut tuner = tuner(&file, true).unwrap();
        let mut refused = |problem| {
            tuner.plan(&device, &gemm, &problem, None).err().expect("must be refused").to_string()
        };
        assert_eq!(refused(problem(8)), "a benchmark needs a GPU; this is the SM model");
        let with_c = GemmProblem { beta_c: true, ..problem(8) };
        assert_eq!(refused(with_c), "--tune times products without C");
        assert!(!file.exists());
    }
}
