//! Tensor maps of several heads and sequences, for kernels whose parameters have four dimensions.

use crate::small::HEAD;
use warpipe::host::{Buffer, Device, Dtype, Error, TensorMap, TensorNd};
use warpipe::prelude::KernelArg;

// example: map
/// The tensor map of Q, K, V or O of [sequences, tokens, heads, 64], for a kernel's parameter `A`, whose box has `rows` tokens.
///
/// # Errors
/// A tensor larger than its buffer; a parameter with another box.
pub fn map_for<A: KernelArg>(
    device: &Device,
    buffer: &Buffer,
    [sequences, tokens, heads]: [u64; 3],
    rows: u32,
) -> Result<TensorMap, Error> {
    // In bytes.
    let head = 2 * HEAD as u64;
    let token = heads * head;
    device.tensor_map_nd_for::<A>(&TensorNd {
        buffer,
        dtype: Dtype::Bf16,
        dims: &[HEAD as u64, tokens, heads, sequences],
        strides: &[token, head, tokens * token],
        box_dims: &[64, rows, 1, 1],
        swizzle_bytes: 128,
    })
}
// end
