//! Copies of the operands that TMA can't use as they lie.

use super::plan::StridedPlan;
use super::problem::StridedProblem;
use super::view::Operand;
use crate::buffer::{Buffer, Memory, Rows};
use crate::error::Error;
use crate::gemm::StagingInfo;
use crate::gemm::layout::{Layout, Place, is_stride};
use crate::gemm::plan::copy_of;
use crate::stream::Stream;
use crate::tensor::Matrix;
use std::sync::{Arc, OnceLock};

/// The layout of an operand's matrices, as the kernel sees them.
pub(super) fn layout(problem: &StridedProblem, operand: char) -> Layout {
    if problem.k == 0 && (operand == 'A' || operand == 'B') {
        return Layout::zero(operand, problem.dtype);
    }
    Layout::of(operand, problem.dtype, problem.lines(operand))
}

/// The copy that an operand needs whose matrices follow one another without gaps, or `None`.
pub(super) fn of_packed(problem: &StridedProblem, operand: char) -> Option<StagingInfo> {
    let layout = layout(problem, operand);
    let stride = layout.rows.saturating_mul(layout.row_bytes);
    // Matrices of one line may lie at other distances than TMA takes, even if the line itself suits it.
    let copied = match layout.packed() {
        Place::Own { .. } => problem.batch > 1 && !is_stride(stride),
        place => place == Place::Staged,
    };
    copied.then(|| layout.staging(problem.batch))
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
        let alloc = &mut |bytes| self.device.alloc_zeroed(bytes);
        let copy = copy_of(alloc, &operand.layout, matrices)?;
        // Another thread may have been faster: then its copy stays.
        Ok(&cell.get_or_init(|| copy).memory)
    }

    /// What the tensor map of an operand describes: memory, a matrix of it, the matrices of the batch, and the bytes from one to the
    /// next.
    pub(super) fn mapped<'a>(
        &'a self,
        operand: &'a Operand<'_>,
    ) -> Result<(&'a Arc<Memory>, Matrix, [u64; 2]), Error> {
        let batch = self.problem.batch;
        let Layout { dtype, rows, cols, .. } = operand.layout;
        let copy = Matrix { offset: 0, dtype, rows, cols, pitch: operand.layout.padded() };
        match operand.place {
            Place::Own { pitch } => {
                let matrix = Matrix { offset: operand.offset, pitch, ..copy };
                Ok((&operand.memory, matrix, [batch, operand.stride]))
            }
            Place::Staged => {
                let stride = if operand.stride == 0 { 0 } else { operand.layout.staging_bytes() };
                Ok((self.staging(operand)?, copy, [batch, stride]))
            }
            Place::Zero => Ok((self.staging(operand)?, copy, [1, copy.pitch])),
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
        let Operand { layout, pitch, stride, offset, .. } = *operand;
        let (lines, width) = (layout.rows, layout.row_bytes);
        // One matrix serves all products where the stride is 0.
        let matrices = if stride == 0 { 1 } else { self.problem.batch };
        let (line, matrix) = (layout.padded(), layout.staging_bytes());
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
