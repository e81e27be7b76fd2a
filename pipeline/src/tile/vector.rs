//! Tiles of one row: [`Vector`].
//!
//! Invariant: a vector is 128 bytes long, or a multiple of that, so one vector after the other is aligned for TMA.

use super::shape::sealed::Sealed;
use super::shape::{Element, KMajor, TileShape};
use core::marker::PhantomData;

/// `N` elements of a row of a tensor, one after the other in shared memory: a tile of one row, without a swizzle.
///
/// TMA loads it with one box. Threads read it; wgmma does not.
///
/// (PTX: a box of one row of `cp.async.bulk.tensor`, with `CU_TENSOR_MAP_SWIZZLE_NONE`; CUTLASS: a stage of `SmemLayoutSFA`.)
///
/// ```
/// use warpipe_pipeline::{prelude::*, tile::{TileShape, Vector}};
/// type Scales = Vector<f32, 128>;
/// assert_eq!((Scales::ROWS, Scales::COLS, Scales::BYTES), (1, 128, 512));
/// assert_eq!(TensorMap::<Scales>::BOX_ROWS, 1);
/// ```
pub struct Vector<E: Element, const N: usize>(PhantomData<E>);

impl<E: Element, const N: usize> Sealed for Vector<E, N> {}
impl<E: Element, const N: usize> TileShape for Vector<E, N> {
    type Element = E;
    type Major = KMajor;
    const ROWS: usize = 1;
    const COLS: usize = N;
    const SWIZZLE: usize = 0;
    const LINES: usize = 1;
    const LINE_BYTES: usize = {
        assert!(
            N > 0 && N <= 256 && (N * E::SIZE).is_multiple_of(128),
            "a vector has at most 256 elements, the most of a TMA box, and a multiple of 128 bytes, the alignment of TMA"
        );
        N * E::SIZE
    };
    const PANELS: usize = 1;
}
