//! The workers of a run: OS threads that start clusters, and let them take turns.

use super::run::{Launch, Outcome, Running};
use super::stack::Stacks;
use crate::config::{Config, Stats};
use crate::finding::report::Report;
use crate::finding::rule::Rule;
use crate::grid::stream::{Member, Stream};
use crate::memory::global::GlobalMemory;
use crate::race::global::GlobalShadow;
use crate::schedule::turns::{Runner, Turn, Turns};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Instructions of a turn after which a cluster gives way to others, whatever it does.
const LONG: u64 = 1 << 24;

/// A grid of a run, to its workers.
pub(crate) struct Grid<'a> {
    pub launch: &'a Launch<'a>,
    /// Number of this launch in its run.
    pub number: u32,
}

/// A finding, and the number of its cluster in the run.
type Found = (u32, Box<Report>);

/// What the workers of a run share.
pub(crate) struct Shared<'a> {
    pub config: &'a Config,
    pub memory: &'a GlobalMemory,
    /// Who accessed what in global memory, if races are looked for.
    pub shadow: Option<Arc<GlobalShadow>>,
    pub grids: Vec<Grid<'a>>,
    pub stream: Arc<Stream>,
    failed: AtomicBool,
    /// Workers that have nothing but clusters that wait for others.
    waiting: AtomicUsize,
    workers: AtomicUsize,
    /// Clusters under way that can go on although nobody writes.
    able: AtomicUsize,
    /// Counts, and the finding of the first cluster that has one, with its number.
    result: Mutex<(Stats, Option<Found>)>,
}

/// A cluster that a worker has taken up.
struct UnderWay<'a> {
    cluster: Running<'a>,
    grid: usize,
    /// Number of the cluster in the run.
    number: u32,
    rank: u64,
    /// Writes to global memory before it last found nothing new there.
    polled: Option<u64>,
    /// It need not wait for a write, but gave way to others.
    awake: bool,
    /// It counts in [`Shared::able`].
    able: bool,
}

impl<'a> Shared<'a> {
    pub fn new(
        config: &'a Config,
        memory: &'a GlobalMemory,
        shadow: Option<Arc<GlobalShadow>>,
        grids: Vec<Grid<'a>>,
        stream: Arc<Stream>,
    ) -> Self {
        Self {
            config,
            memory,
            shadow,
            grids,
            stream,
            failed: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            workers: AtomicUsize::new(0),
            able: AtomicUsize::new(0),
            result: Mutex::new((Stats::default(), None)),
        }
    }

    /// Runs all clusters on so many OS threads.
    pub fn run(self, workers: usize) -> Result<Stats, Box<Report>> {
        self.workers.store(workers, Ordering::Release);
        // Always threads of its own: a stack that had to be abandoned in the middle of an unwind leaves
        // its OS thread counted as panicking.
        thread::scope(|s| {
            for worker in 0..workers {
                let shared = &self;
                s.spawn(move || shared.work(worker));
            }
        });
        let (stats, report) = self.result.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.map_or(Ok(stats), |(_, report)| Err(report))
    }

    /// Takes the next cluster up, if there is one that can start.
    fn start(&self) -> Option<UnderWay<'_>> {
        let (grid, index, nth) = self.stream.take()?;
        let Grid { launch, number } = &self.grids[grid];
        let member = Member { stream: Arc::clone(&self.stream), grid };
        let first = member.one().first;
        let cluster = Running::new(
            self.config,
            self.memory,
            self.shadow.as_ref(),
            (&launch.grid, launch.entry),
            member,
            (*number, index),
        );
        let (rank, number) = (u64::from(first + nth), first + index);
        self.able.fetch_add(1, Ordering::AcqRel);
        Some(UnderWay { cluster, grid, number, rank, polled: None, awake: false, able: true })
    }

    /// One worker: clusters take turns until there are none. One that polls global memory waits
    /// until somebody writes, so that the one it waits for can run.
    fn work(&self, worker: usize) {
        let mut stacks = Stacks::new(self.config.stack_bytes);
        let clusters = self.stream.clusters();
        let mut turns = Turns::new(self.config.seed, &self.config.schedule, clusters, worker);
        let mut under_way: Vec<UnderWay<'_>> = Vec::new();
        let mut runners: Vec<Runner> = Vec::new();
        let mut stats = Stats::default();
        while !self.failed.load(Ordering::Relaxed) {
            let writes = self.memory.writes();
            let runner =
                |u: &UnderWay<'_>| Runner { rank: u.rank, waits: u.polled == Some(writes) };
            runners.clear();
            runners.extend(under_way.iter().map(runner));
            let at = match turns.next(&runners, self.stream.has_next()) {
                Turn::Resume(at) => at,
                Turn::Start => {
                    under_way.extend(self.start());
                    continue;
                }
                Turn::Nobody if under_way.is_empty() && self.stream.all_started() => break,
                Turn::Nobody => {
                    if self.stuck(writes)
                        && !self.stream.has_next()
                        && !revive(&mut under_way)
                        && self.nobody_can_go_on(writes)
                        && let Some(first) = under_way.iter_mut().min_by_key(|u| u.number)
                    {
                        let report = first.cluster.fail(&mut stacks);
                        self.fail(first.number, report);
                    }
                    continue;
                }
            };
            let one = &mut under_way[at];
            if !one.able {
                one.able = true;
                self.able.fetch_add(1, Ordering::AcqRel);
            }
            let before = one.cluster.steps();
            let length = turns.length();
            let outcome = one.cluster.run(&mut stacks, length.at_most(LONG));
            let instructions = one.cluster.steps() - before;
            let cut = matches!(outcome, Outcome::Cut) && instructions < LONG;
            one.rank = turns.over(instructions, cut).unwrap_or(one.rank);
            match outcome {
                Outcome::Cut if cut => one.polled = None,
                Outcome::Polling => {
                    (one.polled, one.awake, one.able) = (Some(writes), false, false);
                    self.able.fetch_sub(1, Ordering::AcqRel);
                }
                Outcome::PollingYet => (one.polled, one.awake) = (Some(writes), true),
                Outcome::Cut | Outcome::GaveWay => {
                    (one.polled, one.awake) = (Some(self.memory.writes()), true);
                }
                Outcome::Finished(s) => {
                    if let Some(progress) = &self.config.progress {
                        progress.finish_one();
                    }
                    stats.add(&s);
                    self.stream.ends(one.grid);
                    if self.grids.len() > 1 || !self.stream.all_started() {
                        // Somebody may wait for this end, or for the room.
                        self.memory.wrote();
                    }
                    self.able.fetch_sub(1, Ordering::AcqRel);
                    under_way.swap_remove(at);
                }
                Outcome::Failed(report) => self.fail(one.number, report),
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
        // A worker that fails leaves; that it was the last other one says nothing of these clusters.
        quiet == 20 && self.memory.writes() == writes && !self.failed.load(Ordering::Relaxed)
    }

    /// Whether no cluster of any worker can go on: one that gave way to others still can.
    fn nobody_can_go_on(&self, writes: u64) -> bool {
        self.able.load(Ordering::Acquire) == 0 && self.memory.writes() == writes
    }

    /// The run fails. Of several findings at the same time, that of the first cluster is reported.
    fn fail(&self, number: u32, mut report: Box<Report>) {
        // A cluster that nobody can end, while others have not started: they are what it waits for.
        if (report.rule == Rule::Deadlock || report.is_endless())
            && let Some(missing) = self.stream.what_is_missing()
        {
            report.rule = Rule::Deadlock;
            report.message = format!("{}; {missing}", report.message);
        }
        self.failed.store(true, Ordering::Relaxed);
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        if result.1.as_ref().is_none_or(|r| number < r.0) {
            result.1 = Some((number, report));
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
