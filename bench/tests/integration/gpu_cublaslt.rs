//! cuBLASLt's products against the f64 reference: the operands' order and layout are right.
//! Without a GPU, or without the library, each test prints a line and passes; with
//! `WARPIPE_REQUIRE_GPU=1` a missing GPU fails, with `WARPIPE_REQUIRE_CUBLASLT=1` a missing library.

use crate::gpu::{gpu, say};
use gpu_kernels::gemm::fusion::EltAct;
use host::data::{decode, encode, normal, rounded};
use host::gemm::{GemmProblem, Layout, Order, StridedProblem};
use host::reference::{Layer, Product, StridedProduct};
use host::{Device, Dtype};
use warpipe_bench::cublaslt::{CublasLt, Epilogue};
use warpipe_bench::{Bench, ScaleOf};

fn library(device: &Device) -> Option<CublasLt> {
    match CublasLt::new(device) {
        Ok(lt) => Some(lt),
        Err(why) => {
            let required = std::env::var_os("WARPIPE_REQUIRE_CUBLASLT").is_some_and(|v| v == "1");
            assert!(!required, "WARPIPE_REQUIRE_CUBLASLT=1: {why}");
            say(&format!("skipped: {why}"));
            None
        }
    }
}

#[test]
fn it_computes_our_product() {
    let Some(device) = gpu("it_computes_our_product") else { return };
    let Some(lt) = library(&device) else { return };
    say(&format!("cuBLASLt {}", lt.version()));
    let (bf16, f16, f32) = (Dtype::Bf16, Dtype::F16, Dtype::F32);
    for (m, n, k, ab, out, bound) in [
        (512, 512, 512, bf16, bf16, 4e-3),
        (304, 520, 72, bf16, f32, 1e-6),
        (8, 1000, 336, f16, f16, 6e-4),
        (64, 48, 40, f16, f32, 1e-6),
    ] {
        let a = rounded(&normal(1, m * k), ab).unwrap();
        let b = rounded(&normal(2, n * k), ab).unwrap();
        let c = rounded(&normal(3, m * n), out).unwrap();
        let up = |x: &[f32], t| device.upload(&encode(x, t).unwrap()).unwrap();
        let (da, db, dc) = (up(&a, ab), up(&b, ab), up(&c, out));
        let mut d = device.alloc(m * n * out.size()).unwrap();
        d.fill(0xff).unwrap();
        let (m64, n64, k64) = (m as u64, n as u64, k as u64);
        for (alpha, beta) in [(1.0, 0.0), (0.5, -2.0)] {
            let beta_c = beta != 0.0;
            let problem = GemmProblem { m: m64, n: n64, k: k64, ab, out, beta_c };
            let plan = lt.plan(&problem).unwrap();
            let operands = (&da, &db, beta_c.then_some(&dc));
            plan.run(operands, &mut d, (alpha, beta), &device.stream()).unwrap();
            let have = decode(&d.to_vec().unwrap(), out).unwrap();
            let product = Product { m, n, k, a: &a, b: &b, c: Some(&c), alpha, beta };
            let check = product.check(&have).unwrap();
            assert!(check.below(bound), "{problem:?} {alpha} {beta}: {check}");
        }
    }
}

#[test]
fn it_computes_our_product_of_e4m3_with_each_kind_of_scales() {
    let name = "it_computes_our_product_of_e4m3_with_each_kind_of_scales";
    let Some(device) = gpu(name) else { return };
    let Some(lt) = library(&device) else { return };
    let (ab, out) = (Dtype::E4m3, Dtype::Bf16);
    let (m, n, k) = (192, 272, 400);
    let a = rounded(&normal(1, m * k), ab).unwrap();
    let b = rounded(&normal(2, n * k), ab).unwrap();
    let up = |x: &[f32]| device.upload(&encode(x, ab).unwrap()).unwrap();
    let (da, db) = (up(&a), up(&b));
    let mut d = device.alloc(m * n * out.size()).unwrap();
    let problem = GemmProblem { m: m as u64, n: n as u64, k: k as u64, ab, out, beta_c: false };
    for of in [ScaleOf::Tensor, ScaleOf::Row, ScaleOf::Block] {
        let bench = Bench::new(&device, ab, 0, &[problem]).unwrap();
        let bench = bench.with_scales(of, &[problem]).unwrap();
        for (fast, bound) in [(false, 4e-3), (true, 1e-2)] {
            let plans = bench.rivals(&lt, &problem, fast).unwrap();
            d.fill(0xff).unwrap();
            plans[0].run((&da, &db, None), &mut d, (1.0, 0.0), &device.stream()).unwrap();
            let have = decode(&d.to_vec().unwrap(), out).unwrap();
            let product = Product { m, n, k, a: &a, b: &b, c: None, alpha: 1.0, beta: 0.0 };
            let check = product.check(&have).unwrap();
            assert!(check.below(bound), "scales of {of}, {fast}: {check}");
        }
    }
}

#[test]
fn it_computes_layers() {
    let Some(device) = gpu("it_computes_layers") else { return };
    let Some(lt) = library(&device) else { return };
    let dtype = Dtype::Bf16;
    let (m, n, k) = (128, 264, 192);
    let values = |seed, len| rounded(&normal(seed, len), dtype).unwrap();
    let (a, b, bias) = (values(1, m * k), values(2, n * k), values(3, n));
    let up = |x: &[f32]| device.upload(&encode(x, dtype).unwrap()).unwrap();
    let (da, db, dbias) = (up(&a), up(&b), up(&bias));
    let mut d = device.alloc(m * n * dtype.size()).unwrap();
    let (m64, n64, k64) = (m as u64, n as u64, k as u64);
    let problem = GemmProblem { m: m64, n: n64, k: k64, ab: dtype, out: dtype, beta_c: false };
    let alpha = 0.1;
    for (epilogue, activation) in
        [(Epilogue::Bias, EltAct::IDENTITY), (Epilogue::GeluBias, EltAct::GELU_TANH)]
    {
        let plans = lt.plans_fused(&problem, &dbias, epilogue).unwrap();
        d.fill(0xff).unwrap();
        plans[0].run((&da, &db, None), &mut d, (alpha, 0.0), &device.stream()).unwrap();
        let have = decode(&d.to_vec().unwrap(), dtype).unwrap();
        let product = Product { m, n, k, a: &a, b: &b, c: None, alpha, beta: 0.0 };
        let layer = Layer { product, bias: Some(&bias), activation, residual: 0.0, gated: false };
        let check = layer.check(&have).unwrap();
        assert!(check.below(4e-3), "{epilogue:?}: {check}");
    }
    let short = dbias.part(0, 8).unwrap();
    assert!(lt.plans_fused(&problem, &short, Epilogue::Bias).is_err());
}

#[test]
fn it_computes_batches_in_each_layout() {
    let Some(device) = gpu("it_computes_batches_in_each_layout") else { return };
    let Some(lt) = library(&device) else { return };
    let dtype = Dtype::Bf16;
    for layout in Layout::ALL {
        let order = Order::RowMajor;
        let (batch, m, n, k, beta_c) = (3, 72, 136, 40, false);
        let problem = StridedProblem { batch, m, n, k, dtype, layout, order, beta_c };
        let values = |operand, seed| {
            rounded(&normal(seed, problem.bytes(operand) as usize / 2), dtype).unwrap()
        };
        let (a, b) = (values('A', 1), values('B', 2));
        let up = |x: &[f32]| device.upload(&encode(x, dtype).unwrap()).unwrap();
        let (da, db) = (up(&a), up(&b));
        let mut d = device.alloc(problem.bytes('D') as usize).unwrap();
        d.fill(0xff).unwrap();
        let plan = lt.plan_strided(&problem).unwrap();
        plan.run([&da, &db], &mut d, &device.stream()).unwrap();
        let product = StridedProduct { problem, a: &a, b: &b, c: None, alpha: 1.0, beta: 0.0 };
        let check = product.check(&decode(&d.to_vec().unwrap(), dtype).unwrap()).unwrap();
        assert!(check.below(4e-3), "{problem:?}: {check}");
    }
}

#[test]
fn empty_products_are_refused() {
    let Some(device) = gpu("empty_products_are_refused") else { return };
    let Some(lt) = library(&device) else { return };
    let (ab, out) = (Dtype::Bf16, Dtype::Bf16);
    let problem = GemmProblem { m: 8, n: 8, k: 0, ab, out, beta_c: false };
    let said = lt.plan(&problem).err().expect("must be refused").to_string();
    assert!(said.contains("M, N, K = 8, 8, 0"), "{said}");
}
