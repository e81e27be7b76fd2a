//! The main loop of an instance: its k tiles, and the times of one of them that do not depend on the schedule.

use super::memory::Traffic;
use crate::gemm::Calibration;
use crate::gemm::schedule::Tiling;
use gpu_kernels::gemm::{Instance, KernelSchedule};

/// The main loop of an instance for a product. It is quick to make, so that a pick can leave out most instances before it looks
/// at the rest of what they do.
#[derive(Clone, Copy)]
pub(crate) struct MainLoop<'t> {
    pub(super) instance: &'t Instance,
    pub tiling: Tiling,
    /// Clusters that the device holds.
    pub active: u64,
    /// K tiles of a tile. An empty K counts as one k tile of zeros.
    pub k_tiles: u64,
    /// Time of a k tile in the tensor cores.
    pub(super) mma_us: f64,
    /// Time of a k tile's bytes into an SM.
    pub(super) sm_us: f64,
    /// Time of a k tile's bytes in the L2 cache, for each CTA.
    pub(super) l2_us: f64,
    /// Added to each k tile.
    pub(super) issue_us: f64,
    /// Added to each k tile for each cluster.
    pub(super) outside_us: f64,
    /// Factor of the time of a k tile, and time besides the tiles, that this kernel was measured to have.
    pub(super) step: f64,
    pub(super) fixed_us: f64,
    /// The row of these two numbers in the calibration.
    pub(super) row: Option<usize>,
}

impl<'t> MainLoop<'t> {
    /// That of an instance, of which the device holds `active` clusters. It is inline, so that a bound finds its numbers in registers.
    #[inline(always)]
    pub(super) fn new(instance: &'t Instance, product: &Traffic<'_>, active: u64) -> Self {
        let (i, c, problem) = (instance, product.c, product.problem);
        let tiling = Tiling::new(i, problem.m, problem.n);
        let [m, n] = of_instance(i, product.sides);
        let [larger_m, larger_n] = of_instance(i, product.larger);
        let bytes = f64::from(i.bk) * product.element;
        // Multicast: each CTA loads its part of the rows and receives all of them.
        let a = f64::from(i.bm) / f64::from(i.cluster_n);
        let b = f64::from(i.bn) / f64::from(i.cluster_m);
        let padding = |tile: u32, cluster: u32, tiles: u64, side: f64| {
            f64::from(tile * cluster) - side / float(tiles.max(1))
        };
        let outside = padding(i.bm, i.cluster_m, tiling.clusters_m, m)
            + padding(i.bn, i.cluster_n, tiling.clusters_n, n);
        let issue_us = match (i.kernel_schedule, i.groups) {
            (KernelSchedule::Pingpong, _) => c.k_tile_pingpong_us,
            (_, 1) => c.k_tile_one_group_us,
            (_, 3..) => c.k_tile_three_groups_us,
            _ => c.k_tile_us,
        };
        let scaled_us = if i.scale_granularity.is_some() { c.e4m3_scales_us } else { 0.0 };
        let row = c.row_of(i);
        // A kernel that was not measured has the factor 1.
        let (step, fixed_us) = row.map_or((1.0, 0.0), |(_, times)| (times.step, times.fixed_us));
        let (mma, _) = c.of_operands(i);
        Self {
            instance,
            tiling,
            active,
            k_tiles: problem.k.div_ceil(u64::from(i.bk)).max(1),
            // 64 columns of 16 bits take as long as 128 of 8 bits.
            mma_us: mma * c.mma_us_per_element * f64::from(i.bm * i.bn) * bytes / 128.0,
            sm_us: (f64::from(i.bm + i.bn) + c.requested * (a + b)) * bytes / c.sm_bytes_per_us
                * product.into_sm,
            l2_us: (a * larger_m + b * larger_n) * bytes / product.l2_rate,
            issue_us: issue_us + scaled_us,
            outside_us: c.row_outside_us * outside,
            step,
            fixed_us,
            row: row.map(|(at, _)| at),
        }
    }

    /// No schedule takes less time than this. `longest` is [`longest`](super::longest) of three times, or a lower bound of it.
    #[inline(always)]
    pub(super) fn least_us(&self, product: &Traffic<'_>, longest: impl Fn([f64; 3]) -> f64) -> f64 {
        let c = product.c;
        let (i, tiles, active) = (self.instance, self.tiling.clusters(), self.active.max(1));
        let all = float(tiles * self.k_tiles);
        // What all clusters do together takes as long with any number of them.
        let l2_us = all * f64::from(i.cluster_m * i.cluster_n) * self.l2_us;
        // A schedule has at least as many clusters as tiles, or more than half of those that fit: so its grid shares pairs.
        let crowded = 2 * tiles > active;
        let (pair, crowded_us) = if crowded { (c.shared_pair, c.crowded_us) } else { (1.0, 0.0) };
        let sm_us = self.sm_us * pair;
        let busiest_us = |k_tiles: f64, fixup_us: f64| {
            let longest_us = longest([l2_us, k_tiles * self.mma_us, k_tiles * sm_us]);
            let main_loop_us = k_tiles * self.issue_us + longest_us + all * self.outside_us;
            self.fixed_us + product.least_start_us + self.step * main_loop_us + fixup_us
        };
        let elements = f64::from(i.bm * i.bn);
        let whole_us = busiest_us(float(tiles.div_ceil(active) * self.k_tiles), 0.0);
        let tiles_us = if i.splits_k {
            // Some tile has one giver at least.
            let partials = c.fixup_store_us_per_element + c.fixup_load_us_per_element;
            let fixup_us = c.fixup_us + c.fixup_round_us + elements * partials;
            whole_us.min(busiest_us(all / float(active), fixup_us))
        } else {
            whole_us
        };
        let epilogue_us = c.epilogue_us + product.least_element_us * elements;
        let busiest_us = (tiles_us + epilogue_us).max(0.0);
        let [read_us, power_us] = product.least_us;
        longest([busiest_us, read_us, power_us]) + self.least_launch_us(c) + crowded_us
    }

    /// The least of what a launch takes.
    pub(super) fn least_launch_us(&self, c: &Calibration) -> f64 {
        c.launch_us - if self.instance.two_fit() { c.two_fit_gain_us } else { 0.0 }
    }
}

/// What belongs to M and to N of the product, as the instance sees it.
pub(super) fn of_instance(instance: &Instance, [m, n]: [f64; 2]) -> [f64; 2] {
    if instance.swap_ab { [n, m] } else { [m, n] }
}

/// A number below 2^63. A core has one instruction for these, and needs eight for all of `u64`.
fn float(number: u64) -> f64 {
    number as i64 as f64
}
