//! The scales of quantised operands, read or generated, and the run of their product.

use super::args::ScaleArg;
use super::error::Error;
use super::operands::{Generate, Matrix, Operands, check_size};
use super::tensor_file;
use host::data::{decode, encode, normal};
use host::dtype_name;
use host::gemm::{GemmPlan, OperandScales, ScaledGemm};
use host::{Buffer, Device};
use isa::kernel::Dtype;
use safetensors::tensor::Dtype as FileDtype;
use std::num::NonZeroUsize;
use warpipe::gpu_kernels::gemm::Scaled;

/// The largest e4m3.
const LARGEST: f32 = 448.0;

/// What has one scale.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum ScaleOf {
    /// The whole operand
    Tensor,
    /// Each row of A, and each row of B, which is a column of the result
    Row,
}

/// The scales of A and B: one value, or one for each row.
#[derive(Clone, PartialEq, Debug)]
pub struct ScalesOf {
    pub a: Vec<f32>,
    pub b: Vec<f32>,
}

/// The scales that an option names; 1 if it names none.
pub fn read(operand: char, arg: Option<&ScaleArg>, rows: u64) -> Result<Vec<f32>, Error> {
    let tensor = match arg {
        None => return Ok(vec![1.0]),
        Some(ScaleArg::Number(scale)) => return Ok(vec![*scale]),
        Some(ScaleArg::Tensor(tensor)) => tensor_file::read(tensor)?,
    };
    let name = tensor.name.clone();
    if tensor.dtype != FileDtype::F32 {
        let (dtype, right) = (tensor.dtype.to_string(), "scales are f32".to_owned());
        return Err(Error::Dtype { operand, name, dtype, right });
    }
    let values = decode(&tensor.data, Dtype::F32)?;
    if ![1, rows].contains(&(values.len() as u64)) {
        let shape = tensor.shape;
        return Err(Error::Scales { operand, name, shape, rows });
    }
    match values.iter().position(|x| !x.is_finite()) {
        Some(index) => Err(Error::ScaleValue { operand, name, index, value: values[index] }),
        None => Ok(values),
    }
}

/// Quantises generated values: the largest of a row, or of all, becomes the largest e4m3.
fn quantised(values: &[f32], columns: usize, of: ScaleOf) -> Result<(Vec<u8>, Vec<f32>), Error> {
    let group = if of == ScaleOf::Row { columns } else { values.len() };
    let group = NonZeroUsize::new(group).map_or(1, NonZeroUsize::get);
    let largest = |values: &[f32]| values.iter().fold(0.0f32, |max, x| max.max(x.abs()));
    let scale = |values| if largest(values) == 0.0 { 1.0 } else { largest(values) / LARGEST };
    let scales: Vec<f32> =
        if values.is_empty() { vec![1.0] } else { values.chunks(group).map(scale).collect() };
    let scaled: Vec<f32> = values.iter().enumerate().map(|(i, x)| x / scales[i / group]).collect();
    Ok((encode(&scaled, Dtype::E4m3)?, scales))
}

/// Makes quantised matrices of normal values. The values are those of the same seed in other types.
pub fn generate(generate: Generate, of: ScaleOf) -> Result<(Operands, ScalesOf), Error> {
    let problem = generate.problem;
    check_size(&problem)?;
    let make = |which: u64, rows: u64| {
        let seed = generate.seed.wrapping_mul(3).wrapping_add(which);
        let (rows, cols, dtype) = (rows, problem.k, problem.ab);
        let (data, scales) = quantised(&normal(seed, (rows * cols) as usize), cols as usize, of)?;
        let name = "generated".to_owned();
        Ok::<_, Error>((Matrix { name, rows, cols, dtype, data }, scales))
    };
    let ((a, scale_a), (b, scale_b)) = (make(0, problem.m)?, make(1, problem.n)?);
    let seed = Some(generate.seed);
    Ok((Operands { problem, a, b, c: None, seed }, ScalesOf { a: scale_a, b: scale_b }))
}

/// A plan of a product with its scales on the device.
pub struct Planned {
    pub plan: GemmPlan<Scaled<'static>>,
    scales: [Buffer; 2],
}

impl Planned {
    pub fn new(
        device: &Device,
        operands: &Operands,
        scales: &ScalesOf,
        use_fast_accum: bool,
    ) -> Result<Self, host::Error> {
        let gemm = ScaledGemm::scaled(device, &warpipe::GEMM_IMAGE, use_fast_accum)?;
        let upload = |values: &[f32]| device.upload(&encode(values, Dtype::F32)?);
        let scales = [upload(&scales.a)?, upload(&scales.b)?];
        Ok(Self { plan: gemm.plan(&operands.problem)?, scales })
    }

    /// Queues the product on the device's stream.
    pub fn run(
        &self,
        a: &Buffer,
        b: &Buffer,
        d: &mut Buffer,
        alpha: f32,
    ) -> Result<(), host::Error> {
        let [scale_a, scale_b] = &self.scales;
        self.plan.run_scaled(a, b, d, OperandScales { a: scale_a, b: scale_b }, alpha)
    }
}

/// The bound of the relative error of a product of quantised operands.
///
/// Promoted sums are short within 128 of K only: the result's rounding decides, or for f32 those sums. With fast
/// accumulation they are short over all of K.
pub fn bound(out: Dtype, use_fast_accum: bool) -> f64 {
    match (use_fast_accum, out) {
        (true, _) => 1e-2,
        (false, Dtype::Bf16) => 4e-3,
        (false, Dtype::F16) => 1e-3,
        (false, _) => 3e-4,
    }
}

/// A usage error for options that need e4m3.
pub fn refuse_without_scales(dtype: Dtype, options: &[(&str, bool)]) -> Result<(), Error> {
    match options.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(Error::Usage(format!(
            "{option} is for operands of e4m3; these are {}",
            dtype_name(dtype)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_of_what_has_a_scale_becomes_448() {
        let values = [1.0, -2.0, 0.5, 0.0, 0.0, 0.0, 7.0, 3.5, -14.0];
        let (bytes, scales) = quantised(&values, 3, ScaleOf::Row).unwrap();
        assert_eq!(scales, [2.0 / 448.0, 1.0, 14.0 / 448.0]);
        let back = decode(&bytes, Dtype::E4m3).unwrap();
        assert_eq!(back, [224.0, -448.0, 112.0, 0.0, 0.0, 0.0, 224.0, 112.0, -448.0]);
        let (_, scales) = quantised(&values, 3, ScaleOf::Tensor).unwrap();
        assert_eq!(scales, [14.0 / 448.0]);
        assert_eq!(quantised(&[], 0, ScaleOf::Row).unwrap(), (vec![], vec![1.0]));
    }
}
