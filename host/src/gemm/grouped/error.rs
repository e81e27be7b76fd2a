//! Errors of grouped products, one line each.

/// A grouped product that can't be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupedError {
    /// The kernels were not compiled.
    #[error("there are no grouped GEMM kernels; turn on warpipe's feature `gemm-grouped`")]
    NoKernel,
    /// The kernels have another type.
    #[error("grouped GEMM of {have}: the kernels have bf16")]
    Dtype {
        /// The type.
        have: &'static str,
    },
    /// There is no group.
    #[error("grouped GEMM of 0 groups: there must be at least one")]
    NoGroups,
    /// K is 0.
    #[error("grouped GEMM with K = 0: K must be at least 8, and D of an empty K is zeros")]
    NoK,
    /// Rows of an operand do not begin on multiples of 16 bytes.
    #[error(
        "grouped GEMM: {size} = {value} of 2 bytes; it must be a multiple of 8, because TMA needs rows of 16 bytes"
    )]
    Unit {
        /// 'N' or 'K'.
        size: char,
        /// Its value.
        value: u64,
    },
    /// A size is beyond what a tensor map or the scheduler counts.
    #[error("grouped GEMM: {what} = {value}; the limit is {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The largest value.
        limit: u64,
    },
    /// An operand lies where TMA can't read or write it.
    #[error(
        "grouped GEMM operand {operand}: address {addr:#x} and row pitch {pitch} must be multiples of 16 bytes"
    )]
    Place {
        /// 'A', 'B' or 'D'.
        operand: char,
        /// Its address.
        addr: u64,
        /// Its row pitch in bytes.
        pitch: u64,
    },
    /// The ends of the groups have another number or place.
    #[error(
        "grouped GEMM: the ends of {groups} groups are {need} bytes of i32 at a multiple of 4, not {have} bytes at {addr:#x}"
    )]
    Ends {
        /// Groups of the plan.
        groups: u64,
        /// Bytes of so many values.
        need: u64,
        /// Bytes of the buffer.
        have: u64,
        /// Its address.
        addr: u64,
    },
    /// D shares bytes with the ends of the groups.
    #[error(
        "grouped GEMM: the ends at {ends:#x} overlap D at {d:#x}; D must have memory of its own"
    )]
    Overlap {
        /// First byte of the ends.
        ends: u64,
        /// First byte of D.
        d: u64,
    },
}
