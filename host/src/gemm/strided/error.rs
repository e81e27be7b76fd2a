//! Products with layouts and batches that can't be computed, one line each.

/// A product that no kernel computes, or operands that do not fit into their memory or overlap D.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StridedError {
    /// A type that these kernels do not multiply.
    #[error("operands of {dtype} in the layout {layout}, batch {batch}: {right}")]
    Dtype {
        /// The type.
        dtype: &'static str,
        /// The layout, as BLAS names it.
        layout: String,
        /// Matrices of the batch.
        batch: u64,
        /// What would be right.
        right: &'static str,
    },
    /// A layout that BLAS does not have.
    #[error("`{text}` is no layout: tn, tt, nn or nt is right")]
    Layout {
        /// What was given.
        text: String,
    },
    /// More tiles than a grid numbers.
    #[error(
        "a batch of {batch} matrices of {m} x {n}: a grid computes fewer than 2^30 tiles of 16 x 16 elements"
    )]
    TooManyTiles {
        /// Matrices of the batch.
        batch: u64,
        /// Rows of D.
        m: u64,
        /// Columns of D.
        n: u64,
    },
    /// Matrices of D that overlap.
    #[error(
        "GEMM operand D: the batch stride of {stride} bytes is too short for {lines} lines, {pitch} bytes apart; at least {need} is right"
    )]
    BatchStride {
        /// The stride in bytes.
        stride: u64,
        /// Lines of a matrix.
        lines: u64,
        /// Bytes from line to line.
        pitch: u64,
        /// The least stride in bytes for matrices one after the other.
        need: u64,
    },
    /// The batch is larger than its memory.
    #[error(
        "GEMM operand {operand}: {batch} matrices, {stride} bytes apart, of {lines} lines, {pitch} bytes apart, end at byte {end}; the buffer has {len}"
    )]
    OutOfBuffer {
        /// A, B, C or D.
        operand: char,
        /// Matrices of the batch.
        batch: u64,
        /// Bytes from matrix to matrix.
        stride: u64,
        /// Lines of a matrix.
        lines: u64,
        /// Bytes from line to line.
        pitch: u64,
        /// Bytes needed.
        end: u64,
        /// Bytes of the buffer.
        len: u64,
    },
    /// D shares memory with A or B, or with a part of C.
    #[error(
        "GEMM operand {operand}, {theirs:#x} to {theirs_end:#x}, overlaps D, {ours:#x} to {ours_end:#x}: {right}"
    )]
    Overlap {
        /// A, B or C.
        operand: char,
        /// Its first byte.
        theirs: u64,
        /// The byte behind its last one.
        theirs_end: u64,
        /// First byte of D.
        ours: u64,
        /// The byte behind D's last one.
        ours_end: u64,
        /// What would be right.
        right: &'static str,
    },
    /// The table has no kernel for the product.
    #[error("no GEMM kernel for {dtype} in the layout {layout}; the table has {have}{cure}")]
    NoInstance {
        /// Element type.
        dtype: &'static str,
        /// The layout, as BLAS names it.
        layout: String,
        /// What the table has.
        have: String,
        /// The feature that would add the kernel, or nothing.
        cure: &'static str,
    },
}
