//! Errors of pointer arrays, one line each.

/// A grouped product of pointer arrays that can't be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// The kernels were not compiled.
    #[error(
        "there are no GEMM kernels for pointer arrays; turn on warpipe's feature `gemm-grouped`"
    )]
    NoKernel,
    /// The number of problems.
    #[error("pointer arrays of {problems} problems: from 1 to {limit} are right")]
    Problems {
        /// Problems of the plan.
        problems: u64,
        /// Most problems.
        limit: u64,
    },
    /// The table has another size or place.
    #[error(
        "the table of {problems} problems is {need} bytes at a multiple of 8, not {have} bytes at {addr:#x}"
    )]
    Table {
        /// Problems of the plan.
        problems: u64,
        /// Bytes of a table of this many problems.
        need: u64,
        /// Bytes of the buffer.
        have: u64,
        /// Its address.
        addr: u64,
    },
    /// Memory of D is also memory of something that the product reads.
    #[error(
        "pointer arrays: {what} at {theirs:#x} overlaps D at {d:#x}; D must have memory of its own"
    )]
    Overlap {
        /// What is read.
        what: &'static str,
        /// Its first byte.
        theirs: u64,
        /// First byte of D.
        d: u64,
    },
    /// Memory begins where no element can.
    #[error("pointer arrays: {what} begins at {addr:#x}; a multiple of 2 is right")]
    Misaligned {
        /// The operand.
        what: &'static str,
        /// Its first byte.
        addr: u64,
    },
    /// The info of a run has another size or place, or shares bytes with an operand or the table.
    #[error(
        "pointer arrays: the info is {have} bytes at {addr:#x}; 4 bytes at a multiple of 4, apart from the operands and the table, are right"
    )]
    Info {
        /// Bytes of the buffer.
        have: u64,
        /// Its address.
        addr: u64,
    },
}
