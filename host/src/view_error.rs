//! Views that a plan of the GEMM can't use, one line each.

/// A view that a plan can't use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The elements are of another type.
    #[error("GEMM operand {operand}: the view has elements of {have}; the plan has {want}")]
    Dtype {
        /// A, B, C or D.
        operand: char,
        /// The view's type.
        have: &'static str,
        /// The plan's type.
        want: &'static str,
    },
    /// The row pitch is less than a row, so rows overlap.
    #[error(
        "GEMM operand {operand}: the row pitch of {pitch} bytes is less than a row of {cols} {dtype} = {row} bytes"
    )]
    Pitch {
        /// A, B, C or D.
        operand: char,
        /// The pitch.
        pitch: u64,
        /// Columns.
        cols: u64,
        /// Element type.
        dtype: &'static str,
        /// Bytes of a row.
        row: u64,
    },
    /// The address or the row pitch is not a multiple of the element size.
    #[error(
        "GEMM operand {operand}: {what} {value:#x} is not a multiple of {size}, the bytes of {dtype}"
    )]
    Misaligned {
        /// A, B, C or D.
        operand: char,
        /// "address" or "row pitch".
        what: &'static str,
        /// Its value.
        value: u64,
        /// Bytes of an element.
        size: u64,
        /// Element type.
        dtype: &'static str,
    },
    /// The matrix is larger than its memory.
    #[error(
        "GEMM operand {operand}: {rows} rows of {row} bytes, {pitch} bytes apart, from byte {offset} end at byte {end}; the buffer has {len}"
    )]
    OutOfBuffer {
        /// A, B, C or D.
        operand: char,
        /// Rows.
        rows: u64,
        /// Bytes of a row.
        row: u64,
        /// Bytes from row to row.
        pitch: u64,
        /// Offset of the first element.
        offset: u64,
        /// One past the last byte.
        end: u64,
        /// Bytes of the buffer.
        len: u64,
    },
    /// D shares bytes with an operand that is read.
    #[error(
        "GEMM operand {operand} at {theirs:#x} (pitch {their_pitch}) overlaps D at {ours:#x} (pitch {our_pitch}); {right}"
    )]
    Overlap {
        /// A, B or C.
        operand: char,
        /// Its first byte.
        theirs: u64,
        /// Its row pitch.
        their_pitch: u64,
        /// First byte of D.
        ours: u64,
        /// Row pitch of D.
        our_pitch: u64,
        /// What would be right.
        right: &'static str,
    },
    /// Borrowed memory is used on a stream that its owner does not know of.
    #[error(
        "GEMM operand {operand} was borrowed for stream {have:#x}, and the product is run on stream {run:#x}"
    )]
    Stream {
        /// A, B, C or D.
        operand: char,
        /// The stream of the loan.
        have: u64,
        /// The stream of the run.
        run: u64,
    },
}
