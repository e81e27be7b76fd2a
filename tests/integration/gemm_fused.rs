//! The kernels for linear layers, on the SM model and on a GPU: each result is as near to the activation as the activation
//! says. (`host` compares their layers with f64 as a whole, on the model.)

use crate::on_devices::{Bench, on_devices};
use std::f64::consts::{FRAC_2_SQRT_PI, PI};
use warpipe::GEMM_IMAGE;
use warpipe::gpu_kernels::gemm::fused::FusedElement;
use warpipe::gpu_kernels::gemm::fusion::EltAct;
use warpipe::half::{bf16, f16};
use warpipe::host::gemm::{FusedGemm, Fusion, GemmProblem};
use warpipe::host::{Buffer, Dtype, data};
use warpipe::pipeline::tile::Element;

const K: usize = 16;
/// Results are activations of numbers up to this one, and down to its opposite.
const MOST: f32 = 4.5;

/// An activation in f64.
type Exact = fn(f64) -> f64;

/// The smooth activations.
const SMOOTH: [(EltAct, Exact); 3] = [
    (EltAct::GELU, |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()))),
    (EltAct::SILU, |x| x / (1.0 + (-x).exp())),
    (EltAct::GELU_TANH, |x| {
        0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
    }),
];

/// The error function by its series.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * FRAC_2_SQRT_PI
}

/// Each row of A has a single one, so each result is the activation of one number of B.
fn each_value<T: FusedElement>(bench: &Bench, index: usize, m: usize, n: usize) {
    let (device, dtype) = (&bench.device, <T as Element>::DTYPE);
    let one_at = |row: usize| row % K;
    let a: Vec<f32> = (0..m * K).map(|i| if i % K == one_at(i / K) { 1.0 } else { 0.0 }).collect();
    let x = |i: usize| MOST * (2.0 * i as f32 / (n * K) as f32 - 1.0);
    let b = data::rounded(&(0..n * K).map(x).collect::<Vec<_>>(), dtype).unwrap();
    let upload = |x: &[f32]| -> Buffer { device.upload(&data::encode(x, dtype).unwrap()).unwrap() };
    let (da, db) = (upload(&a), upload(&b));
    let gemm = FusedGemm::<T>::fused(device, &GEMM_IMAGE).unwrap();
    let name = gemm.instances()[index].desc.meta.name();
    let [rows, columns, k] = [m, n, K].map(|x| x as u64);
    let problem = GemmProblem { m: rows, n: columns, k, ab: dtype, out: dtype, beta_c: false };
    // Half a unit in the last place, relative to a number and of the smallest ones.
    let (half, least) = match dtype {
        Dtype::F16 => (2f64.powi(-11), 2f64.powi(-25)),
        _ => (2f64.powi(-8), 0.0),
    };
    for (activation, exact) in SMOOTH {
        let mut d = device.alloc(m * n * 2).unwrap();
        d.fill(0xff).unwrap();
        let plan = gemm.plan_with(&problem, index).unwrap();
        plan.run_fused(&da, &db, None, &mut d, Fusion { activation, ..Fusion::default() }).unwrap();
        let d = data::decode(&d.to_vec().unwrap(), dtype).unwrap();
        for (i, have) in d.iter().enumerate() {
            let x = f64::from(b[i % n * K + one_at(i / n)]);
            let y = exact(x);
            let bound = half * y.abs() + least + 1.2e-4 * (y.abs() + 0.01) + 5e-6 * x.abs();
            let error = (f64::from(*have) - y).abs();
            assert!(error <= bound, "{}, {name}, {activation:?}({x}): {have}, {y}", bench.what());
        }
    }
}

fn every_kernel<T: FusedElement>(test: &str) {
    on_devices(&GEMM_IMAGE, test, 1, |bench| {
        // On the model, activations are the same code in each kernel.
        let most = if bench.device.is_sim() { 1 } else { usize::MAX };
        let rows = T::fused().rows.iter().enumerate();
        let small_first = rows.filter(|(_, i)| !i.has_c).map(|(index, i)| (i.bm * i.bn, index));
        let mut kernels: Vec<_> = small_first.collect();
        kernels.sort_unstable();
        for (_, index) in kernels.into_iter().take(most) {
            let (m, n) = if bench.device.is_sim() { (40, 72) } else { (200, 1160) };
            each_value::<T>(bench, index, m, n);
        }
    });
}

#[test]
fn each_value_of_a_bf16_layer_is_near_the_activation() {
    every_kernel::<bf16>("each_value_of_a_bf16_layer_is_near_the_activation");
}

#[test]
fn each_value_of_an_f16_layer_is_near_the_activation() {
    every_kernel::<f16>("each_value_of_an_f16_layer_is_near_the_activation");
}
