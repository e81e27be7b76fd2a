//! The shape and layout of tiles in shared memory, as TMA writes them and wgmma reads them.
//!
//! Invariant: a row of a tile is 128 bytes, the span of the 128-byte swizzle, and a tile is aligned
//! to one swizzle atom (8 rows, 1024 bytes).

use core::marker::PhantomData;
use half::{bf16, f16};
use isa::kernel::{Dtype, TileFacts};

/// Seals [`Element`] and [`TileShape`]: a tile's bytes are those that TMA transfers.
mod sealed {
    #[diagnostic::on_unimplemented(
        message = "`{Self}` can't be a tile or its element",
        label = "these traits are closed",
        note = "a tile is `Tile<element, rows, columns>`, its element `bf16`, `f16` or `f32`"
    )]
    pub trait Sealed {}
}
use sealed::Sealed;

/// An element type of tensors.
///
/// (CUTLASS `ElementA`, `ElementB`, `ElementD`.)
///
/// ```
/// use half::bf16;
/// use warpipe_pipeline::tile::Element;
/// assert_eq!((bf16::SIZE, f32::SIZE), (2, 4));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the element of a tile",
    label = "not an element type",
    note = "the element of a tile is `bf16`, `f16` or `f32`"
)]
pub trait Element: Sealed + Copy + 'static {
    /// The element type's tag in launch metadata.
    const DTYPE: Dtype;
    /// Bytes per element.
    const SIZE: usize = Self::DTYPE.size();
}
impl Sealed for bf16 {}
impl Element for bf16 {
    const DTYPE: Dtype = Dtype::Bf16;
}
impl Sealed for f16 {}
impl Element for f16 {
    const DTYPE: Dtype = Dtype::F16;
}
impl Sealed for f32 {}
impl Element for f32 {
    const DTYPE: Dtype = Dtype::F32;
}

/// Bytes of one row of a tile: the span of the 128-byte swizzle.
pub const ROW_BYTES: usize = 128;
/// Rows after which the swizzle pattern repeats. 8 rows of 128 bytes are one swizzle atom.
pub const ATOM_ROWS: usize = 8;
/// Alignment of a tile in shared memory: one swizzle atom.
pub const TILE_ALIGN: usize = ATOM_ROWS * ROW_BYTES;

/// The shape of a tile, the unit of ring slots and store buffers.
///
/// Only [`Tile`] implements it. It is a trait so that a kernel can be generic over tiles.
///
/// (CUTLASS: one stage of `SmemLayoutA`.)
///
/// ```
/// use half::f16;
/// use warpipe_pipeline::tile::{Tile, TileShape};
/// type A = Tile<f16, 128, 64>;
/// assert_eq!((A::ROWS, A::COLS, A::BYTES), (128, 64, 128 * 128));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tile",
    label = "not a `Tile`",
    note = "a tile is `Tile<element, rows, columns>` with rows of 128 bytes: `Tile<bf16, 128, 64>`, `Tile<f32, 64, 32>`"
)]
pub trait TileShape: Sealed + 'static {
    /// Element type.
    type Element: Element;
    /// Rows (the outer dimension).
    const ROWS: usize;
    /// Columns in elements (the inner, contiguous dimension).
    const COLS: usize;
    /// Bytes in shared memory, which are also the bytes that a TMA load of the whole tile
    /// transfers.
    const BYTES: usize = Self::ROWS * ROW_BYTES;
}

/// A tile of `ROWS` x `COLS` elements, row-major, with rows of exactly 128 bytes and the 128-byte
/// swizzle: the 16-byte chunk `c` of row `r` lies at chunk `c ^ (r % 8)`.
///
/// The swizzle is `CU_TENSOR_MAP_SWIZZLE_128B` of the tensor map and layout type 1 of the wgmma
/// descriptor. The type has no values: kernels hold slots of rings and store buffers, which are
/// made of tiles.
///
/// (PTX: the box of `cp.async.bulk.tensor.2d`, an operand of `wgmma.mma_async`; CUTLASS:
/// `GMMA::Layout_K_SW128_Atom`, tiled.)
///
/// ```
/// use half::bf16;
/// use warpipe_pipeline::tile::{Tile, TileShape};
/// assert_eq!(<Tile<bf16, 64, 64> as TileShape>::BYTES, 8192);
/// assert_eq!(<Tile<f32, 64, 32> as TileShape>::BYTES, 8192);
/// ```
pub struct Tile<E: Element, const ROWS: usize, const COLS: usize>(PhantomData<E>);

impl<E: Element, const ROWS: usize, const COLS: usize> Sealed for Tile<E, ROWS, COLS> {}
impl<E: Element, const ROWS: usize, const COLS: usize> TileShape for Tile<E, ROWS, COLS> {
    type Element = E;
    const ROWS: usize = {
        assert!(
            ROWS.is_multiple_of(ATOM_ROWS) && ROWS > 0,
            "a tile's rows are a positive multiple of the swizzle atom's 8"
        );
        assert!(
            COLS * E::SIZE == ROW_BYTES,
            "a tile's row is 128 bytes, the swizzle span: 64 columns of 16 bits or 32 of 32 bits"
        );
        ROWS
    };
    const COLS: usize = COLS;
}

/// A tile as `warpipe inspect` prints it.
pub(crate) const fn facts<T: TileShape>() -> TileFacts {
    TileFacts {
        dtype: <T::Element as Element>::DTYPE.name(),
        rows: T::ROWS as u32,
        cols: T::COLS as u32,
        bytes: T::BYTES as u32,
    }
}

/// Returns the byte offset of a 16-byte chunk of a row inside a tile.
///
/// (CUTLASS `Swizzle<3, 4, 3>`.)
///
/// ```
/// use warpipe_pipeline::tile::swizzled;
/// assert_eq!(swizzled(0, 1), 16);
/// assert_eq!(swizzled(3, 1), 3 * 128 + 2 * 16); // 1 ^ 3
/// ```
#[inline(always)]
#[must_use]
pub const fn swizzled(row: u32, chunk: u32) -> u32 {
    row * ROW_BYTES as u32 + ((chunk ^ (row % ATOM_ROWS as u32)) << 4)
}

/// An element type of results, and its epilogue tile: 128 bytes of columns, any number of rows.
///
/// (CUTLASS `SmemLayoutAtomD`.)
///
/// ```
/// use half::bf16;
/// use warpipe_pipeline::tile::{EpilogueElement, TileShape};
/// assert_eq!((bf16::EPILOGUE_COLS, f32::EPILOGUE_COLS), (64, 32));
/// assert_eq!(<bf16 as EpilogueElement>::EpilogueTile::<64>::BYTES, 8192);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the element of a result",
    label = "not an element type",
    note = "results are `bf16`, `f16` or `f32`"
)]
pub trait EpilogueElement: Element {
    /// The epilogue tile of `ROWS` rows.
    type EpilogueTile<const ROWS: usize>: TileShape<Element = Self>;
    /// Columns of the epilogue tile.
    const EPILOGUE_COLS: usize = ROW_BYTES / Self::SIZE;
}
impl EpilogueElement for bf16 {
    type EpilogueTile<const ROWS: usize> = Tile<bf16, ROWS, 64>;
}
impl EpilogueElement for f16 {
    type EpilogueTile<const ROWS: usize> = Tile<f16, ROWS, 64>;
}
impl EpilogueElement for f32 {
    type EpilogueTile<const ROWS: usize> = Tile<f32, ROWS, 32>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_swizzle_is_the_manuals_xor() {
        // Address bits 4..7 are XORed with bits 7..10 (PTX manual, "Swizzling modes", 128B).
        for row in 0..64u32 {
            for chunk in 0..8u32 {
                let plain = row * 128 + chunk * 16;
                assert_eq!(swizzled(row, chunk), plain ^ (((plain >> 7) & 7) << 4));
            }
        }
    }

    #[test]
    fn a_tile_knows_its_bytes() {
        assert_eq!(<Tile<bf16, 128, 64> as TileShape>::BYTES, 128 * 64 * 2);
        assert_eq!(<Tile<f32, 64, 32> as TileShape>::BYTES, 64 * 32 * 4);
    }
}
