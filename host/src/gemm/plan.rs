//! A plan holds everything about a product that does not depend on the addresses of its operands.

use super::calibration::THROTTLE_EPOCH;
use super::choice::Choice;
use super::info::{KernelInfo, PlanInfo};
use super::layout::{Layout, Place};
use super::pick::{Pick, kind_in_words, pick, raster_swizzle};
use super::predict::{Prediction, Tiled, resident, schedule};
use super::schedule::{Schedule, Tiling, fits};
use super::{Gemm, GemmProblem};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::launch::Module;
use crate::tensor_error::pair_name;
use crate::turns::Turns;
use gpu_kernels::gemm::{Epilogue, Instance, Linear};
use pipeline::grid::Throttle;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// The rows of B in one block of a gated product. Half of them are gates.
const GATED_ROWS: u64 = 16;

/// Allocates this many bytes of zeroed memory.
pub(super) type Alloc<'a> = &'a mut dyn FnMut(usize) -> Result<Buffer, Error>;

/// A planned product; see [`Gemm::plan`].
pub struct GemmPlan<E = Linear> {
    pub(super) device: Device,
    pub(super) module: Module,
    pub(super) problem: GemmProblem,
    /// Kernels to launch. The first one is the plan's. With C there may be a second one without C, for
    /// `beta = 0`. The list is empty when D is.
    pub(super) choices: Vec<Choice>,
    /// Layouts of A, B, C and D.
    pub(super) layouts: [Layout; 4],
    /// Copies of the operands that cannot be used in place, in the same order. The plan allocates those that packed
    /// operands need. The first `bind` of a view that needs another one allocates that.
    staging: [OnceLock<Buffer>; 4],
    /// Stream-K workspace of each choice; empty if the choice splits no tile.
    pub(super) partials: Vec<Buffer>,
    /// The counter of the grid throttle; empty if no kernel of the plan is throttled.
    pub(super) throttle: Buffer,
    /// K tiles of an epoch of the throttle.
    pub(super) epoch: u32,
    /// Whose turn it is to use the staging copies and the workspaces.
    pub(super) turns: Turns,
    pub(super) epilogue: PhantomData<fn() -> E>,
    info: PlanInfo,
}

impl<E: Epilogue> GemmPlan<E> {
    pub(super) fn new(
        gemm: &Gemm<E>,
        problem: &GemmProblem,
        asked: Option<(usize, Option<Schedule>)>,
        alloc: Alloc<'_>,
    ) -> Result<Self, Error> {
        problem.check()?;
        if E::GATED && !problem.n.is_multiple_of(GATED_ROWS) {
            return Err(Error::GatedRows { n: problem.n });
        }
        let mut info = PlanInfo::of(&gemm.device, problem, E::GATED);
        let mut choices = Vec::new();
        // In a table, the type of A says which one B has.
        let b = gemm.instances.iter().find(|i| i.ab == problem.ab).map_or(problem.ab, |i| i.b);
        info.ab = pair_name(problem.ab, b);
        let layouts =
            ['A', 'B', 'C', 'D'].map(|operand| Layout::new(&problem.of::<E>(operand), operand, b));
        let mut staging = [const { OnceLock::new() }; 4];
        if problem.m == 0 || problem.n == 0 {
            info.notes.push("D is empty: nothing is launched".into());
        } else {
            let (index, choice, why) = if let Some((index, schedule)) = asked {
                let index = gemm.checked(problem, index)?;
                let why = "the caller asked for it".to_owned();
                (index, gemm.choose(problem, index, schedule)?, why)
            } else {
                let p = pick(gemm.instances, problem, problem.beta_c, gemm.hardware)?;
                (p.index, gemm.take(problem, &p)?, p.why)
            };
            info.kernel = Some(KernelInfo::of(problem, index, &choice, why));
            choices.push(choice);
            // BLAS does not read C when beta is 0, so C may hold anything, NaN included.
            if problem.beta_c
                && let Ok(p) = pick(gemm.instances, problem, false, gemm.hardware)
            {
                choices.push(gemm.take(problem, &p)?);
            }
            for (layout, copy) in layouts.iter().zip(&mut staging) {
                if layout.operand != 'C' || problem.beta_c {
                    *copy = info.stage(alloc, layout)?;
                }
            }
        }
        // Each kernel has its own workspace: the flags of one would overlap the partials of the other.
        let partials = choices.iter().map(|c| alloc(c.partial_bytes()));
        let partials = partials.collect::<Result<_, _>>()?;
        let throttle = if choices.iter().any(|c| c.throttled) { Throttle::BYTES } else { 0 };
        Ok(Self {
            device: gemm.device.clone(),
            module: gemm.module.clone(),
            problem: *problem,
            choices,
            layouts,
            staging,
            partials,
            throttle: alloc(throttle)?,
            epoch: THROTTLE_EPOCH,
            turns: Turns::default(),
            epilogue: PhantomData,
            info,
        })
    }

    /// Description of the plan: kernel, grid and staging copies.
    pub fn describe(&self) -> &PlanInfo {
        &self.info
    }

    /// The same plan with the grid throttle ([`Throttle`]) in epochs of `epoch` k tiles (0 counts as 1), even if the
    /// prediction leaves it out.
    ///
    /// # Errors
    /// [`Error`] of the allocation of the throttle's counter.
    pub fn throttle(mut self, epoch: u32) -> Result<Self, Error> {
        self.epoch = epoch;
        self.throttle = self.device.alloc_zeroed(Throttle::BYTES)?;
        if let Some(kernel) = &mut self.info.kernel {
            kernel.throttled = true;
        }
        Ok(self)
    }

    /// The same plan, with a reason for its kernel.
    pub(super) fn because(mut self, why: String) -> Self {
        if let Some(kernel) = &mut self.info.kernel {
            kernel.why = why;
        }
        self
    }

    /// The staging copy, or the zero row, of operand `i`. Allocates it where there is none yet.
    pub(super) fn staging(&self, i: usize) -> Result<&Buffer, Error> {
        let cell = &self.staging[i];
        if let Some(copy) = cell.get() {
            return Ok(copy);
        }
        let copy = copy_of(&mut |bytes| self.device.alloc_zeroed(bytes), &self.layouts[i], 1)?;
        // Another thread may have been faster: then its copy stays.
        Ok(cell.get_or_init(|| copy))
    }

    /// Waits until the runs that share this plan's memory have ended, and releases the stream of the last one.
    ///
    /// Call this before you destroy a stream that you passed to [`Stream::from_raw`](crate::Stream::from_raw). It does not
    /// wait for runs that were captured.
    ///
    /// # Errors
    /// [`Error::Driver`] if a run failed.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.turns.synchronize()
    }

    /// Number of throttle epochs that all runs of this plan have completed so far. Each run adds a power of two
    /// ([`Throttle::epochs`]).
    ///
    /// # Errors
    /// What [`Buffer::read`] reports.
    pub fn epochs(&self) -> Result<u32, Error> {
        let mut counter = [0; Throttle::BYTES];
        if self.throttle.is_empty() {
            return Ok(0);
        }
        self.throttle.read(&mut counter)?;
        Ok(u32::from_ne_bytes(counter) / Throttle::EPOCH)
    }

    /// The problem that the plan was made for.
    pub fn problem(&self) -> &GemmProblem {
        &self.problem
    }
}

impl<E: Epilogue> Gemm<E> {
    /// Returns `index` if that row of the table computes `problem`.
    fn checked(&self, problem: &GemmProblem, index: usize) -> Result<usize, Error> {
        let count = self.instances.len();
        match self.instances.get(index) {
            Some(i) if fits(i, problem, problem.beta_c) => Ok(index),
            other => {
                let have = other.map_or_else(
                    || "the table has no such row".into(),
                    |i| format!("it computes {}", kind_in_words(i)),
                );
                Err(Error::WrongInstance { index, count, have })
            }
        }
    }

    /// The schedules that are worth trying for row `index` of the table, each with its predicted time in
    /// microseconds.
    ///
    /// # Errors
    /// [`Error::WrongInstance`] if that row does not compute `problem`.
    pub fn schedules(
        &self,
        problem: &GemmProblem,
        index: usize,
    ) -> Result<Vec<(f64, Schedule)>, Error> {
        let instance = &self.instances[self.checked(problem, index)?];
        let active = self.active(instance)?;
        let tiled = Tiled::new(instance, problem, self.hardware, active);
        Ok(tiled.schedules().map(|p| (p.predicted_us, p.schedule)).collect())
    }

    /// Number of clusters of an instance that run at one time, with at most one CTA on each SM. Where two
    /// fit on an SM, the second one belongs to the dependent grid.
    pub(super) fn active(&self, instance: &Instance) -> Result<u64, Error> {
        let held = u64::from(self.module.max_active_clusters(instance.desc)?);
        let cluster = instance.desc.meta.cluster_size();
        Ok(held.min(u64::from(self.device.sms() / cluster)))
    }

    /// What the picker chose. The picker estimates how many clusters the device holds. If the driver says otherwise, the picked
    /// kernel's schedules are searched again.
    fn take(&self, problem: &GemmProblem, pick: &Pick) -> Result<Choice, Error> {
        let instance = &self.instances[pick.index];
        let estimated = resident(self.hardware.sms, instance);
        let active = self.active(instance)?;
        if active != estimated || u64::from(pick.schedule.clusters) > active {
            return self.choose(problem, pick.index, None);
        }
        let choice = self.choose(problem, pick.index, Some(pick.schedule))?;
        Ok(Choice { predicted_us: pick.predicted_us, ..choice })
    }

    pub(super) fn choose(
        &self,
        problem: &GemmProblem,
        index: usize,
        asked: Option<Schedule>,
    ) -> Result<Choice, Error> {
        let instance = &self.instances[index];
        let tiling = Tiling::new(instance, problem.m, problem.n);
        let cluster = instance.desc.meta.cluster_size();
        let fit = self.active(instance)?;
        if fit == 0 {
            return Err(Error::LaunchCluster {
                kernel: instance.desc.meta.name().into(),
                grid: [cluster, 1, 1],
                cluster: instance.desc.meta.cluster,
                right: "the device has no room for one such cluster",
            });
        }
        let schedule = match asked {
            Some(asked) => asked.checked(
                instance.splits_k,
                &tiling,
                problem.k.div_ceil(u64::from(instance.bk)),
                fit,
            )?,
            None => schedule(instance, problem, self.hardware, fit),
        };
        let Schedule { clusters, streamed } = schedule;
        let raster_swizzle = raster_swizzle(instance, &tiling, u64::from(clusters));
        let prediction =
            Prediction::new(&Tiled::new(instance, problem, self.hardware, fit), schedule);
        let (prefetch, throttled) =
            (prediction.prefetch(self.device.sms()), prediction.throttled());
        let (grid, predicted_us) = ([clusters * cluster, 1, 1], prediction.predicted_us);
        // Assembled here, so that neither a bind nor a run, which may be captured, has to.
        self.module.preload(&[instance.desc])?;
        let prepared = self.module.prepare(instance.desc, grid)?;
        Ok(Choice {
            instance,
            grid,
            prepared,
            raster_swizzle,
            streamed,
            prefetch,
            throttled,
            predicted_us,
        })
    }
}

impl PlanInfo {
    /// Allocates the staging copy that a packed operand needs, and notes it in the description.
    fn stage(&mut self, alloc: Alloc<'_>, layout: &Layout) -> Result<OnceLock<Buffer>, Error> {
        match layout.packed() {
            Place::Own { .. } => return Ok(OnceLock::new()),
            Place::Zero if layout.operand == 'A' => {
                self.notes.push("K is 0: one k tile of zeros is multiplied".into());
            }
            Place::Zero => {}
            Place::Staged => self.staging.push(layout.staging(1)),
        }
        copy_of(alloc, layout, 1).map(OnceLock::from)
    }
}

/// Allocates the staging copy of `matrices` matrices of an operand, or its zero row.
pub(super) fn copy_of(alloc: Alloc<'_>, layout: &Layout, matrices: u64) -> Result<Buffer, Error> {
    let size = usize::try_from(layout.staging(matrices).bytes);
    let size = size.ok().filter(|&size| size < usize::MAX).ok_or_else(|| Error::SizeOverflow {
        what: "bytes of a staging copy",
        factors: format!("{matrices} x {} x {}", layout.rows, layout.padded()),
        limit: "the host's address space is smaller",
    })?;
    alloc(size)
}
