//! What TMA can't do, one line each.

use isa::kernel::Dtype;

/// A breach of TMA's rules for tensor maps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The address is not aligned for TMA.
    #[error("tensor map: address {addr:#x} is not a multiple of 16")]
    Address {
        /// The address.
        addr: u64,
    },
    /// A row pitch that TMA can't take.
    #[error("tensor map: row pitch {pitch} bytes is not a multiple of 16 below 2^40")]
    Pitch {
        /// The pitch.
        pitch: u64,
    },
    /// Rows that overlap.
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
    /// An empty or oversized dimension.
    #[error("tensor map: {rows} rows x {cols} columns; each must be 1 to 2^31-1")]
    Extent {
        /// Rows.
        rows: u64,
        /// Columns.
        cols: u64,
    },
    /// The tensor is larger than its buffer.
    #[error(
        "tensor map: {rows} rows of {pitch} bytes, from byte {offset} on, need {need} bytes; the buffer has {len}"
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
        /// Bytes there.
        len: u64,
    },
    /// A box that TMA can't move.
    #[error("tensor map: box of {rows} rows x {cols} columns; each must be 1 to 256")]
    Box {
        /// Rows of the box.
        rows: u32,
        /// Columns of the box.
        cols: u32,
    },
    /// A box row of an impossible size for the swizzle.
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
        /// The bound by the swizzle, if there is one.
        limit: String,
    },
    /// Dimensions, strides and box that don't belong together.
    #[error(
        "tensor map: {dims} dimensions, {strides} strides and a box of {box_dims}; 1 to 5 dimensions, none empty, one stride less, a box of as many"
    )]
    Rank {
        /// Dimensions.
        dims: usize,
        /// Strides.
        strides: usize,
        /// Dimensions of the box.
        box_dims: usize,
    },
    /// A swizzle that does not exist.
    #[error("tensor map: swizzle of {bytes} bytes; 0, 32, 64 and 128 exist")]
    Swizzle {
        /// The span asked for.
        bytes: u32,
    },
}

/// The name of a type in messages.
pub const fn dtype_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bf16 => "bf16",
        Dtype::F16 => "f16",
        Dtype::F32 => "f32",
        Dtype::U8 => "u8",
        Dtype::U32 => "u32",
    }
}
