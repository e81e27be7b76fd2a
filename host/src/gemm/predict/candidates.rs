//! The kernels and schedules of a product, in the order of their predicted times.

use super::features::features;
use super::main_loop::MainLoop;
use super::memory::{Traffic, fetched_bytes, longest, single_longest};
use super::network::{FEATURES, network};
use super::{Prediction, Tiled};
use crate::gemm::schedule::{Schedule, fits};
use crate::gemm::{Calibration, GemmProblem, HardwareInfo};
use gpu_kernels::gemm::Instance;
use std::cmp::Ordering;

/// A network compares the candidates whose predicted times are at most this many times the shortest. The terms are right to
/// about 5 %, each in its own direction, so that the fastest one is seldom further away.
const NEAR: f64 = 1.12;
/// Most candidates that are compared.
const MOST: usize = 12;
/// The comparison changes a time by at most this, as ln(factor): 18 % less, or 22 % more.
const MOST_BY: f32 = 0.2;

/// Clusters of an instance that a device of `sms` SMs holds. A GPC has 16 or 18 SMs, so clusters of more
/// than two CTAs leave some SMs idle. (The launch asks the driver.)
pub(crate) fn resident(sms: u32, instance: &Instance) -> u64 {
    let size = instance.cluster_m * instance.cluster_n;
    u64::from(if size > 2 { sms * 10 / 11 / size } else { sms / size })
}

/// Predicts `problem` with an instance and a schedule on `sms` SMs of a GPU with this calibration, by the terms alone: nothing is
/// compared ([`candidates`]).
pub fn predict(
    instance: &Instance,
    problem: &GemmProblem,
    schedule: Schedule,
    sms: u32,
    calibration: &Calibration,
) -> Prediction {
    let active = resident(sms, instance);
    Prediction::new(&Tiled::with(instance, problem, (sms, active), calibration), schedule)
}

/// What the network that compares candidates is told of an instance with a schedule: features, and the row of the kernel among
/// the calibration's times. And the predicted time before the comparison, in microseconds. The network is trained on it
/// (`bench/network/train.py`).
pub fn features_of(
    instance: &Instance,
    problem: &GemmProblem,
    schedule: Schedule,
    sms: u32,
    calibration: &Calibration,
) -> ([f32; FEATURES], Option<usize>, f64) {
    let active = resident(sms, instance);
    let tiled = Tiled::with(instance, problem, (sms, active), calibration);
    let prediction = Prediction::new(&tiled, schedule);
    (features(&tiled, &prediction), tiled.main_loop.row, prediction.predicted_us)
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

/// A candidate, and the part of its prediction that does not depend on the schedule.
type Compared<'t> = (Tiled<'t>, Candidate<'t>);

/// What the order of candidates depends on.
#[derive(Clone, Copy)]
struct Key {
    us: f64,
    /// CTAs of a cluster, and stages.
    second: (u32, u32),
    streamed: u32,
}

impl Key {
    fn new(us: f64, i: &Instance, schedule: Schedule) -> Self {
        Self { us, second: (i.cluster_m * i.cluster_n, i.stages), streamed: schedule.streamed }
    }

    fn order(&self, other: &Self) -> Ordering {
        let time = self.us.total_cmp(&other.us);
        let time = time.then_with(|| other.second.cmp(&self.second));
        time.then(self.streamed.cmp(&other.streamed))
    }
}

impl Candidate<'_> {
    /// Orders by time; then the larger cluster (more multicast), the ring with more stages and the
    /// schedule with fewer split tiles come first.
    pub fn order(&self, other: &Self) -> Ordering {
        let key = |c: &Self| Key::new(c.prediction.predicted_us, c.instance, c.prediction.schedule);
        key(self).order(&key(other))
    }

    /// Bytes of A and B that the clusters load.
    pub fn fetched_bytes(&self) -> u64 {
        let p = &self.prediction;
        fetched_bytes(self.instance, p.cluster_tiles * p.k_tiles)
    }
}

/// The main loop of an instance, if it computes the product (with C if `c`) on a GPU: its cluster must fit on the device.
#[inline(always)]
fn main_loop<'t>(
    instance: &'t Instance,
    product: &Traffic<'t>,
    c: bool,
    sms: u32,
) -> Option<MainLoop<'t>> {
    if !fits(instance, product.problem, c) {
        return None;
    }
    let active = resident(sms, instance);
    (active > 0).then(|| MainLoop::new(instance, product, active))
}

/// The instances of a table that compute `problem` (with C if `c`) on a GPU, in the table's order,
/// each with every schedule that is worth trying. The up to twelve whose predicted times are within 12 % of the shortest are
/// compared, which corrects their times ([`Prediction::correction`]). The first in [`Candidate::order`] is the picker's choice.
pub fn candidates<'t>(
    table: &'t [Instance],
    problem: &GemmProblem,
    c: bool,
    HardwareInfo { sms, calibration }: HardwareInfo,
) -> Vec<Candidate<'t>> {
    let product = Traffic::of(problem, calibration);
    let mut all = Vec::new();
    for (index, instance) in table.iter().enumerate() {
        let Some(main) = main_loop(instance, &product, c, sms) else { continue };
        let tiled = Tiled::of(&main, &product, sms);
        all.extend(tiled.schedules().map(|prediction| Candidate { index, instance, prediction }));
    }
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| all[*a].order(&all[*b]));
    let tiled = |i| Tiled::of(&MainLoop::new(i, &product, resident(sms, i)), &product, sms);
    let first = order.iter().take(MOST).map(|at| (tiled(all[*at].instance), all[*at]));
    for (at, (_, candidate)) in order.iter().zip(compared(first.collect())) {
        all[*at].prediction = candidate.prediction;
    }
    all
}

/// The candidates with the shortest predicted times, up to [`MOST`] that are [`NEAR`] the first one.
struct Shortest<'t> {
    /// All that were predicted.
    seen: Vec<Compared<'t>>,
    /// The first ones, in order: of each its time and what decides among equal times, and its place among those that were predicted.
    first: Vec<(Key, usize)>,
    /// Candidates that take longer can't be among those that are compared.
    longest_us: f64,
}

impl<'t> Shortest<'t> {
    /// Adds the schedules of the kernel of row `index` that are short enough.
    fn add(&mut self, tiled: &Tiled<'t>, index: usize) {
        for schedule in tiled.worth_trying() {
            if tiled.exceeds(schedule, self.longest_us) {
                continue;
            }
            let prediction = Prediction::new(tiled, schedule);
            let us = prediction.predicted_us;
            if us > self.longest_us {
                continue;
            }
            let instance = tiled.main_loop.instance;
            let key = Key::new(us, instance, schedule);
            // Equal ones are in the order of the table.
            let before = |(other, seen): &(Key, usize)| {
                other.order(&key).then(self.seen[*seen].1.index.cmp(&index)).is_le()
            };
            let at = self.first.partition_point(before);
            self.first.insert(at, (key, self.seen.len()));
            self.seen.push((*tiled, Candidate { index, instance, prediction }));
            self.first.truncate(MOST);
            self.longest_us = NEAR * self.first[0].0.us;
            if self.first.len() == MOST {
                self.longest_us = self.longest_us.min(self.first[MOST - 1].0.us);
            }
        }
    }
}

/// The candidate with the shortest predicted time ([`Candidate::order`]).
pub(crate) fn best<'t>(
    table: &'t [Instance],
    problem: &GemmProblem,
    c: bool,
    HardwareInfo { sms, calibration }: HardwareInfo,
) -> Option<Candidate<'t>> {
    let product = Traffic::of(problem, calibration);
    let (mut all, mut least) = (Vec::with_capacity(table.len()), Vec::with_capacity(table.len()));
    for (index, instance) in table.iter().enumerate() {
        let Some(main) = main_loop(instance, &product, c, sms) else { continue };
        least.push((main.least_us(&product, single_longest), all.len()));
        all.push((index, main));
    }
    let by_least = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0);
    let mut shortest = Shortest {
        seen: Vec::with_capacity(4 * MOST),
        first: Vec::with_capacity(MOST + 1),
        longest_us: f64::INFINITY,
    };
    let mut add = |place: usize| {
        let (index, main): &(usize, MainLoop<'_>) = &all[place];
        shortest.add(&Tiled::of(main, &product, sms), *index);
        shortest.longest_us
    };
    // The kernel with the smallest bound comes first: its time excludes most of the others. Those that are left follow in the
    // order of tighter bounds.
    let &(_, first) = least.iter().min_by(|a, b| by_least(a, b))?;
    let mut longest_us = add(first);
    least.retain(|(us, place)| *us <= longest_us && *place != first);
    for (us, place) in &mut least {
        *us = all[*place].1.least_us(&product, longest);
    }
    least.sort_unstable_by(by_least);
    for (us, place) in least {
        if us > longest_us {
            break;
        }
        longest_us = add(place);
    }
    let Shortest { seen, first, .. } = shortest;
    let first = compared(first.into_iter().map(|(_, at)| seen[at]).collect());
    let best = first.into_iter().map(|(_, candidate)| candidate).min_by(Candidate::order)?;
    Some(Candidate { instance: &table[best.index], ..best })
}

/// Compares the first candidates, in order, that are near the first one: multiplies the time of each by what the network says of
/// it beside the first. It is trained on products of bf16 without C. It serves those of f16, with results of f32 and with other
/// epilogues too; products of other operands, or with C, stay as they are.
fn compared(mut first: Vec<Compared<'_>>) -> Vec<Compared<'_>> {
    let near = match first.first() {
        Some((tiled, c)) if tiled.is_of_network() => NEAR * c.prediction.predicted_us,
        _ => return first,
    };
    let mut of_first = None;
    for (tiled, Candidate { prediction, .. }) in &mut first {
        if prediction.predicted_us > near {
            break;
        }
        let of_this = network(&features(tiled, prediction), tiled.main_loop.row);
        let by = of_this - *of_first.get_or_insert(of_this);
        prediction.correct(f64::from(by.clamp(-MOST_BY, MOST_BY)).exp());
    }
    first
}
