//! Layout of an operand as TMA sees it: in place, or in a copy with padded rows.

use super::GemmProblem;
use isa::kernel::Dtype;

/// TMA requires a row pitch that is a multiple of this many bytes.
const PITCH: u64 = 16;

/// Memory that holds an operand's rows while the kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// The caller's buffer.
    Own,
    /// A copy with padded rows.
    Staged,
    /// K is 0, and one zero row of 16 bytes stands for the operand. TMA fills the rest of each box with
    /// zeros, as it does outside of any tensor.
    Zero,
}

/// An operand's layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub operand: char,
    pub dtype: Dtype,
    pub rows: u64,
    pub cols: u64,
    /// Bytes of a row in the caller's buffer.
    pub row_bytes: u64,
    /// Bytes from row to row in the memory that the kernel uses.
    pub pitch: u64,
    pub place: Place,
}

impl Layout {
    pub fn new(problem: &GemmProblem, operand: char) -> Self {
        let (rows, cols, dtype) = problem.shape(operand);
        let size = dtype.size() as u64;
        let row_bytes = cols * size;
        let pitch = row_bytes.next_multiple_of(PITCH);
        // Any pitch describes a single row. But TMA writes D in units of 16 bytes, so even a single row
        // of D must be padded.
        let place = match () {
            () if cols == 0 => Place::Zero,
            () if pitch == row_bytes || (rows <= 1 && operand != 'D') => Place::Own,
            () => Place::Staged,
        };
        match place {
            Place::Zero => {
                Self { operand, dtype, rows: 1, cols: PITCH / size, row_bytes, pitch: PITCH, place }
            }
            _ => Self { operand, dtype, rows, cols, row_bytes, pitch, place },
        }
    }

    /// Bytes of the staging copy or of the zero row; 0 if the operand is used in place.
    pub fn staging_bytes(&self) -> u64 {
        match self.place {
            Place::Own => 0,
            Place::Staged | Place::Zero => self.rows * self.pitch,
        }
    }
}
