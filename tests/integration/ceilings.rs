//! The kernels that do one thing alone do it: their results, on the SM model and on a GPU; and what
//! `warpipe ceilings` measures of them.
#![allow(missing_docs)]

use crate::common::{outcome, warpipe};
use crate::gpu::gpu;
use crate::on_devices::{Matrix, on_devices, small};
use gpu_kernels::ceilings::{COLUMNS, DEPTH, ROWS, tma_read_alone, wgmma_alone};
use host::{Dtype, Param};
use isa::kernel::Kernel;
use serde_json::Value;
use warpipe::GEMM_IMAGE;
use warpipe_bench::BenchConfig;
use warpipe_bench::ceilings::Ceilings;

#[test]
fn wgmma_alone_multiplies_again_and_again() {
    on_devices(&GEMM_IMAGE, "wgmma_alone_multiplies_again_and_again", 3, |bench| {
        let desc = &<wgmma_alone as Kernel>::DESC;
        for (ctas, batches) in [(1, 1u32), (2, 2), (3, 64)] {
            let case = format!("{ctas} CTAs, {batches} batches");
            let (rows, bf16) = (ROWS * ctas, Dtype::Bf16);
            let a = Matrix::new(bench, bf16, rows, DEPTH, |i, j| small(1, i, j));
            let b = Matrix::new(bench, bf16, COLUMNS, DEPTH, |i, j| small(2, i, j));
            let d = Matrix::poisoned(bench, bf16, rows, COLUMNS);
            let map = |m: &Matrix, param: usize| m.map(bench, &desc.meta.params()[param]);
            let [x, y, z] = [map(&a, 0), map(&b, 1), map(&d, 2)];
            let params = [Param::map(&x), Param::map(&y), Param::map(&z), Param::value(batches)];
            bench.launch(desc, ctas as u32, &params, &case);
            let once = |i, j| (0..DEPTH).map(|k| small(1, i, k) * small(2, j, k)).sum::<f32>();
            bench.expect_near(&d, |i, j| batches as f32 * once(i, j), 4e-3, &case);
        }
    });
}

#[test]
fn tma_read_alone_reads_every_panel() {
    on_devices(&GEMM_IMAGE, "tma_read_alone_reads_every_panel", 3, |bench| {
        let desc = &<tma_read_alone as Kernel>::DESC;
        // A CTA with nothing to read adds up nothing.
        for (panels, ctas) in [(1, 1), (3, 4), (100, 3)] {
            let case = format!("{panels} panels, {ctas} CTAs");
            let from = Matrix::new(bench, Dtype::Bf16, 64 * panels, 64, |i, j| small(3, i, j));
            let sums = Matrix::poisoned(bench, Dtype::Bf16, 64 * ctas, 64);
            let [x, y] = [&from, &sums].map(|m| m.map(bench, &desc.meta.params()[0]));
            let params = [Param::map(&x), Param::map(&y), Param::value(panels as u32)];
            bench.launch(desc, ctas as u32, &params, &case);
            let of_cta = |cta: usize, i, j| {
                (cta..panels).step_by(ctas).map(|panel| small(3, 64 * panel + i, j)).sum::<f32>()
            };
            bench.expect_near(&sums, |i, j| of_cta(i / 64, i % 64, j), 4e-3, &case);
        }
    });
}

/// On a GPU: rates that are above nothing and, the driver's numbers being what they are, below the peak at the highest clocks.
#[test]
fn ceilings_are_above_what_the_gemm_reaches() {
    let Some(device) = gpu("ceilings_are_above_what_the_gemm_reaches") else { return };
    let config = BenchConfig { rounds: 5, warmup: 2, ..BenchConfig::default() };
    let c = Ceilings::measure(&device, &GEMM_IMAGE, &config).unwrap();
    println!("{c}");
    assert!(c.read.rate < c.machine.peak_gbs && c.wgmma.rate < c.machine.peak_tflops);
    // A GPU that others use as well gives any time; half of what is alone it always is.
    assert!((0.5..1.05).contains(&c.decode.part), "{}", c.decode.part);
    assert!((0.5..1.05).contains(&c.square.part), "{}", c.square.part);
}

/// A rate of the model would be a rate of nothing.
#[test]
fn the_model_has_no_ceilings() {
    let (code, stdout, stderr) = outcome(&warpipe(["ceilings", "--device", "sim"]));
    assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
    assert!(stderr.contains("warpipe ceilings needs a GPU; this is the SM model"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn the_command_prints_a_line_for_each() {
    let Some(_gpu) = gpu("the_command_prints_a_line_for_each") else { return };
    let few = ["ceilings", "--rounds", "3"];
    let (code, text, stderr) = outcome(&warpipe(few));
    assert_eq!((code, stderr.as_str()), (0, ""), "{text}");
    for line in ["read alone, 1024 MiB", "read alone, 112 MiB", "16x14336x4096 ", "8192x8192x8192 "]
    {
        assert!(text.lines().any(|l| l.starts_with(line)), "{line} is not in: {text}");
    }
    let (code, json, stderr) = outcome(&warpipe([&few[..], &["--json"]].concat()));
    assert_eq!((code, stderr.as_str()), (0, ""), "{json}");
    let report: Value = serde_json::from_str(&json).expect("one JSON object");
    assert_eq!(report["square"]["n"], 8192, "{report}");
    assert!(report["wgmma"]["rate"].as_f64() > Some(1.0), "{report}");
}
