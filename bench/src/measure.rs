//! Measures one product: checks its result, times it in turn with other contenders, and compares the last
//! result with the first.

use super::check::{ResultCheck, check, fingerprint};
use super::isolated::isolated;
use super::pool::{Operand, Pool, Rotation};
use super::runs::{OursRuns, Results, download, dynamic, finalists};
use super::scales::{Launch, ProductScales, ScaleOf, ScalePool};
use super::{BenchConfig, Contender, Timing, interleave};
use crate::cublaslt::{CublasLt, CublasLtPlan};
use crate::error::Error;
use host::gemm::{GemmPlan, GemmProblem, PlanInfo};
use host::{Copy2d, Device, Dtype, dtype_name};
use serde::Serialize;

/// A GPU with operands for a set of problems.
pub struct Bench {
    device: Device,
    pool: Pool,
    /// The operands' scales, if they have any.
    scales: Option<ScalePool>,
    dtype: Dtype,
    l2_bytes: u64,
    /// The last result on the host. The allocation is reused.
    host: Vec<u8>,
}

/// The measurements of one product.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Launches per sample.
    pub launches: usize,
    /// Whether they were launched from a CUDA graph.
    pub graph: bool,
    /// Sets of operands in rotation.
    pub sets: usize,
    /// The result of each plan, in the order given.
    pub ours: Vec<Ours>,
    /// Times of the kernel that cuBLASLt's heuristic proposes first, if cuBLASLt took part.
    pub cublaslt: Option<Timing>,
    /// The fastest of all kernels that the heuristic proposes, if cuBLASLt took part.
    pub fastest: Option<Fastest>,
    /// Times of isolated launches, if the settings ask for them.
    pub isolated: Option<Isolated>,
}

/// The fastest kernel of cuBLASLt.
#[derive(Clone, Debug, Serialize)]
pub struct Fastest {
    /// Its place among the heuristic's proposals, from 0. It is 0 if the first one is the fastest.
    pub candidate: usize,
    /// Number of proposals.
    pub candidates: usize,
    /// Its times.
    pub timing: Timing,
}

/// Median times of launches that overlap with no other launch, in microseconds.
///
/// Before each launch the stream copies 64 MiB, so that programmatic dependent launch gains nothing and no
/// operand lies in the L2 cache. The times include about a microsecond between the events around the launch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, serde::Deserialize)]
pub struct Isolated {
    /// The first plan.
    pub us: f64,
    /// The kernel that cuBLASLt's heuristic proposes first.
    pub cublaslt_us: Option<f64>,
    /// The kernel that was cuBLASLt's fastest in launches that follow one another.
    pub fastest_us: Option<f64>,
}

/// The measurements of one warpipe plan.
#[derive(Clone, Debug, Serialize)]
pub struct Ours {
    /// The plan.
    pub plan: PlanInfo,
    /// The times.
    pub timing: Timing,
    /// Comparison of the first result with the f64 product.
    pub check: ResultCheck,
    /// Whether the last timed launch gave the same bits as the first launch.
    pub same_bits: bool,
}

impl Bench {
    /// Makes operands of type `dtype` for any of `problems`.
    ///
    /// # Errors
    /// [`host::Error::NotOnModel`] on the SM model; [`Error::Setting`] for an empty product;
    /// [`host::Error::OutOfMemory`].
    pub fn new(
        device: &Device,
        dtype: Dtype,
        seed: u64,
        problems: &[GemmProblem],
    ) -> Result<Self, Error> {
        let info = device.info().ok_or(host::Error::NotOnModel { what: "a benchmark" })?;
        for p in problems {
            p.check()?;
            for (what, value) in [("M", p.m), ("N", p.n), ("K", p.k)] {
                if value == 0 {
                    return Err(Error::Setting { what, value, least: 1 });
                }
            }
        }
        let l2_bytes = info.l2_bytes;
        let elements = problems.iter().map(|p| Rotation::of(p, l2_bytes).elements()).max();
        let pool = Pool::new(device, dtype, seed, elements.unwrap_or(0))?;
        let (device, host) = (device.clone(), Vec::new());
        Ok(Self { device, pool, scales: None, dtype, l2_bytes, host })
    }

    /// The same with scales of the operands of any of `problems`, for plans that take them: those of
    /// [`Gemm::scaled`](host::gemm::Gemm::scaled), and with [`ScaleOf::Block`] those of
    /// [`Gemm::block_scaled`](host::gemm::Gemm::block_scaled).
    ///
    /// # Errors
    /// [`host::Error::OutOfMemory`]; errors of the driver.
    pub fn with_scales(mut self, of: ScaleOf, problems: &[GemmProblem]) -> Result<Self, Error> {
        self.scales = Some(ScalePool::new(&self.device, of, problems)?);
        Ok(self)
    }

    /// All kernels that cuBLASLt's heuristic proposes for a product, with the scales of the operands if there are any.
    /// `use_fast_accum` applies to operands of 8 bits whose scales are not of blocks.
    ///
    /// # Errors
    /// The errors of [`CublasLt::plans`]; [`host::Error::OutOfBuffer`] for a product that is larger than those given to
    /// [`Bench::with_scales`].
    pub fn rivals(
        &self,
        lt: &CublasLt,
        problem: &GemmProblem,
        use_fast_accum: bool,
    ) -> Result<Vec<CublasLtPlan>, Error> {
        match self.scales(problem)? {
            None => lt.plans(problem),
            Some(scales) => lt.plans_scaled(problem, &scales, use_fast_accum),
        }
    }

    /// Measures the rate of a copy in device memory, bytes read plus bytes written, in GB/s.
    ///
    /// # Errors
    /// [`host::Error::OutOfMemory`]; errors of the driver.
    pub fn copy_gbs(&self) -> Result<f64, Error> {
        // Many times the L2 cache.
        const BYTES: u64 = 512 << 20;
        let from = self.device.alloc_zeroed(BYTES as usize)?;
        let mut to = self.device.alloc(BYTES as usize)?;
        // One row, because the driver copies many rows at a fraction of the memory's rate.
        let shape = Copy2d { width: BYTES, rows: 1, src_pitch: BYTES, dst_pitch: BYTES };
        let stream = self.device.stream();
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = stream.record()?;
            self.device.copy_2d(&from, &mut to, shape, &stream)?;
            best = best.min(stream.record()?.elapsed_ms(&start)?);
        }
        Ok(2.0 * BYTES as f64 * 1e-6 / best)
    }

    /// Times plans of one product (without C), in turn with cuBLASLt if there are `rivals` ([`Bench::rivals`]).
    ///
    /// All rivals are timed briefly. The first one and the three fastest others are then timed in turn with the
    /// plans.
    ///
    /// Before timing, every result is filled with NaN, computed, and compared with the f64 product. Then
    /// it is filled with NaN again, so that the result after timing comes from the timed launches. That
    /// result is compared with the first one bit by bit. The comparisons are returned, not judged.
    ///
    /// # Errors
    /// [`Error::Setting`] without plans; [`host::Error::OutOfBuffer`] for a problem larger than those
    /// given to [`Bench::new`]; [`host::Error::OperandC`] for a plan with C;
    /// [`host::Error::ScalesOfKernel`] for a plan that needs scales; errors of the launches.
    pub fn measure<E: Launch>(
        &mut self,
        plans: &[GemmPlan<E>],
        rivals: &[CublasLtPlan],
        config: &BenchConfig,
    ) -> Result<Measured, Error> {
        let mut host = std::mem::take(&mut self.host);
        let measured = self.timed(plans, rivals, config, &mut host);
        self.host = host;
        measured
    }

    /// [`Bench::measure`]; results are copied to `host`.
    fn timed<E: Launch>(
        &self,
        plans: &[GemmPlan<E>],
        rivals: &[CublasLtPlan],
        config: &BenchConfig,
        host: &mut Vec<u8>,
    ) -> Result<Measured, Error> {
        let Some(first) = plans.first() else {
            return Err(Error::Setting { what: "plans", value: 0, least: 1 });
        };
        let problem = *first.problem();
        let (sets, scales) = (self.sets(&problem)?, self.scales(&problem)?);
        let (device, stream) = (&self.device, self.device.new_stream()?);
        // All rivals write to the same results, which nobody reads.
        let mut results = Results::new(device, &problem, plans.len() + 1, sets.len())?;
        let mut ours = Vec::with_capacity(plans.len());
        for (plan, d) in plans.iter().zip(&results.parts) {
            ours.push(OursRuns::new(plan, &sets, scales.as_ref(), d)?);
        }
        let [a, b] = &sets[0];
        let mut firsts = Vec::with_capacity(plans.len());
        for (runs, d) in ours.iter_mut().zip(&results.parts) {
            runs.launch(0, &device.stream())?;
            download(&d[0], host)?;
            firsts.push((check(&problem, a, b, host)?, fingerprint(host)));
        }
        results.poison()?;
        let mut theirs = finalists(rivals, &sets, &results.parts[plans.len()], 1.0, &stream)?;
        let mut contenders: Vec<&mut dyn Contender> = ours.iter_mut().map(dynamic).collect();
        contenders.extend(theirs.iter_mut().map(dynamic));
        let flops = problem.flops();
        let (mut timings, launches, graph) =
            interleave(device, &mut contenders, sets.len(), flops, config)?;
        let their_timings = timings.split_off(plans.len());
        let fastest = (0..theirs.len())
            .min_by(|&a, &b| their_timings[a].median_us.total_cmp(&their_timings[b].median_us));
        let isolated = if config.isolated {
            let mut alone: Vec<&mut dyn Contender> = vec![&mut ours[0]];
            alone.extend(theirs.iter_mut().map(dynamic));
            let us = isolated(device, &mut alone, sets.len(), &stream)?;
            let fastest_us = fastest.map(|i| us[1 + i]);
            Some(Isolated { us: us[0], cublaslt_us: us.get(1).copied(), fastest_us })
        } else {
            None
        };
        let mut measured = Vec::with_capacity(plans.len());
        let judged = timings.into_iter().zip(firsts);
        for ((plan, (timing, (check, bits))), d) in plans.iter().zip(judged).zip(&results.parts) {
            download(&d[0], host)?;
            let same_bits = fingerprint(host) == bits;
            measured.push(Ours { plan: plan.describe().clone(), timing, check, same_bits });
        }
        let fastest = fastest.map(|i| Fastest {
            candidate: theirs[i].candidate,
            candidates: rivals.len(),
            timing: their_timings[i].clone(),
        });
        Ok(Measured {
            launches,
            graph,
            sets: sets.len(),
            ours: measured,
            cublaslt: their_timings.into_iter().next(),
            fastest,
            isolated,
        })
    }

    /// Runs a plan (without C) once and compares its result with the f64 product. The comparison is returned, not judged.
    ///
    /// # Errors
    /// Those of [`Bench::measure`].
    pub fn check<E: Launch>(&self, plan: &GemmPlan<E>) -> Result<ResultCheck, Error> {
        let problem = *plan.problem();
        let (sets, scales) = (self.sets(&problem)?, self.scales(&problem)?);
        let results = Results::new(&self.device, &problem, 1, 1)?;
        let d = &results.parts[0];
        OursRuns::new(plan, &sets[..1], scales.as_ref(), d)?.launch(0, &self.device.stream())?;
        let mut host = Vec::new();
        download(&d[0], &mut host)?;
        let [a, b] = &sets[0];
        Ok(check(&problem, a, b, &host)?)
    }

    /// The operand sets of a problem.
    ///
    /// # Errors
    /// [`host::Error::GemmDtype`] for operands of another type; [`host::Error::OutOfBuffer`] for a problem larger
    /// than those given to [`Bench::new`].
    pub(super) fn sets(&self, problem: &GemmProblem) -> Result<Vec<[Operand<'_>; 2]>, Error> {
        if problem.ab != self.dtype {
            let (side, dtype) = ("operands", dtype_name(problem.ab));
            let right = dtype_name(self.dtype);
            return Err(host::Error::GemmDtype { side, dtype, right }.into());
        }
        let rotation = Rotation::of(problem, self.l2_bytes);
        let sets = (0..rotation.sets).map(|set| self.pool.operands(problem, rotation, set));
        Ok(sets.collect::<Result<_, _>>()?)
    }

    /// The scales of a problem, if the operands have any.
    ///
    /// # Errors
    /// [`host::Error::OutOfBuffer`] for a product that is larger than those given to [`Bench::with_scales`].
    pub fn scales(&self, problem: &GemmProblem) -> Result<Option<ProductScales>, Error> {
        Ok(self.scales.as_ref().map(|pool| pool.scales(problem)).transpose()?)
    }

    /// The device.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }
}
