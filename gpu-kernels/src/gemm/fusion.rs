//! Epilogues put together from links: an epilogue, and what happens to its results one after another.
//!
//! ```text
//! Linear { alpha, beta } ──► then(PerColBias) ──► activated::<Gelu>() ──► D
//! ```
//!
//! The chain is a type, so the compiler makes one function of it, and it is an argument of the kernel like any other
//! epilogue. (CUTLASS: `epilogue::fusion`, the operations of `Sm90EVT`; cuBLASLt: `CUBLASLT_EPILOGUE_GELU_BIAS` and the
//! like.)
#![forbid(unsafe_code)]

pub use super::activation::{Activation, Gelu, GeluTanh, Relu, Sigmoid, Silu, Tanh};
pub use super::bias::{BiasElement, LinCombPerColBias, PerColBias, PerRowBias};
pub use super::chain::{Activated, Chain, Gated, Link, Then};
pub use super::elt_act::EltAct;
use isa::kernel::KernelArg;
use pipeline::mma::Fragment;

/// Adds `factor` · C behind an activation, as a residual connection does. The kernel reads C (`with C`), and the
/// [`Linear`](super::Linear) in front has a beta of 0.
///
/// (CUTLASS `LinCombEltActResidual`.)
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, KernelArg)]
pub struct Residual {
    /// Factor of C.
    pub factor: f32,
}

impl Link for Residual {
    #[isa::forceinline]
    fn visit(&self, x: Fragment, c: Option<Fragment>) -> Fragment {
        match c {
            Some(c) => x.zip(c, |x, c| x + self.factor * c),
            None => x,
        }
    }
}

/// Bounds each result. NaN becomes `low`.
///
/// (torch: `torch.clamp`, which keeps NaN; CUTLASS `Clamp`.)
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, KernelArg)]
pub struct Clamp {
    /// The least result.
    pub low: f32,
    /// The greatest result, not below `low`.
    pub high: f32,
}

impl Link for Clamp {
    #[isa::forceinline]
    fn visit(&self, x: Fragment, _c: Option<Fragment>) -> Fragment {
        x.map(|x| isa::math::min(isa::math::max(x, self.low), self.high))
    }
}

/// alpha · A·Bᵀ + beta · C + bias of the column, an activation of that, and + factor · C.
///
/// (CUTLASS `LinCombPerColBiasEltAct`, with the addition of `LinCombEltActResidual`.)
pub type LinCombPerColBiasEltAct<'a, T> = Then<Then<LinCombPerColBias<'a, T>, EltAct>, Residual>;

/// SwiGLU, GeGLU and the like: alpha · A·Bᵀ + bias of the column (of the product), and then an activation of the gates
/// times what belongs to them.
pub type LinCombPerColBiasGated<'a, T> = Gated<LinCombPerColBias<'a, T>, EltAct>;
