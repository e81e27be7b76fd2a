//! Products of 8-bit integers: D = alpha * A * B^T in whole numbers.

use super::{Gemm, GemmPlan};
use crate::device::Device;
use crate::error::Error;
use crate::view::{View, ViewMut};
use gpu_kernels::gemm::Scaled;
use gpu_kernels::gemm::integer::{INT8_INSTANCES, INT8_SCALED_INSTANCES, IntLinear};
use isa::kernel::Image;

/// The GEMM kernels for 8-bit integers with 32-bit results; see [`Gemm::int8`].
pub type Int8Gemm = Gemm<IntLinear>;

impl Gemm<IntLinear> {
    /// Loads the GEMM kernels of `gpu_kernels` with operands of i8 and results of i32 from their image.
    ///
    /// Sums are exact, and wrap around beyond 2^31. Run a plan with [`GemmPlan::run_int8`], or a bound one with
    /// [`BoundGemm::run_with`](super::BoundGemm::run_with). (torch: `torch._int_mm`.)
    ///
    /// # Errors
    /// The errors of [`Gemm::with_instances`].
    pub fn int8(device: &Device, image: &'static Image) -> Result<Self, Error> {
        Self::with_instances(device, image, INT8_INSTANCES)
    }
}

impl Gemm<Scaled<'static>> {
    /// Loads the GEMM kernels of `gpu_kernels` with operands of i8, their scales and results of bf16 from their image: W8A8.
    ///
    /// The sums are exact up to 2^24, and rounded to f32 beyond. Scales are those of tensors or of rows. Run a plan with
    /// [`GemmPlan::run_scaled`].
    ///
    /// # Errors
    /// The errors of [`Gemm::with_instances`].
    pub fn int8_scaled(device: &Device, image: &'static Image) -> Result<Self, Error> {
        Self::with_instances(device, image, INT8_SCALED_INSTANCES)
    }
}

impl GemmPlan<IntLinear> {
    /// Queues D = alpha * A * B^T on the device's stream. [`Buffer::read`](crate::Buffer::read) waits for it.
    ///
    /// # Errors
    /// The errors of [`GemmPlan::run_with`].
    pub fn run_int8<'v>(
        &'v self,
        a: impl Into<View<'v>>,
        b: impl Into<View<'v>>,
        d: impl Into<ViewMut<'v>>,
        alpha: i32,
    ) -> Result<(), Error> {
        self.run_with(a, b, None, d, IntLinear { alpha })
    }
}
