//! `warpipe gemm --layout`, `--batch` and `--column-major`: operands in any layout, and batches of products.

use super::args::DeviceArg;
use super::check::{Judged, bound};
use super::error::Error;
use super::gemm::open;
use super::operands::free_memory;
use super::progress::Progress;
use super::say;
use host::View;
use host::data::{decode, encode, normal};
use host::gemm::{Gemm, Layout, Order, Strided, StridedInfo, StridedProblem};
use host::reference::StridedProduct;
use isa::kernel::Dtype;
use serde::Serialize;
use std::fmt;
use std::time::Instant;

/// The options of `warpipe gemm` for layouts and batches.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Layouts and batches of generated operands")]
pub struct Options {
    /// How A and B lie in memory, as BLAS says it: tn is A [M, K] and B [N, K], tt is A [M, K] and B [K, N], nn is A [K, M]
    /// and B [N, K], nt is A [K, M] and B [K, N] [default: tn]
    #[arg(long, value_name = "LAYOUT", requires = "m")]
    layout: Option<Layout>,
    /// Number of products, each with matrices of its own
    #[arg(long, value_name = "COUNT", requires = "m")]
    batch: Option<u64>,
    /// All products of the batch share one B
    #[arg(long, requires = "batch")]
    broadcast_b: bool,
    /// D lies in memory as [N, M]
    #[arg(long, requires = "m")]
    column_major: bool,
}

impl Options {
    /// Whether any is given.
    pub fn any(&self) -> bool {
        self.layout.is_some() || self.batch.is_some() || self.column_major
    }

    /// The product that they describe, and whether B is shared.
    pub fn problem(&self, [m, n, k]: [u64; 3], dtype: Dtype) -> (StridedProblem, bool) {
        let layout = self.layout.unwrap_or(Layout::ALL[0]);
        let order = if self.column_major { Order::ColumnMajor } else { Order::RowMajor };
        let batch = self.batch.unwrap_or(1);
        (StridedProblem { batch, m, n, k, dtype, layout, order }, self.broadcast_b)
    }
}

/// One run.
pub struct Run {
    /// The product, and whether B is shared.
    pub problem: (StridedProblem, bool),
    pub seed: u64,
    pub alpha: f32,
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
    /// Seconds from the launch to its end.
    seconds: f64,
    simulated: bool,
    check: Option<Judged>,
}

impl Run {
    /// Runs the command.
    pub fn run(&self) -> Result<(), Error> {
        let Self { problem: (problem, broadcast_b), alpha, .. } = *self;
        problem.check()?;
        check_memory(&problem)?;
        let progress = Progress::new(3);
        let device = open(self.device, progress.model())?;
        let [a, b] = progress.step("generating the operands", || self.operands())?;
        let gemm = Gemm::strided(&device, &warpipe::GEMM_IMAGE)?;
        let plan = gemm.plan(&problem)?;
        let upload = |operand, bytes: &[u8]| {
            let width = problem.lines(operand)[1] as usize * problem.dtype.size();
            let (bytes, pitch) = padded(bytes, width);
            Ok::<_, host::Error>((device.upload(&bytes)?, pitch))
        };
        let ((a_dev, a_pitch), (b_dev, b_pitch)) = (upload('A', &a)?, upload('B', &b)?);
        let mut d = device.alloc(problem.bytes('D') as usize)?;
        // All bits set is NaN, so that the check finds elements that are not written.
        d.fill(0xff)?;
        let a_view = Strided::from(View::new(&a_dev).pitch(a_pitch));
        let b_view = Strided::from(View::new(&b_dev).pitch(b_pitch));
        let b_view = if broadcast_b { b_view.broadcast() } else { b_view };
        let what = format!("multiplying on {}", device.describe());
        let seconds = progress.step(&what, || {
            device.synchronize()?;
            let start = Instant::now();
            plan.run(a_view, b_view, &mut d, alpha)?;
            device.synchronize()?;
            Ok::<_, host::Error>(start.elapsed().as_secs_f64())
        })?;
        let judge = || {
            let values = |bytes: &[u8]| decode(bytes, problem.dtype);
            let (a, b, d) = (values(&a)?, values(&b)?, values(&d.to_vec()?)?);
            let check = StridedProduct { problem, a: &a, b: &b, alpha }.check(&d)?;
            let bound = bound(problem.dtype, problem.k);
            Ok::<_, host::Error>(Judged { check, bound, passed: check.below(bound) })
        };
        let check = if self.check {
            Some(progress.step("comparing with f64 products", judge)?)
        } else {
            None
        };
        drop(progress);
        let report = Report {
            device: device.describe(),
            plan: plan.describe().clone(),
            broadcast_b,
            alpha,
            seconds,
            simulated: device.is_sim(),
            check,
        };
        say(&if self.json { serde_json::json!(report).to_string() } else { report.to_string() })?;
        check.map_or(Ok(()), |check| check.verdict(problem.dtype, problem.k))
    }

    /// A and B, in the order of memory. The values are those of `warpipe gemm` without a layout.
    fn operands(&self) -> Result<[Vec<u8>; 2], host::Error> {
        let (problem, broadcast_b) = self.problem;
        let make = |which: u64, operand| {
            let seed = self.seed.wrapping_mul(3).wrapping_add(which);
            let one = operand == 'B' && broadcast_b;
            let [lines, elements] = problem.lines(operand);
            let count = lines * elements * if one { 1 } else { problem.batch };
            encode(&normal(seed, count as usize), problem.dtype)
        };
        Ok([make(0, 'A')?, make(1, 'B')?])
    }
}

/// Lines of `width` bytes, each padded to a multiple of 16 bytes, which TMA requires, and that multiple.
fn padded(bytes: &[u8], width: usize) -> (Vec<u8>, u64) {
    let pitch = width.next_multiple_of(16);
    let lines = bytes.chunks_exact(width.max(1));
    // Padding that is read by mistake is NaN.
    let line = |line: &[u8]| [line, &vec![0xff; pitch - width]].concat();
    (lines.flat_map(line).collect(), pitch as u64)
}

/// Checks that the host has memory for the operands.
fn check_memory(problem: &StridedProblem) -> Result<(), Error> {
    let need = ['A', 'B', 'D'].iter().fold(0, |sum: u64, &o| sum.saturating_add(problem.bytes(o)));
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
        writeln!(f, "  alpha {}{shared}", self.alpha)?;
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
        Ok(())
    }
}
