//! What a launch tells the attention kernel.
#![forbid(unsafe_code)]

use isa::kernel::KernelArg;
use pipeline::grid::{DependentSlice, DependentSliceMut};

/// Queries of a warp group.
pub const GROUP_ROWS: u32 = 64;
/// The end of a CTA's list of work.
pub const END: u32 = u32::MAX;
/// Words of an entry of the list.
pub const ENTRY: u32 = 3;
/// A window without a bound.
pub const UNBOUNDED: u32 = 1 << 30;

/// What a launch tells the kernel.
///
/// Query i of a sequence has its diagonal at key i + `seq_kv` - `seq_q`. It sees the keys from `left` before the
/// diagonal to `right` behind it. A causal mask has `right` = 0.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct AttentionArgs<'a> {
    /// Each CTA's list of `list` entries of three words: the number of the tile of queries among those of its
    /// sequence; the [`Matrix`] of its queries; that of their keys and values. A first word of [`END`] ends a list.
    pub work: DependentSlice<'a, u32>,
    /// The log-sum-exp of each query's scores, [sequence, head, query]; for [packed](super::Packed) sequences
    /// [head, query]. Empty if it is not asked for.
    pub lse: DependentSliceMut<'a, f32>,
    /// Entries of a CTA's list, with its end.
    pub list: u32,
    /// Queries of a sequence, or of the longest one.
    pub seq_q: u32,
    /// Keys of a sequence, or of the longest one.
    pub seq_kv: u32,
    /// Heads of the queries.
    pub heads: u32,
    /// Keys before the diagonal that a query sees; [`UNBOUNDED`] for all.
    pub left: u32,
    /// Keys behind the diagonal that a query sees; [`UNBOUNDED`] for all.
    pub right: u32,
    /// What scores are multiplied by.
    pub scale: f32,
    /// `scale` times log2(e): the factor of the scores in exponents of 2.
    pub scale_log2: f32,
}

/// The place of a matrix in a tensor map of (columns, rows, head, sequence): the head in the lower half, the sequence
/// in the upper half. One register holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix(pub u32);

impl Matrix {
    /// The head and the sequence.
    #[inline(always)]
    pub fn coords(self) -> [u32; 2] {
        [self.0 & 0xffff, self.0 >> 16]
    }
}
