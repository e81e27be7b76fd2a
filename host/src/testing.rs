//! Tests of kernels: a `#[test]` runs a kernel on the SM model under many thread schedules.
//!
//! `docs/testing-a-kernel.md` has a complete example.

pub use sim::{Certificate, Limits, Refusal, Strategy, Trial};

use crate::SimConfig;
use crate::device::Device;
use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Result of a test case. Any error is a failure, and so is a panic.
pub type CaseResult = Result<(), Box<dyn Error + Send + Sync>>;

/// Runs `case` under `seeds` thread schedules, each on a new model, and panics with the report of the
/// first schedule that fails. Every second one lets random threads wait for long
/// ([`Strategy::Mixed`]).
///
/// - `WARPIPE_SEEDS=10000` replaces the number of schedules that the test states.
/// - `WARPIPE_SEED='pct:7:3:900'`, a schedule as the failure prints it, runs only that schedule. A number N alone means
///   `seed:N`, which is another schedule than that of an odd seed here.
///
/// ```
/// warpipe_host::testing::check(20, |model| {
///     let mut buffer = model.upload(&[1, 2, 3])?;
///     buffer.write(&[4, 5, 6])?;
///     assert_eq!(buffer.to_vec()?, [4, 5, 6]);
///     Ok(())
/// });
/// ```
#[track_caller]
pub fn check(seeds: u64, case: impl Fn(&Device) -> CaseResult + Sync) {
    check_with(&Strategy::Mixed { seeds: 0..seeds }, case);
}

/// Runs `case` like [`check`], with the schedules of a strategy: random, by priorities, or exhaustive.
/// `WARPIPE_SEEDS` replaces the number of seeds or the limit.
#[track_caller]
pub fn check_with(strategy: &Strategy, case: impl Fn(&Device) -> CaseResult + Sync) {
    let config = SimConfig::default();
    if let Some(text) = variable("WARPIPE_SEED") {
        let config = replay(&config, &text).unwrap_or_else(|e| panic!("WARPIPE_SEED: {e}"));
        if let Err(error) = run(&config, &case) {
            panic!("{error}\nWARPIPE_SEED={text}");
        }
        return;
    }
    let strategy = match variable("WARPIPE_SEEDS").map(|text| (text.parse(), text)) {
        None => strategy.clone(),
        Some((Ok(count), _)) => widened(strategy, count),
        Some((Err(_), text)) => {
            panic!("WARPIPE_SEEDS={text} is not a number of schedules, for example 1000")
        }
    };
    if let Err(finding) = sim::explore(&config, &strategy, |config| run(config, &case)) {
        panic!("{finding}\nWARPIPE_SEED='{}' repeats it", finding.schedule);
    }
}

/// Certifies a kernel for any number of steps, and panics with the reason if that can't be. `docs/certificates.md`
/// has the argument and its assumptions.
///
/// `case` runs the kernel with [`Trial::steps`] steps and checks the result. With [`Trial::data`] = 1 it
/// uses other data than with 0, so that a kernel whose waits depend on data is refused. It must do the
/// same every time.
///
/// ```no_run
/// # fn launch(model: &warpipe_host::Device, steps: u32, values: &[u8]) -> Result<(), warpipe_host::Error> { Ok(()) }
/// let certificate = warpipe_host::testing::certify(|model, trial| {
///     let values = vec![trial.data as u8; 1024 * trial.steps as usize];
///     launch(model, trial.steps, &values)?;
///     Ok(())
/// });
/// println!("{certificate}");
/// ```
#[track_caller]
pub fn certify(case: impl Fn(&Device, Trial) -> CaseResult + Sync) -> Certificate {
    certify_with(&Limits::default(), case).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// Certifies a kernel like [`certify`], up to the given limits.
///
/// # Errors
/// Why there is no certificate: a schedule that fails, or a kernel that does not fit.
pub fn certify_with(
    limits: &Limits,
    case: impl Fn(&Device, Trial) -> CaseResult + Sync,
) -> Result<Certificate, Refusal<String>> {
    sim::certify(&SimConfig::default(), limits, |config, trial| {
        run(config, &|device: &Device| case(device, trial))
    })
}

/// A configuration that repeats a schedule. `text` is a seed, or a schedule as a finding prints it.
pub fn replay(config: &SimConfig, text: &str) -> Result<SimConfig, sim::ScheduleError> {
    if text.parse::<u64>().is_ok() {
        return config.replay(&format!("seed:{text}"));
    }
    config.replay(text)
}

/// The value of an environment variable, if it is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn widened(strategy: &Strategy, count: u64) -> Strategy {
    match strategy {
        Strategy::Pct { seeds, depth } => {
            Strategy::Pct { seeds: seeds.start..seeds.start + count, depth: *depth }
        }
        Strategy::Random { seeds } => Strategy::Random { seeds: seeds.start..seeds.start + count },
        Strategy::Mixed { seeds } => Strategy::Mixed { seeds: seeds.start..seeds.start + count },
        _ => Strategy::Exhaustive { limit: count },
    }
}

fn run(
    config: &SimConfig,
    case: &(impl Fn(&Device) -> CaseResult + Sync),
) -> Result<sim::Stats, String> {
    let device = Device::sim(config.clone());
    match catch_unwind(AssertUnwindSafe(|| case(&device))) {
        Ok(Ok(())) => Ok(device.model_stats().unwrap_or_default()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(format!("the case panicked: {}", text(&*panic))),
    }
}

fn text(payload: &(dyn Any + Send)) -> String {
    let owned = payload.downcast_ref::<String>().cloned();
    owned.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn every_seed_runs_on_a_fresh_model() {
        let runs = AtomicU64::new(0);
        check(9, |model| {
            runs.fetch_add(1, Ordering::Relaxed);
            assert_eq!(model.model_stats(), Some(sim::Stats::default()));
            Ok(())
        });
        assert_eq!(runs.into_inner(), 9);
    }

    #[test]
    #[should_panic = "seed:4' repeats it"]
    fn the_first_seed_that_fails_is_named() {
        check(20, |model| {
            if model.describe().contains("seed 4") { Err("this one".into()) } else { Ok(()) }
        });
    }

    #[test]
    #[should_panic = "the case panicked: not a number"]
    fn a_panic_is_a_failure() {
        check(2, |_| panic!("not a number"));
    }

    #[test]
    fn a_seed_or_a_schedule() {
        let config = SimConfig::default();
        assert_eq!(replay(&config, "12").unwrap().seed, 12);
        assert_eq!(replay(&config, "pct:5:3:100").unwrap().seed, 5);
        assert!(replay(&config, "x").is_err());
    }
}
