//! A plan of a pointer array bound to its operands.

use super::{ArrayError, ArrayPlan, ArrayProblem, MAPS};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::launch::Prepared;
use crate::param::Param;
use crate::stream::Stream;
use gpu_kernels::gemm::Linear;
use gpu_kernels::gemm::grouped::{ArrayInstance, ArrayTable};
use gpu_kernels::gemm::scheduler::{ArrayArgs, ProblemShape};
use half::bf16;
use isa::kernel::KernelDesc;
use pipeline::grid::DependentSliceMut;

/// A plan of a pointer array with its operands and its table. They are checked once, for any number of runs. Threads may
/// share it.
pub struct BoundArray<'p> {
    plan: &'p ArrayPlan,
    a: &'p Buffer,
    b: &'p Buffer,
    table: &'p Buffer,
    /// Borrowed mutably by [`ArrayPlan::bind`].
    d: &'p Buffer,
    /// Where a run writes its status, if not to the plan's. Borrowed mutably by [`BoundArray::with_info`].
    info: Option<&'p Buffer>,
}

/// Whether two buffers have a byte in common.
fn overlap(x: &Buffer, y: &Buffer) -> bool {
    let end = |buffer: &Buffer| buffer.addr() + buffer.len() as u64;
    !x.is_empty() && !y.is_empty() && x.addr() < end(y) && y.addr() < end(x)
}

impl ArrayPlan {
    /// Queues D = alpha * A * B^T of each problem on the device's stream. [`Buffer::read`] waits for it.
    ///
    /// # Errors
    /// The errors of [`ArrayPlan::bind`] and [`BoundArray::run`].
    pub fn run(
        &self,
        a: &Buffer,
        b: &Buffer,
        table: &Buffer,
        d: &mut Buffer,
        alpha: f32,
    ) -> Result<(), Error> {
        self.bind(a, b, table, d)?.run(alpha, &self.device.stream())
    }

    /// Checks the operands, once for any number of runs.
    ///
    /// `table` has one line per problem ([`ArrayProblem::table`]). The device reads it when the product runs, so each run may
    /// find another one there. Each A is in `a`, each B in `b` and each D in `d`. Problems may share an A or a B. If two
    /// problems share elements of D, either result may be stored.
    ///
    /// A problem with M or N of 0 is valid. Any other problem is invalid in these cases:
    ///
    /// - a matrix reaches beyond its buffer;
    /// - a first element or a row pitch is not a multiple of 16 bytes;
    /// - N is not a multiple of 8, or K is 0.
    ///
    /// The device stores nothing for an invalid problem and computes the others. [`ArrayPlan::bad_problem`] returns the
    /// first invalid one, and [`BoundArray::with_info`] has the device write it.
    ///
    /// # Errors
    /// [`ArrayError`] for a table of another size, a buffer that begins at an odd byte, or a D that shares bytes with what is
    /// read; [`Error::ForeignDevice`].
    pub fn bind<'p>(
        &'p self,
        a: &'p Buffer,
        b: &'p Buffer,
        table: &'p Buffer,
        d: &'p mut Buffer,
    ) -> Result<BoundArray<'p>, Error> {
        let problems = self.problems;
        let (need, have, addr) = (problems * ArrayProblem::BYTES, table.len() as u64, table.addr());
        if have != need || !addr.is_multiple_of(8) {
            return Err(ArrayError::Table { problems, need, have, addr }.into());
        }
        let d: &Buffer = d;
        for (what, buffer) in [("A", a), ("B", b), ("the table", table), ("D", d)] {
            self.device.check_buffer(what, buffer)?;
            let addr = buffer.addr();
            if !addr.is_multiple_of(2) {
                return Err(ArrayError::Misaligned { what, addr }.into());
            }
            if what != "D" && overlap(buffer, d) {
                return Err(ArrayError::Overlap { what, theirs: addr, d: d.addr() }.into());
            }
        }
        Ok(BoundArray { plan: self, a, b, table, d, info: None })
    }
}

impl<'p> BoundArray<'p> {
    /// Has each run write its status to `info`, one `u32`: 0, or 1 + the first problem that it skipped. (LAPACK: `info`.)
    ///
    /// Without it, all runs of the plan share the one word that [`ArrayPlan::bad_problem`] reads. With it, a later kernel or
    /// copy on the stream can read the word, and the host need not wait.
    ///
    /// # Errors
    /// [`ArrayError::Info`] for a buffer of another size or alignment, or one that shares bytes with an operand or the table;
    /// [`Error::ForeignDevice`].
    pub fn with_info(self, info: &'p mut Buffer) -> Result<Self, Error> {
        let info: &Buffer = info;
        self.plan.device.check_buffer("the info", info)?;
        let (have, addr) = (info.len() as u64, info.addr());
        let others = [self.a, self.b, self.table, self.d];
        if have != 4 || !addr.is_multiple_of(4) || others.iter().any(|other| overlap(info, other)) {
            return Err(ArrayError::Info { have, addr }.into());
        }
        Ok(Self { info: Some(info), ..self })
    }

    /// Queues D = alpha * A * B^T of each problem on `stream`. The table is read when the product runs.
    ///
    /// A plan has one set of tensor maps. A run on one stream waits, on the device, for the last run on another stream. The
    /// host never waits.
    ///
    /// The stream may be in a capture, by this crate or by other code: a run allocates nothing, and each replay reads the table
    /// as it is then. The caller orders the launches of the graph: the plan must not run elsewhere at the same time. The
    /// simplest way is one plan per graph.
    ///
    /// # Errors
    /// [`Error::ForeignDevice`] for a stream of another device; [`Error::PlanBusy`] in a capture; errors of the launches.
    pub fn run(&self, alpha: f32, stream: &Stream) -> Result<(), Error> {
        let plan = self.plan;
        plan.device.owns(|| "the stream of a pointer array".into(), stream.backend())?;
        let ArrayInstance { gemm, maps } = &plan.instance;
        let place = |desc: &KernelDesc, first: usize, index: usize| {
            // SAFETY: the buffer has a map for each problem. Only launches of this plan access it, one after another in the
            // order of `turns`: the first kernel writes each map, and the second one reads them. Both kernels are those of
            // one instance, whose boxes agree. What the maps describe lies in the buffers of the run, or in the templates'.
            unsafe { Param::tensor_maps(&plan.places[index], desc.meta.params[first + index]) }
        };
        let info = self.info.unwrap_or(&plan.status);
        // SAFETY: only the launches of this plan access the sizes and its status, in the order of `turns`. D and the info of
        // a run were borrowed mutably for `'p`, so nothing else accesses them while `self` lives.
        let (shapes, d, status) = unsafe {
            (
                DependentSliceMut::new(plan.shapes.elements::<ProblemShape>()),
                DependentSliceMut::new(self.d.elements::<bf16>()),
                DependentSliceMut::new(info.elements::<u32>()),
            )
        };
        let lines = ArrayTable {
            problems: self.table.dependent_slice(),
            a: self.a.dependent_slice::<bf16>(),
            b: self.b.dependent_slice::<bf16>(),
            d,
            shapes,
        };
        let mut first: Vec<Param<'_>> = plan.templates.iter().map(Param::map).collect();
        first.extend((0..MAPS).map(|index| place(maps, MAPS, index)));
        first.push(Param::value(lines));
        let args = ArrayArgs { shapes: plan.shapes.dependent_slice(), status, params: plan.params };
        let mut second: Vec<Param<'_>> = (0..MAPS).map(|i| place(gemm.desc, 0, i)).collect();
        second.extend([Param::value(Linear { alpha, beta: 0.0 }), Param::value(args)]);

        let _bound = plan.device.bind()?;
        let turn = plan.turns.begin(stream)?;
        let launch = |desc, (grid, prepared): ([u32; 3], Prepared), params: &[Param<'_>]| {
            plan.device.launch_prepared(&plan.module, desc, prepared, grid, params, stream)
        };
        launch(maps, plan.maps, &first)?;
        launch(gemm.desc, plan.gemm, &second)?;
        turn.end()
    }
}
