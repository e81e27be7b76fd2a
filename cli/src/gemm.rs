//! `warpipe gemm`: one product, with operands from files or generated, on a GPU or on the SM model.

use super::args::{DeviceArg, OperandTypes, ScaleArg, TensorRef, finite, gemm_result_dtype};
use super::array::Array;
use super::check::{Judged, with_product};
use super::error::Error;
use super::grouped::Grouped;
use super::layer::{Epilogue, Layer};
use super::operands::{Generate, Operands, default_result, file_dtype};
use super::output::Output;
use super::progress::Progress;
use super::say;
use super::scaled::{self, ScaleOf, ScalesOf};
use super::scaled_plan::{Planned, Ways};
use super::strided;
use super::tune::{TuneArgs, Tuner};
use host::gemm::{Gemm, GemmProblem, PlanInfo};
use host::reference::FULL;
use host::{Buffer, Device, SimConfig, View};
use isa::kernel::Dtype;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

const FILES: &str = "Operands from files";
const GENERATED: &str = "Generated operands";
const RESULT: &str = "Result";
const GROUPS: &str = "Groups";
const QUANTISED: &str = "Operands of 8 bits";

/// Options of `warpipe gemm`.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools)] // Options that do not depend on each other.
pub struct Args {
    /// A [M, K] from a .safetensors file, for example a batch of activations
    #[arg(help_heading = FILES, long, value_name = "FILE:TENSOR", requires = "b", conflicts_with_all = ["m", "n", "k", "dtype", "seed"])]
    a: Option<TensorRef>,
    /// B [N, K] from a .safetensors file, for example a Linear layer's weight
    #[arg(help_heading = FILES, long, value_name = "FILE:TENSOR", requires = "a")]
    b: Option<TensorRef>,
    /// C [M, N] from a .safetensors file, of the result's type; needed by --beta
    #[arg(help_heading = FILES, long, value_name = "FILE:TENSOR", requires = "a")]
    c: Option<TensorRef>,
    /// The bias of --epilogue, of N values, from a .safetensors file, of the operands' type
    #[arg(help_heading = FILES, long, value_name = "FILE:TENSOR", requires = "epilogue")]
    bias: Option<TensorRef>,
    /// Rows of a generated A
    #[arg(help_heading = GENERATED, long, value_name = "M", requires = "n", requires = "k")]
    m: Option<u64>,
    /// Rows of a generated B
    #[arg(help_heading = GENERATED, long, value_name = "N", requires = "k")]
    n: Option<u64>,
    /// Columns of a generated A and B
    #[arg(help_heading = GENERATED, long, value_name = "K", requires = "n")]
    k: Option<u64>,
    /// Element type of generated A and B: bf16, f16, tf32 (f32 in memory), int8, e4m3, e5m2, or a mix of A and B: e5m2xe4m3,
    /// e4m3xe5m2 [default: bf16]
    #[arg(help_heading = GENERATED, long)]
    dtype: Option<OperandTypes>,
    /// Seed of generated data [default: 0]
    #[arg(help_heading = GENERATED, long)]
    seed: Option<u64>,
    /// Rows of groups of a generated A, one number on each line: each group has its own B, and D = A * B^T of its group, as
    /// for the experts of a mixture (torch._grouped_mm). A line may be 0
    #[arg(help_heading = GROUPS, long, value_name = "FILE", requires = "n", requires = "k", conflicts_with_all = ["a", "m", "beta", "epilogue", "scales", "fast_accum", "out", "out_dtype", "dtype"])]
    groups: Option<PathBuf>,
    /// Give each group room for this many rows of A and D, of which it has those that --groups says
    #[arg(help_heading = GROUPS, long, value_name = "MAXROWS", requires = "groups")]
    masked: Option<u64>,
    /// Sizes of products of their own, "M N K" on each line, whose operands are generated: all of them in one launch, as
    /// CUTLASS's grouped GEMM of pointer arrays. M, N and K of a line may be 0, and N is a multiple of 8
    #[arg(help_heading = GROUPS, long, value_name = "FILE", conflicts_with_all = ["a", "m", "n", "k", "groups", "beta", "epilogue", "scales", "fast_accum", "d_scale", "amax", "out", "out_dtype", "dtype"])]
    problems: Option<PathBuf>,
    /// Scales of A from a file: a number, or f32 values in a .safetensors file, one or M of them, or [M, K/128] with --scales
    /// block [default: 1]
    #[arg(help_heading = QUANTISED, long, value_name = "X|FILE:TENSOR", requires = "a", allow_hyphen_values = true)]
    a_scale: Option<ScaleArg>,
    /// Scales of B from a file: a number, or f32 values in a .safetensors file, one or N of them, or [N/128, K/128] with
    /// --scales block [default: 1]
    #[arg(help_heading = QUANTISED, long, value_name = "X|FILE:TENSOR", requires = "b", allow_hyphen_values = true)]
    b_scale: Option<ScaleArg>,
    /// What has a scale of its own [default: tensor, or in files what the number of scales says, but never block]
    #[arg(help_heading = QUANTISED, long, value_name = "WHAT")]
    scales: Option<ScaleOf>,
    /// Keep the sums in the tensor cores, which keep them short. Otherwise each 128 of K are added up in f32
    #[arg(help_heading = QUANTISED, long)]
    fast_accum: bool,
    /// Scale of a result of e4m3: each is multiplied by it before it is rounded (scale_result of torch._scaled_mm)
    #[arg(help_heading = QUANTISED, long, value_name = "X", value_parser = finite, allow_hyphen_values = true)]
    d_scale: Option<f32>,
    /// Report the largest magnitude of a result of e4m3, before its scale
    #[arg(help_heading = QUANTISED, long)]
    amax: bool,
    /// Multiply operands of f32 from files as tf32, with ten bits of fraction
    #[arg(help_heading = FILES, long, requires = "a")]
    allow_tf32: bool,
    /// Factor of the product
    #[arg(help_heading = RESULT, long, value_parser = finite, default_value = "1", allow_hyphen_values = true, value_name = "X")]
    alpha: f32,
    /// Factor of C [default: 1 with --c, otherwise 0]; with generated A and B, C is generated too
    #[arg(help_heading = RESULT, long, value_parser = finite, allow_hyphen_values = true, value_name = "X")]
    beta: Option<f32>,
    /// What becomes of the product: bias, an activation (relu, silu, gelu, gelu-tanh, swiglu, geglu, geglu-tanh) and
    /// residual, in this order, for example bias+gelu+residual. A residual is C, added behind the activation. With
    /// swiglu and geglu the result has N / 2 columns: rows of B come in blocks of 8, gates and then what belongs to them
    #[arg(help_heading = RESULT, long, value_name = "LINKS")]
    epilogue: Option<Epilogue>,
    /// Element type of the result: bf16, f16, f32, e4m3 or int32 [default: that of A and B, bf16 for e4m3 and e5m2, int32 for
    /// int8, f32 for tf32]
    #[arg(help_heading = RESULT, long, value_parser = gemm_result_dtype, value_name = "DTYPE")]
    out_dtype: Option<Dtype>,
    /// Write the result to this .safetensors file [default TENSOR: d]; needed with --a and --b
    /// unless --check is given. An existing file is replaced once the result is complete
    #[arg(help_heading = RESULT, long, value_name = "FILE[:TENSOR]")]
    out: Option<TensorRef>,
    /// Device: auto, cuda, cuda:N or sim. auto uses an sm_90 GPU if there is one, otherwise the SM
    /// model, and reports which
    #[arg(long, default_value = "auto")]
    device: DeviceArg,
    /// Compare with an f64 product on the CPU; exit with 1 if the error is too large
    #[arg(help_heading = RESULT, long)]
    check: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    strided: strided::Options,
    #[command(flatten)]
    tuning: TuneArgs,
}

/// The report of a run, as `--json` prints it.
#[derive(Serialize)]
struct Report {
    device: String,
    plan: PlanInfo,
    alpha: f32,
    beta: f32,
    epilogue: Option<String>,
    /// Seconds from the launch to the end of the last copy on the device. On the SM model, this is the
    /// time of the model, which says nothing about a GPU.
    seconds: f64,
    simulated: bool,
    /// The largest magnitude of a result of e4m3, before its scale.
    amax: Option<f32>,
    /// Whether `--check` compared `amax` with that of the f64 product. Beyond [`FULL`] multiplications it does not.
    amax_compared: Option<bool>,
    check: Option<Judged>,
    out: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Error> {
    if args.strided.any() {
        return args.strided();
    }
    if let Some(array) = args.array()? {
        return array.run();
    }
    if let Some(grouped) = args.grouped()? {
        return grouped.run();
    }
    let progress = Progress::new(4);
    let output = args.output()?;
    let mut tuner = Tuner::new(&args.tuning)?;
    let device = open(args.device, progress.model())?;
    let (operands, scales) = progress.step("reading the operands", || args.operands())?;
    let problem = operands.problem;
    let beta = args.beta.unwrap_or(if problem.beta_c { 1.0 } else { 0.0 });

    let layer = match &args.epilogue {
        Some(epilogue) => {
            Some(Layer::new(epilogue, args.bias.as_ref(), &operands, [args.alpha, beta])?)
        }
        None => None,
    };
    let columns = layer.as_ref().map_or(problem.n, |layer| layer.columns(&problem));

    let what = format!("multiplying on {}", device.describe());
    let mut amax = None;
    let (plan, d, seconds) = if let Some(layer) = &layer {
        if tuner.is_some() {
            return Err(Error::Usage("a tune cache has no products with --epilogue".to_owned()));
        }
        progress.step(&what, || layer.run(&device, &operands))?
    } else if let Some(scales) = &scales {
        if tuner.is_some() {
            let usage = "a tune cache has no products of operands of 8 bits";
            return Err(Error::Usage(usage.to_owned()));
        }
        let mut planned = Planned::new(&device, &operands, scales, args.ways(beta))?;
        let run = |a: &Buffer, b: &Buffer, d: &mut Buffer| planned.run(a, b, d);
        let (d, seconds) = progress.step(&what, || timed(&device, &operands, columns, run))?;
        amax = planned.amax()?;
        (planned.describe().clone(), d, seconds)
    } else {
        let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE)?;
        let plan = match &mut tuner {
            Some(tuner) => tuner.plan(&device, &gemm, &problem, None)?,
            None => gemm.plan(&problem)?,
        };
        let c = operands.c.as_ref().map(|c| device.upload(&c.data)).transpose()?;
        let run = |a: &Buffer, b: &Buffer, d: &mut Buffer| {
            plan.run(a, b, c.as_ref().map(View::from), d, args.alpha, beta)
        };
        let (d, seconds) = progress.step(&what, || timed(&device, &operands, columns, run))?;
        (plan.describe().clone(), d, seconds)
    };

    let judge = || match (&layer, &scales) {
        (Some(layer), _) => layer.judge(&operands, &d),
        (None, None) => Judged::new(&operands, args.alpha, beta, &d),
        (None, Some(ScalesOf { a, b, .. })) => {
            let bound = scaled::bound(problem.out, args.fast_accum);
            let alpha = args.alpha * args.d_scale.unwrap_or(1.0);
            Judged::with_scales(&operands, [a, b], [alpha, beta], &d, bound)
        }
    };
    let check = if args.check {
        Some(progress.step("comparing with an f64 product", judge)?)
    } else {
        None
    };
    let mut verdict = check.map_or(Ok(()), |check| check.verdict(problem.out, problem.k));
    let mut amax_compared = None;
    if let (true, Some(value), Some(scales)) = (args.check, amax, &scales) {
        let judged = judge_amax(&operands, scales, args, value)?;
        amax_compared = Some(judged.is_some());
        verdict = verdict.and(judged.unwrap_or(Ok(())));
    }
    // A result that failed its check is not written.
    if let (Some(output), Ok(())) = (&output, &verdict) {
        let shape = [problem.m as usize, columns as usize];
        progress.step("writing", || output.write(file_dtype(problem.out), shape, &d))?;
    }
    drop(progress);
    let report = Report {
        device: device.describe(),
        plan,
        alpha: args.alpha,
        beta,
        epilogue: args.epilogue.as_ref().map(Epilogue::to_string),
        seconds,
        simulated: device.is_sim(),
        amax,
        amax_compared,
        check,
        out: output.filter(|_| verdict.is_ok()).map(|output| output.name()),
    };
    say(&if args.json { report.json() } else { report.to_string() })?;
    verdict
}

/// Whether `value` is the maximum `right`, but for a fraction `bound` of it. NaN is the maximum of results with a NaN alone.
fn same_amax(value: f32, right: f64, bound: f64) -> bool {
    let value = f64::from(value);
    let near = right.is_finite() && (value - right).abs() <= bound * right;
    near || (value.is_nan() && right.is_nan())
}

/// What a report says behind a maximum that `--check` did not compare.
fn not_compared(amax_compared: Option<bool>) -> String {
    match amax_compared {
        Some(false) => {
            format!(" (not compared: its f64 product has over {FULL:.0e} multiplications)")
        }
        _ => String::new(),
    }
}

/// Compares the maximum of a result with that of the f64 product. `None` if that is too large to compute.
fn judge_amax(
    operands: &Operands,
    scales: &ScalesOf,
    args: &Args,
    value: f32,
) -> Result<Option<Result<(), Error>>, Error> {
    let factors = [args.alpha, 0.0];
    let reference = with_product(operands, [&scales.a, &scales.b], factors, |p| p.amax())?;
    // The error of a sum, relative to the largest one.
    let bound = scaled::bound(Dtype::F32, args.fast_accum);
    Ok(reference.map(|reference| {
        if same_amax(value, reference, bound) {
            Ok(())
        } else {
            Err(Error::Amax { value, reference })
        }
    }))
}

/// Uploads A and B, runs the product, and returns D, of so many columns, and the seconds of the run.
pub fn timed(
    device: &Device,
    operands: &Operands,
    columns: u64,
    run: impl FnOnce(&Buffer, &Buffer, &mut Buffer) -> Result<(), host::Error>,
) -> Result<(Vec<u8>, f64), host::Error> {
    let (a, b) = (device.upload(&operands.a.data)?, device.upload(&operands.b.data)?);
    let problem = GemmProblem { n: columns, ..operands.problem };
    let mut d = device.alloc(problem.bytes('D') as usize)?;
    // All bits set is NaN in every type, so that the check finds elements that are not written.
    d.fill(0xff)?;
    device.synchronize()?;
    let start = Instant::now();
    run(&a, &b, &mut d)?;
    device.synchronize()?;
    let seconds = start.elapsed().as_secs_f64();
    Ok((d.to_vec()?, seconds))
}

/// Opens the device that an option names. `model` configures the SM model.
pub fn open(device: DeviceArg, model: SimConfig) -> Result<Device, Error> {
    match device {
        DeviceArg::Auto => Ok(Device::auto_with(model)),
        DeviceArg::Sim => Ok(Device::sim(model)),
        DeviceArg::Cuda(index) => Ok(Device::cuda(index)?),
    }
}

impl Args {
    /// A product with layouts or a batch.
    fn strided(&self) -> Result<(), Error> {
        let (Some(m), Some(n), Some(k)) = (self.m, self.n, self.k) else {
            let usage = "--layout, --batch and --column-major are for generated operands: give --m, --n and --k";
            return Err(Error::Usage(usage.to_owned()));
        };
        let types = self.dtype.unwrap_or(OperandTypes::of(Dtype::Bf16));
        let dtype = types.a;
        let others = [
            ("--beta", self.beta.is_some()),
            ("--epilogue", self.epilogue.is_some()),
            ("--out-dtype", self.out_dtype.is_some_and(|out| out != dtype)),
            ("--out", self.out.is_some()),
            ("--scales", self.scales.is_some()),
            ("--fast-accum", self.fast_accum),
            ("--d-scale", self.d_scale.is_some()),
            ("--amax", self.amax),
            ("mix of types", types.a != types.b),
            ("--tune or --tune-cache", Tuner::new(&self.tuning)?.is_some()),
        ];
        if let Some((option, _)) = others.into_iter().find(|(_, given)| *given) {
            let usage = format!(
                "products with --layout, --batch or --column-major have no {option}: omit it"
            );
            return Err(Error::Usage(usage));
        }
        let run = strided::Run {
            problem: self.strided.problem([m, n, k], dtype),
            seed: self.seed.unwrap_or(0),
            alpha: self.alpha,
            device: self.device,
            check: self.check,
            json: self.json,
        };
        run.run()
    }

    /// The pointer array, if there is one.
    fn array(&self) -> Result<Option<Array<'_>>, Error> {
        let Some(problems) = &self.problems else { return Ok(None) };
        if Tuner::new(&self.tuning)?.is_some() {
            return Err(Error::Usage("a tune cache has no products with --problems".to_owned()));
        }
        Ok(Some(Array {
            problems,
            seed: self.seed.unwrap_or(0),
            alpha: self.alpha,
            device: self.device,
            check: self.check,
            json: self.json,
        }))
    }

    /// The grouped product, if there is one.
    fn grouped(&self) -> Result<Option<Grouped<'_>>, Error> {
        let (Some(groups), Some(n), Some(k)) = (&self.groups, self.n, self.k) else {
            return Ok(None);
        };
        if Tuner::new(&self.tuning)?.is_some() {
            return Err(Error::Usage("a tune cache has no products with --groups".to_owned()));
        }
        Ok(Some(Grouped {
            groups,
            masked: self.masked,
            n,
            k,
            seed: self.seed.unwrap_or(0),
            alpha: self.alpha,
            device: self.device,
            check: self.check,
            json: self.json,
        }))
    }

    /// The output file, checked before any work.
    fn output(&self) -> Result<Option<Output>, Error> {
        let inputs: Vec<&Path> = [&self.a, &self.b, &self.c, &self.bias]
            .into_iter()
            .flatten()
            .map(|t| t.file.as_path())
            .collect();
        if self.a.is_some() && self.out.is_none() && !self.check {
            let usage = "the result is not used: give --out FILE[:TENSOR], --check or both";
            return Err(Error::Usage(usage.to_owned()));
        }
        self.out.as_ref().map(|out| Output::prepare(out, &inputs)).transpose()
    }

    /// The options of a product of operands of 8 bits.
    fn ways(&self, beta: f32) -> Ways {
        let Self { alpha, fast_accum, d_scale, amax, .. } = *self;
        Ways { alpha, beta, fast_accum, d_scale, amax }
    }

    /// The operands, and the scales of those of 8 bits.
    fn operands(&self) -> Result<(Operands, Option<ScalesOf>), Error> {
        if let (Some(a), Some(b)) = (&self.a, &self.b) {
            if self.beta.is_some() && self.c.is_none() {
                let usage = "--beta is a factor of C: give --c FILE:TENSOR, or omit --beta";
                return Err(Error::Usage(usage.to_owned()));
            }
            let operands = Operands::read(a, b, self.c.as_ref(), self.out_dtype, self.allow_tf32)?;
            let problem = operands.problem;
            let types = OperandTypes { a: operands.a.dtype, b: operands.b.dtype };
            self.check_options(&problem, types)?;
            if !types.have_scales() {
                return Ok((operands, None));
            }
            let GemmProblem { m, n, k, .. } = problem;
            let a = scaled::read('A', self.a_scale.as_ref(), [m, k], self.scales)?;
            let b = scaled::read('B', self.b_scale.as_ref(), [n, k], self.scales)?;
            // In a file the number of the values says whether rows have scales.
            let of = self.scales.unwrap_or(ScaleOf::Row);
            return Ok((operands, Some(ScalesOf { a, b, of })));
        }
        let (Some(m), Some(n), Some(k)) = (self.m, self.n, self.k) else {
            let usage =
                "no operands: give --a and --b FILE:TENSOR, or --m, --n and --k for generated data";
            return Err(Error::Usage(usage.to_owned()));
        };
        let types = self.dtype.unwrap_or(OperandTypes::of(Dtype::Bf16));
        let ab = types.a;
        let out = self.out_dtype.unwrap_or(default_result(ab));
        let residual = self.epilogue.as_ref().is_some_and(|epilogue| epilogue.residual);
        let beta_c = self.beta.is_some() || residual;
        let problem = GemmProblem { m, n, k, ab, out, beta_c };
        self.check_options(&problem, types)?;
        let generate = Generate { problem, seed: self.seed.unwrap_or(0) };
        if !types.have_scales() {
            return Ok((Operands::generate(generate)?, None));
        }
        let (operands, scales) =
            scaled::generate(generate, types, self.scales.unwrap_or(ScaleOf::Tensor))?;
        Ok((operands, Some(scales)))
    }

    /// Refuses options that are not for operands and results of these types.
    fn check_options(&self, problem: &GemmProblem, types: OperandTypes) -> Result<(), Error> {
        let usage = |text: &str| Err(Error::Usage(text.to_owned()));
        if (self.d_scale.is_some() || self.amax)
            && !(types.are_e4m3() && problem.out == Dtype::E4m3)
        {
            return usage("--d-scale and --amax are for operands of e4m3 and --out-dtype e4m3");
        }
        if types.have_scales() && self.epilogue.is_some() {
            return usage("operands of 8 bits have no --epilogue: omit it");
        }
        if problem.ab == Dtype::Tf32
            && (self.epilogue.is_some() || Tuner::new(&self.tuning)?.is_some())
        {
            return usage("products of tf32 have no --epilogue and no tune cache: omit the option");
        }
        if !types.have_scales() {
            let options = [
                ("--a-scale", self.a_scale.is_some()),
                ("--b-scale", self.b_scale.is_some()),
                ("--scales", self.scales.is_some()),
                ("--fast-accum", self.fast_accum),
            ];
            return scaled::refuse_without_scales(problem.ab, &options);
        }
        let block = self.scales == Some(ScaleOf::Block);
        let scales = self.a_scale.is_some() || self.b_scale.is_some() || self.scales.is_some();
        if block && !types.are_e4m3() {
            return usage("block scales are for operands of e4m3: give --scales tensor or row");
        }
        if block && self.fast_accum {
            return usage("block scales are applied to each 128 of K: omit --fast-accum");
        }
        if block && problem.out == Dtype::E4m3 {
            return usage("results of e4m3 are for --scales tensor or row");
        }
        if types.a == Dtype::I8 && self.fast_accum {
            return usage("sums of int8 are exact: omit --fast-accum");
        }
        if problem.out == Dtype::I32 && scales {
            return usage("int32 results have no scales: omit them, or give --out-dtype bf16");
        }
        let reads_c = types.are_e4m3() && problem.out == Dtype::Bf16 && !block && !self.fast_accum;
        if problem.beta_c && !reads_c {
            return usage(
                "of operands of 8 bits, only e4m3 with bf16 results, promoted sums and scales of tensors or rows reads C: omit --c and --beta",
            );
        }
        Ok(())
    }
}

impl Report {
    fn json(&self) -> String {
        serde_json::json!(self).to_string()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.plan)?;
        write!(f, "  alpha {}, beta {}", self.alpha, self.beta)?;
        match &self.epilogue {
            Some(epilogue) => writeln!(f, ", epilogue {epilogue}")?,
            None => writeln!(f)?,
        }
        if self.simulated {
            writeln!(
                f,
                "time    {:.2} s on the model (this says nothing about a GPU)",
                self.seconds
            )?;
        } else {
            writeln!(f, "time    {:.3} ms for one run, launch included", self.seconds * 1e3)?;
        }
        if let Some(amax) = self.amax {
            writeln!(f, "amax    {amax}{}", not_compared(self.amax_compared))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_that_is_not_compared_is_named() {
        let right = " (not compared: its f64 product has over 1e10 multiplications)";
        assert_eq!(not_compared(Some(false)), right);
        assert_eq!([not_compared(Some(true)), not_compared(None)], ["", ""]);
    }

    #[test]
    fn a_wrong_maximum_shows() {
        assert!(same_amax(100.01, 100.0, 3e-4) && same_amax(f32::NAN, f64::NAN, 3e-4));
        for wrong in [f32::NAN, 0.0, 99.0, f32::INFINITY] {
            assert!(!same_amax(wrong, 100.0, 3e-4), "{wrong}");
        }
        assert!(!same_amax(1.0, f64::NAN, 3e-4) && !same_amax(1.0, 0.0, 3e-4));
        assert!(same_amax(0.0, 0.0, 3e-4));
    }
}
