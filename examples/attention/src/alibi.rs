//! Causal attention with ALiBi, on warpipe's host side.

use crate::IMAGE;
use attention_example_kernels::alibi::{Alibi, DECODE_INSTANCES, INSTANCES};
use warpipe::host::attention::{Attention, AttentionProblem, Heads, Mask, Sequences};
use warpipe::host::{Device, Dtype, Error, data};

/// The slopes of the paper: 2^(-8 / heads), and its powers.
pub fn slopes(heads: u32) -> Vec<f32> {
    (1..=heads).map(|head| (-8.0 * head as f32 / heads as f32).exp2()).collect()
}

// example: run
/// O for Q, K and V of [sequence, row, head, column], bf16 in memory, and a slope for each head of Q.
///
/// # Errors
/// A problem that the kernels can't compute; another number of slopes; errors of the device.
pub fn run(
    device: &Device,
    sequences: Sequences,
    heads: Heads,
    [q, k, v]: [&[f32]; 3],
    slopes: &[f32],
) -> Result<Vec<f32>, Error> {
    let (given, needed) = (slopes.len() as u64, u64::from(heads.q));
    if given != needed {
        let what = "the slopes of the heads";
        return Err(Error::LengthMismatch { what, host: 4 * given, device: 4 * needed });
    }
    let problem = AttentionProblem {
        mask: Mask::CAUSAL,
        ..AttentionProblem::bshd(Dtype::Bf16, heads, sequences)
    };
    let attention = Attention::with_tables(device, &IMAGE, INSTANCES, DECODE_INSTANCES)?;
    let plan = attention.plan(&problem)?;

    let upload = |values: &[f32]| device.upload(&data::encode(values, Dtype::Bf16)?);
    let (dq, dk, dv) = (upload(q)?, upload(k)?, upload(v)?);
    let mut o = device.alloc(2 * q.len())?;

    let slopes = device.upload(&data::encode(slopes, Dtype::F32)?)?;
    let bias = Alibi { slopes: slopes.dependent_slice() };
    plan.bind(&dq, &dk, &dv, &mut o, None)?.run_with(bias, &device.stream())?;
    data::decode(&o.to_vec()?, Dtype::Bf16)
}
// end
