//! Products with the epilogue of a linear layer: bias, activation, residual and gates.

use super::{BoundGemm, Gemm, GemmPlan};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::stream::Stream;
use crate::tensor_error::dtype_name;
use crate::view::{View, ViewMut};
use gpu_kernels::gemm::fused::FusedElement;
use gpu_kernels::gemm::fusion::{
    Chain, EltAct, LinCombPerColBias, LinCombPerColBiasEltAct, LinCombPerColBiasGated, PerColBias,
    Residual,
};
use gpu_kernels::gemm::instance::Instances;
use gpu_kernels::gemm::{Epilogue, Linear};
use isa::kernel::Image;
use isa::slice::SliceAbi;
use pipeline::grid::DependentSlice;
use pipeline::tile::Element;

/// The GEMM kernels with bias, activation and residual; see [`Gemm::fused`].
pub type FusedGemm<T> = Gemm<LinCombPerColBiasEltAct<'static, T>>;
/// The GEMM kernels with bias and gates; see [`Gemm::gated`].
pub type GatedGemm<T> = Gemm<LinCombPerColBiasGated<'static, T>>;

/// The epilogue of a linear layer: activation(alpha * A * B^T + beta * C + bias) + residual * C.
#[derive(Clone, Copy)]
pub struct Fusion<'s> {
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of C before the activation. A product without C ignores it.
    pub beta: f32,
    /// N values of the operands' type, one for each row of B.
    pub bias: Option<&'s Buffer>,
    /// The activation. A gated product applies it to the gates.
    pub activation: EltAct,
    /// Factor of C after the activation. A product without C ignores it.
    pub residual: f32,
}

impl Default for Fusion<'_> {
    /// The product itself.
    fn default() -> Self {
        Self { alpha: 1.0, beta: 0.0, bias: None, activation: EltAct::IDENTITY, residual: 0.0 }
    }
}

impl<T: FusedElement> FusedGemm<T> {
    /// Loads the GEMM kernels of `gpu_kernels` with bias, activation and residual from their image. Operands, bias and
    /// result have the type `T`, bf16 or f16.
    ///
    /// # Errors
    /// [`Error::NoInstance`] if the feature `gemm-fused` is off; the errors of [`Gemm::with_instances`].
    pub fn fused(device: &Device, image: &'static Image) -> Result<Self, Error> {
        Self::with_instances(device, image, compiled::<T, _>(T::fused())?)
    }
}

impl<T: FusedElement> GatedGemm<T> {
    /// Loads the GEMM kernels of `gpu_kernels` with bias and gates from their image: SwiGLU, GeGLU.
    ///
    /// D is [M, N / 2]: activation(gate) * up. The rows of B alternate in blocks of 8, gate rows and then the up rows that
    /// belong to them. [`interleaved_gates`](crate::data::interleaved_gates) makes this order. The bias has the same order. N
    /// is a multiple of 16.
    ///
    /// # Errors
    /// [`Error::NoInstance`] if the feature `gemm-fused` is off; the errors of [`Gemm::with_instances`].
    pub fn gated(device: &Device, image: &'static Image) -> Result<Self, Error> {
        Self::with_instances(device, image, compiled::<T, _>(T::gated())?)
    }
}

/// The table, unless the feature of its kernels is off.
fn compiled<T: FusedElement, E>(table: Instances<E>) -> Result<Instances<E>, Error> {
    if !table.is_empty() {
        return Ok(table);
    }
    let (dtype, cure) =
        (dtype_name(<T as Element>::DTYPE), "; turn on warpipe's feature `gemm-fused`".into());
    let c = "with an epilogue";
    Err(Error::NoInstance { ab: dtype, out: dtype, c, count: 0, have: "nothing".into(), cure })
}

/// The epilogues that a [`Fusion`] describes.
trait Fused<'s>: Epilogue {
    type Element: FusedElement;
    fn of(fusion: &Fusion<'s>, bias: DependentSlice<'s, Self::Element>) -> Self;
}

impl<'s, T: FusedElement> Fused<'s> for LinCombPerColBiasEltAct<'s, T> {
    type Element = T;
    fn of(fusion: &Fusion<'s>, bias: DependentSlice<'s, T>) -> Self {
        let Fusion { alpha, beta, activation, residual, .. } = *fusion;
        let linear = Linear { alpha, beta };
        let biased = LinCombPerColBias { linear, bias: PerColBias::new(bias) };
        biased.then(activation).then(Residual { factor: residual })
    }
}

impl<'s, T: FusedElement> Fused<'s> for LinCombPerColBiasGated<'s, T> {
    type Element = T;
    fn of(fusion: &Fusion<'s>, bias: DependentSlice<'s, T>) -> Self {
        let linear = Linear { alpha: fusion.alpha, beta: 0.0 };
        LinCombPerColBias { linear, bias: PerColBias::new(bias) }.gated(fusion.activation)
    }
}

#[allow(
    private_bounds,
    reason = "the two epilogues are those of the types FusedGemm and GatedGemm"
)]
impl<E> GemmPlan<E> {
    /// Queues the product with this fusion on the device's stream. [`Buffer::read`] waits for it.
    ///
    /// # Errors
    /// The errors of [`GemmPlan::bind`]; [`Error::Bias`] for a bias of another length; errors of the launch.
    pub fn run_fused<'v, 's>(
        &'v self,
        a: impl Into<View<'v>>,
        b: impl Into<View<'v>>,
        c: Option<View<'v>>,
        d: impl Into<ViewMut<'v>>,
        fusion: Fusion<'s>,
    ) -> Result<(), Error>
    where
        E: Fused<'s>,
    {
        self.bind(a, b, c, d)?.run_fused(fusion, &self.device.stream())
    }
}

#[allow(
    private_bounds,
    reason = "the two epilogues are those of the types FusedGemm and GatedGemm"
)]
impl<E> BoundGemm<'_, E> {
    /// Queues the product with this fusion on `stream`. Like [`BoundGemm::run_with`], it may wait for runs on other
    /// streams. The bias is read when the product runs. C is not read if both of its factors are 0.
    ///
    /// # Errors
    /// [`Error::Bias`] for a bias of another length; [`Error::ForeignDevice`] for a bias of another device; the errors of
    /// [`BoundGemm::run_with`].
    pub fn run_fused<'s>(&self, fusion: Fusion<'s>, stream: &Stream) -> Result<(), Error>
    where
        E: Fused<'s>,
    {
        let bias = self.bias::<E::Element>(fusion.bias)?;
        let reads_c = fusion.beta != 0.0 || fusion.residual != 0.0;
        self.queue(self.choice(reads_c), None, E::of(&fusion, bias), stream)
    }

    /// The bias as a kernel's argument: N values, or none.
    pub(super) fn bias<'s, T: FusedElement>(
        &self,
        bias: Option<&'s Buffer>,
    ) -> Result<DependentSlice<'s, T>, Error>
    where
        E: Epilogue,
    {
        let Some(buffer) = bias else {
            // SAFETY: there is no element.
            return Ok(unsafe { DependentSlice::new(SliceAbi { address: 0, elements: 0 }) });
        };
        let (n, size) = (self.problem().n, size_of::<T>() as u64);
        if buffer.len() as u64 != n * size {
            let dtype = dtype_name(<T as Element>::DTYPE);
            return Err(Error::Bias { have: buffer.len() as u64, n, dtype, need: n * size });
        }
        self.device().check_buffer("bias", buffer)?;
        Ok(buffer.dependent_slice())
    }
}
