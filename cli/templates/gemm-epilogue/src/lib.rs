//! The host's side of the kernels: their image, their launch, and what they should compute.

use kernels::{BiasRelu, KERNELS};
use warpipe::host::gemm::{Gemm, GemmPlan, GemmProblem};
use warpipe::host::{Device, Dtype, Error, data, reference::Product};
use warpipe::isa::kernel::Image;

/// The kernels as PTX, which `build.rs` compiles.
pub static IMAGE: Image = warpipe::kernel_image!("{{crate}}_kernels");

/// The kernels, loaded on a device.
pub struct Linear {
    device: Device,
    gemm: Gemm<BiasRelu<'static>>,
}

impl Linear {
    /// Loads the kernels on a GPU or on the SM model.
    pub fn new(device: &Device) -> Result<Self, Error> {
        let gemm = Gemm::with_instances(device, &IMAGE, KERNELS)?;
        Ok(Self {
            device: device.clone(),
            gemm,
        })
    }

    /// Number of kernels.
    pub fn kernels(&self) -> usize {
        self.gemm.instances().len()
    }

    /// Plans D = max(A·Bᵀ + bias, 0) for A \[m, k\], B \[n, k\] and D \[m, n\], with the kernel that should be fastest,
    /// or with kernel number `kernel` of `KERNELS`. Make a plan once, and run it many times.
    ///
    /// # Errors
    /// A size of 0, or one beyond the limits of the kernels; no kernel of that number.
    pub fn plan(
        &self,
        [m, n, k]: [usize; 3],
        kernel: Option<usize>,
    ) -> Result<GemmPlan<BiasRelu<'static>>, Error> {
        let problem = GemmProblem {
            m: m as u64,
            n: n as u64,
            k: k as u64,
            ab: Dtype::Bf16,
            out: Dtype::Bf16,
            beta_c: false,
        };
        match kernel {
            Some(index) => self.gemm.plan_with(&problem, index),
            None => self.gemm.plan(&problem),
        }
    }

    /// D = max(A·Bᵀ + bias, 0): copies the operands to the device, runs `plan`, and copies D back.
    ///
    /// # Errors
    /// An operand that does not have the plan's size; an error of the launch.
    pub fn run(
        &self,
        plan: &GemmPlan<BiasRelu<'static>>,
        a: &[f32],
        b: &[f32],
        bias: &[f32],
    ) -> Result<Vec<f32>, Error> {
        let upload = |values: &[f32], dtype| self.device.upload(&data::encode(values, dtype)?);
        let (a, b) = (upload(a, Dtype::Bf16)?, upload(b, Dtype::Bf16)?);
        let bias = upload(bias, Dtype::F32)?;
        let mut d = self.device.alloc(plan.problem().bytes('D') as usize)?;
        let epilogue = BiasRelu {
            bias: bias.dependent_slice(),
        };
        plan.run_with(&a, &b, None, &mut d, epilogue)?;
        data::decode(&d.to_vec()?, Dtype::Bf16)
    }
}

/// The largest difference between D and the product in f64, relative to 1 + |d|. Rounding to bf16 alone makes it up to
/// 2^-8 = 0.004.
///
/// # Errors
/// An operand that does not have the size of `shape`.
pub fn error(
    [m, n, k]: [usize; 3],
    a: &[f32],
    b: &[f32],
    bias: &[f32],
    d: &[f32],
) -> Result<f64, Error> {
    let (a, b) = (
        data::rounded(a, Dtype::Bf16)?,
        data::rounded(b, Dtype::Bf16)?,
    );
    let product = Product {
        m,
        n,
        k,
        a: &a,
        b: &b,
        c: None,
        alpha: 1.0,
        beta: 0.0,
    }
    .compute()?;
    let error = |i: usize| {
        let want = (product[i] + f64::from(bias[i % n])).max(0.0);
        ((f64::from(d[i]) - want) / (1.0 + want)).abs()
    };
    // In this order a NaN is larger than any number.
    Ok((0..m * n)
        .map(error)
        .max_by(f64::total_cmp)
        .unwrap_or_default())
}
