//! Times products with layouts and batches, in turn with cuBLASLt.

use crate::cublaslt::CublasLt;
use crate::cublaslt::strided::CublasLtStrided;
use crate::error::Error;
use crate::{BenchConfig, Contender, Timing, interleave};
use host::data::{decode, encode, normal};
use host::gemm::{
    BoundStrided, Layout, Order, StridedGemm, StridedInfo, StridedPlan, StridedProblem,
};
use host::reference::{Check, StridedProduct};
use host::{Buffer, Device, Dtype, Stream};
use serde::Serialize;

/// The products of the suite "layouts": the four layouts of large products, and batches of small ones.
#[must_use]
pub fn problems(dtype: Dtype) -> Vec<StridedProblem> {
    let sizes = [(1, 4096), (1, 8192), (8, 2048), (64, 512), (256, 128)];
    let order = Order::RowMajor;
    let of = |(batch, n)| {
        let (m, k, beta_c) = (n, n, false);
        Layout::ALL.map(|layout| StridedProblem { batch, m, n, k, dtype, layout, order, beta_c })
    };
    sizes.into_iter().flat_map(of).collect()
}

/// The measurement of one product.
#[derive(Clone, Debug, Serialize)]
pub struct StridedLine {
    /// The plan.
    pub plan: StridedInfo,
    /// The times.
    pub timing: Timing,
    /// Comparison of the first result with the f64 products.
    pub check: Check,
    /// Times of the kernel that cuBLASLt's heuristic proposes first, if cuBLASLt took part.
    pub cublaslt: Option<Timing>,
}

impl StridedLine {
    /// Speed as a multiple of cuBLASLt's.
    pub fn ratio(&self) -> Option<f64> {
        self.cublaslt.as_ref().map(|theirs| theirs.median_us / self.timing.median_us)
    }
}

/// Operands and result of one launch.
struct Set {
    a: Buffer,
    b: Buffer,
    d: Buffer,
}

struct Ours<'p>(Vec<BoundStrided<'p>>);

impl Contender for Ours<'_> {
    fn name(&self) -> &'static str {
        "warpipe"
    }
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), Error> {
        Ok(self.0[set].run(1.0, 0.0, stream)?)
    }
}

struct Theirs<'s> {
    plan: CublasLtStrided,
    sets: &'s [Set],
    results: Vec<Buffer>,
}

impl Contender for Theirs<'_> {
    fn name(&self) -> &'static str {
        "cuBLASLt"
    }
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), Error> {
        let Set { a, b, .. } = &self.sets[set];
        self.plan.run([a, b], &mut self.results[set], stream)
    }
}

/// Checks a product and times it, in turn with cuBLASLt if it is there.
///
/// The sets of operands in rotation are together three times as large as the L2 cache, and at most 16.
///
/// # Errors
/// [`host::Error::NotOnModel`] on the SM model; errors of the plan, of cuBLASLt and of the launches.
pub fn measure(
    device: &Device,
    gemm: &StridedGemm,
    lt: Option<&CublasLt>,
    problem: &StridedProblem,
    config: &BenchConfig,
) -> Result<StridedLine, Error> {
    let info = device.info().ok_or(host::Error::NotOnModel { what: "a benchmark" })?;
    let bytes: u64 = ['A', 'B', 'D'].iter().map(|&operand| problem.bytes(operand)).sum();
    let sets = (3 * info.l2_bytes).div_ceil(bytes.max(1)).clamp(1, 16) as usize;
    let size = problem.dtype.size() as u64;
    let values = |operand, seed| {
        let count = (problem.bytes(operand) / size) as usize;
        encode(&normal(config.seed.wrapping_mul(3).wrapping_add(seed), count), problem.dtype)
    };
    let (a, b) = (values('A', 0)?, values('B', 1)?);
    let result = || device.alloc(problem.bytes('D') as usize);
    let set = || Ok::<_, Error>(Set { a: device.upload(&a)?, b: device.upload(&b)?, d: result()? });
    let mut operands = (0..sets).map(|_| set()).collect::<Result<Vec<_>, _>>()?;

    let plan: StridedPlan = gemm.plan(problem)?;
    let first = &mut operands[0];
    first.d.fill(0xff)?;
    plan.run(&first.a, &first.b, None, &mut first.d, 1.0, 0.0)?;
    let read = |bytes: &[u8]| decode(bytes, problem.dtype);
    let (a, b) = (read(&a)?, read(&b)?);
    let problem = *problem;
    let product = StridedProduct { problem, a: &a, b: &b, c: None, alpha: 1.0, beta: 0.0 };
    let check = product.check(&read(&first.d.to_vec()?)?)?;

    let bind = |set: &mut Set| plan.bind(&set.a, &set.b, None, &mut set.d);
    let mut ours = Ours(operands.iter_mut().map(bind).collect::<Result<_, _>>()?);
    let theirs = lt.map(|lt| lt.plan_strided(&problem)).transpose()?;
    let mut theirs = match theirs {
        None => None,
        Some(plan) => {
            let results = (0..sets).map(|_| result()).collect::<Result<_, _>>()?;
            Some(Theirs { plan, sets: &operands, results })
        }
    };
    let mut contenders: Vec<&mut dyn Contender> = vec![&mut ours];
    contenders.extend(theirs.as_mut().map(|theirs| theirs as &mut dyn Contender));
    let (timings, ..) = interleave(device, &mut contenders, sets, problem.flops(), config)?;
    let mut timings = timings.into_iter();
    let timing = timings.next().ok_or(Error::Setting { what: "contenders", value: 0, least: 1 })?;
    let plan = plan.describe().clone();
    Ok(StridedLine { plan, timing, check, cublaslt: timings.next() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_of_the_suite_is_in_all_layouts() {
        let problems = problems(Dtype::F16);
        assert_eq!(problems.len() % 4, 0);
        for four in problems.chunks(4) {
            let layouts: Vec<_> = four.iter().map(|problem| problem.layout).collect();
            assert_eq!(layouts, Layout::ALL);
            assert!(four.iter().all(|problem| problem.m == four[0].m && problem.check().is_ok()));
        }
    }
}
