//! Multiplications of slots into an accumulator in tensor memory.
//!
//! Invariant: the first multiplication replaces what the accumulator held, and each later one adds to it. A slot's commit
//! follows its multiplications at once, so that the slot is free as early as can be.

use super::TENSOR_ROWS;
use crate::cta::{CtaGroup, OneSm, PAIR, TwoSm};
use crate::mma::{further, offset_of};
use crate::ring::{Name, Stage, UmmaSlot};
use crate::tile::{Element, Major, TileShape};
use core::marker::PhantomData;
use isa::device;
use isa::tcgen05::{self, Kind, Operand, Swizzle};

/// Bytes along K that one `tcgen05.mma` reads of each operand.
pub(super) const K_BYTES: usize = 32;

pub(super) mod sealed {
    pub trait Sealed {}
    impl<A, B> Sealed for (A, B) {}
    impl<A, B, Sa, Sb> Sealed for (A, B, Sa, Sb) {}
}

/// A slot type whose two tiles are the operands of `tcgen05.mma`: A of 128 rows and B of `N` rows, K-major, with equal
/// columns. With `G` of [`TwoSm`], it is the part of one CTA of a pair: B has half of the `N` rows.
///
/// A slot `(A, B, ScaleBlocks, ScaleBlocks)` has block scales ([`ScaleBlocks`](crate::tile::ScaleBlocks)); its accumulators have
/// 128 columns, and `FACTORS` is [`FACTOR_COLUMNS`](super::FACTOR_COLUMNS): the columns beside them. Each CTA of a pair has the factors of its rows of A, and
/// of all rows of B.
///
/// Their elements are bf16 or f16 each, `F8E4M3` or `F8E5M2` each, or `Tf32` both; with block scales `F8E4M3` or `F8E5M2` each, or
/// `E2m1x2` both. Sums are f32.
///
/// (PTX `tcgen05.mma.cta_group::1`, `.kind::f16`, `.kind::f8f6f4` and `.kind::tf32`, `.kind::mxf8f6f4`, `.kind::mxf4` and
/// `.kind::mxf4nvf4`; CUTLASS `SM100_MMA_F16BF16_SS`, `SM100_MMA_F8F6F4_SS`, `SM100_MMA_TF32_SS`, `SM100_MMA_MXF8F6F4_SS`,
/// `SM100_MMA_MXF4_SS`; with [`TwoSm`] `.cta_group::2` and the same names with `2x1SM`.)
///
/// ```
/// # use half::{bf16, f16};
/// # use warpipe_pipeline::{prelude::*, tensor::UmmaTiles};
/// fn instruction<St: UmmaTiles<256>>() -> u32 { St::INSTRUCTION }
/// assert_eq!(instruction::<(Tile<bf16, 128, 64>, Tile<bf16, 256, 64>)>(), 0x0840_0490);
/// assert_eq!(instruction::<(Tile<f16, 128, 64>, Tile<f16, 256, 64>)>(), 0x0840_0010);
/// assert_eq!(instruction::<(Tile<F8E4M3, 128, 128>, Tile<F8E5M2, 256, 128>)>(), 0x0840_0410);
/// ```
#[diagnostic::on_unimplemented(
    message = "tcgen05.mma can't multiply the tiles of a slot of `{Self}` into an accumulator of {N} columns",
    label = "not the two operands of such a product",
    note = "a slot is a pair (A, B) with equal columns, as `(Tile<bf16, 128, 64>, Tile<bf16, {N}, 64>)`",
    note = "a slot with block scales needs an accumulator of 128 columns, and columns of tensor memory for them: `FACTOR_COLUMNS` as the last parameter of `TensorAccumulators`"
)]
pub trait UmmaTiles<const N: usize, G = OneSm, const FACTORS: usize = 0>:
    Stage + sealed::Sealed
{
    /// The instruction descriptor.
    const INSTRUCTION: u32;

    /// Issues the multiplications of the slot at `data` into the columns at `sums`. The first one adds only if
    /// `accumulate` is true. Block scales go to the columns at `factors`.
    ///
    /// # Safety
    /// One thread executes it. The slot is full, and the accumulator is acquired.
    #[doc(hidden)]
    unsafe fn multiply(data: u32, sums: u32, factors: u32, accumulate: bool);
}

/// The descriptor of the tile at `addr`. (CUTLASS `UMMA::make_umma_desc`.)
#[isa::forceinline]
fn descriptor<T: TileShape>(addr: u32) -> u64 {
    let lines = 8 * T::LINE_BYTES as u32;
    let (lead, swizzle) = match T::SWIZZLE {
        0 => (T::PANEL_BYTES as u32, Swizzle::None),
        32 => (16, Swizzle::B32),
        64 => (16, Swizzle::B64),
        _ => (16, Swizzle::B128),
    };
    tcgen05::shared(addr, lead, lines, swizzle)
}

/// Issues the multiplications of a slot along K, each of them with `mma`.
#[isa::forceinline]
pub(super) fn along_k<A: TileShape, B: TileShape>(data: u32, mut mma: impl FnMut(u64, u64, usize)) {
    let k_elements = const { K_BYTES / A::Element::SIZE };
    let a = descriptor::<A>(data);
    let b = descriptor::<B>(data + A::BYTES as u32);
    for k in 0..A::COLS / k_elements {
        let a = further(a, offset_of::<A>(0, k * k_elements));
        let b = further(b, offset_of::<B>(0, k * k_elements));
        mma(a, b, k);
    }
}

/// Checks the tiles of one CTA: `b_rows` are the rows of B that it has.
pub(super) const fn check<A: TileShape, B: TileShape>(b_rows: usize) {
    assert!(A::ROWS == TENSOR_ROWS, "A has 128 rows, the lanes of tensor memory");
    assert!(
        B::ROWS == b_rows,
        "B has as many rows as the accumulator has columns, and half of them in each CTA of a pair"
    );
    assert!(A::COLS == B::COLS, "A and B have the same extent along K");
    assert!(!A::Major::MN && !B::Major::MN, "A and B are K-major");
}

impl<A: TileShape, B: TileShape, const N: usize, const FACTORS: usize> UmmaTiles<N, TwoSm, FACTORS>
    for (A, B)
where
    A::Element: Operand<Kind: Kind<Sum = f32>>,
    B::Element: Operand<Kind = <A::Element as Operand>::Kind>,
{
    const INSTRUCTION: u32 = {
        check::<A, B>(N / 2);
        tcgen05::instruction::<A::Element, B::Element>(2 * TENSOR_ROWS as u32, N as u32)
    };

    #[device]
    unsafe fn multiply(data: u32, sums: u32, _factors: u32, accumulate: bool) {
        along_k::<A, B>(data, |a, b, k| {
            let idesc = <Self as UmmaTiles<N, TwoSm, FACTORS>>::INSTRUCTION;
            // SAFETY: the caller's contract.
            unsafe {
                <A::Element as Operand>::Kind::mma_2sm(sums, a, b, idesc, accumulate || k > 0);
            }
        });
    }
}

impl<A: TileShape, B: TileShape, const N: usize, const FACTORS: usize> UmmaTiles<N, OneSm, FACTORS>
    for (A, B)
where
    A::Element: Operand<Kind: Kind<Sum = f32>>,
    B::Element: Operand<Kind = <A::Element as Operand>::Kind>,
{
    const INSTRUCTION: u32 = {
        check::<A, B>(N);
        tcgen05::instruction::<A::Element, B::Element>(TENSOR_ROWS as u32, N as u32)
    };

    #[device]
    unsafe fn multiply(data: u32, sums: u32, _factors: u32, accumulate: bool) {
        along_k::<A, B>(data, |a, b, k| {
            let idesc = <Self as UmmaTiles<N, OneSm, FACTORS>>::INSTRUCTION;
            // SAFETY: the caller's contract.
            unsafe { <A::Element as Operand>::Kind::mma(sums, a, b, idesc, accumulate || k > 0) }
        });
    }
}

/// An accumulator that is acquired: nobody reads it any more, and it holds nothing.
///
/// See the example of [`AccumulatorProducerEnd::by`](super::AccumulatorProducerEnd::by).
#[must_use = "an accumulator that is never committed stops the ring: call `start`, then `commit`"]
pub struct EmptyAccumulator<const N: usize, Tag, G = OneSm, const FACTORS: usize = 0> {
    columns: u32,
    /// The first of `FACTORS` columns for block scales.
    factors: u32,
    full: u32,
    ring: PhantomData<(Tag, G, *const ())>,
}

impl<const N: usize, Tag: Name, G: CtaGroup, const FACTORS: usize>
    EmptyAccumulator<N, Tag, G, FACTORS>
{
    #[isa::forceinline]
    pub(super) fn new(columns: u32, factors: u32, full: u32) -> Self {
        Self { columns, factors, full, ring: PhantomData }
    }

    /// Multiplies the first slot into the accumulator, and releases the slot when that has completed.
    ///
    /// Waits for nothing. (PTX `tcgen05.mma` without `enable-input-d` at first, `tcgen05.commit` on the slot's empty
    /// barrier; CUTLASS `gemm` with `ScaleOut::Zero`, `consumer_release`.) See the example of
    /// [`AccumulatorProducerEnd::by`](super::AccumulatorProducerEnd::by).
    #[device]
    pub fn start<St: UmmaTiles<N, G, FACTORS>, R: Name>(
        self,
        slot: UmmaSlot<St, R, G>,
    ) -> TensorSum<N, Tag, G, FACTORS> {
        // SAFETY: one thread holds the tokens of a full slot and of an acquired accumulator.
        unsafe { St::multiply(slot.data(), self.columns, self.factors, false) };
        slot.release_by_commit();
        TensorSum { at: self }
    }
}

/// An accumulator into which slots are multiplied.
///
/// See the example of [`AccumulatorProducerEnd::by`](super::AccumulatorProducerEnd::by).
#[must_use = "an accumulator that is never committed stops the ring: call `commit`"]
pub struct TensorSum<const N: usize, Tag, G = OneSm, const FACTORS: usize = 0> {
    at: EmptyAccumulator<N, Tag, G, FACTORS>,
}

impl<const N: usize, Tag: Name, G: CtaGroup, const FACTORS: usize> TensorSum<N, Tag, G, FACTORS> {
    /// Multiplies the next slot, and releases it when that has completed.
    ///
    /// Waits for nothing: the hardware executes the multiplications of a thread in order. (PTX `tcgen05.mma`,
    /// `tcgen05.commit`; CUTLASS `gemm`, `consumer_release`.) See the example of
    /// [`AccumulatorProducerEnd::by`](super::AccumulatorProducerEnd::by).
    #[device]
    pub fn add<St: UmmaTiles<N, G, FACTORS>, R: Name>(&mut self, slot: UmmaSlot<St, R, G>) {
        // SAFETY: as in `start`.
        unsafe { St::multiply(slot.data(), self.at.columns, self.at.factors, true) };
        slot.release_by_commit();
    }

    /// Gives the accumulator to its readers when all multiplications have completed.
    ///
    /// Signals one arrival on the full barrier, then; of a pair in both CTAs. (PTX `tcgen05.commit`; CUTLASS `producer_commit` of
    /// `PipelineUmmaAsync`.) See the example of [`AccumulatorProducerEnd::by`](super::AccumulatorProducerEnd::by).
    #[device]
    pub fn commit(self) {
        isa::debug::let_go(self.at.full);
        // SAFETY: the full barrier expects one arrival of this thread's commit per accumulator.
        unsafe { G::commit(self.at.full, if G::CTAS == 1 { 0 } else { PAIR }) };
    }
}
