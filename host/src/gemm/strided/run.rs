//! A plan bound to its operands.

use super::plan::{Kernel, StridedPlan};
use super::view::{Operand, Strided, StridedMut, in_kernel_order};
use crate::error::Error;
use crate::gemm::calibration::THROTTLE_EPOCH;
use crate::gemm::layout::Place;
use crate::param::Param;
use crate::stream::Stream;
use crate::tensor::{TensorBox, TensorMap};
use crate::turns::Turn;
use gpu_kernels::gemm::config::LoadArgs;
use gpu_kernels::gemm::{BatchedArgs, Linear, StreamKArgs};
use isa::kernel::KernelArg;
use isa::slice::SliceAbi;
use pipeline::grid::{Partials, Throttle};

/// A plan with its operands. The tensor maps are encoded once, for any number of runs. Threads may share it.
pub struct BoundStrided<'p> {
    plan: &'p StridedPlan,
    /// The caller's A, B, C and D; none if D is empty.
    operands: [Option<Operand<'p>>; 4],
    launches: Vec<Launch<'p>>,
}

/// A kernel with the tensor maps of its A, B, C and D.
struct Launch<'p> {
    kernel: &'p Kernel,
    maps: Vec<TensorMap>,
}

impl StridedPlan {
    /// Queues D = alpha * A * B^T + beta * C of each matrix on the device's stream. [`Buffer::read`](crate::Buffer::read) waits
    /// for it.
    ///
    /// # Errors
    /// The errors of [`StridedPlan::bind`], and of the launch.
    pub fn run<'v>(
        &'v self,
        a: impl Into<Strided<'v>>,
        b: impl Into<Strided<'v>>,
        c: Option<Strided<'v>>,
        d: impl Into<StridedMut<'v>>,
        alpha: f32,
        beta: f32,
    ) -> Result<(), Error> {
        self.bind(a, b, c, d)?.run(alpha, beta, &self.device.stream())
    }

    /// Checks the operands and encodes their tensor maps, once for any number of runs.
    ///
    /// An operand is a `&Buffer` (`&mut` for D) that packed matrices fill, a [`View`](crate::View), or a [`Strided`] with a
    /// batch stride. C lies in memory as D does, and may be exactly D. An operand is used in place if its address, its pitch and
    /// its batch stride are multiples of 16 bytes, and, for D, the bytes of a line too. Otherwise each run copies it, and the
    /// first such `bind` of a plan allocates the copy: bind before a capture. Where the matrices of such a batch do not follow one
    /// another, a run queues a `cuMemcpy2DAsync` for each matrix, or for each line of all matrices. If D has no element, the
    /// operands are not looked at.
    ///
    /// # Errors
    /// [`Error::Strided`] and [`Error::View`] for an operand that the plan can't use, or that D overlaps;
    /// [`Error::OperandSize`] for a buffer of another size; [`Error::OperandC`]; [`Error::ForeignDevice`]; errors of an
    /// allocation.
    pub fn bind<'p>(
        &'p self,
        a: impl Into<Strided<'p>>,
        b: impl Into<Strided<'p>>,
        c: Option<Strided<'p>>,
        d: impl Into<StridedMut<'p>>,
    ) -> Result<BoundStrided<'p>, Error> {
        let words = |with| if with { "with" } else { "without" };
        if c.is_some() != self.problem.beta_c {
            let (planned, run) = (words(self.problem.beta_c), words(c.is_some()));
            return Err(Error::OperandC { planned, run });
        }
        let mut operands = [const { None }; 4];
        if self.kernels.is_empty() {
            return Ok(BoundStrided { plan: self, operands, launches: Vec::new() });
        }
        let views = [Some(a.into()), Some(b.into()), c, Some(d.into().0)];
        for ((operand, view), name) in operands.iter_mut().zip(views).zip(['A', 'B', 'C', 'D']) {
            let check = |view| Operand::new(&self.device, &self.problem, name, view);
            *operand = view.map(check).transpose()?;
        }
        if let [read @ .., Some(d)] = &operands {
            read.iter().flatten().try_for_each(|operand| operand.check_apart(d))?;
        }
        let launch = |kernel| self.launch(kernel, &operands);
        let launches = self.kernels.iter().map(launch).collect::<Result<_, _>>()?;
        Ok(BoundStrided { plan: self, operands, launches })
    }

    /// A kernel with its tensor maps.
    fn launch<'p>(
        &'p self,
        kernel: &'p Kernel,
        operands: &[Option<Operand<'_>>; 4],
    ) -> Result<Launch<'p>, Error> {
        let instance = kernel.choice.instance;
        let [first, second] = in_kernel_order(self.problem.order, 0, 1);
        // A kernel without C ignores C's map, so it gets D's.
        let c = if instance.has_c { 2 } else { 3 };
        let map = |(of, parameter): (usize, _)| {
            let operand = operands[of].as_ref();
            let operand = operand.ok_or(Error::OperandC { planned: "with", run: "without" })?;
            let (memory, matrix, batch) = self.mapped(operand)?;
            self.device.tensor_map_of_batch(memory, &matrix, batch, TensorBox::of(parameter))
        };
        let of_parameters = [first, second, c, 3].into_iter().zip(&instance.desc.meta.params);
        Ok(Launch { kernel, maps: of_parameters.map(map).collect::<Result<_, _>>()? })
    }
}

impl BoundStrided<'_> {
    /// The operands ('A', 'B', 'C', 'D') that each run copies, because TMA does not take them as they lie.
    pub fn copied(&self) -> impl Iterator<Item = char> {
        let all = self.operands.iter().flatten();
        all.filter(|operand| operand.place == Place::Staged).map(|operand| operand.name)
    }

    /// Queues D = alpha * A * B^T + beta * C of each matrix on `stream`. C is not read when `beta` is 0, if the table has a kernel
    /// without C for the product, as this crate's has.
    ///
    /// A plan has one set of copies and workspaces. If it uses any, a run on one stream waits, on the device, for the last run
    /// on another stream. The host never waits. For a capture, the same holds as for
    /// [`BoundGemm::run`](crate::gemm::BoundGemm::run).
    ///
    /// # Errors
    /// [`Error::ForeignDevice`] for a stream of another device; [`Error::PlanBusy`] in a capture; [`Error::View`] for an
    /// operand that was borrowed for another stream; errors of the launch.
    pub fn run(&self, alpha: f32, beta: f32, stream: &Stream) -> Result<(), Error> {
        let plan = self.plan;
        plan.device.owns(|| "the stream of a GEMM".into(), stream.backend())?;
        let operands = || self.operands.iter().flatten();
        operands().try_for_each(|operand| operand.check_stream(stream))?;
        let launch = match &self.launches[..] {
            [_, without_c] if beta == 0.0 => without_c,
            [first, ..] => first,
            [] => return Ok(()),
        };
        let Kernel { choice, partials } = launch.kernel;
        let _bound = plan.device.bind()?;
        let shares = !partials.is_empty() || self.copied().next().is_some();
        let turn = if shares { Some(plan.turns.begin(stream)?) } else { None };
        let reads = |operand: &&Operand<'_>| match operand.name {
            'C' => choice.instance.has_c,
            name => name != 'D',
        };
        operands().filter(reads).try_for_each(|operand| plan.copy(operand, stream, true))?;
        let (tiles, matrix) = plan.scheduler(choice);
        let (counter, partials): (SliceAbi, SliceAbi) =
            (plan.throttle.elements::<u32>(), partials.elements::<[f32; 4]>());
        // SAFETY: both buffers belong to the plan. They live as long as its launches, and nothing else uses them.
        let (throttle, workspace) =
            unsafe { (Throttle::from_abi(counter), Partials::from_abi(partials)) };
        let scheduler = if choice.instance.splits_k {
            Param::value(BatchedArgs { inner: StreamKArgs { params: tiles, workspace }, matrix })
        } else {
            Param::value(BatchedArgs { inner: tiles, matrix })
        };
        let mut params: Vec<Param<'_>> = launch.maps.iter().map(Param::map).collect();
        let loads = LoadArgs {
            prefetch: choice.prefetch,
            epochs: Throttle::epochs(tiles.steps(), THROTTLE_EPOCH),
            epoch: THROTTLE_EPOCH,
            throttle,
        };
        params.extend([Param::value(loads), Param::value(Linear { alpha, beta }), scheduler]);
        plan.device.launch_prepared(
            &plan.module,
            choice.instance.desc,
            choice.prepared,
            choice.grid,
            &params,
            stream,
        )?;
        let written = |operand: &&Operand<'_>| operand.name == 'D';
        operands().filter(written).try_for_each(|d| plan.copy(d, stream, false))?;
        turn.map_or(Ok(()), Turn::end)
    }
}
