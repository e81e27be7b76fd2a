//! Breaches of TMA's rules for tensor maps, one line each.

use isa::kernel::Dtype;

/// A breach of TMA's rules for tensor maps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The address is not a multiple of 16 bytes.
    #[error("tensor map: address {addr:#x} is not a multiple of 16")]
    Address {
        /// The address.
        addr: u64,
    },
    /// The row pitch is not a multiple of 16 bytes below 2^40.
    #[error("tensor map: row pitch {pitch} bytes is not a multiple of 16 below 2^40")]
    Pitch {
        /// The pitch.
        pitch: u64,
    },
    /// The row pitch is less than a row, so rows overlap.
    #[error(
        "tensor map: row pitch {pitch} bytes is less than a row of {cols} {dtype} = {row} bytes"
    )]
    Row {
        /// The pitch.
        pitch: u64,
        /// Columns.
        cols: u64,
        /// Element type.
        dtype: &'static str,
        /// Bytes of a row.
        row: u64,
    },
    /// A dimension is empty or too large.
    #[error("tensor map: {rows} rows x {cols} columns; each must be 1 to 2^31-1")]
    Extent {
        /// Rows.
        rows: u64,
        /// Columns.
        cols: u64,
    },
    /// The tensor is larger than its buffer.
    #[error(
        "tensor map: {rows} rows of {pitch} bytes from byte {offset} need {need} bytes; the buffer has {len}"
    )]
    OutOfBuffer {
        /// Rows.
        rows: u64,
        /// Pitch.
        pitch: u64,
        /// Offset of the first element in the buffer.
        offset: u64,
        /// Bytes needed from the buffer's start.
        need: u64,
        /// Bytes of the buffer.
        len: u64,
    },
    /// A dimension of the box is not 1 to 256.
    #[error("tensor map: box of {rows} rows x {cols} columns; each must be 1 to 256")]
    Box {
        /// Rows of the box.
        rows: u32,
        /// Columns of the box.
        cols: u32,
    },
    /// A row of the box is not a multiple of 16 bytes, or it exceeds the swizzle span.
    #[error(
        "tensor map: a box row of {cols} {dtype} is {bytes} bytes; it must be a multiple of 16{limit}"
    )]
    BoxRow {
        /// Columns of the box.
        cols: u32,
        /// Element type.
        dtype: &'static str,
        /// Bytes of the box's row.
        bytes: u64,
        /// The limit that the swizzle sets, if there is one.
        limit: String,
    },
    /// The numbers of dimensions, strides and box dimensions do not agree.
    #[error(
        "tensor map: {dims} dimensions, {strides} strides and a box of {box_dims}; expected 1 to 5 dimensions of at least 1, one stride fewer, and as many box dimensions"
    )]
    Rank {
        /// Dimensions.
        dims: usize,
        /// Strides.
        strides: usize,
        /// Dimensions of the box.
        box_dims: usize,
    },
    /// TMA has no such swizzle.
    #[error("tensor map: swizzle of {bytes} bytes; expected 0, 32, 64 or 128")]
    Swizzle {
        /// The span asked for.
        bytes: u32,
    },
}

/// The name of the types of A and B, as messages print it.
pub const fn pair_name(a: Dtype, b: Dtype) -> &'static str {
    match (a, b) {
        (Dtype::E4m3, Dtype::E5m2) => "e4m3 x e5m2",
        (Dtype::E5m2, Dtype::E4m3) => "e5m2 x e4m3",
        // No other types are mixed.
        _ => a.name(),
    }
}

/// The name of an element type, as messages print it.
pub const fn dtype_name(dtype: Dtype) -> &'static str {
    dtype.name()
}
