//! The kernels and schedules of a product, in the order of their predicted times.

use super::memory::fetched_bytes;
use super::{Prediction, Tiled};
use crate::gemm::pick::{Schedule, fits};
use crate::gemm::{Calibration, GemmProblem, HardwareInfo};
use gpu_kernels::gemm::Instance;
use std::cmp::Ordering;

/// Clusters of `size` CTAs that a device of `sms` SMs holds. A GPC has 16 or 18 SMs, so clusters of more
/// than two CTAs leave some SMs idle. (The launch asks the driver.)
fn resident(sms: u32, size: u32) -> u64 {
    u64::from(if size > 2 { sms * 10 / 11 / size } else { sms / size })
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
    Prediction::new(&Tiled::with(instance, problem, (sms, active), calibration), schedule)
}

/// The schedule with the shortest predicted time; among equals the one with the fewest split tiles.
pub(crate) fn schedule(
    instance: &Instance,
    problem: &GemmProblem,
    hardware: HardwareInfo,
    active: u64,
) -> Schedule {
    Tiled::new(instance, problem, hardware, active)
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

/// The instances of a table that compute `problem` (with C if `c`) on a GPU, in the table's order.
fn tiled<'t>(
    table: &'t [Instance],
    problem: &'t GemmProblem,
    c: bool,
    hardware: HardwareInfo,
) -> impl Iterator<Item = (usize, Tiled<'t>)> {
    // An instance whose cluster does not fit on the device is not a candidate.
    let room = move |i: &Instance| resident(hardware.sms, i.cluster_m * i.cluster_n);
    let fitting = table.iter().enumerate();
    let fitting = fitting.filter(move |(_, i)| fits(i, problem, c) && room(i) > 0);
    fitting.map(move |(index, i)| (index, Tiled::new(i, problem, hardware, room(i))))
}

/// The instances of a table that compute `problem` (with C if `c`) on a GPU, in the table's order,
/// each with every schedule that is worth trying.
pub fn candidates<'t>(
    table: &'t [Instance],
    problem: &'t GemmProblem,
    c: bool,
    hardware: HardwareInfo,
) -> impl Iterator<Item = Candidate<'t>> {
    tiled(table, problem, c, hardware).flat_map(|(index, tiled)| {
        let all: Vec<Prediction> = tiled.schedules().collect();
        let instance = tiled.instance;
        all.into_iter().map(move |prediction| Candidate { index, instance, prediction })
    })
}

/// The candidate with the shortest predicted time ([`Candidate::order`]).
pub(crate) fn best<'t>(
    table: &'t [Instance],
    problem: &'t GemmProblem,
    c: bool,
    hardware: HardwareInfo,
) -> Option<Candidate<'t>> {
    let mut all = Vec::with_capacity(table.len());
    all.extend(tiled(table, problem, c, hardware));
    // The kernels that may be fastest come first, so that soon none of the others can be. Their places are sorted: a product
    // tiled by a kernel has hundreds of bytes.
    let least = all.iter().enumerate().map(|(place, (_, tiled))| (tiled.least_us(), place));
    let mut order: Vec<(f64, usize)> = least.collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut best: Option<Candidate<'t>> = None;
    let mut shortest = f64::INFINITY;
    for (least_us, place) in order {
        if least_us > shortest {
            break;
        }
        let (index, tiled) = &all[place];
        for schedule in tiled.worth_trying() {
            if tiled.exceeds(schedule, shortest) {
                continue;
            }
            let prediction = Prediction::new(tiled, schedule);
            let candidate = Candidate { index: *index, instance: tiled.instance, prediction };
            if best.as_ref().is_none_or(|best| candidate.order(best).is_lt()) {
                shortest = candidate.prediction.predicted_us;
                best = Some(candidate);
            }
        }
    }
    best
}
