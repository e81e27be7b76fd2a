//! The epilogue seam: what becomes of a tile's sums before they are rounded and stored. (CUTLASS: the fusion
//! callbacks of a collective epilogue, `Sm90VisitorImpl`.)
//!
//! An epilogue is a value among the kernel's arguments. Where its results go, and whether the operands were
//! swapped, is not its business: a [`Fragment`] knows its rows and columns in D.
#![forbid(unsafe_code)]

use isa::kernel::{AfterWait, ByValue, KernelArg};
use isa::wgmma::{M64, Shape};
use pipeline::mma::Fragment;
use pipeline::prelude::*;

/// What becomes of the sums of a tile.
///
/// ```
/// use gpu_kernels::gemm::epilogue::Epilogue;
/// use isa::kernel::KernelArg;
/// use pipeline::mma::Fragment;
///
/// /// D = max(A·Bᵀ, floor)
/// #[repr(C)]
/// #[derive(Clone, Copy, KernelArg)]
/// struct Floor {
///     floor: f32,
/// }
///
/// impl Epilogue for Floor {
///     fn visit(&self, sum: Fragment, _c: Option<Fragment>) -> Fragment {
///         sum.map(|x| x.max(self.floor))
///     }
/// }
/// ```
pub trait Epilogue: ByValue + KernelArg + AfterWait {
    /// Called once with all sums of a store, before any of them is visited.
    #[inline(always)]
    fn begin<const N: usize>(&self, _sums: &mut Accumulator<N>)
    where
        M64<N>: Shape,
    {
    }

    /// What is stored in place of `sum`; `c` is C at the same place, if the kernel reads one: an M x N matrix
    /// of D's type, which comes through a ring of its own.
    ///
    /// All threads of a warp group call it together, once for each 16 columns.
    fn visit(&self, sum: Fragment, c: Option<Fragment>) -> Fragment;
}

/// alpha · A·Bᵀ + beta · C; a kernel that reads no C leaves it out. (CUTLASS `LinearCombination`.)
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, KernelArg)]
pub struct Linear {
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of C.
    pub beta: f32,
}

impl Epilogue for Linear {
    // All at once: one branch for a tile where alpha is 1, instead of a multiplication for each sum.
    #[inline(always)]
    fn begin<const N: usize>(&self, sums: &mut Accumulator<N>)
    where
        M64<N>: Shape,
    {
        sums.scale(self.alpha);
    }

    #[inline(always)]
    fn visit(&self, sum: Fragment, c: Option<Fragment>) -> Fragment {
        match c {
            Some(c) => sum.zip(c, |sum, c| sum + self.beta * c),
            None => sum,
        }
    }
}
