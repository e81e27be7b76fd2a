//! Linear layers of quantised operands: scales, bias and activation, with bf16 results.

use super::{BoundGemm, Fusion, Gemm, GemmPlan, OperandScales};
use crate::device::Device;
use crate::error::Error;
use crate::stream::Stream;
use crate::view::{View, ViewMut};
use gpu_kernels::gemm::fused::{
    FUSED_E4M3_FAST_INSTANCES, FUSED_E4M3_INSTANCES, ScaledPerColBiasEltAct,
};
use gpu_kernels::gemm::fusion::{Chain, PerColBias};
use half::bf16;
use isa::kernel::Image;

/// The GEMM kernels for quantised operands with bias and activation; see [`Gemm::scaled_fused`].
pub type ScaledFusedGemm = Gemm<ScaledPerColBiasEltAct<'static>>;

impl Gemm<ScaledPerColBiasEltAct<'static>> {
    /// Loads the GEMM kernels of `gpu_kernels` for e4m3 operands with bias and activation from their image.
    ///
    /// D = activation(alpha * scale of A * scale of B * A * B^T + bias). Bias and D are bf16. [`Gemm::scaled`] says what
    /// `use_fast_accum` does. Run a plan with [`GemmPlan::run_scaled_fused`].
    ///
    /// # Errors
    /// The errors of [`Gemm::with_instances`].
    pub fn scaled_fused(
        device: &Device,
        image: &'static Image,
        use_fast_accum: bool,
    ) -> Result<Self, Error> {
        let instances =
            if use_fast_accum { FUSED_E4M3_FAST_INSTANCES } else { FUSED_E4M3_INSTANCES };
        Self::with_instances(device, image, instances)
    }
}

impl<'s> GemmPlan<ScaledPerColBiasEltAct<'s>> {
    /// Queues the layer with these scales on the device's stream. [`Buffer::read`](crate::Buffer::read) waits for it.
    ///
    /// # Errors
    /// The errors of [`GemmPlan::bind`] and of [`BoundGemm::run_scaled_fused`].
    pub fn run_scaled_fused<'v: 's>(
        &'v self,
        a: impl Into<View<'v>>,
        b: impl Into<View<'v>>,
        d: impl Into<ViewMut<'v>>,
        scales: OperandScales<'s>,
        fusion: Fusion<'s>,
    ) -> Result<(), Error> {
        self.bind(a, b, None, d)?.run_scaled_fused(scales, fusion, &self.device.stream())
    }
}

impl<'s> BoundGemm<'_, ScaledPerColBiasEltAct<'s>> {
    /// Queues the layer with these scales on `stream`. Like [`BoundGemm::run_with`], it may wait for runs on other streams. The
    /// scales and the bias are read when the product runs. [`Fusion::beta`] and [`Fusion::residual`] are ignored: there is no C.
    ///
    /// # Errors
    /// [`Error::Scales`] for another number of scales; [`Error::Bias`] for a bias of another length; [`Error::ForeignDevice`]
    /// for memory of another device; the errors of [`BoundGemm::run_with`].
    pub fn run_scaled_fused(
        &self,
        scales: OperandScales<'s>,
        fusion: Fusion<'s>,
        stream: &Stream,
    ) -> Result<(), Error> {
        let bias = PerColBias::new(self.bias::<bf16>(fusion.bias)?);
        let scaled = self.scaled(scales, fusion.alpha)?;
        self.run_with(scaled.then(bias).then(fusion.activation), stream)
    }
}
