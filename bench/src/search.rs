//! A search for the fastest of many plans of one product, bounded in time.
//!
//! Every plan is timed briefly, and those that come near the fastest are timed again, in turn. The search finds what
//! [`Bench::measure`](crate::Bench::measure) of all plans would find, in a fraction of the time.

use super::check::{ResultCheck, check};
use super::measure::Bench;
use super::runs::{OursRuns, Results, TheirRuns, download, dynamic, finalists};
use super::scales::Launch;
use super::screen::brief;
use super::{BenchConfig, Contender, interleave};
use crate::cublaslt::CublasLtPlan;
use crate::error::Error;
use host::Buffer;
use host::gemm::GemmPlan;
use std::time::{Duration, Instant};

/// Settings of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchConfig {
    /// Plans that take at most this many times as long as the fastest are timed again, in turn.
    pub near: f64,
    /// Most plans that are timed again. At least two are.
    pub finalists: usize,
    /// Time for the samples of all of them. Long products have fewer finalists.
    pub in_turn: Duration,
    /// Samples of each of them.
    pub rounds: usize,
    /// Shortest of these samples in microseconds.
    pub sample_us: f64,
    /// Once this has passed, no further plan is timed briefly.
    pub limit: Duration,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self {
            near: 1.3,
            finalists: 24,
            in_turn: Duration::from_secs(1),
            rounds: 5,
            sample_us: 200.0,
            limit: Duration::from_secs(3),
        }
    }
}

impl SearchConfig {
    /// Most finalists of a product whose fastest plan takes `best_us`.
    fn most_finalists(&self, best_us: f64) -> usize {
        // `interleave` launches each five times to choose its settings, and once to warm up.
        let sample = best_us.max(self.sample_us);
        let each = 5.0 * best_us + (self.rounds + 1) as f64 * sample;
        let fit = self.in_turn.as_secs_f64() * 1e6 / each.max(1.0);
        (fit as usize).min(self.finalists).max(2)
    }
}

/// The time of one plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Index of the plan.
    pub plan: usize,
    /// Time of a launch in microseconds.
    pub us: f64,
    /// Whether the plan was timed in turn with the others that come near the fastest.
    pub in_turn: bool,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Search {
    /// The plans that were timed, fastest first: first all that were timed in turn, then the others.
    pub found: Vec<Found>,
    /// Comparison of the fastest plan's result with the f64 product.
    pub check: ResultCheck,
    /// Time of the kernel that cuBLASLt's heuristic proposes first, in microseconds.
    pub cublaslt_us: Option<f64>,
    /// Time of cuBLASLt's fastest kernel.
    pub fastest_us: Option<f64>,
}

impl Bench {
    /// Times plans of one product (without C), and cuBLASLt's if there are `rivals`. The first plan is always
    /// timed in turn with the finalists. The plans should come in the order of their predicted times, because a
    /// later one may find no time.
    ///
    /// All plans write to the same results. The result of the fastest one is compared with the f64 product; the
    /// comparison is returned, not judged.
    ///
    /// # Errors
    /// [`Error::Setting`] without plans; [`host::Error::OutOfBuffer`] for a problem larger than those given to
    /// [`Bench::new`]; [`host::Error::OperandC`] for a plan with C; [`Error::NoScales`] for a plan that needs scales; errors of
    /// the launches.
    pub fn search<E: Launch>(
        &self,
        plans: &[GemmPlan<E>],
        rivals: &[CublasLtPlan],
        config: &SearchConfig,
    ) -> Result<Search, Error> {
        let start = Instant::now();
        let Some(first) = plans.first() else {
            return Err(Error::Setting { what: "plans", value: 0, least: 1 });
        };
        let problem = *first.problem();
        let (device, stream) = (self.device(), self.device().new_stream()?);
        let (sets, scales) = (self.sets(&problem)?, self.scales(&problem)?);
        let scales = scales.as_ref();
        let results = Results::new(device, &problem, 1, sets.len())?;
        let d: &[Buffer] = &results.parts[0];
        let mut times: Vec<(f64, usize, OursRuns<'_, E>)> = Vec::with_capacity(plans.len());
        let mut best = f64::INFINITY;
        for (index, plan) in plans.iter().enumerate() {
            if index > 0 && start.elapsed() > config.limit {
                break;
            }
            let mut runs = OursRuns::new(plan, &sets, scales, d)?;
            let us = brief(&mut runs, sets.len(), config.near * best, &stream)?;
            best = best.min(us);
            times.push((us, index, runs));
        }
        // The first plan stays first, and so among the finalists.
        times[1..].sort_by(|a, b| a.0.total_cmp(&b.0));
        let near = times[1..].iter().take_while(|(us, ..)| *us <= config.near * best).count();
        let others = times.split_off(1 + near.min(config.most_finalists(best) - 1));
        let mut theirs: Vec<TheirRuns<'_>> = finalists(rivals, &sets, d, 1.0, &stream)?;
        let mut contenders: Vec<&mut dyn Contender> =
            times.iter_mut().map(|(_, _, runs)| dynamic(runs)).collect();
        contenders.extend(theirs.iter_mut().map(dynamic));
        let settings = BenchConfig {
            rounds: config.rounds,
            warmup: 1,
            sample_us: config.sample_us,
            ..BenchConfig::default()
        };
        let flops = problem.flops();
        let (timings, ..) = interleave(device, &mut contenders, sets.len(), flops, &settings)?;
        let (ours, rivals) = timings.split_at(times.len());
        let in_turn = |(timing, (_, plan, _)): (&crate::Timing, &(f64, usize, _))| Found {
            plan: *plan,
            us: timing.median_us,
            in_turn: true,
        };
        let mut found: Vec<Found> = ours.iter().zip(&times).map(in_turn).collect();
        found.sort_by(|a, b| a.us.total_cmp(&b.us));
        found.extend(others.iter().map(|&(us, plan, _)| Found { plan, us, in_turn: false }));
        let mut fastest = OursRuns::new(&plans[found[0].plan], &sets, scales, d)?;
        let mut host = vec![0xff; d[0].len()];
        d[0].part(0, d[0].len())?.fill(0xff)?;
        fastest.launch(0, &device.stream())?;
        download(&d[0], &mut host)?;
        let [a, b] = &sets[0];
        Ok(Search {
            found,
            check: check(&problem, a, b, &host)?,
            cublaslt_us: rivals.first().map(|timing| timing.median_us),
            fastest_us: rivals.iter().map(|timing| timing.median_us).min_by(f64::total_cmp),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_products_have_fewer_finalists_but_never_less_than_two() {
        let config = SearchConfig::default();
        let most = |us| config.most_finalists(us);
        assert_eq!((most(5.0), most(1000.0), most(10_000.0), most(1e6)), (24, 24, 9, 2));
        assert_eq!(SearchConfig { finalists: 1, ..config }.most_finalists(5.0), 2);
    }
}
