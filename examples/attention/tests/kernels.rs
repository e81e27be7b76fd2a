//! The kernels on the SM model, under many schedules.
#![allow(missing_docs)]

use attention_example::reference::Head;
use attention_example::small::{HEAD, STEPS};
use attention_example::{IMAGE, alibi, heads, sigmoid, small};
use attention_example_kernels::alibi as alibi_kernels;
use attention_example_kernels::small::turns::{OTile, QTile, VTile};
use warpipe::gpu_kernels::attention::decode::DecodeInstance;
use warpipe::host::attention::{Attention, AttentionProblem, Heads, Sequences};
use warpipe::host::testing::check;
use warpipe::host::{Device, Dtype, Error, SimConfig, data};
use warpipe::pipeline::cta::Unshared;
use warpipe::prelude::TensorMap;

fn values(seed: u64, count: usize) -> Vec<f32> {
    data::rounded(&data::normal(seed, count), Dtype::Bf16).unwrap()
}

// example: test
/// Runs a step with so many tokens under `schedules` schedules.
fn step_is_right(step: usize, tokens: usize, schedules: u64) {
    let step = &STEPS[step];
    let [q, k, v] = [1, 2, 3].map(|seed| values(seed, tokens * HEAD));
    let qkv = [&q[..], &k, &v];
    let score = |x: f64, i, j| if step.causal && j > i { f64::NEG_INFINITY } else { x / 8.0 };
    check(schedules, |model| {
        let o = small::run(model, step, qkv)?;
        let error = Head { qkv, columns: HEAD }.error(&o, score);
        assert!(error <= 1.0, "{} of {tokens} tokens: {error}", step.desc.meta.name());
        Ok(())
    });
}

#[test]
fn one_block_is_softmax_of_64_keys() {
    step_is_right(0, 64, 20);
}

#[test]
fn blocks_are_causal_attention() {
    step_is_right(1, 1, 2);
    step_is_right(1, 200, 5);
}
// end

#[test]
fn overlapped_blocks_are_causal_attention() {
    step_is_right(2, 65, 5);
    step_is_right(2, 200, 5);
}

#[test]
fn groups_in_turns_are_causal_attention() {
    step_is_right(3, 100, 5);
    step_is_right(3, 300, 5);
}

// example: sigmoid
#[test]
fn sigmoid_replaces_softmax() {
    for (tokens, causal) in [(100, false), (300, false), (100, true), (300, true)] {
        let [q, k, v] = [1, 2, 3].map(|seed| values(seed, tokens * HEAD));
        let (qkv, bias) = ([&q[..], &k, &v], -(tokens as f32).ln());
        let hidden = |i, j| causal && j > i;
        let score = |x: f64, i, j| {
            if hidden(i, j) { f64::NEG_INFINITY } else { x / 8.0 + f64::from(bias) }
        };
        check(5, |model| {
            let o = sigmoid::run(model, qkv, bias, causal)?;
            let error = Head { qkv, columns: HEAD }.sigmoid_error(&o, score);
            assert!(error <= 1.0, "causal {causal}, {tokens} tokens: {error}");
            Ok(())
        });
    }
}
// end

#[test]
fn maps_of_heads_and_sequences_have_the_boxes_of_the_tiles() {
    let (model, size) = (Device::sim(SimConfig::default()), [2, 300, 4]);
    let buffer = model.alloc(2 * 300 * 4 * 2 * HEAD).unwrap();
    heads::map_for::<&TensorMap<QTile, Unshared, 4>>(&model, &buffer, size, 128).unwrap();
    heads::map_for::<&TensorMap<VTile, Unshared, 4>>(&model, &buffer, size, 128).unwrap();
    heads::map_for::<&TensorMap<OTile, Unshared, 4>>(&model, &buffer, size, 64).unwrap();
    let wrong = heads::map_for::<&TensorMap<OTile, Unshared, 4>>(&model, &buffer, size, 128);
    assert!(wrong.is_err(), "a box of another size");
}

/// Compares O of queries and keys of so many sequences, [sequence, row, head, column], with attention with ALiBi. Sequence `b`
/// has `keys[b]` keys in the first of `capacity` rows.
fn alibi_is_right(
    model: &Device,
    sequences: &Sequences,
    [queries, capacity]: [usize; 2],
    keys: &[usize],
) -> Result<(), Error> {
    // Heads 0 to 2 share one head of keys, and 3 to 5 the other one.
    let (columns, heads) = (96, Heads { q: 6, kv: 2, dim: 96 });
    let q = values(1, keys.len() * queries * 6 * columns);
    let [k, v] = [2, 3].map(|seed| values(seed, keys.len() * capacity * 2 * columns));
    let slopes = alibi::slopes(6);
    let o = alibi::run(model, sequences.clone(), heads, [&q, &k, &v], &slopes)?;
    let head_of = |x: &[f32], [rows, all]: [usize; 2], b: usize, head: usize| -> Vec<f32> {
        let of = x[b * rows * all * columns..].chunks(columns).skip(head).step_by(all);
        of.take(rows).flatten().copied().collect()
    };
    for (b, &seen) in keys.iter().enumerate() {
        for head in 0..6 {
            let [q, o] = [&q, &o].map(|x| head_of(x, [queries, 6], b, head));
            let [k, v] = [&k, &v].map(|x| head_of(x, [capacity, 2], b, head / 3));
            let (k, v) = (&k[..seen * columns], &v[..seen * columns]);
            let error = |slope: f32| {
                Head { qkv: [&q, k, v], columns }.error(&o, |x, i, j| {
                    let ahead = j as f64 - (i as f64 + seen as f64 - queries as f64);
                    let bias = f64::from(slope) * ahead;
                    if ahead <= 0.0 { x / 96_f64.sqrt() + bias } else { f64::NEG_INFINITY }
                })
            };
            let (right, wrong) = (error(slopes[head]), error(slopes[(head + 1) % 6]));
            assert!(right <= 1.0, "sequence {b}, head {head}: {right}");
            assert!(seen < 3 || wrong > 1.0, "another head's slope gives the same");
        }
    }
    Ok(())
}

#[test]
fn alibi_is_causal_attention_with_a_bias() {
    let sequences = Sequences::Equal { batch: 2, q: 150, kv: 150 };
    check(2, |model| Ok(alibi_is_right(model, &sequences, [150, 150], &[150, 150])?));
}

/// Rows of a tile are queries of four heads, one of which does not exist.
#[test]
fn alibi_of_few_queries_and_of_a_cache() {
    for queries in [1, 3, 40] {
        let sequences = Sequences::Equal { batch: 1, q: queries, kv: 200 };
        check(2, |model| Ok(alibi_is_right(model, &sequences, [queries as usize, 200], &[200])?));
        let keys = vec![queries, 130, 300];
        let lengths: Vec<_> = keys.iter().map(|&keys| keys as usize).collect();
        let cache = Sequences::Cache { q: queries, keys, capacity: 300 };
        check(2, |model| Ok(alibi_is_right(model, &cache, [queries as usize, 300], &lengths)?));
    }
}

#[test]
fn what_alibi_does_not_compute_is_refused() {
    let model = Device::sim(SimConfig::default());
    let heads = Heads { q: 2, kv: 1, dim: 64 };
    let (q, kv) = (values(1, 2 * 64), values(2, 9 * 64));
    let equal = Sequences::Equal { batch: 1, q: 1, kv: 9 };
    let few = alibi::run(&model, equal.clone(), heads, [&q, &kv, &kv], &[0.5]).unwrap_err();
    assert!(few.to_string().contains("slopes"), "{few}");

    // A cap beside the score would have no effect.
    let cache = Sequences::Cache { q: 1, keys: vec![9], capacity: 9 };
    let tables = (alibi_kernels::INSTANCES, alibi_kernels::DECODE_INSTANCES);
    let attention = Attention::with_tables(&model, &IMAGE, tables.0, tables.1).unwrap();
    let capped = DecodeInstance { soft_cap: true, ..tables.1[0] };
    let said = Attention::with_tables(&model, &IMAGE, &[], vec![capped].leak()).err().unwrap();
    assert!(said.to_string().contains("a kernel that takes a score ignores it"), "{said}");
    for sequences in [equal, cache] {
        let plain = AttentionProblem::bshd(Dtype::Bf16, heads, sequences);
        attention.plan(&plain).unwrap();
        let capped = AttentionProblem { softcap: Some(30.0), ..plain };
        let said = attention.plan(&capped).err().unwrap().to_string();
        let kernels = [
            "bf16 head dim 128 of few queries and caches, in pages of multiples of 64 rows without a soft-cap",
            "bf16 head dim 128 without a left window",
        ];
        let have = format!("with a soft-cap; the table of 2 has: {}", kernels.join(", "));
        assert!(said.ends_with(&have), "{said}");
    }
}
