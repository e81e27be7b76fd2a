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
mod run;

pub use pick::{Pick, Schedule, pick};
pub use plan::{GemmPlan, KernelInfo, PlanInfo, StagingInfo};
pub use predict::{Candidate, Prediction, candidates};
pub use run::BoundGemm;

use crate::device::Device;
use crate::error::Error;
use crate::launch::Module;
use crate::tensor_error::dtype_name;
use gpu_kernels::gemm::config::LoadArgs;
use gpu_kernels::gemm::divmod::FastDivmod;
use gpu_kernels::gemm::instance::Instances;
use gpu_kernels::gemm::{Epilogue, INSTANCES, Instance, Linear, StreamKArgs, TileSchedulerParams};
use isa::kernel::{Dtype, Image, KernelArg, ParamKind, ParamMeta};
use std::marker::PhantomData;

/// A product to plan for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct GemmProblem {
    /// Rows of A, C and D.
    pub m: u64,
    /// Rows of B; columns of C and D.
    pub n: u64,
    /// Columns of A and B.
    pub k: u64,
    /// Element type of A and B: bf16 or f16.
    pub ab: Dtype,
    /// Element type of C and D: bf16, f16 or f32.
    pub out: Dtype,
    /// Whether C is added.
    pub beta_c: bool,
}

impl GemmProblem {
    /// Multiplications and additions of the product.
    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Bytes of A, B, C (or D).
    pub fn bytes(&self, operand: char) -> u64 {
        let (rows, cols, dtype) = self.shape(operand);
        rows.saturating_mul(cols).saturating_mul(dtype.size() as u64)
    }

    /// Rows, columns and type of an operand.
    fn shape(&self, operand: char) -> (u64, u64, Dtype) {
        match operand {
            'A' => (self.m, self.k, self.ab),
            'B' => (self.n, self.k, self.ab),
            _ => (self.m, self.n, self.out),
        }
    }

    /// Refuses a buffer of `have` bytes if this operand (A, B, C or D) has another number of them.
    ///
    /// # Errors
    /// [`Error::OperandSize`].
    pub fn check_size(&self, operand: char, have: u64) -> Result<(), Error> {
        let (rows, cols, dtype) = self.shape(operand);
        let (need, dtype) = (self.bytes(operand), dtype_name(dtype));
        if need == have {
            return Ok(());
        }
        Err(Error::OperandSize { operand, rows, cols, dtype, need, have })
    }

    /// Types that exist and sizes that fit.
    ///
    /// # Errors
    /// [`Error::GemmDtype`] and [`Error::SizeOverflow`].
    pub fn check(&self) -> Result<(), Error> {
        if !matches!(self.ab, Dtype::Bf16 | Dtype::F16) {
            let dtype = dtype_name(self.ab);
            return Err(Error::GemmDtype { side: "operands", dtype, right: "bf16 and f16 are" });
        }
        if !matches!(self.out, Dtype::Bf16 | Dtype::F16 | Dtype::F32) {
            let dtype = dtype_name(self.out);
            return Err(Error::GemmDtype { side: "result", dtype, right: "bf16, f16 and f32 are" });
        }
        for (what, value) in [("M", self.m), ("N", self.n), ("K", self.k)] {
            if value > i32::MAX as u64 {
                let limit = "a dimension is at most 2^31-1, as TMA's coordinates are";
                return Err(Error::SizeOverflow { what, factors: value.to_string(), limit });
            }
        }
        for (what, operand) in [("bytes of A", 'A'), ("bytes of B", 'B'), ("bytes of D", 'D')] {
            let (rows, cols, dtype) = self.shape(operand);
            // Each factor is below 2^31: the product with 4 bytes fits in a u64. An address space
            // of 47 bits is what a GPU has.
            let bytes = rows * cols * dtype.size() as u64;
            if bytes >= 1 << 47 {
                let factors = format!("{rows} x {cols} x {}", dtype.size());
                let limit = "a GPU addresses less than 2^47 bytes";
                return Err(Error::SizeOverflow { what, factors, limit });
            }
        }
        // Kernels divide the numbers of tiles by multiplying (`FastDivmod`). No tile of the table is smaller than
        // 16 x 16.
        let (rows, cols) = (self.m.div_ceil(16), self.n.div_ceil(16));
        if rows * cols >= u64::from(FastDivmod::DIVIDENDS) {
            let factors = format!("{rows} x {cols}");
            let limit = "a grid walks less than 2^30 of 16 x 16 elements";
            return Err(Error::SizeOverflow { what: "tiles of D", factors, limit });
        }
        Ok(())
    }
}

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
