//! A plan bound to its operands.

use super::layout::{Layout, Place};
use super::plan::{Choice, GemmPlan};
use crate::buffer::{Buffer, Copy2d, Memory};
use crate::error::Error;
use crate::param::Param;
use crate::stream::Stream;
use crate::tensor::{Matrix, TensorBox, TensorMap};
use gpu_kernels::gemm::config::LoadArgs;
use gpu_kernels::gemm::{Epilogue, Linear, StreamKArgs};
use isa::kernel::KernelArg;
use pipeline::grid::{Partials, Throttle};
use std::sync::{Arc, PoisonError};

/// A plan with its operands. The tensor maps are encoded once, for any number of runs.
pub struct BoundGemm<'p, E = Linear> {
    plan: &'p GemmPlan<E>,
    /// The caller's A, B, C and D.
    operands: [Option<Arc<Memory>>; 4],
    launches: Vec<Launch<'p>>,
}

/// One kernel with its tensor maps and its stream-K workspace.
struct Launch<'p> {
    choice: &'p Choice,
    partials: &'p Buffer,
    maps: [TensorMap; 4],
}

impl GemmPlan {
    /// Queues D = alpha * A * B^T + beta * C on the device's stream. [`Buffer::read`] waits for it.
    ///
    /// # Errors
    /// An operand whose size differs from the plan or that is on another device; errors of the launch.
    pub fn run(
        &self,
        a: &Buffer,
        b: &Buffer,
        c: Option<&Buffer>,
        d: &mut Buffer,
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
    /// An operand whose size differs from the plan or that is on another device; errors of the launch.
    pub fn run_with(
        &self,
        a: &Buffer,
        b: &Buffer,
        c: Option<&Buffer>,
        d: &mut Buffer,
        epilogue: E,
    ) -> Result<(), Error> {
        self.bind(a, b, c, d)?.run_with(epilogue, &self.device.stream())
    }

    /// Checks the operands and encodes their tensor maps, once for any number of runs.
    pub fn bind(
        &self,
        a: &Buffer,
        b: &Buffer,
        c: Option<&Buffer>,
        d: &mut Buffer,
    ) -> Result<BoundGemm<'_, E>, Error> {
        let words = |with| if with { "with" } else { "without" };
        if c.is_some() != self.problem.beta_c {
            let (planned, run) = (words(self.problem.beta_c), words(c.is_some()));
            return Err(Error::OperandC { planned, run });
        }
        let buffers = [Some(a), Some(b), c, Some(&*d)];
        for (operand, buffer) in ['A', 'B', 'C', 'D'].into_iter().zip(buffers) {
            let Some(buffer) = buffer else { continue };
            self.device.owns(&format!("operand {operand}"), &buffer.memory.backend)?;
            self.problem.check_size(operand, buffer.len() as u64)?;
        }
        let operands = buffers.map(|b| b.map(|b| Arc::clone(&b.memory)));
        let launches = self
            .choices
            .iter()
            .zip(&self.partials)
            .map(|(choice, partials)| {
                let swapped = choice.instance.swap_ab;
                let map = |i: usize| {
                    // A kernel without C ignores C's map, so it gets D's. A swap_ab kernel gets B as its A.
                    let from = match i {
                        0 | 1 if swapped => 1 - i,
                        2 if !choice.instance.has_c => 3,
                        _ => i,
                    };
                    let copy = self.staging[from].as_ref().map(|b| &b.memory);
                    let memory = copy.or(operands[from].as_ref());
                    let tile = TensorBox::of(&choice.instance.desc.meta.params[i]);
                    let memory =
                        memory.ok_or(Error::OperandC { planned: "with", run: "without" })?;
                    self.device.tensor_map_of(memory, &matrix(&self.layouts[from]), tile)
                };
                Ok(Launch { choice, partials, maps: [map(0)?, map(1)?, map(2)?, map(3)?] })
            })
            .collect::<Result<_, Error>>()?;
        Ok(BoundGemm { plan: self, operands, launches })
    }
}

fn matrix(layout: &Layout) -> Matrix {
    let Layout { dtype, rows, cols, pitch, .. } = *layout;
    Matrix { offset: 0, dtype, rows, cols, pitch }
}

impl BoundGemm<'_> {
    /// Queues D = alpha * A * B^T + beta * C on `stream`. C is not read when `beta` is 0.
    ///
    /// A plan has one set of staging copies and workspaces. If it has any, a run on one stream waits for
    /// the runs on other streams.
    pub fn run(&self, alpha: f32, beta: f32, stream: &Stream) -> Result<(), Error> {
        let launch = match &self.launches[..] {
            [_, without_c] if beta == 0.0 => Some(without_c),
            launches => launches.first(),
        };
        self.queue(launch, Linear { alpha, beta }, stream)
    }
}

impl<E: Epilogue> BoundGemm<'_, E> {
    /// Queues the product with this epilogue on `stream`. Like [`BoundGemm::run`], it may wait for runs on
    /// other streams.
    pub fn run_with(&self, epilogue: E, stream: &Stream) -> Result<(), Error> {
        self.queue(self.launches.first(), epilogue, stream)
    }

    fn queue(
        &self,
        launch: Option<&Launch<'_>>,
        epilogue: E,
        stream: &Stream,
    ) -> Result<(), Error> {
        let Some(launch) = launch else { return Ok(()) };
        let plan = self.plan;
        let shared =
            plan.staging.iter().any(Option::is_some) || plan.partials.iter().any(|b| !b.is_empty());
        // The lock is held while queueing: two threads must not interleave their copies and launches.
        let mut last = plan.last.lock().unwrap_or_else(PoisonError::into_inner);
        if shared {
            if let Some(other) = last.as_ref().filter(|s| s.raw() != stream.raw()) {
                other.synchronize()?;
            }
            *last = Some(stream.clone());
        }
        let reads = if launch.choice.instance.has_c { 0..3 } else { 0..2 };
        for i in reads {
            self.copy(i, stream, true)?;
        }
        let problem = &plan.problem;
        let swapped = launch.choice.instance.swap_ab;
        let (m, n) = if swapped { (problem.n, problem.m) } else { (problem.m, problem.n) };
        let params = launch.choice.scheduler([m, n, plan.layouts[0].cols]);
        // SAFETY: both buffers belong to the plan. They live as long as its launches, and nothing else
        // uses them.
        let (throttle, workspace) = unsafe {
            (
                Throttle::from_abi(plan.throttle.elements::<u32>()),
                Partials::from_abi(launch.partials.elements::<[f32; 4]>()),
            )
        };
        let loads = LoadArgs { prefetch: launch.choice.prefetch, throttle };
        let scheduler = if launch.choice.instance.splits_k {
            Param::value(StreamKArgs { params, workspace })
        } else {
            Param::value(params)
        };
        let [a, b, c, d] = launch.maps.each_ref().map(Param::map);
        plan.device.launch(
            &plan.module,
            launch.choice.instance.desc,
            launch.choice.grid,
            &[a, b, c, d, Param::value(loads), Param::value(epilogue), scheduler],
            stream,
        )?;
        self.copy(3, stream, false)
    }

    /// Copies operand `i` into its staging copy (`inward`) or back out of it, if it has one.
    fn copy(&self, i: usize, stream: &Stream, inward: bool) -> Result<(), Error> {
        let layout = &self.plan.layouts[i];
        let (Place::Staged, Some(copy), Some(own)) =
            (layout.place, &self.plan.staging[i], &self.operands[i])
        else {
            return Ok(());
        };
        let (src, dst, src_pitch, dst_pitch) = if inward {
            (own, &copy.memory, layout.row_bytes, layout.pitch)
        } else {
            (&copy.memory, own, layout.pitch, layout.row_bytes)
        };
        let shape = Copy2d { width: layout.row_bytes, rows: layout.rows, src_pitch, dst_pitch };
        self.plan.device.copy_2d_memory(src, dst, shape, stream)
    }
}
