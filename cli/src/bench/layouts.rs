//! `warpipe bench --suite layouts`: the four layouts of operands, and batches.

use super::measure::{config, rival};
use super::{Args, STDOUT};
use crate::check::bound;
use crate::error::Error;
use crate::output::Place;
use crate::say;
use host::gemm::Gemm;
use host::{Device, Dtype};
use warpipe_bench::Timing;
use warpipe_bench::strided::{StridedLine, measure, problems};

/// The name of the suite.
pub const SUITE: &str = "layouts";

/// Times the suite and prints a line for each product.
pub fn run(args: &Args) -> Result<(), Error> {
    if args.suite.len() > 1 || !args.shape.is_empty() {
        let usage =
            "the suite layouts has lines of its own: time it without other suites and shapes";
        return Err(Error::Usage(usage.to_owned()));
    }
    let dtype = args.types()?.ab;
    if dtype == Dtype::E4m3 || args.out_dtype.is_some_and(|out| out != dtype) {
        let usage = "the suite layouts has operands and results of bf16, or all of f16";
        return Err(Error::Usage(usage.to_owned()));
    }
    let to_stdout = args.json.as_ref().is_some_and(|file| file.as_os_str() == STDOUT);
    let file = args.json.as_ref().filter(|_| !to_stdout);
    let file = file.map(|file| Place::prepare(file, &[])).transpose()?;
    let tell = |text: &str| if to_stdout { Ok(()) } else { say(text) };
    let device = Device::cuda(0)?;
    let gemm = Gemm::strided(&device, &warpipe::GEMM_IMAGE)?;
    let (lt, absent) = rival(args, &device)?;
    if let Some(why) = absent {
        tell(&format!("{why}\n"))?;
    }
    let name = |p: &host::gemm::StridedProblem| {
        format!("{SUITE} {} {}x{}x{}x{}", p.layout, p.batch, p.m, p.n, p.k)
    };
    let kept = |p: &host::gemm::StridedProblem| {
        args.only.as_ref().is_none_or(|text| name(p).contains(text.as_str()))
    };
    let mut lines: Vec<StridedLine> = Vec::new();
    for problem in problems(dtype).iter().filter(|problem| kept(problem)) {
        let line = measure(&device, &gemm, lt.as_ref(), problem, &config(args))?;
        let time = |t: &Timing| format!("{:9.2} us {:7.1} TFLOP/s", t.median_us, t.tflops);
        let kernel = line.plan.kernel.as_ref().map_or("", |kernel| kernel.name.as_str());
        let theirs = line.cublaslt.as_ref().zip(line.ratio());
        let theirs = theirs.map(|(t, ratio)| format!("  cuBLASLt {}  ratio {ratio:.3}", time(t)));
        let (name, ours) = (name(problem), time(&line.timing));
        tell(&format!("{name:32} {ours}{}  {kernel}\n", theirs.unwrap_or_default()))?;
        if !line.check.below(bound(problem.dtype, problem.k)) {
            return Err(Error::Wrong(format!("{name}: {}", line.check)));
        }
        lines.push(line);
    }
    let text = serde_json::json!({ "suite": SUITE, "lines": lines }).to_string();
    if to_stdout {
        say(&text)?;
    }
    file.map_or(Ok(()), |place| place.write(text.as_bytes()))
}
