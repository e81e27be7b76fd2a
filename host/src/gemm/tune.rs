//! Tuning: times the kernels and schedules of a product on the GPU, in bounded time, and plans with what was found before.
//!
//! A search has operands and results of its own. It times the picker's choice first, then the others in the order of their
//! predicted times ([`search`]). The result of the fastest is compared with that of the picker's choice.

mod cache;
mod error;
mod race;
mod scratch;

pub use cache::{TuneCache, TuneEntry, TuneKey};
pub use error::TuneError;

use super::Gemm;
use super::plan::GemmPlan;
use super::predict::{Candidate, candidates};
use super::problem::GemmProblem;
use super::run::BoundGemm;
use super::schedule::{Schedule, fits};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::nvml::driver_version;
use crate::stream::Stream;
use crate::tensor_error::{dtype_name, pair_name};
use crate::timing::{SearchConfig, search};
use gpu_kernels::gemm::{Epilogue, Instance, Linear};
use race::Race;
use scratch::{Scratch, difference};
use std::fmt;
use std::time::{Duration, Instant};

/// What a search found.
pub struct Tuned<E = Linear> {
    /// The fastest plan whose result is right.
    pub plan: GemmPlan<E>,
    /// The same for a [`TuneCache`], with the plan's time.
    pub entry: TuneEntry,
    /// Time of the picker's choice in microseconds. It was measured in turn with the fastest plan, so it is never shorter.
    pub picked_us: f64,
    /// Pairs of kernel and schedule that were timed.
    pub timed: usize,
    /// Pairs that are worth timing.
    pub pairs: usize,
    /// Duration of the search.
    pub elapsed: Duration,
    /// Faster pairs that were left out because their results differ from the picker's choice's, in words. Each is a bug.
    pub wrong: Vec<String>,
}

impl<E> Tuned<E> {
    /// How many times as fast as the picker's choice the plan is: at least 1.
    pub fn speedup(&self) -> f64 {
        self.picked_us / self.entry.us
    }
}

/// One line, and one for each pair whose result is wrong.
impl<E> fmt::Display for Tuned<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry: TuneEntry { instance, schedule, us, .. }, timed, pairs, .. } = self;
        let (seconds, picked, faster) =
            (self.elapsed.as_secs_f64(), self.picked_us, self.speedup());
        write!(f, "timed {timed} of {pairs} pairs of kernel and schedule in {seconds:.2} s: ")?;
        write!(f, "{instance} {schedule} takes {us:.2} us, the picker's choice {picked:.2} us ")?;
        write!(f, "({faster:.3} times as fast)")?;
        self.wrong.iter().try_for_each(|wrong| write!(f, "\nleft out: {wrong}"))
    }
}

impl Gemm {
    /// Finds the fastest kernel and schedule of a product on this GPU by timing, within `config.limit`.
    ///
    /// The search has operands and results of its own: together about twice as large as the L2 cache, or one set of them if
    /// that is larger. The plan that it returns is never slower than the picker's choice in the same measurement. It waits
    /// for its launches, for `config.limit` and the launch that was begun then. Work of others on the GPU disturbs the times.
    /// The first search of a process also assembles kernels, in the same time; the driver keeps them on disk.
    ///
    /// ```no_run
    /// use warpipe_host::gemm::{Gemm, GemmProblem, TuneCache};
    /// use warpipe_host::timing::SearchConfig;
    /// # fn f(gemm: &Gemm, problem: &GemmProblem) -> Result<(), warpipe_host::Error> {
    /// let mut cache = TuneCache::load("tuned.json").unwrap_or_default();
    /// if cache.get(&gemm.tune_key(problem)).is_none() {
    ///     let tuned = gemm.tune(problem, &SearchConfig::default())?;
    ///     println!("{tuned}");
    ///     cache.insert(tuned.entry);
    ///     cache.save("tuned.json").map_err(warpipe_host::Error::from)?;
    /// }
    /// let plan = gemm.plan_tuned(problem, &cache)?;
    /// # let _ = plan;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotOnModel`] on the SM model; [`TuneError::Empty`]; [`Error::OutOfMemory`]; the errors of [`Gemm::plan`] and
    /// of the launches.
    pub fn tune(&self, problem: &GemmProblem, config: &SearchConfig) -> Result<Tuned, Error> {
        let beta = if problem.beta_c { 1.0 } else { 0.0 };
        self.tune_with(problem, config, |bound, stream| bound.run(1.0, beta, stream))
    }
}

impl<E: Epilogue> Gemm<E> {
    /// [`Gemm::tune`] for kernels with any epilogue. `run` queues a bound product, with arguments that `run` owns.
    ///
    /// ```no_run
    /// # use warpipe_host::{Device, Error, gemm::{GemmProblem, OperandScales, ScaledGemm}};
    /// # use warpipe_host::timing::SearchConfig;
    /// # fn f(device: &Device, gemm: &ScaledGemm, problem: &GemmProblem) -> Result<(), Error> {
    /// let one = device.upload(&1f32.to_ne_bytes())?;
    /// let tuned = gemm.tune_with(problem, &SearchConfig::default(), |bound, stream| {
    ///     bound.run_scaled(OperandScales { a: &one, b: &one }, 1.0, stream)
    /// })?;
    /// # let _ = tuned;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Gemm::tune`] and of `run`.
    pub fn tune_with(
        &self,
        problem: &GemmProblem,
        config: &SearchConfig,
        run: impl Fn(&BoundGemm<'_, E>, &Stream) -> Result<(), Error>,
    ) -> Result<Tuned<E>, Error> {
        let start = Instant::now();
        let info = self.device.info().ok_or(Error::NotOnModel { what: "tuning" })?;
        problem.check()?;
        let GemmProblem { m, n, k, .. } = *problem;
        if [m, n, k].contains(&0) {
            return Err(TuneError::Empty { m, n, k }.into());
        }
        let picked = self.plan(problem)?;
        let Some(kernel) = picked.describe().kernel.as_ref() else {
            return Err(TuneError::Empty { m, n, k }.into());
        };
        let pairs = self.pairs(problem, (kernel.index, kernel.schedule()));
        drop(picked);
        let scratch = Scratch::new::<E>(&self.device, problem, info.l2_bytes)?;
        let stream = self.device.new_stream()?;
        self.assemble(&pairs, start, config.limit / 2);
        let mut race =
            Race { gemm: self, problem, pairs: &pairs, scratch: &scratch, stream, start, run };
        let found = search(pairs.len(), scratch.len(), config, &mut race)?;
        let picked_us = found.iter().find(|f| f.contender == 0).map_or(f64::NAN, |f| f.us);
        let (mut expected, mut wrong) = (None, Vec::new());
        for fast in &found {
            let plan = race.plan(fast.contender)?;
            let Some(kernel) = plan.describe().kernel.as_ref() else { continue };
            let (instance, schedule) = (kernel.name.clone(), kernel.schedule());
            if fast.contender > 0 {
                let expected = match &mut expected {
                    Some(expected) => expected,
                    none => none.insert(race.result(&race.plan(0)?)?),
                };
                let types = [problem.ab, problem.out];
                if let Some(what) = difference(expected, &race.result(&plan)?, types, k)? {
                    wrong.push(format!("{instance} {schedule} for {m}x{n}x{k}: {what}"));
                    continue;
                }
            }
            let elapsed = start.elapsed();
            let why = format!(
                "the fastest of {} pairs that were timed, {:.2} us; the picker's choice takes {picked_us:.2} us",
                found.len(),
                fast.us
            );
            let entry = TuneEntry { key: self.tune_key(problem), instance, schedule, us: fast.us };
            let (timed, pairs, plan) = (found.len(), pairs.len(), plan.because(why));
            return Ok(Tuned { plan, entry, picked_us, timed, pairs, elapsed, wrong });
        }
        unreachable!("the picker's choice is timed first, and its result is the expected one")
    }

    /// The pairs of kernel and schedule that are worth timing: the picker's choice, then the others by predicted time.
    fn pairs(&self, problem: &GemmProblem, picked: (usize, Schedule)) -> Vec<(usize, Schedule)> {
        let mut all = candidates(self.instances, problem, problem.beta_c, self.hardware);
        all.sort_by(Candidate::order);
        let others = all.iter().map(|c| (c.index, c.prediction.schedule));
        std::iter::once(picked).chain(others.filter(|pair| *pair != picked)).collect()
    }

    /// What a [`TuneCache`] knows a product by: this device, its driver, the sizes, the types and the family of the kernels.
    pub fn tune_key(&self, problem: &GemmProblem) -> TuneKey {
        let (gpu, driver) = match self.device.info() {
            Some(info) => (info.name.as_str(), driver_version().unwrap_or("unknown")),
            None => ("SM model", "none"),
        };
        let GemmProblem { m, n, k, ab, out, beta_c: c } = *problem;
        let row = self.instances.iter().find(|i| fits(i, problem, c));
        TuneKey {
            gpu: gpu.to_owned(),
            driver: driver.to_owned(),
            sms: self.device.sms(),
            m,
            n,
            k,
            ab: pair_name(ab, row.map_or(ab, |i| i.b)).to_owned(),
            out: dtype_name(out).to_owned(),
            c,
            kernels: row.map_or_else(String::new, family),
        }
    }

    /// The row of the table and the schedule that a cache has for a product; `None` if it has none.
    ///
    /// # Errors
    /// [`TuneError::Stale`] if this program has no such kernel.
    pub fn tuned(
        &self,
        problem: &GemmProblem,
        cache: &TuneCache,
    ) -> Result<Option<(usize, Schedule)>, Error> {
        // The key needs the driver's version, for which a library is loaded.
        if cache.entries().is_empty() {
            return Ok(None);
        }
        let Some(entry) = cache.get(&self.tune_key(problem)) else { return Ok(None) };
        let named =
            |i: &Instance| i.desc.meta.name() == entry.instance && fits(i, problem, problem.beta_c);
        match self.instances.iter().position(named) {
            Some(index) => Ok(Some((index, entry.schedule))),
            None => Err(stale(entry, "this program has no such kernel".to_owned()).into()),
        }
    }

    /// Plans a product with the kernel and schedule that `cache` has for it, or else with the picker's choice.
    ///
    /// # Errors
    /// [`TuneError::Stale`] for an entry with a kernel that this program has not, or with a schedule that this device does not
    /// hold; the errors of [`Gemm::plan`].
    pub fn plan_tuned(
        &self,
        problem: &GemmProblem,
        cache: &TuneCache,
    ) -> Result<GemmPlan<E>, Error> {
        self.plan_tuned_in(problem, cache, |bytes| self.device.alloc_zeroed(bytes))
    }

    /// [`Gemm::plan_tuned`] with memory as for [`Gemm::plan_in`].
    ///
    /// # Errors
    /// The errors of [`Gemm::plan_tuned`] and of [`Gemm::plan_in`].
    pub fn plan_tuned_in(
        &self,
        problem: &GemmProblem,
        cache: &TuneCache,
        alloc: impl FnMut(usize) -> Result<Buffer, Error>,
    ) -> Result<GemmPlan<E>, Error> {
        let Some((index, schedule)) = self.tuned(problem, cache)? else {
            return self.plan_in(problem, alloc);
        };
        let plan = self.plan_in_with(problem, Some((index, Some(schedule))), alloc);
        let entry = cache.get(&self.tune_key(problem));
        match (plan, entry) {
            (Ok(plan), Some(entry)) => {
                let why = format!("the tune cache has it, with {:.2} us", entry.us);
                Ok(plan.because(why))
            }
            (Err(e @ Error::BadSchedule { .. }), Some(entry)) => {
                Err(stale(entry, e.to_string()).into())
            }
            (plan, _) => plan,
        }
    }
}

fn stale(entry: &TuneEntry, reason: String) -> TuneError {
    let TuneKey { m, n, k, .. } = entry.key;
    let instance = format!("{} {}", entry.instance, entry.schedule);
    TuneError::Stale { instance, shape: format!("{m}x{n}x{k}"), reason }
}

/// What the kernels of a row's table have in common: the part of its name before the tile, and how their sums are scaled.
fn family(row: &Instance) -> String {
    let name = row.desc.meta.name();
    let tile = |at: &(usize, &str)| {
        let digits = at.1.find('x').unwrap_or(0);
        digits > 0 && at.1[..digits].bytes().all(|b| b.is_ascii_digit())
    };
    let parts = name.split('_').scan(0, |end, part| {
        let start = *end;
        *end += part.len() + 1;
        Some((start, part))
    });
    let before = parts.into_iter().find(tile).map_or(name, |(at, _)| &name[..at.saturating_sub(1)]);
    let sums = match (row.scale_granularity, row.promotes) {
        (Some(_), _) => ", block scaled",
        (None, true) => ", promoted",
        (None, false) => "",
    };
    format!("{before}{sums}")
}

#[cfg(test)]
mod tests;
