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

/// Each family has the options of `warpipe gemm`, and a table of its own.
#[test]
fn families_are_checked_with_the_options_of_gemm() {
    let folder = Folder::new();
    let groups = folder.arg("groups.txt");
    std::fs::write(&groups, "5\n0\n40\n").unwrap();
    for (options, line) in [
        (
            &["--dtype", "e4m3", "--scales", "block", "--instance", "64x128_1x1_block"][..],
            "gemm_e4m3_bf16_64x128_1x1_block 72x136x200 4/0: 2 schedules, no finding",
        ),
        (
            &["--dtype", "e4m3", "--fast-accum", "--instance", "64x64t_1x1_fast"],
            "gemm_e4m3_bf16_64x64t_1x1_fast 72x136x200 6/0: 2 schedules, no finding",
        ),
        (
            &["--dtype", "int8", "--instance", "gemm_s8_s32_64x128_1x1"],
            "gemm_s8_s32_64x128_1x1 72x136x200 4/0: 2 schedules, no finding",
        ),
        (&["--epilogue", "bias+swiglu", "--dtype", "f16", "--n", "144"], "gemm_gated_f16_"),
        (
            &["--layout", "tt", "--batch", "3", "--instance", "tt_128x128_1x1_pp"],
            "gemm_layout_bf16_tt_128x128_1x1_pp 3x72x136x200 tt 6/0: 2 schedules, no finding",
        ),
        (
            &["--layout", "nn", "--batch", "2", "--instance", "nn_128x128_1x1_pp_c"],
            "gemm_layout_bf16_nn_128x128_1x1_pp_c 2x72x136x200 nn 4/0: 2 schedules, no finding",
        ),
        (
            &["--dtype", "e4m3", "--epilogue", "bias+gelu", "--instance", "64x64t_1x1"],
            "gemm_fused_e4m3_64x64t_1x1 72x136x200 6/0: 2 schedules, no finding",
        ),
    ] {
        let n = if options.contains(&"--n") { &[][..] } else { &["--n", "136"] };
        let rest = ["--m", "72", "--k", "200", "--seeds", "2"];
        let (code, stdout, stderr) =
            outcome(&warpipe([&["check", "gemm"], options, n, &rest].concat()));
        assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
        assert!(stdout.contains(line), "{options:?}: {stdout}");
    }
    let options = ["--groups", &groups, "--n", "136", "--k", "72", "--all-instances"];
    let (code, stdout, stderr) =
        outcome(&warpipe([&["check", "gemm", "--seeds", "1"], &options[..]].concat()));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert_eq!(stdout.lines().count(), 5, "{stdout}");
    let line = "gemm_grouped_bf16_32x64t_1x1 3 groups of 0 to 40 rows, 136x72, ";
    assert!(stdout.contains(line), "{stdout}");
}

#[test]
fn a_family_is_certified_too() {
    let gemm = ["check", "gemm", "--dtype", "int8", "--instance", "gemm_s8_s32_64x128_1x1"];
    let (code, stdout, stderr) =
        outcome(&warpipe([&gemm[..], &["--certify", "--steps", "k"]].concat()));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let line = "gemm_s8_s32_64x128_1x1, a step is a k tile, of one tile of each CTA: certified";
    assert!(stdout.starts_with(line), "{stdout}");
}

#[test]
fn what_a_family_does_not_have_is_refused_in_one_line() {
    let folder = Folder::new();
    let groups = folder.arg("groups.txt");
    std::fs::write(&groups, "5\n").unwrap();
    for (bad, said) in [
        (&["gemm", "--dtype", "int8", "--fast-accum"][..], "omit --fast-accum"),
        (&["gemm", "--scales", "row"], "--scales is for operands of e4m3, e5m2 and int8"),
        (&["gemm", "--dtype", "e5m2", "--scales", "block"], "give --scales tensor or row"),
        (&["gemm", "--dtype", "tf32", "--epilogue", "bias"], "products of tf32 have no --epilogue"),
        (&["gemm", "--dtype", "int8", "--beta", "1"], "only e4m3 with bf16 results"),
        (&["gemm", "--epilogue", "swiglu", "--m", "8", "--n", "40", "--k", "8"], "multiple of 16"),
        (&["gemm", "--layout", "tt", "--beta", "1"], "have no --beta"),
        (&["gemm", "--layout", "bshd"], "give tn, tt, nn or nt"),
        (&["gemm", "--batch", "2", "--scales", "row"], "have no --scales"),
        (&["gemm", "--groups", &groups, "--beta", "1"], "have no --beta"),
        (&["gemm", "--groups", &groups, "--schedule", "1/0"], "omit --schedule"),
        (&["gemm", "--groups", &groups, "--certify"], "omit one of them"),
        (&["gemm", "--n", "8", "--k", "8"], "give --m"),
        (&["gemm", "--dtype", "e4m3", "--instance", "128x999"], "no instance 128x999"),
        (&["gemm", "--dtype", "e4m3", "--schedule", "999/0"], "this device holds"),
        (&["gemm", "--instance", "gemm_sm100_x", "--dtype", "e4m3"], "for Blackwell"),
        (&["attention", "--dtype", "e4m3"], "give --dtype bf16 or f16"),
        (&["attention", "--layout", "tt"], "give bshd or bhsd"),
        (&["example", "--dtype", "int8"], "omit the options of the GEMM"),
        (&["example", "--batch", "2"], "omit them"),
    ] {
        let file = folder.arg("none.json");
        let (code, stdout, stderr) =
            outcome(&warpipe([&["check"], bad, &["--json", &file]].concat()));
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{bad:?} {stderr}");
        assert!(stderr.contains(said), "{bad:?}: {stderr}");
        assert!(!folder.path("none.json").exists(), "{bad:?}");
    }
}
