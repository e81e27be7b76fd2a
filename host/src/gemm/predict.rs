//! Predicted time of a product with an instance and a schedule, term by term.
//!
//! ```text
//! launch + the longest of { start + whole tiles + run + epilogues + fix-up, memory, power }
//! ```
//! - The first of the three is the time of the busiest cluster. After its first loads it computes `rounds`
//!   data-parallel tiles of `k_tiles` k tiles each; then its run of the split tiles' k tiles; then the epilogue of
//!   each tile that it finishes; and it loads and reduces the partials of other clusters.
//! - `memory` is the time to read the operands from memory and to write the result. A short read does not reach the
//!   full rate, and memory is idle while partials are reduced, unless the dependent grid already prefetches.
//! - `power` is the time in which the power limit lets the tensor cores do the multiplications.
//!
//! "The longest" is a smooth maximum, the fourth root of the sum of fourth powers: where two of the three
//! are equal, neither hides all of the other.

use super::GemmProblem;
use super::calibration::*;
use super::pick::{Schedule, Tiling, fits};
use gpu_kernels::gemm::output::swapped_columns;
use gpu_kernels::gemm::{Instance, KernelSchedule};
use pipeline::grid::Partials;
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
    /// Until the first tiles have come from memory, with the kernel's own part of it
    /// ([`KernelTimes`](super::KernelTimes)); so it may be below 0.
    pub start_us: f64,
    /// One k tile.
    pub k_tile_us: f64,
    /// One epilogue.
    pub epilogue_us: f64,
    /// What a cluster's later tiles save of each epilogue: their first stages are loaded meanwhile.
    pub prefetched_us: f64,
    /// Whether the next tile's main loop hides the epilogue.
    pub pingpong: bool,
    /// Stream-K fix-up: other clusters' partials are loaded and reduced. 0 if no tile is split.
    pub fixup_us: f64,
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
    /// Whether several clusters load each tile of A, and of B.
    pub shared: bool,
}

impl Prediction {
    /// Predicts the product with a schedule.
    pub(super) fn new(product: &Tiled<'_>, schedule: Schedule) -> Self {
        let Tiled { instance: i, tiling, c, k_tiles, bytes_us, .. } = *product;
        let (clusters, streamed) =
            (u64::from(schedule.clusters).max(1), u64::from(schedule.streamed));
        let ctas = clusters * u64::from(i.cluster_m * i.cluster_n);
        let busy = (clusters as f64 / product.active.max(1) as f64).min(1.0);
        let crowded = product.shares_pairs(ctas);
        let elements = f64::from(i.bm * i.bn);
        let givers = givers(clusters, streamed, k_tiles);
        let fixup_us = match givers {
            0 => 0.0,
            n => {
                let n = f64::from(n);
                c.fixup_us
                    + c.fixup_round_us * (n / loaded_together(i)).ceil()
                    + elements * (c.fixup_store_us_per_element + c.fixup_load_us_per_element * n)
                    + ctas as f64 * elements * c.fixup_traffic_us_per_element
            }
        };
        // Memory's part of the fix-up, and what it loses to few readers.
        let (of_memory, few_us) = match (product.rows, givers) {
            (Rows::WholeLines, 0) => (0.0, c.few_ctas_us * (1.0 - busy)),
            // Where a twin of this grid has room beside it, it runs there already.
            (Rows::WholeLines, 1) if crowded => {
                let left = (2.0 - 2.0 * streamed as f64 / clusters as f64).clamp(0.0, 1.0);
                (c.fixup_of_memory + (c.fixup_of_memory_left - c.fixup_of_memory) * left, 0.0)
            }
            _ => (c.fixup_of_memory, 0.0),
        };
        let cluster_tiles = tiling.clusters();
        let k_tile_us = product.k_tile_us(clusters, ctas);
        let mut prediction = Self {
            schedule,
            predicted_us: 0.0,
            tiles: tiling.tiles,
            cluster_tiles,
            k_tiles,
            rounds: cluster_tiles.saturating_sub(streamed).div_ceil(clusters),
            run: (streamed * k_tiles).div_ceil(clusters),
            finished: streamed.div_ceil(clusters),
            launch_us: c.launch_us + if crowded { c.crowded_us } else { 0.0 },
            start_us: product.fixed_us + c.memory_not_hidden * bytes_us,
            k_tile_us,
            epilogue_us: product.epilogue_us,
            prefetched_us: product.prefetched_us(k_tile_us),
            pingpong: pingpong(i),
            fixup_us,
            memory_us: product.read_us
                + few_us
                + fixup_us * of_memory
                + product.out_of_step_us(schedule),
            bytes_us,
            power_us: product.power_us
                * (f64::from(product.sms) / ctas as f64).max(1.0).powf(POWER_OF_SMS),
            ctas,
            stage_bytes: i.stage_bytes,
            beyond_l2: product.beyond_l2,
            shared: tiling.clusters_m.min(tiling.clusters_n) > 1,
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
        self.run as f64 * self.k_tile_us
    }

    /// The exposed part of the epilogues, of data-parallel and of split tiles.
    pub fn epilogues_us(&self) -> f64 {
        if self.pingpong {
            // While one warp group computes and stores a tile, the other one computes a tile.
            let main_loop = self.k_tiles as f64 * self.k_tile_us;
            let exposed = (self.epilogue_us - main_loop).max(0.0) / 2.0;
            return self.epilogue_us + self.rounds.saturating_sub(1) as f64 * exposed;
        }
        let later = (self.rounds + u64::from(self.schedule.streamed > 0)).saturating_sub(1);
        (self.rounds + self.finished) as f64 * self.epilogue_us - later as f64 * self.prefetched_us
    }

    /// Time of the busiest cluster.
    pub fn busiest_us(&self) -> f64 {
        let main_loop = self.whole_us() + self.run_us();
        (self.start_us + main_loop + self.epilogues_us() + self.fixup_us).max(0.0)
    }

    /// The smooth maximum of the three concurrent terms, and the launch.
    fn total_us(&self) -> f64 {
        self.launch_us + longest([self.busiest_us(), self.memory_us, self.power_us])
    }

    /// Penalty or gain when two CTAs fit on an SM. `busy` is the fraction of the device that is occupied. There is a gain
    /// only where memory decides: the dependent grid's CTAs, which have room beside these, read ahead from memory. Operands
    /// that stay in the L2 cache need no reading ahead.
    fn two_fit_us(&self, instance: &Instance, busy: f64, c: &Calibration) -> f64 {
        let whole =
            self.schedule.streamed == 0 && (self.rounds > 1 || TWO_FIT_BUSY.contains(&busy));
        let streams = whole && self.beyond_l2 && self.bytes_us > self.busiest_us();
        match instance.two_fit() {
            false => 0.0,
            true if streams => -c.two_fit_gain_us,
            true => c.two_fit_loss_us,
        }
    }

    /// Whether the grid is throttled ([`pipeline::grid::Throttle`]): its CTAs compute several long tiles,
    /// and load what others have loaded, and the operands exceed the L2 cache.
    pub fn throttled(&self) -> bool {
        let tile = self.k_tiles as f64 * self.k_tile_us;
        self.rounds > 1 && tile >= THROTTLED_TILE_US && self.beyond_l2 && self.shared
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
    TwoLines,
    /// In two lines, five sectors.
    PartialSectors,
}

impl Rows {
    fn of(problem: &GemmProblem) -> Self {
        match problem.k * problem.ab.size() as u64 {
            bytes if bytes.is_multiple_of(LINE_BYTES) => Self::WholeLines,
            bytes if bytes.is_multiple_of(SECTOR_BYTES) => Self::TwoLines,
            _ => Self::PartialSectors,
        }
    }
}

/// A product tiled by an instance on a device: what does not depend on the schedule.
pub(super) struct Tiled<'t> {
    instance: &'t Instance,
    c: &'t Calibration,
    pub tiling: Tiling,
    /// SMs of the device, and clusters that it holds.
    sms: u32,
    pub active: u64,
    pub k_tiles: u64,
    /// Time of a k tile in the tensor cores.
    mma_us: f64,
    /// Time of a k tile's bytes in the L2 cache, for each CTA.
    l2_us: f64,
    /// Time of a k tile's bytes into an SM.
    sm_us: f64,
    /// Added to each k tile.
    issue_us: f64,
    /// Added to each k tile for each cluster.
    outside_us: f64,
    /// Factor of the time of a k tile, and time besides the tiles, that this kernel was measured to have.
    step: f64,
    fixed_us: f64,
    epilogue_us: f64,
    bytes_us: f64,
    /// `bytes_us` with what a read loses at its start.
    read_us: f64,
    power_us: f64,
    rows: Rows,
    beyond_l2: bool,
    /// Bytes of A and B.
    operand_bytes: f64,
}

impl<'t> Tiled<'t> {
    pub fn new(
        instance: &'t Instance,
        problem: &GemmProblem,
        (sms, active): (u32, u64),
        c: &'t Calibration,
    ) -> Self {
        let (i, rows) = (instance, Rows::of(problem));
        let (tiling, k_tiles) = (Tiling::new(i, problem.m, problem.n), k_tiles(i, problem.k));
        let (m, n) = sides(i, problem);
        let bytes = f64::from(i.bk) * problem.ab.size() as f64;
        let larger = |rows: f64| 1.0 + c.larger_operand * rows / (m + n);
        // Multicast: each CTA loads its part of the rows and receives all of them.
        let a = f64::from(i.bm) / f64::from(i.cluster_n) * bytes * larger(m);
        let b = f64::from(i.bn) / f64::from(i.cluster_m) * bytes * larger(n);
        let own = (f64::from(i.bm) / f64::from(i.cluster_n)
            + f64::from(i.bn) / f64::from(i.cluster_m))
            * bytes;
        let (l2_rate, into_sm) = match rows {
            Rows::WholeLines => (c.l2_bytes_per_us, 1.0),
            Rows::TwoLines => (c.l2_bytes_per_us_two_lines, c.two_lines_into_sm),
            Rows::PartialSectors => (c.l2_bytes_per_us_partial_sectors, c.partial_sectors_into_sm),
        };
        let issue_us = match (i.kernel_schedule, i.groups) {
            (KernelSchedule::Pingpong, _) => c.k_tile_pingpong_us,
            (_, 1) => c.k_tile_one_group_us,
            (_, 3..) => c.k_tile_three_groups_us,
            _ => c.k_tile_us,
        };
        let padding = |tile: u32, cluster: u32, tiles: u64, side: f64| {
            f64::from(tile * cluster) - side / tiles.max(1) as f64
        };
        let outside = padding(i.bm, i.cluster_m, tiling.clusters_m, m)
            + padding(i.bn, i.cluster_n, tiling.clusters_n, n);
        // Epilogue tiles have rows of 64 columns, or of 128 bytes, and are stored whole.
        let columns = (128 / problem.out.size() as u32).min(64);
        let stored = if i.swap_ab {
            let tile = swapped_columns(i.bn as usize) as u32;
            c.epilogue_swapped * f64::from(i.bm * i.bn.next_multiple_of(tile))
        } else {
            f64::from(i.bm * i.bn.next_multiple_of(columns))
        };
        // If the epilogue tiles don't divide the tile, two of them overlap, and one waits until the other one is written.
        let epilogue_tile = match (i.swap_ab, i.kernel_schedule) {
            (true, _) => i.bn % swapped_columns(i.bn as usize) as u32,
            (false, KernelSchedule::SplitN) => i.bn / 2 % columns,
            (false, _) => i.bn % columns,
        };
        let overlap_us = if epilogue_tile == 0 { 0.0 } else { c.epilogue_overlap_us };
        // One warp group writes 64 rows in the time in which two write 128.
        let stored = if pingpong(i) { 2.0 * stored } else { stored };
        let (step, fixed_us) = c.of_kernel(i);
        let bytes_us = bytes_from_memory(&tiling, i.gated, problem, c) / c.memory_bytes_per_us;
        let slow_us = c.memory_slow_us * bytes_us / (bytes_us + c.memory_half_slow_us);
        Self {
            instance,
            c,
            tiling,
            sms,
            active,
            k_tiles,
            // 64 columns of 16 bits take as long as 128 of 8 bits.
            mma_us: c.mma_us_per_element * f64::from(i.bm * i.bn) * bytes / 128.0,
            l2_us: (a + b) / l2_rate,
            sm_us: (f64::from(i.bm + i.bn) * bytes + c.requested * own) / c.sm_bytes_per_us
                * into_sm,
            issue_us,
            outside_us: c.row_outside_us * outside,
            step,
            fixed_us,
            epilogue_us: c.epilogue_us + c.epilogue_us_per_element * stored + overlap_us,
            bytes_us,
            read_us: c.memory_us + bytes_us + slow_us,
            // A multiplication of 8 bits takes about half the energy of one of 16.
            power_us: power_us(
                problem.flops() * problem.ab.size() as f64 / 2.0,
                fetched_bytes(i, tiling.clusters() * k_tiles) as f64,
            ),
            rows,
            beyond_l2: problem.bytes('A') + problem.bytes('B') > L2_BYTES,
            operand_bytes: (problem.bytes('A') + problem.bytes('B')) as f64,
        }
    }

    /// Time of one k tile of the main loop. The tensor cores, the L2 cache and the path into the SM work
    /// concurrently; the slowest decides.
    fn k_tile_us(&self, clusters: u64, ctas: u64) -> f64 {
        let pair = if self.shares_pairs(ctas) { self.c.shared_pair } else { 1.0 };
        let longest = longest([self.mma_us, ctas as f64 * self.l2_us, self.sm_us * pair]);
        self.step * (self.issue_us + longest + clusters as f64 * self.outside_us)
    }

    /// Time of what memory delivers once more, because clusters that share rows of A and B are at other k tiles: runs of
    /// split tiles begin anywhere if there are not equally many to a tile. What L2 holds is there for all.
    fn out_of_step_us(&self, schedule: Schedule) -> f64 {
        let Schedule { clusters, streamed } = schedule;
        if streamed == 0 || clusters.is_multiple_of(streamed) {
            return 0.0;
        }
        let loaded = fetched_bytes(self.instance, u64::from(streamed) * self.k_tiles) as f64;
        let beyond = (1.0 - self.c.shared_l2_bytes / self.operand_bytes).max(0.0);
        let again = (loaded - self.operand_bytes).max(0.0) * beyond;
        self.c.out_of_step * again / self.c.memory_bytes_per_us
    }

    /// Time that loads save behind an epilogue: k tiles of a full ring wait for the tensor cores alone.
    fn prefetched_us(&self, k_tile_us: f64) -> f64 {
        let waits = (k_tile_us - self.issue_us - self.mma_us).max(0.0);
        let ring = self.k_tiles.min(u64::from(self.instance.stages));
        self.epilogue_us.min(ring as f64 * waits)
    }

    /// Whether a grid of `ctas` CTAs occupies both SMs of some pair (TPC). A grid's first CTAs each get a pair of their
    /// own. A grid that leaves one SM of each pair free also has room beside it for the dependent grid.
    fn shares_pairs(&self, ctas: u64) -> bool {
        let i = self.instance;
        2 * ctas > self.active * u64::from(i.cluster_m * i.cluster_n)
    }

    /// No schedule takes less time than this.
    pub fn least_us(&self) -> f64 {
        let k_tile_us = self.step * (self.issue_us + self.mma_us.max(self.sm_us));
        let k_tiles = self.tiling.clusters() * self.k_tiles / self.active.max(1);
        let busiest_us = k_tiles as f64 * k_tile_us + self.fixed_us;
        let gain_us = if self.instance.two_fit() { self.c.two_fit_gain_us } else { 0.0 };
        self.power_us.max(self.read_us).max(busiest_us) + self.c.launch_us - gain_us
    }

    /// The predictions of all schedules that are worth trying.
    pub fn schedules(&self) -> impl Iterator<Item = Prediction> + use<'_, 't> {
        let splits_k = self.instance.splits_k;
        let (tiles, active) = (self.tiling.clusters(), self.active.max(1));
        Schedule::worth_trying(splits_k, tiles, self.k_tiles, active)
            .map(|schedule| Prediction::new(self, schedule))
    }
}

/// The fourth root of the sum of fourth powers.
pub(super) fn longest(times: [f64; 3]) -> f64 {
    times.map(|x| (x * x) * (x * x)).iter().sum::<f64>().sqrt().sqrt()
}

/// Clusters of `size` CTAs that a device of `sms` SMs holds. A GPC has 16 or 18 SMs, so clusters of more
/// than two CTAs leave some SMs idle. (The launch asks the driver.)
fn resident(sms: u32, size: u32) -> u64 {
    u64::from(if size > 2 { sms * 10 / 11 / size } else { sms / size })
}

/// Partials of a tile that the kernel loads together.
fn loaded_together(i: &Instance) -> f64 {
    let columns = if i.kernel_schedule == KernelSchedule::SplitN { i.bn / 2 } else { i.bn };
    Partials::together(columns as usize) as f64
}

/// Most clusters that store partials for the one that finishes a tile, where `clusters` clusters have equal runs of the
/// k tiles of `streamed` tiles (`gpu_kernels::gemm::scheduler::StreamK`).
///
/// A run that begins inside a tile gives to that tile and may begin the next one. So a tile of which n runs would have
/// equal parts may have n - 1 givers, or n where runs do not begin with tiles.
fn givers(clusters: u64, streamed: u64, k_tiles: u64) -> u32 {
    let small = |number: u64| u32::try_from(number).ok();
    let (Some(clusters), Some(streamed), Some(k_tiles), Some(all)) =
        (small(clusters), small(streamed), small(k_tiles), small(streamed.saturating_mul(k_tiles)))
    else {
        // No kernel has so many k tiles.
        return u32::MAX;
    };
    let runs = clusters.min(all);
    if runs == 0 {
        return 0;
    }
    // The first `longer` runs have one extra k tile.
    let (run, longer) = (all / runs, all % runs);
    let beyond = longer * (run + 1);
    let of = |k_tile: u32| {
        if k_tile < beyond { k_tile / (run + 1) } else { longer + (k_tile - beyond) / run }
    };
    // No tile has more.
    let limit = (k_tiles - 1).div_ceil(run);
    let mut most = 0;
    for tile in 0..streamed {
        most = most.max(of((tile + 1) * k_tiles - 1) - of(tile * k_tiles));
        if most == limit {
            break;
        }
    }
    most
}

/// Bytes of A and B read from memory, and of D written, each as many as memory could read in the same time. An
/// operand is read once if one row or one column of cluster tiles covers D.
fn bytes_from_memory(tiling: &Tiling, gated: bool, problem: &GemmProblem, c: &Calibration) -> f64 {
    let (rows, columns) = if tiling.swap_ab { ('B', 'A') } else { ('A', 'B') };
    let again = |operand, others: u64| {
        problem.bytes(operand) as f64 * if others > 1 { 1.0 + c.read_again } else { 1.0 }
    };
    let halves = if gated { 2 } else { 1 };
    let row = problem.n / halves * problem.out.size() as u64;
    let partial = if row.is_multiple_of(SECTOR_BYTES) { 0.0 } else { c.written_partial_sectors };
    // A line that two tiles write goes to memory twice, if L2 has not kept it until then.
    let d = problem.bytes('D') as f64 / halves as f64;
    let evicted = (1.0 - L2_BYTES as f64 / d).max(0.0);
    let partial = if row.is_multiple_of(LINE_BYTES) {
        partial
    } else {
        partial + evicted * c.written_partial_lines_evicted
    };
    again(rows, tiling.clusters_n)
        + again(columns, tiling.clusters_m)
        + d * (1.0 + c.written + partial)
}

/// Bytes of A and B that the clusters load in `k_tiles` k tiles. With multicast, each row of a cluster
/// tile is loaded once. Loads that miss L2 come from memory.
fn fetched_bytes(instance: &Instance, k_tiles: u64) -> u64 {
    let i = instance;
    let rows = u64::from(i.bm * i.cluster_m) + u64::from(i.bn * i.cluster_n);
    k_tiles * rows * u64::from(i.bk) * i.ab.size() as u64
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

/// Predicts `problem` with an instance and a schedule on `sms` SMs of a GPU with this calibration.
pub fn predict(
    instance: &Instance,
    problem: &GemmProblem,
    schedule: Schedule,
    sms: u32,
    calibration: &Calibration,
) -> Prediction {
    let active = resident(sms, instance.cluster_m * instance.cluster_n);
    Prediction::new(&Tiled::new(instance, problem, (sms, active), calibration), schedule)
}

/// The schedule with the shortest predicted time; among equals the one with the fewest split tiles.
pub(super) fn schedule(instance: &Instance, problem: &GemmProblem, held: (u32, u64)) -> Schedule {
    Tiled::new(instance, problem, held, &Calibration::H200)
        .schedules()
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
    pub fn fetched_bytes(&self) -> u64 {
        let p = &self.prediction;
        fetched_bytes(self.instance, p.cluster_tiles * p.k_tiles)
    }
}

/// The instances of a table that compute `problem` (with C if `c`) on `sms` SMs, in the table's order.
pub(super) fn tiled<'t>(
    table: &'t [Instance],
    problem: &'t GemmProblem,
    c: bool,
    sms: u32,
) -> impl Iterator<Item = (usize, Tiled<'t>)> {
    // An instance whose cluster does not fit on the device is not a candidate.
    let room = move |i: &Instance| resident(sms, i.cluster_m * i.cluster_n);
    let fitting = table.iter().enumerate();
    let fitting = fitting.filter(move |(_, i)| fits(i, problem, c) && room(i) > 0);
    fitting
        .map(move |(index, i)| (index, Tiled::new(i, problem, (sms, room(i)), &Calibration::H200)))
}

/// The instances of a table that compute `problem` (with C if `c`) on `sms` SMs, in the table's order,
/// each with every schedule that is worth trying.
pub fn candidates<'t>(
    table: &'t [Instance],
    problem: &'t GemmProblem,
    c: bool,
    sms: u32,
) -> impl Iterator<Item = Candidate<'t>> {
    tiled(table, problem, c, sms).flat_map(|(index, tiled)| {
        let all: Vec<Prediction> = tiled.schedules().collect();
        let instance = tiled.instance;
        all.into_iter().map(move |prediction| Candidate { index, instance, prediction })
    })
}

/// The candidate with the shortest predicted time ([`Candidate::order`]).
pub(super) fn best<'t>(
    table: &'t [Instance],
    problem: &'t GemmProblem,
    c: bool,
    sms: u32,
) -> Option<Candidate<'t>> {
    // The kernels that may be fastest come first, so that soon none of the others can be.
    let tiled =
        tiled(table, problem, c, sms).map(|(index, tiled)| (tiled.least_us(), index, tiled));
    let mut all: Vec<_> = tiled.collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut best: Option<Candidate<'t>> = None;
    for (least_us, index, tiled) in &all {
        let shortest = best.as_ref().map_or(f64::INFINITY, |best| best.prediction.predicted_us);
        if *least_us > shortest {
            break;
        }
        tiled.schedules().for_each(|prediction| {
            let candidate = Candidate { index: *index, instance: tiled.instance, prediction };
            if best.as_ref().is_none_or(|best| candidate.order(best).is_lt()) {
                best = Some(candidate);
            }
        });
    }
    best
}

#[cfg(test)]
mod tests {
    use super::givers;
    use gpu_kernels::gemm::scheduler::{StreamK, TileSchedulerParams};
    use pipeline::cta::Cluster;

    /// The scheduler itself says who gives.
    #[test]
    fn givers_are_those_of_the_scheduler() {
        type Alone = Cluster<1, 1>;
        for (clusters, streamed, k_tiles) in [
            (45, 15, 98),
            (60, 15, 98),
            (66, 22, 64),
            (132, 1, 500),
            (7, 3, 2),
            (66, 65, 3),
            (4, 4, 9),
        ] {
            let p = TileSchedulerParams::new([streamed, 1], k_tiles, 1, clusters, streamed);
            let peers = |cluster| {
                let scheduler = StreamK::<Alone>::on_host(Alone::coord(0), cluster, &p);
                let works: Vec<_> = scheduler.clone().collect();
                let owned = works.iter().filter(|work| work.computes_epilogue());
                owned.map(|work| scheduler.peers(work).count).max()
            };
            let most = (0..clusters).filter_map(peers).max();
            assert_eq!(
                most,
                Some(givers(clusters.into(), streamed.into(), k_tiles.into())),
                "{clusters} {streamed} {k_tiles}"
            );
        }
        assert_eq!(givers(66, 0, 64), 0);
    }
}
