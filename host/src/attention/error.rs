//! Attention that can't be computed, one line each.

use super::strides::Operand;

/// A mistake in an attention problem, or in the tensors that a plan is bound to.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AttentionError {
    /// No kernel has these elements.
    #[error("attention with elements of {dtype}; bf16 or f16 is supported")]
    Dtype {
        /// The type.
        dtype: &'static str,
    },
    /// No kernel has this head dim.
    #[error("attention with head dim {dim}; it must be a multiple of 8, from 8 to {most}")]
    HeadDim {
        /// Elements of a head.
        dim: u32,
        /// The largest.
        most: u32,
    },
    /// The numbers of heads do not go together.
    #[error(
        "attention with {q} query heads and {kv} key heads; the first number must be a multiple of the second, and at most {most}"
    )]
    Heads {
        /// Heads of Q.
        q: u32,
        /// Heads of K and V.
        kv: u32,
        /// Most heads.
        most: u32,
    },
    /// Too few or too many sequences.
    #[error("attention with {batch} sequences; their number must be 1 to {most}")]
    Batch {
        /// Sequences.
        batch: u32,
        /// Most sequences.
        most: u32,
    },
    /// A sequence is empty or too long.
    #[error("attention with {what} = {rows}; it must be 1 to 2^31-1")]
    Length {
        /// "seq_q" or "seq_kv".
        what: &'static str,
        /// Its value.
        rows: u32,
    },
    /// A list of packed sequences has too few numbers.
    #[error(
        "{what} has {count} numbers; expected the first row of each sequence and the number of all rows"
    )]
    Starts {
        /// "cu_seqlens_q" or "cu_seqlens_kv".
        what: &'static str,
        /// Numbers in the list.
        count: usize,
    },
    /// The two lists of packed sequences have different lengths.
    #[error(
        "cu_seqlens_q and cu_seqlens_kv have {q} and {kv} numbers; they must have equally many"
    )]
    Lists {
        /// Numbers in the list of queries.
        q: usize,
        /// Numbers in the list of keys.
        kv: usize,
    },
    /// The first packed sequence does not begin at row 0.
    #[error("{what} begins with {first}; it must begin with 0")]
    FirstStart {
        /// "cu_seqlens_q" or "cu_seqlens_kv".
        what: &'static str,
        /// The first number.
        first: u32,
    },
    /// A packed sequence ends before it begins.
    #[error("{what}[{at}] = {start}; it must be at least {before}, the number before it")]
    Descending {
        /// "cu_seqlens_q" or "cu_seqlens_kv".
        what: &'static str,
        /// Index of the number.
        at: usize,
        /// The number.
        start: u32,
        /// The one before it.
        before: u32,
    },
    /// The packed sequences have no rows, or too many.
    #[error("{what} ends with {last}; the number of all rows must be 1 to 2^31-1")]
    LastStart {
        /// "cu_seqlens_q" or "cu_seqlens_kv".
        what: &'static str,
        /// The last number.
        last: u32,
    },
    /// A factor is no positive number.
    #[error("attention with a {what} of {value}; it must be positive and finite")]
    Factor {
        /// "scale" or "softcap".
        what: &'static str,
        /// The value.
        value: f32,
    },
    /// A stride that TMA does not take.
    #[error(
        "attention operand {operand}: the {dimension} stride of {stride} elements; TMA takes multiples of 8 elements below 2^40 bytes"
    )]
    Stride {
        /// The tensor.
        operand: Operand,
        /// "batch", "head" or "seq".
        dimension: &'static str,
        /// Elements.
        stride: u64,
    },
    /// Rows of O share elements.
    #[error(
        "attention operand O: the {dimension} stride of {stride} elements is less than the {within} elements within it, so rows overlap"
    )]
    Overlapping {
        /// "batch", "head" or "seq".
        dimension: &'static str,
        /// Elements.
        stride: u64,
        /// Elements from the first to the last of the dimensions with smaller strides.
        within: u64,
    },
    /// A tensor larger than a GPU's address space.
    #[error(
        "attention operand {operand} of {} elements with its strides; a GPU addresses less than 2^47 bytes",
        by(sizes)
    )]
    Bytes {
        /// The tensor.
        operand: Operand,
        /// Batches, heads, rows, elements of a head.
        sizes: [u64; 4],
    },
    /// More tiles than a work list has room for.
    #[error(
        "attention of {tiles} tiles of {rows} queries and one head; at most {most} are supported"
    )]
    Tiles {
        /// Tiles of all heads and sequences.
        tiles: u64,
        /// Queries of a tile.
        rows: u32,
        /// Most tiles.
        most: u64,
    },
    /// A slice of values is shorter than its tensor.
    #[error("attention operand {operand}: {need} elements are needed; there are {have}")]
    Elements {
        /// The tensor.
        operand: Operand,
        /// Elements from the first to the last.
        need: u64,
        /// Elements of the slice.
        have: u64,
    },
}

/// For example `2 x 16 x 4096 x 128`.
fn by(sizes: &[u64; 4]) -> String {
    sizes.map(|size| size.to_string()).join(" x ")
}
