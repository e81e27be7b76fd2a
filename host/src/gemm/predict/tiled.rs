//! A product tiled by an instance: what of a prediction does not depend on the schedule, above all the time of a k tile.

use super::memory::{Rows, bytes_from_memory, fetched_bytes, power_us};
use super::{Prediction, longest, pingpong};
use crate::gemm::calibration::*;
use crate::gemm::pick::{Schedule, Tiling};
use crate::gemm::{GemmProblem, HardwareInfo};
use gpu_kernels::gemm::output::swapped_columns;
use gpu_kernels::gemm::{Instance, KernelSchedule};

/// Time that an activation adds to an epilogue, for each element of the tile. GELU takes two operations of the SM's special
/// function units (`ex2` and `rcp`). On an H100, a tile of 128 x 256 took 2.7 to 3.4 µs longer with bias and GELU than with the
/// bias alone (2026-11-26, the rows of `bench --suite epilogue`).
const ACTIVATION_US_PER_ELEMENT: f64 = 9e-5;

/// K tiles of a tile. An empty K counts as one k tile of zeros.
fn k_tiles(instance: &Instance, k: u64) -> u64 {
    k.div_ceil(u64::from(instance.bk)).max(1)
}

/// A product tiled by an instance on a device: what does not depend on the schedule.
pub(crate) struct Tiled<'t> {
    pub(super) instance: &'t Instance,
    pub(super) c: &'t Calibration,
    pub tiling: Tiling,
    /// SMs of the device, and clusters that it holds.
    pub(super) sms: u32,
    pub active: u64,
    pub k_tiles: u64,
    /// Time of a k tile in the tensor cores.
    pub(super) mma_us: f64,
    /// Time of a k tile's bytes in the L2 cache, for each CTA.
    pub(super) l2_us: f64,
    /// Time of a k tile's bytes into an SM.
    pub(super) sm_us: f64,
    /// Added to each k tile.
    pub(super) issue_us: f64,
    /// Added to each k tile for each cluster.
    pub(super) outside_us: f64,
    /// Factor of the time of a k tile, and time besides the tiles, that this kernel was measured to have.
    pub(super) step: f64,
    pub(super) fixed_us: f64,
    pub(super) epilogue_us: f64,
    pub(super) bytes_us: f64,
    /// `bytes_us` with what a read loses at its start.
    pub(super) read_us: f64,
    pub(super) power_us: f64,
    pub(super) rows: Rows,
    pub(super) beyond_l2: bool,
    /// Bytes of A and B.
    pub(super) operand_bytes: f64,
}

impl<'t> Tiled<'t> {
    /// On a GPU that holds `active` clusters.
    pub fn new(
        instance: &'t Instance,
        problem: &GemmProblem,
        HardwareInfo { sms, calibration }: HardwareInfo,
        active: u64,
    ) -> Self {
        Self::with(instance, problem, (sms, active), calibration)
    }

    /// The same with any calibration.
    pub fn with(
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
            (false, KernelSchedule::SplitN | KernelSchedule::CooperativeByColumns) => {
                i.bn / 2 % columns
            }
            (false, _) => i.bn % columns,
        };
        let overlap_us = if epilogue_tile == 0 { 0.0 } else { c.epilogue_overlap_us };
        // One warp group writes 64 rows in the time in which two write 128.
        let stored = if pingpong(i) { c.epilogue_pingpong * stored } else { stored };
        let activation_us = match (i.activates, i.gated) {
            (false, _) => 0.0,
            (true, gated) => {
                let part = if gated { 0.5 } else { 1.0 };
                part * ACTIVATION_US_PER_ELEMENT * f64::from(i.bm * i.bn)
            }
        };
        let (step, fixed_us) = c.of_kernel(i);
        let (mma, power) = c.of_operands(i);
        // The clusters of a row of cluster tiles share rows of the instance's A, and those of a column rows of its B.
        let Tiling { clusters_m, clusters_n, swap_ab, .. } = tiling;
        let shared_by = if swap_ab { [clusters_m, clusters_n] } else { [clusters_n, clusters_m] };
        let bytes_us = bytes_from_memory(shared_by, i, problem, c) / c.memory_bytes_per_us;
        let slow_us = c.memory_slow_us * bytes_us / (bytes_us + c.memory_half_slow_us);
        Self {
            instance,
            c,
            tiling,
            sms,
            active,
            k_tiles,
            // 64 columns of 16 bits take as long as 128 of 8 bits.
            mma_us: mma * c.mma_us_per_element * f64::from(i.bm * i.bn) * bytes / 128.0,
            l2_us: (a + b) / l2_rate,
            sm_us: (f64::from(i.bm + i.bn) * bytes + c.requested * own) / c.sm_bytes_per_us
                * into_sm,
            issue_us,
            outside_us: c.row_outside_us * outside,
            step,
            fixed_us,
            epilogue_us: c.epilogue_us
                + c.epilogue_us_per_element * stored
                + overlap_us
                + activation_us,
            bytes_us,
            read_us: c.memory_us + bytes_us + slow_us,
            // With a factor of 1, a multiplication of 8 bits takes half the energy of one of 16.
            power_us: power_us(
                power * problem.flops() * problem.ab.size() as f64 / 2.0,
                fetched_bytes(i, tiling.clusters() * k_tiles) as f64,
                c,
            ),
            rows,
            beyond_l2: problem.bytes('A') + problem.bytes('B') > L2_BYTES,
            operand_bytes: (problem.bytes('A') + problem.bytes('B')) as f64,
        }
    }

    /// Time of one k tile of the main loop. The tensor cores, the L2 cache and the path into the SM work
    /// concurrently; the slowest decides.
    pub(super) fn k_tile_us(&self, clusters: u64, ctas: u64) -> f64 {
        let pair = if self.shares_pairs(ctas) { self.c.shared_pair } else { 1.0 };
        let longest = longest([self.mma_us, ctas as f64 * self.l2_us, self.sm_us * pair]);
        self.step * (self.issue_us + longest + clusters as f64 * self.outside_us)
    }

    /// Time of what memory delivers once more, because clusters that share rows of A and B are at other k tiles: runs of
    /// split tiles begin anywhere if there are not equally many to a tile. What L2 holds is there for all.
    pub(super) fn out_of_step_us(&self, schedule: Schedule) -> f64 {
        let Schedule { clusters, streamed } = schedule;
        if streamed == 0 || clusters.is_multiple_of(streamed) {
            return 0.0;
        }
        let loaded = fetched_bytes(self.instance, u64::from(streamed) * self.k_tiles) as f64;
        let beyond = (1.0 - self.c.shared_l2_bytes / self.operand_bytes).max(0.0);
        let again = (loaded - self.operand_bytes).max(0.0) * beyond;
        again / self.c.memory_bytes_per_us
    }

    /// Time of what memory delivers once more because clusters drift apart over a long K: measured where rows straddle
    /// sectors, and used only there. The larger a cluster, the fewer of them there are, and its CTAs stay together.
    pub(super) fn drift_us(&self) -> f64 {
        let (i, c) = (self.instance, self.c);
        if self.rows != Rows::PartialSectors {
            return 0.0;
        }
        let loaded = fetched_bytes(i, self.tiling.clusters() * self.k_tiles) as f64;
        let again = (loaded - self.operand_bytes).max(0.0) / f64::from(i.cluster_m * i.cluster_n);
        let beyond = (1.0 - c.drifted_l2_bytes / self.operand_bytes).max(0.0);
        let groups = if pingpong(i) { c.drifted_pingpong } else { 1.0 };
        c.drifted * groups * beyond * again / c.memory_bytes_per_us
    }

    /// Time that loads save behind an epilogue: k tiles of a full ring wait for the tensor cores alone.
    pub(super) fn prefetched_us(&self, k_tile_us: f64) -> f64 {
        let waits = (k_tile_us - self.issue_us - self.mma_us).max(0.0);
        let ring = self.k_tiles.min(u64::from(self.instance.stages));
        self.epilogue_us.min(ring as f64 * waits)
    }

    /// Time that an epilogue adds to the main loop that runs beside it, with ping-pong: its stores pass where the loads do.
    /// Nothing is lost while the tensor cores decide.
    pub(super) fn contended_us(&self, k_tile_us: f64) -> f64 {
        let waits = (k_tile_us - self.issue_us - self.mma_us).max(0.0);
        let beside = self.epilogue_us.min(self.k_tiles as f64 * k_tile_us);
        self.c.epilogue_contends * beside * waits / k_tile_us
    }

    /// Whether a grid of `ctas` CTAs occupies both SMs of some pair (TPC). A grid's first CTAs each get a pair of their
    /// own. A grid that leaves one SM of each pair free also has room beside it for the dependent grid.
    pub(super) fn shares_pairs(&self, ctas: u64) -> bool {
        let i = self.instance;
        2 * ctas > self.active * u64::from(i.cluster_m * i.cluster_n)
    }

    /// Time of the busiest cluster with `k_tiles` k tiles, at the least: it has the start, and one whole epilogue.
    fn least_busiest_us(&self, k_tiles: u64) -> f64 {
        let k_tile_us = self.step * (self.issue_us + self.mma_us.max(self.sm_us));
        let start_us = self.fixed_us + self.c.memory_not_hidden * self.bytes_us;
        (start_us + k_tiles as f64 * k_tile_us + self.epilogue_us).max(0.0)
    }

    /// The least of what a launch takes.
    fn least_launch_us(&self) -> f64 {
        let gain_us = if self.instance.two_fit() { self.c.two_fit_gain_us } else { 0.0 };
        self.c.launch_us - gain_us
    }

    /// No schedule takes less time than this.
    pub fn least_us(&self) -> f64 {
        let k_tiles = self.tiling.clusters() * self.k_tiles / self.active.max(1);
        let busiest_us = self.least_busiest_us(k_tiles);
        longest([self.power_us, self.read_us, busiest_us]) + self.least_launch_us()
    }

    /// Whether a schedule surely takes more time than this, by what its busiest cluster multiplies.
    pub fn exceeds(&self, schedule: Schedule, us: f64) -> bool {
        let Schedule { clusters, streamed } = schedule;
        let (clusters, streamed) = (u64::from(clusters).max(1), u64::from(streamed));
        let rounds = self.tiling.clusters().saturating_sub(streamed).div_ceil(clusters);
        let k_tiles = rounds * self.k_tiles + (streamed * self.k_tiles).div_ceil(clusters);
        self.least_busiest_us(k_tiles) + self.least_launch_us() > us
    }

    /// The schedules that are worth trying.
    pub fn worth_trying(&self) -> impl Iterator<Item = Schedule> + use<> {
        let splits_k = self.instance.splits_k;
        let (tiles, active) = (self.tiling.clusters(), self.active.max(1));
        Schedule::worth_trying(splits_k, tiles, self.k_tiles, active)
    }

    /// Their predictions.
    pub fn schedules(&self) -> impl Iterator<Item = Prediction> + use<'_, 't> {
        self.worth_trying().map(|schedule| Prediction::new(self, schedule))
    }
}

/// Rows and columns of the product as the instance sees it.
fn sides(instance: &Instance, problem: &GemmProblem) -> (f64, f64) {
    let (m, n) = (problem.m as f64, problem.n as f64);
    if instance.swap_ab { (n, m) } else { (m, n) }
}
