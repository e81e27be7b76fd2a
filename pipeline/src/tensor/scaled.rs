//! Multiplications of slots with block scales (MXFP8, MXFP4 and NVFP4).
//!
//! Invariant: a slot's factors lie in tensor memory before its first multiplication, because one thread copies them and
//! multiplies behind, and the hardware executes these in order. The next slot's copies follow its last multiplication.
//!
//! A pair copies in both CTAs: each has the factors of its 128 rows of A, and of all rows of B, in its own slot.

use super::TENSOR_ROWS;
use super::multiply::{K_BYTES, UmmaTiles, along_k, check};
use crate::cta::CtaGroup;
use crate::tile::{Element, ScaleBlocks, TileShape};
use isa::device;
use isa::tcgen05::{self, ScaleFactor, ScaledKind, ScaledOperand, Swizzle};

/// Columns of tensor memory for the block scales of a slot: four for each block of A, and as many for B. NVFP4 takes all of
/// them, and formats with fewer factors the first of each half.
pub const FACTOR_COLUMNS: usize = 32;

/// Columns of an accumulator with block scales: [`ScaleBlocks`] are those of 128 rows of B.
const N: usize = 128;

/// A slot with block scales: A of 128 rows of 128 bytes, B with as many or, by a pair, half of them, and the [`ScaleBlocks`] of
/// 128 rows of each.
impl<A: TileShape, B: TileShape, F: ScaleFactor, G: CtaGroup, const BLOCKS: usize>
    UmmaTiles<N, G, FACTOR_COLUMNS> for (A, B, ScaleBlocks<F, BLOCKS>, ScaleBlocks<F, BLOCKS>)
where
    A::Element: ScaledOperand<F>,
    B::Element: ScaledOperand<F, Kind = <A::Element as ScaledOperand<F>>::Kind>,
{
    const INSTRUCTION: u32 = {
        check::<A, B>(N / G::CTAS);
        assert!(A::COLS * A::Element::SIZE == 128, "block scales are for rows of 128 bytes");
        let factors = <A::Element as ScaledOperand<F>>::Kind::FACTORS as usize;
        assert!(
            4 * BLOCKS == 128 / K_BYTES * factors,
            "a row of 128 bytes has one block of scales with MXFP8, two with MXFP4, and four with NVFP4"
        );
        let rows = (G::CTAS * TENSOR_ROWS) as u32;
        tcgen05::instruction_block_scale::<F, A::Element, B::Element>(rows, N as u32, 0)
    };

    #[device]
    unsafe fn multiply(data: u32, sums: u32, factors: u32, accumulate: bool) {
        let blocks = data + const { A::BYTES + B::BYTES } as u32;
        let (sfa, sfb) = (factors, factors + FACTOR_COLUMNS as u32 / 2);
        for i in 0..BLOCKS as u32 {
            // Eight rows of 16 bytes, and the next eight.
            let block = |i: u32| tcgen05::shared(blocks + 512 * i, 16, 128, Swizzle::None);
            // SAFETY: the caller's contract. The thread's copies and multiplications are executed in order.
            unsafe {
                G::copy_factors(sfa + 4 * i, block(i));
                G::copy_factors(sfb + 4 * i, block(BLOCKS as u32 + i));
            }
        }
        along_k::<A, B>(data, |a, b, k| {
            let first = k as u32 * <A::Element as ScaledOperand<F>>::Kind::FACTORS;
            let (block, byte) = (4 * (first / 4), first % 4);
            let idesc =
                <Self as UmmaTiles<N, G, FACTOR_COLUMNS>>::INSTRUCTION | byte << 4 | byte << 29;
            let (sfa, sfb, adds) = (sfa + block, sfb + block, accumulate || k > 0);
            // SAFETY: as above.
            unsafe {
                G::multiply_scaled::<<A::Element as ScaledOperand<F>>::Kind>(
                    sums,
                    (a, b),
                    idesc,
                    (sfa, sfb),
                    adds,
                );
            }
        });
    }
}
