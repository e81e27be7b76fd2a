//! Runs the sigmoid attention: one head of 64 columns, bf16.

use crate::small::{HEAD, launch};
use attention_example_kernels::small::sigmoid::sigmoid;
use std::f32::consts::LOG2_E;
use warpipe::host::{Device, Error, Param};
use warpipe::isa::kernel::Kernel;

// example: run
/// O = sigmoid(Q·Kᵀ / 8 + bias) · V for Q, K and V of [tokens, 64].
///
/// # Errors
/// Errors of the device: an allocation, a tensor map, the launch.
pub fn run(device: &Device, qkv: [&[f32]; 3], bias: f32, causal: bool) -> Result<Vec<f32>, Error> {
    let tokens = qkv[0].len() / HEAD;
    let blocks = if causal { 0 } else { tokens.div_ceil(128) as u32 };
    let [scale, bias] = [LOG2_E / 8.0, LOG2_E * bias].map(Param::value);
    launch(device, &sigmoid::DESC, 128, qkv, [scale, bias, Param::value(blocks)])
}
// end
