//! How a [`PromotedAccumulator`](crate::mma::PromotedAccumulator) adds a part: unchanged, or multiplied by the scale
//! factors of its slot.
//!
//! Invariant: a slot with scale factors is released by each warp that has read them ([`MmaReads`]).

use super::operand::MmaTiles;
use super::operand::sealed::Sealed;
use crate::cta::Role;
use crate::ring::{BlockScaled, MmaReaders, MmaReads};
use crate::tile::TileShape;
use isa::device;
use isa::wgmma::{M64, Shape};

/// A slot type whose products a promoted accumulator adds, in a ring with the readers `Rd`: tiles A and B, or tiles with
/// scale factors ([`BlockScaled`]), which the threads read, so that the readers are [`MmaReads`].
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
    note = "such a slot is a pair `(A, B)` of tiles of 8-bit floats; or `BlockScaled<A, B, Vector<f32, ..>, .., ..>`, whose threads read the scale factors, in a ring with the readers `MmaReads<Role>`"
)]
pub trait PromoteTiles<Rd: MmaReaders>: MmaTiles {
    /// The scale factors that a thread needs: those of its rows, and of all columns.
    type Factors: Copy;
    /// Whether there are any.
    const SCALED: bool;

    /// Reads this thread's scale factors. `row` is its first row in the tile of A; the other one is 8 rows further down.
    ///
    /// (PTX `ld.shared.f32` for each; CUTLASS: the copies of `tCsSFA` and `tCsSFB`.) See the example of
    /// [`PromoteTiles`].
    ///
    /// # Safety
    /// The slot whose scale factors lie at `beside` is full, and `row` + 8 is a row of its A.
    unsafe fn factors(beside: u32, row: u32) -> Self::Factors;

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
    unsafe fn factors(_beside: u32, _row: u32) {}
    #[isa::forceinline]
    fn promote(sums: &mut [f32], part: &[f32], _first: usize, _factors: &()) {
        for (sum, x) in sums.iter_mut().zip(part) {
            *sum += x;
        }
    }
}

impl<A, B, V, const COUNT: usize, const UNIT: usize> Sealed for BlockScaled<A, B, V, COUNT, UNIT> {}
impl<A, B, V, const COUNT: usize, const UNIT: usize> MmaTiles for BlockScaled<A, B, V, COUNT, UNIT>
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
    unsafe fn factors(beside: u32, row: u32) -> Self::Factors {
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
