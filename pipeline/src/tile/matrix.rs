//! Matrices in global memory that threads copy themselves with `cp.async`, without a tensor map:
//! [`MatrixView`].
//!
//! Invariant: every 16-byte chunk that a copy reads is aligned and lies inside the slice; what lies
//! outside the matrix is filled with zeros and not read.

use crate::tile::{Element, ROW_BYTES, TileShape, by_chunks, swizzled};
use core::marker::PhantomData;
use isa::device;
use isa::slice::{self, DeviceSlice};

/// Bytes that one `cp.async` copies.
const CHUNK: u32 = 16;

/// A row-major matrix in a slice of device memory: `rows` rows of `cols` elements, whose starts are
/// `pitch` elements apart.
///
/// A ring filled by [`CpAsync`](crate::ring::CpAsync) reads from it, as one filled by TMA reads
/// from a tensor map, but the host prepares nothing. Elements outside the matrix read as zero,
/// including those between `cols` and `pitch`.
///
/// (CUTLASS: a `Tensor` with the layout `(rows, cols):(pitch, 1)`.)
///
/// ```
/// use half::bf16;
/// use isa::slice::DeviceSlice;
/// use warpipe_pipeline::tile::MatrixView;
///
/// /// What is there of a matrix whose rows are padded to a multiple of 8 elements.
/// fn rows_of_200(memory: DeviceSlice<'_, bf16>, rows: u32) -> MatrixView<'_, bf16> {
///     MatrixView::new(memory, rows, 195, 200)
/// }
/// ```
pub struct MatrixView<'a, E> {
    first: *const E,
    rows: u32,
    cols: u32,
    pitch: u32,
    memory: PhantomData<DeviceSlice<'a, E>>,
}

impl<E> Clone for MatrixView<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E> Copy for MatrixView<'_, E> {}

impl<'a, E: Element + slice::Element> MatrixView<'a, E> {
    /// Creates the view of the matrix at the start of `memory`.
    ///
    /// `cp.async` reads 16 aligned bytes at a time. So the call traps if the slice is not aligned
    /// to 16 bytes, if the pitch is not a multiple of 16 bytes or is below `cols`, or if the matrix
    /// is larger than the slice. The model reports the trap; on a GPU it ends the launch with an
    /// error.
    ///
    /// (PTX `trap`, for arguments that can't be right; CUTLASS `make_tensor(make_gmem_ptr(..),
    /// make_layout(..))`.) See the example of [`MatrixView`].
    #[device]
    pub fn new(memory: DeviceSlice<'a, E>, rows: u32, cols: u32, pitch: u32) -> Self {
        let first = memory.as_ptr();
        let elements =
            if rows == 0 { 0 } else { u64::from(rows - 1) * u64::from(pitch) + u64::from(cols) };
        let aligned = (first as u64).is_multiple_of(u64::from(CHUNK))
            && pitch.is_multiple_of(Self::CHUNK_COLS);
        if !aligned || cols > pitch || elements > memory.len() as u64 {
            isa::misc::trap();
        }
        Self { first, rows, cols, pitch, memory: PhantomData }
    }
}

impl<E: Element> MatrixView<'_, E> {
    /// Columns per 16-byte chunk.
    const CHUNK_COLS: u32 = CHUNK / E::SIZE as u32;

    /// Returns the tile at (`row`, `col`), for [`CopySlot::copy`](crate::ring::CopySlot::copy).
    /// Traps if `col` is not a multiple of 16 bytes.
    ///
    /// (PTX: the operands of `cp.async.cg.shared.global`; CUTLASS `local_tile`.) See the example of
    /// [`TileCopy`].
    #[device]
    pub fn tile<T: TileShape<Element = E>>(&self, row: u32, col: u32) -> TileCopy<'_, T> {
        if !col.is_multiple_of(Self::CHUNK_COLS) {
            isa::misc::trap();
        }
        TileCopy { from: *self, row, col, tile: PhantomData }
    }
}

/// A copy into one tile of a slot, from [`MatrixView::tile`].
///
/// (CUTLASS: a partitioned source of `copy`.)
///
/// ```
/// use half::bf16;
/// use warpipe_pipeline::{tile::{MatrixView, TileCopy}, prelude::*};
/// fn second<'a>(from: &'a MatrixView<'a, bf16>) -> TileCopy<'a, Tile<bf16, 64, 64>> {
///     from.tile(64, 0)
/// }
/// ```
pub struct TileCopy<'a, T: TileShape> {
    from: MatrixView<'a, T::Element>,
    row: u32,
    col: u32,
    tile: PhantomData<T>,
}

impl<T: TileShape> TileCopy<'_, T> {
    /// Issues this thread's share of the copy into the tile at address `dst`: every `threads`-th
    /// 16-byte chunk, starting with chunk `thread`, so eight neighbouring threads read a whole row.
    ///
    /// # Safety
    /// `dst` is a tile of shape `T` that this thread may write until it commits its copies;
    /// `thread` is one of `threads` that share it, whole warp groups.
    #[device]
    pub(crate) unsafe fn issue(self, dst: u32, thread: u32, threads: u32) {
        const CHUNKS: u32 = ROW_BYTES as u32 / CHUNK;
        const {
            assert!(
                by_chunks::<T>() && T::PANELS == 1,
                "cp.async fills K-major tiles of one panel, swizzled by 128 bytes"
            );
        }
        let from = self.from;
        let (first, chunk) = (thread / CHUNKS, thread % CHUNKS);
        // A thread copies the same chunk of every `step`-th row. `step` is a multiple of 8 rows, so
        // the swizzle is the same in all of them.
        let step = threads / CHUNKS;
        let chunk_cols = MatrixView::<T::Element>::CHUNK_COLS;
        let cols = from.cols.saturating_sub(self.col).saturating_sub(chunk * chunk_cols);
        let bytes = cols.min(chunk_cols) * T::Element::SIZE as u32;
        let rows = from.rows.saturating_sub(self.row);
        let pitch = from.pitch as usize;
        let origin = self.row as usize * pitch + self.col as usize + (chunk * chunk_cols) as usize;
        let src = from.first.wrapping_add(origin + first as usize * pitch);
        for i in 0..(T::ROWS as u32).div_ceil(step) {
            let row = first + i * step;
            if row < T::ROWS as u32 {
                // SAFETY: the chunk lies in the tile. If its row is a row of the matrix, its
                // `bytes` bytes lie inside the slice and are aligned (`MatrixView::new`, `tile`).
                // If not, nothing is read.
                unsafe {
                    isa::cp_async::copy_16_zfill(
                        dst + swizzled(first, chunk) + i * step * ROW_BYTES as u32,
                        src.wrapping_add((i * step) as usize * pitch).cast(),
                        if row < rows { bytes } else { 0 },
                    );
                }
            }
        }
    }
}
