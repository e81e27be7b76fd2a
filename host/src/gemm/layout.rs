//! Layout of an operand as TMA sees it: in place, or in a copy with padded rows.

use super::{GemmProblem, StagingInfo};
use isa::kernel::Dtype;

/// TMA requires addresses and strides that are multiples of this many bytes.
pub(super) const UNIT: u64 = 16;
/// TMA requires strides below this.
const STRIDES: u64 = 1 << 40;

/// Whether TMA takes this distance between rows or between matrices.
pub(super) fn is_stride(bytes: u64) -> bool {
    bytes.is_multiple_of(UNIT) && bytes < STRIDES
}

/// Memory that holds an operand's rows while the kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// The caller's memory, with this row pitch.
    Own { pitch: u64 },
    /// A copy with padded rows.
    Staged,
    /// K is 0, and one zero row of 16 bytes stands for the operand. TMA fills the rest of each box with
    /// zeros, as it does outside of any tensor.
    Zero,
}

/// An operand's layout, wherever it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub operand: char,
    pub dtype: Dtype,
    /// Rows and columns as the kernel sees them.
    pub rows: u64,
    pub cols: u64,
    /// Bytes of a row in the caller's memory; 0 if K is.
    pub row_bytes: u64,
}

impl Layout {
    /// The layout of an operand of `problem`, whose B has the type `b`.
    pub fn new(problem: &GemmProblem, operand: char, b: Dtype) -> Self {
        let (rows, cols, dtype) = problem.shape(operand);
        let dtype = if operand == 'B' { b } else { dtype };
        if cols == 0 { Self::zero(operand, dtype) } else { Self::of(operand, dtype, [rows, cols]) }
    }

    /// The layout of rows with elements.
    pub fn of(operand: char, dtype: Dtype, [rows, cols]: [u64; 2]) -> Self {
        Self { operand, dtype, rows, cols, row_bytes: cols * dtype.size() as u64 }
    }

    /// The layout of the zero row that stands for an operand if K is 0.
    pub fn zero(operand: char, dtype: Dtype) -> Self {
        Self { operand, dtype, rows: 1, cols: UNIT / dtype.size() as u64, row_bytes: 0 }
    }

    /// Where the rows of a matrix at `addr`, `pitch` bytes apart, lie while the kernel runs.
    pub fn place(&self, addr: u64, pitch: u64) -> Place {
        if self.row_bytes == 0 {
            return Place::Zero;
        }
        // Any pitch describes a single row.
        let pitch = if self.rows <= 1 { self.padded() } else { pitch };
        // TMA writes in units of 16 bytes: it would write behind the row.
        let writes = self.operand != 'D' || self.row_bytes.is_multiple_of(UNIT);
        if addr.is_multiple_of(UNIT) && is_stride(pitch) && writes {
            Place::Own { pitch }
        } else {
            Place::Staged
        }
    }

    /// [`Layout::place`] of a matrix without gaps.
    pub fn packed(&self) -> Place {
        self.place(0, self.row_bytes)
    }

    /// Bytes from row to row in a copy.
    pub fn padded(&self) -> u64 {
        self.row_bytes.max(1).next_multiple_of(UNIT)
    }

    /// Bytes of a copy of a matrix, or of the zero row.
    pub fn staging_bytes(&self) -> u64 {
        self.rows.saturating_mul(self.padded())
    }

    /// The description of a copy of `matrices` matrices.
    pub fn staging(&self, matrices: u64) -> StagingInfo {
        StagingInfo {
            operand: self.operand,
            row_bytes: self.row_bytes,
            pitch: self.padded(),
            bytes: matrices.saturating_mul(self.staging_bytes()),
        }
    }
}
