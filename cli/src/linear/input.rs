//! The input of a layer, x: quantised here, or quantised already and with its scales.

use super::weights::{Weights, all_finite, numbers, positive, refuse};
use crate::args::{ScaleArg, TensorRef};
use crate::error::Error;
use crate::operands::Matrix;
use crate::scaled::{LARGEST_E4M3, ScaleOf, Scales, quantised};
use crate::tensor_file::{self, Tensor};
use host::data::{decode, encode};
use isa::kernel::Dtype;
use safetensors::tensor::Dtype as FileDtype;

/// Columns of a block of x.
const BLOCK: usize = 128;

/// x as the product reads it.
#[derive(Debug)]
pub struct Input {
    /// [M, K], e4m3.
    pub x: Matrix,
    pub scales: Scales,
    /// The sizes of the tensor in the file but the last one, K. Their product is M.
    pub rows: Vec<usize>,
    /// Where the scales are from, in words.
    pub how: String,
}

impl Input {
    /// Reads x for the layer, and quantises it if it is bf16, f16 or f32.
    ///
    /// A weight with block scales has an x with a scale for each 1 x 128, and any other weight an x with a scale for each
    /// row, unless the layer has a scale of x. `scale` is that of an x of e4m3.
    pub fn read(
        tensor: &TensorRef,
        scale: Option<&ScaleArg>,
        weights: &Weights,
    ) -> Result<Self, Error> {
        let x = tensor_file::read(tensor)?;
        let k = weights.weight.cols as usize;
        let right = format!("[..., {k}] is right for a weight of [{}, {k}]", weights.weight.rows);
        let Some((_, rows)) = x.shape.split_last().filter(|(last, _)| **last == k) else {
            return Err(refuse(&x, right));
        };
        let rows = rows.to_vec();
        let m = rows.iter().product();
        let blocks = weights.of == ScaleOf::Block;
        let of = if blocks { ScaleOf::Block } else { ScaleOf::Row };
        let block = of.block('A', [m, k]);
        let (data, scales, how) = if x.dtype == FileDtype::F8_E4M3 {
            all_finite(&x.name, &decode(&x.data, Dtype::E4m3)?)?;
            let (scales, how) = match (scale, weights.input_scale) {
                (Some(scale), _) => (given(scale, [m, k], blocks)?, "--input-scale".to_owned()),
                (None, Some(scale)) => (Scales::one(scale), "input_scale".to_owned()),
                (None, None) => return Err(refuse(&x, "give its --input-scale X or FILE:TENSOR")),
            };
            (x.data, scales, format!("e4m3 with the scales of {how}"))
        } else {
            let right = format!("bf16, f16, f32 or F8_E4M3 {right}");
            if scale.is_some() {
                return Err(refuse(&x, "--input-scale is for an input of F8_E4M3: omit it"));
            }
            let values = numbers(&x, &right)?;
            let from = x.dtype.to_string().to_lowercase();
            if let Some(scale) = weights.input_scale {
                let most = LARGEST_E4M3;
                let scaled: Vec<f32> =
                    values.iter().map(|x| (x / scale).clamp(-most, most)).collect();
                let how = format!("{from}, quantised with input_scale {scale}");
                (encode(&scaled, Dtype::E4m3)?, Scales::one(scale), how)
            } else {
                let (data, scales) = quantised(&values, Dtype::E4m3, [m, k], block)?;
                let each = if blocks { "1 x 128" } else { "row" };
                (data, scales, format!("{from}, quantised with a scale for each {each}"))
            }
        };
        let scales = if blocks { of_blocks(scales, [m, k]) } else { scales };
        let (cols, dtype) = (k as u64, Dtype::E4m3);
        let x = Matrix { name: x.name, rows: m as u64, cols, dtype, data };
        Ok(Self { x, scales, rows, how })
    }
}

/// The scales of an x of [m, k] that a caller names: one, one for each row, or with `blocks` one for each 1 x 128.
fn given(arg: &ScaleArg, [m, k]: [usize; 2], blocks: bool) -> Result<Scales, Error> {
    let tensor = match arg {
        ScaleArg::Number(scale) => return Ok(Scales::one(positive("--input-scale", *scale)?)),
        ScaleArg::Tensor(tensor) => tensor_file::read(tensor)?,
    };
    let columns = k.div_ceil(BLOCK);
    let or = if blocks { format!(" or [{m}, {columns}]") } else { String::new() };
    let right = format!("f32, bf16 or f16 is right: one value, [{m}], [{m}, 1]{or}");
    let values = numbers(&tensor, &right)?;
    of_shape(&tensor, values, [m, k], blocks).ok_or_else(|| refuse(&tensor, right))
}

/// The scales of a tensor if its shape is right.
fn of_shape(
    tensor: &Tensor,
    values: Vec<f32>,
    shape @ [m, k]: [usize; 2],
    blocks: bool,
) -> Option<Scales> {
    let of = match tensor.shape[..] {
        [rows, cols] if blocks && [rows, cols] == [m, k.div_ceil(BLOCK)] => ScaleOf::Block,
        [rows] | [rows, 1] if rows == m => ScaleOf::Row,
        _ if values.len() == 1 => ScaleOf::Tensor,
        _ => return None,
    };
    Some(Scales::of_blocks(values, of.block('A', shape)))
}

/// The same scales for each 1 x 128 of an x of [m, k].
fn of_blocks(scales: Scales, [m, k]: [usize; 2]) -> Scales {
    let columns = k.div_ceil(BLOCK);
    let block = ScaleOf::Block.block('A', [m, k]);
    let values = match scales.values.len() {
        len if len == m * columns => scales.values,
        len if len == m => scales.values.iter().flat_map(|&x| vec![x; columns]).collect(),
        _ => vec![scales.values.first().copied().unwrap_or(1.0); m * columns],
    };
    Scales::of_blocks(values, block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_of_rows_and_tensors_are_those_of_their_blocks() {
        let shape = [2, 300];
        let of = |values: &[f32]| of_blocks(Scales::of_blocks(values.to_vec(), [1, 300]), shape);
        assert_eq!(of(&[2.0]).values, [2.0; 6]);
        assert_eq!(of(&[2.0, 4.0]).values, [2.0, 2.0, 2.0, 4.0, 4.0, 4.0]);
        let own = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(of(&own).values, own);
        let mut ones = vec![1.0; 600];
        of(&own).apply(&mut ones, 300);
        let picked: Vec<f32> = [127, 128, 299, 300, 599].map(|i| ones[i]).into();
        assert_eq!(picked, [1.0, 2.0, 3.0, 4.0, 6.0]);
    }
}
