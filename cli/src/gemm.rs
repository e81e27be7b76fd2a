//! `warpipe gemm`: one product, with operands from files or generated, on a GPU or on the SM model.

use super::args::{DeviceArg, OperandTypes, ScaleArg, TensorRef, finite};
use super::array::Array;
use super::check::{Judged, with_product};
use super::error::Error;
use super::family::{FamilyArgs, refuse_with_layouts};
use super::grouped::Grouped;
use super::instance::Which;
use super::layer::{Epilogue, Layer, Quantised};
use super::operands::{Generate, Operands, file_dtype};
use super::output::Output;
use super::product::{self, Product, With};
use super::progress::Progress;
use super::say;
use super::scaled::{self, ScaleOf, ScalesOf};
use super::scaled_plan::Ways;
use super::strided;
use super::tune::{TuneArgs, Tuner};
use host::gemm::{GemmProblem, PlanInfo, StridedProblem};
use host::reference::FULL;
use host::{Buffer, Device, SimConfig};
use isa::kernel::Dtype;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

const FILES: &str = "Operands from files";
const GENERATED: &str = "Generated operands";
const RESULT: &str = "Result";
const ARRAY: &str = "Pointer array";
const QUANTISED: &str = "Operands of 8 bits";

/// Options of `warpipe gemm`.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools)] // Options that do not depend on each other.
pub struct Args {
    /// A [M, K] from a .safetensors file, for example a batch of activations. With --layout or --column-major it lies as the
    /// layout says, and may be a batch, [batch, rows, columns]
    #[arg(help_heading = FILES, long, value_name = "FILE:TENSOR", requires = "b", conflicts_with_all = ["m", "n", "k", "dtype", "seed", "groups"])]
    a: Option<TensorRef>,
    /// B [N, K] from a .safetensors file, for example a Linear layer's weight. With --layout or --column-major the same
    /// holds as for A
    #[arg(help_heading = FILES, long, value_name = "FILE:TENSOR", requires = "a")]
    b: Option<TensorRef>,
    /// C [M, N] from a .safetensors file, of the result's type; needed by --beta
    #[arg(help_heading = FILES, long, value_name = "FILE:TENSOR", requires = "a")]
    c: Option<TensorRef>,
    /// The bias of --epilogue, of N values, from a .safetensors file, of the result's type
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
    /// Seed of generated data [default: 0]
    #[arg(help_heading = GENERATED, long)]
    seed: Option<u64>,
    /// Sizes of products of their own, "M N K" on each line, whose operands are generated: all of them in one launch, as
    /// CUTLASS's grouped GEMM of pointer arrays. M and N of a line may be 0, K not, and N is a multiple of 8
    #[arg(help_heading = ARRAY, long, value_name = "FILE", conflicts_with_all = ["a", "m", "n", "k", "groups", "beta", "epilogue", "scales", "fast_accum", "d_scale", "amax", "out", "out_dtype", "dtype"])]
    problems: Option<PathBuf>,
    /// Scales of A from a file: a number, or f32 values in a .safetensors file, one or M of them, or [M, K/128] with --scales
    /// block [default: 1]
    #[arg(help_heading = QUANTISED, long, value_name = "X|FILE:TENSOR", requires = "a", allow_hyphen_values = true)]
    a_scale: Option<ScaleArg>,
    /// Scales of B from a file: a number, or f32 values in a .safetensors file, one or N of them, or [N/128, K/128] with
    /// --scales block [default: 1]
    #[arg(help_heading = QUANTISED, long, value_name = "X|FILE:TENSOR", requires = "b", allow_hyphen_values = true)]
    b_scale: Option<ScaleArg>,
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
    #[arg(help_heading = RESULT, long, value_parser = finite, allow_hyphen_values = true, value_name = "X", conflicts_with = "groups")]
    beta: Option<f32>,
    /// Write the result to this .safetensors file [default TENSOR: d]; needed with --a and --b
    /// unless --check is given. An existing file is replaced once the result is complete
    #[arg(help_heading = RESULT, long, value_name = "FILE[:TENSOR]", conflicts_with = "groups")]
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
    family: FamilyArgs,
    #[command(flatten)]
    layouts: strided::Options,
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
    if args.layouts.any() {
        return args.strided();
    }
    if let Some(array) = args.array()? {
        return array.run();
    }
    if let Some(grouped) = args.grouped()? {
        return grouped.run();
    }
    let progress = Progress::new(5);
    let output = args.output()?;
    let mut tuner = Tuner::new(&args.tuning)?;
    let device = open(args.device, progress.model())?;
    let product = progress.step("reading the operands", || args.product())?;
    let (problem, [_, beta]) = (product.operands.problem, product.factors);

    let tuning = if args.tuning.tune() { "tuning and " } else { "" };
    let what = format!("{tuning}multiplying on {}", device.describe());
    let which = tuner.as_mut().map_or(Which::Picked, Which::Tuned);
    let ran = progress.step(&what, || product.run(&device, which))?;
    let product::Run { plan, d, seconds, amax } = ran;

    // What a search found is checked once, before it is kept.
    let check = if args.check || tuner.as_ref().is_some_and(Tuner::found) {
        Some(progress.step("comparing with an f64 product", || product.judge(&d))?)
    } else {
        None
    };
    let mut verdict = check.map_or(Ok(()), |check| check.verdict(problem.out, problem.k));
    let mut amax_compared = None;
    if let (true, Some(value), With::Scales(scales, _)) = (args.check, amax, &product.with) {
        let judged = judge_amax(&product.operands, scales, args, value)?;
        amax_compared = Some(judged.is_some());
        verdict = verdict.and(judged.unwrap_or(Ok(())));
    }
    let found = match &mut tuner {
        Some(tuner) if verdict.is_ok() => tuner.keep()?,
        _ => None,
    };
    // A result that failed its check is not written.
    if let (Some(output), Ok(())) = (&output, &verdict) {
        let shape = [problem.m as usize, product.columns() as usize];
        progress.step("writing", || output.write(file_dtype(problem.out), shape, &d))?;
    }
    drop(progress);
    if let Some(found) = found.filter(|_| !args.json) {
        say(&found)?;
    }
    let report = Report {
        device: device.describe(),
        plan,
        alpha: args.alpha,
        beta,
        epilogue: args.family.epilogue.as_ref().map(Epilogue::to_string),
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
    let bound = scaled::bound(Dtype::F32, args.family.fast_accum);
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
        refuse_with_layouts(&[
            ("--d-scale", self.d_scale.is_some()),
            ("--amax", self.amax),
            ("--a-scale or --b-scale", self.a_scale.is_some() || self.b_scale.is_some()),
            ("--allow-tf32", self.allow_tf32),
            ("--tune or --tune-cache", Tuner::new(&self.tuning)?.is_some()),
        ])?;
        let source = match (&self.a, &self.b, [self.m, self.n, self.k]) {
            (Some(a), Some(b), _) => {
                self.family.refuse_with_layouts()?;
                refuse_with_layouts(&[("--out-dtype", self.family.out_dtype.is_some())])?;
                if self.layouts.batch.is_some() {
                    let usage =
                        "the shapes of the tensors say the batch: omit --batch and --broadcast-b";
                    return Err(Error::Usage(usage.to_owned()));
                }
                self.refuse_beta_alone()?;
                let (a, b, c) = (a.clone(), b.clone(), self.c.clone());
                strided::Source::Files { options: self.layouts, a, b, c }
            }
            (_, _, [Some(m), Some(n), Some(k)]) => {
                let (problem, shared) = self.family.strided_problem(&self.layouts, [m, n, k])?;
                let problem = StridedProblem { beta_c: self.beta.is_some(), ..problem };
                let seed = self.seed.unwrap_or(0);
                strided::Source::Generated { problem: (problem, shared), seed }
            }
            _ => {
                let usage = "no operands: give --a and --b FILE:TENSOR, or --m, --n and --k for generated data";
                return Err(Error::Usage(usage.to_owned()));
            }
        };
        let run = strided::Run {
            source,
            out: self.output()?,
            alpha: self.alpha,
            beta: self.beta.unwrap_or(if self.c.is_some() { 1.0 } else { 0.0 }),
            device: self.device,
            check: self.check,
            json: self.json,
        };
        run.run()
    }

    /// A usage error for a factor of a C that is not there.
    fn refuse_beta_alone(&self) -> Result<(), Error> {
        if self.beta.is_some() && self.c.is_none() {
            let usage = "--beta is a factor of C: give --c FILE:TENSOR, or omit --beta";
            return Err(Error::Usage(usage.to_owned()));
        }
        Ok(())
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
        let Some(groups) = &self.family.groups else { return Ok(None) };
        let (Some(n), Some(k)) = (self.n, self.k) else {
            return Err(Error::Usage(
                "--groups has generated operands: give --n and --k".to_owned(),
            ));
        };
        if Tuner::new(&self.tuning)?.is_some() {
            return Err(Error::Usage("a tune cache has no products with --groups".to_owned()));
        }
        Ok(Some(Grouped {
            groups,
            masked: self.family.masked,
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
        let Self { alpha, d_scale, amax, .. } = *self;
        Ways { alpha, beta, fast_accum: self.family.fast_accum, d_scale, amax }
    }

    /// The product: operands that are read or generated, and what its family adds to them.
    pub fn product(&self) -> Result<Product, Error> {
        let (operands, scales) = self.operands()?;
        let beta = self.beta.unwrap_or(if operands.problem.beta_c { 1.0 } else { 0.0 });
        let factors = [self.alpha, beta];
        let with = match (&self.family.epilogue, scales) {
            (Some(epilogue), scales) => {
                let fast_accum = self.family.fast_accum;
                let quantised = scales.map(|scales| Quantised { scales, fast_accum });
                let bias = self.bias.as_ref();
                With::Epilogue(Layer::new(epilogue, bias, &operands, quantised, factors)?)
            }
            (None, Some(scales)) => With::Scales(scales, self.ways(beta)),
            (None, None) => With::Nothing,
        };
        Ok(Product { operands, with, factors })
    }

    /// The operands, and the scales of those of 8 bits.
    fn operands(&self) -> Result<(Operands, Option<ScalesOf>), Error> {
        if let (Some(a), Some(b)) = (&self.a, &self.b) {
            self.refuse_beta_alone()?;
            let operands =
                Operands::read(a, b, self.c.as_ref(), self.family.out_dtype, self.allow_tf32)?;
            let problem = operands.problem;
            let types = OperandTypes { a: operands.a.dtype, b: operands.b.dtype };
            self.check_options(&problem, types)?;
            if !types.have_scales() {
                return Ok((operands, None));
            }
            let GemmProblem { m, n, k, .. } = problem;
            let a = scaled::read('A', self.a_scale.as_ref(), [m, k], self.family.scales)?;
            let b = scaled::read('B', self.b_scale.as_ref(), [n, k], self.family.scales)?;
            // In a file the number of the values says whether rows have scales.
            let of = self.family.scales.unwrap_or(ScaleOf::Row);
            return Ok((operands, Some(ScalesOf { a, b, of })));
        }
        let (Some(m), Some(n), Some(k)) = (self.m, self.n, self.k) else {
            let usage =
                "no operands: give --a and --b FILE:TENSOR, or --m, --n and --k for generated data";
            return Err(Error::Usage(usage.to_owned()));
        };
        let types = self.family.types();
        let problem = self.family.problem([m, n, k], self.beta.is_some())?;
        self.check_options(&problem, types)?;
        let generate = Generate { problem, seed: self.seed.unwrap_or(0) };
        if !types.have_scales() {
            return Ok((Operands::generate(generate)?, None));
        }
        let (operands, scales) =
            scaled::generate(generate, types, self.family.scales.unwrap_or(ScaleOf::Tensor))?;
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
        let scales = self.a_scale.is_some() || self.b_scale.is_some();
        if !types.have_scales() {
            let options =
                [("--a-scale", self.a_scale.is_some()), ("--b-scale", self.b_scale.is_some())];
            scaled::refuse_without_scales(problem.ab, &options)?;
        } else if problem.out == Dtype::I32 && scales {
            return usage("int32 results have no scales: omit them, or give --out-dtype bf16");
        }
        self.family.check(problem, types)
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
