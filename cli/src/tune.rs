//! `--tune`: finds the fastest instance and schedule of a product by timing many of them in bounded time, and stores it in
//! a file.
//!
//! A file that is not a tune cache is never overwritten.

use super::error::Error;
use super::output::Place;
use host::Stream;
use host::gemm::{BoundGemm, Gemm, GemmPlan, GemmProblem, TuneCache, TuneEntry, TuneError};
use host::timing::SearchConfig;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use warpipe::gpu_kernels::gemm::Epilogue;

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
    /// What the last search found, and the same in words.
    found: Option<(TuneEntry, String)>,
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
        Ok(Some(Self { file, cache, limit: args.tune_limit, place, found: None }))
    }

    /// Plans a product with the cache's entry, or otherwise with the picker. Returns `None` for a product that is to be timed:
    /// with `--tune`, one without an entry that this program and device have.
    fn known<E: Epilogue>(
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

    /// Plans a product with the cache's entry, or by timing (`--tune`), or otherwise with the picker. A search queues its
    /// bound products with `queue`. [`Tuner::keep`] stores what it finds, once the caller has checked a result of the plan.
    pub fn plan<E: Epilogue>(
        &mut self,
        gemm: &Gemm<E>,
        problem: &GemmProblem,
        queue: impl Fn(&BoundGemm<'_, E>, &Stream) -> Result<(), host::Error>,
    ) -> Result<GemmPlan<E>, Error> {
        self.found = None;
        if let Some(plan) = self.known(gemm, problem)? {
            return Ok(plan);
        }
        let config = SearchConfig { limit: self.limit, ..SearchConfig::default() };
        let tuned = gemm.tune_with(problem, &config, queue)?;
        let text = tuned.to_string();
        self.found = Some((tuned.entry, text));
        Ok(tuned.plan)
    }

    /// Whether the last plan is one that a search found.
    pub fn found(&self) -> bool {
        self.found.is_some()
    }

    /// Stores what the last search found, if there was one, and says it in words.
    pub fn keep(&mut self) -> Result<Option<String>, Error> {
        let Some((entry, text)) = self.found.take() else { return Ok(None) };
        self.cache.insert(entry);
        if let Some(place) = &self.place {
            place.write(self.cache.to_string().as_bytes())?;
        }
        Ok(Some(text))
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
mod tests;
