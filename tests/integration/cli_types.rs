//! `warpipe gemm` with the types beside bf16 and f16 on the SM model, and what is refused of them.

use crate::common::{Folder, outcome, same_bytes, warpipe};
use serde_json::Value;

const SIZE: [&str; 6] = ["--m", "40", "--n", "72", "--k", "272"];

/// Runs `gemm --device sim --json` and gives its exit code and report.
fn gemm(arguments: &[&str]) -> (i32, Value) {
    let (code, stdout, stderr) =
        outcome(&warpipe(["gemm", "--device", "sim", "--json"].iter().chain(arguments)));
    let report = serde_json::from_str(&stdout);
    (code, report.unwrap_or_else(|e| panic!("{arguments:?}: {e}: {stdout}{stderr}")))
}

/// A generated product passes its check with an error below `bound`.
fn passes(more: &[&str], bound: f64) -> Value {
    let (code, report) = gemm(&[&SIZE[..], &["--check"], more].concat());
    assert_eq!((code, &report["check"]["passed"]), (0, &Value::Bool(true)), "{more:?}: {report}");
    assert!(report["check"]["relative_error"].as_f64().unwrap() < bound, "{more:?}: {report}");
    report
}

/// A usage error: one line, and exit code 2.
fn refused(more: &[&str], words: &str) {
    let arguments = [&["gemm", "--device", "sim"], &SIZE[..], more].concat();
    let (code, stdout, stderr) = outcome(&warpipe(&arguments));
    assert_eq!((code, &*stdout, stderr.lines().count()), (2, "", 1), "{more:?}: {stderr}");
    assert!(stderr.contains(words), "{more:?}: {stderr}");
}

#[test]
fn quantised_results() {
    for scales in ["tensor", "row"] {
        for more in [&["--d-scale", "2"][..], &["--fast-accum"], &["--alpha", "-0.5"]] {
            let types = ["--dtype", "e4m3", "--out-dtype", "e4m3", "--amax", "--scales", scales];
            let report = passes(&[&types, more].concat(), 4e-2);
            assert!(report["amax"].as_f64().unwrap() > 10.0, "{report}");
            assert_eq!(report["amax_compared"], true, "{report}");
        }
    }
    // Nearly all results are beyond 448.
    passes(&["--dtype", "e4m3", "--out-dtype", "e4m3", "--d-scale", "1e6"], 1e-2);
}

#[test]
fn mixes_of_small_floats() {
    for types in ["e5m2", "e5m2xe4m3", "e4m3xe5m2"] {
        for more in [&["--scales", "row"][..], &["--fast-accum"]] {
            let report = passes(&[&["--dtype", types][..], more].concat(), 4e-3);
            let name = if types == "e5m2" { types.to_owned() } else { types.replace('x', " x ") };
            assert_eq!(report["plan"]["ab"], *name, "{report}");
        }
    }
}

#[test]
fn small_floats_with_c() {
    passes(&["--dtype", "e4m3", "--beta", "-2", "--scales", "row"], 4e-3);
    passes(&["--dtype", "e4m3", "--beta", "0"], 4e-3);
}

#[test]
fn integers() {
    let report = passes(&["--dtype", "int8", "--alpha", "-3"], 1e-12);
    assert_eq!((&report["plan"]["ab"], &report["plan"]["out"]), (&"i8".into(), &"i32".into()));
    passes(&["--dtype", "int8", "--out-dtype", "bf16", "--scales", "row"], 4e-3);
    passes(&["--dtype", "int8", "--out-dtype", "bf16"], 4e-3);
}

#[test]
fn tf32_of_generated_values_and_of_files() {
    passes(&["--dtype", "tf32"], 1e-6);
    let folder = Folder::new();
    let values = |seed: u32, count: u32| {
        let value =
            |i: u32| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 8) as f32 / 3e6 - 2.0;
        (0..count).flat_map(|i| value(i).to_le_bytes()).collect::<Vec<u8>>()
    };
    let tensors = [("a", values(1, 20 * 72), [20, 72]), ("b", values(2, 48 * 72), [48, 72])];
    let views = tensors.iter().map(|(name, data, shape)| {
        let dtype = safetensors::tensor::Dtype::F32;
        (*name, safetensors::tensor::TensorView::new(dtype, shape.to_vec(), data).unwrap())
    });
    folder.bytes("in.safetensors", &safetensors::serialize(views, None).unwrap());
    let [a, b, out] =
        ["in.safetensors:a", "in.safetensors:b", "out.safetensors"].map(|file| folder.arg(file));
    let files = ["--a", &a, "--b", &b, "--out", &out];
    let (code, report) = gemm(&[&files[..], &["--check", "--allow-tf32"]].concat());
    assert_eq!((code, &report["check"]["passed"]), (0, &Value::Bool(true)), "{report}");
    folder.bytes("out.safetensors", b"precious");
    let (code, _, stderr) = outcome(&warpipe([&["gemm", "--device", "sim"], &files[..]].concat()));
    assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
    assert!(stderr.contains("f32 with --allow-tf32"), "{stderr}");
    assert!(same_bytes(&folder.path("out.safetensors"), b"precious"));
}

#[test]
fn options_that_do_not_fit_the_types() {
    for (more, words) in [
        (&["--d-scale", "2"][..], "--d-scale and --amax are for operands of e4m3"),
        (&["--dtype", "e4m3", "--amax"], "--out-dtype e4m3"),
        (&["--dtype", "e4m3", "--out-dtype", "e4m3", "--scales", "block"], "tensor or row"),
        (&["--dtype", "e5m2", "--scales", "block"], "block scales are for operands of e4m3"),
        (&["--dtype", "e5m2", "--beta", "1"], "omit --c and --beta"),
        (&["--dtype", "e5m2", "--out-dtype", "f16"], "e5m2 to bf16"),
        (&["--dtype", "int8", "--fast-accum"], "sums of int8 are exact"),
        (&["--dtype", "int8", "--scales", "row"], "int32 results have no scales"),
        (&["--dtype", "int8", "--alpha", "0.5"], "whole factor"),
        (&["--dtype", "int8", "--out-dtype", "f16"], "i8 to bf16"),
        (&["--dtype", "tf32", "--scales", "row"], "--scales is for operands of e4m3"),
        (&["--dtype", "tf32", "--epilogue", "gelu"], "no --epilogue"),
        (&["--dtype", "int8", "--epilogue", "gelu"], "only e4m3 with scales of tensors or rows"),
        (&["--dtype", "e4m3", "--epilogue", "gelu", "--scales", "block"], "only e4m3 with scales"),
        (&["--dtype", "e4m3", "--epilogue", "swiglu"], "no gates and no C"),
        (&["--dtype", "e4m3", "--epilogue", "bias", "--beta", "1"], "no gates and no C"),
        (&["--dtype", "e4m3", "--epilogue", "bias", "--out-dtype", "f32"], "a result of bf16"),
        (&["--dtype", "e4m3xe5m2", "--layout", "tt"], "have no mix of types"),
    ] {
        refused(more, words);
    }
}
