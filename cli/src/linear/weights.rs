//! A Linear layer of a checkpoint: its weight of e4m3, the scales beside it, and its bias.
//!
//! | tensor | shape | what has a scale | written by |
//! |---|---|---|---|
//! | `weight_scale_inv` | `[N/128, K/128]`, rounded up | blocks | DeepSeek |
//! | `weight_scale` | `[N/128, K/128]`, rounded up | blocks | compressed-tensors |
//! | `weight_scale` | `[N]` or `[N, 1]` | rows | compressed-tensors, vLLM |
//! | `weight_scale` | one value | the tensor | compressed-tensors, ModelOpt, vLLM |
//! | `input_scale` | one value | x, if it is given | the same |
//!
//! Each scale is a factor of what it scales, `weight_scale_inv` too, whatever its name says.

use super::checkpoint::Checkpoint;
use crate::error::Error;
use crate::operands::Matrix;
use crate::scaled::{ScaleOf, Scales};
use crate::tensor_file::Tensor;
use host::data::decode;
use isa::kernel::Dtype;
use safetensors::tensor::Dtype as FileDtype;

/// The layer as the checkpoint has it.
#[derive(Debug)]
pub struct Weights {
    /// [N, K], e4m3.
    pub weight: Matrix,
    pub scales: Scales,
    pub of: ScaleOf,
    /// Name of the tensor with the scales, without the layer's.
    pub scale_name: &'static str,
    /// N values.
    pub bias: Option<Vec<f32>>,
    /// The scale of x.
    pub input_scale: Option<f32>,
}

impl Weights {
    /// Reads the layer `layer`.
    pub fn read(checkpoint: &mut Checkpoint, layer: &str) -> Result<Self, Error> {
        let file = checkpoint.path().to_owned();
        let mut read = |name: &str| checkpoint.read(&format!("{layer}.{name}"));
        let Some(weight) = read("weight")? else {
            let have = checkpoint.layers(layer);
            return Err(Error::NoSuchLayer { file, layer: layer.to_owned(), have });
        };
        let weight = matrix(weight)?;
        let scales = (read("weight_scale_inv")?, read("weight_scale")?);
        let reason = match scales {
            (Some(_), Some(_)) => "it has a weight_scale_inv and a weight_scale; one is right",
            (None, None) => {
                "its weight of e4m3 has no scale; a tensor weight_scale_inv (blocks) or weight_scale is right"
            }
            _ => "",
        };
        if !reason.is_empty() {
            let reason = reason.to_owned();
            return Err(Error::Layer { file, layer: layer.to_owned(), reason });
        }
        let shape = [weight.rows, weight.cols].map(|x| x as usize);
        let ((scales, of), scale_name) = match scales {
            (Some(scale), _) => (scales_of(&scale, shape, true)?, "weight_scale_inv"),
            (None, Some(scale)) => (scales_of(&scale, shape, false)?, "weight_scale"),
            (None, None) => ((Scales::one(1.0), ScaleOf::Tensor), ""),
        };
        let bias = read("bias")?.map(|bias| bias_of(&bias, shape[0])).transpose()?;
        let input_scale = read("input_scale")?.map(|tensor| {
            let right = "one f32, bf16 or f16 is right, the scale of the whole input";
            let values = numbers(&tensor, right)?;
            match values[..] {
                [scale] => positive(&tensor.name, scale),
                _ => Err(refuse(&tensor, right)),
            }
        });
        let input_scale = input_scale.transpose()?;
        Ok(Self { weight, scales, of, scale_name, bias, input_scale })
    }
}

/// An error about the type or the shape of a tensor.
pub fn refuse(tensor: &Tensor, right: impl Into<String>) -> Error {
    let (name, dtype) = (tensor.name.clone(), tensor.dtype.to_string());
    Error::Tensor { name, dtype, shape: tensor.shape.clone(), right: right.into() }
}

/// The values of a tensor of bf16, f16 or f32, all of them finite. `right` is said of other types.
pub fn numbers(tensor: &Tensor, right: &str) -> Result<Vec<f32>, Error> {
    let dtype = match tensor.dtype {
        FileDtype::F32 => Dtype::F32,
        FileDtype::BF16 => Dtype::Bf16,
        FileDtype::F16 => Dtype::F16,
        _ => return Err(refuse(tensor, right)),
    };
    let values = decode(&tensor.data, dtype)?;
    all_finite(&tensor.name, &values)?;
    Ok(values)
}

/// Refuses NaN and infinities.
pub fn all_finite(name: &str, values: &[f32]) -> Result<(), Error> {
    match values.iter().position(|x| !x.is_finite()) {
        Some(index) => Err(Error::NotFinite { name: name.into(), index, value: values[index] }),
        None => Ok(()),
    }
}

/// A scale by which values are divided.
pub fn positive(name: &str, scale: f32) -> Result<f32, Error> {
    if scale.is_normal() && scale > 0.0 {
        return Ok(scale);
    }
    let reason = format!("{name} is {scale}; a positive number that is not below 1.2e-38 is right");
    Err(Error::Usage(reason))
}

/// The matrix of a tensor of e4m3.
fn matrix(tensor: Tensor) -> Result<Matrix, Error> {
    let right = "a weight of F8_E4M3 [N, K] is right, N and K at least 1";
    let (dtype, &[rows, cols]) = (tensor.dtype, &tensor.shape[..]) else {
        return Err(refuse(&tensor, right));
    };
    match dtype {
        FileDtype::F8_E4M3 if rows > 0 && cols > 0 => {}
        FileDtype::BF16 | FileDtype::F16 => {
            let right = format!("{right}; `warpipe gemm --b {}` multiplies this one", tensor.name);
            return Err(refuse(&tensor, right));
        }
        _ => return Err(refuse(&tensor, right)),
    }
    all_finite(&tensor.name, &decode(&tensor.data, Dtype::E4m3)?)?;
    let (rows, cols) = (rows as u64, cols as u64);
    Ok(Matrix { name: tensor.name, rows, cols, dtype: Dtype::E4m3, data: tensor.data })
}

/// The scales of a weight of `shape`, and what has one. With `blocks` nothing else is right.
fn scales_of(
    tensor: &Tensor,
    [n, k]: [usize; 2],
    blocks: bool,
) -> Result<(Scales, ScaleOf), Error> {
    let of_blocks = [n.div_ceil(128), k.div_ceil(128)];
    let right = if blocks {
        format!("f32 {of_blocks:?} is right, with blocks of 128 x 128 of [{n}, {k}]")
    } else {
        format!("f32, bf16 or f16 is right: one value, [{n}], [{n}, 1] or {of_blocks:?}")
    };
    let values = numbers(tensor, &right)?;
    let of = match tensor.shape[..] {
        _ if values.len() == 1 && !blocks => ScaleOf::Tensor,
        [rows] | [rows, 1] if rows == n && !blocks => ScaleOf::Row,
        [rows, cols] if [rows, cols] == of_blocks => ScaleOf::Block,
        _ => return Err(refuse(tensor, right)),
    };
    Ok((Scales::of_blocks(values, of.block('B', [n, k])), of))
}

/// The bias of N rows.
fn bias_of(tensor: &Tensor, n: usize) -> Result<Vec<f32>, Error> {
    let right = format!("a bias of bf16, f16 or f32 [{n}] is right");
    if tensor.shape != [n] {
        return Err(refuse(tensor, right));
    }
    numbers(tensor, &right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dtype: FileDtype, shape: &[usize], values: &[f32]) -> Tensor {
        let of = match dtype {
            FileDtype::BF16 => Dtype::Bf16,
            _ => Dtype::F32,
        };
        let data = host::data::encode(values, of).unwrap();
        Tensor { name: "f:s".to_owned(), dtype, shape: shape.to_vec(), data }
    }

    #[test]
    fn the_shape_of_scales_says_what_has_one() {
        use ScaleOf::{Block, Row, Tensor};
        let f32 = FileDtype::F32;
        for (shape, blocks, right) in [
            (&[][..], false, Some(Tensor)),
            (&[1], false, Some(Tensor)),
            (&[300], false, Some(Row)),
            (&[300, 1], false, Some(Row)),
            (&[3, 2], false, Some(Block)),
            (&[3, 2], true, Some(Block)),
            (&[300, 1], true, None),
            (&[], true, None),
            (&[2, 2], false, None),
            (&[3, 2, 1], false, None),
            (&[1, 300], false, None),
            (&[0], false, None),
        ] {
            let values = vec![0.5; shape.iter().product()];
            let found = scales_of(&tensor(f32, shape, &values), [300, 200], blocks);
            assert_eq!(found.as_ref().ok().map(|(_, of)| *of), right, "{shape:?} {blocks}");
            if let Err(error) = found {
                assert!(error.to_string().contains("[3, 2]"), "{error}");
            }
        }
        // One block is a tensor, and the scales of bf16 are f32 values.
        let (scales, of) =
            scales_of(&tensor(FileDtype::BF16, &[1, 1], &[0.375]), [100, 100], false).unwrap();
        assert_eq!((&scales.values[..], of), (&[0.375][..], Tensor));
        assert!(scales_of(&tensor(f32, &[1], &[f32::NAN]), [1, 1], false).is_err());
    }

    #[test]
    fn a_scale_of_x_divides() {
        assert!(positive("s", 0.5).is_ok());
        for bad in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-40] {
            assert!(positive("s", bad).is_err(), "{bad}");
        }
    }
}
