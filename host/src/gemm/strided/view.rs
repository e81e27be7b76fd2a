//! Batches of matrices in device memory.

use super::error::StridedError;
use super::problem::{Order, StridedProblem};
use super::staging::layout;
use crate::buffer::{Buffer, Memory, span};
use crate::device::Device;
use crate::error::Error;
use crate::gemm::layout::{Layout, Place, is_stride};
use crate::stream::Stream;
use crate::tensor_error::dtype_name;
use crate::view::{Loan, View, ViewMut};
use crate::view_error::ViewError;
use std::sync::Arc;

/// A batch of matrices that are read: the first one, and the bytes from one to the next.
///
/// A [`View`] or a `&Buffer` converts into a batch whose matrices follow one another without gaps. The view's pitch is the
/// distance between the lines of memory: rows of the operand if it is K-major, and columns if it is MN-major.
///
/// ```
/// # fn main() -> Result<(), warpipe_host::Error> {
/// # let device = warpipe_host::Device::sim(warpipe_host::SimConfig::default());
/// use warpipe_host::{View, gemm::Strided};
///
/// // The queries of 16 heads in activations [512, 16, 64] in bf16: head h begins at column 64 * h.
/// let activations = device.alloc(512 * 16 * 64 * 2)?;
/// let queries = Strided::from(View::new(&activations).pitch(16 * 64 * 2)).batch_stride(64 * 2);
/// // One weight for all matrices of the batch.
/// let weight = device.alloc(128 * 64 * 2)?;
/// let weight = Strided::from(&weight).broadcast();
/// # let _ = (queries, weight);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a view does nothing until a plan is bound to it"]
pub struct Strided<'a> {
    view: View<'a>,
    stride: Option<u64>,
}

/// [`Strided`] of matrices that are written.
#[must_use = "a view does nothing until a plan is bound to it"]
pub struct StridedMut<'a>(pub(super) Strided<'a>);

impl Strided<'_> {
    /// Sets the bytes from one matrix to the next.
    pub fn batch_stride(mut self, bytes: u64) -> Self {
        self.stride = Some(bytes);
        self.view.whole = false;
        self
    }

    /// Takes the same matrix for each product: a stride of 0.
    pub fn broadcast(self) -> Self {
        self.batch_stride(0)
    }
}

impl StridedMut<'_> {
    /// Sets the bytes from one matrix to the next.
    pub fn batch_stride(self, bytes: u64) -> Self {
        Self(self.0.batch_stride(bytes))
    }
}

impl<'a> From<View<'a>> for Strided<'a> {
    fn from(view: View<'a>) -> Self {
        Self { view, stride: None }
    }
}

impl From<&Buffer> for Strided<'_> {
    fn from(buffer: &Buffer) -> Self {
        View::from(buffer).into()
    }
}

impl<'a> From<ViewMut<'a>> for StridedMut<'a> {
    fn from(view: ViewMut<'a>) -> Self {
        Self(view.0.into())
    }
}

impl From<&mut Buffer> for StridedMut<'_> {
    fn from(buffer: &mut Buffer) -> Self {
        Self(View::from(buffer).into())
    }
}

/// An operand that was checked against the plan.
pub(super) struct Operand<'v> {
    pub name: char,
    pub memory: Arc<Memory>,
    pub offset: u64,
    /// The lines of a matrix as the kernel sees them.
    pub layout: Layout,
    /// Bytes from line to line.
    pub pitch: u64,
    /// Bytes from matrix to matrix.
    pub stride: u64,
    pub place: Place,
    /// Bytes from the first to the last one.
    bytes: u64,
    loan: Option<Arc<Loan<'v>>>,
}

impl<'v> Operand<'v> {
    /// Checks a view against the plan. The problem is not empty.
    pub fn new(
        device: &Device,
        problem: &StridedProblem,
        operand: char,
        Strided { view, stride }: Strided<'v>,
    ) -> Result<Self, Error> {
        let View { memory, offset, pitch, whole, dtype: have, loan } = view;
        device.owns(|| format!("operand {operand}"), &memory.backend)?;
        let (dtype, size) = (dtype_name(problem.dtype), problem.dtype.size() as u64);
        if let Some(have) = have.filter(|&have| have != problem.dtype) {
            return Err(ViewError::Dtype { operand, have: dtype_name(have), want: dtype }.into());
        }
        let (batch, [lines, elements]) = (problem.batch, problem.lines(operand));
        let width = elements * size;
        let (len, need) = (memory.bytes as u64, problem.bytes(operand));
        if whole && len != need {
            let (rows, cols) = (lines * batch, elements);
            return Err(Error::OperandSize { operand, rows, cols, dtype, need, have: len });
        }
        let given = pitch.unwrap_or(width);
        if lines > 1 && given < width {
            let (pitch, cols) = (given, elements);
            return Err(ViewError::Pitch { operand, pitch, cols, dtype, row: width }.into());
        }
        let address = memory.addr.saturating_add(offset);
        // One line has any pitch, and one matrix any stride.
        let layout = layout(problem, operand);
        let pitch = if lines > 1 { given } else { layout.padded() };
        let packed = lines.saturating_mul(given);
        let stride = if batch > 1 { stride.unwrap_or(packed) } else { layout.padded() };
        let matrix = span(lines, pitch, width).unwrap_or(u64::MAX);
        for (what, value) in [("address", address), ("pitch", pitch), ("batch stride", stride)] {
            if !value.is_multiple_of(size) && problem.bytes(operand) > 0 {
                return Err(ViewError::Misaligned { operand, what, value, size, dtype }.into());
            }
        }
        let place = match layout.place(address, pitch) {
            Place::Own { .. } if !is_stride(stride) => Place::Staged,
            place => place,
        };
        let all = (batch - 1).saturating_mul(stride).saturating_add(matrix);
        // Only if K is 0: then nothing of A and B is read.
        let bytes = if lines == 0 || elements == 0 { 0 } else { all };
        let end = bytes.saturating_add(offset);
        if end > len {
            return Err(StridedError::OutOfBuffer {
                operand,
                batch,
                stride,
                lines,
                pitch,
                end,
                len,
            }
            .into());
        }
        let this =
            Self { name: operand, memory, offset, layout, pitch, stride, place, bytes, loan };
        if operand == 'D' {
            this.check_result(problem, width)?;
        }
        Ok(this)
    }

    /// Checks that no element is written twice.
    fn check_result(&self, problem: &StridedProblem, bytes: u64) -> Result<(), StridedError> {
        let Self { layout: Layout { rows: lines, .. }, pitch, stride, .. } = *self;
        let need = (lines - 1) * pitch + bytes;
        // Or the matrices lie side by side in the lines.
        let beside = stride >= bytes && (problem.batch - 1).saturating_mul(stride) + bytes <= pitch;
        if problem.batch > 1 && stride < need && !beside {
            return Err(StridedError::BatchStride { stride, lines, pitch, need });
        }
        Ok(())
    }

    /// Address of the first byte, and of the byte behind the last one.
    fn range(&self) -> [u64; 2] {
        let first = self.memory.addr + self.offset;
        [first, first + self.bytes]
    }

    /// Checks that no byte between the first and the last one of this operand is between those of D. C may be exactly D.
    pub fn check_apart(&self, d: &Operand<'_>) -> Result<(), StridedError> {
        let ([theirs, theirs_end], [ours, ours_end]) = (self.range(), d.range());
        let lies = |operand: &Operand<'_>| (operand.range(), operand.pitch, operand.stride);
        if self.name == 'C' && lies(self) == lies(d) {
            return Ok(());
        }
        if self.bytes > 0 && theirs < ours_end && ours < theirs_end {
            let operand = self.name;
            let right = match operand {
                'C' => "C must be exactly D or apart from it",
                _ => "D must have memory of its own",
            };
            return Err(StridedError::Overlap {
                operand,
                theirs,
                theirs_end,
                ours,
                ours_end,
                right,
            });
        }
        Ok(())
    }

    /// Checks that the run's stream is the one that borrowed memory was borrowed for.
    pub fn check_stream(&self, run: &Stream) -> Result<(), Error> {
        match &self.loan {
            Some(loan) if loan.stream.raw() != run.raw() => {
                let (have, run) = (loan.stream.raw() as u64, run.raw() as u64);
                Err(ViewError::Stream { operand: self.name, have, run }.into())
            }
            _ => Ok(()),
        }
    }
}

/// A and B in the order of the kernel's parameters.
pub(super) fn in_kernel_order<T>(order: Order, a: T, b: T) -> [T; 2] {
    match order {
        Order::RowMajor => [a, b],
        Order::ColumnMajor => [b, a],
    }
}
