//! `warpipe trace`: what the files of a run say, and what is refused.

use crate::common::{Folder, outcome, refused, warpipe};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// One CTA, two tiles of 64 x 128, eight steps each.
const GEMM: [&str; 12] = [
    "gemm",
    "--m",
    "128",
    "--n",
    "128",
    "--k",
    "512",
    "--sms",
    "1",
    "--instance",
    "gemm_bf16_bf16_64x128_1x1",
    "--perfetto",
];
const STEPS: usize = 16;

/// Traces, and reads the file that Perfetto would.
fn traced(options: &[&str]) -> Trace {
    let folder = Folder::new();
    let file = folder.arg("trace.json");
    let (code, stdout, stderr) = outcome(&warpipe([&["trace"], options, &[&file]].concat()));
    assert_eq!((code, stderr.as_str()), (0, ""), "{options:?}");
    let text = std::fs::read_to_string(folder.path("trace.json")).expect("the trace");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    let events = all["traceEvents"].as_array().expect("events").clone();
    Trace { events, stdout }
}

struct Trace {
    events: Vec<Value>,
    stdout: String,
}

/// A span: when, and what is said about it.
struct Span<'a> {
    from: f64,
    until: f64,
    args: &'a Value,
}

impl Trace {
    fn phase<'a>(&'a self, ph: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |e| e["ph"] == ph)
    }

    /// Spans of a category, with a name if one is given.
    fn spans(&self, category: &str, name: Option<&str>) -> Vec<Span<'_>> {
        let of = |e: &&Value| e["cat"] == category && name.is_none_or(|n| e["name"] == n);
        let number = |v: &Value| v.as_f64().expect("a number");
        let span = |e| {
            let e: &Value = e;
            let from = number(&e["ts"]);
            Span { from, until: from + number(&e["dur"]), args: &e["args"] }
        };
        self.phase("X").filter(of).map(span).collect()
    }

    /// Spans of a category by their step, of the ring that has the most.
    fn by_step(&self, category: &str, name: Option<&str>) -> BTreeMap<u64, (f64, f64)> {
        let step = |s: &Span<'_>| Some((s.args["step"].as_u64()?, (s.from, s.until)));
        self.spans(category, name).iter().filter_map(step).collect()
    }

    /// Names of the tracks.
    fn tracks(&self) -> Vec<&str> {
        let named = self.phase("M").filter(|e| e["name"] == "thread_name");
        named.map(|e| e["args"]["name"].as_str().expect("a name")).collect()
    }

    /// What must be true of any ring: a slot is filled, full, read, and only then filled again.
    fn check_slots(&self, ring: &str, stages: u64) -> usize {
        let slots = |name| {
            let of_ring = |s: &Span<'_>| s.args["ring"] == ring;
            let step = |s: Span<'_>| (s.args["step"].as_u64().expect("a step"), (s.from, s.until));
            self.spans("slot", Some(name)).into_iter().filter(of_ring).map(step).collect()
        };
        let [filling, full, read]: [BTreeMap<u64, (f64, f64)>; 3] =
            ["filling", "full", "read"].map(slots);
        assert_eq!((filling.len(), full.len()), (read.len(), read.len()));
        for (step, &(from, until)) in &filling {
            assert!(from < until, "step {step} takes no time to fill");
            assert!(close(full[step].0, until) && close(read[step].0, full[step].1), "step {step}");
            if let Some(before) = step.checked_sub(stages) {
                assert!(
                    read[&before].1 <= from + 1e-6,
                    "step {step} is filled while step {before} is read"
                );
            }
        }
        filling.len()
    }
}

/// The same time but for the rounding of a sum.
fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

#[test]
fn the_producer_of_a_gemm_runs_ahead_and_no_further_than_the_ring() {
    let trace = traced(&GEMM);
    let stages = trace.tracks().iter().filter(|t| t.starts_with("main loop slot")).count();
    assert!(stages > 2, "{:?}", trace.tracks());
    assert_eq!(trace.check_slots("main loop", stages as u64), STEPS);

    // The warp that loads: one slice a step, and never before the slot is free.
    let issued = trace.by_step("issue", None);
    let read = trace.by_step("slot", Some("read"));
    assert_eq!(issued.len(), STEPS);
    for (&step, &(_, until)) in &issued {
        if let Some(before) = step.checked_sub(stages as u64) {
            assert!(until > read[&before].1, "step {step} before the release of {before}");
        }
    }
    // It is ahead by the whole ring before the first step has arrived.
    let first = trace.by_step("slot", Some("full"))[&0].0;
    let ahead = issued.values().filter(|i| i.1 < first).count();
    assert_eq!(ahead, stages);

    // Two tiles a step, all of their bytes.
    let loads = trace.spans("load", None);
    assert_eq!(loads.len(), 2 * STEPS);
    let bytes: u64 = loads.iter().map(|l| l.args["bytes"].as_u64().expect("bytes")).sum();
    assert_eq!(bytes, STEPS as u64 * (64 + 128) * 64 * 2);

    let waits = trace.stdout.contains("tensor core: busy");
    assert!(
        waits && trace.stdout.contains(&format!("{STEPS} steps through {stages} slots")),
        "{}",
        trace.stdout
    );
}

#[test]
fn a_cluster_that_computes_two_tiles_has_slots_full_behind_the_first() {
    let trace = traced(&["gemm", "--instance", "128x256_2x1", "--perfetto"]);
    let stages = trace.tracks().iter().filter(|t| t.starts_with("main loop slot")).count();
    assert_eq!(trace.check_slots("main loop", stages as u64), 16);
    // A, and a half of B from each CTA of the cluster.
    assert_eq!(trace.spans("load", None).len(), 3 * 16);
    let full = trace.phase("C").filter_map(|e| e["args"]["full"].as_u64()).max();
    assert!(full >= Some(2), "{full:?}");
    let busy: f64 = trace.spans("tensor", None).iter().map(|s| s.until - s.from).sum();
    // 128 x 256 x 512 multiplications twice, 2048 a cycle, a thousand cycles a unit.
    assert!(close(busy, 2.0 * 128.0 * 256.0 * 512.0 / 2048.0 / 1e3), "{busy}");
}

#[test]
fn lanes_do_one_thing_at_a_time_and_every_flow_has_two_ends() {
    let trace = traced(&GEMM);
    let tracks = trace.tracks();
    for name in ["Load, warp 0", "Math1, group 0", "tensor core"] {
        assert!(tracks.contains(&name), "{name}: {tracks:?}");
    }
    let mut by_track: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
    for e in trace.phase("X") {
        let number = |name: &str| e[name].as_f64().expect("a number");
        let span = (number("ts"), number("ts") + number("dur"));
        by_track.entry(e["tid"].as_u64().expect("a track")).or_default().push(span);
    }
    for (tid, mut spans) in by_track {
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        for pair in spans.windows(2) {
            assert!(pair[0].1 <= pair[1].0 + 1e-6, "track {tid}: {pair:?}");
        }
    }
    let ids = |ph| {
        let mut ids: Vec<u64> = trace.phase(ph).map(|e| e["id"].as_u64().expect("an id")).collect();
        ids.sort_unstable();
        ids
    };
    let (starts, ends) = (ids("s"), ids("f"));
    assert!(starts.len() >= STEPS && starts == ends, "{starts:?} {ends:?}");
}

#[test]
fn the_stream_copy_waits_for_its_copies() {
    let trace = traced(&["example", "stream_copy", "--rows", "1280", "--perfetto"]);
    // 20 panels of 64 rows over two CTAs, through four slots.
    assert_eq!(trace.check_slots("panels", 4), 10);
    assert_eq!(trace.spans("load", None).len(), 10);
    assert_eq!(trace.spans("storeread", None).len(), 10);
    let read = trace.by_step("slot", Some("read"));
    for (step, (_, until)) in trace.by_step("issue", None) {
        if let Some(before) = step.checked_sub(4) {
            assert!(until > read[&before].1);
        }
    }
}

#[test]
fn another_schedule_has_the_same_copies() {
    let timed = traced(&GEMM);
    let drawn = traced(&[&["gemm", "--seed", "5"], &GEMM[1..]].concat());
    let loads = |t: &Trace| {
        let mut loads: Vec<_> = t.spans("load", None).iter().map(|l| (l.from, l.until)).collect();
        loads.sort_by(|a, b| a.0.total_cmp(&b.0));
        loads
    };
    // One warp loads, and one group reads: their times follow from the dependencies alone.
    assert_eq!(loads(&timed), loads(&drawn));
}

#[test]
fn all_ctas_of_a_cluster_are_drawn() {
    let folder = Folder::new();
    let (svg, json) = (folder.arg("t.svg"), folder.arg("t.json"));
    folder.bytes("t.svg", b"an earlier picture");
    let options = [
        "trace",
        "example",
        "cluster_exchange",
        "--cta",
        "all",
        "--rows",
        "192",
        "--svg",
        &svg,
        "--perfetto",
        &json,
    ];
    let (code, _, stderr) = outcome(&warpipe(options));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let svg = std::fs::read_to_string(folder.path("t.svg")).expect("the picture");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for rank in 0..4 {
        assert!(svg.contains(&format!("CTA {rank} of its cluster")), "{rank}");
    }
    for text in ["<title>step 0, slot 0: filling", "waits", "Scale, group 0", "are in flight"] {
        assert!(svg.contains(text), "{text}");
    }
    let open = svg.matches("<rect").count();
    assert!(open > 100 && svg.matches("<g").count() == svg.matches("</g>").count());
    let all: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path("t.json")).unwrap()).unwrap();
    let pids = |e: &Value| e["pid"].as_u64();
    let pids: std::collections::BTreeSet<_> =
        all["traceEvents"].as_array().unwrap().iter().filter_map(pids).collect();
    assert_eq!(pids, (1..=4).collect());
}

/// Some tiles of one CTA, eight blocks of keys each: Q is loaded once for a tile, and the warp groups issue their
/// products in turn.
#[test]
fn the_warp_groups_of_attention_take_turns() {
    let options = "attention --heads 2 --seq 1024 --seq-q 192 --head-dim 64 --sms 1 --perfetto";
    let trace = traced(&options.split(' ').collect::<Vec<_>>());
    let tiles = trace.check_slots("Q", 2);
    assert!(tiles >= 2, "{tiles}");
    for ring in ["K", "V"] {
        assert_eq!(trace.check_slots(ring, 2), 8 * tiles, "{ring}");
    }
    // The products S = Q K^T: 64 queries by 128 keys, four steps of 16 columns at a time.
    let name = |e: &Value| e["name"].as_str().expect("a name").to_owned();
    let mut products: Vec<(f64, String)> = trace
        .phase("X")
        .filter(|e| e["cat"] == "tensor" && name(e).ends_with("4 wgmmas m64n128k16"))
        .map(|e| (e["ts"].as_f64().expect("a time"), name(e)))
        .collect();
    products.sort_by(|a, b| a.0.total_cmp(&b.0));
    let groups: BTreeSet<&str> = products.iter().map(|(_, name)| name.as_str()).collect();
    // The products of the first block of all, which nothing orders, may mix.
    assert!(groups.len() >= 2 && products.len() >= groups.len() * (8 * tiles - 1), "{products:?}");
    for turns in products.windows(groups.len()) {
        let names: BTreeSet<&str> = turns.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names.len(), groups.len(), "not in turn at {}: {turns:?}", turns[0].0);
    }
    assert!(trace.stdout.contains("tensor core: busy"), "{}", trace.stdout);
}

#[test]
fn what_can_t_be_traced_is_refused() {
    let folder = Folder::new();
    let nowhere = folder.arg("none/t.svg");
    let before = folder.list();
    let cases: [(&[&str], &[&str]); 20] = [
        (&["example"], &["no example given", "stream_copy"]),
        (&["example", "nothing"], &["no example nothing", "two_rings"]),
        (&["example", "two_rings", "--m", "1", "--n", "1", "--k", "1"], &["its own shape"]),
        (&["example", "two_rings", "--rows", "0"], &["0", "1..="]),
        (&["gemm", "two_rings"], &["takes no name", "--instance"]),
        (&["gemm", "--rows", "64"], &["--rows is for an example"]),
        (&["gemm", "--m", "64", "--n", "64"], &["--k"]),
        (&["gemm", "--m", "0", "--n", "64", "--k", "64"], &["0 x 64 x 64", "empty"]),
        (&["gemm", "--instance", "gemm_none"], &["no instance gemm_none"]),
        (&["gemm", "--seed", "x"], &["\"x\"", "seed:SEED"]),
        (&["gemm", "--cta", "first"], &["first", "from 0) or all"]),
        (&["gemm", "--svg", &nowhere], &["cannot write", "none/t.svg", "No such file"]),
        (&["gemm", "--device", "cuda", "--beta", "1"], &["bf16", "without C"]),
        (
            &["gemm", "--device", "cuda", "--instance", "64x64_1x1"],
            &["only gemm_bf16_bf16_128x256_2x1 and gemm_bf16_bf16_128x128_1x1_pp", "64x64_1x1"],
        ),
        (&["gemm", "--device", "cuda", "--seed", "5"], &["--seed", "of the model"]),
        (&["example", "two_rings", "--device", "cuda"], &["the others on the model"]),
        (&["gemm", "--causal"], &["options of `trace attention`"]),
        (&["attention", "name"], &["takes no name", "--instance"]),
        (&["attention", "--beta", "1"], &["attention has no --m"]),
        (&["attention", "--device", "cuda"], &["the others on the model"]),
    ];
    for (options, words) in cases {
        refused(&[&["trace"], options].concat(), words);
    }
    if !cfg!(feature = "trace") {
        let words = ["--features trace", "--device sim"];
        refused(&["trace", "gemm", "--device", "cuda"], &words);
    }
    let svg = folder.arg("t.svg");
    let small = ["trace", "example", "stream_copy", "--rows", "64", "--svg", &svg];
    refused(&[&small[..], &["--cluster", "7"]].concat(), &["no cluster 7", "stream_copy"]);
    refused(&[&small[..], &["--cta", "1"]].concat(), &["no CTA 1", "cluster of 1"]);
    assert_eq!(folder.list(), before);
}
