//! Grouped products: groups of rows of A, each with its own B, as in a mixture of experts.
//!
//! D\[i\] = alpha * A\[i\] * B\[group of row i\]^T. A is [rows, K], B is [groups, N, K], D is [rows, N], all row-major. The
//! ends of the groups are `i32` values in device memory. The kernel reads them when it runs. So neither a plan nor a run
//! waits for the device, and each replay of a captured run can have different groups.
//!
//! (torch: `torch._grouped_mm`; DeepGEMM: `m_grouped_gemm_*_contiguous` and `_masked`; CUTLASS: `GemmUniversalMode::kGrouped`.)

mod error;
mod info;
mod plan;
mod problem;
mod run;

pub use error::GroupedError;
pub use info::GroupedInfo;
pub use plan::GroupedPlan;
pub use problem::{GroupedProblem, GroupedRows};
pub use run::BoundGrouped;

use super::{Gemm, HardwareInfo};
use crate::device::Device;
use crate::error::Error;
use crate::launch::Module;
use gpu_kernels::gemm::grouped::GROUPED_INSTANCES;
use gpu_kernels::gemm::scheduler::GroupedArgs;
use gpu_kernels::gemm::{Instance, Linear};
use isa::kernel::{Image, KernelArg, ParamKind};

/// Tensor maps of a grouped kernel: A, B and D.
const MAPS: usize = 3;

/// The grouped GEMM kernels of an image, loaded on a device; see [`Gemm::grouped`].
pub struct GroupedGemm {
    device: Device,
    module: Module,
    instances: &'static [Instance],
    hardware: HardwareInfo,
}

impl Gemm {
    /// Loads the grouped GEMM kernels of `gpu_kernels` from their image. Operands and result are bf16.
    ///
    /// ```
    /// # fn main() -> Result<(), warpipe_host::Error> {
    /// # use {gpu_kernels::gemm::grouped::GROUPED_INSTANCES, isa::kernel::Image, warpipe_host as host};
    /// # let kernels: Vec<_> = GROUPED_INSTANCES.iter().map(|i| i.desc.meta).collect();
    /// # let kernels = kernels.leak();
    /// # let image = Box::leak(Box::new(Image { name: "", arch: "sm_90a", code: &[], kernels, ptxas: None, others: &[] }));
    /// use host::gemm::{Gemm, GroupedProblem, GroupedRows};
    /// use host::{Device, SimConfig, data, Dtype::Bf16};
    ///
    /// // 24 tokens of two experts: the first one has 5 of them.
    /// let device = Device::sim(SimConfig::default());
    /// let rows = GroupedRows::Contiguous { total: 24 };
    /// let problem = GroupedProblem { groups: 2, rows, n: 16, k: 64, dtype: Bf16 };
    /// let gemm = Gemm::grouped(&device, image)?;
    /// let plan = gemm.plan(&problem)?;
    /// let a = device.upload(&data::encode(&vec![1.0; 24 * 64], Bf16)?)?;
    /// let b = device.upload(&data::encode(&vec![0.5; 2 * 16 * 64], Bf16)?)?;
    /// let ends = device.upload(&[5i32, 24].map(i32::to_ne_bytes).concat())?;
    /// let mut d = device.alloc(24 * 16 * 2)?;
    /// plan.run(&a, &b, &ends, &mut d, 1.0)?;
    /// assert_eq!(data::decode(&d.to_vec()?, Bf16)?, vec![32.0; 24 * 16]);
    /// assert_eq!(plan.bad_group()?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`GroupedError::NoKernel`] if the feature `gemm-grouped` is off; an error of [`Device::load`]; a kernel that the
    /// image does not have.
    pub fn grouped(device: &Device, image: &'static Image) -> Result<GroupedGemm, Error> {
        if GROUPED_INSTANCES.is_empty() {
            return Err(GroupedError::NoKernel.into());
        }
        for instance in GROUPED_INSTANCES {
            check_instance(instance)?;
        }
        let module = device.load(image)?;
        for instance in GROUPED_INSTANCES {
            module.check(instance.desc)?;
        }
        let hardware = HardwareInfo::of(device);
        Ok(GroupedGemm { device: device.clone(), module, instances: GROUPED_INSTANCES, hardware })
    }
}

impl GroupedGemm {
    /// Predicts times for this GPU instead of the device ([`Gemm::with_hardware`]).
    #[must_use]
    pub fn with_hardware(self, hardware: HardwareInfo) -> Self {
        Self { hardware, ..self }
    }

    /// The instance table.
    pub fn instances(&self) -> &'static [Instance] {
        self.instances
    }

    /// Plans a product. Of the instances whose predicted times, for groups of the mean size, are within 2 % of the shortest, it
    /// takes one with the smallest tile.
    ///
    /// # Errors
    /// [`GroupedError`] for a problem that the kernels do not compute; errors of the allocation of the status word.
    pub fn plan(&self, problem: &GroupedProblem) -> Result<GroupedPlan, Error> {
        GroupedPlan::new(self, problem, None)
    }

    /// Plans a product with row `index` of the table.
    ///
    /// # Errors
    /// [`Error::WrongInstance`] if there is no such row; the errors of [`GroupedGemm::plan`].
    pub fn plan_with(&self, problem: &GroupedProblem, index: usize) -> Result<GroupedPlan, Error> {
        GroupedPlan::new(self, problem, Some(index))
    }
}

/// Checks that a row of the table agrees with its kernel.
fn check_instance(instance: &Instance) -> Result<(), Error> {
    let params = instance.desc.meta.params();
    let right = [<Linear as KernelArg>::META, <GroupedArgs<'_> as KernelArg>::META];
    let is_map = |i: usize| params.get(i).is_some_and(|p| p.kind == ParamKind::TensorMap as u32);
    if (0..MAPS).all(is_map) && params.get(MAPS..).is_some_and(|rest| rest == right) {
        return Ok(());
    }
    Err(Error::BadInstance {
        kernel: instance.desc.meta.name().into(),
        what: format!(
            "{} parameters; expected {MAPS} tensor maps, Linear and GroupedArgs",
            params.len()
        ),
    })
}
