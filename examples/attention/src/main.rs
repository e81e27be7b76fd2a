//! Runs every kernel on the GPU, or on the SM model if there is none, and compares it with attention in f64. The exit
//! code is 1 if an error is larger than rounding explains.

use attention_example::reference::Head;
use attention_example::small::{HEAD, STEPS};
use attention_example::{alibi, sigmoid, small};
use warpipe::host::attention::{Heads, Sequences};
use warpipe::host::{Device, Dtype, Error, data};

/// Seeded normal values, rounded to bf16.
fn values(seed: u64, count: usize) -> Result<Vec<f32>, Error> {
    data::rounded(&data::normal(seed, count), Dtype::Bf16)
}

fn main() -> Result<(), Error> {
    let device = Device::auto();
    println!("on {}; errors in units of what rounding may change", device.describe());
    let mut worst: f64 = 0.0;
    for step in &STEPS {
        let tokens = if step.causal { 300 } else { 64 };
        let [q, k, v] = [1, 2, 3].map(|seed| values(seed, tokens * HEAD));
        let (q, k, v) = (q?, k?, v?);
        let qkv = [&q[..], &k, &v];
        let o = small::run(&device, step, qkv)?;
        let seen = |i: usize, j: usize| !step.causal || j <= i;
        let score = |x: f64, i, j| if seen(i, j) { x / 8.0 } else { f64::NEG_INFINITY };
        let error = Head { qkv, columns: HEAD }.error(&o, score);
        println!("{}, {tokens} tokens: {error:.2}", step.desc.meta.name());
        worst = worst.max(error);
    }

    for causal in [false, true] {
        let (tokens, bias) = (300, -1.0);
        let [q, k, v] = [7, 8, 9].map(|seed| values(seed, tokens * HEAD));
        let (q, k, v) = (q?, k?, v?);
        let qkv = [&q[..], &k, &v];
        let o = sigmoid::run(&device, qkv, bias, causal)?;
        let seen = |i: usize, j: usize| !causal || j <= i;
        let score = |x: f64, i, j| {
            if seen(i, j) { x / 8.0 + f64::from(bias) } else { f64::NEG_INFINITY }
        };
        let error = Head { qkv, columns: HEAD }.sigmoid_error(&o, score);
        println!("sigmoid, causal {causal}, {tokens} tokens: {error:.2}");
        worst = worst.max(error);
    }

    let (tokens, heads) = (300, Heads { q: 1, kv: 1, dim: 128 });
    let [q, k, v] = [4, 5, 6].map(|seed| values(seed, tokens * 128));
    let (q, k, v) = (q?, k?, v?);
    // All tokens at once, and the last 16 beside a cache.
    let all = tokens as u32;
    for (queries, sequences) in [
        (tokens, Sequences::Equal { batch: 1, q: all, kv: all }),
        (16, Sequences::Cache { q: 16, keys: vec![all], capacity: all }),
    ] {
        let before = tokens - queries;
        let qkv = [&q[before * 128..], &k, &v];
        let o = alibi::run(&device, sequences, heads, qkv, &alibi::slopes(1))?;
        let error = Head { qkv, columns: 128 }.error(&o, |x, i, j| {
            let bias = f64::from(alibi::slopes(1)[0]) * ((before + i) as f64 - j as f64);
            if j <= before + i { x / f64::from(128_f32).sqrt() - bias } else { f64::NEG_INFINITY }
        });
        println!("alibi, {queries} queries and {tokens} keys: {error:.2}");
        worst = worst.max(error);
    }
    if worst > 1.0 {
        std::process::exit(1);
    }
    Ok(())
}
