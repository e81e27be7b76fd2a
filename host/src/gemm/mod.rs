//! GEMM, D = alpha * A * B^T + beta * C: planned once, run many times.
//!
//! A is [M, K], B is [N, K] (as checkpoints store a Linear layer's weight), C and D are [M, N]. All
//! are row-major: buffers without gaps between rows, or [`View`](crate::View)s with an offset and a row pitch.
//! [`Gemm::plan`] picks the kernel, its grid and its raster swizzle. TMA requires an address and a row pitch that are
//! multiples of 16 bytes. Any other operand goes through a padded copy. [`Gemm::tune`] times the kernels of a product on the
//! GPU, and a [`TuneCache`] keeps the fastest for [`Gemm::plan_tuned`].
//!
//! | constructor | computes |
//! |---|---|
//! | [`Gemm::new`] | D = alpha * A * B^T + beta * C |
//! | [`Gemm::fused`] | a linear layer: bias, activation and residual |
//! | [`Gemm::gated`] | SwiGLU and GeGLU; D has N / 2 columns |
//! | [`Gemm::scaled`] | e4m3 operands with scales: D = alpha * scale of A * scale of B * A * B^T |
//! | [`Gemm::scaled_mix`], [`Gemm::scaled_c`] | the same with e5m2 operands; the same with beta * C |
//! | [`Gemm::quantised`] | the same with an e4m3 result |
//! | [`Gemm::block_scaled`] | e4m3 operands with scales of blocks of K |
//! | [`Gemm::int8`], [`Gemm::int8_scaled`] | 8-bit integer operands |
//! | [`Gemm::strided`] | operands in other layouts, and batches |
//! | [`Gemm::grouped`] | groups of rows, each with its own B |
//! | [`Gemm::grouped_array`] | products with different sizes and places, in one launch |

mod array;
mod block_scaled;
mod calibration;
mod choice;
mod fused;
mod grouped;
mod hardware;
mod info;
mod int8;
mod kernel_times;
mod layout;
mod operand;
mod pick;
mod plan;
mod predict;
mod problem;
mod quantised;
mod run;
mod scaled;
mod scaled_fused;
mod schedule;
mod strided;
mod tune;

pub use array::{ArrayError, ArrayGemm, ArrayPlan, ArrayProblem, BoundArray};
pub use block_scaled::BlockScales;
pub use calibration::Calibration;
pub use fused::{FusedGemm, Fusion, GatedGemm};
pub use grouped::{
    BoundGrouped, GroupedError, GroupedGemm, GroupedInfo, GroupedPlan, GroupedProblem, GroupedRows,
};
pub use hardware::HardwareInfo;
pub use info::{KernelInfo, PlanInfo, StagingInfo};
pub use int8::Int8Gemm;
pub use kernel_times::KernelTimes;
pub use pick::{Pick, pick};
pub use plan::GemmPlan;
pub use predict::{Candidate, FEATURES, Prediction, candidates, features_of, predict};
pub use problem::GemmProblem;
pub use quantised::{QuantisedGemm, ResultScale, ScaledCGemm};
pub use run::BoundGemm;
pub use scaled::{OperandScales, ScaledGemm};
pub use scaled_fused::ScaledFusedGemm;
pub use schedule::Schedule;
pub use strided::{
    BoundStrided, Layout, Major, Order, Strided, StridedError, StridedGemm, StridedInfo,
    StridedMut, StridedPlan, StridedProblem,
};
pub use tune::{TuneCache, TuneEntry, TuneError, TuneKey, Tuned};

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::launch::Module;
use crate::tensor_error::{dtype_name, pair_name};
use gpu_kernels::gemm::config::LoadArgs;
use gpu_kernels::gemm::instance::Instances;
use gpu_kernels::gemm::{
    BatchedArgs, Epilogue, INSTANCES, Instance, Linear, Sfb, StreamKArgs, TileSchedulerParams,
};
use isa::kernel::{Image, KernelArg, ParamKind, ParamMeta};
use std::marker::PhantomData;

/// The GEMM kernels of an image, loaded on a device, with the epilogue `E`.
pub struct Gemm<E = Linear> {
    device: Device,
    module: Module,
    instances: &'static [Instance],
    hardware: HardwareInfo,
    epilogue: PhantomData<fn() -> E>,
}

impl Gemm {
    /// Loads the GEMM kernels of `gpu_kernels` from their image.
    ///
    /// # Errors
    /// The errors of [`Gemm::with_instances`].
    pub fn new(device: &Device, image: &'static Image) -> Result<Self, Error> {
        Self::with_instances(device, image, INSTANCES)
    }
}

impl<E: Epilogue> Gemm<E> {
    /// Loads the kernels of a table that you made with [`gpu_kernels::gemm_kernels!`].
    ///
    /// # Errors
    /// An error of [`Device::load`]; a row of the table that contradicts its kernel; a kernel that the
    /// image does not have.
    pub fn with_instances(
        device: &Device,
        image: &'static Image,
        instances: Instances<E>,
    ) -> Result<Self, Error> {
        let instances = instances.rows;
        for instance in instances {
            check_instance(instance, E::META)?;
            if instance.gated != E::GATED {
                let words = |gated| if gated { "gated" } else { "not gated" };
                let (table, epilogue) = (words(instance.gated), words(E::GATED));
                let what = format!("{table} in the table; the epilogue is {epilogue}");
                let kernel = instance.desc.meta.name().into();
                return Err(Error::BadInstance { kernel, what });
            }
        }
        let module = device.load(image)?;
        for instance in instances {
            module.check(instance.desc)?;
        }
        let (device, hardware) = (device.clone(), HardwareInfo::of(device));
        Ok(Self { device, module, instances, hardware, epilogue: PhantomData })
    }

    /// Predicts times for this GPU, for example with a calibration of your own, instead of the device's
    /// ([`HardwareInfo::of`]).
    #[must_use]
    pub fn with_hardware(self, hardware: HardwareInfo) -> Self {
        Self { hardware, ..self }
    }

    /// The module that holds the kernels.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The instance table.
    pub fn instances(&self) -> &'static [Instance] {
        self.instances
    }

    /// Plans a product with the instance and schedule that [`pick`] chooses.
    ///
    /// A plan with a workspace or a staging copy zeroes its memory, and waits for the device. So during a capture call
    /// [`Gemm::plan_in`] instead.
    ///
    /// # Errors
    /// The errors of [`GemmProblem::check`]; [`Error::NoInstance`] if no kernel of the table computes the product;
    /// [`Error::GatedRows`]; errors of the assembler and of an allocation.
    pub fn plan(&self, problem: &GemmProblem) -> Result<GemmPlan<E>, Error> {
        GemmPlan::new(self, problem, None, &mut |bytes| self.device.alloc_zeroed(bytes))
    }

    /// [`Gemm::plan`] with workspaces and staging copies in the caller's memory.
    ///
    /// `alloc` gets a number of bytes, which may be 0, and returns a buffer of at least that size on this device.
    /// Its bytes must be 0 when the first run of the plan begins. A plan in memory of another allocator can be
    /// made while a stream is captured, which forbids the driver's allocations. [`GemmPlan::bind`] still
    /// allocates a copy for a view that TMA does not take as it lies.
    ///
    /// # Errors
    /// The errors of [`Gemm::plan`] and of `alloc`; [`Error::OutOfBuffer`] for a buffer that is too small;
    /// [`Error::ForeignDevice`] for one of another device.
    pub fn plan_in(
        &self,
        problem: &GemmProblem,
        alloc: impl FnMut(usize) -> Result<Buffer, Error>,
    ) -> Result<GemmPlan<E>, Error> {
        self.plan_in_with(problem, None, alloc)
    }

    /// [`Gemm::plan_in`] with a row of the table and a schedule, if they are given.
    fn plan_in_with(
        &self,
        problem: &GemmProblem,
        asked: Option<(usize, Option<Schedule>)>,
        mut alloc: impl FnMut(usize) -> Result<Buffer, Error>,
    ) -> Result<GemmPlan<E>, Error> {
        let mut checked = |bytes: usize| {
            let buffer = alloc(bytes)?.part(0, bytes)?;
            self.device.check_buffer("memory of a plan", &buffer)?;
            Ok(buffer)
        };
        GemmPlan::new(self, problem, asked, &mut checked)
    }

    /// Plans a product with row `index` of the table.
    ///
    /// # Errors
    /// [`Error::WrongInstance`] if that row does not compute the product; the errors of [`Gemm::plan`].
    pub fn plan_with(&self, problem: &GemmProblem, index: usize) -> Result<GemmPlan<E>, Error> {
        GemmPlan::new(self, problem, Some((index, None)), &mut |bytes| {
            self.device.alloc_zeroed(bytes)
        })
    }

    /// Plans a product with row `index` of the table and a given schedule.
    ///
    /// # Errors
    /// [`Error::BadSchedule`] in these cases: the device does not hold that many clusters; the schedule
    /// splits more tiles than there are; the kernel does not split tiles; the split tiles have 2^30 k tiles
    /// or more.
    pub fn plan_scheduled(
        &self,
        problem: &GemmProblem,
        index: usize,
        schedule: Schedule,
    ) -> Result<GemmPlan<E>, Error> {
        GemmPlan::new(self, problem, Some((index, Some(schedule))), &mut |bytes| {
            self.device.alloc_zeroed(bytes)
        })
    }

    /// Plans a product with every instance that computes it, in every schedule that is worth trying.
    /// [`Gemm::tune`] finds the fastest one in bounded time.
    ///
    /// # Errors
    /// The errors of [`Gemm::plan_scheduled`].
    pub fn plan_every(&self, problem: &GemmProblem) -> Result<Vec<GemmPlan<E>>, Error> {
        let mut plans = Vec::new();
        for (index, instance) in self.instances.iter().enumerate() {
            if schedule::fits(instance, problem, problem.beta_c) {
                for (_, schedule) in self.schedules(problem, index)? {
                    plans.push(self.plan_scheduled(problem, index, schedule)?);
                }
            }
        }
        Ok(plans)
    }
}

/// Checks that a row of the table agrees with its kernel.
fn check_instance(instance: &Instance, epilogue: ParamMeta) -> Result<(), Error> {
    let Instance { bm, bn, bk, cluster_m, cluster_n, .. } = *instance;
    let meta = &instance.desc.meta;
    let bad = |what| Err(Error::BadInstance { kernel: meta.name().into(), what });
    if [bm, bn, bk, cluster_m, cluster_n].contains(&0) {
        return bad(format!(
            "tile {bm}x{bn}x{bk}, cluster {cluster_m}x{cluster_n}: no size may be 0"
        ));
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
    let scheduler = match (instance.splits_k, instance.batched) {
        (true, false) => <StreamKArgs<'_> as KernelArg>::META,
        (false, false) => <TileSchedulerParams as KernelArg>::META,
        (true, true) => <BatchedArgs<StreamKArgs<'static>> as KernelArg>::META,
        (false, true) => <BatchedArgs<TileSchedulerParams> as KernelArg>::META,
    };
    let mut right = vec![<LoadArgs<'_> as KernelArg>::META, epilogue, scheduler];
    let mut right_maps = 4;
    if instance.scale_granularity.is_some() {
        right.insert(0, <Sfb<'_> as KernelArg>::META);
        right_maps += 1;
    }
    if maps.len() != right_maps || rest != right {
        return bad(format!(
            "{} tensor maps, then parameters of {:?} bytes; expected {right_maps} tensor maps, then the block scales if it \
             has any, LoadArgs, the epilogue and the scheduler's arguments of {:?} bytes",
            maps.len(),
            sizes(rest),
            sizes(&right)
        ));
    }
    let [a, b, out] = [instance.ab, instance.b, instance.out].map(|dtype| dtype as u32);
    let [a, b] = if instance.swap_ab { [b, a] } else { [a, b] };
    if maps.iter().take(4).map(|p| p.dtype).ne([a, b, out, out]) {
        return bad(format!(
            "the table says operands {} and result {}; the kernel's tensor maps have other types",
            pair_name(instance.ab, instance.b),
            dtype_name(instance.out)
        ));
    }
    Ok(())
}
