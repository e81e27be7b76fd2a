//! The operands of a bound product, as checked views.

use super::layout::{Layout, Place};
use super::problem::GemmProblem;
use crate::buffer::{Memory, Rows, span};
use crate::device::Device;
use crate::error::Error;
use crate::tensor_error::dtype_name;
use crate::view::{Loan, View};
use crate::view_error::ViewError;
use isa::kernel::Dtype;
use std::sync::Arc;

/// A matrix of the caller's, as large as the plan says.
pub(super) struct Operand<'v> {
    pub memory: Arc<Memory>,
    pub offset: u64,
    /// Bytes from row to row.
    pub pitch: u64,
    pub place: Place,
    loan: Option<Arc<Loan<'v>>>,
}

impl<'v> Operand<'v> {
    /// Checks a view against the plan.
    pub fn new(
        device: &Device,
        problem: &GemmProblem,
        layout: &Layout,
        view: View<'v>,
    ) -> Result<Self, Error> {
        let View { memory, offset, pitch, whole, dtype, loan } = view;
        let operand = layout.operand;
        device.owns(|| format!("operand {operand}"), &memory.backend)?;
        let (rows, cols, _) = problem.shape(operand);
        let want = layout.dtype;
        let (row, size) = (cols * want.size() as u64, want.size() as u64);
        let name = dtype_name(want);
        // A tf32 is stored as an f32.
        let stored = if want == Dtype::Tf32 { Dtype::F32 } else { want };
        if let Some(have) = dtype.filter(|&have| have != want && have != stored) {
            return Err(ViewError::Dtype { operand, have: dtype_name(have), want: name }.into());
        }
        if whole {
            let problem =
                if operand == 'B' { GemmProblem { ab: want, ..*problem } } else { *problem };
            problem.check_size(operand, memory.bytes as u64)?;
        }
        let pitch = pitch.unwrap_or(row);
        if rows > 1 && pitch < row {
            return Err(ViewError::Pitch { operand, pitch, cols, dtype: name, row }.into());
        }
        let empty = rows == 0 || cols == 0;
        let all = if empty { Some(0) } else { span(rows, pitch, row) };
        let end = all.and_then(|all| all.checked_add(offset));
        let (end, len) = (end.unwrap_or(u64::MAX), memory.bytes as u64);
        if end > len {
            return Err(
                ViewError::OutOfBuffer { operand, rows, row, pitch, offset, end, len }.into()
            );
        }
        let addr = memory.addr + offset;
        let pitches = if rows > 1 { pitch } else { 0 };
        for (what, value) in [("address", addr), ("row pitch", pitches)] {
            if !empty && !value.is_multiple_of(size) {
                return Err(
                    ViewError::Misaligned { operand, what, value, size, dtype: name }.into()
                );
            }
        }
        let place = layout.place(addr, pitch);
        Ok(Self { memory, offset, pitch, place, loan })
    }

    /// The rows, for a copy.
    pub fn rows(&self) -> Rows<'_> {
        Rows { memory: &self.memory, offset: self.offset, pitch: self.pitch }
    }

    fn addr(&self) -> u64 {
        self.memory.addr + self.offset
    }

    /// Checks that the run's stream is the one that borrowed memory was borrowed for.
    pub fn check_stream(&self, operand: char, run: &crate::Stream) -> Result<(), Error> {
        match &self.loan {
            Some(loan) if loan.stream.raw() != run.raw() => {
                let (have, run) = (loan.stream.raw() as u64, run.raw() as u64);
                Err(ViewError::Stream { operand, have, run }.into())
            }
            _ => Ok(()),
        }
    }
}

/// Checks that D shares no byte with A and B, and that C is exactly D or apart from it.
pub(super) fn check_apart(
    layouts: &[Layout; 4],
    operands: &[Option<Operand<'_>>; 4],
) -> Result<(), ViewError> {
    let [.., Some(d)] = operands else { return Ok(()) };
    let ours = Lines::new(d, &layouts[3]);
    for (layout, operand) in layouts.iter().zip(operands).take(3) {
        let Some(operand) = operand else { continue };
        let theirs = Lines::new(operand, layout);
        let same = layout.operand == 'C' && theirs == ours;
        if !same && theirs.meet(&ours) {
            return Err(ViewError::Overlap {
                operand: layout.operand,
                theirs: theirs.addr,
                their_pitch: theirs.pitch,
                ours: ours.addr,
                our_pitch: ours.pitch,
                right: match layout.operand {
                    'C' => "C must be exactly D or apart from it",
                    _ => "D must have memory of its own",
                },
            });
        }
    }
    Ok(())
}

/// The bytes of a matrix: `rows` times `width` bytes, `pitch` apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lines {
    addr: u64,
    rows: u64,
    width: u64,
    pitch: u64,
}

impl Lines {
    fn new(operand: &Operand<'_>, layout: &Layout) -> Self {
        let (rows, width) = (layout.rows, layout.row_bytes);
        let pitch = if rows > 1 { operand.pitch } else { width };
        Self { addr: operand.addr(), rows, width, pitch }
    }

    /// Whether both matrices have a byte in common. If their pitches differ, they count as meeting if their ranges from the
    /// first to the last byte overlap.
    fn meet(&self, other: &Self) -> bool {
        let (low, high) = if self.addr <= other.addr { (self, other) } else { (other, self) };
        if [low, high].iter().any(|l| l.rows == 0 || l.width == 0) {
            return false;
        }
        let delta = high.addr - low.addr;
        if delta >= (low.rows - 1) * low.pitch + low.width {
            return false;
        }
        if low.rows == 1 || high.rows > 1 && low.pitch != high.pitch {
            return true;
        }
        // The first row of `high` begins in row `skipped` of `low`, `at` bytes behind that one's first, and
        // may reach into the row after it. So do the others.
        let (skipped, at) = (delta / low.pitch, delta % low.pitch);
        let ends_in = |row: u64| row < low.rows;
        let here = at < low.width && ends_in(skipped);
        let next = at + high.width > low.pitch && ends_in(skipped + 1);
        here || next
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    /// The bytes one by one.
    fn bytes(l: &Lines) -> Vec<u64> {
        let row = |i| (0..l.width).map(move |x| l.addr + i * l.pitch + x);
        (0..l.rows).flat_map(row).collect()
    }

    #[test]
    fn as_byte_by_byte() {
        let mut met = 0;
        for pitch in [4, 7] {
            for (rows_a, rows_b) in [(1, 1), (1, 3), (3, 1), (2, 3), (4, 2)] {
                for (wide_a, wide_b) in [(1, 1), (2, 3), (4, 4), (3, 1), (0, 2), (17, 2), (2, 17)] {
                    // Rows of one matrix do not overlap.
                    if rows_a > 1 && wide_a > pitch || rows_b > 1 && wide_b > pitch {
                        continue;
                    }
                    for addr in 0..80 {
                        let a = Lines { addr: 30, rows: rows_a, width: wide_a, pitch };
                        let b = Lines { addr, rows: rows_b, width: wide_b, pitch };
                        let right = bytes(&a).iter().any(|x| bytes(&b).contains(x));
                        assert_eq!((a.meet(&b), b.meet(&a)), (right, right), "{a:?} {b:?}");
                        met += u32::from(right);
                    }
                }
            }
        }
        assert!(met > 300, "{met}");
    }

    #[test]
    fn other_pitches_meet_where_they_enclose_each_other() {
        let a = Lines { addr: 0, rows: 4, width: 2, pitch: 8 };
        let inside = Lines { addr: 4, rows: 2, width: 2, pitch: 6 };
        assert!(a.meet(&inside) && inside.meet(&a));
        let behind = Lines { addr: 26, ..inside };
        assert!(!a.meet(&behind) && !behind.meet(&a));
    }
}
