//! `warpipe linear`: a Linear layer of a checkpoint whose weights are e4m3, on a GPU or on the SM model.
//!
//! y = x · Wᵀ + bias. The product has both scales; its sums are promoted. Kernels for 8-bit operands add no bias, so
//! with a bias their result is f32, and the bias is added here before the one rounding to bf16.

mod checkpoint;
mod input;
mod weights;

use crate::args::{DeviceArg, ScaleArg, TensorRef};
use crate::check::Judged;
use crate::error::Error;
use crate::gemm::{open, timed};
use crate::instance::Which;
use crate::operands::{Matrix, Operands, check_size};
use crate::output::Output;
use crate::progress::Progress;
use crate::say;
use crate::scaled::{self, ScaleOf, ScalesOf};
use crate::scaled_plan::{Planned, Ways};
use checkpoint::Checkpoint;
use host::Buffer;
use host::data::{decode, encode};
use host::gemm::{GemmProblem, PlanInfo};
use host::reference::{Layer, Product};
use input::Input;
use isa::kernel::Dtype;
use safetensors::tensor::Dtype as FileDtype;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use warpipe::gpu_kernels::gemm::fusion::EltAct;
use weights::Weights;

/// Name of the result, unless --out names another.
const RESULT: &str = "y";

/// Options of `warpipe linear`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The checkpoint: a .safetensors file, model.safetensors.index.json, or the folder with one of them
    #[arg(long, value_name = "PATH")]
    weights: PathBuf,
    /// The layer: the name of its weight's tensor without ".weight", for example model.layers.3.mlp.gate_proj
    #[arg(long, value_name = "NAME")]
    layer: String,
    /// x [..., K] from a .safetensors file: bf16, f16 or f32, which is quantised to e4m3, or e4m3
    #[arg(long, value_name = "FILE:TENSOR")]
    input: TensorRef,
    /// The scale of an x of e4m3: a number, or values in a .safetensors file, one or one for each row, or with block scales
    /// [M, K/128] [default: the layer's input_scale]
    #[arg(long, value_name = "X|FILE:TENSOR", allow_hyphen_values = true)]
    input_scale: Option<ScaleArg>,
    /// Write y [..., N], bf16, to this .safetensors file [default TENSOR: y]; needed unless --check is given. An existing
    /// file is replaced once the result is complete
    #[arg(long, value_name = "FILE[:TENSOR]")]
    out: Option<TensorRef>,
    /// Device: auto, cuda, cuda:N or sim. auto uses an sm_90 GPU if there is one, otherwise the SM model, and reports which
    #[arg(long, default_value = "auto")]
    device: DeviceArg,
    /// Compare with an f64 product of the quantised x and weight on the CPU; exit with 1 if the error is too large
    #[arg(long)]
    check: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The report of a run, as `--json` prints it.
#[derive(Serialize)]
struct Report {
    device: String,
    plan: PlanInfo,
    layer: String,
    /// What has a scale in the weight.
    scales: String,
    /// x, and how it became e4m3.
    input: String,
    bias: bool,
    /// Seconds of the product, from the launch to its end on the device. On the SM model they say nothing about a GPU.
    seconds: f64,
    simulated: bool,
    check: Option<Judged>,
    out: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Error> {
    if args.out.is_none() && !args.check {
        let usage = "the result is not used: give --out FILE[:TENSOR], --check or both";
        return Err(Error::Usage(usage.to_owned()));
    }
    let progress = Progress::new(4);
    let mut checkpoint = Checkpoint::open(&args.weights)?;
    let output = args.output(&checkpoint)?;
    let device = open(args.device, progress.model())?;
    let (layer, input) = progress.step("reading the layer", || {
        let layer = args.layer.strip_suffix(".weight").unwrap_or(&args.layer);
        let layer = Weights::read(&mut checkpoint, layer)?;
        let input = Input::read(&args.input, args.input_scale.as_ref(), &layer)?;
        Ok::<_, Error>((layer, input))
    })?;

    let Weights { weight, scales, of, scale_name, bias, .. } = layer;
    let Input { x, scales: of_x, rows, how } = input;
    let input = format!("{} {:?} {how}", x.name, [x.rows, x.cols]);
    let what = scales_in_words(of, scale_name, &weight);
    let out = if bias.is_some() { Dtype::F32 } else { Dtype::Bf16 };
    let (m, n, k) = (x.rows, weight.rows, weight.cols);
    let problem = GemmProblem { m, n, k, ab: Dtype::E4m3, out, beta_c: false };
    check_size(&problem)?;
    let operands = Operands { problem, a: x, b: weight, c: None, seed: None };
    // A plan of rows takes one scale for the tensor as well.
    let of = if of == ScaleOf::Block { of } else { ScaleOf::Row };
    let scales = ScalesOf { a: of_x, b: scales, of };

    let ways = Ways { alpha: 1.0, beta: 0.0, fast_accum: false, d_scale: None, amax: false };
    let planned = Planned::new(&device, &operands, &scales, ways, Which::Picked)?;
    let multiply = |a: &Buffer, b: &Buffer, d: &mut Buffer| planned.run(a, b, d);
    let name = format!("multiplying on {}", device.describe());
    let (d, seconds) = progress.step(&name, || timed(&device, &operands, n, multiply))?;
    let y = match &bias {
        Some(bias) => with_bias(&d, bias)?,
        None => d,
    };

    let judge = || judge(&operands, &scales, bias.as_deref(), &y);
    let check = if args.check {
        Some(progress.step("comparing with an f64 product", judge)?)
    } else {
        None
    };
    let verdict = check.map_or(Ok(()), |check| check.verdict(Dtype::Bf16, k));
    // A result that failed its check is not written.
    if let (Some(output), Ok(())) = (&output, &verdict) {
        let shape = [&rows[..], &[n as usize]].concat();
        let write = || output.write_with(FileDtype::BF16, &shape, &y, None);
        progress.step("writing", write)?;
    }
    drop(progress);
    let report = Report {
        device: device.describe(),
        plan: planned.describe().clone(),
        layer: operands.b.name,
        scales: what,
        input,
        bias: bias.is_some(),
        seconds,
        simulated: device.is_sim(),
        check,
        out: output.filter(|_| verdict.is_ok()).map(|output| output.name()),
    };
    say(&if args.json { serde_json::json!(report).to_string() } else { report.to_string() })?;
    verdict
}

impl Args {
    /// The output file, checked before any work.
    fn output(&self, checkpoint: &Checkpoint) -> Result<Option<Output>, Error> {
        let mut inputs = checkpoint.inputs();
        inputs.push(self.input.file.clone());
        if let Some(ScaleArg::Tensor(scale)) = &self.input_scale {
            inputs.push(scale.file.clone());
        }
        let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
        self.out.as_ref().map(|out| Output::prepare_as(out, RESULT, &inputs)).transpose()
    }
}

/// What has a scale in the weight.
fn scales_in_words(of: ScaleOf, name: &str, weight: &Matrix) -> String {
    let each = match of {
        ScaleOf::Tensor => "one scale",
        ScaleOf::Row => "a scale for each row",
        ScaleOf::Block => "a scale for each 128 x 128",
    };
    format!("e4m3 {:?} with {each} ({name})", [weight.rows, weight.cols])
}

/// Adds the bias to each row of f32 results, and rounds them to bf16.
fn with_bias(d: &[u8], bias: &[f32]) -> Result<Vec<u8>, host::Error> {
    let mut values = decode(d, Dtype::F32)?;
    for row in values.chunks_mut(bias.len()) {
        for (value, bias) in row.iter_mut().zip(bias) {
            *value += bias;
        }
    }
    encode(&values, Dtype::Bf16)
}

/// Compares y with the layer in f64.
fn judge(
    operands: &Operands,
    scales: &ScalesOf,
    bias: Option<&[f32]>,
    y: &[u8],
) -> Result<Judged, host::Error> {
    let values = |matrix: &Matrix, scales: &scaled::Scales| {
        let mut values = decode(&matrix.data, matrix.dtype)?;
        scales.apply(&mut values, matrix.cols as usize);
        Ok::<_, host::Error>(values)
    };
    let (a, b) = (values(&operands.a, &scales.a)?, values(&operands.b, &scales.b)?);
    let GemmProblem { m, n, k, .. } = operands.problem;
    let [m, n, k] = [m, n, k].map(|x| x as usize);
    let product = Product { m, n, k, a: &a, b: &b, c: None, alpha: 1.0, beta: 0.0 };
    let activation = EltAct::IDENTITY;
    let layer = Layer { product, bias, activation, residual: 0.0, gated: false };
    let check = layer.check(&decode(y, Dtype::Bf16)?)?;
    let bound = scaled::bound(Dtype::Bf16, false);
    Ok(Judged { check, bound, passed: check.below(bound) })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.plan)?;
        writeln!(f, "  layer {}: {}", self.layer, self.scales)?;
        writeln!(f, "  x {}", self.input)?;
        if self.bias {
            writeln!(f, "  the bias is added to the f32 result on the host")?;
        }
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
    fn a_bias_is_added_to_each_row_before_the_rounding() {
        let d = encode(&[1.0, 256.0, -1.0, 0.0], Dtype::F32).unwrap();
        let y = with_bias(&d, &[0.5, 0.75]).unwrap();
        assert_eq!(decode(&y, Dtype::Bf16).unwrap(), [1.5, 256.0, -0.5, 0.75]);
        assert!(with_bias(&[], &[1.0]).unwrap().is_empty());
    }
}
