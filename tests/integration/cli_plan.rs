//! `warpipe plan`: every kernel and schedule with its predicted time, on any machine.

use crate::common::{Folder, outcome, warpipe};
use serde_json::Value;
use std::collections::BTreeSet;
use warpipe::gpu_kernels::gemm::INSTANCES;
use warpipe::host::Dtype;
use warpipe::host::gemm::{GemmProblem, HardwareInfo, pick};

fn plan(options: &[&str]) -> String {
    let (code, stdout, stderr) = outcome(&warpipe([&["plan"], options].concat()));
    assert_eq!((code, stderr.as_str()), (0, ""), "{options:?}");
    stdout
}

#[test]
fn all_candidates_are_listed_best_first_and_the_best_is_the_picker_s() {
    for (m, n, k, sms) in [(8192, 8192, 8192, 132), (1, 4096, 4096, 132), (3072, 3072, 3072, 78)] {
        let [m64, n64, k64, sms64] = [m, n, k, u64::from(sms)].map(|x: u64| x.to_string());
        let options = ["--m", &m64, "--n", &n64, "--k", &k64, "--sms", &sms64, "--all", "--json"];
        let report: Value = serde_json::from_str(&plan(&options)).expect("JSON");
        let rows = report["candidates"].as_array().expect("candidates");
        let (ab, out) = (Dtype::Bf16, Dtype::Bf16);
        let fitting: BTreeSet<u64> = (0..)
            .zip(INSTANCES.iter())
            .filter(|(_, i)| (i.ab, i.out, i.has_c) == (ab, out, false))
            .map(|(index, _)| index)
            .collect();
        let listed: BTreeSet<u64> =
            rows.iter().map(|row| row["index"].as_u64().expect("a row")).collect();
        assert_eq!(listed, fitting);
        assert_eq!(report["count"], rows.len());
        let kinds: BTreeSet<String> = rows
            .iter()
            .map(|row| format!("{} {} {}", row["name"], row["clusters"], row["streamed"]))
            .collect();
        assert_eq!(kinds.len(), rows.len(), "a schedule is listed twice");
        assert!(rows.iter().any(|row| row["streamed"] != 0), "no tile is split");
        let problem = GemmProblem { m, n, k, ab, out, beta_c: false };
        let picked =
            pick(&INSTANCES, &problem, false, HardwareInfo::h200(sms)).expect("an instance").index;
        assert_eq!(rows[0]["index"], picked);
        let number = |row: &Value, name: &str| row[name].as_f64().expect("a number");
        let times: Vec<f64> = rows.iter().map(|row| number(row, "predicted_us")).collect();
        assert!(times.is_sorted(), "{times:?}");
        for row in rows {
            let terms = ["start_us", "whole_us", "run_us", "epilogues_us", "fixup_us"];
            let busiest: f64 = terms.iter().map(|name| number(row, name)).sum();
            let longest = [busiest.max(0.0), number(row, "memory_us"), number(row, "power_us")];
            let norm = longest.map(|us| us.powi(4)).iter().sum::<f64>().powf(0.25);
            let sum = (number(row, "launch_us") + norm) * number(row, "correction");
            assert!((sum - number(row, "predicted_us")).abs() < 1e-6, "{row}");
        }
    }
}

#[test]
fn the_table_names_every_term() {
    let text = plan(&["--m", "16", "--n", "4096", "--k", "4096", "--with-c", "--out-dtype", "f32"]);
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some(
            "D[16, 4096] f32 = A[16, 4096] B[4096, 4096]^T bf16 + C on 132 SMs, with the times and rates of an H200"
        )
    );
    // A, B, and C and D of f32.
    assert_eq!(lines.next(), Some("32.6 MiB of operands and result"));
    let counts = lines.next().expect("how many");
    for term in ["launch", "whole", "run", "epilogues", "fix-up", "schedule", "smem", "fetched"] {
        assert!(text.contains(term), "{term} is not in: {text}");
    }
    assert!(text.contains("gemm_bf16_f32_64x64_1x1_c"), "{text}");
    // The best 12 of many, under three lines of words and a heading.
    assert!(counts.starts_with("the best 12 of "), "{counts}");
    assert_eq!(text.lines().count(), 5 + 12);
}

/// An H100 reads memory more slowly than an H200, and the constants of each say so, for the kernels of all families.
#[test]
fn each_gpu_has_times_of_its_own() {
    let folder = Folder::new();
    let groups = folder.arg("groups.txt");
    std::fs::write(&groups, "16\n16\n").unwrap();
    for rows in [
        &["--m", "16"][..],
        &["--m", "16", "--layout", "tt"],
        &["--m", "16", "--dtype", "e4m3"],
        &["--groups", &groups],
    ] {
        let plan_on = |gpu: &str| -> Value {
            let options = ["--n", "14336", "--k", "4096", "--gpu", gpu, "--json"];
            serde_json::from_str(&plan(&[rows, &options].concat())).unwrap()
        };
        let [h100, h200] = ["h100", "h200"].map(plan_on);
        assert_eq!((&h100["gpu"], &h200["gpu"]), (&"H100".into(), &"H200".into()));
        let memory =
            |report: &Value| report["candidates"][0]["memory_us"].as_f64().expect("a number");
        let (h100, h200) = (memory(&h100), memory(&h200));
        assert!(h100 > 1.2 * h200, "{rows:?}: {h100} {h200}");
    }
}

/// Every kernel of the table is listed, and the picked one is that of a plan.
#[test]
fn families_are_listed_and_the_pick_is_marked() {
    let folder = Folder::new();
    let groups = folder.arg("groups.txt");
    std::fs::write(&groups, "70\n0\n17\n").unwrap();
    let size = ["--m", "72", "--n", "128", "--k", "256"];
    for (options, kernels, note) in [
        (&["--dtype", "e4m3"][..], 18, false),
        (&["--dtype", "e4m3", "--fast-accum"], 17, false),
        (&["--dtype", "e4m3", "--scales", "block"], 10, false),
        (&["--dtype", "e4m3", "--with-c"], 1, true),
        (&["--dtype", "e4m3", "--out-dtype", "e4m3"], 7, true),
        (&["--dtype", "e5m2xe4m3"], 5, true),
        (&["--dtype", "int8"], 2, true),
        (&["--dtype", "int8", "--out-dtype", "bf16"], 3, true),
        (&["--dtype", "tf32"], 3, true),
        (&["--epilogue", "bias+gelu"], 15, false),
        (&["--epilogue", "bias+gelu+residual"], 3, false),
        (&["--epilogue", "swiglu"], 3, false),
        (&["--layout", "tt", "--batch", "3"], 2, true),
        (&["--layout", "nt", "--column-major", "--dtype", "f16"], 1, true),
        (&["--groups", &groups], 5, true),
    ] {
        let size = if options[0] == "--groups" { &size[2..] } else { &size[..] };
        let options = [options, size, &["--all"]].concat();
        let report: Value =
            serde_json::from_str(&plan(&[&options[..], &["--json"]].concat())).expect("JSON");
        let rows = report["candidates"].as_array().expect("candidates");
        let names: BTreeSet<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
        assert_eq!(names.len(), kernels, "{options:?}: {names:?}");
        let picked: Vec<_> = rows.iter().filter(|row| row["picked"] == true).collect();
        assert_eq!(picked.len(), 1, "{options:?}");
        assert_eq!(report["note"].is_string(), note, "{options:?}");
        // `warpipe gemm` takes the same kernel on the model, which has as many SMs.
        let gemm: Vec<&str> = options
            .iter()
            .map(|option| if *option == "--with-c" { "--beta=1" } else { option })
            .filter(|option| *option != "--all")
            .collect();
        let line = [&["gemm", "--device", "sim", "--json"], &gemm[..]].concat();
        let (code, stdout, stderr) = outcome(&warpipe(line));
        assert_eq!((code, stderr.as_str()), (0, ""), "{options:?}");
        let ran: Value = serde_json::from_str(&stdout).expect("JSON");
        assert_eq!(ran["plan"]["kernel"]["name"], picked[0]["name"], "{options:?}");
        let text = plan(&options);
        let lines: Vec<_> = text.lines().filter(|line| line.contains("picked")).collect();
        assert_eq!(lines.len(), 1, "{text}");
    }
}

#[test]
fn predictions_of_8_bits_say_what_they_are() {
    let of = |dtype| plan(&["--m", "64", "--n", "7168", "--k", "2048", "--dtype", dtype]);
    let note = "the constants of the predictions were fitted to kernels of bf16 and of e4m3: there are none of these types";
    for (dtype, noted) in [("e4m3", false), ("e4m3xe5m2", true), ("int8", true)] {
        let text = of(dtype);
        assert_eq!(text.lines().nth(2) == Some(note), noted, "{text}");
    }
    let size = ["--m", "64", "--n", "40", "--k", "64"];
    for bad in [
        &["--dtype", "int8", "--out-dtype", "f16"][..],
        &["--epilogue", "swiglu"],
        &["--scales", "row"],
        &["--layout", "tt", "--with-c"],
        &["--dtype", "e4m3", "--layout", "tt"],
        &["--groups", "none.txt"],
    ] {
        let (code, stdout, stderr) = outcome(&warpipe([&["plan"], &size[..], bad].concat()));
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{bad:?} {stderr}");
    }
}
