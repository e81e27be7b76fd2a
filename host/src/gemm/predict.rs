//! Predicted time of a product with an instance and a schedule, term by term.
//!
//! ```text
//! launch + the longest of { whole tiles + run + epilogues + fix-up, memory, power } + outside
//! ```
//! - The first of the three is the time of the busiest cluster. It computes `rounds` data-parallel
//!   tiles of `k_tiles` k tiles each; then its run of the split tiles' k tiles; then the epilogue of
//!   each tile that it finishes; and it loads and reduces the partials of other clusters.
//! - `memory` is the time to read the operands from memory and to write the result.
//! - `power` is the time in which the power limit lets the tensor cores do the multiplications.
//!
//! "The longest" is a smooth maximum, the sixth root of the sum of sixth powers: where two of the three
//! are equal, neither hides all of the other.

use super::GemmProblem;
use super::calibration::*;
use super::pick::{Schedule, Tiling, fits};
use gpu_kernels::gemm::{Instance, KernelSchedule};
use serde::Serialize;
use std::cmp::Ordering;

/// A predicted time and what it is made of.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Prediction {
    /// Clusters of the grid, and cluster tiles that are split along K.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// Total time in microseconds. All times here are in microseconds.
    pub predicted_us: f64,
    /// Tiles of D.
    pub tiles: u64,
    /// Cluster tiles of D. Those at the edges may extend beyond D.
    pub cluster_tiles: u64,
    /// K tiles of one tile.
    pub k_tiles: u64,
    /// Data-parallel tiles that the busiest cluster computes.
    pub rounds: u64,
    /// K tiles of split tiles that the busiest cluster computes.
    pub run: u64,
    /// Split tiles that the busiest cluster finishes.
    pub finished: u64,
    /// Launch, start and end of the kernel.
    pub launch_us: f64,
    /// One k tile of a data-parallel tile.
    pub k_tile_us: f64,
    /// Time of a k tile of a split tile, relative to `k_tile_us`.
    split_k_tile_factor: f64,
    /// One epilogue.
    pub epilogue_us: f64,
    /// Whether the next tile's main loop hides the epilogue.
    pub pingpong: bool,
    /// Stream-K fix-up: other clusters' partials are loaded and reduced. 0 if no tile is split.
    pub fixup_us: f64,
    /// Time that rows outside of the tensors add to each k tile. Nothing hides it.
    pub outside_us: f64,
    /// Reading the operands from memory and writing the result, with the time in which memory is idle.
    pub memory_us: f64,
    /// The part of `memory_us` that the bytes take at full rate.
    pub bytes_us: f64,
    /// The multiplications at the rate that the power limit allows.
    pub power_us: f64,
    /// CTAs of the grid.
    pub ctas: u64,
    /// Bytes of A and B in a k tile.
    pub stage_bytes: u32,
    /// Whether A and B together exceed the L2 cache.
    pub beyond_l2: bool,
}

impl Prediction {
    /// Predicts `problem`, tiled as `tiling`, on a device that holds `active` clusters.
    pub(super) fn new(
        instance: &Instance,
        tiling: &Tiling,
        problem: &GemmProblem,
        schedule: Schedule,
        active: u64,
        c: &Calibration,
    ) -> Self {
        let (clusters, streamed) =
            (u64::from(schedule.clusters).max(1), u64::from(schedule.streamed));
        let (cluster_tiles, k_tiles) = (tiling.clusters(), k_tiles(instance, problem.k));
        let i = instance;
        let elements = f64::from(i.bm * i.bn);
        let bytes = bytes_from_memory(tiling, problem, c);
        let fetched = fetched_bytes(i, cluster_tiles * k_tiles, problem) as f64;
        let beyond = (fetched - bytes).max(0.0);
        // Epilogue tiles have rows of 128 bytes and are stored whole.
        let columns = 128 / problem.out.size() as u32;
        let stored = if i.swap_ab { i.bm * i.bn } else { i.bm * i.bn.next_multiple_of(columns) };
        // One warp group writes 64 rows in the time in which two write 128.
        let stored = f64::from(if pingpong(i) { 2 * stored } else { stored });
        let busy = (clusters as f64 / active.max(1) as f64).min(1.0);
        let fixup_us = match contributors(clusters, streamed) {
            0 => 0.0,
            n => {
                let (n, ctas) =
                    (n as f64, (clusters * u64::from(i.cluster_m * i.cluster_n)) as f64);
                c.fixup_us
                    + c.fixup_giver_us * n
                    + elements * (c.fixup_store_us_per_element + c.fixup_load_us_per_element * n)
                    + ctas * elements * c.fixup_traffic_us_per_element
            }
        };
        let mut prediction = Self {
            schedule,
            predicted_us: 0.0,
            tiles: tiling.tiles,
            cluster_tiles,
            k_tiles,
            rounds: (cluster_tiles - streamed).div_ceil(clusters),
            run: (streamed * k_tiles).div_ceil(clusters),
            finished: streamed.div_ceil(clusters),
            launch_us: c.launch_us + c.cluster_us * doublings(i),
            k_tile_us: k_tile_us(instance, problem, clusters, c),
            split_k_tile_factor: match Rows::of(problem) {
                Rows::WholeLines => c.split_k_tile_factor,
                Rows::WholeSectors | Rows::PartialSectors => c.split_k_tile_factor_two_lines,
            },
            epilogue_us: c.epilogue_us + c.epilogue_us_per_element * stored,
            pingpong: pingpong(i),
            fixup_us,
            outside_us: outside_us(i, problem, c),
            memory_us: c.memory_us
                + bytes / c.memory_bytes_per_us
                + (bytes - c.starting_bytes).max(0.0) / c.idle_bytes_per_us * (1.0 - busy)
                + beyond / c.fetched_bytes_per_us
                + fixup_us * c.fixup_of_memory,
            bytes_us: bytes / c.memory_bytes_per_us,
            power_us: power_us(problem.flops(), fetched),
            ctas: clusters * u64::from(i.cluster_m * i.cluster_n),
            stage_bytes: i.stage_bytes(),
            beyond_l2: problem.bytes('A') + problem.bytes('B') > L2_BYTES,
        };
        prediction.launch_us += prediction.two_fit_us(i, busy, c);
        prediction.predicted_us = prediction.total_us();
        prediction
    }

    /// Main loops of the data-parallel tiles.
    pub fn whole_us(&self) -> f64 {
        (self.rounds * self.k_tiles) as f64 * self.k_tile_us
    }

    /// Main loops of the split tiles.
    pub fn run_us(&self) -> f64 {
        self.run as f64 * self.k_tile_us * self.split_k_tile_factor
    }

    /// The exposed part of the epilogues, of data-parallel and of split tiles.
    pub fn epilogues_us(&self) -> f64 {
        if self.pingpong {
            let main_loop = self.k_tiles as f64 * self.k_tile_us;
            let exposed = (self.epilogue_us - main_loop).max(0.0);
            return self.epilogue_us + self.rounds.saturating_sub(1) as f64 * exposed;
        }
        (self.rounds + self.finished) as f64 * self.epilogue_us
    }

    /// Time of the busiest cluster.
    pub fn busiest_us(&self) -> f64 {
        self.whole_us() + self.run_us() + self.epilogues_us() + self.fixup_us
    }

    /// The smooth maximum of the three concurrent terms, and what is added to it.
    fn total_us(&self) -> f64 {
        let sixth = |x: f64| x.powi(6);
        let side_by_side = [self.busiest_us(), self.memory_us, self.power_us];
        let sum: f64 = side_by_side.map(sixth).iter().sum();
        self.launch_us + sum.sqrt().cbrt() + self.busiest() as f64 * self.outside_us
    }

    /// Penalty or gain when two CTAs fit on an SM. `busy` is the fraction of the device that is occupied.
    fn two_fit_us(&self, instance: &Instance, busy: f64, c: &Calibration) -> f64 {
        let whole =
            self.schedule.streamed == 0 && (self.rounds > 1 || TWO_FIT_BUSY.contains(&busy));
        let streams = whole && self.bytes_us > self.busiest_us();
        match instance.two_fit() {
            false => 0.0,
            true if streams => -c.two_fit_gain_us,
            true => c.two_fit_loss_us,
        }
    }

    /// Whether the grid is throttled ([`pipeline::grid::Throttle`]): its CTAs compute several long tiles,
    /// and the operands exceed the L2 cache.
    pub fn throttled(&self) -> bool {
        let tile = self.k_tiles as f64 * self.k_tile_us;
        self.rounds > 1 && tile >= THROTTLED_TILE_US && self.beyond_l2
    }

    /// K tiles of its first tile that a CTA prefetches into L2 while the primary grid still runs, on a
    /// device of `sms` SMs. Prefetch pays in two cases: the grid leaves half of the SMs free, so that the
    /// next one starts early; or memory decides the time.
    pub fn prefetch(&self, sms: u32) -> u32 {
        let room = 2 * self.ctas <= u64::from(sms);
        let memory = self.bytes_us >= PREFETCH_MEMORY * self.busiest_us();
        if room || memory { PREFETCH_BYTES / self.stage_bytes } else { 0 }
    }

    /// K tiles of the busiest cluster.
    fn busiest(&self) -> u64 {
        self.rounds * self.k_tiles + self.run
    }

    /// Orders by time, then by the number of split tiles.
    fn order(&self, other: &Self) -> Ordering {
        let time = self.predicted_us.total_cmp(&other.predicted_us);
        time.then(self.schedule.streamed.cmp(&other.schedule.streamed))
    }

    /// Utilisation of the clusters: k tiles over the k tiles that all clusters could compute while the
    /// busiest one does. It is 1 if no cluster waits for the busiest one.
    pub fn filled(&self) -> f64 {
        let room = u64::from(self.schedule.clusters) * self.busiest();
        (self.cluster_tiles * self.k_tiles) as f64 / room.max(1) as f64
    }
}

fn pingpong(instance: &Instance) -> bool {
    instance.kernel_schedule == KernelSchedule::Pingpong
}

/// K tiles of a tile. An empty K counts as one k tile of zeros.
fn k_tiles(instance: &Instance, k: u64) -> u64 {
    k.div_ceil(u64::from(instance.bk)).max(1)
}

/// How the rows of the TMA boxes of A and B, 128 bytes each, lie in the L2 cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// Each in one line.
    WholeLines,
    /// In two lines, four sectors of 32 bytes.
    WholeSectors,
    /// In two lines, five sectors.
    PartialSectors,
}

impl Rows {
    fn of(problem: &GemmProblem) -> Self {
        match problem.k * problem.ab.size() as u64 {
            bytes if bytes.is_multiple_of(LINE_BYTES) => Self::WholeLines,
            bytes if bytes.is_multiple_of(SECTOR_BYTES) => Self::WholeSectors,
            _ => Self::PartialSectors,
        }
    }
}

/// How often the CTAs of a cluster double: 0 for one CTA, 1 for two, 2 for four.
fn doublings(instance: &Instance) -> f64 {
    f64::from((instance.cluster_m * instance.cluster_n).ilog2())
}

/// Time of one k tile of the main loop when `clusters` clusters run. The tensor cores, the L2 cache and
/// the path into the SM work concurrently; the slowest decides.
fn k_tile_us(instance: &Instance, problem: &GemmProblem, clusters: u64, c: &Calibration) -> f64 {
    let i = instance;
    let bytes = f64::from(i.bk) * problem.ab.size() as f64;
    let (m, n) = sides(i, problem);
    let larger = |rows: f64| 1.0 + c.larger_operand * rows / (m + n);
    // Multicast: each CTA loads its part of the rows and receives all of them.
    let a = f64::from(i.bm) / f64::from(i.cluster_n) * bytes * larger(m);
    let b = f64::from(i.bn) / f64::from(i.cluster_m) * bytes * larger(n);
    let ctas = clusters as f64 * f64::from(i.cluster_m * i.cluster_n);
    let mma = c.mma_us_per_element * f64::from(i.bm * i.bn) * f64::from(i.bk) / 64.0;
    let l2_rate = match Rows::of(problem) {
        Rows::WholeLines => c.l2_bytes_per_us,
        Rows::WholeSectors => c.l2_bytes_per_us_two_lines,
        Rows::PartialSectors => c.l2_bytes_per_us_partial_sectors,
    };
    let l2 = ctas * (a + b) / l2_rate;
    // Each warp group reads its own rows of A, and all of B.
    let read = f64::from(i.bm + i.groups * i.bn);
    let sm = (f64::from(i.bm + i.bn) + c.smem_reads * read) * bytes / c.sm_bytes_per_us;
    let issue = match (i.kernel_schedule, i.groups) {
        (KernelSchedule::Pingpong, _) => c.k_tile_pingpong_us,
        (KernelSchedule::Cooperative, 1) => c.k_tile_one_group_us,
        (KernelSchedule::Cooperative | KernelSchedule::SplitN, _) => c.k_tile_us,
    };
    issue
        + c.cluster_k_tile_us * doublings(i)
        + (mma.powi(4) + l2.powi(4) + sm.powi(4)).sqrt().sqrt()
}

/// Time that a k tile loses to rows of its TMA boxes outside of a tensor smaller than one tile.
fn outside_us(instance: &Instance, problem: &GemmProblem, c: &Calibration) -> f64 {
    let (m, n) = sides(instance, problem);
    let outside = |tile: u32, side: f64| (f64::from(tile) - side - c.outside_free).max(0.0);
    c.outside_us * (outside(instance.bm, m) + outside(instance.bn, n))
}

/// Clusters of `size` CTAs that a device of `sms` SMs holds. A GPC has 16 or 18 SMs, so clusters of more
/// than two CTAs leave some SMs idle. (The launch asks the driver.)
fn resident(sms: u32, size: u32) -> u64 {
    u64::from(if size > 2 { sms * 10 / 11 / size } else { sms / size })
}

/// Most clusters that store partials for the one that finishes a split tile.
fn contributors(clusters: u64, streamed: u64) -> u64 {
    if streamed == 0 {
        return 0;
    }
    let uneven = clusters > streamed && !clusters.is_multiple_of(streamed);
    (clusters.div_ceil(streamed) - 1 + u64::from(uneven)).max(1)
}

/// Bytes of A and B read from memory, and of D written. An operand is read once if one row or one
/// column of cluster tiles covers D.
fn bytes_from_memory(tiling: &Tiling, problem: &GemmProblem, c: &Calibration) -> f64 {
    let (rows, columns) = if tiling.swap_ab { ('B', 'A') } else { ('A', 'B') };
    let again = |operand, others: u64| {
        problem.bytes(operand) as f64 * if others > 1 { 1.0 + c.read_again } else { 1.0 }
    };
    again(rows, tiling.clusters_n) + again(columns, tiling.clusters_m) + problem.bytes('D') as f64
}

/// Bytes of A and B that the clusters load in `k_tiles` k tiles. With multicast, each row of a cluster
/// tile is loaded once. Loads that miss L2 come from memory.
fn fetched_bytes(instance: &Instance, k_tiles: u64, problem: &GemmProblem) -> u64 {
    let i = instance;
    let rows = u64::from(i.bm * i.cluster_m) + u64::from(i.bn * i.cluster_n);
    k_tiles * rows * u64::from(i.bk) * problem.ab.size() as u64
}

/// Time that the power limit imposes on `flops` operations and `fetched` bytes.
fn power_us(flops: f64, fetched: f64) -> f64 {
    let us = flops / POWER_FLOPS_PER_US;
    if us < HELD_US { us } else { us + fetched / POWER_BYTES_PER_US }
}

/// Rows and columns of the product as the instance sees it.
fn sides(instance: &Instance, problem: &GemmProblem) -> (f64, f64) {
    let (m, n) = (problem.m as f64, problem.n as f64);
    if instance.swap_ab { (n, m) } else { (m, n) }
}

/// The schedules of an instance that are worth trying on a device that holds `active` of its clusters.
pub(super) fn schedules(
    instance: &Instance,
    problem: &GemmProblem,
    active: u64,
) -> impl Iterator<Item = Prediction> {
    let (tiling, problem) = (Tiling::new(instance, problem.m, problem.n), *problem);
    let k_tiles = k_tiles(instance, problem.k);
    Schedule::worth_trying(instance.splits_k, tiling.clusters(), k_tiles, active.max(1))
        .map(move |s| Prediction::new(instance, &tiling, &problem, s, active, &Calibration::H200))
}

/// Predicts `problem` with an instance and a schedule on `sms` SMs of a GPU with this calibration.
pub fn predict(
    instance: &Instance,
    problem: &GemmProblem,
    schedule: Schedule,
    sms: u32,
    calibration: &Calibration,
) -> Prediction {
    let tiling = Tiling::new(instance, problem.m, problem.n);
    let active = resident(sms, instance.cluster_m * instance.cluster_n);
    Prediction::new(instance, &tiling, problem, schedule, active, calibration)
}

/// The schedule with the shortest predicted time; among equals the one with the fewest split tiles.
pub(super) fn schedule(instance: &Instance, problem: &GemmProblem, active: u64) -> Schedule {
    schedules(instance, problem, active)
        .min_by(Prediction::order)
        .expect("the data-parallel schedule is always among them")
        .schedule
}

/// An instance with a schedule, and its predicted time for a problem.
#[derive(Clone, Copy)]
pub struct Candidate<'t> {
    /// Row of the table.
    pub index: usize,
    /// The row.
    pub instance: &'t Instance,
    /// The schedule and its predicted time.
    pub prediction: Prediction,
}

impl Candidate<'_> {
    /// Orders by time; then the larger cluster (more multicast), the ring with more stages and the
    /// schedule with fewer split tiles come first.
    pub fn order(&self, other: &Self) -> Ordering {
        let second = |i: &Instance| (i.cluster_m * i.cluster_n, i.stages);
        let time = self.prediction.predicted_us.total_cmp(&other.prediction.predicted_us);
        time.then_with(|| second(other.instance).cmp(&second(self.instance)))
            .then_with(|| self.prediction.order(&other.prediction))
    }

    /// Bytes of A and B that the clusters load.
    pub fn fetched_bytes(&self, problem: &GemmProblem) -> u64 {
        let p = &self.prediction;
        fetched_bytes(self.instance, p.cluster_tiles * p.k_tiles, problem)
    }
}

/// The instances of a table that compute `problem` (with C if `c`) on `sms` SMs, in the table's order,
/// each with every schedule that is worth trying.
pub fn candidates<'t>(
    table: &'t [Instance],
    problem: &'t GemmProblem,
    c: bool,
    sms: u32,
) -> impl Iterator<Item = Candidate<'t>> {
    // An instance whose cluster does not fit on the device is not a candidate.
    let room = move |i: &Instance| resident(sms, i.cluster_m * i.cluster_n);
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
