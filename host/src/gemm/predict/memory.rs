//! What a product asks of memory, of the L2 cache and of the power limit.

use crate::gemm::GemmProblem;
use crate::gemm::calibration::*;
use gpu_kernels::gemm::{Instance, KernelSchedule};

/// How the rows of the TMA boxes of A and B, 128 bytes each, lie in the L2 cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// Each in one line.
    WholeLines,
    /// In two lines, four sectors of 32 bytes.
    TwoLines,
    /// In two lines, five sectors.
    PartialSectors,
}

impl Rows {
    pub fn of(problem: &GemmProblem) -> Self {
        match problem.k * problem.ab.size() as u64 {
            bytes if bytes.is_multiple_of(LINE_BYTES) => Self::WholeLines,
            bytes if bytes.is_multiple_of(SECTOR_BYTES) => Self::TwoLines,
            _ => Self::PartialSectors,
        }
    }
}

/// What a product asks of memory, with any kernel.
#[derive(Clone, Copy)]
pub(super) struct Traffic<'t> {
    pub problem: &'t GemmProblem,
    pub c: &'t Calibration,
    pub rows: Rows,
    /// Bytes of an element of A and B.
    pub element: f64,
    /// M and N of the product.
    pub sides: [f64; 2],
    /// Factors of the L2 traffic of A and of B.
    pub larger: [f64; 2],
    /// Bytes per microsecond from the L2 cache, and the factor of the time into an SM, of rows that lie so.
    pub l2_rate: f64,
    pub into_sm: f64,
    /// Bytes of A, B and D.
    pub bytes: [f64; 3],
    /// Bytes of a row of D.
    pub row: u64,
    /// Whether rows of D are whole sectors of 32 bytes, and whole lines of 128 bytes.
    pub whole_sectors: bool,
    pub whole_lines: bool,
    /// Least time to read and write, and least time at the power limit.
    pub least_us: [f64; 2],
    /// Least part of the time to read that no main loop hides.
    pub least_start_us: f64,
    /// Least time of an epilogue for each element of the tile.
    pub least_element_us: f64,
}

impl<'t> Traffic<'t> {
    pub fn of(problem: &'t GemmProblem, c: &'t Calibration) -> Self {
        let element = problem.ab.size() as f64;
        let bytes = ['A', 'B', 'D'].map(|operand| problem.bytes(operand) as f64);
        let [a, b, d] = bytes;
        let row = problem.n * problem.out.size() as u64;
        // A gated kernel writes half of D.
        let (bytes_us, read_us) = read_us(a + b + d * (1.0 + c.written) / 2.0, c);
        let power = if problem.ab.size() == 1 { c.e4m3_power.min(1.0) } else { 1.0 };
        // Of a short product it can be below 0, and then the fourth powers of `longest` do not fall with it.
        let power_us = power_us(power * problem.flops() * element / 2.0, 0.0, c).max(0.0);
        let least_us = [read_us, power_us];
        let rows = Rows::of(problem);
        let (l2_rate, into_sm) = match rows {
            Rows::WholeLines => (c.l2_bytes_per_us, 1.0),
            Rows::TwoLines => (c.l2_bytes_per_us_two_lines, c.two_lines_into_sm),
            Rows::PartialSectors => (c.l2_bytes_per_us_partial_sectors, c.partial_sectors_into_sm),
        };
        let [m, n] = [problem.m as f64, problem.n as f64];
        Self {
            problem,
            c,
            rows,
            element,
            sides: [m, n],
            larger: [m, n].map(|rows| 1.0 + c.larger_operand * rows / (m + n)),
            l2_rate,
            into_sm,
            bytes,
            row,
            whole_sectors: row.is_multiple_of(SECTOR_BYTES),
            whole_lines: row.is_multiple_of(LINE_BYTES),
            least_us,
            least_start_us: c.memory_not_hidden * bytes_us,
            // With the factors of swap_ab and of ping-pong, where they are below 1.
            least_element_us: c.epilogue_us_per_element
                * c.epilogue_swapped.min(1.0)
                * c.epilogue_pingpong.min(1.0),
        }
    }

    /// Bytes of A and B.
    pub fn operand_bytes(&self) -> f64 {
        self.bytes[0] + self.bytes[1]
    }

    /// Bytes of A and B read from memory, and of D written, each as many as memory could read in the same time. `shared_by`
    /// clusters load each row of A, and of B; an operand that each cluster has for itself is read once.
    pub fn memory_bytes(&self, shared_by: [u64; 2], i: &Instance) -> f64 {
        let Self { c, bytes: [a, b, d], .. } = *self;
        let again = |others: u64| if others > 1 { 1.0 + c.read_again } else { 1.0 };
        let (d, row) = if i.gated { (d / 2.0, self.row / 2) } else { (d, self.row) };
        let whole_sectors = row.is_multiple_of(SECTOR_BYTES);
        let whole_lines = row.is_multiple_of(LINE_BYTES);
        let in_turn = if i.kernel_schedule == KernelSchedule::Pingpong { 1.0 } else { 0.0 };
        let partial = if whole_sectors {
            0.0
        } else {
            c.written_partial_sectors + in_turn * c.written_partial_sectors_pingpong
        };
        // A line that two tiles write goes to memory twice, if L2 has not kept it until then.
        let evicted = (1.0 - c.written_l2_bytes / d).max(0.0);
        let partial =
            if whole_lines { partial } else { partial + evicted * c.written_partial_lines_evicted };
        let apart =
            c.written_cluster / f64::from(i.cluster_m * i.cluster_n) + in_turn * c.written_pingpong;
        a * again(shared_by[0]) + b * again(shared_by[1]) + d * (1.0 + c.written + partial + apart)
    }
}

impl Traffic<'_> {
    /// Sectors and lines that two tiles write, a part each, as fractions of the bytes of D. Where a row of a tile ends inside of
    /// one, the next tile begins there.
    pub fn written_twice(&self, i: &Instance) -> [f64; 2] {
        let columns = if i.swap_ab { i.bm } else { i.bn };
        let tile = u64::from(columns) * self.problem.out.size() as u64;
        [SECTOR_BYTES, LINE_BYTES].map(|unit| {
            // Ends of tiles are this many bytes apart inside of a unit, all as often.
            let apart = 1 << (self.row | tile | unit).trailing_zeros();
            (unit - apart) as f64 / tile as f64
        })
    }
}

/// Time of so many bytes at full rate, and with what a read loses at its start.
pub(super) fn read_us(bytes: f64, c: &Calibration) -> (f64, f64) {
    let bytes_us = bytes / c.memory_bytes_per_us;
    let slow_us = c.memory_slow_us * bytes_us / (bytes_us + c.memory_half_slow_us);
    (bytes_us, c.memory_us + bytes_us + slow_us)
}

/// Bytes of A and B that the clusters load in `k_tiles` k tiles. With multicast, each row of a cluster
/// tile is loaded once. Loads that miss L2 come from memory.
pub(super) fn fetched_bytes(instance: &Instance, k_tiles: u64) -> u64 {
    let i = instance;
    let rows = u64::from(i.bm * i.cluster_m) + u64::from(i.bn * i.cluster_n);
    k_tiles * rows * u64::from(i.bk) * i.ab.size() as u64
}

/// Time that the power limit imposes on `flops` operations and `fetched` bytes.
pub(super) fn power_us(flops: f64, fetched: f64, c: &Calibration) -> f64 {
    let us = flops / c.power_flops_per_us;
    let us = us * (1.0 - c.power_saved * c.power_half_saved_us / (us + c.power_half_saved_us));
    if us < HELD_US { us } else { us + fetched / c.power_bytes_per_us }
}

/// Whether warp groups multiply tiles in turn.
pub(super) fn pingpong(instance: &Instance) -> bool {
    instance.kernel_schedule == KernelSchedule::Pingpong
}

/// The fourth root of the sum of fourth powers.
pub(crate) fn longest(times: [f64; 3]) -> f64 {
    times.map(fourth_power).iter().sum::<f64>().sqrt().sqrt()
}

/// The longest of the times alone: at most [`longest`], and quicker.
pub(super) fn single_longest([a, b, c]: [f64; 3]) -> f64 {
    // `f64::max` takes six instructions, because a time might be no number.
    let max = |a, b| if a > b { a } else { b };
    max(max(a, b), c)
}

pub(super) fn fourth_power(x: f64) -> f64 {
    (x * x) * (x * x)
}
