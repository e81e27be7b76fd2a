//! `warpipe gemm --layout`, `--batch` and `--column-major`: operands in any layout, and batches of products.

mod files;

use super::args::{DeviceArg, TensorRef};
use super::check::{Judged, bound};
use super::error::Error;
use super::gemm::open;
use super::operands::{file_dtype, free_memory};
use super::output::Output;
use super::progress::Progress;
use super::say;
use host::Device;
use host::data::{decode, encode, normal};
use host::gemm::{Gemm, Layout, Order, Strided, StridedInfo, StridedPlan, StridedProblem};
use host::reference::StridedProduct;
use isa::kernel::Dtype;
use serde::Serialize;
use std::fmt;
use std::time::Instant;

/// The options for layouts and batches.
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Layouts and batches")]
pub struct Options {
    /// How A and B lie in memory, as BLAS says it: tn is A [M, K] and B [N, K], tt is A [M, K] and B [K, N], nn is A [K, M]
    /// and B [N, K], nt is A [K, M] and B [K, N] [default: tn]
    #[arg(long, value_name = "LAYOUT")]
    pub layout: Option<Layout>,
    /// Number of products of generated matrices, each with matrices of its own. Tensors of files have a third dimension
    /// instead, [batch, rows, columns]
    #[arg(long, value_name = "COUNT")]
    pub batch: Option<u64>,
    /// All products of the batch share one B. With files, a B without a third dimension says that
    #[arg(long, requires = "batch")]
    pub broadcast_b: bool,
    /// D lies in memory as [N, M]
    #[arg(long)]
    pub column_major: bool,
}

impl Options {
    /// How A, B and D lie in memory.
    fn in_memory(&self) -> (Layout, Order) {
        let order = if self.column_major { Order::ColumnMajor } else { Order::RowMajor };
        (self.layout.unwrap_or(Layout::ALL[0]), order)
    }

    /// Whether any is given.
    pub fn any(&self) -> bool {
        self.layout.is_some() || self.batch.is_some() || self.column_major
    }

    /// The product that they describe, without C, and whether B is shared.
    pub fn problem(&self, [m, n, k]: [u64; 3], dtype: Dtype) -> (StridedProblem, bool) {
        let (layout, order) = self.in_memory();
        let batch = self.batch.unwrap_or(1);
        let beta_c = false;
        (StridedProblem { batch, m, n, k, dtype, layout, order, beta_c }, self.broadcast_b)
    }
}

/// Where the operands come from.
pub enum Source {
    Generated {
        /// The product, which was checked, and whether B is shared.
        problem: (StridedProblem, bool),
        seed: u64,
    },
    Files {
        options: Options,
        a: TensorRef,
        b: TensorRef,
        c: Option<TensorRef>,
    },
}

/// One run.
pub struct Run {
    pub source: Source,
    /// The file of the result, checked before any work.
    pub out: Option<Output>,
    pub alpha: f32,
    /// Factor of C.
    pub beta: f32,
    pub device: DeviceArg,
    pub check: bool,
    pub json: bool,
}

/// The report of a run, as `--json` prints it.
#[derive(Serialize)]
struct Report {
    device: String,
    plan: StridedInfo,
    broadcast_b: bool,
    alpha: f32,
    beta: f32,
    /// Seconds from the launch to its end.
    seconds: f64,
    simulated: bool,
    check: Option<Judged>,
    out: Option<String>,
}

impl Run {
    /// Runs the command.
    pub fn run(&self) -> Result<(), Error> {
        let factors @ [alpha, beta] = [self.alpha, self.beta];
        if let Source::Generated { problem: (problem, _), .. } = &self.source {
            check_memory(problem)?;
        }
        let progress = Progress::new(3);
        let device = open(self.device, progress.model())?;
        let operands = match &self.source {
            Source::Generated { problem, seed } => progress
                .step("generating the operands", || Operands::generate(*problem, *seed))
                .map_err(Error::from)?,
            Source::Files { options, a, b, c } => {
                let read = || Operands::read(options, a, b, c.as_ref());
                progress.step("reading the operands", read)?
            }
        };
        let Operands { problem, broadcast_b, .. } = operands;
        let plan = Gemm::strided(&device, &warpipe::GEMM_IMAGE)?.plan(&problem)?;
        let what = format!("multiplying on {}", device.describe());
        let (d, seconds) = progress.step(&what, || operands.run(&device, &plan, factors))?;
        let check = if self.check {
            let judge = || operands.judge(&d, factors);
            Some(progress.step("comparing with f64 products", judge)?)
        } else {
            None
        };
        drop(progress);
        let failed = check.as_ref().is_some_and(|check| !check.passed);
        if let (Some(out), false) = (&self.out, failed) {
            let [lines, elements] = problem.lines('D');
            let shape = [problem.batch, lines, elements].map(|size| size as usize);
            let shape = if operands.batched { &shape[..] } else { &shape[1..] };
            out.write_with(file_dtype(problem.dtype), shape, &d, None)?;
        }
        let report = Report {
            device: device.describe(),
            plan: plan.describe().clone(),
            broadcast_b,
            alpha,
            beta,
            seconds,
            simulated: device.is_sim(),
            check,
            out: self.out.as_ref().map(Output::name),
        };
        say(&if self.json { serde_json::json!(report).to_string() } else { report.to_string() })?;
        check.map_or(Ok(()), |check| check.verdict(problem.dtype, problem.k))
    }
}

/// Operands, in the order of memory.
pub struct Operands {
    pub problem: StridedProblem,
    broadcast_b: bool,
    /// Whether D has a third dimension in a file.
    batched: bool,
    a: Vec<u8>,
    b: Vec<u8>,
    c: Option<Vec<u8>>,
}

impl Operands {
    /// Makes A, B and C. The values are those of `warpipe gemm` without a layout.
    pub fn generate(
        (problem, broadcast_b): (StridedProblem, bool),
        seed: u64,
    ) -> Result<Self, host::Error> {
        let make = |which: u64, operand| {
            let seed = seed.wrapping_mul(3).wrapping_add(which);
            let one = operand == 'B' && broadcast_b;
            let [lines, elements] = problem.lines(operand);
            let count = lines * elements * if one { 1 } else { problem.batch };
            encode(&normal(seed, count as usize), problem.dtype)
        };
        let (a, b) = (make(0, 'A')?, make(1, 'B')?);
        let c = if problem.beta_c { Some(make(2, 'C')?) } else { None };
        Ok(Self { problem, broadcast_b, batched: problem.batch != 1, a, b, c })
    }

    /// Reads A, B and C. The shapes of A and B say the product.
    fn read(
        options: &Options,
        a: &TensorRef,
        b: &TensorRef,
        c: Option<&TensorRef>,
    ) -> Result<Self, Error> {
        let (layout, order) = options.in_memory();
        let files::Product { problem, broadcast_b, batched, a, b } =
            files::read(layout, order, a, b)?;
        let problem = StridedProblem { beta_c: c.is_some(), ..problem };
        check_memory(&problem)?;
        let c = c.map(|c| files::read_c(&problem, batched, c)).transpose()?;
        Ok(Self { problem, broadcast_b, batched, a, b, c })
    }

    /// Runs the products. Returns D and the seconds of the run.
    pub fn run(
        &self,
        device: &Device,
        plan: &StridedPlan,
        [alpha, beta]: [f32; 2],
    ) -> Result<(Vec<u8>, f64), host::Error> {
        let problem = &self.problem;
        let (a, b) = (device.upload(&self.a)?, device.upload(&self.b)?);
        let c = self.c.as_ref().map(|c| device.upload(c)).transpose()?;
        let mut d = device.alloc(problem.bytes('D') as usize)?;
        // All bits set is NaN, so that the check finds elements that are not written.
        d.fill(0xff)?;
        let b = Strided::from(&b);
        let b = if self.broadcast_b { b.broadcast() } else { b };
        device.synchronize()?;
        let start = Instant::now();
        plan.run(&a, b, c.as_ref().map(Strided::from), &mut d, alpha, beta)?;
        device.synchronize()?;
        let seconds = start.elapsed().as_secs_f64();
        Ok((d.to_vec()?, seconds))
    }

    /// Compares `d` with the products in f64.
    pub fn judge(&self, d: &[u8], [alpha, beta]: [f32; 2]) -> Result<Judged, host::Error> {
        let problem = self.problem;
        let values = |bytes: &[u8]| decode(bytes, problem.dtype);
        let (a, b, d) = (values(&self.a)?, values(&self.b)?, values(d)?);
        let c = self.c.as_deref().map(values).transpose()?;
        let product = StridedProduct { problem, a: &a, b: &b, c: c.as_deref(), alpha, beta };
        let check = product.check(&d)?;
        let bound = bound(problem.dtype, problem.k);
        Ok(Judged { check, bound, passed: check.below(bound) })
    }
}

/// Checks that the host has memory for the operands.
pub fn check_memory(problem: &StridedProblem) -> Result<(), Error> {
    let operands = if problem.beta_c { &['A', 'B', 'C', 'D'][..] } else { &['A', 'B', 'D'] };
    let need = operands.iter().fold(0, |sum: u64, &o| sum.saturating_add(problem.bytes(o)));
    match free_memory() {
        Some(have) if need > have => {
            let StridedProblem { m, n, k, .. } = *problem;
            Err(Error::Memory { m, n, k, need, have })
        }
        _ => Ok(()),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.plan)?;
        let shared = if self.broadcast_b { ", one B for all" } else { "" };
        writeln!(f, "  alpha {}, beta {}{shared}", self.alpha, self.beta)?;
        if self.simulated {
            let seconds = self.seconds;
            writeln!(f, "time    {seconds:.2} s on the model (this says nothing about a GPU)")?;
        } else {
            writeln!(f, "time    {:.3} ms for one run, launch included", self.seconds * 1e3)?;
        }
        if let Some(Judged { check, bound, passed }) = &self.check {
            let verdict = if *passed { "passed" } else { "FAILED" };
            writeln!(f, "check   {verdict}: {check}, bound {bound:.0e}")?;
        }
        if let Some(file) = &self.out {
            writeln!(f, "result  {file}")?;
        }
        Ok(())
    }
}
