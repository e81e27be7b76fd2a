//! What a run is given, and what it gives back.

use crate::explore::schedule::{Schedule, ScheduleError, Written};
use crate::trace::Tracing;
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
    /// Whether to report reads of shared memory that nobody wrote.
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
}

/// A launch: how many CTAs of how many threads, in what clusters.
#[derive(Clone, Debug)]
pub struct Grid<'a> {
    /// CTAs.
    pub grid: [u32; 3],
    /// Threads of a CTA.
    pub block: [u32; 3],
    /// CTAs of a cluster; divides the grid.
    pub cluster: [u32; 3],
    /// CTAs of which an SM's registers must be enough (`.minnctapersm`): with the threads, that gives
    /// the registers of each at entry.
    pub min_ctas: u32,
    /// Dynamic shared memory of a CTA in bytes.
    pub smem_bytes: u32,
    /// Name of the kernel, for reports.
    pub name: &'a str,
}

/// Dynamic shared memory starts here; the chip reserves the first KiB of a CTA.
pub(crate) const SMEM_BASE: u32 = 1024;
/// Most dynamic shared memory that a CTA of sm_90 can have.
pub(crate) const SMEM_MAX: u32 = 227 * 1024;
/// Registers of an SM.
pub(crate) const REGISTER_FILE: u32 = 64 * 1024;

impl Grid<'_> {
    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        self.block.iter().product()
    }
    /// CTAs of a cluster.
    pub fn cluster_size(&self) -> u32 {
        self.cluster.iter().product()
    }
    /// Clusters per dimension.
    pub(crate) fn clusters(&self) -> [u32; 3] {
        std::array::from_fn(|i| self.grid[i] / self.cluster[i])
    }

    /// Why no GPU would take this launch.
    pub(crate) fn check(&self) -> Result<(), String> {
        let threads: u64 = self.block.iter().map(|&x| u64::from(x)).product();
        if threads == 0 || threads > 1024 {
            return Err(format!("a block of {:?} has {threads} threads; 1 to 1024", self.block));
        }
        let ctas: u64 = self.cluster.iter().map(|&x| u64::from(x)).product();
        if ctas == 0 || ctas > 16 {
            return Err(format!("a cluster of {:?} has {ctas} CTAs; 1 to 16", self.cluster));
        }
        let blocks: u64 = self.grid.iter().map(|&x| u64::from(x)).product();
        if blocks == 0 || blocks > u64::from(u32::MAX) {
            return Err(format!("a grid of {:?} has {blocks} CTAs; 1 to 2^32-1", self.grid));
        }
        if (0..3).any(|i| !self.grid[i].is_multiple_of(self.cluster[i])) {
            return Err(format!("a cluster of {:?} does not divide {:?}", self.cluster, self.grid));
        }
        if self.min_ctas == 0 || u64::from(self.min_ctas) * threads > 2048 {
            return Err(format!(
                "{} CTAs of {threads} threads on an SM; 1 to {}",
                self.min_ctas,
                2048 / threads
            ));
        }
        if self.smem_bytes > SMEM_MAX {
            return Err(format!("{} bytes of shared memory; at most {SMEM_MAX}", self.smem_bytes));
        }
        Ok(())
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
