//! Block scales in a slot: [`ScaleBlocks`].
//!
//! Invariant: a block of 512 bytes is what one `tcgen05.cp` takes, in the order in which tensor memory has it.

use super::shape::sealed::Sealed;
use super::shape::{KMajor, TileShape};
use core::marker::PhantomData;
use isa::tcgen05::ScaleFactor;

/// The block scales of 128 rows of an operand and 128 bytes of each: `BLOCKS` blocks of 512 bytes, with factors of type `F`
/// ([`Ue8m0`](isa::tcgen05::Ue8m0) or [`Ue4m3`](isa::tcgen05::Ue4m3)).
///
/// | format | elements | factors | |
/// |---|---|---|---|
/// | MXFP8 | 128 of e4m3 or e5m2 | one for 32 | `ScaleBlocks<Ue8m0, 1>` |
/// | MXFP4 | 256 of e2m1 | one for 32 | `ScaleBlocks<Ue8m0, 2>` |
/// | NVFP4 | 256 of e2m1 | one for 16 | `ScaleBlocks<Ue4m3, 4>` |
///
/// A block has four factors of each row, one after the other along K: byte `16 * (row % 32) + 4 * (row / 32) + i` is factor `i` of
/// row `row`. In global memory blocks are rows of a tensor of `i32`, those of the same rows one after the other along K.
/// (PTX: a box of `cp.async.bulk.tensor`, with `CU_TENSOR_MAP_SWIZZLE_NONE`; CUTLASS `Sm1xxBlockScaledBasicChunk`.)
///
/// ```
/// use isa::tcgen05::{Ue4m3, Ue8m0};
/// use warpipe_pipeline::tile::{ScaleBlocks, TileShape};
/// assert_eq!((ScaleBlocks::<Ue8m0, 1>::BYTES, ScaleBlocks::<Ue4m3, 4>::BYTES), (512, 2048));
/// ```
pub struct ScaleBlocks<F, const BLOCKS: usize>(PhantomData<F>);

impl<F, const BLOCKS: usize> Sealed for ScaleBlocks<F, BLOCKS> {}
impl<F: ScaleFactor, const BLOCKS: usize> TileShape for ScaleBlocks<F, BLOCKS> {
    type Element = i32;
    type Major = KMajor;
    const ROWS: usize = BLOCKS;
    const COLS: usize = 128;
    const SWIZZLE: usize = 0;
    const LINES: usize = BLOCKS;
    const LINE_BYTES: usize = 512;
    const PANELS: usize = 1;
}
