//! The pairs of kernel and schedule of a product as contenders of a search on a GPU.

use super::scratch::Scratch;
use crate::error::Error;
use crate::gemm::Gemm;
use crate::gemm::plan::GemmPlan;
use crate::gemm::problem::GemmProblem;
use crate::gemm::run::BoundGemm;
use crate::gemm::schedule::Schedule;
use crate::stream::Stream;
use crate::timing::{Samples, Timer, brief, in_turn, median};
use gpu_kernels::gemm::Epilogue;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Most threads that assemble kernels. Each finishes a kernel that it has begun, even if the driver lets only one of them work
/// at a time.
const THREADS: usize = 4;

/// Times pairs of kernel and schedule. Plans are made when they are timed, and dropped after that, so that only
/// the finalists have workspaces at the same time.
pub(super) struct Race<'t, E, R> {
    pub gemm: &'t Gemm<E>,
    pub problem: &'t GemmProblem,
    /// Rows of the table, and schedules. The first is the picker's choice.
    pub pairs: &'t [(usize, Schedule)],
    pub scratch: &'t Scratch,
    pub stream: Stream,
    pub start: Instant,
    /// Queues a bound product.
    pub run: R,
}

impl<E: Epilogue, R: Fn(&BoundGemm<'_, E>, &Stream) -> Result<(), Error>> Race<'_, E, R> {
    /// The plan of a pair.
    pub fn plan(&self, contender: usize) -> Result<GemmPlan<E>, Error> {
        let (index, schedule) = self.pairs[contender];
        self.gemm.plan_scheduled(self.problem, index, schedule)
    }

    /// The result of a plan, or parts of it.
    pub fn result(&self, plan: &GemmPlan<E>) -> Result<Vec<u8>, Error> {
        self.scratch.result(plan, &self.run, &self.stream)
    }
}

impl<E: Epilogue, R: Fn(&BoundGemm<'_, E>, &Stream) -> Result<(), Error>> Timer<Error>
    for Race<'_, E, R>
{
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn brief(&mut self, contender: usize, hopeless_us: f64) -> Result<f64, Error> {
        let plan = match self.plan(contender) {
            // The prediction only estimates how many clusters the device holds.
            Err(Error::BadSchedule { .. } | Error::LaunchCluster { .. }) if contender > 0 => {
                return Ok(f64::INFINITY);
            }
            plan => plan?,
        };
        let bound = self.scratch.bind(&plan)?;
        let launch = |set: usize, stream: &Stream| (self.run)(&bound[set], stream);
        brief(launch, self.scratch.len(), hopeless_us, &self.stream)
    }

    fn in_turn(&mut self, contenders: &[usize], samples: Samples) -> Result<Vec<f64>, Error> {
        let plans = contenders.iter().map(|&contender| self.plan(contender));
        let plans: Vec<GemmPlan<E>> = plans.collect::<Result<_, _>>()?;
        let mut launches = Vec::with_capacity(plans.len());
        for plan in &plans {
            let bound = self.scratch.bind(plan)?;
            let run = &self.run;
            launches.push(move |set: usize, stream: &Stream| run(&bound[set], stream));
        }
        let times = in_turn(&mut launches, self.scratch.len(), samples, &self.stream)?;
        Ok(times.into_iter().map(median).collect())
    }
}

impl<E: Epilogue> Gemm<E> {
    /// Assembles the kernels of these pairs on several threads, in their order. None is begun when `limit` has passed since
    /// `start`. A kernel that the driver can't assemble is reported when it is planned.
    pub(super) fn assemble(&self, pairs: &[(usize, Schedule)], start: Instant, limit: Duration) {
        let mut seen = HashSet::new();
        let rows: Vec<usize> =
            pairs.iter().map(|(row, _)| *row).filter(|row| seen.insert(*row)).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while start.elapsed() < limit
                && let Some(&row) = rows.get(next.fetch_add(1, Ordering::Relaxed))
            {
                let _ = self.module.preload(&[self.instances[row].desc]);
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        thread::scope(|scope| {
            for _ in 1..threads.min(rows.len()) {
                scope.spawn(work);
            }
            work();
        });
    }
}
