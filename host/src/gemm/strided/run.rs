//! A plan bound to its operands.

use super::plan::StridedPlan;
use super::view::{Operand, Strided, StridedMut, in_kernel_order};
use crate::error::Error;
use crate::gemm::calibration::THROTTLE_EPOCH;
use crate::param::Param;
use crate::stream::Stream;
use crate::tensor::{Matrix, TensorBox, TensorMap};
use gpu_kernels::gemm::config::LoadArgs;
use gpu_kernels::gemm::{BatchedArgs, Linear, StreamKArgs};
use isa::kernel::KernelArg;
use isa::slice::SliceAbi;
use pipeline::grid::{Partials, Throttle};

/// A plan with its operands. The tensor maps are encoded once, for any number of runs. Threads may share it.
pub struct BoundStrided<'p> {
    plan: &'p StridedPlan,
    /// The caller's A, B and D; none if D is empty.
    operands: Vec<Operand<'p>>,
    /// Those of the kernel's A, B, C and D.
    maps: Vec<TensorMap>,
}

impl StridedPlan {
    /// Queues D = alpha * A * B^T of each matrix on the device's stream. [`Buffer::read`](crate::Buffer::read) waits for
    /// it.
    ///
    /// # Errors
    /// The errors of [`StridedPlan::bind`], and of the launch.
    pub fn run<'v>(
        &'v self,
        a: impl Into<Strided<'v>>,
        b: impl Into<Strided<'v>>,
        d: impl Into<StridedMut<'v>>,
        alpha: f32,
    ) -> Result<(), Error> {
        self.bind(a, b, d)?.run(alpha, &self.device.stream())
    }

    /// Checks the operands and encodes their tensor maps, once for any number of runs.
    ///
    /// An operand is a `&Buffer` (`&mut` for D) that packed matrices fill, a [`View`](crate::View), or a [`Strided`] with a
    /// batch stride. Addresses, pitches and batch strides are multiples of 16 bytes, and so are the lines of D. Nothing is
    /// copied. If D has no element, the operands are not looked at.
    ///
    /// # Errors
    /// [`Error::Strided`] and [`Error::View`] for an operand that TMA can't use, or that D overlaps;
    /// [`Error::OperandSize`] for a buffer of another size; [`Error::ForeignDevice`].
    pub fn bind<'p>(
        &'p self,
        a: impl Into<Strided<'p>>,
        b: impl Into<Strided<'p>>,
        d: impl Into<StridedMut<'p>>,
    ) -> Result<BoundStrided<'p>, Error> {
        let Some(choice) = &self.choice else {
            return Ok(BoundStrided { plan: self, operands: Vec::new(), maps: Vec::new() });
        };
        let operand = |name, view| Operand::new(&self.device, &self.problem, name, view);
        let (a, b, d) =
            (operand('A', a.into())?, operand('B', b.into())?, operand('D', d.into().0)?);
        a.check_apart(&d)?;
        b.check_apart(&d)?;
        let [first, second] = in_kernel_order(self.problem.order, &a, &b);
        // The kernel reads no C and ignores its map, so it gets D's.
        let of_parameters = [first, second, &d, &d].into_iter().enumerate();
        let maps = of_parameters
            .map(|(parameter, operand)| {
                let Operand { memory, offset, lines: [rows, cols], pitch, stride, .. } = operand;
                let (offset, rows, cols, pitch) = (*offset, *rows, *cols, *pitch);
                let matrix = Matrix { offset, dtype: self.problem.dtype, rows, cols, pitch };
                let tile = TensorBox::of(&choice.instance.desc.meta.params[parameter]);
                let batch = [self.problem.batch, *stride];
                self.device.tensor_map_of_batch(memory, &matrix, batch, tile)
            })
            .collect::<Result<_, _>>()?;
        Ok(BoundStrided { plan: self, operands: vec![a, b, d], maps })
    }
}

impl BoundStrided<'_> {
    /// Queues D = alpha * A * B^T of each matrix on `stream`.
    ///
    /// A plan whose tiles are split has one workspace: a run on one stream then waits, on the device, for the last run on
    /// another stream. The host never waits. For a capture, the same holds as for [`BoundGemm::run`](crate::gemm::BoundGemm::run).
    ///
    /// # Errors
    /// [`Error::ForeignDevice`] for a stream of another device; [`Error::PlanBusy`] in a capture; [`Error::View`] for an
    /// operand that was borrowed for another stream; errors of the launch.
    pub fn run(&self, alpha: f32, stream: &Stream) -> Result<(), Error> {
        let plan = self.plan;
        plan.device.owns(|| "the stream of a GEMM".into(), stream.backend())?;
        self.operands.iter().try_for_each(|operand| operand.check_stream(stream))?;
        let Some(choice) = &plan.choice else { return Ok(()) };
        let _bound = plan.device.bind()?;
        let turn = if plan.partials.is_empty() { None } else { Some(plan.turns.begin(stream)?) };
        let (tiles, matrix) = plan.scheduler(choice);
        let (counter, partials): (SliceAbi, SliceAbi) =
            (plan.throttle.elements::<u32>(), plan.partials.elements::<[f32; 4]>());
        // SAFETY: both buffers belong to the plan. They live as long as its launches, and nothing else uses them.
        let (throttle, workspace) =
            unsafe { (Throttle::from_abi(counter), Partials::from_abi(partials)) };
        let scheduler = if choice.instance.splits_k {
            Param::value(BatchedArgs { inner: StreamKArgs { params: tiles, workspace }, matrix })
        } else {
            Param::value(BatchedArgs { inner: tiles, matrix })
        };
        let mut params: Vec<Param<'_>> = self.maps.iter().map(Param::map).collect();
        let loads = LoadArgs {
            prefetch: choice.prefetch,
            epochs: Throttle::epochs(tiles.steps(), THROTTLE_EPOCH),
            epoch: THROTTLE_EPOCH,
            throttle,
        };
        params.extend([Param::value(loads), Param::value(Linear { alpha, beta: 0.0 }), scheduler]);
        plan.device.launch_prepared(
            &plan.module,
            choice.instance.desc,
            choice.prepared,
            choice.grid,
            &params,
            stream,
        )?;
        turn.map_or(Ok(()), crate::turns::Turn::end)
    }
}
