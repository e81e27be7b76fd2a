//! The kernels for layouts and batches, and their plans.

use super::info::StridedInfo;
use super::pick::{candidates, fits, pick};
use super::problem::StridedProblem;
use super::staging::{Staging, of_packed};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::gemm::choice::Choice;
use crate::gemm::pick::kind_in_words;
use crate::gemm::schedule::{Schedule, Tiling};
use crate::gemm::{Candidate, Gemm, HardwareInfo, KernelInfo};
use crate::launch::Module;
use crate::turns::Turns;
use gpu_kernels::gemm::divmod::FastDivmod;
use gpu_kernels::gemm::{Instance, LAYOUT_INSTANCES, TileSchedulerParams};
use isa::kernel::Image;
use pipeline::grid::Throttle;

/// The GEMM kernels for operands in any layout, and for batches; see [`Gemm::strided`].
pub struct StridedGemm {
    gemm: Gemm,
}

impl Gemm {
    /// Loads the GEMM kernels of `gpu_kernels` for K-major and MN-major operands, and for batches, from their image.
    ///
    /// # Errors
    /// The errors of [`Gemm::with_instances`].
    pub fn strided(device: &Device, image: &'static Image) -> Result<StridedGemm, Error> {
        Ok(StridedGemm { gemm: Self::with_instances(device, image, LAYOUT_INSTANCES)? })
    }
}

impl StridedGemm {
    /// Predicts times for this GPU instead of the device ([`Gemm::with_hardware`]).
    #[must_use]
    pub fn with_hardware(self, hardware: HardwareInfo) -> Self {
        Self { gemm: self.gemm.with_hardware(hardware) }
    }

    /// The module that holds the kernels.
    pub fn module(&self) -> &Module {
        self.gemm.module()
    }

    /// The instance table.
    pub fn instances(&self) -> &'static [Instance] {
        self.gemm.instances()
    }

    /// Plans a batch of products with the instance and schedule that have the shortest predicted time.
    ///
    /// # Errors
    /// The errors of [`StridedProblem::check`]; [`StridedError::NoInstance`](super::StridedError::NoInstance) for a type
    /// or a layout without kernels; errors of an allocation.
    pub fn plan(&self, problem: &StridedProblem) -> Result<StridedPlan, Error> {
        self.plan_of(problem, None)
    }

    /// The kernels that compute a batch of products, in the table's order, each with every schedule that is worth trying.
    /// Their predictions are those of a K-major product with the same number of tiles. There are none if D is empty.
    ///
    /// # Errors
    /// The errors of [`StridedGemm::plan`].
    pub fn candidates(&self, problem: &StridedProblem) -> Result<Vec<Candidate<'static>>, Error> {
        problem.check()?;
        if problem.is_empty() {
            return Ok(Vec::new());
        }
        candidates(&self.gemm, &problem.of_kernel())
    }

    /// Plans a batch of products with row `index` of the table, and with `schedule` if it is given. The schedule's cluster
    /// tiles are those of all matrices.
    ///
    /// If D is column-major, the row is for the exchanged operands: B is the kernel's A.
    ///
    /// # Errors
    /// [`Error::WrongInstance`] if the row computes another type or layout; [`Error::BadSchedule`].
    pub fn plan_with(
        &self,
        problem: &StridedProblem,
        index: usize,
        schedule: Option<Schedule>,
    ) -> Result<StridedPlan, Error> {
        self.plan_of(problem, Some((index, schedule)))
    }

    fn plan_of(
        &self,
        problem: &StridedProblem,
        asked: Option<(usize, Option<Schedule>)>,
    ) -> Result<StridedPlan, Error> {
        problem.check()?;
        let device = &self.gemm.device;
        let mut info = StridedInfo::of(device, problem);
        let mut choices = Vec::new();
        if !problem.is_empty() {
            let of_kernel = problem.of_kernel();
            let (kernel, choice) = self.choose(&of_kernel, asked)?;
            info.kernel = Some(kernel);
            choices.push(choice);
            // BLAS does not read C when beta is 0, so C may hold anything, NaN included.
            let without_c = StridedProblem { beta_c: false, ..of_kernel };
            if problem.beta_c
                && let Ok((_, choice)) = self.choose(&without_c, None)
            {
                choices.push(choice);
            }
            let operands =
                if problem.beta_c { &['A', 'B', 'C', 'D'][..] } else { &['A', 'B', 'D'] };
            info.staging = operands.iter().filter_map(|&o| of_packed(problem, o)).collect();
        }
        let throttled = choices.iter().any(|choice| choice.throttled);
        let throttle = device.alloc_zeroed(if throttled { Throttle::BYTES } else { 0 })?;
        let kernel = |choice: Choice| {
            let partials = device.alloc_zeroed(choice.partial_bytes())?;
            Ok::<_, Error>(Kernel { choice, partials })
        };
        Ok(StridedPlan {
            device: device.clone(),
            module: self.gemm.module().clone(),
            problem: *problem,
            kernels: choices.into_iter().map(kernel).collect::<Result<_, _>>()?,
            throttle,
            staging: Staging::default(),
            turns: Turns::default(),
            info,
        })
    }

    /// The kernel of a product, as the kernel sees it, and its description.
    fn choose(
        &self,
        problem: &StridedProblem,
        asked: Option<(usize, Option<Schedule>)>,
    ) -> Result<(KernelInfo, Choice), Error> {
        let (index, why) = match asked {
            Some((index, _)) => (self.checked(problem, index)?, "the caller asked for it".into()),
            None => pick(&self.gemm, problem)?,
        };
        let instance = &self.gemm.instances()[index];
        let stacked = problem.stacked(instance);
        let schedule = asked.and_then(|(_, schedule)| schedule);
        let mut choice = self.gemm.choose(&stacked, index, schedule)?;
        // A raster group lies in one matrix.
        let tiling = Tiling::new(instance, problem.m, problem.n);
        choice.raster_swizzle = choice.raster_swizzle.min(tiling.clusters_m as u32);
        let mut kernel = KernelInfo::of(&stacked, index, &choice, why);
        kernel.tiles = problem.batch * tiling.tiles;
        kernel.waves = kernel.tiles as f64 / f64::from(kernel.ctas);
        Ok((kernel, choice))
    }

    /// Returns `index` if that row of the table computes `problem`, as the kernel sees it.
    fn checked(&self, problem: &StridedProblem, index: usize) -> Result<usize, Error> {
        let table = self.instances();
        match table.get(index) {
            Some(instance) if fits(instance, problem) => Ok(index),
            other => {
                let have = other.map_or_else(
                    || "the table has no such row".into(),
                    |i| {
                        format!(
                            "it computes {} in the layout {}",
                            kind_in_words(i),
                            super::Layout::of(i)
                        )
                    },
                );
                Err(Error::WrongInstance { index, count: table.len(), have })
            }
        }
    }
}

/// A planned batch of products; see [`StridedGemm::plan`].
pub struct StridedPlan {
    pub(super) device: Device,
    pub(super) module: Module,
    pub(super) problem: StridedProblem,
    /// Kernels to launch. The first one is the plan's. With C there is a second one without C, for `beta = 0`. There are none if D
    /// is empty.
    pub(super) kernels: Vec<Kernel>,
    /// The counter of the grid throttle; empty if no kernel is throttled.
    pub(super) throttle: Buffer,
    pub(super) staging: Staging,
    /// Whose turn it is to use the copies and the workspaces.
    pub(super) turns: Turns,
    info: StridedInfo,
}

/// A kernel of a plan.
pub(super) struct Kernel {
    pub choice: Choice,
    /// Stream-K workspace; empty if no tile is split.
    pub partials: Buffer,
}

impl StridedPlan {
    /// Description of the plan: kernel, grid and staging copies.
    pub fn describe(&self) -> &StridedInfo {
        &self.info
    }

    /// Bytes of the workspace through which clusters that split a tile add their sums; 0 if no tile is split. The plan
    /// has allocated them. (CUTLASS `get_workspace_size`.)
    pub fn workspace_bytes(&self) -> usize {
        self.kernels.iter().map(|kernel| kernel.partials.len()).sum()
    }

    /// Waits until the runs that share this plan's memory have ended, and releases the stream of the last one. See
    /// [`GemmPlan::synchronize`](crate::gemm::GemmPlan::synchronize).
    ///
    /// # Errors
    /// [`Error::Driver`] if a run failed.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.turns.synchronize()
    }

    /// The problem that the plan was made for.
    pub fn problem(&self) -> &StridedProblem {
        &self.problem
    }

    /// The scheduler's parameters, and the cluster tiles of a matrix.
    pub(super) fn scheduler(&self, choice: &Choice) -> (TileSchedulerParams, FastDivmod) {
        let StridedProblem { batch, m, n, k, .. } = self.problem.of_kernel();
        let clusters = choice.grid[0] / choice.instance.desc.meta.cluster_size();
        // If K is 0, one k tile of zeros is multiplied.
        let size = [m, n, k.max(1)].map(|x| x as u32);
        let (group, streamed) = (choice.raster_swizzle, choice.streamed);
        choice.instance.batched_scheduler(size, batch as u32, group, clusters, streamed)
    }
}
