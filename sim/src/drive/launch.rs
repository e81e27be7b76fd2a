//! A launch: clusters over OS threads.

use super::run::{Entry, Outcome, Running};
use super::stack::Stacks;
use super::{current, panics};
use crate::config::{Config, Stats};
use crate::finding::report::Report;
use crate::finding::rule::Rule;
use crate::memory::global::GlobalMemory;
use crate::race::global::GlobalShadow;
use crate::schedule::turns::{self, Runner, Turn, Turns};
use crate::types::grid::Grid;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Instructions of a turn after which a cluster gives way to others, whatever it does.
const LONG: u64 = 1 << 24;

/// What the workers of a launch share.
struct Shared<'a> {
    config: &'a Config,
    memory: &'a GlobalMemory,
    /// Who accessed what in global memory, if races are looked for.
    shadow: Option<Arc<GlobalShadow>>,
    grid: &'a Grid<'a>,
    entry: Entry<'a>,
    /// The clusters, as they are taken up.
    starts: Vec<u32>,
    /// Number of this launch in its run.
    number: u32,
    next: AtomicU32,
    failed: AtomicBool,
    /// Workers that have nothing but clusters that poll global memory.
    waiting: AtomicUsize,
    workers: AtomicUsize,
    result: Mutex<(Stats, Option<Box<Report>>)>,
}

/// A cluster that a worker has taken up.
struct UnderWay<'a> {
    cluster: Running<'a>,
    index: u32,
    rank: u64,
    /// Writes to global memory before it last found nothing new there.
    polled: Option<u64>,
    /// It need not wait for a write, but gave way to others.
    awake: bool,
}

/// Runs a kernel: each thread of the grid calls `entry`.
///
/// Each cluster is deterministic by the seed: the same seed gives the same steps. The order of the
/// clusters is drawn from it as well; but they run side by side on `config.workers` OS threads, so
/// kernels whose clusters talk through global memory are deterministic with one worker only. The
/// first rule that is broken ends the launch; of several clusters' findings at the same time, that
/// of the first cluster is reported.
pub fn launch(
    config: &Config,
    memory: &GlobalMemory,
    grid: &Grid<'_>,
    entry: &(dyn Fn() + Sync),
) -> Result<Stats, Box<Report>> {
    if let Err(message) = grid.check() {
        return Err(Box::new(refused(grid, config, message)));
    }
    assert!(!current::inside(), "a launch inside a simulated thread");
    panics::install(current::inside);
    let clusters: u32 = grid.clusters().iter().product();
    if let Some(progress) = &config.progress {
        progress.start(clusters);
    }
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let workers = config.workers.unwrap_or_else(cores).clamp(1, clusters as usize);
    let shared = Shared {
        config,
        memory,
        shadow: config.races.then(Arc::default),
        grid,
        entry,
        starts: turns::starts(clusters, config.seed, &config.schedule),
        number: config.schedule.launch(),
        next: AtomicU32::new(0),
        failed: AtomicBool::new(false),
        waiting: AtomicUsize::new(0),
        workers: AtomicUsize::new(workers),
        result: Mutex::new((Stats::default(), None)),
    };
    // Always threads of its own: a stack that had to be abandoned in the middle of an unwind leaves
    // its OS thread counted as panicking.
    thread::scope(|s| {
        for worker in 0..workers {
            let shared = &shared;
            s.spawn(move || shared.work(worker));
        }
    });
    let (stats, report) = shared.result.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.map_or(Ok(stats), Err)
}

impl Shared<'_> {
    /// Takes the next cluster up.
    fn start(&self) -> Option<UnderWay<'_>> {
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        let index = *self.starts.get(nth as usize)?;
        let place = (self.number, index);
        let shadow = self.shadow.as_ref();
        let cluster = Running::new(self.config, self.memory, shadow, self.grid, self.entry, place);
        Some(UnderWay { cluster, index, rank: u64::from(nth), polled: None, awake: false })
    }

    /// One worker: clusters take turns until there are none. One that polls global memory waits
    /// until somebody writes, so that the one it waits for can run.
    fn work(&self, worker: usize) {
        let mut stacks = Stacks::new(self.config.stack_bytes);
        let clusters = self.starts.len() as u32;
        let mut turns = Turns::new(self.config.seed, &self.config.schedule, clusters, worker);
        let mut under_way: Vec<UnderWay<'_>> = Vec::new();
        let mut stats = Stats::default();
        while !self.failed.load(Ordering::Relaxed) {
            let writes = self.memory.writes();
            let runner =
                |u: &UnderWay<'_>| Runner { rank: u.rank, waits: u.polled == Some(writes) };
            let runners: Vec<Runner> = under_way.iter().map(runner).collect();
            let more = self.next.load(Ordering::Relaxed) < clusters;
            let at = match turns.next(&runners, more) {
                Turn::Resume(at) => at,
                Turn::Start => {
                    under_way.extend(self.start());
                    continue;
                }
                Turn::Nobody if under_way.is_empty() => break,
                Turn::Nobody => {
                    if self.stuck(writes)
                        && !revive(&mut under_way)
                        && let Some(first) = under_way.iter_mut().min_by_key(|u| u.index)
                    {
                        let report = first.cluster.fail(&mut stacks);
                        self.fail(report);
                    }
                    continue;
                }
            };
            let one = &mut under_way[at];
            let before = one.cluster.steps();
            let length = turns.length();
            let outcome = one.cluster.run(&mut stacks, length.min(LONG));
            let cut = matches!(outcome, Outcome::Cut) && length <= LONG;
            one.rank = turns.over(one.cluster.steps() - before, cut).unwrap_or(one.rank);
            match outcome {
                Outcome::Cut if cut => one.polled = None,
                Outcome::Polling => (one.polled, one.awake) = (Some(writes), false),
                Outcome::Cut | Outcome::GaveWay => (one.polled, one.awake) = (Some(writes), true),
                Outcome::Finished(s) => {
                    if let Some(progress) = &self.config.progress {
                        progress.finish_one();
                    }
                    stats.add(&s);
                    under_way.swap_remove(at);
                }
                Outcome::Failed(report) => self.fail(report),
            }
        }
        self.workers.fetch_sub(1, Ordering::AcqRel);
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        result.0.add(&stats);
    }

    /// Waits until a kernel writes to global memory; true if none ever will, because every worker
    /// waits.
    fn stuck(&self, writes: u64) -> bool {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let mut quiet = 0;
        while self.memory.writes() == writes && !self.failed.load(Ordering::Relaxed) && quiet < 20 {
            let all = self.workers.load(Ordering::Acquire);
            if all == 1 {
                // Who else could write?
                quiet = 20;
                continue;
            }
            thread::sleep(Duration::from_millis(1));
            quiet = if self.waiting.load(Ordering::Acquire) == all { quiet + 1 } else { 0 };
        }
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        quiet == 20 && self.memory.writes() == writes
    }

    fn fail(&self, report: Box<Report>) {
        self.failed.store(true, Ordering::Relaxed);
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        if result.1.as_ref().is_none_or(|r| report.cluster < r.cluster) {
            result.1 = Some(report);
        }
    }
}

/// All clusters of a worker wait: those that gave way to others go on, if there are any.
fn revive(under_way: &mut [UnderWay<'_>]) -> bool {
    let mut any = false;
    for one in under_way.iter_mut().filter(|one| one.awake) {
        (one.polled, one.awake, any) = (None, false, true);
    }
    any
}

/// The report of a launch that no GPU would take.
fn refused(grid: &Grid<'_>, config: &Config, message: String) -> Report {
    Report {
        rule: Rule::Launch,
        kernel: grid.name.to_owned(),
        message,
        seed: config.seed,
        schedule: config.schedule.with_seed(config.seed),
        trace: 0,
        cluster: 0,
        culprit: None,
        at: None,
        other: None,
        threads: Vec::new(),
        barriers: Vec::new(),
        waits: Vec::new(),
        notes: Vec::new(),
        steps: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Progress;

    #[test]
    fn a_watcher_sees_every_cluster() {
        let progress = Arc::new(Progress::default());
        let config = Config { progress: Some(Arc::clone(&progress)), ..Config::default() };
        let grid = Grid {
            grid: [6, 1, 1],
            block: [32, 1, 1],
            cluster: [2, 1, 1],
            min_ctas: 1,
            smem_bytes: 0,
            name: "none",
        };
        for _ in 0..2 {
            launch(&config, &GlobalMemory::new(), &grid, &|| {}).unwrap();
            assert_eq!((progress.clusters(), progress.finished()), (3, 3));
        }
    }
}
