//! Biases: values of a layer that are added to each column or row of D, as links of an epilogue.
#![forbid(unsafe_code)]

use super::chain::Link;
use super::epilogue::{Epilogue, Linear};
use half::{bf16, f16};
use isa::kernel::KernelArg;
use isa::math::fma;
use isa::slice::Element;
use pipeline::cta::{ClusterShape, Role};
use pipeline::grid::DependentSlice;
use pipeline::mma::{ColumnValues, Fragment, TileOfGroup};
use pipeline::prelude::*;

/// The types of a bias: f32, bf16 and f16.
pub trait BiasElement: Element {
    /// What a row or column behind the last one has.
    const ZERO: Self;
    /// Whether [`add_columns`](Self::add_columns) loads the values itself.
    const LOADS: bool = true;
    /// The value as f32.
    fn widened(self) -> f32;

    /// Loads the values of a tile's columns, if registers hold them ([`ColumnValues::load`]). Waits for nothing.
    #[isa::forceinline]
    fn hold_columns<R: Role, Cl: ClusterShape>(
        _bias: &DependentSlice<'_, Self>,
        _group: &Warpgroup<R, Cl>,
        _tile: &TileOfGroup,
    ) -> ColumnValues {
        ColumnValues::NONE
    }

    /// `alpha` times each value of `x`, plus the value of its column. Waits for the values of the columns and, if registers hold
    /// them, for the warp's other lanes ([`ColumnValues::map`]).
    #[isa::forceinline]
    fn add_columns(
        bias: &DependentSlice<'_, Self>,
        _held: &ColumnValues,
        alpha: f32,
        x: Fragment,
    ) -> Fragment {
        let bias = bias.by(&x);
        let of = |column: u32| bias.get_or(column as usize, Self::ZERO).widened();
        x.map_by(|_row| (), of, |x, (), bias| fma(alpha, x, bias))
    }
}

/// How a bias of 16-bit values is held while a tile is multiplied.
macro_rules! held {
    ($pair:path) => {
        const LOADS: bool = false;

        #[isa::forceinline]
        fn hold_columns<R: Role, Cl: ClusterShape>(
            bias: &DependentSlice<'_, Self>,
            group: &Warpgroup<R, Cl>,
            tile: &TileOfGroup,
        ) -> ColumnValues {
            let bias = bias.by(group);
            ColumnValues::load(group, tile, |column| {
                bias.get_or(column as usize, Self::ZERO).to_bits()
            })
        }

        #[isa::forceinline]
        fn add_columns(
            _bias: &DependentSlice<'_, Self>,
            held: &ColumnValues,
            alpha: f32,
            x: Fragment,
        ) -> Fragment {
            let widened = |[low, high]: [u16; 2]| $pair(u32::from(low) | u32::from(high) << 16);
            held.map(x, widened, |x, bias| fma(alpha, x, bias))
        }
    };
}

impl BiasElement for f32 {
    const ZERO: Self = 0.0;

    #[isa::forceinline]
    fn widened(self) -> f32 {
        self
    }
}

impl BiasElement for bf16 {
    const ZERO: Self = bf16::ZERO;
    held!(isa::cvt::bf16x2_to_f32);

    #[isa::forceinline]
    fn widened(self) -> f32 {
        isa::cvt::bf16x2_to_f32(u32::from(self.to_bits()))[0]
    }
}

// `half` would convert with a dozen integer instructions.
impl BiasElement for f16 {
    const ZERO: Self = f16::ZERO;
    held!(isa::cvt::f16x2_to_f32);

    #[isa::forceinline]
    fn widened(self) -> f32 {
        isa::cvt::f16x2_to_f32(u32::from(self.to_bits()))[0]
    }
}

/// Adds a value to each column of D: the bias of a linear layer. A column without a value gets none.
///
/// (torch: `bias` of `torch.nn.functional.linear`; CUTLASS `PerColBias`, `Sm90RowBroadcast`; cuBLASLt with A and B
/// exchanged, `CUBLASLT_EPILOGUE_BIAS`.)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct PerColBias<'a, T: BiasElement> {
    /// One value for each column of D, which is a row of B.
    pub bias: DependentSlice<'a, T>,
    /// Those of the tile that is multiplied.
    held: ColumnValues,
}

impl<'a, T: BiasElement> PerColBias<'a, T> {
    /// Adds `bias`: one value for each column of D, which is a row of B.
    #[must_use]
    pub const fn new(bias: DependentSlice<'a, T>) -> Self {
        Self { bias, held: ColumnValues::NONE }
    }
}

impl<T: BiasElement> Link for PerColBias<'_, T> {
    const LOADS: bool = T::LOADS;

    #[isa::forceinline]
    fn begin_tile<R: Role, Cl: ClusterShape>(
        &mut self,
        group: &Warpgroup<R, Cl>,
        tile: TileOfGroup,
    ) {
        self.held = T::hold_columns(&self.bias, group, &tile);
    }

    #[isa::forceinline]
    fn visit(&self, x: Fragment, _c: Option<Fragment>) -> Fragment {
        T::add_columns(&self.bias, &self.held, 1.0, x)
    }
}

/// alpha · A·Bᵀ + beta · C + bias of the column, with one instruction for alpha and the bias. [`Linear`] and then
/// [`PerColBias`] take two.
///
/// (CUTLASS `LinCombPerColBias`.)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct LinCombPerColBias<'a, T: BiasElement> {
    /// Factors of the product and of C.
    pub linear: Linear,
    /// The bias.
    pub bias: PerColBias<'a, T>,
}

impl<T: BiasElement> Epilogue for LinCombPerColBias<'_, T> {
    const LOADS: bool = T::LOADS;

    #[isa::forceinline]
    fn begin_tile<R: Role, Cl: ClusterShape>(
        &mut self,
        group: &Warpgroup<R, Cl>,
        tile: TileOfGroup,
    ) {
        self.bias.begin_tile(group, tile);
    }

    #[isa::forceinline]
    fn visit(&self, sum: Fragment, c: Option<Fragment>) -> Fragment {
        let PerColBias { bias, held } = &self.bias;
        let x = T::add_columns(bias, held, self.linear.alpha, sum);
        self.linear.visit(x, c)
    }
}

/// Adds a value to each row of D. A row without a value gets none.
///
/// (CUTLASS `PerRowBias`, `Sm90ColBroadcast`.)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct PerRowBias<'a, T: BiasElement> {
    /// One value for each row of D, which is a row of A.
    pub bias: DependentSlice<'a, T>,
}

impl<T: BiasElement> Link for PerRowBias<'_, T> {
    const LOADS: bool = true;

    #[isa::forceinline]
    fn visit(&self, x: Fragment, _c: Option<Fragment>) -> Fragment {
        let bias = self.bias.by(&x);
        let of = |row: u32| bias.get_or(row as usize, T::ZERO).widened();
        x.map_by(of, |_column| (), |x, bias, ()| x + bias)
    }
}
