//! `--problems` of `warpipe gemm` and `check gemm`: a pointer array, products of sizes of their own in one launch.

use super::args::DeviceArg;
use super::check::{Judged, bound};
use super::error::Error;
use super::gemm::open;
use super::operands::free_memory;
use super::progress::Progress;
use super::say;
use host::Device;
use host::data::{decode, encode, normal};
use host::gemm::{ArrayGemm, ArrayProblem, Gemm};
use host::reference::Product;
use isa::kernel::Dtype;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The largest size: TMA's coordinates are signed 32-bit numbers.
const MAX_SIZE: u64 = i32::MAX as u64;

/// What `--problems` needs of the options.
pub struct Array<'a> {
    /// The file with M, N and K on each line.
    pub problems: &'a Path,
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
    problems: usize,
    /// Problems with an empty D.
    empty: usize,
    /// The kernel that multiplies, and the CTAs of its grid.
    kernel: String,
    ctas: u32,
    alpha: f32,
    /// Seconds from the launch of the first kernel to the end of the second one.
    seconds: f64,
    simulated: bool,
    /// The problem with the largest error.
    check: Option<Judged>,
}

/// Reads the sizes of the problems.
fn read(file: &Path) -> Result<Vec<[u64; 3]>, Error> {
    let text = std::fs::read_to_string(file)
        .map_err(|source| Error::Open { file: PathBuf::from(file), source })?;
    let mut sizes = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let refuse = |what: &str| {
            let (file, number) = (file.display(), index + 1);
            Err(Error::Usage(format!("{file}: line {number} is {line:?}; {what}")))
        };
        let numbers: Option<Vec<u64>> = line
            .split_whitespace()
            .map(|word| word.parse().ok().filter(|&size| size <= MAX_SIZE))
            .collect();
        let Some(&[m, n, k]) = numbers.as_deref() else {
            return refuse("expected M, N and K, each 0 to 2147483647");
        };
        if !n.is_multiple_of(8) {
            return refuse("N must be a multiple of 8, because TMA stores rows of 16 bytes");
        }
        if k == 0 && m * n > 0 {
            return refuse("K must be at least 1");
        }
        sizes.push([m, n, k]);
    }
    if sizes.is_empty() {
        let file = file.display();
        return Err(Error::Usage(format!("{file}: no problems; expected M N K per line")));
    }
    Ok(sizes)
}

/// The problems one behind the other, and the elements of A, B and D.
fn place(sizes: &[[u64; 3]]) -> Result<(Vec<ArrayProblem>, [u64; 3]), Error> {
    let mut next = [0_u64; 3];
    let mut problems = Vec::new();
    for &size in sizes {
        let problem = ArrayProblem::packed(size, next);
        for (next, elements) in next.iter_mut().zip(problem.elements()) {
            *next = next.saturating_add(elements);
        }
        problems.push(problem);
    }
    // The values in f32 as well.
    let need = next.iter().fold(0_u64, |all, &x| all.saturating_add(x)).saturating_mul(6);
    match free_memory() {
        Some(have) if need > have => {
            let count = sizes.len();
            Err(Error::Usage(format!(
                "the matrices of {count} problems take {need} bytes; {have} bytes of memory are free"
            )))
        }
        _ => Ok((problems, next)),
    }
}

/// The size of a problem that stands for all: the mean of each that is not empty, rounded up.
fn typical(sizes: &[[u64; 3]]) -> [u64; 3] {
    let full: Vec<_> = sizes.iter().filter(|size| size.iter().all(|&x| x > 0)).collect();
    let mean =
        |i: usize| full.iter().map(|size| size[i]).sum::<u64>().div_ceil(full.len().max(1) as u64);
    [mean(0), mean(1), mean(2)]
}

/// Generated operands of the problems of a file.
pub struct Operands {
    sizes: Vec<[u64; 3]>,
    problems: Vec<ArrayProblem>,
    a: Vec<u8>,
    b: Vec<u8>,
    /// Elements of all D.
    results: u64,
    alpha: f32,
}

/// A run: all D, the kernel that computed them, and the time.
pub struct Multiplied {
    pub d: Vec<u8>,
    kernel: &'static str,
    ctas: u32,
    seconds: f64,
}

impl Operands {
    /// Reads the sizes, and generates all A and B.
    pub fn generate(file: &Path, seed: u64, alpha: f32) -> Result<Self, Error> {
        let sizes = read(file)?;
        let (problems, [of_a, of_b, results]) = place(&sizes)?;
        let make = |which: u64, count: u64| {
            let seed = seed.wrapping_mul(3).wrapping_add(which);
            encode(&normal(seed, count as usize), Dtype::Bf16)
        };
        let (a, b) = (make(0, of_a)?, make(1, of_b)?);
        Ok(Self { sizes, problems, a, b, results, alpha })
    }

    /// The number of problems, and of those with an empty D.
    pub fn counts(&self) -> [usize; 2] {
        [self.sizes.len(), self.sizes.iter().filter(|[m, n, _]| m * n == 0).count()]
    }

    /// The row of the table that is picked.
    pub fn pick(&self, gemm: &ArrayGemm) -> Result<usize, host::Error> {
        gemm.pick(self.sizes.len() as u64, typical(&self.sizes))
    }

    /// Multiplies with a row of the table.
    pub fn multiply(
        &self,
        device: &Device,
        gemm: &ArrayGemm,
        row: usize,
    ) -> Result<Multiplied, Error> {
        let plan = gemm.plan_with(self.sizes.len() as u64, row)?;
        let table = device.upload(&ArrayProblem::table(&self.problems))?;
        let (a, b) = (device.upload(&self.a)?, device.upload(&self.b)?);
        let mut d = device.alloc(2 * self.results as usize)?;
        // All bits set is NaN, so that the check finds elements that are not written.
        d.fill(0xff)?;
        device.synchronize()?;
        let start = Instant::now();
        plan.run(&a, &b, &table, &mut d, self.alpha)?;
        device.synchronize()?;
        let seconds = start.elapsed().as_secs_f64();
        if let Some(bad) = plan.bad_problem()? {
            let problem = self.problems[bad as usize];
            return Err(Error::Wrong(format!("the device refused problem {bad}, {problem:?}")));
        }
        Ok(Multiplied { d: d.to_vec()?, kernel: plan.kernel(), ctas: plan.ctas(), seconds })
    }

    /// Compares each problem. The relative error is that of the worst one. `None` if all are empty.
    pub fn judge(&self, d: &[u8]) -> Result<Option<Judged>, host::Error> {
        let mut worst: Option<Judged> = None;
        for &ArrayProblem { m, n, k, first, pitch } in &self.problems {
            let [m, n, k] = [m, n, k].map(|size| size as usize);
            if m * n == 0 {
                continue;
            }
            // Rows without the gaps behind them.
            let part = |bytes: &[u8], operand: usize, rows: usize, columns: usize| {
                let (first, pitch) = (first[operand] as usize, pitch[operand] as usize);
                let row = |row: usize| &bytes[2 * (first + row * pitch)..][..2 * columns];
                decode(&(0..rows).map(row).collect::<Vec<_>>().concat(), Dtype::Bf16)
            };
            let (a, b) = (part(&self.a, 0, m, k)?, part(&self.b, 1, n, k)?);
            let product = Product { m, n, k, a: &a, b: &b, c: None, alpha: self.alpha, beta: 0.0 };
            let check = product.check(&part(d, 2, m, n)?)?;
            let bound = bound(Dtype::Bf16, k as u64);
            let judged = Judged { check, bound, passed: check.below(bound) };
            match &mut worst {
                None => worst = Some(judged),
                Some(before) => before.add(&judged),
            }
        }
        Ok(worst)
    }
}

impl Array<'_> {
    /// Runs the command.
    pub fn run(&self) -> Result<(), Error> {
        let progress = Progress::new(3);
        let device = open(self.device, progress.model())?;
        let gemm = Gemm::grouped_array(&device, &warpipe::GEMM_IMAGE)?;
        let operands = progress.step("generating the operands", || {
            Operands::generate(self.problems, self.seed, self.alpha)
        })?;
        let row = operands.pick(&gemm)?;
        let what = format!("multiplying on {}", device.describe());
        let done = progress.step(&what, || operands.multiply(&device, &gemm, row))?;
        let check = if self.check {
            progress.step("comparing with f64 products", || operands.judge(&done.d))?
        } else {
            None
        };
        drop(progress);
        let [problems, empty] = operands.counts();
        let report = Report {
            device: device.describe(),
            problems,
            empty,
            kernel: done.kernel.to_owned(),
            ctas: done.ctas,
            alpha: self.alpha,
            seconds: done.seconds,
            simulated: device.is_sim(),
            check,
        };
        say(&if self.json { serde_json::json!(report).to_string() } else { report.to_string() })?;
        let deepest = operands.sizes.iter().map(|size| size[2]).max().unwrap_or(0);
        check.map_or(Ok(()), |check| check.verdict(Dtype::Bf16, deepest))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { problems, empty, kernel, ctas, .. } = self;
        writeln!(f, "{problems} problems, {empty} empty, of bf16 on {}", self.device)?;
        writeln!(f, "  kernel {kernel}, {ctas} CTAs, alpha {}", self.alpha)?;
        if self.simulated {
            let seconds = self.seconds;
            writeln!(f, "time    {seconds:.2} s on the model (this says nothing about a GPU)")?;
        } else {
            writeln!(f, "time    {:.3} ms for one run, launches included", self.seconds * 1e3)?;
        }
        if let Some(Judged { check, bound, passed }) = &self.check {
            let verdict = if *passed { "passed" } else { "FAILED" };
            writeln!(f, "check   {verdict}: {check}, bound {bound:.0e}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typical_problem_is_the_mean_of_those_that_have_work() {
        assert_eq!(typical(&[[0, 8, 64], [10, 8, 64], [13, 16, 0], [21, 24, 65]]), [16, 16, 65]);
        assert_eq!(typical(&[[0, 8, 8]]), [0, 0, 0]);
    }
}
