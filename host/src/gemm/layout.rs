//! Layout of an operand as TMA sees it: in place, or in a copy with padded rows.

use super::GemmProblem;
use isa::kernel::Dtype;

/// TMA requires addresses and row pitches that are multiples of this many bytes.
const UNIT: u64 = 16;
/// TMA requires row pitches below this.
const PITCHES: u64 = 1 << 40;

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
        let size = dtype.size() as u64;
        match cols {
            0 => Self { operand, dtype, rows: 1, cols: UNIT / size, row_bytes: 0 },
            _ => Self { operand, dtype, rows, cols, row_bytes: cols * size },
        }
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
        if addr.is_multiple_of(UNIT) && pitch.is_multiple_of(UNIT) && pitch < PITCHES && writes {
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

    /// Bytes of a copy, or of the zero row.
    pub fn staging_bytes(&self) -> u64 {
        self.rows * self.padded()
    }
}
