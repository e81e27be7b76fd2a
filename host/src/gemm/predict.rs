//! How long a product takes with an instance and a schedule, term by term.
//!
//! ```text
//! launch + the longest of { whole tiles + run + epilogues + fix-up, memory, power } + outside
//! ```
//! The first of the three is what the cluster with the most to do does, one after the other: `rounds`
//! whole tiles of `stages` stages each; its run of the shared tiles' stages, if there are any; the
//! epilogue of each tile that it finishes; and the sums that others give. No product is faster than
//! its operands come from memory, and none than the power limit lets the tensor cores multiply. Where
//! two of the three are equal, neither hides all of the other: the sixth root of the sum of sixth
//! powers.

use super::GemmProblem;
use super::pick::{Schedule, Tiling, fits};
use gpu_kernels::gemm::{Instance, KernelSchedule};
use serde::Serialize;
use std::cmp::Ordering;

// The constants are fitted to the measurements in docs/data/h200-candidates.txt, by what they pick
// more than by what they predict (docs/performance.md says how).

/// A launch, and the start and the end of a kernel that does nothing much, in microseconds.
const LAUNCH_US: f64 = 2.1;
/// What a cluster adds to that: its CTAs start together and meet.
const CLUSTER_US: f64 = 0.18;
/// A stage of the main loop takes this long even for a tiny tile: barriers, TMA, issue.
const STAGE_US: f64 = 0.026;
/// The same for tiles of one warp group: one arrival fewer frees a slot.
const STAGE_OF_ONE_US: f64 = 0.02;
/// The same where warp groups multiply in turn: each issues for the other.
const STAGE_IN_TURN_US: f64 = 0.0063;
/// What a cluster adds to a stage: its CTAs wait for each other's slots.
const CLUSTER_STAGE_US: f64 = 0.005;
/// What the tensor cores take for each element of the tile in a stage of 64 columns: 2048
/// multiplications a clock give 0.017e-3 µs at 1.9 GHz.
const MMA_US_PER_ELEMENT: f64 = 0.0168e-3;
/// Bytes a microsecond that the L2 cache gives to all CTAs together.
const L2_BYTES_PER_US: f64 = 38e6;
/// The same where rows are no multiple of 128 bytes: what a box takes of a row lies in two lines.
const L2_BYTES_PER_US_TWO_LINES: f64 = 6.2e6;
/// A line of the L2 cache.
const LINE_BYTES: u64 = 128;
/// Bytes a microsecond that come into one SM.
const SM_BYTES_PER_US: f64 = 191e3;
/// What the operand with more rows costs the L2 cache beyond its bytes: more of it misses.
const LARGER_OPERAND: f64 = 0.125;
/// What each row of a box that lies outside of the tensor adds to a stage, beyond the first few: TMA
/// fills it with zeros more slowly than from the cache.
const OUTSIDE_US: f64 = 3.0e-3;
const OUTSIDE_FREE: f64 = 15.0;
/// An epilogue, and that of a tile of 128 x 256, as far as the next main loop does not hide it.
const EPILOGUE_US: f64 = 0.22;
const EPILOGUE_US_PER_ELEMENT: f64 = 0.33 / (128.0 * 256.0);
/// What a stage of a shared tile takes, by one of a whole tile: the clusters of a run are at different
/// columns of A and B, and find less of them in the L2 cache.
const SHARED_STAGE: f64 = 1.1;
/// What it takes at least until a CTA has the sums that another one gave.
const FIXUP_US: f64 = 0.27;
/// What each element of the tile adds to that: it is written and read once.
const FIXUP_US_PER_ELEMENT: f64 = 9.5 / (128.0 * 256.0);
/// Bytes a microsecond from memory, and how long until the first are there.
const MEMORY_BYTES_PER_US: f64 = 4.14e6;
const MEMORY_US: f64 = 1.28;
/// What an operand that several clusters read, each for itself, adds to its bytes from memory.
const READ_AGAIN: f64 = 0.25;
/// Operations a microsecond that the power limit allows, over milliseconds.
const POWER_FLOPS_PER_US: f64 = 720e6;

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
    /// Whether epilogues are hidden by the next tile's main loop.
    pub pingpong: bool,
    /// Taking the sums that others gave; 0 if no tile is shared.
    pub fixup_us: f64,
    /// What rows outside of the tensors add to a stage, hidden by nothing.
    pub outside_us: f64,
    /// Operands and result, from and to memory.
    pub memory_us: f64,
    /// The multiplications, as fast as the power limit allows.
    pub power_us: f64,
}

impl Prediction {
    /// Of a problem that falls into `tiling`.
    pub(super) fn new(
        instance: &Instance,
        tiling: &Tiling,
        problem: &GemmProblem,
        schedule: Schedule,
    ) -> Self {
        let (clusters, streamed) =
            (u64::from(schedule.clusters).max(1), u64::from(schedule.streamed));
        let (cluster_tiles, stages) = (tiling.clusters(), stages(instance, problem.k));
        let i = instance;
        let elements = f64::from(i.bm * i.bn);
        // Whole panels of 128 bytes are stored.
        let panel = 128 / problem.out.size() as u32;
        let stored = if i.turned { i.bm * i.bn } else { i.bm * i.bn.next_multiple_of(panel) };
        // A warp group alone writes 64 rows as fast as two write 128.
        let stored = f64::from(if pingpong(i) { 2 * stored } else { stored });
        Self {
            schedule,
            tiles: tiling.tiles,
            cluster_tiles,
            stages,
            rounds: (cluster_tiles - streamed).div_ceil(clusters),
            run: (streamed * stages).div_ceil(clusters),
            finished: streamed.div_ceil(clusters),
            launch_us: LAUNCH_US + if i.cluster_m * i.cluster_n > 1 { CLUSTER_US } else { 0.0 },
            stage_us: stage_us(instance, problem, clusters),
            epilogue_us: EPILOGUE_US + EPILOGUE_US_PER_ELEMENT * stored,
            pingpong: pingpong(i),
            fixup_us: match givers(clusters, streamed) {
                0 => 0.0,
                n => FIXUP_US + FIXUP_US_PER_ELEMENT * elements * (0.5 + 0.5 * n as f64),
            },
            outside_us: outside_us(i, problem),
            memory_us: memory_us(tiling, problem),
            power_us: problem.flops() / POWER_FLOPS_PER_US,
        }
    }

    /// Main loops of the whole tiles.
    pub fn whole_us(&self) -> f64 {
        (self.rounds * self.stages) as f64 * self.stage_us
    }

    /// Main loops of the shared tiles.
    pub fn run_us(&self) -> f64 {
        self.run as f64 * self.stage_us * SHARED_STAGE
    }

    /// Epilogues of the whole tiles and of the shared ones, as far as they are not hidden.
    pub fn epilogues_us(&self) -> f64 {
        if self.pingpong {
            let main_loop = self.stages as f64 * self.stage_us;
            let seen = (self.epilogue_us - main_loop).max(0.0);
            return self.epilogue_us + self.rounds.saturating_sub(1) as f64 * seen;
        }
        (self.rounds + self.finished) as f64 * self.epilogue_us
    }

    /// What the busiest cluster does.
    pub fn busiest_us(&self) -> f64 {
        self.whole_us() + self.run_us() + self.epilogues_us() + self.fixup_us
    }

    /// All of it.
    pub fn total_us(&self) -> f64 {
        let sixth = |x: f64| x.powi(6);
        let sum = sixth(self.busiest_us()) + sixth(self.memory_us) + sixth(self.power_us);
        self.launch_us + sum.sqrt().cbrt() + self.busiest() as f64 * self.outside_us
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

fn pingpong(instance: &Instance) -> bool {
    instance.kernel_schedule == KernelSchedule::Pingpong
}

/// Stages of a tile. An empty K is one block of zeros.
fn stages(instance: &Instance, k: u64) -> u64 {
    k.div_ceil(u64::from(instance.bk)).max(1)
}

/// One stage of the main loop, when `clusters` clusters run: the tensor cores, the L2 cache and the way
/// into the SM work side by side, and the slowest counts.
fn stage_us(instance: &Instance, problem: &GemmProblem, clusters: u64) -> f64 {
    let i = instance;
    let bytes = f64::from(i.bk) * problem.ab.size() as f64;
    let (m, n) = sides(i, problem);
    let larger = |rows: f64| 1.0 + LARGER_OPERAND * rows / (m + n);
    // Multicast: a CTA fetches its share of the rows, and receives them all.
    let a = f64::from(i.bm) / f64::from(i.cluster_n) * bytes * larger(m);
    let b = f64::from(i.bn) / f64::from(i.cluster_m) * bytes * larger(n);
    let ctas = clusters as f64 * f64::from(i.cluster_m * i.cluster_n);
    let mma = MMA_US_PER_ELEMENT * f64::from(i.bm * i.bn) * f64::from(i.bk) / 64.0;
    let whole_lines = (problem.k * problem.ab.size() as u64).is_multiple_of(LINE_BYTES);
    let l2_rate = if whole_lines { L2_BYTES_PER_US } else { L2_BYTES_PER_US_TWO_LINES };
    let l2 = ctas * (a + b) / l2_rate;
    let sm = f64::from(i.bm + i.bn) * bytes / SM_BYTES_PER_US;
    let issue = match (i.kernel_schedule, i.groups) {
        (KernelSchedule::Pingpong, _) => STAGE_IN_TURN_US,
        (KernelSchedule::Cooperative, 1) => STAGE_OF_ONE_US,
        (KernelSchedule::Cooperative, _) => STAGE_US,
    };
    let together = if i.cluster_m * i.cluster_n > 1 { CLUSTER_STAGE_US } else { 0.0 };
    issue + together + (mma.powi(4) + l2.powi(4) + sm.powi(4)).sqrt().sqrt()
}

/// Rows of a stage's boxes that lie outside of a tensor which has fewer than one tile.
fn outside_us(instance: &Instance, problem: &GemmProblem) -> f64 {
    let (m, n) = sides(instance, problem);
    let outside = |tile: u32, side: f64| (f64::from(tile) - side - OUTSIDE_FREE).max(0.0);
    OUTSIDE_US * (outside(instance.bm, m) + outside(instance.bn, n))
}

/// Clusters of `size` CTAs that a device of `sms` SMs holds. A GPC has 16 or 18 SMs: clusters of more
/// than two leave some of them out. (The launch asks the driver.)
fn held(sms: u32, size: u32) -> u64 {
    u64::from(if size > 2 { sms * 10 / 11 / size } else { sms / size })
}

/// How many clusters give sums to the one that finishes a shared tile, at most.
fn givers(clusters: u64, streamed: u64) -> u64 {
    if streamed == 0 {
        return 0;
    }
    let uneven = clusters > streamed && !clusters.is_multiple_of(streamed);
    (clusters.div_ceil(streamed) - 1 + u64::from(uneven)).max(1)
}

/// A and B in, D out. An operand that one cluster holds for all of the tiles' rows or columns is read
/// once.
fn memory_us(tiling: &Tiling, problem: &GemmProblem) -> f64 {
    let (rows, columns) = if tiling.turned { ('B', 'A') } else { ('A', 'B') };
    let again = |operand, others: u64| {
        problem.bytes(operand) as f64 * if others > 1 { 1.0 + READ_AGAIN } else { 1.0 }
    };
    let bytes = again(rows, tiling.clusters_n)
        + again(columns, tiling.clusters_m)
        + problem.bytes('D') as f64;
    MEMORY_US + bytes / MEMORY_BYTES_PER_US
}

/// Rows and columns of the product as the instance sees it.
fn sides(instance: &Instance, problem: &GemmProblem) -> (f64, f64) {
    let (m, n) = (problem.m as f64, problem.n as f64);
    if instance.turned { (n, m) } else { (m, n) }
}

/// The schedules of an instance that are worth a look on a device that holds `active` of its clusters.
pub(super) fn schedules(
    instance: &Instance,
    problem: &GemmProblem,
    active: u64,
) -> impl Iterator<Item = Prediction> {
    let (tiling, problem) = (Tiling::new(instance, problem.m, problem.n), *problem);
    let stages = stages(instance, problem.k);
    Schedule::worth_a_look(instance.shares, tiling.clusters(), stages, active.max(1))
        .map(move |schedule| Prediction::new(instance, &tiling, &problem, schedule))
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
    // A cluster that the device has no room for is no candidate.
    let room = move |i: &Instance| held(sms, i.cluster_m * i.cluster_n);
    let fitting = table.iter().enumerate();
    let fitting = fitting.filter(move |(_, i)| fits(i, problem, c) && room(i) > 0);
    fitting.flat_map(move |(index, instance)| {
        let active = room(instance);
        schedules(instance, problem, active).map(move |prediction| Candidate {
            index,
            instance,
            prediction,
        })
    })
}
