//! Fragments of A: the operand of wgmma that lies in registers.
//!
//! Invariant: a fragment holds A in the register layout of `wgmma.mma_async`. An accumulator has the
//! same layout, so it becomes an operand by converting each value in place.

use crate::tile::Element;
use core::marker::PhantomData;
use half::{bf16, f16};
use isa::wgmma::{M64, MulBy};

/// K elements that one wgmma of 16-bit operands multiplies.
const MMA_K: usize = 16;

mod sealed {
    pub trait Sealed {}
}

/// An extent along K for which an [`AFragment`] exists: 16, 32, … 256.
///
/// See the example of [`AFragment`].
pub trait AShape: sealed::Sealed {
    /// Four registers of two elements for each 16 columns.
    #[doc(hidden)]
    type Regs: Copy + AsRef<[[u32; 4]]> + AsMut<[[u32; 4]]>;
    /// Zeros.
    #[doc(hidden)]
    const ZERO: Self::Regs;
}
macro_rules! a_shapes {
    ($($k:literal)+) => {$(
        impl sealed::Sealed for M64<$k> {}
        impl AShape for M64<$k> {
            type Regs = [[u32; 4]; $k / MMA_K];
            const ZERO: Self::Regs = [[0; 4]; $k / MMA_K];
        }
    )+};
}
a_shapes! { 16 32 48 64 80 96 112 128 144 160 176 192 208 224 240 256 }

/// An element type of fragments of A, two of which share a register.
///
/// (PTX `cvt.rn.bf16x2.f32`, `cvt.rn.f16x2.f32`; CUTLASS `NumericArrayConverter`.) See the example
/// of [`AFragment`].
#[diagnostic::on_unimplemented(
    message = "an accumulator can't become a fragment of `{Self}`",
    label = "not bf16 or f16"
)]
pub trait Pack: Element + MulBy<Self, Sum = f32> {
    /// Rounds two values to nearest even. The first one is in the lower half.
    fn pack(low: f32, high: f32) -> u32;
}
impl Pack for bf16 {
    #[isa::forceinline]
    fn pack(low: f32, high: f32) -> u32 {
        isa::cvt::bf16x2(low, high)
    }
}
impl Pack for f16 {
    #[isa::forceinline]
    fn pack(low: f32, high: f32) -> u32 {
        isa::cvt::f16x2(low, high)
    }
}

/// A warp group's fragment of A, 64 rows by `K` columns of `E`, in registers.
///
/// It becomes an operand together with a slot that holds B, and the batch owns it until the wgmmas
/// have read it ([`Operands`](crate::mma::Operands)).
///
/// (PTX manual, "Register Fragments" of `wgmma.mma_async`, A; CUTLASS: `tCrA` of
/// `GMMA::rs_op_selector`, `convert_layout_acc_Aregs`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{mma::AFragment, prelude::*, ring::*, tile::MnMajor}};
/// # names! { Values = "V" }
/// # roles! { Load = 1 x 24 registers, Math = 1 x 240 registers } type Alone = Cluster<1, 1>;
/// # type V = FullSlot<(Tile<bf16, 128, 64, MnMajor>,), Mma<Math>, Values, Alone>;
/// # type Group = Warpgroup<Math, Alone>;
/// /// The product of a sum, rounded to bf16, and 64 rows of V.
/// fn product(group: &Group, sum: &Accumulator<64>, v: V) -> Accumulator<128> {
///     let p: AFragment<bf16, 64> = sum.to_a();
///     let (product, v) = Accumulator::start(group, (p, v)).finish();
///     v.release();
///     product
/// }
/// ```
pub struct AFragment<E, const K: usize>
where
    M64<K>: AShape,
{
    regs: <M64<K> as AShape>::Regs,
    element: PhantomData<E>,
}

impl<E, const K: usize> AFragment<E, K>
where
    M64<K>: AShape,
{
    /// Rounds a thread's values of an accumulator, in the order of its registers.
    #[isa::forceinline]
    pub(crate) fn pack(values: &[f32]) -> Self
    where
        E: Pack,
    {
        const { assert!(E::SIZE == 2, "a register holds two elements") };
        let mut regs = <M64<K> as AShape>::ZERO;
        for (k, a) in regs.as_mut().iter_mut().enumerate() {
            *a =
                core::array::from_fn(|i| E::pack(values[8 * k + 2 * i], values[8 * k + 2 * i + 1]));
        }
        Self { regs, element: PhantomData }
    }

    /// Returns the registers, four for each 16 columns.
    #[isa::forceinline]
    pub(crate) fn registers(&mut self) -> &mut [[u32; 4]] {
        self.regs.as_mut()
    }
}
