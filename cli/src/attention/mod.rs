//! `warpipe attention`: attention forward, with operands from files or generated, on a GPU or on the SM model.

mod lengths;
pub mod operands;
pub mod shape;

use crate::args::{DeviceArg, TensorRef, operand_dtype};
use crate::error::Error;
use crate::gemm::open;
use crate::operands::file_dtype;
use crate::output::Output;
use crate::progress::Progress;
use crate::say;
use host::attention::{
    Attention, AttentionInfo, AttentionPlan, AttentionProblem, BoundAttention, Operand,
};
use host::data::decode;
use host::reference::{self, AttentionCheck};
use host::{Buffer, Device, Stream, ViewMut};
use isa::kernel::Dtype;
use operands::Operands;
use serde::Serialize;
use shape::{BatchArgs, Layout, ShapeArgs};
use std::fmt;
use std::path::Path;
use std::time::Instant;
use warpipe_bench::{BenchConfig, Contender, Timing, interleave, rotating_sets};

const FILES: &str = "Operands from files";
const RESULT: &str = "Result";
/// Default name of O in the output, and the name of LSE.
const O_NAME: &str = "o";
const LSE_NAME: &str = "lse";

/// Options of `warpipe attention`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Q from a .safetensors file, in the order of --layout
    #[arg(help_heading = FILES, long, value_name = "FILE:TENSOR", requires_all = ["k", "v"], conflicts_with_all = ["batch", "heads", "kv_heads", "seq", "seq_q", "head_dim", "page_size", "dtype", "seed"])]
    q: Option<TensorRef>,
    /// K from a .safetensors file
    #[arg(help_heading = FILES, long, value_name = "FILE:TENSOR", requires_all = ["q", "v"])]
    k: Option<TensorRef>,
    /// V from a .safetensors file
    #[arg(help_heading = FILES, long, value_name = "FILE:TENSOR", requires_all = ["q", "k"])]
    v: Option<TensorRef>,
    /// The pages of each sequence from a .safetensors file, i32 [batch, pages of a sequence]: K and V are [pages, rows of
    /// a page, heads, dim], and --cache-seqlens has the keys
    #[arg(help_heading = FILES, long, value_name = "FILE:TENSOR", requires_all = ["q", "cache_seqlens"])]
    block_table: Option<TensorRef>,
    #[command(flatten)]
    order: BatchArgs,
    #[command(flatten)]
    shape: ShapeArgs,
    /// Element type of generated operands: bf16 or f16 [default: bf16]
    #[arg(long, value_parser = operand_dtype)]
    dtype: Option<Dtype>,
    /// Seed of generated data [default: 0]
    #[arg(long)]
    seed: Option<u64>,
    /// Write O, and LSE as `lse`, to this .safetensors file [default TENSOR: o]. An existing file is replaced once the
    /// result is complete
    #[arg(help_heading = RESULT, long, value_name = "FILE[:TENSOR]")]
    out: Option<TensorRef>,
    /// Device: auto, cuda, cuda:N or sim. auto uses an sm_90 GPU if there is one, otherwise the SM model, and reports
    /// which
    #[arg(long, default_value = "auto")]
    device: DeviceArg,
    /// Compare with attention in f64 on the CPU; exit with 1 if the error is too large
    #[arg(help_heading = RESULT, long)]
    check: bool,
    /// Time it on the GPU: 30 samples, launched from a CUDA graph
    #[arg(help_heading = RESULT, long)]
    bench: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The report of a run, as `--json` prints it.
#[derive(Serialize)]
struct Report {
    plan: AttentionInfo,
    /// Seconds from the launch to the end of the kernel. On the SM model, this is the time of the model, which says
    /// nothing about a GPU.
    seconds: f64,
    simulated: bool,
    check: Option<AttentionCheck>,
    bench: Option<Timing>,
    /// Bytes of the keys and values that the sequences have.
    kv_bytes: u64,
    out: Option<String>,
}

/// O and LSE as bytes.
pub struct Results {
    pub o: Vec<u8>,
    pub lse: Option<Vec<u8>>,
}

/// Buffers of a run. O and LSE are NaN before it, so that a check finds elements that are not written.
struct Buffers {
    inputs: [Buffer; 3],
    block_table: Option<Buffer>,
    o: Buffer,
    lse: Option<Buffer>,
}

impl Buffers {
    fn new(device: &Device, operands: &Operands) -> Result<Self, host::Error> {
        let poisoned = |operand| {
            let mut buffer = device.alloc(operands.problem.bytes(operand)? as usize)?;
            buffer.fill(0xff)?;
            Ok::<_, host::Error>(buffer)
        };
        let [q, k, v] = &operands.data;
        let lse = operands.problem.lse.then(|| poisoned(Operand::Lse)).transpose()?;
        let inputs = [device.upload(q)?, device.upload(k)?, device.upload(v)?];
        let table = operands.block_table.as_ref();
        let bytes = table.map(|pages| pages.iter().flat_map(|page| page.to_le_bytes()));
        let block_table =
            bytes.map(|bytes| device.upload(&bytes.collect::<Vec<_>>())).transpose()?;
        Ok(Self { inputs, block_table, o: poisoned(Operand::O)?, lse })
    }

    fn bind<'p>(&mut self, plan: &'p AttentionPlan) -> Result<BoundAttention<'p>, host::Error> {
        let [q, k, v] = &self.inputs;
        let lse = self.lse.as_mut().map(ViewMut::from);
        match &self.block_table {
            Some(table) => plan.bind_paged(q, k, v, table, &mut self.o, lse),
            None => plan.bind(q, k, v, &mut self.o, lse),
        }
    }

    fn results(&self) -> Result<Results, host::Error> {
        let lse = self.lse.as_ref().map(Buffer::to_vec).transpose()?;
        Ok(Results { o: self.o.to_vec()?, lse })
    }
}

/// Runs a plan once. Returns the results and the seconds.
pub fn once(
    plan: &AttentionPlan,
    device: &Device,
    operands: &Operands,
) -> Result<(Results, f64), host::Error> {
    let mut buffers = Buffers::new(device, operands)?;
    let bound = buffers.bind(plan)?;
    device.synchronize()?;
    let start = Instant::now();
    bound.run(&device.stream())?;
    device.synchronize()?;
    let seconds = start.elapsed().as_secs_f64();
    drop(bound);
    Ok((buffers.results()?, seconds))
}

/// Compares results with attention in f64.
pub fn judge(operands: &Operands, results: &Results) -> Result<AttentionCheck, host::Error> {
    let problem = &operands.problem;
    let value = |bytes: &[u8]| decode(bytes, problem.dtype);
    let [q, k, v] = operands.data.each_ref().map(|bytes| value(bytes));
    let (q, k, v, o) = (q?, k?, v?, value(&results.o)?);
    let lse = results.lse.as_ref().map(|lse| decode(lse, Dtype::F32)).transpose()?;
    let check = |problem, k: &[f32], v: &[f32]| {
        reference::Attention { problem, q: &q, k, v }.check(&o, lse.as_deref())
    };
    match &operands.block_table {
        None => check(problem, &k, &v),
        Some(table) => {
            let all = reference::gather_pages(problem, table, &k, &v)?;
            check(&all.problem, &all.k, &all.v)
        }
    }
}

/// Most sets of operands in rotation.
const MOST_SETS: u64 = 256;

/// Attention bound to each set of operands, to be timed.
struct Runs<'p> {
    kernel: &'p str,
    sets: Vec<BoundAttention<'p>>,
}

impl Contender for Runs<'_> {
    fn name(&self) -> &str {
        self.kernel
    }
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), warpipe_bench::Error> {
        Ok(self.sets[set].run(stream)?)
    }
}

/// Times a plan with operands that are not in the L2 cache.
fn timed(plan: &AttentionPlan, device: &Device, operands: &Operands) -> Result<Timing, Error> {
    let l2_bytes = device.info().map_or(0, |info| info.l2_bytes);
    let count = rotating_sets(operands.data.iter().map(Vec::len).sum(), l2_bytes, MOST_SETS);
    let mut buffers =
        (0..count).map(|_| Buffers::new(device, operands)).collect::<Result<Vec<_>, _>>()?;
    let sets = buffers.iter_mut().map(|set| set.bind(plan)).collect::<Result<_, _>>()?;
    let mut runs = Runs { kernel: &plan.describe().kernel, sets };
    let flops = operands.problem.flops();
    let config = BenchConfig::default();
    let (mut timings, ..) = interleave(device, &mut [&mut runs], count, flops, &config)?;
    timings.pop().ok_or_else(|| Error::Usage("nothing was timed".to_owned()))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Error> {
    let progress = Progress::new(5);
    let output = args.output()?;
    let device = open(args.device, progress.model())?;
    if args.bench && device.is_sim() {
        return Err(host::Error::NotOnModel { what: "a benchmark" }.into());
    }
    let operands = progress.step("reading the operands", || args.operands())?;
    let attention = Attention::new(&device, &warpipe::GEMM_IMAGE)?;
    let plan = attention.plan(&operands.problem)?;
    let name = format!("attention on {}", device.describe());
    let (results, seconds) = progress.step(&name, || once(&plan, &device, &operands))?;
    let check = if args.check {
        Some(progress.step("comparing with attention in f64", || judge(&operands, &results))?)
    } else {
        None
    };
    let verdict = match check {
        Some(check) if !check.passed => Err(Error::AttentionCheck(check.to_string())),
        _ => Ok(()),
    };
    if let (Some(output), Ok(())) = (&output, &verdict) {
        write(output, &operands.problem, args.shape().layout(), &results)?;
    }
    let bench = match (args.bench, &verdict) {
        (true, Ok(())) => Some(progress.step("timing", || timed(&plan, &device, &operands))?),
        _ => None,
    };
    drop(progress);
    let report = Report {
        plan: plan.describe().clone(),
        seconds,
        simulated: device.is_sim(),
        check,
        bench,
        kv_bytes: kv_bytes(&operands.problem),
        out: output.filter(|_| verdict.is_ok()).map(|output| output.name()),
    };
    say(&if args.json { serde_json::json!(report).to_string() } else { report.to_string() })?;
    verdict
}

/// Bytes of the keys and values that the sequences have.
fn kv_bytes(problem: &AttentionProblem) -> u64 {
    let heads = problem.heads;
    let row = u64::from(heads.kv) * u64::from(heads.dim) * problem.dtype.size() as u64;
    2 * problem.sequences.keys() * row
}

/// Writes O and LSE.
fn write(
    output: &Output,
    problem: &AttentionProblem,
    layout: Layout,
    results: &Results,
) -> Result<(), Error> {
    let [batch, heads, rows, dim] = problem.sizes(Operand::O).map(|size| size as usize);
    let shape = match layout {
        Layout::Bshd => [batch, rows, heads, dim],
        Layout::Bhsd => [batch, heads, rows, dim],
    };
    let packed =
        usize::from(matches!(problem.sequences, host::attention::Sequences::Packed { .. }));
    let lse_shape = [batch, heads, rows];
    let lse = results
        .lse
        .as_ref()
        .map(|lse| (LSE_NAME, file_dtype(Dtype::F32), &lse_shape[packed..], &lse[..]));
    output.write_with(file_dtype(problem.dtype), &shape[packed..], &results.o, lse)
}

impl Args {
    /// The options of the problem.
    fn shape(&self) -> ShapeArgs {
        self.shape.in_order(self.order)
    }

    /// The output file, checked before any work.
    fn output(&self) -> Result<Option<Output>, Error> {
        let inputs: Vec<&Path> = [&self.q, &self.k, &self.v, &self.block_table]
            .into_iter()
            .flatten()
            .map(|t| t.file.as_path())
            .collect();
        if self.q.is_some() && self.out.is_none() && !self.check && !self.bench {
            let usage = "the result is not used: give --out FILE[:TENSOR], --check or --bench";
            return Err(Error::Usage(usage.to_owned()));
        }
        let output = self.out.as_ref().map(|out| Output::prepare_as(out, O_NAME, &inputs));
        let output = output.transpose()?;
        if self.shape.lse && output.as_ref().is_some_and(|output| output.tensor() == LSE_NAME) {
            let usage =
                "with --lse, the tensor `lse` of the output is the LSE: give O another name";
            return Err(Error::Usage(usage.to_owned()));
        }
        Ok(output)
    }

    fn operands(&self) -> Result<Operands, Error> {
        if let (Some(q), Some(k), Some(v)) = (&self.q, &self.k, &self.v) {
            return Operands::read([q, k, v], self.block_table.as_ref(), &self.shape());
        }
        let problem = self.shape().generated(self.dtype.unwrap_or(Dtype::Bf16))?;
        Operands::generate(problem, self.seed.unwrap_or(0))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.plan)?;
        if self.simulated {
            writeln!(
                f,
                "time    {:.2} s on the model (this says nothing about a GPU)",
                self.seconds
            )?;
        } else {
            writeln!(f, "time    {:.3} ms for one run, launch included", self.seconds * 1e3)?;
        }
        if let Some(check) = &self.check {
            let verdict = if check.passed { "passed" } else { "FAILED" };
            writeln!(f, "check   {verdict}: {check}")?;
        }
        if let Some(Timing { median_us, min_us, tflops, samples_us, .. }) = &self.bench {
            let samples = samples_us.len();
            writeln!(
                f,
                "bench   {median_us:.2} us (least {min_us:.2}), {tflops:.1} TFLOP/s over the visible pairs, {:.0} GB/s of keys and values; {samples} samples",
                self.kv_bytes as f64 / median_us / 1e3
            )?;
        }
        if let Some(file) = &self.out {
            writeln!(f, "result  {file}")?;
        }
        Ok(())
    }
}
