//! Products of quantised operands: D = alpha * scale of A * scale of B * A * B^T.

use super::{BoundGemm, Gemm, GemmPlan};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::stream::Stream;
use crate::tensor_error::dtype_name;
use crate::view::{View, ViewMut};
use gpu_kernels::gemm::e5m2::e5m2_instances;
use gpu_kernels::gemm::{Epilogue, FAST_ACCUM_INSTANCES, SCALED_INSTANCES, Scaled, Scales};
use isa::kernel::{Dtype, Image};

/// The GEMM kernels for quantised operands; see [`Gemm::scaled`].
pub type ScaledGemm = Gemm<Scaled<'static>>;

/// The scales of A and B in device memory: f32 values, one for the whole tensor or one for each row.
///
/// Row `r` of A and D has scale `r` of A. Row `c` of B, which is column `c` of D, has scale `c` of B. (torch: `scale_a`
/// and `scale_b` of `torch._scaled_mm`.)
#[derive(Clone, Copy)]
pub struct OperandScales<'s> {
    /// The scales of A: 1 or M values.
    pub a: &'s Buffer,
    /// The scales of B: 1 or N values.
    pub b: &'s Buffer,
}

impl Gemm<Scaled<'static>> {
    /// Loads the GEMM kernels of `gpu_kernels` for quantised operands from their image.
    ///
    /// The tensor cores accumulate products of 8-bit floats with fewer bits than f32. With `use_fast_accum` (torch's option)
    /// they sum over all of K. This is faster for small tiles. For long K its error is several times that of rounding to
    /// bf16; values of one sign lose 22 % at K = 16384. Without `use_fast_accum`, the sum of each 128 of K is added to a sum
    /// in f32.
    ///
    /// # Errors
    /// The errors of [`Gemm::with_instances`].
    pub fn scaled(
        device: &Device,
        image: &'static Image,
        use_fast_accum: bool,
    ) -> Result<Self, Error> {
        let instances = if use_fast_accum { FAST_ACCUM_INSTANCES } else { SCALED_INSTANCES };
        Self::with_instances(device, image, instances)
    }

    /// [`Gemm::scaled`] for operands of e5m2: the types of A and B are `operands`, one of them e5m2 and the other e4m3 or e5m2.
    /// A problem's `ab` is the type of A.
    ///
    /// # Errors
    /// [`Error::GemmDtype`] for other types; the errors of [`Gemm::with_instances`].
    pub fn scaled_mix(
        device: &Device,
        image: &'static Image,
        operands: [Dtype; 2],
        use_fast_accum: bool,
    ) -> Result<Self, Error> {
        let instances = e5m2_instances(operands, use_fast_accum).ok_or_else(|| {
            // The first that is not of 8 bits, or e4m3 times e4m3.
            let wrong = operands.into_iter().find(|t| !matches!(t, Dtype::E4m3 | Dtype::E5m2));
            let dtype = dtype_name(wrong.unwrap_or(Dtype::E4m3));
            let right = "e5m2 with e4m3 or e5m2";
            Error::GemmDtype { side: "operands", dtype, right }
        })?;
        Self::with_instances(device, image, instances)
    }
}

impl<'s> GemmPlan<Scaled<'s>> {
    /// Queues D = alpha * scale of A * scale of B * A * B^T on the device's stream. [`Buffer::read`] waits for it.
    ///
    /// # Errors
    /// The errors of [`GemmPlan::bind`]; [`Error::Scales`] for another number of scales; errors of the launch.
    pub fn run_scaled<'v: 's>(
        &'v self,
        a: impl Into<View<'v>>,
        b: impl Into<View<'v>>,
        d: impl Into<ViewMut<'v>>,
        scales: OperandScales<'s>,
        alpha: f32,
    ) -> Result<(), Error> {
        self.bind(a, b, None, d)?.run_scaled(scales, alpha, &self.device.stream())
    }
}

impl<'s> BoundGemm<'_, Scaled<'s>> {
    /// Queues D = alpha * scale of A * scale of B * A * B^T on `stream`. Like [`BoundGemm::run_with`], it may wait for
    /// runs on other streams. The scales are read when the product runs.
    ///
    /// # Errors
    /// [`Error::Scales`] for another number of scales; [`Error::ForeignDevice`] for scales of another device; the errors
    /// of [`BoundGemm::run_with`].
    pub fn run_scaled(
        &self,
        scales: OperandScales<'s>,
        alpha: f32,
        stream: &Stream,
    ) -> Result<(), Error> {
        self.run_with(self.scaled(scales, alpha)?, stream)
    }
}

impl<E: Epilogue> BoundGemm<'_, E> {
    /// The epilogue of these scales, whose numbers are checked.
    pub(super) fn scaled<'s>(
        &self,
        scales: OperandScales<'s>,
        alpha: f32,
    ) -> Result<Scaled<'s>, Error> {
        let problem = self.problem();
        let of = |operand: char, buffer: &'s Buffer, rows: u64| {
            let (values, rest) = (buffer.len() as u64 / 4, buffer.len() % 4);
            if ![1, rows].contains(&values) || rest > 0 {
                let and = if rest > 0 { format!(" and {rest} bytes") } else { String::new() };
                return Err(Error::Scales {
                    operand,
                    have: format!("{values} f32 values{and}"),
                    rows,
                });
            }
            self.device().check_buffer("scales", buffer)?;
            Ok(Scales { values: buffer.dependent_slice() })
        };
        let (a, b) = (of('A', scales.a, problem.m)?, of('B', scales.b, problem.n)?);
        Ok(Scaled { alpha, a, b })
    }
}
