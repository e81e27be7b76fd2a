//! Copies of the operands that TMA can't use as they lie.

use super::plan::StridedPlan;
use super::problem::StridedProblem;
use super::view::Operand;
use crate::buffer::{Buffer, Memory, Rows};
use crate::error::Error;
use crate::gemm::StagingInfo;
use crate::stream::Stream;
use crate::tensor::Matrix;
use std::sync::{Arc, OnceLock};

/// What TMA requires addresses and strides to be multiples of, in bytes.
const UNIT: u64 = 16;
/// Strides are below this.
const STRIDES: u64 = 1 << 40;

/// Where the matrices of an operand lie while the kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// The caller's memory.
    Own,
    /// A copy whose lines have the pitch of [`padded`].
    Staged,
    /// K is 0, and one line of zeros stands for the operand. TMA fills the rest of each box with zeros, as it does outside of
    /// any tensor.
    Zero,
}

impl Place {
    /// The place of an operand with this address, pitch and batch stride, whose lines have `width` bytes.
    pub fn of(operand: char, places: [u64; 3], width: u64, k: u64) -> Self {
        if k == 0 && (operand == 'A' || operand == 'B') {
            return Self::Zero;
        }
        let [address, pitch, stride] = places;
        let aligned = places.iter().all(|place| place.is_multiple_of(UNIT));
        // TMA writes in units of 16 bytes: it would write behind the line.
        let writes = operand != 'D' || width.is_multiple_of(UNIT);
        let reached = pitch < STRIDES && stride < STRIDES && address < u64::MAX - UNIT;
        if aligned && writes && reached { Self::Own } else { Self::Staged }
    }
}

/// Bytes from line to line in a copy.
pub(super) fn padded(width: u64) -> u64 {
    width.max(1).next_multiple_of(UNIT)
}

/// The copy that an operand needs whose matrices follow one another without gaps, or `None`.
pub(super) fn of_packed(problem: &StridedProblem, operand: char) -> Option<StagingInfo> {
    let [lines, elements] = problem.lines(operand);
    let row_bytes = elements * problem.dtype.size() as u64;
    let packed = [0, row_bytes, lines.saturating_mul(row_bytes)];
    let pitch = padded(row_bytes);
    let bytes = problem.batch.saturating_mul(lines).saturating_mul(pitch);
    match Place::of(operand, packed, row_bytes, problem.k) {
        Place::Staged => Some(StagingInfo { operand, row_bytes, pitch, bytes }),
        Place::Own | Place::Zero => None,
    }
}

/// What tells the copies of a plan apart.
fn index(operand: char) -> usize {
    match operand {
        'A' => 0,
        'B' => 1,
        'C' => 2,
        _ => 3,
    }
}

/// The copies of A, B, C and D: of one matrix that all products share, and of all matrices. The first bind that needs one allocates
/// it.
#[derive(Default)]
pub(super) struct Staging([[OnceLock<Buffer>; 2]; 4]);

impl StridedPlan {
    /// The memory of an operand's copy, or of its zero line. Allocates it where there is none yet.
    fn staging(&self, operand: &Operand<'_>) -> Result<&Arc<Memory>, Error> {
        let shared = operand.stride == 0 || operand.place == Place::Zero;
        let cell = &self.staging.0[index(operand.name)][usize::from(!shared)];
        if let Some(copy) = cell.get() {
            return Ok(&copy.memory);
        }
        let matrices = if shared { 1 } else { self.problem.batch };
        let Operand { lines: [lines, elements], place, .. } = *operand;
        let lines = if place == Place::Zero { 1 } else { lines };
        let pitch = padded(elements * self.problem.dtype.size() as u64);
        let all = matrices.checked_mul(lines).and_then(|lines| lines.checked_mul(pitch));
        let bytes = all.and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| Error::SizeOverflow {
            what: "bytes of a staging copy",
            factors: format!("{matrices} x {lines} x {pitch}"),
            limit: "the host's address space is smaller",
        })?;
        let copy = self.device.alloc_zeroed(bytes)?;
        // Another thread may have been faster: then its copy stays.
        Ok(&cell.get_or_init(|| copy).memory)
    }

    /// What the tensor map of an operand describes: memory, a matrix of it, the matrices of the batch, and the bytes from one to the
    /// next.
    pub(super) fn in_place<'a>(
        &'a self,
        operand: &'a Operand<'_>,
    ) -> Result<(&'a Arc<Memory>, Matrix, [u64; 2]), Error> {
        let StridedProblem { batch, dtype, .. } = self.problem;
        let Operand { offset, lines: [rows, cols], pitch, stride, .. } = *operand;
        let size = dtype.size() as u64;
        let line = padded(cols * size);
        let all = |stride: u64| [batch, stride];
        match operand.place {
            Place::Own => {
                Ok((&operand.memory, Matrix { offset, dtype, rows, cols, pitch }, all(stride)))
            }
            Place::Staged => {
                let matrix = Matrix { offset: 0, dtype, rows, cols, pitch: line };
                let stride = if stride == 0 { 0 } else { rows * line };
                Ok((self.staging(operand)?, matrix, all(stride)))
            }
            Place::Zero => {
                let matrix = Matrix { offset: 0, dtype, rows: 1, cols: UNIT / size, pitch: UNIT };
                Ok((self.staging(operand)?, matrix, [1, UNIT]))
            }
        }
    }

    /// Copies an operand into its staging copy (`inward`) or back out of it, if it has one.
    pub(super) fn copy(
        &self,
        operand: &Operand<'_>,
        stream: &Stream,
        inward: bool,
    ) -> Result<(), Error> {
        if operand.place != Place::Staged {
            return Ok(());
        }
        let Operand { lines: [lines, elements], pitch, stride, offset, .. } = *operand;
        let width = elements * self.problem.dtype.size() as u64;
        // One matrix serves all products where the stride is 0.
        let matrices = if stride == 0 { 1 } else { self.problem.batch };
        let (line, matrix) = (padded(width), lines * padded(width));
        let memory = self.staging(operand)?;
        let copied = |offset: u64, at: u64, pitches: [u64; 2], rows: u64| {
            let own = Rows { memory: &operand.memory, offset, pitch: pitches[0] };
            let copy = Rows { memory, offset: at, pitch: pitches[1] };
            let (from, to) = if inward { (&own, &copy) } else { (&copy, &own) };
            self.device.copy_rows(from, to, [rows, width], stream)
        };
        // One copy has lines that are equally far apart, there and here.
        if matrices == 1 || stride == lines * pitch {
            return copied(offset, 0, [pitch, line], matrices * lines);
        }
        // The lines of a matrix, or the same line of all matrices, if these do not overlap.
        if matrices <= lines || stride < width {
            return (0..matrices)
                .try_for_each(|i| copied(offset + i * stride, i * matrix, [pitch, line], lines));
        }
        (0..lines)
            .try_for_each(|i| copied(offset + i * pitch, i * line, [stride, matrix], matrices))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tma_takes_is_used_in_place() {
        let of = |operand, places, width| Place::of(operand, places, width, 8);
        assert_eq!(of('A', [16, 32, 64], 30), Place::Own);
        for places in [[8, 32, 64], [16, 30, 64], [16, 32, 2], [16, 1 << 40, 64], [16, 32, 1 << 40]]
        {
            assert_eq!(of('B', places, 30), Place::Staged, "{places:?}");
        }
        assert_eq!(of('C', [16, 32, 64], 30), Place::Own);
        assert_eq!(of('D', [16, 32, 64], 30), Place::Staged, "TMA would write 32 bytes");
        assert_eq!(of('D', [16, 32, 0], 32), Place::Own);
        assert_eq!(Place::of('A', [2, 2, 2], 0, 0), Place::Zero);
        assert_eq!(Place::of('C', [2, 2, 2], 2, 0), Place::Staged);
    }
}
