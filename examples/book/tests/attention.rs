//! What docs/attention.md quotes, on the SM model.

// example: attention
use warpipe::host::attention::{Attention, AttentionProblem, Heads, Mask, Sequences};
use warpipe::host::{Device, Dtype, Error};

/// Causal attention of two sequences with 100 tokens each. Two heads of queries share a head of keys and values.
fn problem() -> AttentionProblem {
    let heads = Heads { q: 4, kv: 2, dim: 64 };
    let sequences = Sequences::Equal { batch: 2, q: 100, kv: 100 };
    AttentionProblem { mask: Mask::CAUSAL, ..AttentionProblem::bshd(Dtype::Bf16, heads, sequences) }
}

/// O for Q [2, 100, 4, 64], and K and V [2, 100, 2, 64].
fn attention(device: &Device, q: &[u8], k: &[u8], v: &[u8]) -> Result<Vec<u8>, Error> {
    let plan = Attention::new(device, &warpipe::GEMM_IMAGE)?.plan(&problem())?;
    let (q, k, v) = (device.upload(q)?, device.upload(k)?, device.upload(v)?);
    let mut o = device.alloc(q.len())?;
    plan.run(&q, &k, &v, &mut o, None)?;
    println!("{}", plan.describe());
    o.to_vec()
}
// end

// example: strides
use warpipe::host::attention::Strides;
use warpipe::host::{Buffer, View};

/// The same with Q, K and V side by side, [2, 100, 4 + 2 + 2, 64], as one projection leaves them.
fn of_projection(device: &Device, qkv: &Buffer) -> Result<Vec<u8>, Error> {
    let side = Strides::bshd(8, 100, 64);
    let problem = AttentionProblem { q: side, k: side, v: side, ..problem() };
    let plan = Attention::new(device, &warpipe::GEMM_IMAGE)?.plan(&problem)?;
    let mut o = device.alloc(2 * 100 * 4 * 64 * 2)?;
    // Offsets are bytes: a head has 64 elements of 2 bytes.
    let at = |head: u64| View::new(qkv).offset(head * 64 * 2);
    plan.run(at(0), at(4), at(6), &mut o, None)?;
    o.to_vec()
}
// end

// example: reference
use warpipe::host::data::decode;
use warpipe::host::reference::{self, AttentionCheck};

fn check(q: &[u8], k: &[u8], v: &[u8], o: &[u8]) -> Result<AttentionCheck, Error> {
    let values = |bytes| decode(bytes, Dtype::Bf16);
    let (problem, q, k, v) = (&problem(), &values(q)?, &values(k)?, &values(v)?);
    reference::Attention { problem, q, k, v }.check(&values(o)?, None)
}
// end

#[test]
fn both_give_the_same() {
    use warpipe::host::SimConfig;
    use warpipe::host::data::{encode, normal};
    let device = Device::sim(SimConfig::default());
    let rows = 2 * 100;
    let tensor =
        |seed, heads: usize| encode(&normal(seed, rows * heads * 64), Dtype::Bf16).unwrap();
    let (q, k, v) = (tensor(1, 4), tensor(2, 2), tensor(3, 2));
    let o = attention(&device, &q, &k, &v).unwrap();
    let checked = check(&q, &k, &v, &o).unwrap();
    assert!(checked.passed, "{checked}");

    let row =
        |tensor: &[u8], heads: usize, i: usize| tensor[i * heads * 128..][..heads * 128].to_vec();
    let qkv: Vec<u8> =
        (0..rows).flat_map(|i| [row(&q, 4, i), row(&k, 2, i), row(&v, 2, i)].concat()).collect();
    assert_eq!(of_projection(&device, &device.upload(&qkv).unwrap()).unwrap(), o);
}
