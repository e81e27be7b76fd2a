//! `warpipe gemm --groups` on the SM model.

use crate::common::{Folder, outcome, warpipe};
use serde_json::Value;
use std::fs;

/// Runs `gemm --groups` with a file of this text; gives the exit code, the report and stderr.
fn grouped(text: &str, arguments: &[&str]) -> (i32, Value, String) {
    let folder = Folder::new();
    let file = folder.path("groups.txt");
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let fixed = ["gemm", "--device", "sim", "--json", "--groups", file];
    let (code, stdout, stderr) = outcome(&warpipe(fixed.iter().chain(arguments)));
    (code, serde_json::from_str(&stdout).unwrap_or(Value::Null), stderr)
}

#[test]
fn groups_of_any_sizes() {
    for more in [&[][..], &["--masked", "90"]] {
        let arguments = [&["--n", "72", "--k", "136", "--check", "--alpha", "-0.5"], more].concat();
        let (code, report, stderr) = grouped("0\n5\n\n 90 \n1\n0\n", &arguments);
        assert_eq!((code, &report["check"]["passed"]), (0, &Value::Bool(true)), "{report}{stderr}");
        assert_eq!(report["check"]["compared"], 96 * 72, "{report}");
        assert!(report["check"]["relative_error"].as_f64().unwrap() < 4e-3, "{report}");
        assert_eq!((&report["empty"], &report["plan"]["groups"]), (&2.into(), &5.into()));
        let max = if more.is_empty() { Value::Null } else { 90.into() };
        assert_eq!(report["plan"]["max_rows"], max, "{report}");
    }
}

#[test]
fn groups_that_are_refused() {
    let sizes = ["--n", "72", "--k", "136"];
    for (text, more, says) in [
        ("4\nfour\n", &[][..], "line 2 is \"four\"; expected a number of rows"),
        ("-1\n", &[], "line 1 is \"-1\""),
        ("\n", &[], "no groups"),
        ("5\n9\n", &["--masked", "8"], "--masked 8: a group has 9 rows"),
        ("5\n", &["--m", "5"], "--m"),
        ("5\n", &["--epilogue", "bias"], "--epilogue"),
    ] {
        let (code, _, stderr) = grouped(text, &[&sizes[..], more].concat());
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
    }
    let (code, _, stderr) = grouped("5\n", &["--n", "70", "--k", "136"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("N = 70 of 2 bytes; it must be a multiple of 8"), "{stderr}");
    let (code, _, stderr) = grouped("5\n", &["--n", "72"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("--k"), "{stderr}");
}
