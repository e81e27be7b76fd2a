//! Layouts: how far it is from one batch, head and row of a tensor to the next.

use super::error::AttentionError;
use std::fmt;

/// TMA takes strides that are multiples of this many bytes.
const UNIT: u64 = 16;
/// TMA takes strides below this many bytes.
const STRIDES: u64 = 1 << 40;

/// A tensor of attention.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Operand {
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
    /// The result.
    O,
    /// Logarithms of the sums of exponentials.
    Lse,
    /// The pages of each sequence of a paged cache.
    BlockTable,
}

impl Operand {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [Self::Q, Self::K, Self::V, Self::O, Self::Lse];
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Q => "Q",
            Self::K => "K",
            Self::V => "V",
            Self::O => "O",
            Self::Lse => "LSE",
            Self::BlockTable => "block table",
        })
    }
}

/// Elements from one batch, head and row of a sequence to the next. The elements of a head lie side by side.
///
/// TMA takes multiples of 8 elements (16 bytes). The stride of a dimension of size 1 is of no account, and neither is
/// the batch stride of packed sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Strides {
    /// From one sequence of the batch to the next.
    pub batch: u64,
    /// From one head to the next.
    pub head: u64,
    /// From one row (query or key) to the next.
    pub seq: u64,
}

impl Strides {
    /// `[batch, seq, heads, dim]` without gaps.
    pub const fn bshd(heads: u32, seq: u32, dim: u32) -> Self {
        let row = heads as u64 * dim as u64;
        Self { batch: (seq as u64).saturating_mul(row), head: dim as u64, seq: row }
    }

    /// `[batch, heads, seq, dim]` without gaps.
    pub const fn bhsd(heads: u32, seq: u32, dim: u32) -> Self {
        let head = seq as u64 * dim as u64;
        Self { batch: (heads as u64).saturating_mul(head), head, seq: dim as u64 }
    }

    /// The element where row `row` of a head begins.
    #[cfg(feature = "reference")]
    pub(crate) const fn at(&self, batch: u32, head: u32, row: u32) -> u64 {
        self.batch * batch as u64 + self.head * head as u64 + self.seq * row as u64
    }

    /// Dimensions `[batch, heads, rows]` with their strides.
    fn named(&self, sizes: [u64; 4]) -> [(&'static str, u64, u64); 3] {
        let [batch, heads, rows, _] = sizes;
        [("batch", batch, self.batch), ("head", heads, self.head), ("seq", rows, self.seq)]
    }

    /// Elements from the first to the last one of a tensor of `[batch, heads, rows, dim]`; `None` if that overflows.
    pub(crate) fn span(&self, sizes: [u64; 4]) -> Option<u64> {
        if sizes.contains(&0) {
            return Some(0);
        }
        let far = |sum: Option<u64>, (_, size, stride): (_, u64, u64)| {
            sum?.checked_add((size - 1).checked_mul(stride)?)
        };
        self.named(sizes).into_iter().fold(Some(sizes[3]), far)
    }

    /// Checks TMA's rules, and that the rows of O do not overlap.
    pub(super) fn check(
        &self,
        operand: Operand,
        sizes: [u64; 4],
        element: u64,
    ) -> Result<(), AttentionError> {
        let mut dimensions = self.named(sizes).to_vec();
        dimensions.retain(|&(_, size, _)| size > 1);
        for &(dimension, _, stride) in &dimensions {
            let bytes = stride.checked_mul(element);
            if !bytes.is_some_and(|bytes| bytes.is_multiple_of(UNIT) && bytes < STRIDES) {
                return Err(AttentionError::Stride { operand, dimension, stride });
            }
        }
        if operand != Operand::O {
            return Ok(());
        }
        // Each stride must reach behind everything of the smaller ones.
        dimensions.sort_by_key(|&(_, _, stride)| stride);
        let mut within = sizes[3];
        for (dimension, size, stride) in dimensions {
            if stride < within {
                return Err(AttentionError::Overlapping { dimension, stride, within });
            }
            within = (size - 1).saturating_mul(stride).saturating_add(within);
        }
        Ok(())
    }
}
