//! `Gemm::tune` on a GPU: the bounded search against an exhaustive one, and the families of kernels.
//!
//! Without a GPU each test prints a line and passes; with `WARPIPE_REQUIRE_GPU=1` it fails.

use crate::gpu::gpu;
use host::gemm::{
    Fusion, GatedGemm, Gemm, GemmProblem, OperandScales, ScaledGemm, TuneCache, TuneEntry, Tuned,
};
use host::timing::SearchConfig;
use host::{Device, Dtype};
use std::time::{Duration, Instant};
use warpipe::GEMM_IMAGE;
use warpipe_bench::{Bench, BenchConfig};

fn problem(m: u64, n: u64, k: u64) -> GemmProblem {
    GemmProblem { m, n, k, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false }
}

/// Checks what any search must have found.
fn judged<E>(what: &str, tuned: &Tuned<E>) {
    println!("{what}: {tuned}");
    assert!(tuned.wrong.is_empty(), "{what}: {tuned}");
    assert!(tuned.speedup() >= 1.0 && tuned.entry.us > 0.5, "{what}: {tuned}");
    assert!((1..=tuned.pairs).contains(&tuned.timed), "{what}: {tuned}");
}

#[test]
fn the_bounded_search_finds_what_the_exhaustive_one_finds() {
    let Some(gpu) = gpu("the_bounded_search_finds_what_the_exhaustive_one_finds") else { return };
    let device: &Device = &gpu;
    let gemm = Gemm::new(device, &GEMM_IMAGE).unwrap();
    // The first search of a process may have to assemble the kernels, within the same limit. A long one then loads all.
    let first = |seconds| {
        let (limit, start) = (Duration::from_secs(seconds), Instant::now());
        let config = SearchConfig { limit, ..SearchConfig::default() };
        judged("first", &gemm.tune(&problem(512, 512, 512), &config).unwrap());
        let took = start.elapsed();
        assert!(took <= limit + Duration::from_secs(1), "{took:?}");
    };
    first(2);
    first(60);
    for (m, n, k) in [(300, 520, 7200), (16, 4096, 4096), (2048, 2048, 2048)] {
        let (problem, limit) = (problem(m, n, k), Duration::from_secs(2));
        let start = Instant::now();
        let tuned =
            gemm.tune(&problem, &SearchConfig { limit, ..SearchConfig::default() }).unwrap();
        let took = start.elapsed();
        judged(&format!("{m}x{n}x{k}"), &tuned);
        assert!(took <= limit + Duration::from_secs(1), "{m}x{n}x{k}: {took:?}");
        // All pairs in turn, the one that was found among them once more.
        let mut plans = gemm.plan_every(&problem).unwrap();
        plans.push(tuned.plan);
        let mut bench = Bench::new(device, problem.ab, 0, &[problem]).unwrap();
        let config = BenchConfig { budget_ms: 400.0, ..BenchConfig::default() };
        let measured = bench.measure(&plans, &[], &config).unwrap();
        let us: Vec<f64> = measured.ours.iter().map(|ours| ours.timing.median_us).collect();
        let best = us.iter().copied().fold(f64::INFINITY, f64::min);
        let found = us[us.len() - 1];
        println!("{m}x{n}x{k}: {found:.2} us, the fastest of all {} pairs {best:.2} us", us.len());
        assert!(found <= 1.03 * best, "{m}x{n}x{k}: {found} us, the fastest takes {best} us");
    }
}

#[test]
fn a_short_limit_holds_too() {
    let Some(gpu) = gpu("a_short_limit_holds_too") else { return };
    let gemm = Gemm::new(&gpu, &GEMM_IMAGE).unwrap();
    let limit = Duration::from_millis(50);
    let config = SearchConfig { limit, ..SearchConfig::default() };
    let start = Instant::now();
    let tuned = gemm.tune(&problem(8192, 8192, 8192), &config).unwrap();
    let took = start.elapsed();
    judged("8192x8192x8192", &tuned);
    assert!(took <= limit + Duration::from_secs(1), "{took:?}");
}

#[test]
fn every_family_is_tuned_and_planned_from_the_cache() {
    let Some(gpu) = gpu("every_family_is_tuned_and_planned_from_the_cache") else { return };
    let device: &Device = &gpu;
    let mut cache = TuneCache::new();
    let config = SearchConfig { limit: Duration::from_secs(1), ..SearchConfig::default() };
    let base = problem(500, 1024, 2048);
    let planned = |entry: &TuneEntry, kernel: &host::gemm::KernelInfo| {
        assert_eq!((&kernel.name, kernel.schedule()), (&entry.instance, entry.schedule));
        assert!(kernel.why.starts_with("the tune cache has it"), "{}", kernel.why);
    };

    // With C: an addend of the search's own.
    let gemm = Gemm::new(device, &GEMM_IMAGE).unwrap();
    let with_c = GemmProblem { beta_c: true, ..base };
    let tuned = gemm.tune(&with_c, &config).unwrap();
    judged("with C", &tuned);
    cache.insert(tuned.entry.clone());
    let plan = gemm.plan_tuned(&with_c, &cache).unwrap();
    planned(&tuned.entry, plan.describe().kernel.as_ref().unwrap());

    // e4m3 with scales: both families have entries of their own.
    let e4m3 = GemmProblem { ab: Dtype::E4m3, ..base };
    let one = device.upload(&1f32.to_ne_bytes()).unwrap();
    for fast in [false, true] {
        let gemm = ScaledGemm::scaled(device, &GEMM_IMAGE, fast).unwrap();
        let tuned = gemm.tune_with(&e4m3, &config, |bound, stream| {
            bound.run_scaled(OperandScales { a: &one, b: &one }, 1.0, stream)
        });
        let tuned = tuned.unwrap();
        judged(if fast { "e4m3, fast accumulation" } else { "e4m3" }, &tuned);
        cache.insert(tuned.entry.clone());
        let plan = gemm.plan_tuned(&e4m3, &cache).unwrap();
        planned(&tuned.entry, plan.describe().kernel.as_ref().unwrap());
    }

    // Gates: D has half as many columns.
    let gemm = GatedGemm::<half::bf16>::gated(device, &GEMM_IMAGE).unwrap();
    let tuned =
        gemm.tune_with(&base, &config, |bound, stream| bound.run_fused(Fusion::default(), stream));
    let tuned = tuned.unwrap();
    judged("gated", &tuned);
    cache.insert(tuned.entry.clone());
    let plan = gemm.plan_tuned(&base, &cache).unwrap();
    planned(&tuned.entry, plan.describe().kernel.as_ref().unwrap());
    assert_eq!(cache.entries().len(), 4);
}
