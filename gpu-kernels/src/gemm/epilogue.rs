//! The epilogue seam: what becomes of a tile's sums before they are rounded and stored. (CUTLASS: the fusion
//! callbacks of a collective epilogue, `Sm90VisitorImpl`.)
//!
//! An epilogue is a value among the kernel's arguments. Where its results go, and whether the operands were
//! swapped, is not its business: a [`Fragment`] knows its rows and columns in D.

use isa::kernel::{AfterWait, KernelArg};
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
pub trait Epilogue: KernelArg + AfterWait + Copy {
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
#[derive(Clone, Copy, PartialEq, Debug)]
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

// SAFETY: a `repr(C)` value of plain numbers, valid for any bytes, is its own ABI.
unsafe impl KernelArg for Linear {
    type Abi = *const Self;
    const META: isa::kernel::ParamMeta =
        isa::kernel::ParamMeta::structure(size_of::<Self>(), align_of::<Self>());
    #[inline(always)]
    unsafe fn from_abi(abi: *const Self) -> Self {
        // SAFETY: a checked launch passes a struct of this size and alignment.
        unsafe { abi.read() }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    unsafe fn abi_from_param(param: *const u8) -> *const Self {
        param.cast()
    }
}

// SAFETY: numbers are no way to memory.
unsafe impl AfterWait for Linear {}
