//! Running a kernel under many schedules: drawn, drawn by priority, or all that can differ.

use crate::config::{Config, Stats};
use crate::schedule::plan::{Advance, Home, Schedule};
use crate::walk::tree::Walk;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Which schedules to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// One schedule a seed: even ones as [`Self::Random`], odd ones as [`Self::Pct`] of depth 2 and 3 in
    /// turn. The one varies all that is near by, the other lets a thread wait for long.
    Mixed {
        /// The seeds.
        seeds: Range<u64>,
    },
    /// One schedule a seed, every choice drawn: [`Schedule::random`].
    Random {
        /// The seeds.
        seeds: Range<u64>,
    },
    /// One schedule a seed, by priorities: [`Schedule::pct`]. A bug that needs `depth` steps in one
    /// order is found with a probability that is known, however rare it is under [`Self::Random`].
    Pct {
        /// The seeds.
        seeds: Range<u64>,
        /// Steps that must come in the right order for the bug to show, at least 1.
        depth: u32,
    },
    /// Every schedule that can come out differently, as far as the model knows: which of two steps
    /// comes first matters only if they touch the same barrier or memory.
    Exhaustive {
        /// Runs after which it stops.
        limit: u64,
    },
    /// Every order of all steps that others can notice: only for tests of the reduction.
    #[doc(hidden)]
    Full {
        /// Runs after which it stops.
        limit: u64,
    },
}

/// What an exploration without a finding covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Schedules.
    pub schedules: u64,
    /// All that can differ were among them.
    pub complete: bool,
    /// Runs, with those that turned out to repeat another.
    pub runs: u64,
    /// Instructions of all runs.
    pub steps: u64,
}

/// The first schedule that failed.
#[derive(Clone)]
pub struct Finding<E> {
    /// What it failed with.
    pub error: E,
    /// What [`Config::replay`] takes to run it again.
    pub schedule: String,
    /// Schedules before it.
    pub after: u64,
}

impl<E> Finding<E> {
    /// When it was found, and what finds it again.
    fn found(&self) -> String {
        let when = match self.after {
            0 => "in the first schedule".to_owned(),
            1 => "after one schedule".to_owned(),
            count => format!("after {count} schedules"),
        };
        format!("found {when}; again: {}", self.schedule)
    }
}

impl<E: std::fmt::Display> std::fmt::Display for Finding<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.error.to_string();
        writeln!(f, "{}", text.trim_end())?;
        f.write_str(&self.found())
    }
}

/// As [`std::fmt::Display`], with the error's `Debug`: that of a [`crate::Report`] is its page.
impl<E: std::fmt::Debug> std::fmt::Debug for Finding<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:?}", self.error);
        writeln!(f, "{}", text.trim_end())?;
        f.write_str(&self.found())
    }
}

impl<E: std::fmt::Display + std::fmt::Debug> std::error::Error for Finding<E> {}

/// Runs `run` once for each schedule of the strategy, until one fails. `run` sets up memory, launches
/// with the configuration that it is given, checks the result, and must do the same every time.
///
/// Seeds run side by side over the cores, each launch on one; of several that fail the first is
/// given. Exhaustive schedules run one after the other. Clusters of a launch, and launches of a run,
/// are taken to be independent: each has all its schedules, but not all their products.
///
/// ```
/// use warpipe_sim::{Config, GlobalMemory, Grid, Rule, Strategy, explore, launch, ops};
///
/// // Two threads add one, without an atomic instruction: sometimes one of them is lost. (The race is
/// // found in any schedule; this is about what comes of it.)
/// let config = Config { races: false, ..Config::default() };
/// let found = explore(&config, &Strategy::Exhaustive { limit: 100 }, |config| {
///     let memory = GlobalMemory::new();
///     let sum = memory.alloc(4);
///     let grid = Grid { grid: [1; 3], block: [2, 1, 1], cluster: [1; 3], min_ctas: 1, smem_bytes: 0, name: "sum" };
///     let stats = launch(config, &memory, &grid, &|| {
///         let old: u32 = ops::global::ld(sum as *const u32);
///         ops::global::st(sum as *mut u32, old + 1);
///     })
///     .map_err(|report| report.to_string())?;
///     let mut bytes = [0; 4];
///     memory.read(sum, &mut bytes).unwrap();
///     if u32::from_le_bytes(bytes) == 2 { Ok(stats) } else { Err("one is lost".to_owned()) }
/// });
/// assert_eq!(found.unwrap_err().error, "one is lost");
/// ```
pub fn explore<E: Send>(
    config: &Config,
    strategy: &Strategy,
    run: impl Fn(&Config) -> Result<Stats, E> + Sync,
) -> Result<Explored, Finding<E>> {
    // Schedules share the cores; within one, clusters take turns, and come out the same every time.
    let config = &Config { workers: Some(config.workers.unwrap_or(1)), ..config.clone() };
    match strategy {
        Strategy::Random { seeds } => over_seeds(config, seeds, |_| Schedule::random(), 0, &run),
        Strategy::Mixed { seeds } => mixed(config, seeds, &run),
        Strategy::Pct { seeds, depth } => {
            let steps = length(&random(config, config.seed, &run)?);
            over_seeds(config, seeds, |_| Schedule::pct(*depth, steps), 1, &run)
        }
        Strategy::Exhaustive { limit } => {
            over_tree(config, &Home::new(Walk::Reduced, None), *limit, &run)
        }
        Strategy::Full { limit } => over_tree(config, &Home::new(Walk::Full, None), *limit, &run),
    }
}

/// The first seed is a random one, and says how long a run is.
fn mixed<E: Send>(
    config: &Config,
    seeds: &Range<u64>,
    run: &(impl Fn(&Config) -> Result<Stats, E> + Sync),
) -> Result<Explored, Finding<E>> {
    if seeds.is_empty() {
        return Ok(Explored::default());
    }
    let first = random(config, seeds.start, run)?;
    let steps = length(&first);
    let schedule = |seed: u64| match seed % 4 {
        1 => Schedule::pct(2, steps),
        3 => Schedule::pct(3, steps),
        _ => Schedule::random(),
    };
    let rest = over_seeds(config, &(seeds.start + 1..seeds.end), schedule, 1, run)?;
    Ok(Explored { schedules: rest.schedules + 1, steps: rest.steps + first.steps, ..rest })
}

/// One run of a random schedule.
fn random<E>(
    config: &Config,
    seed: u64,
    run: &impl Fn(&Config) -> Result<Stats, E>,
) -> Result<Stats, Finding<E>> {
    let config = Config { seed, schedule: Schedule::random(), ..config.clone() };
    run(&config).map_err(|error| found(&config, error, 0))
}

/// How long a cluster's run is, which decides where priorities change.
fn length(stats: &Stats) -> u64 {
    stats.steps / stats.clusters.max(1)
}

fn found<E>(config: &Config, error: E, after: u64) -> Finding<E> {
    Finding { error, schedule: config.schedule.with_seed(config.seed), after }
}

fn over_seeds<E: Send>(
    config: &Config,
    seeds: &Range<u64>,
    schedule: impl Fn(u64) -> Schedule + Sync,
    before: u64,
    run: &(impl Fn(&Config) -> Result<Stats, E> + Sync),
) -> Result<Explored, Finding<E>> {
    let next = AtomicU64::new(seeds.start);
    // The first seed that failed: those behind it need not run.
    let end = AtomicU64::new(seeds.end);
    let failed = Mutex::new(None::<(u64, E)>);
    let steps = AtomicU64::new(0);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end.load(Ordering::Relaxed) {
                return;
            }
            let config = Config { seed, schedule: schedule(seed), ..config.clone() };
            match run(&config) {
                Ok(stats) => {
                    steps.fetch_add(stats.steps, Ordering::Relaxed);
                }
                Err(error) => {
                    end.fetch_min(seed, Ordering::Relaxed);
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    if failed.as_ref().is_none_or(|f| seed < f.0) {
                        *failed = Some((seed, error));
                    }
                }
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let workers =
        cores.min(usize::try_from(seeds.end.saturating_sub(seeds.start)).unwrap_or(cores));
    thread::scope(|s| {
        for _ in 0..workers {
            s.spawn(work);
        }
    });
    let runs = seeds.end.saturating_sub(seeds.start);
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => {
            let steps = steps.into_inner();
            Ok(Explored { schedules: runs, complete: false, runs: runs + before, steps })
        }
        Some((seed, error)) => {
            let config = Config { seed, schedule: schedule(seed), ..config.clone() };
            Err(found(&config, error, seed - seeds.start + before))
        }
    }
}

/// Runs one schedule after the other of the trees at `home`.
pub(crate) fn over_tree<E>(
    config: &Config,
    home: &Home,
    limit: u64,
    run: &impl Fn(&Config) -> Result<Stats, E>,
) -> Result<Explored, Finding<E>> {
    let config =
        Config { workers: Some(1), schedule: Schedule::walk(home.clone()), ..config.clone() };
    let mut done = Explored::default();
    while done.runs < limit {
        match run(&config) {
            Ok(stats) => done.steps += stats.steps,
            Err(error) => return Err(found(&config, error, done.schedules)),
        }
        done.runs += 1;
        match home.advance() {
            Advance::Anew => done.schedules = 0,
            Advance::Next { counts } => done.schedules += u64::from(counts),
            Advance::Finished { counts } => {
                done.schedules += u64::from(counts);
                done.complete = true;
                break;
            }
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::Finding;

    #[test]
    fn a_finding_says_when_it_was_found() {
        let text = |after| Finding { error: "late", schedule: "seed:8".into(), after }.to_string();
        assert_eq!(text(0), "late\nfound in the first schedule; again: seed:8");
        assert_eq!(text(1), "late\nfound after one schedule; again: seed:8");
        assert_eq!(text(8), "late\nfound after 8 schedules; again: seed:8");
    }
}
