//! `warpipe check`: schedules of a kernel, from the command line.

use crate::common::{Folder, outcome, warpipe};

#[test]
fn a_few_schedules_of_a_gemm_and_of_an_example() {
    let folder = Folder::new();
    let file = folder.arg("found.json");
    let gemm = ["check", "gemm", "--instance", "gemm_bf16_bf16_128x256_2x1", "--seeds", "3"];
    let gemm = [&gemm[..], &["--m", "72", "--n", "136", "--k", "72"]].concat();
    let (code, stdout, stderr) = outcome(&warpipe([&gemm[..], &["--json", &file]].concat()));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let line = "gemm_bf16_bf16_128x256_2x1 72x136x72 1/0: 3 schedules, no finding";
    assert!(stdout.contains(line), "{stdout}");
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path("found.json")).unwrap()).unwrap();
    assert_eq!((&json[0]["schedules"], &json[0]["finding"]), (&3.into(), &serde_json::Value::Null));

    for more in [&["--pct", "3", "--seeds", "2"][..], &["--seed", "5"]] {
        let arguments = [&["check", "example", "ordered_loads"], more].concat();
        let (code, stdout, stderr) = outcome(&warpipe(arguments));
        assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
        assert!(stdout.starts_with("ordered_loads: "), "{stdout}");
    }
}

/// Three tiles a CTA, so that the ends of tiles overlap; tiles that are shared first, and taken in
/// halves; with C, and f32 results, whose panels are narrower; residues in every dimension.
#[test]
fn tiles_in_halves_one_after_another() {
    let shape = ["--m", "500", "--n", "700", "--k", "200", "--seeds", "2"];
    for (instance, schedule, more) in [
        ("gemm_bf16_bf16_128x256_2x1", "2/0", &[][..]),
        ("gemm_bf16_bf16_128x256_2x1", "2/3", &[]),
        ("gemm_bf16_bf16_128x256_2x1_c", "2/3", &["--beta", "0.5"]),
        ("gemm_bf16_f32_128x256_2x1", "2/1", &["--out-dtype", "f32"]),
    ] {
        let which = ["check", "gemm", "--instance", instance, "--schedule", schedule];
        let (code, stdout, stderr) = outcome(&warpipe([&which[..], &shape, more].concat()));
        assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
        let line = format!("{instance} 500x700x200 {schedule}: 2 schedules, no finding");
        assert!(stdout.contains(&line), "{stdout}");
    }
}

#[test]
fn a_certificate_says_what_was_shown_and_what_is_assumed() {
    let folder = Folder::new();
    let file = folder.arg("certificate.json");
    let arguments = ["check", "example", "two_rings", "--certify", "--json", &file];
    let (code, stdout, stderr) = outcome(&warpipe(arguments));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.starts_with("two_rings, a step is a panel of each CTA: certified"), "{stdout}");
    for part in ["for any number of steps", "period", "lead", "assumed"] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path("certificate.json")).unwrap())
            .unwrap();
    let certificate = &json[0]["certificate"];
    let number = |name: &str| certificate[name].as_u64().unwrap();
    assert!(number("bound") >= number("first") + 3 * number("period"), "{json}");
    assert_eq!(certificate["clusters"], 2);
}

#[test]
fn what_has_no_certificate_is_one_line() {
    // The limit is too small for the period of a ring of many stages.
    let gemm = ["check", "gemm", "--instance", "gemm_bf16_bf16_64x64_1x1", "--certify"];
    let arguments = [&gemm[..], &["--steps", "k", "--max-steps", "16"]].concat();
    let (code, stdout, stderr) = outcome(&warpipe(arguments));
    assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
    assert!(stderr.contains("no certificate: up to 16 steps, "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    // Options that exclude each other.
    for bad in [
        &["example", "two_rings", "--certify", "--steps", "k"][..],
        &["example", "two_rings", "--certify", "--seeds", "3"],
        &["gemm", "--max-steps", "20"],
    ] {
        let (code, _, stderr) = outcome(&warpipe([&["check"], bad].concat()));
        assert_eq!(code, 2, "{bad:?}: {stderr}");
    }
}

#[test]
fn kernels_for_blackwell_are_checked_by_name() {
    let (code, stdout, stderr) = outcome(&warpipe([
        "check",
        "gemm",
        "--instance",
        "gemm_sm100_nvf4_bf16_128x128",
        "--seeds",
        "2",
    ]));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let line = "gemm_sm100_nvf4_bf16_128x128 136x136x800: 2 schedules, no finding";
    assert!(stdout.contains(line), "{stdout}");
    let clc = "gemm_sm100_bf16_bf16_128x256_1x1_clc";
    let (code, stdout, stderr) =
        outcome(&warpipe(["check", "gemm", "--instance", clc, "--certify", "--steps", "tiles"]));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let line = format!("{clc}, a step is a tile of the cluster, of 2 k tiles: certified");
    assert!(stdout.starts_with(&line), "{stdout}");
    // There is no such kernel, and none of them has a C.
    for bad in [&["--instance", "gemm_sm100_x"][..], &["--instance", clc, "--beta", "1"]] {
        let (code, stdout, stderr) = outcome(&warpipe([&["check", "gemm"], bad].concat()));
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{stderr}");
    }
}
