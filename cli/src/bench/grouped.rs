//! `warpipe bench --suite grouped`: products with groups of rows.

use super::Args;
use super::measure::config;
use super::own::Suite;
use crate::check::bound;
use crate::error::Error;
use host::Dtype;
use host::gemm::Gemm;
use warpipe_bench::Timing;
use warpipe_bench::grouped::{GroupedBench, GroupedLine, SHAPES};

/// The name of the suite.
pub const SUITE: &str = "grouped";

/// Times the suite and prints a line for each product.
pub fn run(args: &Args) -> Result<(), Error> {
    let types = args.types()?;
    if (types.ab, types.out) != (Dtype::Bf16, Dtype::Bf16) {
        let usage = "the suite grouped has operands and results of bf16";
        return Err(Error::Usage(usage.to_owned()));
    }
    let suite = Suite::new(args, SUITE)?;
    let shapes = suite.chosen(&SHAPES)?;
    let device = suite.device()?;
    let grouped = Gemm::grouped(&device, &warpipe::GEMM_IMAGE)?;
    let plain = Gemm::new(&device, &warpipe::GEMM_IMAGE)?;
    suite.tell("cuBLASLt has no product of groups: each line compares with a plain product for each group with rows")?;
    let bench = GroupedBench::new(&device, args.seed, &shapes)?;
    let mut lines: Vec<GroupedLine> = Vec::with_capacity(shapes.len());
    for shape in &shapes {
        let line = bench.measure(&grouped, &plain, shape, &config(args))?;
        let name = format!("{SUITE} {shape}");
        suite.tell(&row(&name, &line))?;
        if !line.check.below(bound(Dtype::Bf16, shape.k)) {
            return Err(Error::Wrong(format!("{name}: {}", line.check)));
        }
        if !line.same_bits {
            let instance = line.plan.kernel.map_or_else(String::new, |kernel| kernel.name);
            return Err(Error::Bits { shape: shape.to_string(), instance });
        }
        lines.push(line);
    }
    suite.write(&lines)
}

/// A product: its time, that of the plain products, and the ratio.
fn row(name: &str, line: &GroupedLine) -> String {
    let time = |t: &Timing| format!("{:9.2} us {:7.1} TFLOP/s", t.median_us, t.tflops);
    let kernel = line.plan.kernel.as_ref().map_or("", |kernel| kernel.name.as_str());
    let (ours, plain, ratio) = (time(&line.timing), time(&line.plain), line.ratio());
    format!("{name:35} {ours}  plain products {plain}  ratio {ratio:.3}  {kernel}")
}
