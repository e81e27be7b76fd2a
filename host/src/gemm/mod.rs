//! D = alpha * A * B^T + beta * C: planned once, run many times.
//!
//! A is [M, K], B is [N, K] (a Linear layer's weight as checkpoints keep it), C and D are [M, N];
//! all are row-major without gaps between rows. A plan picks a kernel, its grid and its raster, and
//! how each operand reaches TMA: as it lies, or staged through a padded copy when its rows are not
//! a multiple of 16 bytes.

mod calibration;
mod layout;
mod pick;
mod plan;
mod predict;
mod problem;
mod run;

pub use pick::{Pick, Schedule, pick};
pub use plan::{GemmPlan, KernelInfo, PlanInfo, StagingInfo};
pub use predict::{Candidate, Prediction, candidates};
pub use problem::GemmProblem;
pub use run::BoundGemm;

use crate::device::Device;
use crate::error::Error;
use crate::launch::Module;
use crate::tensor_error::dtype_name;
use gpu_kernels::gemm::config::LoadArgs;
use gpu_kernels::gemm::instance::Instances;
use gpu_kernels::gemm::{Epilogue, INSTANCES, Instance, Linear, StreamKArgs, TileSchedulerParams};
use isa::kernel::{Image, KernelArg, ParamKind, ParamMeta};
use std::marker::PhantomData;

/// The GEMM of an image on a device, with the epilogue `E`.
pub struct Gemm<E = Linear> {
    device: Device,
    module: Module,
    instances: &'static [Instance],
    epilogue: PhantomData<fn() -> E>,
}

impl Gemm {
    /// The kernels of `gpu_kernels` from their image.
    pub fn new(device: &Device, image: &'static Image) -> Result<Self, Error> {
        Self::with_instances(device, image, INSTANCES)
    }
}

impl<E: Epilogue> Gemm<E> {
    /// The kernels of a table of your own, which [`gpu_kernels::gemm_kernels!`] makes.
    ///
    /// # Errors
    /// What [`Device::load`] finds; a row of the table that contradicts its kernel; a kernel that
    /// the image has not.
    pub fn with_instances(
        device: &Device,
        image: &'static Image,
        instances: Instances<E>,
    ) -> Result<Self, Error> {
        let instances = instances.rows;
        for instance in instances {
            check_instance(instance, E::META)?;
        }
        let module = device.load(image)?;
        for instance in instances {
            module.check(instance.desc)?;
        }
        Ok(Self { device: device.clone(), module, instances, epilogue: PhantomData })
    }

    /// The kernels' module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The table.
    pub fn instances(&self) -> &'static [Instance] {
        self.instances
    }

    /// Plans a product with the picker's choice.
    pub fn plan(&self, problem: &GemmProblem) -> Result<GemmPlan<E>, Error> {
        GemmPlan::new(self, problem, None)
    }

    /// Plans a product with row `index` of the table.
    pub fn plan_with(&self, problem: &GemmProblem, index: usize) -> Result<GemmPlan<E>, Error> {
        GemmPlan::new(self, problem, Some((index, None)))
    }

    /// Plans a product with row `index` of the table and a schedule of one's own.
    ///
    /// # Errors
    /// [`Error::BadSchedule`] if the device does not hold so many clusters, there are fewer tiles than are
    /// to be shared, the row's kernel shares none, or they have 2^30 stages or more.
    pub fn plan_scheduled(
        &self,
        problem: &GemmProblem,
        index: usize,
        schedule: Schedule,
    ) -> Result<GemmPlan<E>, Error> {
        GemmPlan::new(self, problem, Some((index, Some(schedule))))
    }

    /// Plans a product with every row of the table that computes it, each in every schedule that is
    /// worth a look: what is to be timed to find the fastest.
    ///
    /// # Errors
    /// What [`Gemm::plan_scheduled`] finds.
    pub fn plan_every(&self, problem: &GemmProblem) -> Result<Vec<GemmPlan<E>>, Error> {
        let mut plans = Vec::new();
        for (index, instance) in self.instances.iter().enumerate() {
            if pick::fits(instance, problem, problem.beta_c) {
                for (_, schedule) in self.schedules(problem, index)? {
                    plans.push(self.plan_scheduled(problem, index, schedule)?);
                }
            }
        }
        Ok(plans)
    }
}

/// A row of the table must say what its kernel says.
fn check_instance(instance: &Instance, epilogue: ParamMeta) -> Result<(), Error> {
    let Instance { bm, bn, bk, cluster_m, cluster_n, .. } = *instance;
    let meta = &instance.desc.meta;
    let bad = |what| Err(Error::BadInstance { kernel: meta.name().into(), what });
    if [bm, bn, bk, cluster_m, cluster_n].contains(&0) {
        return bad(format!("tile {bm}x{bn}x{bk}, cluster {cluster_m}x{cluster_n}: none may be 0"));
    }
    if u64::from(cluster_m) * u64::from(cluster_n) != u64::from(meta.cluster_size()) {
        return bad(format!(
            "cluster {cluster_m}x{cluster_n} in the table, {:?} in the kernel",
            meta.cluster
        ));
    }
    let params = meta.params();
    let maps = params.iter().take_while(|p| p.kind == ParamKind::TensorMap as u32).count();
    let (maps, rest) = params.split_at(maps);
    let sizes = |metas: &[ParamMeta]| metas.iter().map(|p| p.size).collect::<Vec<_>>();
    let scheduler = if instance.splits_k {
        <StreamKArgs<'_> as KernelArg>::META
    } else {
        <TileSchedulerParams as KernelArg>::META
    };
    let right = [<LoadArgs<'_> as KernelArg>::META, epilogue, scheduler];
    if maps.len() != 4 || rest != right {
        return bad(format!(
            "{} tensor maps, then parameters of {:?} bytes; 4, then LoadArgs, the epilogue and the scheduler's \
             arguments, {:?} bytes, are right",
            maps.len(),
            sizes(rest),
            sizes(&right)
        ));
    }
    let (ab, out) = (instance.ab as u32, instance.out as u32);
    if maps.iter().map(|p| p.dtype).ne([ab, ab, out, out]) {
        return bad(format!(
            "operands {} and result {} in the table, other types in the kernel's tensor maps",
            dtype_name(instance.ab),
            dtype_name(instance.out)
        ));
    }
    Ok(())
}
