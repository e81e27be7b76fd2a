//! Products of quantised operands with a quantised result: D = scale of D * (alpha * scale of A * scale of B * A * B^T), in
//! e4m3.

use super::{BoundGemm, Gemm, GemmPlan, OperandScales};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::stream::Stream;
use crate::view::{View, ViewMut};
use gpu_kernels::gemm::fusion::Chain;
use gpu_kernels::gemm::quantised::{
    AddC, Amax, E4M3_FAST_INSTANCES, E4M3_INSTANCES, SCALED_C_INSTANCES, ScaleD, ScaledAmax,
    ScaledLinComb,
};
use isa::kernel::Image;
use isa::slice::SliceAbi;
use pipeline::grid::{DependentSlice, DependentSliceMut};

/// The GEMM kernels for quantised operands and results; see [`Gemm::quantised`].
pub type QuantisedGemm = Gemm<ScaledAmax<'static>>;

/// What a quantised result has in device memory: the scale that it is multiplied by, and its maximum. Each is one f32.
///
/// ```
/// use warpipe_host::{Device, SimConfig, gemm::ResultScale};
/// let device = Device::sim(SimConfig::default());
/// let scale = device.upload(&64.0f32.to_ne_bytes())?;
/// let mut amax = device.alloc_zeroed(4)?;
/// let _ = ResultScale { scale: Some(&scale), amax: Some(&mut amax) };
/// # Ok::<_, warpipe_host::Error>(())
/// ```
#[derive(Default)]
pub struct ResultScale<'s> {
    /// The factor of each result before it becomes e4m3; 1 if there is none. (torch: `scale_result`; cuBLASLt:
    /// `CUBLASLT_MATMUL_DESC_D_SCALE_POINTER`.)
    pub scale: Option<&'s Buffer>,
    /// Raised to the largest magnitude of the results before they are scaled, and never lowered: write 0 first. It becomes
    /// NaN if a result is NaN. (cuBLASLt: `CUBLASLT_MATMUL_DESC_AMAX_D_POINTER`.)
    pub amax: Option<&'s mut Buffer>,
}

impl Gemm<ScaledAmax<'static>> {
    /// Loads the GEMM kernels of `gpu_kernels` with operands and results of e4m3 from their image.
    ///
    /// Results beyond 448 become 448, of either sign, also infinite ones. NaN stays NaN. Run a plan with
    /// [`GemmPlan::run_quantised`]. [`Gemm::scaled`] says what `use_fast_accum` does.
    ///
    /// # Errors
    /// The errors of [`Gemm::with_instances`].
    pub fn quantised(
        device: &Device,
        image: &'static Image,
        use_fast_accum: bool,
    ) -> Result<Self, Error> {
        let instances = if use_fast_accum { E4M3_FAST_INSTANCES } else { E4M3_INSTANCES };
        Self::with_instances(device, image, instances)
    }
}

impl<'s> GemmPlan<ScaledAmax<'s>> {
    /// Queues the product with these scales on the device's stream. [`Buffer::read`] waits for it.
    ///
    /// # Errors
    /// The errors of [`GemmPlan::bind`] and of [`BoundGemm::run_quantised`].
    pub fn run_quantised<'v: 's>(
        &'v self,
        a: impl Into<View<'v>>,
        b: impl Into<View<'v>>,
        d: impl Into<ViewMut<'v>>,
        scales: OperandScales<'s>,
        result: ResultScale<'s>,
        alpha: f32,
    ) -> Result<(), Error> {
        let bound = self.bind(a, b, None, d)?;
        bound.run_quantised(scales, result, alpha, &self.device.stream())
    }
}

impl<'s> BoundGemm<'_, ScaledAmax<'s>> {
    /// Queues the product with these scales on `stream`. Like [`BoundGemm::run_with`], it may wait for runs on other streams.
    /// The scales are read, and the maximum is raised, when the product runs.
    ///
    /// # Errors
    /// [`Error::Scales`] for another number of scales of A or B; [`Error::ResultScale`] for a scale or a maximum of D that
    /// is not one f32; [`Error::ForeignDevice`] for memory of another device; the errors of [`BoundGemm::run_with`].
    pub fn run_quantised(
        &self,
        scales: OperandScales<'s>,
        result: ResultScale<'s>,
        alpha: f32,
        stream: &Stream,
    ) -> Result<(), Error> {
        let scaled = self.scaled(scales, alpha)?;
        let check = |what: &'static str, buffer: &Buffer| {
            if buffer.len() != 4 {
                return Err(Error::ResultScale { what, have: buffer.len() });
            }
            self.device().check_buffer(what, buffer)
        };
        let none = SliceAbi { address: 0, elements: 0 };
        let scale = match result.scale {
            Some(buffer) => {
                check("scale of D", buffer)?;
                buffer.dependent_slice()
            }
            // SAFETY: there is no element.
            None => unsafe { DependentSlice::new(none) },
        };
        let amax = match result.amax {
            Some(buffer) => {
                check("maximum of D", buffer)?;
                buffer.dependent_slice_mut()
            }
            // SAFETY: there is no element.
            None => unsafe { DependentSliceMut::new(none) },
        };
        // A dimension is below 2^31 (`GemmProblem::check`).
        let [rows, columns] = [self.problem().m, self.problem().n].map(|x| x as u32);
        let amax = Amax::new(amax, [rows, columns]);
        self.run_with(ScaledAmax::new(scaled, amax, ScaleD { factor: 1.0, scale }), stream)
    }
}

/// The GEMM kernels for quantised operands with C; see [`Gemm::scaled_c`].
pub type ScaledCGemm = Gemm<ScaledLinComb<'static>>;

impl Gemm<ScaledLinComb<'static>> {
    /// Loads the GEMM kernels of `gpu_kernels` for e4m3 operands with a C from their image: D = alpha * scale of A * scale of B
    /// * A * B^T + beta * C. C and D are bf16, and sums are promoted. Run a plan with [`GemmPlan::run_scaled_c`].
    ///
    /// # Errors
    /// The errors of [`Gemm::with_instances`].
    pub fn scaled_c(device: &Device, image: &'static Image) -> Result<Self, Error> {
        Self::with_instances(device, image, SCALED_C_INSTANCES)
    }
}

impl<'s> GemmPlan<ScaledLinComb<'s>> {
    /// Queues D = alpha * scale of A * scale of B * A * B^T + beta * C on the device's stream. [`Buffer::read`] waits for it.
    ///
    /// # Errors
    /// The errors of [`GemmPlan::bind`] and of [`BoundGemm::run_scaled_c`].
    pub fn run_scaled_c<'v: 's>(
        &'v self,
        a: impl Into<View<'v>>,
        b: impl Into<View<'v>>,
        c: impl Into<View<'v>>,
        d: impl Into<ViewMut<'v>>,
        scales: OperandScales<'s>,
        [alpha, beta]: [f32; 2],
    ) -> Result<(), Error> {
        let bound = self.bind(a, b, Some(c.into()), d)?;
        bound.run_scaled_c(scales, [alpha, beta], &self.device.stream())
    }
}

impl<'s> BoundGemm<'_, ScaledLinComb<'s>> {
    /// Queues D = alpha * scale of A * scale of B * A * B^T + beta * C on `stream`. Like [`BoundGemm::run_with`], it may wait
    /// for runs on other streams. With a beta of 0 C does not matter.
    ///
    /// # Errors
    /// [`Error::Scales`] for another number of scales; [`Error::ForeignDevice`] for scales of another device; the errors of
    /// [`BoundGemm::run_with`].
    pub fn run_scaled_c(
        &self,
        scales: OperandScales<'s>,
        [alpha, beta]: [f32; 2],
        stream: &Stream,
    ) -> Result<(), Error> {
        self.run_with(self.scaled(scales, alpha)?.then(AddC { beta }), stream)
    }
}
