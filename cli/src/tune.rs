//! `--tune`: finds the fastest instance and schedule of a product by timing many of them in bounded time, and stores it in
//! a file.
//!
//! A file that is not a tune cache is never overwritten.

use super::check::bound_of;
use super::error::Error;
use super::output::Place;
use host::gemm::{Gemm, GemmPlan, GemmProblem, TuneCache, TuneError};
use host::timing::SearchConfig;
use host::{Device, dtype_name};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use warpipe::gpu_kernels::gemm::Epilogue;
use warpipe_bench::Bench;

/// Options of commands that plan products.
#[derive(clap::Args, Debug)]
pub struct TuneArgs {
    /// Time the instances and schedules of the product on the GPU, and store the fastest in the tune cache; a
    /// product that the cache has is not timed again
    #[arg(help_heading = "Tuning", long, requires = "tune_cache")]
    tune: bool,
    /// Use the instance and schedule that this file has for the product, or otherwise the picker's
    #[arg(help_heading = "Tuning", long, value_name = "FILE")]
    tune_cache: Option<PathBuf>,
    /// Seconds that --tune takes for a product, besides the check of the result
    #[arg(help_heading = "Tuning", long, value_name = "SECONDS", requires = "tune", default_value = "2", value_parser = seconds)]
    tune_limit: Duration,
}

/// A duration of 0.01 to 3600 seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected a number of seconds from 0.01 to 3600".to_owned()),
    }
}

/// Plans products with a tune cache.
pub struct Tuner {
    file: PathBuf,
    cache: TuneCache,
    limit: Duration,
    /// The file to write new entries to; `None` without `--tune`.
    place: Option<Place>,
}

impl TuneArgs {
    /// Whether an option is given.
    pub fn any(&self) -> bool {
        self.tune || self.tune_cache.is_some()
    }

    /// Whether products are to be timed.
    pub fn tune(&self) -> bool {
        self.tune
    }
}

impl Tuner {
    /// Reads the file that the options name. Returns `None` if they name none.
    pub fn new(args: &TuneArgs) -> Result<Option<Self>, Error> {
        let Some(file) = args.tune_cache.clone() else { return Ok(None) };
        let cache = read(&file, args.tune)?;
        let place = args.tune.then(|| Place::prepare(&file, &[])).transpose()?;
        Ok(Some(Self { file, cache, limit: args.tune_limit, place }))
    }

    /// Plans a product with the cache's entry, or otherwise with the picker. Returns `None` for a product that is to be timed:
    /// with `--tune`, one without an entry that this program and device have.
    pub fn known<E: Epilogue>(
        &self,
        gemm: &Gemm<E>,
        problem: &GemmProblem,
    ) -> Result<Option<GemmPlan<E>>, Error> {
        let tune = self.place.is_some();
        match gemm.plan_tuned(problem, &self.cache) {
            Err(host::Error::Tune(TuneError::Stale { .. })) if tune => Ok(None),
            Err(host::Error::Tune(source @ TuneError::Stale { .. })) => {
                Err(Error::TuneStale { file: self.file.clone(), source })
            }
            Ok(_) if tune && self.cache.get(&gemm.tune_key(problem)).is_none() => Ok(None),
            plan => Ok(Some(plan?)),
        }
    }

    /// Plans a product with the cache's entry, or by timing (`--tune`), or otherwise with the picker. `tell` prints what
    /// the timing found.
    pub fn plan(
        &mut self,
        device: &Device,
        gemm: &Gemm,
        problem: &GemmProblem,
        bench: Option<&Bench>,
        tell: impl Fn(&str) -> Result<(), Error>,
    ) -> Result<GemmPlan, Error> {
        if let Some(plan) = self.known(gemm, problem)? {
            return Ok(plan);
        }
        if problem.beta_c {
            return Err(Error::Usage("--tune times products without C".to_owned()));
        }
        let tuned =
            gemm.tune(problem, &SearchConfig { limit: self.limit, ..SearchConfig::default() })?;
        let (check, bound) = (check(device, problem, &tuned.plan, bench)?, bound_of(problem));
        if !check.below(bound) {
            let (error, dtype) = (check.error(), dtype_name(problem.out));
            return Err(Error::Check { error, bound, dtype, k: problem.k });
        }
        tell(&tuned.to_string())?;
        self.cache.insert(tuned.entry);
        if let Some(place) = &self.place {
            place.write(self.cache.to_string().as_bytes())?;
        }
        Ok(tuned.plan)
    }
}

/// Compares the result of a plan with the f64 product.
fn check(
    device: &Device,
    problem: &GemmProblem,
    plan: &GemmPlan,
    bench: Option<&Bench>,
) -> Result<warpipe_bench::ResultCheck, Error> {
    match bench {
        Some(bench) => Ok(bench.check(plan)?),
        None => Ok(Bench::new(device, problem.ab, 0, &[*problem])?.check(plan)?),
    }
}

/// Reads the cache in `file`. If there is no file and `may_be_new`, returns an empty cache.
fn read(file: &Path, may_be_new: bool) -> Result<TuneCache, Error> {
    match TuneCache::load(file) {
        Err(TuneError::Open { source, .. })
            if source.kind() == ErrorKind::NotFound && may_be_new =>
        {
            Ok(TuneCache::new())
        }
        cache => Ok(cache.map_err(host::Error::from)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::gemm::{Schedule, TuneEntry};
    use host::{Dtype, SimConfig};
    use std::fs;

    const NAME: &str = "gemm_bf16_bf16_64x64_1x1";

    fn problem(m: u64) -> GemmProblem {
        GemmProblem { m, n: 64, k: 64, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false }
    }

    fn model() -> (Device, Gemm) {
        let device = Device::sim(SimConfig::default());
        let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE).unwrap();
        (device, gemm)
    }

    fn tuner(file: &Path, tune: bool) -> Result<Tuner, Error> {
        let tune_limit = Duration::from_secs(2);
        let args = TuneArgs { tune, tune_cache: Some(file.to_owned()), tune_limit };
        Tuner::new(&args).map(|tuner| tuner.expect("a file was named"))
    }

    #[test]
    fn a_plan_looks_into_the_cache_first() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cache.json");
        let (device, gemm) = model();
        let mut cache = TuneCache::new();
        for (m, instance, clusters) in
            [(512, NAME, 3), (9, "gemm_of_last_year", 1), (10, NAME, 5000)]
        {
            let (key, instance) = (gemm.tune_key(&problem(m)), instance.to_owned());
            let schedule = Schedule { clusters, streamed: 0 };
            cache.insert(TuneEntry { key, instance, schedule, us: 3.5 });
        }
        cache.save(&file).unwrap();
        let mut tuner = tuner(&file, false).unwrap();
        let mut planned = |m, k| {
            let problem = GemmProblem { k, ..problem(m) };
            let plan = tuner.plan(&device, &gemm, &problem, None, |_| Ok(()))?;
            Ok::<_, Error>(plan.describe().kernel.clone().unwrap())
        };
        let kernel = planned(512, 64).unwrap();
        assert_eq!((kernel.name.as_str(), kernel.tiles), (NAME, 8));
        assert_eq!(kernel.schedule().to_string(), "3/0");
        // Another K is another product: the picker's.
        assert!(planned(512, 72).unwrap().why.contains("predicted"));
        let stale = planned(9, 64).unwrap_err().to_string();
        assert!(stale.contains("cache.json: ") && stale.contains("give --tune"), "{stale}");
        assert!(stale.contains("gemm_of_last_year 1/0 for 9x64x64"), "{stale}");
        let stale = planned(10, 64).unwrap_err().to_string();
        assert!(stale.contains("holds 1 to 132 clusters"), "{stale}");
    }

    #[test]
    fn what_is_no_cache_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cache.json");
        let old = r#"{"format": "warpipe tune cache 1", "entries": []}"#;
        for (contents, word) in [("", "EOF"), ("[1, 2]", "invalid"), (old, "name another file")] {
            for tune in [false, true] {
                fs::write(&file, contents).unwrap();
                let said = tuner(&file, tune).err().expect("must be refused").to_string();
                assert!(said.contains("not a tune cache") && said.contains(word), "{said}");
                assert!(!said.contains('\n'), "{said}");
                assert_eq!(fs::read_to_string(&file).unwrap(), contents);
            }
        }
        fs::remove_file(&file).unwrap();
        let said = tuner(&file, false).err().expect("must be refused").to_string();
        assert!(said.contains("cache.json: "), "{said}");
        // Nothing was found yet, so nothing is written.
        assert!(tuner(&file, true).is_ok() && !file.exists());
    }

    #[test]
    fn tuning_needs_a_gpu_and_no_c() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cache.json");
        let (device, gemm) = model();
        let mut tuner = tuner(&file, true).unwrap();
        let mut refused = |problem| {
            let plan = tuner.plan(&device, &gemm, &problem, None, |_| Ok(()));
            plan.err().expect("must be refused").to_string()
        };
        assert_eq!(refused(problem(8)), "tuning needs a GPU; this is the SM model");
        let with_c = GemmProblem { beta_c: true, ..problem(8) };
        assert_eq!(refused(with_c), "--tune times products without C");
        assert!(!file.exists());
    }

    #[test]
    fn a_limit_is_a_number_of_seconds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(["0", "-1", "nan", "inf", "1e9", "x"].iter().all(|text| seconds(text).is_err()));
    }
}
