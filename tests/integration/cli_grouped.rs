//! `warpipe gemm --groups`, `gemm --problems` and `check gemm --problems` on the SM model.

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

/// Runs `gemm --problems` with a file of this text; gives the exit code, the report and stderr.
fn problems(text: &str, arguments: &[&str]) -> (i32, Value, String) {
    let folder = Folder::new();
    let file = folder.path("problems.txt");
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let fixed = ["gemm", "--device", "sim", "--json", "--problems", file];
    let (code, stdout, stderr) = outcome(&warpipe(fixed.iter().chain(arguments)));
    (code, serde_json::from_str(&stdout).unwrap_or(Value::Null), stderr)
}

#[test]
fn problems_of_any_sizes() {
    let sizes = "5 72 136\n0 8 8\n\n 90 16 7 \n1 0 0\n200 136 64\n";
    let (code, report, stderr) = problems(sizes, &["--check", "--alpha", "-0.5"]);
    assert_eq!((code, &report["check"]["passed"]), (0, &Value::Bool(true)), "{report}{stderr}");
    assert_eq!(report["check"]["compared"], 5 * 72 + 90 * 16 + 200 * 136, "{report}");
    assert_eq!((&report["problems"], &report["empty"]), (&5.into(), &2.into()), "{report}");
    let (code, report, stderr) = problems("0 0 0\n", &["--check"]);
    assert_eq!((code, &report["check"]), (0, &Value::Null), "{report}{stderr}");
}

#[test]
fn problems_under_many_schedules() {
    let folder = Folder::new();
    let file = folder.path("problems.txt");
    fs::write(&file, "5 72 136\n0 8 8\n200 136 64\n").unwrap();
    let check = |file: &str, more: &[&str]| {
        let fixed = ["check", "gemm", "--seeds", "4", "--problems", file];
        outcome(&warpipe(fixed.iter().chain(more)))
    };
    let name = file.to_str().unwrap();
    let (code, stdout, stderr) = check(name, &["--all-instances"]);
    assert_eq!((code, stdout.lines().count()), (0, 3), "{stdout}{stderr}");
    let line = "_64x128_1x1_pp 3 problems, 1 empty: 4 schedules, no finding";
    assert!(stdout.contains(line), "{stdout}");
    for more in [&[][..], &["--instance", "128x128_1x1_pp"]] {
        let (code, stdout, stderr) = check(name, more);
        assert_eq!((code, stdout.lines().count()), (0, 1), "{stdout}{stderr}");
    }

    let empty = folder.path("empty.txt");
    fs::write(&empty, "0 8 8\n").unwrap();
    let empty = empty.to_str().unwrap();
    for (name, more, says) in [
        (empty, &[][..], "every D is empty"),
        (name, &["--instance", "32x32"], "no instance 32x32"),
        (name, &["--certify"], "--certify"),
        (name, &["--m", "8", "--n", "8", "--k", "8"], "--m"),
        (name, &["--n", "8", "--k", "8"], "--n"),
    ] {
        let (code, _, stderr) = check(name, more);
        assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
    }
    let (code, _, stderr) = outcome(&warpipe(["check", "attention", "--problems", name].iter()));
    assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
    assert!(stderr.contains("--problems"), "{stderr}");
}

#[test]
fn problems_that_are_refused() {
    for (text, more, says) in [
        ("4 8 8\n4 8\n", &[][..], "line 2 is \"4 8\"; expected M, N and K"),
        ("4 8 8 8\n", &[], "expected M, N and K"),
        ("-1 8 8\n", &[], "line 1 is \"-1 8 8\""),
        ("2147483648 8 8\n", &[], "each 0 to 2147483647"),
        ("4 7 8\n", &[], "N must be a multiple of 8"),
        ("4 8 0\n", &[], "K must be at least 1"),
        ("\n", &[], "no problems"),
        ("2147483647 2147483640 2147483647\n", &[], "bytes of memory are free"),
        ("4 8 8\n", &["--n", "8"], "--n"),
        ("4 8 8\n", &["--epilogue", "bias"], "--epilogue"),
    ] {
        let (code, _, stderr) = problems(text, more);
        assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
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
