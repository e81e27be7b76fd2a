//! `warpipe gemm --groups`: a product whose rows of A are in groups, each with a B of its own.

use super::args::DeviceArg;
use super::check::{Judged, bound};
use super::error::Error;
use super::gemm::open;
use super::operands::free_memory;
use super::progress::Progress;
use super::say;
use host::Device;
use host::data::{decode, encode, normal};
use host::gemm::{Gemm, GroupedInfo, GroupedPlan, GroupedProblem, GroupedRows};
use host::reference::Product;
use isa::kernel::Dtype;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What `--groups` needs of the options.
pub struct Grouped<'a> {
    /// The file with one number of rows on each line.
    pub groups: &'a Path,
    /// Rows that each group has room for.
    pub masked: Option<u64>,
    pub n: u64,
    pub k: u64,
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
    plan: GroupedInfo,
    alpha: f32,
    /// Rows of the smallest and of the largest group.
    rows: [u64; 2],
    /// Groups without rows.
    empty: usize,
    /// Seconds from the launch to its end.
    seconds: f64,
    simulated: bool,
    /// The group with the largest error.
    check: Option<Judged>,
}

/// Reads the numbers of rows of the groups.
fn read(file: &Path) -> Result<Vec<u64>, Error> {
    let text = std::fs::read_to_string(file)
        .map_err(|source| Error::Open { file: PathBuf::from(file), source })?;
    let mut sizes = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let size = line.parse::<u32>().ok().filter(|&size| i32::try_from(size).is_ok());
        let Some(size) = size else {
            let (file, line_number) = (file.display(), index + 1);
            return Err(Error::Usage(format!(
                "{file}: line {line_number} is {line:?}; expected a number of rows, 0 to 2147483647"
            )));
        };
        sizes.push(u64::from(size));
    }
    if sizes.is_empty() {
        let file = file.display();
        return Err(Error::Usage(format!("{file}: no groups; expected a number of rows per line")));
    }
    Ok(sizes)
}

/// The groups of a product: their rows, and what the device reads of them.
pub struct Groups {
    pub problem: GroupedProblem,
    /// Rows of each group.
    pub sizes: Vec<u64>,
    /// The ends of the groups, as `i32`.
    ends: Vec<u8>,
}

impl Groups {
    /// Reads the rows of the groups of a product with so many columns of D and of A.
    pub fn read(file: &Path, masked: Option<u64>, [n, k]: [u64; 2]) -> Result<Self, Error> {
        let sizes = read(file)?;
        let groups = sizes.len() as u64;
        let total: u64 = sizes.iter().sum();
        let (rows, ends): (_, Vec<u64>) = match masked {
            None => {
                let ends = sizes.iter().scan(0, |end, size| {
                    *end += size;
                    Some(*end)
                });
                (GroupedRows::Contiguous { total }, ends.collect())
            }
            Some(max) => {
                if let Some(size) = sizes.iter().find(|size| **size > max) {
                    return Err(Error::Usage(format!(
                        "--masked {max}: a group has {size} rows; give at least that"
                    )));
                }
                let expected = total.div_ceil(groups);
                (GroupedRows::Masked { max, expected }, sizes.clone())
            }
        };
        let problem = GroupedProblem { groups, rows, n, k, dtype: Dtype::Bf16 };
        problem.check().map_err(host::Error::from)?;
        // `check` has limited the rows to an `i32`.
        let ends = ends.iter().flat_map(|end| (*end as i32).to_ne_bytes()).collect();
        Ok(Self { problem, sizes, ends })
    }

    /// Rows of the smallest and of the largest group.
    pub fn least_and_most(&self) -> [u64; 2] {
        [self.sizes.iter().min(), self.sizes.iter().max()].map(|size| size.copied().unwrap_or(0))
    }
}

/// Generated operands of a product with groups.
pub struct Operands {
    pub groups: Groups,
    a: Vec<u8>,
    b: Vec<u8>,
}

impl Operands {
    /// Makes A and B, if there is memory for them.
    pub fn generate(groups: Groups, seed: u64) -> Result<Self, Error> {
        let problem = &groups.problem;
        let need = ['A', 'B', 'D'].map(|operand| problem.bytes(operand)).iter().sum();
        if let Some(have) = free_memory().filter(|have| need > *have) {
            let (m, n, k) = (problem.total_rows(), problem.n, problem.k);
            return Err(Error::Memory { m, n, k, need, have });
        }
        let make = |which: u64, operand| {
            let seed = seed.wrapping_mul(3).wrapping_add(which);
            encode(&normal(seed, (problem.bytes(operand) / 2) as usize), Dtype::Bf16)
        };
        let (a, b) = (make(0, 'A')?, make(1, 'B')?);
        Ok(Self { groups, a, b })
    }

    /// Runs the product. Returns D and the seconds of the run.
    pub fn run(
        &self,
        device: &Device,
        plan: &GroupedPlan,
        alpha: f32,
    ) -> Result<(Vec<u8>, f64), host::Error> {
        let (a, b) = (device.upload(&self.a)?, device.upload(&self.b)?);
        let ends = device.upload(&self.groups.ends)?;
        let mut d = device.alloc(self.groups.problem.bytes('D') as usize)?;
        // All bits set is NaN, so that the check finds elements that are not written.
        d.fill(0xff)?;
        device.synchronize()?;
        let start = Instant::now();
        plan.run(&a, &b, &ends, &mut d, alpha)?;
        device.synchronize()?;
        let seconds = start.elapsed().as_secs_f64();
        Ok((d.to_vec()?, seconds))
    }

    /// Compares each group of `d`. The relative error is that of the worst group.
    pub fn judge(&self, d: &[u8], alpha: f32) -> Result<Judged, host::Error> {
        let GroupedProblem { rows, n, k, .. } = self.groups.problem;
        let bound = bound(Dtype::Bf16, k);
        let (n, k) = (n as usize, k as usize);
        let mut worst: Option<Judged> = None;
        let mut follows = 0;
        for (group, &size) in self.groups.sizes.iter().enumerate() {
            let first = match rows {
                GroupedRows::Contiguous { .. } => follows,
                GroupedRows::Masked { max, .. } => group as u64 * max,
            };
            follows += size;
            let (first, m) = (first as usize, size as usize);
            let part = |bytes: &[u8], row: usize, rows: usize, columns: usize| {
                decode(&bytes[2 * row * columns..][..2 * rows * columns], Dtype::Bf16)
            };
            let (a, b) = (part(&self.a, first, m, k)?, part(&self.b, group * n, n, k)?);
            let product = Product { m, n, k, a: &a, b: &b, c: None, alpha, beta: 0.0 };
            let check = product.check(&part(d, first, m, n)?)?;
            let judged = Judged { check, bound, passed: check.below(bound) };
            match &mut worst {
                None => worst = Some(judged),
                Some(before) => before.add(&judged),
            }
        }
        worst.ok_or_else(|| host::gemm::GroupedError::NoGroups.into())
    }
}

impl Grouped<'_> {
    /// Runs the command.
    pub fn run(&self) -> Result<(), Error> {
        let progress = Progress::new(3);
        let groups = Groups::read(self.groups, self.masked, [self.n, self.k])?;
        let device = open(self.device, progress.model())?;
        let plan = Gemm::grouped(&device, &warpipe::GEMM_IMAGE)?.plan(&groups.problem)?;
        let operands =
            progress.step("generating the operands", || Operands::generate(groups, self.seed))?;
        let what = format!("multiplying on {}", device.describe());
        let (d, seconds) = progress.step(&what, || operands.run(&device, &plan, self.alpha))?;
        let check = if self.check {
            let what = "comparing with f64 products";
            Some(progress.step(what, || operands.judge(&d, self.alpha))?)
        } else {
            None
        };
        drop(progress);
        let report = Report {
            device: device.describe(),
            plan: plan.describe().clone(),
            alpha: self.alpha,
            rows: operands.groups.least_and_most(),
            empty: operands.groups.sizes.iter().filter(|size| **size == 0).count(),
            seconds,
            simulated: device.is_sim(),
            check,
        };
        say(&if self.json { serde_json::json!(report).to_string() } else { report.to_string() })?;
        check.map_or(Ok(()), |check| check.verdict(Dtype::Bf16, self.k))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.plan)?;
        let [least, most] = self.rows;
        writeln!(
            f,
            "  alpha {}, groups of {least} to {most} rows, {} empty",
            self.alpha, self.empty
        )?;
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
