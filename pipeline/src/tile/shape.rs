//! The shape and layout of tiles in shared memory, as TMA writes them and wgmma reads them.
//!
//! Invariant: a tile consists of panels that are as wide as its swizzle, one after the other, and is
//! aligned to one atom of the 128-byte swizzle (8 rows, 1024 bytes).

use core::marker::PhantomData;
use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use isa::kernel::{Dtype, TileFacts};
pub use isa::wgmma::{KMajor, Major, MnMajor};
use isa::{E2m1x2, Tf32};

/// Seals [`Element`] and [`TileShape`]: a tile's bytes are those that TMA transfers.
pub(super) mod sealed {
    #[diagnostic::on_unimplemented(
        message = "`{Self}` can't be a tile or its element",
        label = "these traits are closed",
        note = "a tile is `Tile<element, rows, columns>`, its element `bf16`, `f16`, `f32`, `Tf32`, `F8E4M3`, `F8E5M2`, `E2m1x2`, `i8` or `i32`"
    )]
    pub trait Sealed {}
}
use sealed::Sealed;

/// An element type of tensors.
///
/// `E2m1x2` is two numbers of four bits; launch metadata and tensor maps have it as u8.
///
/// (CUTLASS `ElementA`, `ElementB`, `ElementD`.)
///
/// ```
/// use half::bf16;
/// use warpipe_pipeline::tile::Element;
/// assert_eq!((bf16::SIZE, f32::SIZE, float8::F8E4M3::SIZE), (2, 4, 1));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the element of a tile",
    label = "not an element type",
    note = "the element of a tile is `bf16`, `f16`, `f32`, `Tf32`, `F8E4M3`, `F8E5M2`, `E2m1x2`, `i8` or `i32`"
)]
pub trait Element: Sealed + Copy + 'static {
    /// The element type's tag in launch metadata.
    const DTYPE: Dtype;
    /// Bytes per element.
    const SIZE: usize = Self::DTYPE.size();
}

macro_rules! elements {
    ($($t:ty as $dtype:ident;)+) => {$(
        impl Sealed for $t {}
        impl Element for $t {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )+};
}
elements! {
    bf16 as Bf16;
    f16 as F16;
    f32 as F32;
    Tf32 as Tf32;
    F8E4M3 as E4m3;
    F8E5M2 as E5m2;
    E2m1x2 as U8;
    i8 as I8;
    i32 as I32;
}

/// Bytes of one row of a tile with the 128-byte swizzle, one panel wide.
pub const ROW_BYTES: usize = 128;
/// Rows after which the swizzle pattern repeats. 8 rows of 128 bytes are one swizzle atom.
pub const ATOM_ROWS: usize = 8;
/// Alignment of a tile in shared memory: one atom of the widest swizzle.
pub const TILE_ALIGN: usize = ATOM_ROWS * ROW_BYTES;

/// The shape and layout of a tile, the unit of ring slots and store buffers.
///
/// [`Tile`] and [`Vector`](crate::tile::Vector) implement it. It is a trait so that a kernel can be generic over tiles.
///
/// (CUTLASS: one stage of `SmemLayoutA`.)
///
/// ```
/// use half::f16;
/// use warpipe_pipeline::tile::{Tile, TileShape};
/// type A = Tile<f16, 128, 64>;
/// assert_eq!((A::ROWS, A::COLS, A::BYTES), (128, 64, 128 * 128));
/// /// Two panels of 64 columns.
/// type Wide = Tile<f16, 128, 128>;
/// assert_eq!((Wide::PANELS, Wide::PANEL_BYTES, Wide::BYTES), (2, 128 * 128, 2 * 128 * 128));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tile",
    label = "not a `Tile`",
    note = "a tile is `Tile<element, rows, columns>`, with columns that fill panels of 128 bytes: `Tile<bf16, 128, 64>`, `Tile<f32, 64, 32>`, `Tile<F8E4M3, 128, 128>`"
)]
pub trait TileShape: Sealed + 'static {
    /// Element type.
    type Element: Element;
    /// Which dimension is contiguous: [`KMajor`] (along the columns) or [`MnMajor`] (along the rows).
    type Major: Major;
    /// Rows: M of an operand A of wgmma, N of an operand B.
    const ROWS: usize;
    /// Columns: K of an operand of wgmma.
    const COLS: usize;
    /// The swizzle's span in bytes: 128, 64, 32, or 0 for none.
    const SWIZZLE: usize;
    /// Lines of a panel: the tile's extent in the dimension that is not contiguous.
    const LINES: usize;
    /// Bytes of a line of a panel: the swizzle's span, or 16 without a swizzle.
    const LINE_BYTES: usize;
    /// Elements of a line of a panel.
    const LINE_ELEMENTS: usize = Self::LINE_BYTES / Self::Element::SIZE;
    /// Panels side by side in the contiguous dimension.
    const PANELS: usize;
    /// Bytes of a panel, and the distance from one panel to the next.
    const PANEL_BYTES: usize = Self::LINES * Self::LINE_BYTES;
    /// Bytes in shared memory, which are also the bytes that the TMA loads of the whole tile
    /// transfer.
    const BYTES: usize = Self::PANELS * Self::PANEL_BYTES;
}

/// A tile of `ROWS` x `COLS` elements in shared memory, contiguous along `M` and swizzled over
/// `SWIZZLE` bytes.
///
/// The tile is made of panels that lie one after the other. A panel is as wide as the swizzle's
/// span, and has all lines of the tile. With [`KMajor`] a line is a row, with [`MnMajor`] a
/// column. With the 128-byte swizzle the 16-byte chunk `c` of line `l` of a panel lies at chunk
/// `c ^ (l % 8)`.
///
/// The swizzle is `CU_TENSOR_MAP_SWIZZLE_128B` (`64B`, `32B`, `NONE`) of the tensor map and the
/// layout type of the wgmma descriptor. Without a swizzle a panel is 16 bytes wide, and its 8x8
/// core matrices lie one after the other. The type has no values: kernels hold slots of rings and
/// store buffers, which are made of tiles.
///
/// (PTX: the boxes of `cp.async.bulk.tensor`, one for each panel; an operand of
/// `wgmma.mma_async`; CUTLASS: `tile_to_shape` of `GMMA::Layout_K_SW128_Atom`,
/// `GMMA::Layout_MN_SW128_Atom` and their narrower kin.)
///
/// ```
/// use half::bf16;
/// use warpipe_pipeline::tile::{MnMajor, Tile, TileShape};
/// assert_eq!(<Tile<bf16, 64, 64> as TileShape>::BYTES, 8192);
/// assert_eq!(<Tile<f32, 64, 32> as TileShape>::BYTES, 8192);
/// /// The operand B of O = P·V: 128 columns of the product (the head dim), 96 keys, with the
/// /// elements of a key side by side in memory.
/// type V = Tile<bf16, 128, 96, MnMajor>;
/// assert_eq!((V::LINES, V::PANELS, V::PANEL_BYTES), (96, 2, 96 * 128));
/// ```
pub struct Tile<
    E: Element,
    const ROWS: usize,
    const COLS: usize,
    M: Major = KMajor,
    const SWIZZLE: usize = 128,
>(PhantomData<(E, M)>);

impl<E: Element, const ROWS: usize, const COLS: usize, M: Major, const SWIZZLE: usize> Sealed
    for Tile<E, ROWS, COLS, M, SWIZZLE>
{
}
impl<E: Element, const ROWS: usize, const COLS: usize, M: Major, const SWIZZLE: usize> TileShape
    for Tile<E, ROWS, COLS, M, SWIZZLE>
{
    type Element = E;
    type Major = M;
    const ROWS: usize = ROWS;
    const COLS: usize = COLS;
    const SWIZZLE: usize = {
        assert!(
            matches!(SWIZZLE, 0 | 32 | 64 | 128),
            "a swizzle spans 32, 64 or 128 bytes, or is 0 for none"
        );
        SWIZZLE
    };
    const LINES: usize = {
        let lines = if M::MN { COLS } else { ROWS };
        assert!(
            lines.is_multiple_of(ATOM_ROWS) && lines > 0,
            "a tile's rows (MN-major: its columns) are a positive multiple of the swizzle atom's 8"
        );
        lines
    };
    const LINE_BYTES: usize = if Self::SWIZZLE == 0 { 16 } else { Self::SWIZZLE };
    const PANELS: usize = {
        let bytes = E::SIZE * if M::MN { ROWS } else { COLS };
        assert!(
            bytes.is_multiple_of(Self::LINE_BYTES) && bytes > 0,
            "a tile's row (MN-major: its column) fills panels of 128 bytes, the swizzle span: 128 columns of 8 bits, 64 of 16 bits or 32 of 32 bits each"
        );
        bytes / Self::LINE_BYTES
    };
}

/// Whether a tile is one that threads write by chunks: K-major, with the 128-byte swizzle.
pub(crate) const fn by_chunks<T: TileShape>() -> bool {
    !T::Major::MN && T::SWIZZLE == ROW_BYTES
}

/// Whether a tile is one that threads write and read by fragments: K-major, with the swizzle of its element's epilogue
/// tile.
pub(crate) const fn by_fragments<T: TileShape>() -> bool
where
    T::Element: EpilogueElement,
{
    !T::Major::MN
        && T::SWIZZLE == <T::Element as EpilogueElement>::EpilogueTile::<ATOM_ROWS>::SWIZZLE
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
#[isa::forceinline]
#[must_use]
pub const fn swizzled(row: u32, chunk: u32) -> u32 {
    row * ROW_BYTES as u32 + ((chunk ^ (row % ATOM_ROWS as u32)) << 4)
}

/// Returns the byte offset of a 16-byte chunk of a row inside a tile with the 64-byte swizzle, whose rows have 64 bytes.
///
/// (CUTLASS `Swizzle<2, 4, 3>`.)
#[isa::forceinline]
pub(crate) const fn swizzled_64(row: u32, chunk: u32) -> u32 {
    row * 64 + ((chunk ^ (row / 2 % 4)) << 4)
}

/// An element type of results, and its epilogue tile: 64 columns, or 32 of 32 bits, and any number of rows.
///
/// A row has 128 bytes, or 64 of `F8E4M3`: 64 columns of a tile are what the parts of a main loop store one by one.
///
/// (CUTLASS `SmemLayoutAtomD`.)
///
/// ```
/// use half::bf16;
/// use warpipe_pipeline::tile::{EpilogueElement, TileShape};
/// assert_eq!((bf16::EPILOGUE_COLS, f32::EPILOGUE_COLS), (64, 32));
/// assert_eq!(float8::F8E4M3::EPILOGUE_COLS, 64);
/// assert_eq!(<bf16 as EpilogueElement>::EpilogueTile::<64>::BYTES, 8192);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the element of a result",
    label = "not an element type",
    note = "results are `bf16`, `f16`, `f32`, `F8E4M3` or `i32`"
)]
pub trait EpilogueElement: Element {
    /// The epilogue tile of `ROWS` rows.
    type EpilogueTile<const ROWS: usize>: TileShape<Element = Self>;
    /// Columns of the epilogue tile.
    const EPILOGUE_COLS: usize = Self::EpilogueTile::<ATOM_ROWS>::COLS;
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
impl EpilogueElement for i32 {
    type EpilogueTile<const ROWS: usize> = Tile<i32, ROWS, 32>;
}
impl EpilogueElement for F8E4M3 {
    type EpilogueTile<const ROWS: usize> = Tile<F8E4M3, ROWS, 64, KMajor, 64>;
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
    fn the_narrow_swizzle_is_the_manuals_xor() {
        // Address bits 4..6 are XORed with bits 7..9 (PTX manual, "Swizzling modes", 64B).
        for row in 0..64u32 {
            for chunk in 0..4u32 {
                let plain = row * 64 + chunk * 16;
                assert_eq!(swizzled_64(row, chunk), plain ^ (((plain >> 7) & 3) << 4));
            }
        }
    }

    #[test]
    fn a_tile_knows_its_bytes() {
        assert_eq!(<Tile<bf16, 128, 64> as TileShape>::BYTES, 128 * 64 * 2);
        assert_eq!(<Tile<f32, 64, 32> as TileShape>::BYTES, 64 * 32 * 4);
        assert_eq!(<Tile<bf16, 128, 192> as TileShape>::BYTES, 128 * 192 * 2);
        assert_eq!(<Tile<bf16, 256, 80, MnMajor> as TileShape>::BYTES, 256 * 80 * 2);
        assert_eq!(<Tile<bf16, 64, 32, KMajor, 0> as TileShape>::PANELS, 4);
    }
}
