//! Launches: what a run is made of.

use super::run::Launch;
use super::workers::{self, Shared};
use super::{budget, current, panics};
use crate::config::{Config, Stats};
use crate::finding::report::Report;
use crate::finding::rule::Rule;
use crate::grid::stream::Stream;
use crate::memory::global::GlobalMemory;
use crate::race::global::GlobalShadow;
use crate::schedule::turns;
use crate::types::grid::Grid;
use std::sync::Arc;
use std::thread;

/// Runs a kernel: each thread of the grid calls `entry`.
///
/// Each cluster is deterministic by the seed: the same seed gives the same steps. The order of the
/// clusters is drawn from it as well; but they run side by side on `config.workers` OS threads, so
/// kernels whose clusters talk through global memory are deterministic with one worker only. The
/// first rule that is broken ends the launch; of several clusters' findings at the same time, that
/// of the first cluster is reported.
///
/// Waits while launches of other host threads leave too few of the 24,576 threads that all of them may have together, at most a
/// minute.
pub fn launch(
    config: &Config,
    memory: &GlobalMemory,
    grid: &Grid<'_>,
    entry: &(dyn Fn() + Sync),
) -> Result<Stats, Box<Report>> {
    launch_all(config, memory, &[Launch { grid: grid.clone(), entry, dependent: false }])
}

/// Runs launches of one stream, in their order. A dependent launch may overlap the one ahead of it: how
/// far, from not at all to as early as possible, is drawn from the seed. At most 8192 threads, or one cluster, start before
/// the launch ahead of theirs has ended. Schedules of which nothing is
/// drawn run the launches one after the other. The rules of data races find what is not ordered in
/// either case.
///
/// ```
/// use warpipe_sim::{Config, GlobalMemory, Grid, Launch, Rule, launch_all, ops};
///
/// let memory = GlobalMemory::new();
/// let word = memory.alloc(4);
/// let grid = Grid { grid: [1; 3], block: [1; 3], cluster: [1; 3], min_ctas: 1, smem_bytes: 0, name: "first" };
/// let first = || {
///     ops::griddepcontrol::launch_dependents();
///     ops::global::st(word as *mut u32, 7);
/// };
/// let second = |waits: bool| {
///     if waits {
///         ops::griddepcontrol::wait();
///     }
///     assert_eq!(ops::global::ld::<u32>(word as *const u32), 7);
/// };
/// let run = |waits: bool| {
///     let second = || second(waits);
///     let launches = [
///         Launch { grid: grid.clone(), entry: &first, dependent: false },
///         Launch { grid: Grid { name: "second", ..grid.clone() }, entry: &second, dependent: true },
///     ];
///     launch_all(&Config::default(), &memory, &launches)
/// };
/// run(true).unwrap();
/// assert_eq!(run(false).unwrap_err().rule, Rule::Dependent);
/// ```
pub fn launch_all(
    config: &Config,
    memory: &GlobalMemory,
    launches: &[Launch<'_>],
) -> Result<Stats, Box<Report>> {
    for Launch { grid, .. } in launches {
        if let Err(message) = grid.check() {
            return Err(Box::new(refused(grid, config, message)));
        }
    }
    assert!(!current::inside(), "a launch inside a simulated thread");
    panics::install(current::inside);
    let Config { seed, schedule, .. } = config;
    let grids = launches.iter().map(|l| (&l.grid, l.dependent));
    let order = |_, clusters| turns::starts(clusters, *seed, schedule);
    let start = |grid| turns::start(*seed, schedule, grid);
    let stream = Stream::new(config.sms, grids, start, order);
    let clusters = stream.clusters();
    if let Some(progress) = &config.progress {
        progress.start(clusters);
    }
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let workers = config.workers.unwrap_or_else(cores).clamp(1, (clusters as usize).max(1));
    let shadow = config.races.then(|| {
        let grids = stream.grids().iter().map(|g| (g.first, g.name.clone()));
        Arc::new(GlobalShadow::new(grids.collect()))
    });
    let mut grids = Vec::new();
    for launch in launches {
        grids.push(workers::Grid { launch, number: schedule.launch() });
    }
    let _permits = budget::permits(stream.most_threads());
    Shared::new(config, memory, shadow, grids, Arc::new(stream)).run(workers)
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
