//! What a run is given, and what it gives back.

use crate::grid::room::{Room, SM};
use crate::schedule::plan::{Schedule, ScheduleError, Written};
use crate::trace::data::Tracing;
use crate::types::grid::Grid;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How the model runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Seed of every choice of the scheduler. The same seed gives the same run of each cluster.
    pub seed: u64,
    /// Who decides what happens next; by default, draws from the seed.
    pub schedule: Schedule,
    /// SMs that the machine has (`%nsmid`).
    pub sms: u32,
    /// OS threads that run clusters; none for one per core.
    pub workers: Option<usize>,
    /// Stack of each simulated thread.
    pub stack_bytes: usize,
    /// Instructions that a cluster may execute before it counts as stuck.
    pub max_steps: u64,
    /// Whether to report reads of shared and of global memory that nobody wrote.
    pub check_uninitialised: bool,
    /// Whether to look for data races, missing proxy fences and scopes that do not reach: every
    /// rule that is about what happens before what.
    pub races: bool,
    /// Where a launch counts its clusters, for someone who watches.
    pub progress: Option<Arc<Progress>>,
    /// Where a launch leaves what one of its clusters did, for someone who draws it.
    pub trace: Option<Arc<Tracing>>,
}

/// How far a launch has come.
#[derive(Debug, Default)]
pub struct Progress {
    clusters: AtomicU32,
    finished: AtomicU32,
}

impl Progress {
    /// Clusters of the latest launch.
    pub fn clusters(&self) -> u32 {
        self.clusters.load(Ordering::Relaxed)
    }
    /// Those that have run to their end.
    pub fn finished(&self) -> u32 {
        self.finished.load(Ordering::Relaxed)
    }
    pub(crate) fn start(&self, clusters: u32) {
        self.finished.store(0, Ordering::Relaxed);
        self.clusters.store(clusters, Ordering::Relaxed);
    }
    pub(crate) fn finish_one(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 0,
            schedule: Schedule::random(),
            sms: 132,
            workers: None,
            stack_bytes: 256 * 1024,
            max_steps: 1 << 36,
            check_uninitialised: true,
            races: true,
            progress: None,
            trace: None,
        }
    }
}

impl Config {
    /// The same with the seed and the schedule that a report names: `seed:7`, for example. It
    /// repeats the run to the letter; on one worker, unless more are asked for, as [`crate::explore`]
    /// does it.
    pub fn replay(&self, schedule: &str) -> Result<Self, ScheduleError> {
        let Written { seed, schedule } = schedule.parse()?;
        let workers = Some(self.workers.unwrap_or(1));
        Ok(Self { seed, schedule, workers, ..self.clone() })
    }

    /// Whether dependent launches may overlap the launch ahead: where the schedule draws nothing, or a
    /// launch is traced, they run one after the other.
    pub fn overlaps(&self) -> bool {
        self.trace.is_none() && self.schedule.draws()
    }

    /// Clusters of a grid that all SMs together hold at a time. The grid must be one that a GPU takes.
    pub fn max_active_clusters(&self, grid: &Grid<'_>) -> u32 {
        let cluster = Room::of(grid).parts(grid.cluster_size());
        (SM * u64::from(self.sms) / cluster) as u32
    }
}

/// Counts of a run that ended well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Clusters that ran.
    pub clusters: u64,
    /// Instructions that threads executed.
    pub steps: u64,
    /// Times that a thread was resumed.
    pub switches: u64,
    /// Asynchronous copies that landed.
    pub copies: u64,
    /// wgmma instructions.
    pub wgmmas: u64,
    /// A hash of every step of every cluster: equal for equal seeds.
    pub trace: u64,
}

impl Stats {
    /// Adds a cluster's counts. The trace is a sum, so the order of the clusters does not matter.
    pub fn add(&mut self, other: &Self) {
        self.clusters += other.clusters;
        self.steps += other.steps;
        self.switches += other.switches;
        self.copies += other.copies;
        self.wgmmas += other.wgmmas;
        self.trace = self.trace.wrapping_add(other.trace);
    }
}
