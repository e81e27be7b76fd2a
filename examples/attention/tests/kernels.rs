//! The kernels on the SM model, under many schedules.
#![allow(missing_docs)]

use attention_example::reference::Head;
use attention_example::small::{HEAD, STEPS};
use attention_example::{alibi, heads, sigmoid, small};
use attention_example_kernels::small::turns::{OTile, QTile, VTile};
use warpipe::host::attention::Heads;
use warpipe::host::testing::check;
use warpipe::host::{Device, Dtype, SimConfig, data};
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

/// Two sequences, and two heads of queries that share a head of keys but have slopes of their own.
#[test]
fn alibi_is_causal_attention_with_a_bias() {
    let (batch, tokens, heads) = (2, 150, Heads { q: 2, kv: 1, dim: 96 });
    let columns = 96;
    let q = values(1, batch * tokens * 2 * columns);
    let [k, v] = [2, 3].map(|seed| values(seed, batch * tokens * columns));
    let head_of = |x: &[f32], all: usize, b: usize, head: usize| -> Vec<f32> {
        let rows = x[b * tokens * all * columns..].chunks(columns).skip(head).step_by(all);
        rows.take(tokens).flatten().copied().collect()
    };
    let slopes = alibi::slopes(2);
    check(2, |model| {
        let size = [batch as u32, tokens as u32];
        let o = alibi::run(model, size, heads, [&q, &k, &v], &slopes)?;
        for (b, head) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let (q, o) = (head_of(&q, 2, b, head), head_of(&o, 2, b, head));
            let (k, v) = (head_of(&k, 1, b, 0), head_of(&v, 1, b, 0));
            let errors = |head: usize| {
                Head { qkv: [&q, &k, &v], columns }.error(&o, |x, i, j| {
                    let bias = f64::from(slopes[head]) * (i as f64 - j as f64);
                    if j <= i { x / 96_f64.sqrt() - bias } else { f64::NEG_INFINITY }
                })
            };
            assert!(errors(head) <= 1.0, "({b}, {head}): {}", errors(head));
            assert!(errors(1 - head) > 1.0, "the other head's slope gives the same");
        }
        Ok(())
    });
}
