//! A plan bound to its operands.

use super::GemmProblem;
use super::block_scaled::BlockScales;
use super::choice::Choice;
use super::layout::Place;
use super::operand::{Operand, check_apart};
use super::plan::GemmPlan;
use crate::buffer::{Buffer, Memory, Rows};
use crate::device::Device;
use crate::error::Error;
use crate::param::Param;
use crate::stream::Stream;
use crate::tensor::{Matrix, TensorBox, TensorMap};
use crate::turns::Turn;
use crate::view::{View, ViewMut};
use gpu_kernels::gemm::config::LoadArgs;
use gpu_kernels::gemm::{Epilogue, Linear, StreamKArgs};
use isa::kernel::KernelArg;
use pipeline::grid::{Partials, Throttle};
use std::sync::Arc;

/// A plan with its operands. The tensor maps are encoded once, for any number of runs. Threads may share
/// it.
pub struct BoundGemm<'p, E = Linear> {
    plan: &'p GemmPlan<E>,
    /// The caller's A, B, C and D.
    operands: [Option<Operand<'p>>; 4],
    launches: Vec<Launch<'p>>,
}

/// One kernel with its tensor maps and its stream-K workspace.
pub(super) struct Launch<'p> {
    choice: &'p Choice,
    partials: &'p Buffer,
    maps: [TensorMap; 4],
}

impl GemmPlan {
    /// Queues D = alpha * A * B^T + beta * C on the device's stream. [`Buffer::read`] waits for it.
    ///
    /// # Errors
    /// The errors of [`GemmPlan::bind`], and of the launch.
    pub fn run<'v>(
        &'v self,
        a: impl Into<View<'v>>,
        b: impl Into<View<'v>>,
        c: Option<View<'v>>,
        d: impl Into<ViewMut<'v>>,
        alpha: f32,
        beta: f32,
    ) -> Result<(), Error> {
        self.bind(a, b, c, d)?.run(alpha, beta, &self.device.stream())
    }
}

impl<E: Epilogue> GemmPlan<E> {
    /// Queues the product with this epilogue on the device's stream. [`Buffer::read`] waits for it.
    ///
    /// # Errors
    /// The errors of [`GemmPlan::bind`], and of the launch.
    pub fn run_with<'v>(
        &'v self,
        a: impl Into<View<'v>>,
        b: impl Into<View<'v>>,
        c: Option<View<'v>>,
        d: impl Into<ViewMut<'v>>,
        epilogue: E,
    ) -> Result<(), Error> {
        self.bind(a, b, c, d)?.run_with(epilogue, &self.device.stream())
    }

    /// Checks the operands and encodes their tensor maps, once for any number of runs.
    ///
    /// An operand is a `&Buffer` (`&mut` for D) that a packed matrix fills, or a [`View`] of a matrix inside a buffer. It
    /// is used in place if its address and its row pitch are multiples of 16 bytes, and, for D, the bytes of a row too.
    /// Otherwise each run copies it, and the first such `bind` of a plan allocates the copy. A run writes only the elements
    /// of D, and nothing between its rows.
    ///
    /// The plan assembled the kernels, and `bind` allocates the copies and waits for the device, so a run can be captured. Bind
    /// before the capture.
    ///
    /// # Errors
    /// [`Error::View`] for a view that the plan can't use, among them a D that overlaps A, B or a part of C;
    /// [`Error::OperandSize`] for a buffer of another size; [`Error::OperandC`]; [`Error::ForeignDevice`];
    /// errors of an allocation.
    pub fn bind<'p>(
        &'p self,
        a: impl Into<View<'p>>,
        b: impl Into<View<'p>>,
        c: Option<View<'p>>,
        d: impl Into<ViewMut<'p>>,
    ) -> Result<BoundGemm<'p, E>, Error> {
        let words = |with| if with { "with" } else { "without" };
        if c.is_some() != self.problem.beta_c {
            let (planned, run) = (words(self.problem.beta_c), words(c.is_some()));
            return Err(Error::OperandC { planned, run });
        }
        let views = [Some(a.into()), Some(b.into()), c, Some(d.into().0)];
        let mut operands = [const { None }; 4];
        for ((operand, view), layout) in operands.iter_mut().zip(views).zip(&self.layouts) {
            let check = |view| {
                let problem = self.problem.of::<E>(layout.operand);
                Operand::new(&self.device, &problem, layout, view)
            };
            *operand = view.map(check).transpose()?;
        }
        check_apart(&self.layouts, &operands)?;
        let launches = self
            .choices
            .iter()
            .zip(&self.partials)
            .map(|(choice, partials)| self.launch(choice, partials, &operands))
            .collect::<Result<_, Error>>()?;
        Ok(BoundGemm { plan: self, operands, launches })
    }

    /// A kernel with its tensor maps.
    fn launch<'p>(
        &'p self,
        choice: &'p Choice,
        partials: &'p Buffer,
        operands: &[Option<Operand<'_>>; 4],
    ) -> Result<Launch<'p>, Error> {
        let instance = choice.instance;
        let map = |i: usize| {
            // A kernel without C ignores C's map, so it gets D's. A swap_ab kernel gets B as its A.
            let from = match i {
                0 | 1 if instance.swap_ab => 1 - i,
                2 if !instance.has_c => 3,
                _ => i,
            };
            let operand = operands[from].as_ref();
            let operand = operand.ok_or(Error::OperandC { planned: "with", run: "without" })?;
            let layout = &self.layouts[from];
            let (memory, offset, pitch) = match operand.place {
                Place::Own { pitch } => (&operand.memory, operand.offset, pitch),
                Place::Staged | Place::Zero => (&self.staging(from)?.memory, 0, layout.padded()),
            };
            let (dtype, rows, cols) = (layout.dtype, layout.rows, layout.cols);
            let tile = TensorBox::of(&instance.desc.meta.params[i]);
            self.device.tensor_map_of(memory, &Matrix { offset, dtype, rows, cols, pitch }, tile)
        };
        let maps = [map(0)?, map(1)?, map(2)?, map(3)?];
        Ok(Launch { choice, partials, maps })
    }
}

impl BoundGemm<'_> {
    /// Queues D = alpha * A * B^T + beta * C on `stream`. C is not read when `beta` is 0, if the table has a kernel without C for
    /// the product, as this crate's has. Otherwise C counts zero times, so that a NaN in it stays one.
    ///
    /// A plan has one set of staging copies and workspaces. If it has any, a run on one stream waits, on the
    /// device, for the last run on another stream. The host never waits.
    ///
    /// The stream may be in a capture, by this crate or by other code. The caller orders the launches of the graph: if the
    /// plan has staging copies or workspaces, it must not run elsewhere at the same time. The simplest way is one plan per
    /// graph.
    ///
    /// # Errors
    /// [`Error::ForeignDevice`] for a stream of another device; [`Error::PlanBusy`] in a capture; [`Error::View`]
    /// for an operand that was borrowed for another stream; errors of the launch.
    pub fn run(&self, alpha: f32, beta: f32, stream: &Stream) -> Result<(), Error> {
        self.queue(self.choice(beta != 0.0), None, Linear { alpha, beta }, stream)
    }
}

impl<E: Epilogue> BoundGemm<'_, E> {
    pub(super) fn problem(&self) -> &GemmProblem {
        &self.plan.problem
    }

    /// The kernel to launch: the one without C if this run reads none.
    pub(super) fn choice(&self, reads_c: bool) -> Option<&Launch<'_>> {
        match &self.launches[..] {
            [_, without_c] if !reads_c => Some(without_c),
            launches => launches.first(),
        }
    }

    pub(super) fn device(&self) -> &Device {
        &self.plan.device
    }

    /// The operands ('A', 'B', 'C', 'D') that each run copies, because TMA does not take them as they lie.
    pub fn copied(&self) -> impl Iterator<Item = char> {
        let all = self.plan.layouts.iter().zip(&self.operands);
        all.filter(|(_, o)| o.as_ref().is_some_and(|o| o.place == Place::Staged))
            .map(|(l, _)| l.operand)
    }

    /// Queues the product with this epilogue on `stream`. Like [`BoundGemm::run`], it may wait for runs on
    /// other streams.
    pub fn run_with(&self, epilogue: E, stream: &Stream) -> Result<(), Error> {
        self.queue_first(None, epilogue, stream)
    }

    /// Queues the plan's kernel.
    pub(super) fn queue_first(
        &self,
        scales: Option<BlockScales<'_>>,
        epilogue: E,
        stream: &Stream,
    ) -> Result<(), Error> {
        self.queue(self.launches.first(), scales, epilogue, stream)
    }

    /// The zero row that stands for A if K is 0.
    pub(super) fn zeros(&self) -> Result<&Arc<Memory>, Error> {
        Ok(&self.plan.staging(0)?.memory)
    }

    pub(super) fn queue(
        &self,
        launch: Option<&Launch<'_>>,
        scales: Option<BlockScales<'_>>,
        epilogue: E,
        stream: &Stream,
    ) -> Result<(), Error> {
        let plan = self.plan;
        plan.device.owns(|| "the stream of a GEMM".into(), stream.backend())?;
        for (layout, operand) in plan.layouts.iter().zip(&self.operands) {
            operand.as_ref().map_or(Ok(()), |o| o.check_stream(layout.operand, stream))?;
        }
        let Some(launch) = launch else { return Ok(()) };
        let desc = launch.choice.instance.desc;
        let sfa = match (launch.choice.instance.scale_granularity, &scales) {
            (None, None) => None,
            // The fifth parameter: `check_instance` knows that it is a tensor map.
            (Some(_), Some(scales)) => {
                Some(self.map_of_scales(scales, TensorBox::of(&desc.meta.params[4]))?)
            }
            (of_kernel, _) => {
                let (applies, right) = match of_kernel {
                    None => {
                        ("no block scales", "a run without them, or a plan of Gemm::block_scaled,")
                    }
                    Some(_) => ("block scales", "run_block_scaled"),
                };
                return Err(Error::ScalesOfKernel {
                    kernel: desc.meta.name().into(),
                    applies,
                    right,
                });
            }
        };
        let _bound = plan.device.bind()?;
        let staged = |o: &Operand<'_>| o.place == Place::Staged;
        let shares = self.operands.iter().flatten().any(staged) || !launch.partials.is_empty();
        let turn = if shares { Some(plan.turns.begin(stream)?) } else { None };
        let reads = if launch.choice.instance.has_c { 0..3 } else { 0..2 };
        for i in reads {
            self.copy(i, stream, true)?;
        }
        let problem = &plan.problem;
        let swapped = launch.choice.instance.swap_ab;
        let (m, n) = if swapped { (problem.n, problem.m) } else { (problem.m, problem.n) };
        let tiles = launch.choice.scheduler([m, n, plan.layouts[0].cols]);
        // SAFETY: both buffers belong to the plan. They live as long as its launches, and nothing else
        // uses them.
        let (throttle, workspace) = unsafe {
            (
                Throttle::from_abi(plan.throttle.elements::<u32>()),
                Partials::from_abi(launch.partials.elements::<[f32; 4]>()),
            )
        };
        let loads = LoadArgs {
            prefetch: launch.choice.prefetch,
            epochs: Throttle::epochs(tiles.steps(), plan.epoch),
            epoch: plan.epoch,
            throttle,
        };
        let scheduler = if launch.choice.instance.splits_k {
            Param::value(StreamKArgs { params: tiles, workspace })
        } else {
            Param::value(tiles)
        };
        let mut params: Vec<Param<'_>> = launch.maps.iter().map(Param::map).collect();
        params.extend(sfa.as_ref().map(Param::map));
        params.extend(scales.as_ref().map(Self::param_of_scales));
        params.extend([Param::value(loads), Param::value(epilogue), scheduler]);
        plan.device.launch_prepared(
            &plan.module,
            desc,
            launch.choice.prepared,
            launch.choice.grid,
            &params,
            stream,
        )?;
        self.copy(3, stream, false)?;
        turn.map_or(Ok(()), Turn::end)
    }

    /// Copies operand `i` into its staging copy (`inward`) or back out of it, if it has one.
    fn copy(&self, i: usize, stream: &Stream, inward: bool) -> Result<(), Error> {
        let layout = &self.plan.layouts[i];
        let Some(operand) = self.operands[i].as_ref().filter(|o| o.place == Place::Staged) else {
            return Ok(());
        };
        let copy = &self.plan.staging(i)?.memory;
        let copy = Rows { memory: copy, offset: 0, pitch: layout.padded() };
        let own = operand.rows();
        let (from, to) = if inward { (&own, &copy) } else { (&copy, &own) };
        self.plan.device.copy_rows(from, to, [layout.rows, layout.row_bytes], stream)
    }
}
