//! A product tiled by an instance: what of a prediction does not depend on the schedule.

use super::Prediction;
use super::main_loop::MainLoop;
use super::memory::{Traffic, fetched_bytes, fourth_power, longest, pingpong, power_us, read_us};
use crate::gemm::calibration::*;
use crate::gemm::schedule::{Schedule, Tiling};
use crate::gemm::{GemmProblem, HardwareInfo};
use gpu_kernels::gemm::output::swapped_columns;
use gpu_kernels::gemm::{Instance, KernelSchedule};

/// Time that an activation adds to an epilogue, for each element of the tile. On an H100, a tile of 128 x 256 took 2.7 to 3.4 µs
/// longer with bias and GELU than with the bias alone (2026-11-26, the rows of `bench --suite epilogue`). With today's form of GELU
/// it is 1.7 µs on an H200 (2026-11-29). The larger value stands, because no H100 has run this form. Of eight layers,
/// the picks for an H200 are the same with either.
const ACTIVATION_US_PER_ELEMENT: f64 = 9e-5;

/// Most groups of clusters, each in step, that count as if all were in step, for 8-bit floats. With this bound the picks have
/// 0.9917 of the fastest pair in the suites' records of an H200, and 0.9908 where only one place for each tile counts as in step
/// (`fit_predictions --e4m3`, before the fit, 2026-11-30).
const STEPS: u32 = 4;

/// A product tiled by an instance on a device: what does not depend on the schedule.
#[derive(Clone, Copy)]
pub(crate) struct Tiled<'t> {
    pub(super) traffic: Traffic<'t>,
    pub main_loop: MainLoop<'t>,
    /// SMs of the device.
    pub(super) sms: u32,
    pub(super) epilogue_us: f64,
    pub(super) bytes_us: f64,
    /// `bytes_us` with what a read loses at its start.
    pub(super) read_us: f64,
    pub(super) power_us: f64,
    pub(super) beyond_l2: bool,
}

impl<'t> Tiled<'t> {
    /// On a GPU that holds `active` clusters.
    pub fn new(
        instance: &'t Instance,
        problem: &'t GemmProblem,
        HardwareInfo { sms, calibration }: HardwareInfo,
        active: u64,
    ) -> Self {
        Self::with(instance, problem, (sms, active), calibration)
    }

    /// The same with any calibration.
    pub fn with(
        instance: &'t Instance,
        problem: &'t GemmProblem,
        (sms, active): (u32, u64),
        c: &'t Calibration,
    ) -> Self {
        let traffic = Traffic::of(problem, c);
        Self::of(&MainLoop::new(instance, &traffic, active), &traffic, sms)
    }

    /// With this main loop.
    pub(super) fn of(main_loop: &MainLoop<'t>, traffic: &Traffic<'t>, sms: u32) -> Self {
        let (i, c, problem) = (main_loop.instance, traffic.c, traffic.problem);
        let Tiling { clusters_m, clusters_n, swap_ab, .. } = main_loop.tiling;
        let (_, power) = c.of_operands(i);
        // The clusters of a row of cluster tiles share rows of the instance's A, and those of a column rows of its B.
        let shared_by = if swap_ab { [clusters_m, clusters_n] } else { [clusters_n, clusters_m] };
        let (bytes_us, read_us) = read_us(traffic.memory_bytes(shared_by, i), c);
        // 8-bit products are at the power limit also where tiles extend beyond D, and zeros are multiplied.
        let multiplied = if problem.ab.size() == 1 {
            let tile = 2 * u64::from(i.bm) * u64::from(i.bn) * problem.k;
            (main_loop.tiling.tiles * tile) as f64
        } else {
            problem.flops()
        };
        let fetched = fetched_bytes(i, main_loop.tiling.clusters() * main_loop.k_tiles);
        Self {
            traffic: *traffic,
            sms,
            epilogue_us: epilogue_us(i, problem, c),
            bytes_us,
            read_us,
            // With a factor of 1, a multiplication of 8 bits takes half the energy of one of 16.
            power_us: power_us(power * multiplied * traffic.element / 2.0, fetched as f64, c),
            beyond_l2: traffic.operand_bytes() > L2_BYTES as f64,
            main_loop: *main_loop,
        }
    }

    /// Whether the operands have 8 bits.
    pub(super) fn is_8_bit(&self) -> bool {
        self.traffic.problem.ab.size() == 1
    }

    /// Whether the network that compares candidates was trained on such products: operands of 16 bits, and no C.
    pub(super) fn is_of_network(&self) -> bool {
        self.traffic.problem.ab.size() == 2 && !self.main_loop.instance.has_c
    }

    /// Time of one k tile of the main loop. The tensor cores, the L2 cache and the path into the SM work
    /// concurrently; the slowest decides.
    pub(super) fn k_tile_us(&self, clusters: u64, ctas: u64) -> f64 {
        let pair = if self.shares_pairs(ctas) { self.traffic.c.shared_pair } else { 1.0 };
        let MainLoop { mma_us, sm_us, l2_us, issue_us, outside_us, step, .. } = self.main_loop;
        let longest = longest([mma_us, ctas as f64 * l2_us, sm_us * pair]);
        step * (issue_us + longest + clusters as f64 * outside_us)
    }

    /// Factors of the time of a k tile of 8-bit floats: of the whole tiles, and of the split ones, whose clusters are at other k
    /// tiles. Clusters that begin at the same k tile of their tiles stay in step; [`STEPS`] such groups or fewer count as one. After
    /// the split tiles the others stay as far apart as they are.
    /// Few tiles, which are all split, lose nothing in the records.
    pub(super) fn out_of_step(&self, Schedule { clusters, streamed }: Schedule) -> [f64; 2] {
        let all = self.main_loop.tiling.clusters() <= u64::from(streamed);
        if all || !self.is_8_bit() || groups(clusters, streamed) <= STEPS {
            return [1.0; 2];
        }
        let c = self.traffic.c;
        [1.0 + c.e4m3_out_of_step_whole, 1.0 + c.e4m3_out_of_step]
    }

    /// Time of what memory delivers once more, because clusters that share rows of A and B are at other k tiles: runs of
    /// split tiles begin anywhere if there are not equally many to a tile. What L2 holds is there for all.
    pub(super) fn out_of_step_us(&self, schedule: Schedule) -> f64 {
        let Schedule { clusters, streamed } = schedule;
        if streamed == 0 || clusters.is_multiple_of(streamed) {
            return 0.0;
        }
        let loaded =
            fetched_bytes(self.main_loop.instance, u64::from(streamed) * self.main_loop.k_tiles)
                as f64;
        let (c, operand_bytes) = (self.traffic.c, self.traffic.operand_bytes());
        let beyond = (1.0 - c.shared_l2_bytes / operand_bytes).max(0.0);
        let again = (loaded - operand_bytes).max(0.0) * beyond;
        again / c.memory_bytes_per_us
    }

    /// The part of a k tile in which the tensor cores wait for loads.
    fn waits_us(&self, k_tile_us: f64) -> f64 {
        (k_tile_us - self.main_loop.issue_us - self.main_loop.mma_us).max(0.0)
    }

    /// Time that loads save behind an epilogue: k tiles of a full ring wait for the tensor cores alone.
    pub(super) fn prefetched_us(&self, k_tile_us: f64) -> f64 {
        let waits = self.waits_us(k_tile_us);
        let ring = self.main_loop.k_tiles.min(u64::from(self.main_loop.instance.stages));
        self.epilogue_us.min(ring as f64 * waits)
    }

    /// Time that an epilogue adds to the main loop that runs beside it, with ping-pong: its stores pass where the loads do.
    /// Nothing is lost while the tensor cores decide.
    pub(super) fn contended_us(&self, k_tile_us: f64) -> f64 {
        let waits = self.waits_us(k_tile_us);
        let beside = self.epilogue_us.min(self.main_loop.k_tiles as f64 * k_tile_us);
        self.traffic.c.epilogue_contends * beside * waits / k_tile_us
    }

    /// Whether a grid of `ctas` CTAs occupies both SMs of some pair (TPC). A grid's first CTAs each get a pair of their
    /// own. A grid that leaves one SM of each pair free also has room beside it for the dependent grid.
    pub(super) fn shares_pairs(&self, ctas: u64) -> bool {
        let MainLoop { instance: i, active, .. } = self.main_loop;
        2 * ctas > active * u64::from(i.cluster_m * i.cluster_n)
    }

    /// Whether a schedule surely takes more time than this.
    pub fn exceeds(&self, Schedule { clusters, streamed }: Schedule, us: f64) -> bool {
        let (main, c) = (&self.main_loop, self.traffic.c);
        let (i, tiles) = (main.instance, main.tiling.clusters());
        let (clusters, streamed) = (u64::from(clusters).max(1), u64::from(streamed));
        let ctas = clusters * u64::from(i.cluster_m * i.cluster_n);
        let whole = tiles.saturating_sub(streamed);
        let rounds = if whole == 0 { 0 } else { whole.div_ceil(clusters) };
        let mut k_tiles = (rounds * main.k_tiles) as f64;
        let (mut fixup_us, mut of_memory_us) = (0.0, 0.0);
        if streamed > 0 {
            k_tiles += (streamed * main.k_tiles) as f64 / clusters as f64;
            // Each cluster that gets k tiles gives to a tile or finishes one, so some tile has as many givers at least.
            let runs = clusters.min(streamed * main.k_tiles);
            let givers = (runs.div_ceil(streamed) - 1) as f64;
            let partials = c.fixup_store_us_per_element + c.fixup_load_us_per_element * givers;
            let elements = f64::from(i.bm * i.bn);
            let traffic = ctas as f64 * c.fixup_traffic_us_per_element;
            if givers > 0.0 {
                fixup_us = c.fixup_us + c.fixup_round_us + elements * (partials + traffic);
                of_memory_us = fixup_us * c.fixup_of_memory.min(c.fixup_of_memory_left);
            }
        }
        // One epilogue at least is whole.
        let start_us = main.fixed_us + c.memory_not_hidden * self.bytes_us;
        let main_loop_us = k_tiles * self.k_tile_us(clusters, ctas);
        let busiest_us = start_us + main_loop_us + self.epilogue_us + fixup_us;
        let times = [busiest_us.max(0.0), self.read_us + of_memory_us, self.power_us];
        let crowded_us = if self.shares_pairs(ctas) { c.crowded_us } else { 0.0 };
        let us = (us - main.least_launch_us(c) - crowded_us).max(0.0);
        // Without the roots of `longest`.
        times.map(fourth_power).iter().sum::<f64>() > fourth_power(us)
    }

    /// The schedules that are worth trying.
    pub fn worth_trying(&self) -> impl Iterator<Item = Schedule> + use<> {
        let MainLoop { instance, tiling, active, k_tiles, .. } = self.main_loop;
        Schedule::worth_trying(instance.splits_k, tiling.clusters(), k_tiles, active.max(1))
    }

    /// Their predictions.
    pub fn schedules(&self) -> impl Iterator<Item = Prediction> + use<'_, 't> {
        self.worth_trying().map(|schedule| Prediction::new(self, schedule))
    }
}

/// Groups of clusters that begin the split tiles at the same k tile. `clusters` runs of equal length cut `streamed` tiles in
/// as many places as this.
fn groups(clusters: u32, streamed: u32) -> u32 {
    let (mut common, mut rest) = (clusters, streamed);
    while rest > 0 {
        (common, rest) = (rest, common % rest);
    }
    if streamed == 0 { 0 } else { clusters / common }
}

/// Time of an epilogue.
fn epilogue_us(i: &Instance, problem: &GemmProblem, c: &Calibration) -> f64 {
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
    c.epilogue_us + c.epilogue_us_per_element * stored + overlap_us + activation_us
}

#[cfg(test)]
mod tests {
    use super::groups;

    /// The places along K at which the runs of split tiles begin, counted one by one.
    #[test]
    fn groups_begin_at_other_places() {
        for clusters in 1..=132 {
            for streamed in 1..=clusters {
                let places: std::collections::HashSet<u32> =
                    (0..clusters).map(|run| run * streamed % clusters).collect();
                assert_eq!(
                    groups(clusters, streamed),
                    places.len() as u32,
                    "{clusters}/{streamed}"
                );
            }
        }
        assert_eq!(groups(66, 0), 0);
    }
}
