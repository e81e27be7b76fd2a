//! Causal attention with ALiBi, on warpipe's host side.

use crate::IMAGE;
use attention_example_kernels::alibi::{Alibi, INSTANCES};
use warpipe::host::attention::{Attention, AttentionProblem, Heads, Mask, Sequences};
use warpipe::host::{Device, Dtype, Error, data};

/// The slope of a head: 2^(-8 / heads), and its powers.
pub fn slope(head: u32, heads: u32) -> f64 {
    (-8.0 * f64::from(head + 1) / f64::from(heads)).exp2()
}

// example: run
/// O for Q, K and V of [batch, tokens, heads, head dim], bf16 in memory.
///
/// # Errors
/// A problem that the kernel can't compute; errors of the device.
pub fn run(
    device: &Device,
    [batch, tokens]: [u32; 2],
    heads: Heads,
    [q, k, v]: [&[f32]; 3],
) -> Result<Vec<f32>, Error> {
    let sequences = Sequences::Equal { batch, q: tokens, kv: tokens };
    let problem = AttentionProblem {
        mask: Mask::CAUSAL,
        ..AttentionProblem::bshd(Dtype::Bf16, heads, sequences)
    };
    let plan = Attention::with_instances(device, &IMAGE, INSTANCES)?.plan(&problem)?;

    let upload = |values: &[f32]| device.upload(&data::encode(values, Dtype::Bf16)?);
    let (dq, dk, dv) = (upload(q)?, upload(k)?, upload(v)?);
    let mut o = device.alloc(2 * q.len())?;

    let bias = Alibi { step: 8.0 / heads.q as f32 };
    plan.bind(&dq, &dk, &dv, &mut o, None)?.run_with(bias, &device.stream())?;
    data::decode(&o.to_vec()?, Dtype::Bf16)
}
// end
