//! How long a product takes with an instance and a schedule, term by term.
//!
//! ```text
//! launch + whole tiles + run + epilogues + fix-up
//! ```
//! These are what the cluster with the most to do does, one after the other: `rounds` whole tiles of
//! `stages` stages each; its run of the shared tiles' stages, if there are any; the epilogue of each
//! tile that it finishes; and once the wait for the sums that another cluster gives.

use super::GemmProblem;
use super::pick::{Schedule, Tiling, fits};
use gpu_kernels::gemm::Instance;
use serde::Serialize;
use std::cmp::Ordering;

// The constants are fitted to 14 shapes of three instances on one H200 (docs/performance.md). The
// largest products take longer (power) and so do the thinnest (memory), whatever the instance: the
// order of the candidates is what the prediction is for.

/// A launch, and the start and the end of a kernel that does nothing much, in microseconds.
const LAUNCH_US: f64 = 2.5;
/// A stage of the main loop takes this long even for a tiny tile: barriers, TMA, issue.
const STAGE_US: f64 = 0.125;
/// What each element of the tile adds to a stage of 64 columns: 2048 multiplications a clock would
/// give 0.017 µs per 1000 elements; shared memory and L2 hide some and add some.
const STAGE_US_PER_ELEMENT: f64 = 0.0137e-3;
/// The epilogue of a tile of 128 x 256, as far as the next tile's main loop does not hide it.
const EPILOGUE_US_PER_ELEMENT: f64 = 2.0 / (128.0 * 256.0);
/// What it takes at least until a CTA has the sums that another one gave.
const FIXUP_US: f64 = 1.5;
/// What each element of the tile adds to that: it is written and read once.
const FIXUP_US_PER_ELEMENT: f64 = 8.0 / (128.0 * 256.0);

/// A predicted time and what it is made of.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Prediction {
    /// How the cluster tiles are shared out.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// Tiles of D.
    pub tiles: u64,
    /// Clusters of tiles; those at the edges may hang over.
    pub cluster_tiles: u64,
    /// Stages of one tile.
    pub stages: u64,
    /// Whole tiles that the busiest cluster computes.
    pub rounds: u64,
    /// Stages of the shared tiles that it computes.
    pub run: u64,
    /// Shared tiles that it finishes.
    pub finished: u64,
    /// A launch.
    pub launch_us: f64,
    /// One stage.
    pub stage_us: f64,
    /// One epilogue.
    pub epilogue_us: f64,
    /// Taking the sums that others gave; 0 if no tile is shared.
    pub fixup_us: f64,
}

impl Prediction {
    /// Of a problem that falls into `tiling`.
    pub(super) fn new(instance: &Instance, tiling: &Tiling, k: u64, schedule: Schedule) -> Self {
        let (clusters, streamed) =
            (u64::from(schedule.clusters).max(1), u64::from(schedule.streamed));
        let (cluster_tiles, stages) = (tiling.clusters(), stages(instance, k));
        let elements = f64::from(instance.bm * instance.bn);
        let columns = f64::from(instance.bk) / 64.0;
        let fixup_us = FIXUP_US + FIXUP_US_PER_ELEMENT * elements;
        Self {
            schedule,
            tiles: tiling.tiles,
            cluster_tiles,
            stages,
            rounds: (cluster_tiles - streamed).div_ceil(clusters),
            run: (streamed * stages).div_ceil(clusters),
            finished: streamed.div_ceil(clusters),
            launch_us: LAUNCH_US,
            stage_us: (STAGE_US + STAGE_US_PER_ELEMENT * elements) * columns,
            epilogue_us: EPILOGUE_US_PER_ELEMENT * elements,
            fixup_us: if streamed > 0 { fixup_us } else { 0.0 },
        }
    }

    /// Main loops of the whole tiles.
    pub fn whole_us(&self) -> f64 {
        (self.rounds * self.stages) as f64 * self.stage_us
    }

    /// Main loops of the shared tiles.
    pub fn run_us(&self) -> f64 {
        self.run as f64 * self.stage_us
    }

    /// Epilogues of the whole tiles and of the shared ones.
    pub fn epilogues_us(&self) -> f64 {
        (self.rounds + self.finished) as f64 * self.epilogue_us
    }

    /// All of it.
    pub fn total_us(&self) -> f64 {
        // Counted before they are multiplied: schedules with as many stages take exactly as long.
        let main_loop_us = self.busiest() as f64 * self.stage_us;
        self.launch_us + main_loop_us + self.epilogues_us() + self.fixup_us
    }

    /// Stages of the busiest cluster.
    fn busiest(&self) -> u64 {
        self.rounds * self.stages + self.run
    }

    /// The shorter time first; among equals the fewer shared tiles.
    fn order(&self, other: &Self) -> Ordering {
        let time = self.total_us().total_cmp(&other.total_us());
        time.then(self.schedule.streamed.cmp(&other.schedule.streamed))
    }

    /// How many of the stages that all clusters have time for are done: 1 if none waits for the
    /// busiest.
    pub fn filled(&self) -> f64 {
        let room = u64::from(self.schedule.clusters) * self.busiest();
        (self.cluster_tiles * self.stages) as f64 / room.max(1) as f64
    }
}

/// Stages of a tile. An empty K is one block of zeros.
fn stages(instance: &Instance, k: u64) -> u64 {
    k.div_ceil(u64::from(instance.bk)).max(1)
}

/// The schedules of an instance that are worth a look on a device that holds `active` of its clusters.
pub(super) fn schedules(
    instance: &Instance,
    problem: &GemmProblem,
    active: u64,
) -> impl Iterator<Item = Prediction> {
    let (tiling, k) = (Tiling::new(instance, problem.m, problem.n), problem.k);
    Schedule::worth_a_look(instance.shares, tiling.clusters(), stages(instance, k), active.max(1))
        .map(move |schedule| Prediction::new(instance, &tiling, k, schedule))
}

/// The one of them with the shortest time; among equals the one with the fewest shared tiles.
pub(super) fn schedule(instance: &Instance, problem: &GemmProblem, active: u64) -> Schedule {
    schedules(instance, problem, active)
        .min_by(Prediction::order)
        .expect("there is always the one of whole tiles")
        .schedule
}

/// An instance that computes a problem in some schedule, and its prediction.
#[derive(Clone, Copy)]
pub struct Candidate<'t> {
    /// Row of the table.
    pub index: usize,
    /// The row.
    pub instance: &'t Instance,
    /// Its schedule and time.
    pub prediction: Prediction,
}

impl Candidate<'_> {
    /// Whether it goes before `other`: the shorter time; among equals the larger cluster (more
    /// multicast), then the deeper ring, then the fewer shared tiles.
    pub fn order(&self, other: &Self) -> Ordering {
        let second = |i: &Instance| (i.cluster_m * i.cluster_n, i.stages);
        let (time, others) = (self.prediction.total_us(), other.prediction.total_us());
        time.total_cmp(&others)
            .then_with(|| second(other.instance).cmp(&second(self.instance)))
            .then_with(|| self.prediction.order(&other.prediction))
    }

    /// Bytes of A and B that the clusters fetch: each row of a cluster tile once, thanks to
    /// multicast. What the L2 cache does not hold of it comes from memory.
    pub fn fetched_bytes(&self, problem: &GemmProblem) -> u64 {
        let i = self.instance;
        let rows = u64::from(i.bm * i.cluster_m) + u64::from(i.bn * i.cluster_n);
        let columns = self.prediction.stages * u64::from(i.bk);
        self.prediction.cluster_tiles * rows * columns * problem.ab.size() as u64
    }
}

/// The instances of a table that compute `problem` (with C if `c`) on `sms` SMs, in its order, each in
/// every schedule that is worth a look.
pub fn candidates<'t>(
    table: &'t [Instance],
    problem: &'t GemmProblem,
    c: bool,
    sms: u32,
) -> impl Iterator<Item = Candidate<'t>> {
    let fitting = table.iter().enumerate().filter(move |(_, i)| fits(i, problem, c));
    fitting.flat_map(move |(index, instance)| {
        let active = u64::from(sms / (instance.cluster_m * instance.cluster_n));
        schedules(instance, problem, active).map(move |prediction| Candidate {
            index,
            instance,
            prediction,
        })
    })
}
