//! A grouped plan bound to its operands.

use super::plan::Choice;
use super::{GroupedError, GroupedPlan, MAPS};
use crate::buffer::{Buffer, span};
use crate::error::Error;
use crate::gemm::layout::{Layout, Place};
use crate::gemm::operand::{Operand, check_apart};
use crate::param::Param;
use crate::stream::Stream;
use crate::tensor::{Matrix, TensorBox, TensorMap};
use crate::tensor_nd::TensorNd;
use crate::view::{View, ViewMut};
use gpu_kernels::gemm::Linear;
use gpu_kernels::gemm::scheduler::GroupedArgs;
use isa::cp_async_bulk::TensorMapBytes;
use pipeline::grid::DependentSliceMut;
use std::sync::Arc;

/// A grouped plan with its operands. The tensor maps are encoded once, for any number of runs. Threads may share it.
pub struct BoundGrouped<'p> {
    plan: &'p GroupedPlan,
    operands: [Operand<'p>; MAPS],
    ends: &'p Buffer,
    /// The tensor maps in the order of the kernel's parameters; none if D is empty.
    maps: Vec<TensorMap>,
}

impl GroupedPlan {
    /// Queues D = alpha * A * B^T of each group on the device's stream. [`Buffer::read`] waits for it.
    ///
    /// # Errors
    /// The errors of [`GroupedPlan::bind`], and of the launch.
    pub fn run<'v>(
        &'v self,
        a: impl Into<View<'v>>,
        b: impl Into<View<'v>>,
        ends: &'v Buffer,
        d: impl Into<ViewMut<'v>>,
        alpha: f32,
    ) -> Result<(), Error> {
        self.bind(a, b, ends, d)?.run(alpha, &self.device.stream())
    }

    /// Checks the operands and encodes their tensor maps, once for any number of runs.
    ///
    /// B is the matrix of all groups' rows, [groups * N, K]. With [`GroupedRows::Masked`](super::GroupedRows::Masked), A and
    /// D are likewise matrices of the rows of all groups. An operand is a `&Buffer` (`&mut` for D) that a packed matrix
    /// fills, or a [`View`]. Its address and its row pitch must be multiples of 16 bytes: nothing is copied. `ends` has one
    /// `i32` for each group.
    ///
    /// # Errors
    /// [`GroupedError`] for an operand in a place that TMA does not take, and for another number of ends; [`Error::View`]
    /// for a view that the plan can't use; [`Error::OperandSize`] for a buffer of another size; [`Error::ForeignDevice`].
    pub fn bind<'p>(
        &'p self,
        a: impl Into<View<'p>>,
        b: impl Into<View<'p>>,
        ends: &'p Buffer,
        d: impl Into<ViewMut<'p>>,
    ) -> Result<BoundGrouped<'p>, Error> {
        let groups = self.problem.groups;
        let (need, have, addr) = (4 * groups, ends.len() as u64, ends.addr());
        if have != need || !addr.is_multiple_of(4) {
            return Err(GroupedError::Ends { groups, need, have, addr }.into());
        }
        self.device.check_buffer("the ends of the groups", ends)?;
        let layouts = ['A', 'B', 'C', 'D']
            .map(|o| Layout::new(&self.problem.matrix(o), o, self.problem.dtype));
        let [a_layout, b_layout, _, d_layout] = &layouts;
        let operand = |layout, view| self.operand(layout, view);
        let a = operand(a_layout, a.into())?;
        let b = operand(b_layout, b.into())?;
        let d = operand(d_layout, d.into().0)?;
        let maps = match &self.choice {
            None => Vec::new(),
            Some(choice) => {
                let (kernel_a, kernel_b) = if choice.instance.swap_ab {
                    ((&b, b_layout), (&a, a_layout))
                } else {
                    ((&a, a_layout), (&b, b_layout))
                };
                vec![
                    self.map(choice, 0, kernel_a)?,
                    self.map(choice, 1, kernel_b)?,
                    self.map_of_d(choice, (&d, d_layout))?,
                ]
            }
        };
        let (d_from, d_to) = (d.memory.addr + d.offset, end_of(&d, d_layout));
        if addr < d_to && d_from < addr + need {
            return Err(GroupedError::Overlap { ends: addr, d: d_from }.into());
        }
        let operands = [Some(a), Some(b), None, Some(d)];
        check_apart(&layouts, &operands)?;
        let [Some(a), Some(b), _, Some(d)] = operands else {
            return Err(GroupedError::NoGroups.into());
        };
        Ok(BoundGrouped { plan: self, operands: [a, b, d], ends, maps })
    }

    /// Checks an operand.
    fn operand<'v>(&self, layout: &Layout, view: View<'v>) -> Result<Operand<'v>, Error> {
        let problem = self.problem.matrix(layout.operand);
        let operand = Operand::new(&self.device, &problem, layout, view)?;
        let empty = layout.rows == 0 || layout.row_bytes == 0;
        if !empty && operand.place == Place::Staged {
            let (addr, pitch) = (operand.memory.addr + operand.offset, operand.pitch);
            return Err(GroupedError::Place { operand: layout.operand, addr, pitch }.into());
        }
        Ok(operand)
    }

    /// The tensor map of A or B for parameter `index` of the kernel.
    fn map(
        &self,
        choice: &Choice,
        index: usize,
        (operand, layout): (&Operand<'_>, &Layout),
    ) -> Result<TensorMap, Error> {
        let tile = TensorBox::of(&choice.instance.desc.meta.params[index]);
        let Layout { dtype, rows, cols, .. } = *layout;
        let (offset, pitch) = (operand.offset, pitch_of(operand));
        let matrix = Matrix { offset, dtype, rows, cols, pitch };
        self.device.tensor_map_of(&operand.memory, &matrix, tile)
    }

    /// The tensor map of D, in which a group may end at each row: that of
    /// [`Ragged`](gpu_kernels::gemm::output::Ragged).
    fn map_of_d(
        &self,
        choice: &Choice,
        (operand, layout): (&Operand<'_>, &Layout),
    ) -> Result<TensorMap, Error> {
        let param = &choice.instance.desc.meta.params[MAPS - 1];
        let (pitch, whole) = (pitch_of(operand), Buffer { memory: Arc::clone(&operand.memory) });
        let bytes = end_of(operand, layout) - operand.memory.addr - operand.offset;
        let part = whole.part(operand.offset as usize, bytes as usize)?;
        let spec = TensorNd {
            buffer: &part,
            dtype: layout.dtype,
            dims: &[layout.cols, layout.rows, 1],
            strides: &[pitch, pitch],
            box_dims: &[param.box_cols, param.box_rows, 1],
            swizzle_bytes: param.swizzle_bytes,
        };
        let bytes =
            TensorMapBytes(self.device.tensor_map_ragged(&spec, Some(param.box_rows.into()))?);
        let memory = Arc::clone(&part.memory);
        Ok(TensorMap::new(bytes, Some(layout.dtype), TensorBox::of(param), 4, memory))
    }
}

/// Bytes from row to row, as a tensor map has them.
fn pitch_of(operand: &Operand<'_>) -> u64 {
    match operand.place {
        Place::Own { pitch } => pitch,
        Place::Staged | Place::Zero => operand.pitch,
    }
}

/// One past the last byte of an operand.
fn end_of(operand: &Operand<'_>, layout: &Layout) -> u64 {
    let bytes = if layout.rows == 0 {
        Some(0)
    } else {
        span(layout.rows, pitch_of(operand), layout.row_bytes)
    };
    operand.memory.addr + operand.offset + bytes.unwrap_or(0)
}

impl BoundGrouped<'_> {
    /// Queues D = alpha * A * B^T of each group on `stream`. The ends of the groups are read when the product runs.
    ///
    /// The stream may be in a capture, by this crate or by other code: a run allocates nothing and waits for nothing.
    /// [`GroupedPlan::bad_group`] says whether the ends were valid.
    ///
    /// # Errors
    /// [`Error::ForeignDevice`] for a stream of another device; [`Error::View`] for an operand that was borrowed for another
    /// stream; errors of the launch.
    pub fn run(&self, alpha: f32, stream: &Stream) -> Result<(), Error> {
        let plan = self.plan;
        plan.device.owns(|| "the stream of a grouped GEMM".into(), stream.backend())?;
        for (operand, name) in self.operands.iter().zip(['A', 'B', 'D']) {
            operand.check_stream(name, stream)?;
        }
        let Some(choice) = &plan.choice else { return Ok(()) };
        // SAFETY: the plan owns the status word, which lives as long as its launches. Only the grid's first CTA writes it.
        let status = unsafe { DependentSliceMut::new(plan.status.elements::<u32>()) };
        let groups = GroupedArgs {
            ends: self.ends.dependent_slice(),
            status,
            params: choice.params(&plan.problem),
        };
        let mut params: Vec<Param<'_>> = self.maps.iter().map(Param::map).collect();
        params.extend([Param::value(Linear { alpha, beta: 0.0 }), Param::value(groups)]);
        let (module, desc) = (&plan.module, choice.instance.desc);
        plan.device.launch_prepared(module, desc, choice.prepared, choice.grid, &params, stream)
    }
}
