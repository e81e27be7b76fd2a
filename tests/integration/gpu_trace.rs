//! `warpipe trace --device cuda`: what a GPU wrote down, as a picture in nanoseconds.
//!
//! Needs a build with `--features trace`. Without it, or without a GPU, the test prints a line and
//! passes; with the feature and `WARPIPE_REQUIRE_GPU=1` it fails without a GPU.

use crate::common::{self, Folder, outcome, warpipe};
use crate::gpu::Gpu;
use serde_json::Value;
use std::collections::BTreeMap;

fn gpu(test: &str) -> Option<Gpu> {
    if !cfg!(feature = "trace") {
        println!("{test}: skipped, built without the feature trace");
        return None;
    }
    crate::gpu::gpu(test)
}

/// Spans with a step, in microseconds.
fn by_step(all: &[Value], category: &str, name: Option<&str>) -> BTreeMap<u64, (f64, f64)> {
    let of = |e: &&Value| e["cat"] == category && name.is_none_or(|n| e["name"] == n);
    let number = |v: &Value| v.as_f64().expect("a number");
    let span = |e: &Value| {
        let from = number(&e["ts"]);
        Some((e["args"]["step"].as_u64()?, (from, from + number(&e["dur"]))))
    };
    all.iter().filter(of).filter_map(span).collect()
}

#[test]
fn a_gpu_s_producer_runs_ahead() {
    let Some(_gpu) = gpu("a_gpu_s_producer_runs_ahead") else { return };
    // A, and a half of B from each CTA of the cluster; or A and B.
    producer_runs_ahead("128x256_2x1", 4, 3);
    producer_runs_ahead("128x128_1x1_pp", 6, 2);
}

/// A traced run of a kernel whose ring has so many stages, which so many copies fill.
fn producer_runs_ahead(instance: &str, stages: u64, copies: u64) {
    let folder = Folder::new();
    let (svg, json) = (folder.arg("t.svg"), folder.arg("t.json"));
    // Every CTA has several tiles of eight steps.
    let shape = ["--m", "4096", "--n", "4096", "--k", "512"];
    let files = ["--device", "cuda", "--instance", instance, "--svg", &svg, "--perfetto", &json];
    let (code, stdout, stderr) =
        outcome(&warpipe([&["trace", "gemm"][..], &shape, &files].concat()));
    println!("{stdout}");
    assert_eq!((code, stderr.as_str()), (0, ""));
    let text = std::fs::read_to_string(folder.path("t.json")).expect("the trace");
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(trace["otherData"]["unit"], "ns");
    let end = trace["otherData"]["end"].as_u64().expect("an end");
    assert!((1_000..1_000_000_000).contains(&end), "{end} ns");
    let all = trace["traceEvents"].as_array().expect("events");

    let issued = by_step(all, "issue", None);
    let [filling, full, read] =
        ["filling", "full", "read"].map(|name| by_step(all, "slot", Some(name)));
    let steps = issued.len() as u64;
    assert!(steps >= 16 && steps.is_multiple_of(8), "{steps} steps");
    assert_eq!([filling.len(), full.len(), read.len()], [steps as usize; 3]);
    for step in 0..steps {
        assert!(filling[&step].1 > filling[&step].0, "step {step} takes no time to fill");
        if let Some(before) = step.checked_sub(stages) {
            // Both are recorded by the same clock, a little after the thing itself.
            let (released, until) = (read[&before].1, issued[&step].1);
            assert!(until + 0.1 > released, "step {step} at {until}, slot free at {released}");
        }
    }
    let ahead = issued.values().filter(|i| i.1 < full[&0].0).count();
    assert!(ahead >= 2, "{ahead} steps are issued before the first has arrived");
    let loads = all.iter().filter(|e| e["cat"] == "load").count();
    assert_eq!(loads as u64, copies * steps);
    let mma: f64 = all.iter().filter(|e| e["cat"] == "mma").filter_map(|e| e["dur"].as_f64()).sum();
    assert!(mma * 1e3 > 0.2 * end as f64, "wgmmas are in flight for {mma} of {end} ns");
    assert!(
        std::fs::read_to_string(folder.path("t.svg")).expect("the picture").starts_with("<svg")
    );
}

#[test]
fn clusters_that_a_gpu_does_not_have_are_refused() {
    let Some(_gpu) = gpu("clusters_that_a_gpu_does_not_have_are_refused") else { return };
    let options = ["trace", "gemm", "--device", "cuda", "--m", "256", "--n", "256", "--k", "64"];
    common::refused(&[&options[..], &["--cluster", "9"]].concat(), &["no cluster 9", "it has 1"]);
}
