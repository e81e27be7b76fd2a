//! `warpipe bench --suite layouts`: the four layouts of operands, and batches.

use super::Args;
use super::measure::{config, rival};
use super::own::Suite;
use crate::check::bound;
use crate::error::Error;
use host::Dtype;
use host::gemm::{Gemm, StridedProblem};
use std::fmt;
use warpipe_bench::Timing;
use warpipe_bench::strided::{StridedLine, measure, problems};

/// The name of the suite.
pub const SUITE: &str = "layouts";

/// A product with its name.
#[derive(Clone, Copy)]
struct Named(StridedProblem);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StridedProblem { batch, m, n, k, layout, .. } = self.0;
        write!(f, "{layout} {batch}x{m}x{n}x{k}")
    }
}

/// Times the suite and prints a line for each product.
pub fn run(args: &Args) -> Result<(), Error> {
    let types = args.types()?;
    if types.ab == Dtype::E4m3 || types.out != types.ab {
        let usage = "the suite layouts has operands and results of bf16, or all of f16";
        return Err(Error::Usage(usage.to_owned()));
    }
    let suite = Suite::new(args, SUITE)?;
    let all: Vec<Named> = problems(types.ab).into_iter().map(Named).collect();
    let chosen = suite.chosen(&all)?;
    let device = suite.device()?;
    let gemm = Gemm::strided(&device, &warpipe::GEMM_IMAGE)?;
    let (lt, absent) = rival(args, &device)?;
    if let Some(why) = absent {
        suite.tell(&why)?;
    }
    let mut lines: Vec<StridedLine> = Vec::with_capacity(chosen.len());
    for problem in &chosen {
        let line = measure(&device, &gemm, lt.as_ref(), &problem.0, &config(args))?;
        let time = |t: &Timing| format!("{:9.2} us {:7.1} TFLOP/s", t.median_us, t.tflops);
        let kernel = line.plan.kernel.as_ref().map_or("", |kernel| kernel.name.as_str());
        let theirs = line.cublaslt.as_ref().zip(line.ratio());
        let theirs = theirs.map(|(t, ratio)| format!("  cuBLASLt {}  ratio {ratio:.3}", time(t)));
        let (name, ours) = (format!("{SUITE} {problem}"), time(&line.timing));
        suite.tell(&format!("{name:32} {ours}{}  {kernel}", theirs.unwrap_or_default()))?;
        if !line.check.below(bound(problem.0.dtype, problem.0.k)) {
            return Err(Error::Wrong(format!("{name}: {}", line.check)));
        }
        lines.push(line);
    }
    suite.write(&lines)
}
