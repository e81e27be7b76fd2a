//! Pointer arrays: one launch of many products, each with its own sizes, addresses and pitches.
//!
//! The table of problems ([`ArrayProblem`]) is in device memory, and the host never reads it. A first kernel checks each
//! problem and writes its tensor maps. A second kernel multiplies. So neither a plan nor a run waits for the device.
//!
//! (CUTLASS: pointer-array grouped GEMM, `GemmUniversalMode::kGrouped`; cuBLAS: `cublasGemmGroupedBatchedEx`.)

mod error;
mod plan;
mod problem;
mod run;

pub use error::ArrayError;
pub use plan::ArrayPlan;
pub use problem::ArrayProblem;
pub use run::BoundArray;

use super::Gemm;
use crate::device::Device;
use crate::error::Error;
use crate::launch::Module;
use gpu_kernels::gemm::Linear;
use gpu_kernels::gemm::grouped::{ARRAY_INSTANCES, ArrayInstance, ArrayTable};
use gpu_kernels::gemm::scheduler::ArrayArgs;
use isa::kernel::{Image, KernelArg, KernelDesc, ParamKind, ParamMeta};
use std::sync::OnceLock;

/// Tensor maps of a problem: A, B and D.
const MAPS: usize = 3;

/// The GEMM kernels for pointer arrays of an image, loaded on a device; see [`Gemm::grouped_array`].
pub struct ArrayGemm {
    device: Device,
    module: Module,
    instances: &'static [ArrayInstance],
    /// Clusters of each instance that the device holds at one time, once somebody asked.
    active: OnceLock<Vec<u32>>,
}

impl Gemm {
    /// Loads the GEMM kernels for pointer arrays of `gpu_kernels` from their image. Operands and result are bf16.
    ///
    /// ```
    /// # fn main() -> Result<(), warpipe_host::Error> {
    /// # use {gpu_kernels::gemm::grouped::ARRAY_INSTANCES, isa::kernel::Image, warpipe_host as host};
    /// # let kernels = ARRAY_INSTANCES.iter().flat_map(|i| [i.maps.meta, i.gemm.desc.meta]);
    /// # let kernels = kernels.collect::<Vec<_>>().leak();
    /// # let image = Box::leak(Box::new(Image { name: "", arch: "sm_90a", code: &[], kernels, ptxas: None, others: &[] }));
    /// use host::gemm::{ArrayProblem, Gemm};
    /// use host::{Device, Dtype::Bf16, SimConfig, data};
    ///
    /// // Two products: 5 x 16 x 64, and 3 x 8 x 32 behind it in the same buffers.
    /// let device = Device::sim(SimConfig::default());
    /// let first = ArrayProblem::packed([5, 16, 64], [0, 0, 0]);
    /// let second = ArrayProblem::packed([3, 8, 32], first.elements());
    /// let table = device.upload(&ArrayProblem::table(&[first, second]))?;
    /// let a = device.upload(&data::encode(&vec![1.0; 5 * 64 + 3 * 32], Bf16)?)?;
    /// let b = device.upload(&data::encode(&vec![0.5; 16 * 64 + 8 * 32], Bf16)?)?;
    /// let mut d = device.alloc(2 * (5 * 16 + 3 * 8))?;
    /// let gemm = Gemm::grouped_array(&device, image)?;
    /// // Two problems, the typical one of this size.
    /// let plan = gemm.plan(2, [5, 16, 64])?;
    /// plan.run(&a, &b, &table, &mut d, 1.0)?;
    /// let right = [vec![32.0; 5 * 16], vec![16.0; 3 * 8]].concat();
    /// assert_eq!(data::decode(&d.to_vec()?, Bf16)?, right);
    /// assert_eq!(plan.bad_problem()?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ArrayError::NoKernel`] if the feature `gemm-grouped` is off; an error of [`Device::load`]; a kernel that the image
    /// does not have.
    pub fn grouped_array(device: &Device, image: &'static Image) -> Result<ArrayGemm, Error> {
        if ARRAY_INSTANCES.is_empty() {
            return Err(ArrayError::NoKernel.into());
        }
        for instance in ARRAY_INSTANCES {
            check_instance(instance)?;
        }
        let module = device.load(image)?;
        for instance in ARRAY_INSTANCES {
            module.check(instance.maps)?;
            module.check(instance.gemm.desc)?;
        }
        let (device, active) = (device.clone(), OnceLock::new());
        Ok(ArrayGemm { device, module, instances: ARRAY_INSTANCES, active })
    }
}

impl ArrayGemm {
    /// The instance table.
    pub fn instances(&self) -> &'static [ArrayInstance] {
        self.instances
    }

    /// Plans `problems` products. `expected` is M, N and K of a typical one, and determines the kernel.
    ///
    /// # Errors
    /// [`ArrayError::Problems`]; errors of the allocation of the tensor maps, 400 bytes for each problem.
    pub fn plan(&self, problems: u64, expected: [u64; 3]) -> Result<ArrayPlan, Error> {
        let index = self.pick(problems, expected)?;
        ArrayPlan::new(self, problems, index)
    }

    /// Plans `problems` products with row `index` of the table.
    ///
    /// # Errors
    /// [`Error::WrongInstance`] if there is no such row; the errors of [`ArrayGemm::plan`].
    pub fn plan_with(&self, problems: u64, index: usize) -> Result<ArrayPlan, Error> {
        ArrayPlan::new(self, problems, index)
    }
}

/// Checks that a row of the table agrees with its kernels: the maps that one writes are those that the other reads.
fn check_instance(instance: &ArrayInstance) -> Result<(), Error> {
    let refuse = |desc: &KernelDesc, right: &str| {
        let what = format!("{} parameters; expected {right}", desc.meta.params().len());
        Err(Error::BadInstance { kernel: desc.meta.name().into(), what })
    };
    let structure = |p: &ParamMeta| p.kind == ParamKind::Struct as u32 && p.size == 16;
    let maps = instance.maps.meta.params();
    let templates = maps.iter().take(MAPS).all(|p| p.kind == ParamKind::TensorMap as u32);
    let places = maps.iter().skip(MAPS).take(MAPS).all(structure);
    let table = [<ArrayTable<'_> as KernelArg>::META];
    if maps.len() != 2 * MAPS + 1 || !templates || !places || maps[2 * MAPS..] != table {
        return refuse(instance.maps, "3 tensor maps, 3 places for maps and ArrayTable");
    }
    let gemm = instance.gemm.desc.meta.params();
    let rest = [<Linear as KernelArg>::META, <ArrayArgs<'_> as KernelArg>::META];
    if gemm.len() != MAPS + 2 || !gemm.iter().take(MAPS).all(structure) || gemm[MAPS..] != rest {
        return refuse(instance.gemm.desc, "3 arrays of maps, Linear and ArrayArgs");
    }
    Ok(())
}
