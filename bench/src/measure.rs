//! Measures one product: checks its result, times it in turn with other contenders, and compares the last
//! result with the first.

use super::check::{ResultCheck, check, fingerprint};
use super::pool::{Pool, Rotation};
use super::{BenchConfig, Contender, Timing, interleave};
use crate::cublaslt::CublasLtPlan;
use crate::error::Error;
use host::gemm::{BoundGemm, GemmPlan, GemmProblem, PlanInfo};
use host::{Buffer, Copy2d, Device, Dtype, Stream, dtype_name};
use serde::Serialize;

/// Results begin at multiples of this many bytes, the alignment of an allocation.
const ALIGN: usize = 256;

/// A GPU with operands for a set of problems.
pub struct Bench {
    device: Device,
    pool: Pool,
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
    /// Times of cuBLASLt, if it took part.
    pub cublaslt: Option<Timing>,
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
        Ok(Self { device: device.clone(), pool, dtype, l2_bytes, host: Vec::new() })
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

    /// Times plans of one product (without C), in turn with cuBLASLt if `rival` is given.
    ///
    /// Before timing, every result is filled with NaN, computed, and compared with the f64 product. Then
    /// it is filled with NaN again, so that the result after timing comes from the timed launches. That
    /// result is compared with the first one bit by bit. The comparisons are returned, not judged.
    ///
    /// # Errors
    /// [`Error::Setting`] without plans; [`host::Error::OutOfBuffer`] for a problem larger than those
    /// given to [`Bench::new`]; [`host::Error::OperandC`] for a plan with C; errors of the launches.
    pub fn measure(
        &mut self,
        plans: &[GemmPlan],
        rival: Option<&CublasLtPlan>,
        config: &BenchConfig,
    ) -> Result<Measured, Error> {
        let Some(first) = plans.first() else {
            return Err(Error::Setting { what: "plans", value: 0, least: 1 });
        };
        let problem = *first.problem();
        if problem.ab != self.dtype {
            let (side, dtype) = ("operands", dtype_name(problem.ab));
            let right = dtype_name(self.dtype);
            return Err(host::Error::GemmDtype { side, dtype, right }.into());
        }
        let rotation = Rotation::of(&problem, self.l2_bytes);
        let sets = (0..rotation.sets)
            .map(|set| self.pool.operands(&problem, rotation, set))
            .collect::<Result<Vec<_>, _>>()?;
        let mut results = Results::new(
            &self.device,
            &problem,
            plans.len() + usize::from(rival.is_some()),
            sets.len(),
        )?;
        let mut ours = Vec::with_capacity(plans.len());
        for (plan, d) in plans.iter().zip(&mut results.parts) {
            let bound =
                sets.iter().zip(d).map(|([a, b], d)| plan.bind(&a.buffer, &b.buffer, None, d));
            ours.push(OursRuns(plan, bound.collect::<Result<Vec<_>, _>>()?));
        }
        let [a, b] = &sets[0];
        let mut firsts = Vec::with_capacity(plans.len());
        for (runs, d) in ours.iter_mut().zip(&results.parts) {
            runs.launch(0, &self.device.stream())?;
            download(&d[0], &mut self.host)?;
            firsts.push((check(&problem, a, b, &self.host)?, fingerprint(&self.host)));
        }
        results.poison()?;
        let Results { parts, .. } = &mut results;
        let (parts, last) = parts.split_at_mut(plans.len());
        let mut theirs = rival.zip(last.first_mut()).map(|(plan, d)| {
            let operands = sets.iter().map(|[a, b]| [&a.buffer, &b.buffer]).collect();
            TheirRuns { plan, operands, d }
        });
        let mut contenders: Vec<&mut dyn Contender> =
            ours.iter_mut().map(|runs| -> &mut dyn Contender { runs }).collect();
        contenders.extend(theirs.as_mut().map(|t| -> &mut dyn Contender { t }));
        let flops = problem.flops();
        let (mut timings, launches, graph) =
            interleave(&self.device, &mut contenders, sets.len(), flops, config)?;
        let cublaslt = if rival.is_some() { timings.pop() } else { None };
        let mut measured = Vec::with_capacity(plans.len());
        for (((plan, timing), (check, bits)), d) in plans.iter().zip(timings).zip(firsts).zip(parts)
        {
            download(&d[0], &mut self.host)?;
            let same_bits = fingerprint(&self.host) == bits;
            measured.push(Ours { plan: plan.describe().clone(), timing, check, same_bits });
        }
        Ok(Measured { launches, graph, sets: sets.len(), ours: measured, cublaslt })
    }
}

/// Copies a result to the host.
fn download(d: &Buffer, host: &mut Vec<u8>) -> Result<(), host::Error> {
    host.resize(d.len(), 0);
    d.read(host)
}

/// Results of each contender for each set, in one allocation.
struct Results {
    whole: Buffer,
    parts: Vec<Vec<Buffer>>,
}

impl Results {
    fn new(
        device: &Device,
        problem: &GemmProblem,
        contenders: usize,
        sets: usize,
    ) -> Result<Self, host::Error> {
        let bytes = problem.bytes('D') as usize;
        let step = bytes.next_multiple_of(ALIGN);
        let whole = device.alloc(step * contenders * sets)?;
        let part = |i: usize| whole.part(i * step, bytes);
        let parts = (0..contenders)
            .map(|c| (0..sets).map(|set| part(c * sets + set)).collect())
            .collect::<Result<_, _>>()?;
        let mut results = Self { whole, parts };
        results.poison()?;
        Ok(results)
    }

    /// Fills the results with NaN, so that the check finds elements that are not written.
    fn poison(&mut self) -> Result<(), host::Error> {
        self.whole.fill(0xff)
    }
}

/// A warpipe plan, bound to each operand set.
struct OursRuns<'a>(&'a GemmPlan, Vec<BoundGemm<'a>>);

impl Contender for OursRuns<'_> {
    fn name(&self) -> &str {
        self.0.describe().kernel.as_ref().map_or("warpipe", |kernel| &kernel.name)
    }
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), Error> {
        Ok(self.1[set].run(1.0, 0.0, stream)?)
    }
}

/// The cuBLASLt plan with each operand set.
struct TheirRuns<'a> {
    plan: &'a CublasLtPlan,
    operands: Vec<[&'a Buffer; 2]>,
    d: &'a mut Vec<Buffer>,
}

impl Contender for TheirRuns<'_> {
    fn name(&self) -> &'static str {
        "cuBLASLt"
    }
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), Error> {
        let [a, b] = self.operands[set];
        self.plan.run((a, b, None), &mut self.d[set], (1.0, 0.0), stream)
    }
}
