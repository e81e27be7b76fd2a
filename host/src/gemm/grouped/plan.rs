//! A plan of a grouped product: everything that depends neither on the ends of the groups nor on addresses.

use super::info::GroupedKernelInfo;
use super::problem::cluster_tile;
use super::{GroupedError, GroupedGemm, GroupedInfo, GroupedProblem, GroupedRows};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::gemm::Candidate;
use crate::gemm::predict::{Prediction, Tiled, longest};
use crate::gemm::schedule::Schedule;
use crate::launch::{Module, Prepared};
use gpu_kernels::gemm::Instance;
use gpu_kernels::gemm::scheduler::GroupedParams;

/// Predicted times up to this factor of the shortest count as equally short. The predictions are not more exact, and a
/// smaller tile wastes fewer rows if the sizes of the groups differ.
const CLOSE: f64 = 1.02;

/// A planned grouped product; see [`GroupedGemm::plan`].
pub struct GroupedPlan {
    pub(super) device: Device,
    pub(super) module: Module,
    pub(super) problem: GroupedProblem,
    /// The kernel to launch; `None` when D is empty.
    pub(super) choice: Option<Choice>,
    /// The status that the last run writes: 0, or 1 + the first group with an invalid end.
    pub(super) status: Buffer,
    info: GroupedInfo,
}

/// An instance with its grid.
pub(super) struct Choice {
    pub instance: &'static Instance,
    pub prepared: Prepared,
    pub grid: [u32; 3],
    pub clusters: u32,
    pub raster: u32,
}

impl GroupedPlan {
    pub(super) fn new(
        gemm: &GroupedGemm,
        problem: &GroupedProblem,
        asked: Option<usize>,
    ) -> Result<Self, Error> {
        problem.check()?;
        let mut info = GroupedInfo::of(gemm.device.describe(), problem);
        let (index, predicted_us, why) = match asked {
            Some(index) if index >= gemm.instances.len() => {
                let (count, have) = (gemm.instances.len(), "the table has no such row".into());
                return Err(Error::WrongInstance { index, count, have });
            }
            Some(index) => {
                let predicted_us = gemm.prediction(problem, index)?.predicted_us;
                (index, predicted_us, "the caller asked for it".into())
            }
            None => gemm.pick(problem)?,
        };
        let choice = match problem.total_rows() * problem.n {
            0 => None,
            _ => Some(gemm.choose(problem, index)?),
        };
        info.kernel = choice.as_ref().map(|choice| choice.describe(index, predicted_us, why));
        Ok(Self {
            device: gemm.device.clone(),
            module: gemm.module.clone(),
            problem: *problem,
            choice,
            status: gemm.device.alloc_zeroed(4)?,
            info,
        })
    }

    /// Description of the plan: kernel, grid and predicted time.
    pub fn describe(&self) -> &GroupedInfo {
        &self.info
    }

    /// The problem that the plan was made for.
    pub fn problem(&self) -> &GroupedProblem {
        &self.problem
    }

    /// Returns the first group with an invalid end in the last run. Waits for the device.
    ///
    /// An end is invalid if it is below 0, before the end of the previous group, or beyond the last row. It counts as the
    /// nearest valid end, so a run never touches memory outside the operands. Runs at the same time on several streams
    /// share the answer.
    ///
    /// # Errors
    /// What [`Buffer::read`] reports.
    pub fn bad_group(&self) -> Result<Option<u32>, Error> {
        let mut word = [0; 4];
        self.status.read(&mut word)?;
        Ok(u32::from_ne_bytes(word).checked_sub(1))
    }
}

impl Choice {
    fn describe(&self, index: usize, predicted_us: f64, why: String) -> GroupedKernelInfo {
        let i = self.instance;
        let [rows, columns] = if i.swap_ab { [i.bn, i.bm] } else { [i.bm, i.bn] };
        GroupedKernelInfo {
            name: i.desc.meta.name().into(),
            index,
            tile: [rows, columns, i.bk],
            cluster: i.cluster_m * i.cluster_n,
            stages: i.stages,
            ctas: self.grid[0],
            raster_swizzle: self.raster,
            predicted_us,
            why,
        }
    }
}

impl GroupedGemm {
    /// Picks the smallest tile among the instances whose predicted time is close to the shortest. Returns the instance, its
    /// predicted time, and the reason.
    fn pick(&self, problem: &GroupedProblem) -> Result<(usize, f64, String), Error> {
        let times: Vec<f64> =
            self.candidates(problem)?.iter().map(|c| c.prediction.predicted_us).collect();
        let shortest = times.iter().copied().fold(f64::INFINITY, f64::min);
        let close = times.iter().copied().enumerate().filter(|&(_, us)| us <= CLOSE * shortest);
        let elements = |index: usize| self.instances[index].bm * self.instances[index].bn;
        let (index, us) =
            close.min_by_key(|&(index, _)| elements(index)).ok_or(GroupedError::NoKernel)?;
        let (mean, gpu) = (problem.mean_rows(), self.hardware.calibration.gpu);
        let why = format!(
            "the smallest tile within 2 % of the shortest predicted time on an {gpu} for groups of {mean} rows, {us:.1} us"
        );
        Ok((index, us, why))
    }

    /// The kernels in the table's order, each with its predicted time, if all groups have the mean number of rows.
    ///
    /// # Errors
    /// The errors of [`GroupedGemm::plan`].
    pub fn candidates(&self, problem: &GroupedProblem) -> Result<Vec<Candidate<'static>>, Error> {
        problem.check()?;
        let rows = self.instances.iter().enumerate();
        rows.map(|(index, instance)| {
            Ok(Candidate { index, instance, prediction: self.prediction(problem, index)? })
        })
        .collect()
    }

    /// The prediction of row `index` of the table, if all groups have the mean number of rows.
    ///
    /// The prediction is for one product with the rows of all groups, each rounded up to whole tiles. Each group reads its
    /// own B from memory.
    fn prediction(&self, problem: &GroupedProblem, index: usize) -> Result<Prediction, Error> {
        let (instance, hardware) = (&self.instances[index], self.hardware);
        let c = hardware.calibration;
        let [rows, columns] = cluster_tile(instance);
        let (groups, mean) = (problem.groups, problem.mean_rows().max(1));
        let mut padded = problem.matrix('A');
        padded.m = (groups * mean.div_ceil(rows) * rows).max(1);
        padded.n = padded.n.max(1);
        let active = self.active(instance)?;
        let tiles = padded.m / rows * padded.n.div_ceil(columns);
        let schedule = Schedule { clusters: tiles.min(active) as u32, streamed: 0 };
        let tiled = Tiled::new(instance, &padded, hardware, active);
        let prediction = Prediction::new(&tiled, schedule);
        let touched = groups * mean;
        let bytes = 2 * (touched * (problem.k + problem.n) + groups * problem.n * problem.k);
        let bytes_us = bytes as f64 / c.memory_bytes_per_us;
        let slow_us = c.memory_slow_us * bytes_us / (bytes_us + c.memory_half_slow_us);
        let memory_us = c.memory_us + bytes_us + slow_us;
        let times = [prediction.busiest_us(), memory_us, prediction.power_us];
        let predicted_us = prediction.launch_us + longest(times);
        Ok(Prediction { predicted_us, memory_us, bytes_us, ..prediction })
    }

    /// Number of clusters of an instance that run at one time, with at most one CTA on each SM.
    fn active(&self, instance: &Instance) -> Result<u64, Error> {
        let held = u64::from(self.module.max_active_clusters(instance.desc)?);
        let cluster = instance.desc.meta.cluster_size();
        Ok(held.min(u64::from(self.device.sms() / cluster)))
    }

    fn choose(&self, problem: &GroupedProblem, index: usize) -> Result<Choice, Error> {
        let instance = &self.instances[index];
        let cluster = instance.desc.meta.cluster_size();
        let active = self.active(instance)?;
        if active == 0 {
            return Err(Error::LaunchCluster {
                kernel: instance.desc.meta.name().into(),
                grid: [cluster, 1, 1],
                cluster: instance.desc.meta.cluster,
                right: "the device has no room for one such cluster",
            });
        }
        let tile @ [rows, columns] = cluster_tile(instance);
        let clusters = problem.most_tiles(tile).min(active) as u32;
        // The clusters that run at one time cover a nearly square part of D, as in `raster_swizzle`. The scheduler cuts
        // it down to the rows of a group.
        let height = (active as f64 * columns as f64 / rows as f64).sqrt().round();
        let raster = (height as u64).clamp(1, problem.total_rows().div_ceil(rows)) as u32;
        let grid = [clusters * cluster, 1, 1];
        // Assembled here, so that neither a bind nor a run, which may be captured, has to.
        self.module.preload(&[instance.desc])?;
        let prepared = self.module.prepare(instance.desc, grid)?;
        Ok(Choice { instance, prepared, grid, clusters, raster })
    }
}

impl Choice {
    /// The scheduler's numbers.
    pub(super) fn params(&self, problem: &GroupedProblem) -> GroupedParams {
        let rows = match problem.rows {
            GroupedRows::Contiguous { total } => [0, total],
            GroupedRows::Masked { max, .. } => [max, max],
        };
        let k_tiles = problem.k.div_ceil(u64::from(self.instance.bk)) as u32;
        let [rows, tile] = [rows, cluster_tile(self.instance)].map(|pair| pair.map(|x| x as u32));
        GroupedParams::new(rows, problem.n as u32, tile, k_tiles, self.raster, self.clusters)
    }
}
