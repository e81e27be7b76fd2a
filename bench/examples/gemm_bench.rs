//! Times the GEMM of a PTX file against cuBLASLt, and checks it against the f64 product.
//!
//! It needs nothing but itself and the file, so both can be carried to a machine without a
//! toolchain:
//! ```text
//! gemm_bench warpipe_gpu_kernels.ptx 8192 8192 8192 [more M N K ...]
//! ```
//! `WARPIPE_CUBLASLT` names libcublasLt.so.13 if the loader does not find it. `WARPIPE_OUT` is the
//! result's type, bf16 (the default) or f32; `WARPIPE_INSTANCE` forces a row of the table;
//! `WARPIPE_JSON=1` prints everything that was measured, a line for each product.

#[path = "../../host/examples/common/mod.rs"]
mod common;

use host::gemm::{Gemm, GemmProblem};
use host::{Device, Dtype};
use std::error::Error;
use warpipe_bench::cublaslt::CublasLt;
use warpipe_bench::{Bench, BenchConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: gemm_bench FILE.ptx M N K [M N K ...]")?;
    let sizes = args.map(|a| a.parse::<u64>()).collect::<Result<Vec<_>, _>>()?;
    if sizes.is_empty() || !sizes.len().is_multiple_of(3) {
        return Err("sizes come in threes: M N K".into());
    }
    let env = |name| std::env::var(name).ok();
    let out = match env("WARPIPE_OUT").as_deref() {
        Some("f32") => Dtype::F32,
        _ => Dtype::Bf16,
    };
    let device = Device::cuda(0)?;
    eprintln!("{}", device.describe());
    let gemm = Gemm::new(&device, common::image(&path)?)?;
    let lt = CublasLt::new(&device).inspect_err(|e| eprintln!("{e}")).ok();
    if let Some(lt) = &lt {
        eprintln!("cuBLASLt {}", lt.version());
    }
    let problems: Vec<GemmProblem> = sizes
        .chunks_exact(3)
        .map(|s| GemmProblem { m: s[0], n: s[1], k: s[2], ab: Dtype::Bf16, out, beta_c: false })
        .collect();
    let mut bench = Bench::new(&device, Dtype::Bf16, 0, &problems)?;
    for problem in &problems {
        let plan = match env("WARPIPE_INSTANCE") {
            Some(index) => gemm.plan_with(problem, index.parse()?)?,
            None => gemm.plan(problem)?,
        };
        let theirs = lt.as_ref().map(|lt| lt.plans(problem)).transpose()?.unwrap_or_default();
        let measured = bench.measure(&[plan], &theirs, &BenchConfig::default())?;
        let ours = &measured.ours[0];
        print!("{}", ours.plan);
        for t in [Some(&ours.timing), measured.cublaslt.as_ref()].into_iter().flatten() {
            println!(
                "  {:26} {:10.2} us (p10 {:.2}, p90 {:.2})  {:7.1} TFLOP/s",
                t.name, t.median_us, t.p10_us, t.p90_us, t.tflops
            );
        }
        println!("  {}", ours.check);
        if !ours.same_bits {
            println!("  the last launch gave other bits than the first");
        }
        if let Some(theirs) = &measured.cublaslt {
            println!("  ratio {:.3} of cuBLASLt", theirs.median_us / ours.timing.median_us);
        }
        if let Some(fastest) = &measured.fastest {
            let ratio = fastest.timing.median_us / ours.timing.median_us;
            println!("  ratio {ratio:.3} of its fastest kernel, number {}", fastest.candidate);
        }
        if env("WARPIPE_JSON").is_some() {
            println!("{}", serde_json::to_string(&measured)?);
        }
    }
    Ok(())
}
