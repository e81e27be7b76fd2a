//! Tensor maps as the SM model packs them.

use crate::error::Error;
use crate::tensor::{Matrix, TensorBox};
use crate::tensor_nd::TensorNd;
use isa::kernel::Dtype;
use sim::tensor_map::{DataType, Swizzle, TensorMapDesc};

/// Encodes a checked tensor map as the model packs it.
pub(crate) fn encode(addr: u64, matrix: &Matrix, tile: TensorBox) -> Result<[u64; 16], Error> {
    let desc = TensorMapDesc {
        dtype: data_type(matrix.dtype),
        rank: 2,
        addr,
        dims: [matrix.cols, matrix.rows, 1, 1, 1],
        strides: [matrix.pitch, 0, 0, 0],
        box_dims: [tile.cols, tile.rows, 1, 1, 1],
        swizzle: swizzle(tile.swizzle_bytes),
    };
    sim::tensor_map::encode(&desc).map_err(Error::ModelTensor)
}

/// The same for any rank, of a tensor at `addr`.
pub(crate) fn encode_nd(addr: u64, spec: &TensorNd<'_>) -> Result<[u64; 16], Error> {
    let desc = TensorMapDesc {
        dtype: data_type(spec.dtype),
        rank: spec.dims.len() as u32,
        addr,
        dims: std::array::from_fn(|i| spec.dims.get(i).copied().unwrap_or(1)),
        strides: std::array::from_fn(|i| spec.strides.get(i).copied().unwrap_or(0)),
        box_dims: std::array::from_fn(|i| spec.box_dims.get(i).copied().unwrap_or(1)),
        swizzle: swizzle(spec.swizzle_bytes),
    };
    sim::tensor_map::encode(&desc).map_err(Error::ModelTensor)
}

fn data_type(dtype: Dtype) -> DataType {
    match dtype {
        Dtype::Bf16 => DataType::Bf16,
        Dtype::F16 => DataType::F16,
        Dtype::F32 => DataType::F32,
        Dtype::U8 | Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 => DataType::U8,
        Dtype::U32 => DataType::U32,
        Dtype::I32 => DataType::I32,
        Dtype::Tf32 => DataType::Tf32,
    }
}

fn swizzle(span: u32) -> Swizzle {
    match span {
        32 => Swizzle::B32,
        64 => Swizzle::B64,
        128 => Swizzle::B128,
        _ => Swizzle::None,
    }
}
