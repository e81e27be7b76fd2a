//! The operands of bound attention: views that were checked.

use super::area::Area;
use super::error::AttentionError;
use super::problem::AttentionProblem;
use super::strides::Operand;
use crate::buffer::{Buffer, Memory};
use crate::device::Device;
use crate::error::Error;
use crate::stream::Stream;
use crate::view::{Loan, View};
use isa::slice::SliceAbi;
use std::sync::Arc;

/// A tensor of the caller's, laid out as the plan says.
pub(super) struct Bound<'v> {
    pub operand: Operand,
    pub memory: Arc<Memory>,
    /// Bytes from the start of the memory to the first element.
    pub offset: u64,
    /// Bytes from the first to the last element.
    pub bytes: u64,
    area: Area,
    loan: Option<Arc<Loan<'v>>>,
}

impl<'v> Bound<'v> {
    /// Checks a view against the plan.
    pub fn new(
        device: &Device,
        problem: &AttentionProblem,
        operand: Operand,
        view: View<'v>,
    ) -> Result<Self, Error> {
        let View { memory, offset, pitch, whole, dtype, loan } = view;
        device.owns(|| format!("attention operand {operand}"), &memory.backend)?;
        let (want, strides) = (problem.dtype(operand), problem.strides(operand));
        if let Some(have) = dtype.filter(|&have| have != want) {
            let (have, want) = (have.name(), want.name());
            return Err(AttentionError::ViewDtype { operand, have, want }.into());
        }
        let size = want.size() as u64;
        if let Some(have) = pitch.filter(|&have| have != strides.seq * size) {
            let want = strides.seq * size;
            return Err(AttentionError::ViewPitch { operand, have, want }.into());
        }
        let (need, have) = (problem.bytes(operand)?, memory.bytes as u64);
        let sizes = problem.sizes(operand);
        let full = sizes.iter().product::<u64>() * size == need;
        // A tensor with gaps may have one behind its last element too.
        if whole && (need > have || full && need < have) {
            return Err(AttentionError::ViewSize { operand, need, have }.into());
        }
        if offset.checked_add(need).is_none_or(|end| end > have) {
            return Err(AttentionError::ViewEnd { operand, need, offset, have }.into());
        }
        let numbers = matches!(operand, Operand::Lse | Operand::BlockTable);
        let (addr, unit) = (memory.addr + offset, if numbers { 4 } else { 16 });
        if !addr.is_multiple_of(unit) {
            return Err(AttentionError::ViewAddress { operand, addr, unit }.into());
        }
        let [batch, heads, rows, dim] = sizes;
        let dimensions = [(batch, strides.batch), (heads, strides.head), (rows, strides.seq)];
        let area = Area::new(addr, dim * size, &dimensions.map(|(n, stride)| (n, stride * size)));
        Ok(Self { operand, memory, offset, bytes: need, area, loan })
    }

    /// Address of the first element.
    pub fn addr(&self) -> u64 {
        self.memory.addr + self.offset
    }

    /// Its bytes as a buffer.
    pub fn part(&self) -> Result<Buffer, Error> {
        let whole = Buffer { memory: Arc::clone(&self.memory) };
        whole.part(self.offset as usize, self.bytes as usize)
    }

    /// What a kernel takes as a slice of `size` bytes an element.
    pub fn slice(&self, size: u64) -> SliceAbi {
        SliceAbi { address: self.addr(), elements: self.bytes / size }
    }

    /// Checks that the run's stream is the one that borrowed memory was borrowed for.
    pub fn check_stream(&self, run: &Stream) -> Result<(), AttentionError> {
        match &self.loan {
            Some(loan) if loan.stream.raw() != run.raw() => Err(AttentionError::ViewStream {
                operand: self.operand,
                have: loan.stream.raw() as u64,
                run: run.raw() as u64,
            }),
            _ => Ok(()),
        }
    }
}

/// Checks that `written` shares no byte with any of `others`.
pub(super) fn check_apart<'a>(
    written: &Bound<'_>,
    others: impl IntoIterator<Item = &'a Bound<'a>>,
) -> Result<(), AttentionError> {
    match others.into_iter().find(|other| written.area.meets(&other.area)) {
        None => Ok(()),
        Some(other) => Err(AttentionError::Overlap {
            operand: other.operand,
            theirs: other.addr(),
            written: written.operand,
            ours: written.addr(),
        }),
    }
}
