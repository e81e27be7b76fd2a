//! Runs a step of the small attention: one head of 64 columns, bf16.

use crate::IMAGE;
use attention_example_kernels::small::{blocks, one_block, overlap, turns};
use std::f32::consts::LOG2_E;
use warpipe::host::{Device, Dtype, Error, Param, TensorSpec, data};
use warpipe::isa::kernel::{Kernel, KernelDesc};

/// Columns of a head.
pub const HEAD: usize = 64;

/// A step of the small attention.
pub struct Step {
    /// Its kernel.
    pub desc: &'static KernelDesc,
    /// Queries of a CTA.
    pub queries: usize,
    /// Whether it takes any number of tokens and masks the keys behind the query. If not, it takes 64 tokens.
    pub causal: bool,
}

/// The steps, in order.
pub const STEPS: [Step; 4] = [
    Step { desc: &one_block::one_block::DESC, queries: 64, causal: false },
    Step { desc: &blocks::blocks::DESC, queries: 64, causal: true },
    Step { desc: &overlap::overlap::DESC, queries: 64, causal: true },
    Step { desc: &turns::turns::DESC, queries: 128, causal: true },
];

/// O = softmax(scale · Q·Kᵀ) · V for Q, K and V of [tokens, 64], with scale = 1 / 8.
///
/// # Errors
/// Errors of the device: an allocation, a tensor map, the launch.
pub fn run(device: &Device, step: &Step, qkv: [&[f32]; 3]) -> Result<Vec<f32>, Error> {
    launch(device, step.desc, step.queries, qkv, [Param::value(LOG2_E / 8.0)])
}

// example: launch
/// Launches a kernel with a CTA for each `queries` tokens, for Q, K and V of [tokens, 64]. Returns O.
///
/// Its parameters are the tensor maps of Q, K, V and O, and `scalars`.
///
/// # Errors
/// Errors of the device: an allocation, a tensor map, the launch.
pub fn launch<const N: usize>(
    device: &Device,
    desc: &'static KernelDesc,
    queries: usize,
    [q, k, v]: [&[f32]; 3],
    scalars: [Param<'_>; N],
) -> Result<Vec<f32>, Error> {
    let tokens = q.len() / HEAD;
    let upload = |values: &[f32]| device.upload(&data::encode(values, Dtype::Bf16)?);
    let buffers = [upload(q)?, upload(k)?, upload(v)?, device.alloc(2 * q.len())?];

    // The kernel's parameters state the boxes of the maps: those of V and of O differ from those of Q and K.
    let mut maps = Vec::new();
    for (buffer, param) in buffers.iter().zip(desc.meta.params()) {
        let spec = TensorSpec {
            buffer,
            offset: 0,
            dtype: Dtype::Bf16,
            rows: tokens as u64,
            cols: HEAD as u64,
            pitch_bytes: 2 * HEAD as u64,
        };
        maps.push(device.tensor_map(&spec, warpipe::host::TensorBox::of(param))?);
    }
    let mut params: Vec<Param<'_>> = maps.iter().map(Param::map).collect();
    params.extend(scalars);
    let (module, ctas) = (device.load(&IMAGE)?, tokens.div_ceil(queries) as u32);
    device.launch(&module, desc, [ctas, 1, 1], &params, &device.stream())?;
    data::decode(&buffers[3].to_vec()?, Dtype::Bf16)
}
// end
