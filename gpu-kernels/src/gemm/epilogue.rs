//! The epilogue: it maps the sums of a tile, before they are rounded and stored. (CUTLASS: the fusion callbacks of a
//! collective epilogue, `Sm90VisitorImpl`.)
//!
//! An epilogue is a kernel argument. It does not need to know where its results go, or whether the kernel uses
//! swap_ab: a [`Fragment`] knows its rows and columns in D.
#![forbid(unsafe_code)]

use isa::kernel::{AfterWait, ByValue, KernelArg};
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterShape, Role};
use pipeline::grid::{DependentSlice, Waited};
use pipeline::mma::{Fragment, TileOfGroup};
use pipeline::prelude::*;

/// Maps the sums of a tile to what is stored.
///
/// ```
/// use warpipe_gpu_kernels::gemm::epilogue::Epilogue;
/// use isa::kernel::KernelArg;
/// use pipeline::mma::{Fragment, TileOfGroup};
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
    /// Whether D is half as wide as the product, because the epilogue combines gates with what they let through
    /// ([`gate`](Self::gate)). Rows of B come in blocks of 16: 8 whose columns of the product are gates, and then the 8
    /// that belong to them. The kernel reads no C, and does not swap its operands.
    const GATED: bool = false;

    /// Whether [`visit`](Self::visit) loads values.
    ///
    /// If so, all sums of a TMA store are visited before the first of them is written to the store buffer, so that their loads
    /// are in flight together. A kernel that reads C or is gated visits them one by one.
    const LOADS: bool = false;

    /// Whether the epilogue computes a smooth function of each result, as GELU is. That takes longer than to store it, and the
    /// host prefers kernels that multiply meanwhile.
    const ACTIVATES: bool = false;

    /// Called once by each warp group before its first tile. Returns the epilogue for all tiles, for example with values
    /// that it has loaded.
    #[isa::forceinline]
    #[must_use]
    fn prepared<R: Role, Cl: ClusterShape>(self, _group: &Warpgroup<R, Cl>) -> Self {
        self
    }

    /// Called once by each warp group before it multiplies a tile, with the place of its part in the product. What it loads
    /// here for [`visit`](Self::visit) arrives while the tile is multiplied. (CUTLASS: `begin` of a visitor's consumer store
    /// callbacks.)
    #[isa::forceinline]
    fn begin_tile<R: Role, Cl: ClusterShape>(
        &mut self,
        _group: &Warpgroup<R, Cl>,
        _tile: TileOfGroup,
    ) {
    }

    /// Called once with all sums that are stored together, before `visit` gets any of them.
    #[isa::forceinline]
    fn begin<const N: usize>(&self, _sums: &mut Accumulator<N>)
    where
        M64<N>: Shape,
    {
    }

    /// Returns what is stored in place of `sum`. If the kernel reads C, `c` is C at the same place. C is an M x N
    /// matrix of D's type.
    ///
    /// All threads of a warp group call this together, once for each 64 x 16 fragment.
    fn visit(&self, sum: Fragment, c: Option<Fragment>) -> Fragment;

    /// Visits fragments that one TMA store writes together, if the epilogue [`LOADS`](Self::LOADS) and the kernel reads no C.
    ///
    /// The epilogue may keep something here, such as a maximum, and write it at the [`end`](Self::end).
    #[isa::forceinline]
    fn visit_all<R: Role, Cl: ClusterShape>(
        &mut self,
        _group: &Warpgroup<R, Cl>,
        sums: &mut [Fragment],
    ) {
        for sum in sums {
            *sum = self.visit(*sum, None);
        }
    }

    /// Called once by each warp group, by all of its threads, behind its last tile. TMA may still read the last store buffers.
    /// (CUTLASS: `end` of a visitor's callbacks.)
    #[isa::forceinline]
    fn end<R: Role, Cl: ClusterShape>(&self, _group: &Warpgroup<R, Cl>) {}

    /// Returns what is stored for these gates and for what belongs to them, if the epilogue is [`GATED`](Self::GATED).
    ///
    /// Both have been visited, with their rows and columns in the product. Here their rows and columns are those in D.
    #[isa::forceinline]
    fn gate(&self, gate: Fragment, up: Fragment) -> Fragment {
        gate.zip(up, |gate, up| gate * up)
    }
}

/// alpha · A·Bᵀ + beta · C, or alpha · A·Bᵀ if the kernel reads no C. (CUTLASS `LinearCombination`.)
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, KernelArg)]
pub struct Linear {
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of C.
    pub beta: f32,
}

impl Epilogue for Linear {
    // `scale` branches once per tile and skips all multiplications if alpha is 1.
    #[isa::forceinline]
    fn begin<const N: usize>(&self, sums: &mut Accumulator<N>)
    where
        M64<N>: Shape,
    {
        sums.scale(self.alpha);
    }

    #[isa::forceinline]
    fn visit(&self, sum: Fragment, c: Option<Fragment>) -> Fragment {
        match c {
            Some(c) => sum.zip(c, |sum, c| sum + self.beta * c),
            None => sum,
        }
    }
}

/// The scales of an operand, in device memory: one for the whole tensor, or one for each row.
///
/// (torch: `scale_a` and `scale_b` of `torch._scaled_mm`; cuBLASLt `CUBLASLT_MATMUL_DESC_A_SCALE_POINTER`.)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Scales<'a> {
    /// One value, or one for each row of the operand.
    pub values: DependentSlice<'a, f32>,
}

impl Scales<'_> {
    /// Whether there is one scale for the whole tensor.
    #[isa::forceinline]
    fn is_one(&self) -> bool {
        self.values.len() == 1
    }

    /// The scale of row `row` of the operand. Rows behind the last one, which are not stored, have 1.
    #[isa::forceinline]
    fn of(&self, token: &impl Waited, row: u32) -> f32 {
        let row = if self.is_one() { 0 } else { row };
        self.values.by(token).get_or(row as usize, 1.0)
    }
}

/// alpha · scale of the row of A · scale of the row of B · A·Bᵀ: the product of quantised operands.
///
/// Row `r` of D has the scale of row `r` of A, and column `c` of D that of row `c` of B. (torch: `torch._scaled_mm`;
/// CUTLASS: `ScaledLinComb`, or `Sm90ColBroadcast` times `Sm90RowBroadcast`.)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Scaled<'a> {
    /// Factor of the product.
    pub alpha: f32,
    /// The scales of A.
    pub a: Scales<'a>,
    /// The scales of B.
    pub b: Scales<'a>,
}

impl Scaled<'_> {
    /// Whether both operands have one scale.
    #[isa::forceinline]
    pub(super) fn by_tensor(&self) -> bool {
        self.a.is_one() && self.b.is_one()
    }

    /// The factor of all products, if both operands have one scale.
    #[isa::forceinline]
    pub(super) fn of_tensors(&self, token: &impl Waited) -> f32 {
        self.alpha * self.a.of(token, 0) * self.b.of(token, 0)
    }
}

impl Epilogue for Scaled<'_> {
    const LOADS: bool = true;

    // Scales of whole tensors are one factor of all products.
    #[isa::forceinline]
    fn prepared<R: Role, Cl: ClusterShape>(mut self, group: &Warpgroup<R, Cl>) -> Self {
        if self.by_tensor() {
            self.alpha = self.of_tensors(group);
        }
        self
    }

    #[isa::forceinline]
    fn visit(&self, sum: Fragment, _c: Option<Fragment>) -> Fragment {
        if self.by_tensor() {
            return sum.map(|x| x * self.alpha);
        }
        let by_row = |row| self.alpha * self.a.of(&sum, row);
        sum.scaled(by_row, |column| self.b.of(&sum, column))
    }

    // One branch for all of them, so that the loads of their scales are in flight together.
    #[isa::forceinline]
    fn visit_all<R: Role, Cl: ClusterShape>(
        &mut self,
        _group: &Warpgroup<R, Cl>,
        sums: &mut [Fragment],
    ) {
        if self.by_tensor() {
            for sum in sums {
                *sum = sum.map(|x| x * self.alpha);
            }
        } else {
            for sum in sums {
                *sum = self.visit(*sum, None);
            }
        }
    }
}
