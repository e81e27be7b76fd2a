//! A search for the fastest of many plans of one product, beside cuBLASLt, bounded in time.
//!
//! It finds what [`Bench::measure`](crate::Bench::measure) of all plans would find, in a fraction of the time
//! ([`host::timing::search`]). [`Gemm::tune`](host::gemm::Gemm::tune) does the same without rivals, and makes the plans itself.

use super::Contender;
use super::check::ResultCheck;
use super::measure::Bench;
use super::pool::Operand;
use super::runs::{OursRuns, Results, TheirRuns, dynamic, finalists};
use super::scales::{Launch, ProductScales};
use crate::cublaslt::CublasLtPlan;
use crate::error::Error;
use host::gemm::GemmPlan;
use host::timing::{Found, Samples, SearchConfig, Timer, brief, in_turn, median, search};
use host::{Buffer, Stream};
use std::time::{Duration, Instant};

/// What a search found.
#[derive(Clone, Debug)]
pub struct Search {
    /// The plans that were timed, by their indices, fastest first: first all that were timed in turn, then the others.
    pub found: Vec<Found>,
    /// Comparison of the fastest plan's result with the f64 product.
    pub check: ResultCheck,
    /// Time of the kernel that cuBLASLt's heuristic proposes first, in microseconds.
    pub cublaslt_us: Option<f64>,
    /// Time of cuBLASLt's fastest kernel.
    pub fastest_us: Option<f64>,
}

/// Plans, which are bound once, and the rivals that are timed in turn with the finalists.
struct Race<'r, E> {
    start: Instant,
    stream: Stream,
    plans: &'r [GemmPlan<E>],
    sets: &'r [[Operand<'r>; 2]],
    scales: Option<&'r ProductScales>,
    d: &'r [Buffer],
    runs: Vec<Option<OursRuns<'r, E>>>,
    theirs: Vec<TheirRuns<'r>>,
    /// Times of the rivals.
    their_us: Vec<f64>,
}

impl<E: Launch> Timer<Error> for Race<'_, E> {
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn brief(&mut self, plan: usize, hopeless_us: f64) -> Result<f64, Error> {
        let runs = OursRuns::new(&self.plans[plan], self.sets, self.scales, self.d)?;
        let runs = self.runs[plan].insert(runs);
        let launch = |set: usize, stream: &Stream| runs.launch(set, stream);
        brief(launch, self.sets.len(), hopeless_us, &self.stream)
    }

    fn in_turn(&mut self, plans: &[usize], samples: Samples) -> Result<Vec<f64>, Error> {
        let mut ours: Vec<OursRuns<'_, E>> =
            plans.iter().filter_map(|&plan| self.runs[plan].take()).collect();
        let mut contenders: Vec<&mut dyn Contender> = Vec::new();
        contenders.extend(ours.iter_mut().map(dynamic));
        contenders.extend(self.theirs.iter_mut().map(dynamic));
        let launch = |contender| {
            let contender: &mut dyn Contender = contender;
            move |set: usize, stream: &Stream| contender.launch(set, stream)
        };
        let mut launches: Vec<_> = contenders.into_iter().map(launch).collect();
        let times = in_turn(&mut launches, self.sets.len(), samples, &self.stream)?;
        let mut us: Vec<f64> = times.into_iter().map(median).collect();
        self.their_us = us.split_off(plans.len());
        Ok(us)
    }
}

impl Bench {
    /// Times plans of one product (without C), and cuBLASLt's if there are `rivals` and the finalists are timed in turn. The
    /// first plan is always timed in turn with the finalists. The plans should come in the order of their predicted times,
    /// because a later one may find no time.
    ///
    /// All plans write to the same results. The result of the fastest one is compared with the f64 product; the
    /// comparison is returned, not judged.
    ///
    /// # Errors
    /// [`Error::Setting`] without plans; [`host::Error::OutOfBuffer`] for a problem larger than those given to
    /// [`Bench::new`]; [`host::Error::OperandC`] for a plan with C;
    /// [`host::Error::ScalesOfKernel`] for a plan that needs scales; errors of the launches.
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
        let stream = self.device().new_stream()?;
        let (sets, scales) = (self.sets(&problem)?, self.scales(&problem)?);
        let results = Results::new(self.device(), &problem, 1, sets.len())?;
        let d: &[Buffer] = &results.parts[0];
        let theirs = finalists(rivals, &sets, d, 1.0, &stream)?;
        let runs = plans.iter().map(|_| None).collect();
        let (sets, scales, their_us) = (&sets[..], scales.as_ref(), Vec::new());
        let mut race = Race { start, stream, plans, sets, scales, d, runs, theirs, their_us };
        let found = search(plans.len(), sets.len(), config, &mut race)?;
        Ok(Search {
            check: self.check(&plans[found[0].contender])?,
            found,
            cublaslt_us: race.their_us.first().copied(),
            fastest_us: race.their_us.iter().copied().min_by(f64::total_cmp),
        })
    }
}
