//! `--epilogue`: the bias, the activation, the residual and the gates of a linear layer.

use super::check::{Judged, bound};
use super::error::Error;
use super::instance::{Kernels, Which, planned};
use super::operands::{Matrix, Operands, file_dtype};
use super::scaled::{self, Scales, ScalesOf};
use super::tensor_file;
use super::{args::TensorRef, gemm::timed};
use host::data::{decode, encode, normal};
use host::dtype_name;
use host::gemm::{
    FusedGemm, Fusion, GatedGemm, GemmProblem, OperandScales, PlanInfo, ScaledFusedGemm,
};
use host::reference::{Layer as Reference, Product};
use host::{Buffer, Device, View};
use isa::kernel::Dtype;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use warpipe::gpu_kernels::gemm::fused::FusedElement;
use warpipe::gpu_kernels::gemm::fusion::EltAct;
use warpipe::half::{bf16, f16};

/// What `--epilogue` names, in the order in which it is computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Epilogue {
    text: String,
    bias: bool,
    activation: EltAct,
    gated: bool,
    /// Whether C is added behind the activation.
    pub residual: bool,
}

/// Rows of B of a gated product come in blocks of this many: half of them gates.
pub const GATED_ROWS: u64 = 16;

/// The activations of gates.
const GATED: [(&str, EltAct); 3] =
    [("swiglu", EltAct::SILU), ("geglu", EltAct::GELU), ("geglu-tanh", EltAct::GELU_TANH)];

impl FromStr for Epilogue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let names = EltAct::NAMES.iter().chain(&GATED).map(|(name, _)| *name);
            let names = names.collect::<Vec<_>>().join(", ");
            format!(
                "expected bias, an activation ({names}) and residual, in this order, with + between them"
            )
        };
        let mut parts = text.split('+').peekable();
        let bias = parts.next_if_eq(&"bias").is_some();
        let find = |names: &[(&str, EltAct)], part: &str| {
            names.iter().find(|(name, _)| *name == part).map(|(_, function)| *function)
        };
        let plain = parts.peek().and_then(|part| find(&EltAct::NAMES, part));
        let gates = parts.peek().and_then(|part| find(&GATED, part));
        let activation = plain.or(gates);
        if activation.is_some() {
            parts.next();
        }
        let residual = parts.next_if_eq(&"residual").is_some();
        if parts.next().is_some() {
            return Err(wrong());
        }
        if gates.is_some() && residual {
            return Err("gates and a residual: a gated product reads no C".to_owned());
        }
        let activation = activation.unwrap_or(EltAct::IDENTITY);
        Ok(Self { text: text.to_owned(), bias, activation, gated: gates.is_some(), residual })
    }
}

impl fmt::Display for Epilogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Epilogue {
    /// Whether the result has half as many columns as B has rows.
    pub fn gated(&self) -> bool {
        self.gated
    }

    /// Checks that there are kernels for products of these types, and the columns of a gated one.
    pub fn check(&self, problem: &GemmProblem) -> Result<(), Error> {
        let GemmProblem { n, ab, out, beta_c, .. } = *problem;
        let usage = |text: String| Err(Error::Usage(text));
        let e4m3 = (ab, out) == (Dtype::E4m3, Dtype::Bf16);
        if !e4m3 && (![Dtype::Bf16, Dtype::F16].contains(&ab) || out != ab) {
            let (ab, out) = (dtype_name(ab), dtype_name(out));
            return usage(format!(
                "--epilogue {self}: operands are {ab}, the result is {out}; both bf16, both f16, or e4m3 with a result of bf16 is right"
            ));
        }
        if e4m3 && (self.gated || beta_c || self.residual) {
            return usage(format!(
                "--epilogue {self}: products of e4m3 have a bias and an activation, but no gates and no C"
            ));
        }
        if self.gated && beta_c {
            return usage(format!(
                "--epilogue {self}: a gated product reads no C: omit --c and --beta"
            ));
        }
        if self.residual && !beta_c {
            return usage(format!("--epilogue {self}: give --c FILE:TENSOR for the residual"));
        }
        if self.gated && !n.is_multiple_of(GATED_ROWS) {
            return Err(host::Error::GatedRows { n }.into());
        }
        Ok(())
    }

    /// The kernels with this epilogue for operands of `dtype`. `fast_accum` is for those of e4m3.
    pub fn kernels(
        &self,
        device: &Device,
        dtype: Dtype,
        fast_accum: bool,
    ) -> Result<Arc<dyn Kernels>, host::Error> {
        let image = &warpipe::GEMM_IMAGE;
        match dtype {
            Dtype::E4m3 => Ok(Arc::new(ScaledFusedGemm::scaled_fused(device, image, fast_accum)?)),
            Dtype::F16 => self.kernels_of::<f16>(device),
            _ => self.kernels_of::<bf16>(device),
        }
    }

    fn kernels_of<T: FusedElement>(
        &self,
        device: &Device,
    ) -> Result<Arc<dyn Kernels>, host::Error> {
        let image = &warpipe::GEMM_IMAGE;
        Ok(if self.gated {
            Arc::new(GatedGemm::<T>::gated(device, image)?)
        } else {
            Arc::new(FusedGemm::<T>::fused(device, image)?)
        })
    }
}

/// An epilogue with its bias, and with the scales of operands of e4m3.
pub struct Layer {
    epilogue: Epilogue,
    /// Values of the result's type.
    bias: Option<Vec<u8>>,
    quantised: Option<Quantised>,
    alpha: f32,
    /// Factor of C, in front of the activation or behind it.
    beta: f32,
}

/// What operands of e4m3 have.
pub struct Quantised {
    pub scales: ScalesOf,
    /// Whether the tensor cores sum over all of K.
    pub fast_accum: bool,
}

impl Layer {
    /// Reads or generates the bias, and checks that there are kernels for the operands.
    pub fn new(
        epilogue: &Epilogue,
        bias: Option<&TensorRef>,
        operands: &Operands,
        quantised: Option<Quantised>,
        [alpha, beta]: [f32; 2],
    ) -> Result<Self, Error> {
        epilogue.check(&operands.problem)?;
        let GemmProblem { n, out, .. } = operands.problem;
        let usage = |text: String| Err(Error::Usage(text));
        let bias = match (epilogue.bias, bias, operands.seed) {
            (true, Some(bias), _) => Some(read(bias, out, n)?),
            (true, None, Some(seed)) => Some(encode(&normal(!seed, n as usize), out)?),
            (true, None, None) => {
                return usage(format!("--epilogue {epilogue}: give --bias FILE:TENSOR"));
            }
            (false, Some(_), _) => {
                return usage(format!("--bias: the epilogue is {epilogue}, without bias"));
            }
            (false, None, _) => None,
        };
        Ok(Self { epilogue: epilogue.clone(), bias, quantised, alpha, beta })
    }

    /// Columns of the result.
    pub fn columns(&self, problem: &GemmProblem) -> u64 {
        if self.epilogue.gated { problem.n / 2 } else { problem.n }
    }

    fn fusion<'s>(&self, bias: Option<&'s Buffer>) -> Fusion<'s> {
        let [beta, residual] =
            if self.epilogue.residual { [0.0, self.beta] } else { [self.beta, 0.0] };
        let activation = self.epilogue.activation;
        Fusion { alpha: self.alpha, beta, bias, activation, residual }
    }

    /// The same for a search, which reads C even if its factor is 0: a plan has a kernel of its own for that.
    fn fusion_of_search<'s>(&self, bias: Option<&'s Buffer>) -> Fusion<'s> {
        let fusion = self.fusion(bias);
        if self.beta == 0.0 { Fusion { beta: 1.0, ..fusion } } else { fusion }
    }

    /// Plans the product and runs it. Returns its plan, D and the seconds of the run.
    pub fn run(
        &self,
        device: &Device,
        operands: &Operands,
        which: Which<'_>,
    ) -> Result<(PlanInfo, Vec<u8>, f64), Error> {
        match (operands.problem.ab, &self.quantised) {
            (_, Some(with)) => self.run_quantised(device, operands, with, which),
            (Dtype::F16, _) => self.run_as::<f16>(device, operands, which),
            _ => self.run_as::<bf16>(device, operands, which),
        }
    }

    fn run_quantised(
        &self,
        device: &Device,
        operands: &Operands,
        Quantised { scales, fast_accum }: &Quantised,
        which: Which<'_>,
    ) -> Result<(PlanInfo, Vec<u8>, f64), Error> {
        let upload = |values: &[f32]| device.upload(&encode(values, Dtype::F32)?);
        let (a, b) = (upload(&scales.a.values)?, upload(&scales.b.values)?);
        // The scales of a search are ones: its operands are small numbers.
        let ones = |scales: &Scales| upload(&vec![1.0; scales.values.len()]);
        let (one_a, one_b) = (ones(&scales.a)?, ones(&scales.b)?);
        let (real, of_search) =
            (OperandScales { a: &a, b: &b }, OperandScales { a: &one_a, b: &one_b });
        let bias = self.bias.as_ref().map(|bias| device.upload(bias)).transpose()?;
        let fusion = self.fusion(bias.as_ref());
        let gemm = ScaledFusedGemm::scaled_fused(device, &warpipe::GEMM_IMAGE, *fast_accum)?;
        let plan = planned(&gemm, &operands.problem, which, |bound, stream| {
            bound.run_scaled_fused(of_search, fusion, stream)
        })?;
        let (d, seconds) = timed(device, operands, self.columns(&operands.problem), |a, b, d| {
            plan.run_scaled_fused(a, b, d, real, fusion)
        })?;
        Ok((plan.describe().clone(), d, seconds))
    }

    fn run_as<T: FusedElement>(
        &self,
        device: &Device,
        operands: &Operands,
        which: Which<'_>,
    ) -> Result<(PlanInfo, Vec<u8>, f64), Error> {
        let problem = &operands.problem;
        let upload = |bytes: &Vec<u8>| device.upload(bytes);
        let bias = self.bias.as_ref().map(upload).transpose()?;
        let c = operands.c.as_ref().map(|c| upload(&c.data)).transpose()?;
        let (c, fusion) = (c.as_ref().map(View::from), self.fusion(bias.as_ref()));
        let (columns, of_search) = (self.columns(problem), self.fusion_of_search(bias.as_ref()));
        if self.epilogue.gated {
            let gemm = GatedGemm::<T>::gated(device, &warpipe::GEMM_IMAGE)?;
            let plan =
                planned(&gemm, problem, which, |bound, stream| bound.run_fused(of_search, stream))?;
            let (d, seconds) =
                timed(device, operands, columns, |a, b, d| plan.run_fused(a, b, c, d, fusion))?;
            return Ok((plan.describe().clone(), d, seconds));
        }
        let gemm = FusedGemm::<T>::fused(device, &warpipe::GEMM_IMAGE)?;
        let plan =
            planned(&gemm, problem, which, |bound, stream| bound.run_fused(of_search, stream))?;
        let (d, seconds) =
            timed(device, operands, columns, |a, b, d| plan.run_fused(a, b, c, d, fusion))?;
        Ok((plan.describe().clone(), d, seconds))
    }

    /// Compares `d` with the layer in f64.
    pub fn judge(&self, operands: &Operands, d: &[u8]) -> Result<Judged, host::Error> {
        let GemmProblem { m, n, k, ab, out, .. } = operands.problem;
        let values = |matrix: &Matrix, scales: Option<&Scales>| {
            let mut values = decode(&matrix.data, ab)?;
            if let Some(scales) = scales {
                scales.apply(&mut values, matrix.cols as usize);
            }
            Ok::<_, host::Error>(values)
        };
        let scales = self.quantised.as_ref().map(|with| &with.scales);
        let a = values(&operands.a, scales.map(|scales| &scales.a))?;
        let b = values(&operands.b, scales.map(|scales| &scales.b))?;
        let c = operands.c.as_ref().map(|c| values(c, None)).transpose()?;
        let bias = self.bias.as_deref().map(|bias| decode(bias, out)).transpose()?;
        let Fusion { alpha, beta, activation, residual, .. } = self.fusion(None);
        let [m, n] = [m, n].map(|size| size as usize);
        let product = Product { m, n, k: k as usize, a: &a, b: &b, c: c.as_deref(), alpha, beta };
        let gated = self.epilogue.gated;
        let layer = Reference { product, bias: bias.as_deref(), activation, residual, gated };
        let bound = match &self.quantised {
            Some(with) => scaled::bound(out, with.fast_accum),
            None => bound(out, k),
        };
        let check = layer.check(&decode(d, out)?)?;
        Ok(Judged { check, bound, passed: check.below(bound) })
    }
}

/// Reads the bias: N values of the result's type.
fn read(bias: &TensorRef, dtype: Dtype, n: u64) -> Result<Vec<u8>, Error> {
    let tensor = tensor_file::read(bias)?;
    let name = tensor.name;
    if tensor.dtype != file_dtype(dtype) {
        let (dtype, have) = (dtype_name(dtype), tensor.dtype.to_string());
        return Err(Error::BiasType { name, have, dtype });
    }
    if tensor.shape.iter().map(|&size| size as u64).product::<u64>() != n {
        return Err(Error::Bias { name, shape: tensor.shape, n });
    }
    Ok(tensor.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epilogues_are_named_in_their_order() {
        let parse = |text: &str| text.parse::<Epilogue>();
        let of = |text, bias, activation, gated, residual| {
            let want = Epilogue { text: String::from(text), bias, activation, gated, residual };
            assert_eq!(parse(text), Ok(want));
        };
        of("bias", true, EltAct::IDENTITY, false, false);
        of("gelu", false, EltAct::GELU, false, false);
        of("bias+gelu-tanh+residual", true, EltAct::GELU_TANH, false, true);
        of("residual", false, EltAct::IDENTITY, false, true);
        of("bias+swiglu", true, EltAct::SILU, true, false);
        for bad in ["", "gelu+bias", "bias+bias", "relu+silu", "Gelu", "bias+", "swiglu+residual"] {
            let error = parse(bad).unwrap_err();
            assert!(!error.contains('\n'), "{bad}: {error}");
        }
    }
}
