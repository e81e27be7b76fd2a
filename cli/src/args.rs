//! Values of options: tensors in files, devices, element types.

use isa::kernel::Dtype;
use std::path::PathBuf;
use std::str::FromStr;

/// `FILE:TENSOR` or `FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorRef {
    pub file: PathBuf,
    pub tensor: Option<String>,
}

impl FromStr for TensorRef {
    type Err = String;

    /// The tensor's name begins after the first `.safetensors:`, or otherwise after the last colon.
    fn from_str(text: &str) -> Result<Self, String> {
        const SUFFIX: &str = ".safetensors";
        let marked = text.find(&format!("{SUFFIX}:")).map(|at| at + SUFFIX.len());
        let (file, tensor) = match marked.or_else(|| text.rfind(':')) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        if file.is_empty() {
            return Err("no file before the colon; write FILE:TENSOR".to_owned());
        }
        if tensor == Some("") {
            return Err("no tensor after the colon; write FILE:TENSOR".to_owned());
        }
        Ok(Self { file: file.into(), tensor: tensor.map(str::to_owned) })
    }
}

/// The device that runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceArg {
    /// A Hopper GPU if there is one, otherwise the SM model.
    Auto,
    /// The GPU with this ordinal.
    Cuda(usize),
    /// The SM model.
    Sim,
}

impl FromStr for DeviceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "sim" => Ok(Self::Sim),
            "cuda" => Ok(Self::Cuda(0)),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|index| index.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| "expected auto, cuda, cuda:N (N from 0) or sim".to_owned()),
        }
    }
}

/// An element type of the GEMM's result.
pub fn result_dtype(text: &str) -> Result<Dtype, String> {
    match text {
        "bf16" => Ok(Dtype::Bf16),
        "f16" => Ok(Dtype::F16),
        "f32" => Ok(Dtype::F32),
        _ => Err("expected bf16, f16 or f32".to_owned()),
    }
}

/// An element type of the GEMM's operands.
pub fn operand_dtype(text: &str) -> Result<Dtype, String> {
    match result_dtype(text) {
        Ok(dtype) if dtype != Dtype::F32 => Ok(dtype),
        _ => Err("expected bf16 or f16".to_owned()),
    }
}

/// The element types of A and B of `warpipe gemm`: `e4m3`, or a mix as `e5m2xe4m3`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperandTypes {
    pub a: Dtype,
    pub b: Dtype,
}

impl OperandTypes {
    /// Both of one type.
    pub const fn of(dtype: Dtype) -> Self {
        Self { a: dtype, b: dtype }
    }

    /// Whether they have scales: 8-bit floats and integers.
    pub const fn have_scales(self) -> bool {
        matches!(self.a, Dtype::E4m3 | Dtype::E5m2 | Dtype::I8)
    }

    /// Whether both are e4m3.
    pub const fn are_e4m3(self) -> bool {
        matches!((self.a, self.b), (Dtype::E4m3, Dtype::E4m3))
    }
}

impl FromStr for OperandTypes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let float8 = |text: &str| match text {
            "e4m3" => Some(Dtype::E4m3),
            "e5m2" => Some(Dtype::E5m2),
            _ => None,
        };
        let mix = text.split_once('x').and_then(|(a, b)| Some([float8(a)?, float8(b)?]));
        let one = match text {
            "tf32" => Some(Dtype::Tf32),
            "int8" | "s8" => Some(Dtype::I8),
            _ => float8(text).or_else(|| operand_dtype(text).ok()),
        };
        match (mix, one) {
            (Some([a, b]), _) => Ok(Self { a, b }),
            (_, Some(dtype)) => Ok(Self::of(dtype)),
            _ => {
                Err("expected bf16, f16, tf32, int8, e4m3, e5m2, e5m2xe4m3 or e4m3xe5m2".to_owned())
            }
        }
    }
}

/// An element type of the result of `warpipe gemm`.
pub fn gemm_result_dtype(text: &str) -> Result<Dtype, String> {
    match text {
        "e4m3" => Ok(Dtype::E4m3),
        "int32" | "s32" => Ok(Dtype::I32),
        _ => result_dtype(text).map_err(|_| "expected bf16, f16, f32, e4m3 or int32".to_owned()),
    }
}

/// The scales of an operand: `2.5`, or those of a tensor in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum ScaleArg {
    /// One for the whole operand.
    Number(f32),
    /// f32 values in a file: one, or one for each row.
    Tensor(TensorRef),
}

impl FromStr for ScaleArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f32>() {
            Ok(_) => finite(text).map(Self::Number),
            Err(_) => text.parse().map(Self::Tensor),
        }
    }
}

/// The value of `--layout` of `warpipe check`, which the GEMM and attention share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutArg {
    /// tn, tt, nn or nt.
    Gemm(host::gemm::Layout),
    /// bshd or bhsd.
    Attention(crate::attention::shape::Layout),
}

impl FromStr for LayoutArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let attention = clap::ValueEnum::from_str(text, false).map(Self::Attention);
        attention
            .or_else(|_| text.parse().map(Self::Gemm))
            .map_err(|_| "expected tn, tt, nn or nt, and for attention bshd or bhsd".to_owned())
    }
}

/// A finite number.
pub fn finite(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(number) => Err(format!("{number} is not a finite 32-bit number")),
        Err(e) => Err(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(text: &str) -> (String, Option<String>) {
        let parsed = text.parse::<TensorRef>().unwrap();
        (parsed.file.display().to_string(), parsed.tensor)
    }

    #[test]
    fn tensor_names_may_hold_colons_and_files_too() {
        let some = |s: &str| Some(s.to_owned());
        assert_eq!(tensor("w.safetensors"), ("w.safetensors".into(), None));
        assert_eq!(tensor("w.safetensors:a.b"), ("w.safetensors".into(), some("a.b")));
        assert_eq!(tensor("w.safetensors:a:b"), ("w.safetensors".into(), some("a:b")));
        assert_eq!(tensor("odd:dir/w.st:a"), ("odd:dir/w.st".into(), some("a")));
        assert!(":a".parse::<TensorRef>().is_err());
        assert!("w.safetensors:".parse::<TensorRef>().is_err());
    }

    #[test]
    fn devices() {
        assert_eq!("auto".parse(), Ok(DeviceArg::Auto));
        assert_eq!("cuda".parse(), Ok(DeviceArg::Cuda(0)));
        assert_eq!("cuda:3".parse(), Ok(DeviceArg::Cuda(3)));
        for bad in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "sim:0"] {
            assert!(bad.parse::<DeviceArg>().is_err(), "{bad}");
        }
    }

    #[test]
    fn types_of_operands() {
        let of = |text: &str| text.parse::<OperandTypes>();
        assert_eq!(of("int8"), Ok(OperandTypes::of(Dtype::I8)));
        assert_eq!(of("e5m2xe5m2"), Ok(OperandTypes::of(Dtype::E5m2)));
        let mix = of("e4m3xe5m2").unwrap();
        assert_eq!((mix.a, mix.b, mix.are_e4m3()), (Dtype::E4m3, Dtype::E5m2, false));
        for bad in ["", "f32", "e4m3xbf16", "x", "int8xint8"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert_eq!(gemm_result_dtype("s32"), Ok(Dtype::I32));
        assert!(gemm_result_dtype("e5m2").is_err());
    }

    #[test]
    fn scales_are_numbers_or_tensors() {
        assert_eq!("0.5".parse(), Ok(ScaleArg::Number(0.5)));
        let (file, tensor) = ("w.safetensors".into(), Some("s".to_owned()));
        let named = ScaleArg::Tensor(TensorRef { file, tensor });
        assert_eq!("w.safetensors:s".parse(), Ok(named));
        assert!("inf".parse::<ScaleArg>().is_err() && "nan".parse::<ScaleArg>().is_err());
    }

    #[test]
    fn numbers_are_finite() {
        assert_eq!(finite("-0.5"), Ok(-0.5));
        for bad in ["nan", "inf", "1e39", "x"] {
            assert!(finite(bad).is_err(), "{bad}");
        }
    }
}
