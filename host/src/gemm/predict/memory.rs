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

/// Bytes of A and B read from memory, and of D written, each as many as memory could read in the same time. `shared_by`
/// clusters load each row of A, and of B; an operand that each cluster has for itself is read once.
pub(super) fn bytes_from_memory(
    shared_by: [u64; 2],
    instance: &Instance,
    problem: &GemmProblem,
    c: &Calibration,
) -> f64 {
    let again = |operand, others: u64| {
        problem.bytes(operand) as f64 * if others > 1 { 1.0 + c.read_again } else { 1.0 }
    };
    let i = instance;
    let halves = if i.gated { 2 } else { 1 };
    let row = problem.n / halves * problem.out.size() as u64;
    let in_turn = if i.kernel_schedule == KernelSchedule::Pingpong { 1.0 } else { 0.0 };
    let partial = if row.is_multiple_of(SECTOR_BYTES) {
        0.0
    } else {
        c.written_partial_sectors + in_turn * c.written_partial_sectors_pingpong
    };
    // A line that two tiles write goes to memory twice, if L2 has not kept it until then.
    let d = problem.bytes('D') as f64 / halves as f64;
    let evicted = (1.0 - c.written_l2_bytes / d).max(0.0);
    let partial = if row.is_multiple_of(LINE_BYTES) {
        partial
    } else {
        partial + evicted * c.written_partial_lines_evicted
    };
    let apart =
        c.written_cluster / f64::from(i.cluster_m * i.cluster_n) + in_turn * c.written_pingpong;
    again('A', shared_by[0]) + again('B', shared_by[1]) + d * (1.0 + c.written + partial + apart)
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
