//! A kernel argument: a tensor map.

use host::{Dtype, TensorBox};
use isa::cp_async_bulk::TensorMapBytes;
use isa::kernel::{KernelArg, ParamKind, ParamMeta};

/// Boxes of 64 x 64 bf16, whose rows are the 128-byte swizzle's.
pub const TILE: TensorBox = TensorBox { rows: 64, cols: 64, swizzle_bytes: 128 };

/// A tensor map of such boxes.
#[repr(transparent)]
pub struct Map(pub TensorMapBytes);

// SAFETY: the parameter is the map's 128 bytes, whose address the kernel gets.
unsafe impl KernelArg for &Map {
    type Abi = *const TensorMapBytes;
    const META: ParamMeta = ParamMeta {
        kind: ParamKind::TensorMap as u32,
        size: 128,
        align: 64,
        dtype: Dtype::Bf16 as u32,
        box_rows: TILE.rows,
        box_cols: TILE.cols,
        swizzle_bytes: TILE.swizzle_bytes,
        rank: 2,
    };
    unsafe fn from_abi(abi: Self::Abi) -> Self {
        // SAFETY: a checked launch passes a map of this kind, which outlives the kernel.
        unsafe { &*abi.cast() }
    }
    unsafe fn abi_from_param(param: *const u8) -> Self::Abi {
        param.cast()
    }
}
