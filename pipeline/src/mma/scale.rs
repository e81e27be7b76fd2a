//! How a [`PromotedAccumulator`](crate::mma::PromotedAccumulator) adds a part: unchanged, or multiplied by the scale
//! factors of its slot.
//!
//! Invariant: a slot with scale factors is released by each warp that has read them ([`MmaReads`]).

use super::operand::MmaTiles;
use super::operand::sealed::Sealed;
use crate::cta::Role;
use crate::ring::{BlockScaled, BlockScaledSwapAb, MmaReaders, MmaReads};
use crate::tile::TileShape;
use isa::device;
use isa::wgmma::{M64, Shape};

/// A slot type whose products a promoted accumulator adds, in a ring with the readers `Rd`: tiles A and B, or tiles with
/// scale factors ([`BlockScaled`], [`BlockScaledSwapAb`]), which the threads read, so that the readers are [`MmaReads`].
///
/// With scale factors, a sum grows by `part * (sfa[row] * sfb[column])`, where the product of the factors is rounded to
/// f32, and the sum is rounded once.
///
/// (PTX `fma.rn.f32` for each value, or `add.f32`; CUTLASS `GmmaFP8Accumulation::scale_if_needed`,
/// `promote_if_needed`.)
///
/// ```
/// # use {float8::F8E4M3, warpipe_pipeline::{mma::PromoteTiles, prelude::*, ring::*, tile::Vector}};
/// type A = Tile<F8E4M3, 64, 128>;
/// type B = Tile<F8E4M3, 128, 128>;
/// # roles! { Math = 1 x 232 registers }
/// fn scaled<Rd: MmaReaders, St: PromoteTiles<Rd>>() -> bool { St::SCALED }
/// assert!(!scaled::<Mma<Math>, (A, B)>());
/// assert!(scaled::<MmaReads<Math>, BlockScaled<A, B, Vector<f32, 64>, 1, 128>>());
/// ```
#[diagnostic::on_unimplemented(
    message = "a promoted accumulator can't add the products of a slot of `{Self}` that `{Rd}` read",
    label = "not two tiles that wgmma multiplies, or tiles with scale factors that each warp releases",
    note = "such a slot is a pair `(A, B)` of tiles of 8-bit floats; or `BlockScaled<A, B, Vector<f32, ..>, .., ..>` or `BlockScaledSwapAb<A, B, Vector<f32, ..>, ..>`, whose threads read the scale factors, in a ring with the readers `MmaReads<Role>`"
)]
pub trait PromoteTiles<Rd: MmaReaders>: MmaTiles {
    /// The scale factors that a thread needs: those of its rows and columns.
    type Factors: Copy;
    /// Whether there are any.
    const SCALED: bool;

    /// Reads this thread's scale factors. `row` is its first row in the tile of A; the other one is 8 rows further down.
    /// `column` is its first column in the tile of D; it also has the next one, and those 8, 16, ... further right.
    ///
    /// (PTX `ld.shared.f32` for each; CUTLASS: the copies of `tCsSFA` and `tCsSFB`.) See the example of
    /// [`PromoteTiles`].
    ///
    /// # Safety
    /// The slot whose scale factors lie at `beside` is full, `row` + 8 is a row of its A, and `column` is 0, 2, 4 or 6.
    unsafe fn factors(beside: u32, row: u32, column: u32) -> Self::Factors;

    /// Adds a thread's values of a part to its sums, scaled. The part's first column is `first`.
    ///
    /// See the example of [`PromoteTiles`].
    fn promote(sums: &mut [f32], part: &[f32], first: usize, factors: &Self::Factors);
}

impl<A, B, Rd: MmaReaders> PromoteTiles<Rd> for (A, B)
where
    (A, B): MmaTiles,
{
    type Factors = ();
    const SCALED: bool = false;
    #[isa::forceinline]
    unsafe fn factors(_beside: u32, _row: u32, _column: u32) {}
    #[isa::forceinline]
    fn promote(sums: &mut [f32], part: &[f32], _first: usize, _factors: &()) {
        for (sum, x) in sums.iter_mut().zip(part) {
            *sum += x;
        }
    }
}

/// The product of tiles that have scale factors beside them is that of the tiles.
macro_rules! mma_tiles {
    ($slot:ty, $($parameter:tt)*) => {
        impl<A, B, V, $($parameter)*> Sealed for $slot {}
        impl<A, B, V, $($parameter)*> MmaTiles for $slot
        where
            A: TileShape,
            B: TileShape,
            V: TileShape<Element = f32>,
            (A, B): MmaTiles,
        {
            const COLUMNS: usize = <(A, B) as MmaTiles>::COLUMNS;

            #[device]
            unsafe fn issue<Rd: MmaReaders, const N: usize, const BLOCKS: usize>(
                data: u32,
                group: u32,
                first: usize,
                regs: &mut [<M64<N> as Shape>::Regs; BLOCKS],
                accumulate: bool,
            ) where
                M64<N>: Shape,
            {
                // SAFETY: the caller's contract: A and B lie in the slot as in one that has nothing beside it.
                unsafe {
                    <(A, B) as MmaTiles>::issue::<Rd, N, BLOCKS>(data, group, first, regs, accumulate);
                }
            }
        }
    };
}
mma_tiles!(BlockScaled<A, B, V, COUNT, UNIT>, const COUNT: usize, const UNIT: usize);
mma_tiles!(BlockScaledSwapAb<A, B, V, LANE>, const LANE: usize);

impl<A, B, V, Ro: Role, const COUNT: usize, const UNIT: usize> PromoteTiles<MmaReads<Ro>>
    for BlockScaled<A, B, V, COUNT, UNIT>
where
    A: TileShape,
    B: TileShape,
    V: TileShape<Element = f32>,
    (A, B): MmaTiles,
{
    /// Of rows `row` and `row` + 8 of A, and of the units of B.
    type Factors = ([f32; 2], [f32; COUNT]);
    const SCALED: bool = true;

    #[device]
    unsafe fn factors(beside: u32, row: u32, _column: u32) -> Self::Factors {
        let (rows, columns) = (beside + 4 * row, beside + Self::SFB as u32);
        // SAFETY: the caller's contract. `V` has a value for each row of A, and the loading thread has stored `COUNT`.
        unsafe {
            (
                core::array::from_fn(|i| isa::shared::ld(rows + 32 * i as u32)),
                core::array::from_fn(|i| isa::shared::ld(columns + 4 * i as u32)),
            )
        }
    }

    #[isa::forceinline]
    fn promote(sums: &mut [f32], part: &[f32], first: usize, (rows, columns): &Self::Factors) {
        // The layout of fragments: 8 columns are (row, 0), (row, 1), (row + 8, 0), (row + 8, 1), for 2 columns of a lane.
        for (i, (sum, x)) in sums.iter_mut().zip(part).enumerate() {
            let factor = rows[i / 2 % 2] * columns[(first + i / 4 * 8) / UNIT];
            *sum = isa::math::fma(*x, factor, *sum);
        }
    }
}

impl<A, B, V, Ro: Role, const LANE: usize> PromoteTiles<MmaReads<Ro>>
    for BlockScaledSwapAb<A, B, V, LANE>
where
    A: TileShape,
    B: TileShape,
    V: TileShape<Element = f32>,
    (A, B): MmaTiles,
{
    /// Of the lane's columns, in their order, and of A.
    type Factors = ([f32; LANE], f32);
    const SCALED: bool = true;

    #[device]
    unsafe fn factors(beside: u32, _row: u32, column: u32) -> Self::Factors {
        let of_lane = |i: usize| beside + 4 * (column + (i / 2 * 8 + i % 2) as u32);
        // SAFETY: the caller's contract. `V` has a value for each column of D, and the loading thread has stored that of A.
        unsafe {
            (
                core::array::from_fn(|i| isa::shared::ld(of_lane(i))),
                isa::shared::ld(beside + Self::OF_A as u32),
            )
        }
    }

    #[isa::forceinline]
    fn promote(sums: &mut [f32], part: &[f32], first: usize, (columns, of_a): &Self::Factors) {
        // As above. The lane's columns from `first` on are those behind a quarter of that.
        for (i, (sum, x)) in sums.iter_mut().zip(part).enumerate() {
            let factor = columns[first / 4 + i / 4 * 2 + i % 2] * of_a;
            *sum = isa::math::fma(*x, factor, *sum);
        }
    }
}
