//! `warpipe bench` on a GPU: every part of it, with few samples.
//!
//! Without a GPU each test prints a line and passes; with `WARPIPE_REQUIRE_GPU=1` it fails.

use crate::common::{Folder, outcome, warpipe};
use crate::gpu::gpu;
use serde_json::Value;
use std::collections::BTreeSet;

/// What the command writes as JSON.
fn bench(options: &[&str]) -> Value {
    let few = ["bench", "--budget", "5", "--rounds", "3", "--json"];
    let (code, stdout, stderr) = outcome(&warpipe([&few[..], options].concat()));
    assert_eq!((code, stderr.as_str()), (0, ""), "{options:?}: {stdout}");
    serde_json::from_str(&stdout).expect("one JSON object")
}

#[test]
fn shapes_of_every_kind_are_right_and_give_the_same_bits_again() {
    let Some(_gpu) = gpu("shapes_of_every_kind_are_right_and_give_the_same_bits_again") else {
        return;
    };
    // Rotated and not; one row; rows that are staged; more columns than rows.
    let shapes = "64x64x64,1x512x256,300x520x200,129x257x65,256x4096x512,4096x4096x4096";
    for out in ["bf16", "f16", "f32"] {
        let dtype = if out == "f16" { "f16" } else { "bf16" };
        let options = ["--shape", shapes, "--vs", "cublaslt", "--dtype", dtype, "--out-dtype", out];
        let report = bench(&options);
        let lines = report["lines"].as_array().expect("lines");
        assert_eq!(lines.len(), 6);
        for line in lines {
            assert_eq!(
                (&line["right"], &line["same_bits"]),
                (&true.into(), &true.into()),
                "{line}"
            );
            assert!(line["samples"].as_u64() >= Some(3), "{line}");
            assert!(line["median_us"].as_f64() > Some(0.5), "{line}");
            // The check sees rounding: an error of 0 would be a check of nothing.
            assert!(line["error"].as_f64() > Some(1e-9), "{line}");
        }
        // cuBLASLt is there or it is not; if it is, the fastest of its kernels is no slower than its first.
        let (first, fastest) = (&lines[0]["cublaslt"], &lines[0]["fastest"]);
        assert_eq!(first.is_null(), fastest.is_null(), "{}", lines[0]);
        assert!(fastest["median_us"].as_f64() <= first["median_us"].as_f64(), "{}", lines[0]);
        assert!(lines[0]["sets"].as_u64() > Some(1));
        assert!(report["machine"]["copy_gbs"].as_f64() > Some(500.0), "{report}");
    }
}

#[test]
fn all_instances_and_one_of_them() {
    let Some(_gpu) = gpu("all_instances_and_one_of_them") else { return };
    let report = bench(&["--shape", "512x512x512", "--all-instances"]);
    let line = &report["lines"][0];
    let instances = line["instances"].as_array().expect("instances");
    assert!(instances.len() > 1, "{line}");
    assert_eq!(instances[0]["instance"], line["instance"]);
    assert_eq!(instances[0]["schedule"], line["schedule"]);
    let all: BTreeSet<String> =
        instances.iter().map(|i| format!("{} {}", i["instance"], i["schedule"])).collect();
    assert_eq!(all.len(), instances.len(), "one was timed twice: {line}");
    let sharing: Vec<&Value> =
        instances.iter().filter(|i| i["schedule"]["streamed"] != 0).collect();
    assert!(!sharing.is_empty() && sharing.len() < instances.len(), "{line}");
    assert!(instances.iter().all(|i| i["right"] == true && i["same_bits"] == true), "{line}");
    let last = sharing[sharing.len() - 1];
    let asked = last["instance"].as_str().expect("a name");
    let schedule = format!("{}/{}", last["schedule"]["clusters"], last["schedule"]["streamed"]);
    let one = ["--shape", "512x512x512", "--instance", asked];
    let report = bench(&[&one[..], &["--schedule", &schedule]].concat());
    let line = &report["lines"][0];
    assert_eq!((&line["instance"], &line["schedule"]), (&last["instance"], &last["schedule"]));
    assert!(line["instances"].is_null());
    assert_eq!(bench(&one)["lines"][0]["instance"], last["instance"]);
    // More clusters than any device holds.
    let (code, _, stderr) =
        outcome(&warpipe([&["bench"], &one[..], &["--schedule", "99999/0"]].concat()));
    assert!(code != 0 && stderr.contains("99999 clusters"), "{stderr}");
}

#[test]
fn isolated_launches_take_longer_than_launches_in_a_row() {
    let Some(_gpu) = gpu("isolated_launches_take_longer_than_launches_in_a_row") else { return };
    let report = bench(&["--shape", "512x512x512", "--isolated", "--vs", "cublaslt"]);
    let line = &report["lines"][0];
    let (alone, row) = (line["isolated"]["us"].as_f64(), line["median_us"].as_f64());
    // Both times are of the same kernel; the host's delay of some 5 us would show.
    assert!(alone > row && alone < row.map(|us| us + 6.0), "{line}");
    assert_eq!(line["isolated"]["fastest_us"].is_null(), line["fastest"].is_null(), "{line}");
}

#[test]
fn a_record_has_the_picker_s_choice_and_times_of_many_kernels() {
    let Some(_gpu) = gpu("a_record_has_the_picker_s_choice_and_times_of_many_kernels") else {
        return;
    };
    let folder = Folder::new();
    let file = folder.arg("times.jsonl");
    let shapes = ["bench", "--suite", "random", "--random-shapes", "3", "--random-m", "1..2000"];
    let sizes = ["--random-n", "128..2000", "--random-k", "128..2000", "--vs", "cublaslt"];
    let options = ["--record", &file, "--record-plans", "20"];
    let (code, stdout, stderr) = outcome(&warpipe([&shapes[..], &sizes, &options].concat()));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("3 shapes, geometric mean"), "{stdout}");
    let text = std::fs::read_to_string(&file).expect("the record");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((lines.len(), &lines[0]["format"]), (4, &"warpipe times 1".into()));
    for line in &lines[1..] {
        let runs = line["runs"].as_array().expect("runs");
        assert!((5..=20).contains(&runs.len()), "{line}");
        let us = |run: &Value| run[3].as_f64().expect("a time");
        // The fastest come first, and were timed in turn.
        assert!(us(&runs[0]) > 0.5 && runs[0][4] == true, "{line}");
        assert!(runs.iter().all(|run| us(run) >= 0.8 * us(&runs[0])), "{line}");
        let picked = &runs[line["picked"].as_u64().expect("an index") as usize];
        assert!(picked[4] == true, "{line}");
    }
}

#[test]
fn products_of_e4m3_are_right_with_each_kind_of_scales_and_sums() {
    let Some(_gpu) = gpu("products_of_e4m3_are_right_with_each_kind_of_scales_and_sums") else {
        return;
    };
    // Rows of 72 bytes are staged, and cuBLASLt refuses them. 301 is no multiple of 4, the pitch of block scales.
    let shapes = "64x64x64,1x512x256,301x528x720,129x256x72,256x4096x512";
    let options = ["--shape", shapes, "--dtype", "e4m3", "--vs", "cublaslt"];
    for (more, of, fast) in [
        ("--scales tensor", "tensor", false),
        ("--scales row", "row", false),
        ("--scales block", "block", false),
        ("--fast-accum", "tensor", true),
        ("--scales row --fast-accum", "row", true),
        ("--out-dtype f16", "tensor", false),
        ("--out-dtype f32 --fast-accum", "tensor", true),
    ] {
        let more: Vec<&str> = more.split(' ').collect();
        let report = bench(&[&options[..], &more].concat());
        let lines = report["lines"].as_array().expect("lines");
        assert_eq!(lines.len(), 5);
        for line in lines {
            let judged = (&line["right"], &line["same_bits"]);
            assert_eq!(judged, (&true.into(), &true.into()), "{more:?}: {line}");
            assert_eq!((&line["ab"], &line["scales"]), (&"e4m3".into(), &of.into()), "{line}");
            assert_eq!(line["fast_accum"].as_bool().unwrap_or(false), fast, "{line}");
            assert!(line["error"].as_f64() > Some(1e-9), "{line}");
            assert_eq!(line["instance"].as_str().map(|name| name.ends_with("_fast")), Some(fast));
        }
    }
}

#[test]
fn the_suite_fp8_is_that_of_e4m3_and_a_record_of_it_says_so() {
    let Some(_gpu) = gpu("the_suite_fp8_is_that_of_e4m3_and_a_record_of_it_says_so") else {
        return;
    };
    let report = bench(&["--suite", "fp8", "--only", "decode 64x4096x4096", "--all-instances"]);
    let line = &report["lines"][0];
    assert_eq!((&line["suite"], &line["ab"]), (&"decode".into(), &"e4m3".into()));
    let instances = line["instances"].as_array().expect("instances");
    assert!(instances.len() > 5 && instances.iter().all(|i| i["right"] == true), "{line}");
    let folder = Folder::new();
    let file = folder.arg("times.jsonl");
    let options =
        ["bench", "--suite", "fp8", "--fast-accum", "--only", "decode 16x", "--vs", "cublaslt"];
    let record = ["--record", &file, "--record-plans", "12"];
    let (code, stdout, stderr) = outcome(&warpipe([&options[..], &record].concat()));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let text = std::fs::read_to_string(&file).expect("the record");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let header = &lines[0];
    assert_eq!((&header["ab"], &header["out"]), (&"e4m3".into(), &"bf16".into()), "{header}");
    let ways = (&header["scales"], &header["fast_accum"]);
    assert_eq!((ways, lines.len()), ((&"tensor".into(), &true.into()), 5), "{header}");
    let kernel = lines[1]["runs"][0][0].as_str().expect("a kernel");
    assert!(kernel.ends_with("_fast") && !kernel.starts_with("gemm"), "{kernel}");
}

#[test]
fn groups_are_in_turn_with_plain_products() {
    let Some(_gpu) = gpu("groups_are_in_turn_with_plain_products") else { return };
    let report = bench(&["--suite", "grouped", "--only", "x20x"]);
    let lines = report["lines"].as_array().expect("lines");
    assert_eq!((&report["suite"], lines.len()), (&"grouped".into(), 1));
    let line = &lines[0];
    assert_eq!((&line["groups"], &line["even"]), (&128.into(), &false.into()), "{line}");
    assert!(line["empty"].as_u64() >= Some(32) && line["rows"][0] == 0, "{line}");
    assert_eq!(line["same_bits"], true, "{line}");
    let us = |of: &str| line[of]["median_us"].as_f64().expect("a time");
    // A hundred launches take longer than one.
    assert!(us("timing") > 1.0 && us("plain") > us("timing"), "{line}");
}

#[test]
fn layers_are_in_turn_with_their_product() {
    let Some(_gpu) = gpu("layers_are_in_turn_with_their_product") else { return };
    for dtype in ["bf16", "f16"] {
        let options = ["--suite", "epilogue", "--only", "x8192x", "--vs", "cublaslt"];
        let report = bench(&[&options[..], &["--dtype", dtype]].concat());
        let lines = report["lines"].as_array().expect("lines");
        // Three layers of 2048 x 8192 x 2048, and gates.
        assert_eq!(lines.len(), 4, "{report}");
        for line in lines {
            assert_eq!(line["same_bits"], true, "{line}");
            let us = |of: &str| line[of]["median_us"].as_f64();
            assert!(us("timing") > Some(1.0) && us("product") > Some(1.0), "{line}");
            assert!(us("fastest") <= us("cublaslt"), "{line}");
        }
        assert!(lines[3]["cublaslt"].is_null() && lines[3]["gated"] == true, "{report}");
    }
}

#[test]
fn a_report_is_printed_and_drawn_again() {
    let Some(_gpu) = gpu("a_report_is_printed_and_drawn_again") else { return };
    let folder = Folder::new();
    let (json, svg) = (folder.arg("all.json"), folder.arg("all.svg"));
    let measured =
        ["bench", "--shape", "1024x1024x1024", "--rounds", "3", "--budget", "5", "--json", &json];
    let (code, stdout, stderr) = outcome(&warpipe(measured));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (code, again, stderr) = outcome(&warpipe(["bench", "--from", &json, "--svg", &svg]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let line =
        |text: &str| text.lines().find(|l| l.starts_with("1024x1024x1024")).map(str::to_owned);
    assert!(line(&stdout).is_some() && line(&stdout) == line(&again), "{stdout}\n{again}");
    assert!(std::fs::read_to_string(svg).expect("the picture").starts_with("<svg"));
}

#[test]
fn a_tuned_product_is_planned_from_the_cache() {
    let Some(_gpu) = gpu("a_tuned_product_is_planned_from_the_cache") else { return };
    let folder = Folder::new();
    let cache = folder.arg("cache.json");
    let sizes = ["gemm", "--m", "300", "--n", "520", "--k", "720", "--check", "--json"];
    let run = |more: &[&str]| {
        let (code, stdout, stderr) = outcome(&warpipe([&sizes[..], more].concat()));
        assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
        let report: Value = serde_json::from_str(&stdout).expect("JSON");
        report["plan"]["kernel"].clone()
    };
    let tuned = run(&["--tune", "--tune-cache", &cache]);
    let kept = std::fs::read_to_string(&cache).expect("the cache");
    let entries: Value = serde_json::from_str(&kept).expect("JSON");
    let entry = &entries["entries"][0];
    assert_eq!(entry["instance"], tuned["name"]);
    assert_eq!(entry["schedule"]["streamed"], tuned["streamed"]);
    assert!(entry["us"].as_f64() > Some(0.5), "{kept}");
    // Of the device's driver: its version, or "unknown" where NVML is missing.
    let driver = host::driver_version().unwrap_or("unknown");
    assert_eq!(entry["driver"], driver, "{kept}");
    assert!(tuned["why"].as_str().is_some_and(|why| why.contains("pairs that were timed")));
    // Neither command times what is there.
    let what = |kernel: &Value| ["name", "ctas", "streamed"].map(|field| kernel[field].clone());
    assert_eq!(what(&run(&["--tune-cache", &cache])), what(&tuned));
    assert_eq!(what(&run(&["--tune", "--tune-cache", &cache])), what(&tuned));
    assert_eq!(std::fs::read_to_string(&cache).expect("the cache"), kept);
    let report = bench(&["--shape", "300x520x720,64x64x64", "--tune", "--tune-cache", &cache]);
    assert_eq!(report["lines"][0]["instance"], tuned["name"]);
    assert_eq!(report["lines"][0]["schedule"], entry["schedule"]);
    let both = std::fs::read_to_string(&cache).expect("the cache");
    assert_eq!(both.matches("\"instance\"").count(), 2, "{both}");
}

#[test]
fn each_family_is_tuned_checked_and_planned_from_the_cache() {
    let Some(_gpu) = gpu("each_family_is_tuned_checked_and_planned_from_the_cache") else { return };
    let folder = Folder::new();
    let cache = folder.arg("cache.json");
    let run = |options: &str, tune: &[&str]| {
        let sizes = ["gemm", "--m", "200", "--n", "512", "--k", "1024", "--json"];
        let options: Vec<&str> = options.split_whitespace().collect();
        let tune = [&["--tune-cache", cache.as_str()], tune].concat();
        let (code, stdout, stderr) = outcome(&warpipe([&sizes[..], &options, &tune].concat()));
        assert_eq!((code, stderr.as_str()), (0, ""), "{options:?}: {stdout}");
        serde_json::from_str::<Value>(&stdout).expect("JSON")
    };
    let families = [
        "--beta 2",
        "--dtype tf32",
        "--dtype e4m3",
        "--dtype e4m3 --scales row --fast-accum",
        "--dtype e4m3 --scales block",
        "--dtype e4m3 --beta 0",
        "--dtype e4m3 --out-dtype e4m3 --d-scale 2 --amax",
        "--dtype e5m2xe4m3",
        "--dtype int8",
        "--dtype int8 --out-dtype bf16",
        "--epilogue bias+gelu",
        "--epilogue swiglu",
    ];
    for (already, options) in families.into_iter().enumerate() {
        let tuned = run(options, &["--tune", "--tune-limit", "0.5"]);
        // A find is checked, whether or not --check is given.
        assert_eq!(tuned["check"]["passed"], true, "{options}: {tuned}");
        let kept = std::fs::read_to_string(&cache).expect("the cache");
        assert_eq!(kept.matches("\"instance\"").count(), already + 1, "{options}: {kept}");
        let known = run(options, &[]);
        let kernel = |report: &Value| report["plan"]["kernel"]["name"].clone();
        assert_eq!((kernel(&known), &known["check"]), (kernel(&tuned), &Value::Null), "{options}");
        let why = known["plan"]["kernel"]["why"].as_str().expect("text");
        assert!(why.starts_with("the tune cache has it"), "{options}: {why}");
    }
    // The benchmark has the same entries.
    let shape = ["--shape", "200x512x1024", "--tune", "--tune-cache", &cache];
    for scales in ["tensor", "block"] {
        let report = bench(&[&shape[..], &["--dtype", "e4m3", "--scales", scales]].concat());
        assert_eq!(report["lines"][0]["right"], true, "{report}");
    }
    let kept = std::fs::read_to_string(&cache).expect("the cache");
    assert_eq!(kept.matches("\"instance\"").count(), families.len(), "{kept}");
    let report =
        bench(&[&shape[..], &["--dtype", "e4m3", "--fast-accum", "--out-dtype", "f16"]].concat());
    assert_eq!(report["lines"][0]["right"], true, "{report}");
    let kept = std::fs::read_to_string(&cache).expect("the cache");
    assert_eq!(kept.matches("\"instance\"").count(), families.len() + 1, "{kept}");
}
