//! Matrices in global memory that threads read themselves, without a tensor map: [`MatrixView`].

use crate::tile::{Element, ROW_BYTES, TileShape, swizzled};
use core::marker::PhantomData;
use isa::device;
use isa::slice::{self, DeviceSlice};

/// Bytes that one `cp.async` moves.
const CHUNK: u32 = 16;

/// A row-major matrix inside a slice of device memory: `rows` rows of `cols` elements, which begin
/// `pitch` elements apart.
///
/// It is to [`CpAsync`](crate::ring::CpAsync) what a tensor map is to TMA, but needs none on the
/// host. What lies outside of the matrix reads as zero, the elements between `cols` and `pitch`
/// among it.
///
/// (CUTLASS: a `Tensor` with the layout `(rows, cols):(pitch, 1)`.)
///
/// ```
/// use half::bf16;
/// use isa::slice::DeviceSlice;
/// use pipeline::tile::MatrixView;
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
    /// The matrix at the start of `memory`.
    ///
    /// `cp.async` reads 16 aligned bytes at a time: a slice that is not 16-byte aligned, a pitch
    /// that is not a multiple of 16 bytes or is below `cols`, and a matrix larger than the slice
    /// trap: a report on the model, an error of the launch on a GPU.
    ///
    /// (PTX: none; where it can't be right, `trap`; CUTLASS `make_tensor(make_gmem_ptr(..),
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
    /// Columns of one chunk.
    const CHUNK_COLS: u32 = CHUNK / E::SIZE as u32;

    /// The tile at (`row`, `col`), for [`CopySlot::copy`](crate::ring::CopySlot::copy). A column that
    /// is not a multiple of 16 bytes traps.
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

/// A copy into a tile of a slot: see [`MatrixView::tile`].
///
/// (CUTLASS: a partitioned source of `copy`.)
///
/// ```
/// use half::bf16;
/// use pipeline::{tile::{MatrixView, TileCopy}, prelude::*};
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
    /// Issues this thread's part of the copy into the tile at `dst`: of the tile's chunks, every
    /// `threads`-th one from number `thread`, so that eight neighbours read a whole row.
    ///
    /// # Safety
    /// `dst` is a tile of shape `T` that this thread may write until it has told of its copies;
    /// `thread` is one of `threads` that share it, whole warp groups.
    #[device]
    pub(crate) unsafe fn issue(self, dst: u32, thread: u32, threads: u32) {
        const CHUNKS: u32 = ROW_BYTES as u32 / CHUNK;
        let from = self.from;
        let (first, chunk) = (thread / CHUNKS, thread % CHUNKS);
        // A thread has the same chunk of every `step`-th row, and so one swizzle.
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
                // SAFETY: the chunk lies in the tile. If its row is one of the matrix, `bytes` bytes
                // of it are too, inside the slice and aligned (`MatrixView::new`, `tile`); if not,
                // nothing is read.
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
