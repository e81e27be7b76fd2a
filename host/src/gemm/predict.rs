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
use super::calibration::*;
use super::pick::{Schedule, Tiling, fits};
use gpu_kernels::gemm::{Instance, KernelSchedule};
use serde::Serialize;
use std::cmp::Ordering;

/// A predicted time and what it is made of.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Prediction {
    /// How the cluster tiles are shared out.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// All of it, in microseconds, as are all times here.
    pub predicted_us: f64,
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
    /// What one of a shared tile takes, by that.
    shared_stage: f64,
    /// One epilogue.
    pub epilogue_us: f64,
    /// Whether epilogues are hidden by the next tile's main loop.
    pub pingpong: bool,
    /// Taking the sums that others gave; 0 if no tile is shared.
    pub fixup_us: f64,
    /// What rows outside of the tensors add to a stage, hidden by nothing.
    pub outside_us: f64,
    /// Operands and result, from and to memory, which is idle while CTAs wait for sums.
    pub memory_us: f64,
    /// The part of that which bytes take, if nothing holds them up.
    pub bytes_us: f64,
    /// The multiplications, as fast as the power limit allows.
    pub power_us: f64,
    /// CTAs of the grid.
    pub ctas: u64,
    /// Bytes of A and B in a stage.
    pub stage_bytes: u32,
    /// Whether A and B are more than the L2 cache holds.
    pub beyond_l2: bool,
}

impl Prediction {
    /// Of a problem that falls into `tiling`, on a device that holds `active` clusters.
    pub(super) fn new(
        instance: &Instance,
        tiling: &Tiling,
        problem: &GemmProblem,
        schedule: Schedule,
        active: u64,
    ) -> Self {
        let (clusters, streamed) =
            (u64::from(schedule.clusters).max(1), u64::from(schedule.streamed));
        let (cluster_tiles, stages) = (tiling.clusters(), stages(instance, problem.k));
        let i = instance;
        let elements = f64::from(i.bm * i.bn);
        let bytes = bytes_from_memory(tiling, problem);
        let fetched = fetched_bytes(i, cluster_tiles * stages, problem) as f64;
        let beyond = (fetched - bytes).max(0.0);
        // Whole panels of 128 bytes are stored.
        let panel = 128 / problem.out.size() as u32;
        let stored = if i.swap_ab { i.bm * i.bn } else { i.bm * i.bn.next_multiple_of(panel) };
        // A warp group alone writes 64 rows as fast as two write 128.
        let stored = f64::from(if pingpong(i) { 2 * stored } else { stored });
        let busy = (clusters as f64 / active.max(1) as f64).min(1.0);
        let fixup_us = match givers(clusters, streamed) {
            0 => 0.0,
            n => FIXUP_US + FIXUP_US_PER_ELEMENT * elements * (0.5 + 0.5 * n as f64),
        };
        let mut prediction = Self {
            schedule,
            predicted_us: 0.0,
            tiles: tiling.tiles,
            cluster_tiles,
            stages,
            rounds: (cluster_tiles - streamed).div_ceil(clusters),
            run: (streamed * stages).div_ceil(clusters),
            finished: streamed.div_ceil(clusters),
            launch_us: LAUNCH_US + if i.cluster_m * i.cluster_n > 1 { CLUSTER_US } else { 0.0 },
            stage_us: stage_us(instance, problem, clusters),
            shared_stage: if whole_lines(problem) { SHARED_STAGE } else { SHARED_STAGE_TWO_LINES },
            epilogue_us: EPILOGUE_US + EPILOGUE_US_PER_ELEMENT * stored,
            pingpong: pingpong(i),
            fixup_us,
            outside_us: outside_us(i, problem),
            memory_us: MEMORY_US
                + bytes / MEMORY_BYTES_PER_US
                + (bytes - STARTING_BYTES).max(0.0) / IDLE_BYTES_PER_US * (1.0 - busy)
                + beyond / FETCHED_BYTES_PER_US
                + fixup_us * FIXUP_OF_MEMORY,
            bytes_us: bytes / MEMORY_BYTES_PER_US,
            power_us: power_us(problem.flops(), fetched),
            ctas: clusters * u64::from(i.cluster_m * i.cluster_n),
            stage_bytes: i.stage_bytes(),
            beyond_l2: problem.bytes('A') + problem.bytes('B') > L2_BYTES,
        };
        prediction.launch_us += prediction.beside_us(i, busy);
        prediction.predicted_us = prediction.total_us();
        prediction
    }

    /// Main loops of the whole tiles.
    pub fn whole_us(&self) -> f64 {
        (self.rounds * self.stages) as f64 * self.stage_us
    }

    /// Main loops of the shared tiles.
    pub fn run_us(&self) -> f64 {
        self.run as f64 * self.stage_us * self.shared_stage
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

    /// What runs side by side takes as long as the longest, and a little more where others are as long.
    fn total_us(&self) -> f64 {
        let sixth = |x: f64| x.powi(6);
        let side_by_side = [self.busiest_us(), self.memory_us, self.power_us];
        let sum: f64 = side_by_side.map(sixth).iter().sum();
        self.launch_us + sum.sqrt().cbrt() + self.busiest() as f64 * self.outside_us
    }

    /// What it costs that an SM has room for two CTAs of the instance, of whose clusters as many run as
    /// make `busy` of the device.
    fn beside_us(&self, instance: &Instance, busy: f64) -> f64 {
        let whole = self.schedule.streamed == 0 && (self.rounds > 1 || ROOM_ASIDE.contains(&busy));
        let streams = whole && self.bytes_us > self.busiest_us();
        match instance.two_fit() {
            false => 0.0,
            true if streams => -ROOM_FOR_TWO_US,
            true => CROWDED_US,
        }
    }

    /// Whether CTAs keep pace: where they compute several tiles, long ones, of operands that the L2
    /// cache does not hold.
    pub fn throttled(&self) -> bool {
        let tile = self.stages as f64 * self.stage_us;
        self.rounds > 1 && tile >= PACED_TILE_US && self.beyond_l2
    }

    /// Stages of its first tile that a CTA brings into the L2 cache while the grid ahead still runs, on
    /// a device of `sms` SMs. That is of use where the grid leaves half of the SMs to the one behind, so
    /// that it is there early, and where memory decides.
    pub fn prefetch(&self, sms: u32) -> u32 {
        let room = 2 * self.ctas <= u64::from(sms);
        let memory = self.bytes_us >= EARLY_MEMORY * self.busiest_us();
        if room || memory { EARLY_BYTES / self.stage_bytes } else { 0 }
    }

    /// Stages of the busiest cluster.
    fn busiest(&self) -> u64 {
        self.rounds * self.stages + self.run
    }

    /// The shorter time first; among equals the fewer shared tiles.
    fn order(&self, other: &Self) -> Ordering {
        let time = self.predicted_us.total_cmp(&other.predicted_us);
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

/// Whether what a box takes of a row of A or B lies in one line of the L2 cache, not in two.
fn whole_lines(problem: &GemmProblem) -> bool {
    (problem.k * problem.ab.size() as u64).is_multiple_of(LINE_BYTES)
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
    let l2_rate = if whole_lines(problem) { L2_BYTES_PER_US } else { L2_BYTES_PER_US_TWO_LINES };
    let l2 = ctas * (a + b) / l2_rate;
    let sm = f64::from(i.bm + i.bn) * bytes / SM_BYTES_PER_US;
    let issue = match (i.kernel_schedule, i.groups) {
        (KernelSchedule::Pingpong, _) => STAGE_IN_TURN_US,
        (KernelSchedule::Cooperative, 1) => STAGE_OF_ONE_US,
        (KernelSchedule::Cooperative | KernelSchedule::SplitN, _) => STAGE_US,
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

/// Bytes of A and B in and D out. An operand that one cluster holds for all of the tiles' rows or columns
/// is read once.
fn bytes_from_memory(tiling: &Tiling, problem: &GemmProblem) -> f64 {
    let (rows, columns) = if tiling.swap_ab { ('B', 'A') } else { ('A', 'B') };
    let again = |operand, others: u64| {
        problem.bytes(operand) as f64 * if others > 1 { 1.0 + READ_AGAIN } else { 1.0 }
    };
    again(rows, tiling.clusters_n) + again(columns, tiling.clusters_m) + problem.bytes('D') as f64
}

/// Bytes of A and B that the clusters fetch in `stages` stages: each row of a cluster tile once, thanks
/// to multicast. What the L2 cache does not hold of it comes from memory.
fn fetched_bytes(instance: &Instance, stages: u64, problem: &GemmProblem) -> u64 {
    let i = instance;
    let rows = u64::from(i.bm * i.cluster_m) + u64::from(i.bn * i.cluster_n);
    stages * rows * u64::from(i.bk) * problem.ab.size() as u64
}

/// What the power limit asks for `flops` operations and `fetched` bytes.
fn power_us(flops: f64, fetched: f64) -> f64 {
    let us = flops / POWER_FLOPS_PER_US;
    if us < HELD_US { us } else { us + fetched / POWER_BYTES_PER_US }
}

/// Rows and columns of the product as the instance sees it.
fn sides(instance: &Instance, problem: &GemmProblem) -> (f64, f64) {
    let (m, n) = (problem.m as f64, problem.n as f64);
    if instance.swap_ab { (n, m) } else { (m, n) }
}

/// The schedules of an instance that are worth a look on a device that holds `active` of its clusters.
pub(super) fn schedules(
    instance: &Instance,
    problem: &GemmProblem,
    active: u64,
) -> impl Iterator<Item = Prediction> {
    let (tiling, problem) = (Tiling::new(instance, problem.m, problem.n), *problem);
    let stages = stages(instance, problem.k);
    Schedule::worth_a_look(instance.splits_k, tiling.clusters(), stages, active.max(1))
        .map(move |schedule| Prediction::new(instance, &tiling, &problem, schedule, active))
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
        let time = self.prediction.predicted_us.total_cmp(&other.prediction.predicted_us);
        time.then_with(|| second(other.instance).cmp(&second(self.instance)))
            .then_with(|| self.prediction.order(&other.prediction))
    }

    /// Bytes of A and B that the clusters fetch.
    pub fn fetched_bytes(&self, problem: &GemmProblem) -> u64 {
        let p = &self.prediction;
        fetched_bytes(self.instance, p.cluster_tiles * p.stages, problem)
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
