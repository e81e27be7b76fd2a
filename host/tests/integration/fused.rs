//! Linear layers with bias, activation, residual and gates on the SM model: every kernel, with residues in each
//! dimension, compared with f64.

use gpu_kernels::gemm::Instance;
use gpu_kernels::gemm::fused::FusedElement;
use gpu_kernels::gemm::fusion::EltAct;
use half::{bf16, f16};
use host::data::{decode, encode, interleaved_gates, normal, rounded};
use host::gemm::{FusedGemm, Fusion, GatedGemm, GemmProblem, Schedule};
use host::reference::{Check, Layer, Product};
use host::{Buffer, Device, Dtype, Error, SimConfig, View};
use isa::kernel::{Image, KernelMeta};
use pipeline::tile::Element;
use std::sync::LazyLock;

/// What the model needs of the image: the facts of its kernels.
static IMAGE: LazyLock<&'static Image> = LazyLock::new(|| {
    let tables =
        [bf16::fused().rows, bf16::gated().rows, f16::fused().rows, f16::gated().rows].into_iter();
    let kernels: Vec<KernelMeta> = tables.flatten().map(|instance| instance.desc.meta).collect();
    let (name, arch) = ("fused", "sm_90a");
    let image = Image { name, arch, code: &[], kernels: kernels.leak(), ptxas: None, others: &[] };
    Box::leak(Box::new(image))
});

fn device() -> Device {
    Device::sim(SimConfig { sms: 4, ..SimConfig::default() })
}

/// Operands of a layer, rounded to their type.
struct Operands {
    size: [usize; 3],
    dtype: Dtype,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
    bias: Vec<f32>,
}

impl Operands {
    fn new(size @ [m, n, k]: [usize; 3], dtype: Dtype) -> Self {
        let make = |seed, count| rounded(&normal(seed, count), dtype).unwrap();
        Self {
            size,
            dtype,
            a: make(1, m * k),
            b: make(2, n * k),
            c: make(3, m * n),
            bias: make(4, n),
        }
    }

    fn problem(&self, beta_c: bool) -> GemmProblem {
        let [m, n, k] = self.size.map(|x| x as u64);
        GemmProblem { m, n, k, ab: self.dtype, out: self.dtype, beta_c }
    }

    fn upload(&self, device: &Device, values: &[f32]) -> Buffer {
        device.upload(&encode(values, self.dtype).unwrap()).unwrap()
    }

    fn layer(&self, fusion: &Fusion<'_>, with_c: bool, gated: bool) -> Layer<'_> {
        let [m, n, k] = self.size;
        let c = with_c.then_some(&self.c[..]);
        let Fusion { alpha, beta, activation, residual, .. } = *fusion;
        let beta = if with_c { beta } else { 0.0 };
        let product = Product { m, n, k, a: &self.a, b: &self.b, c, alpha, beta };
        let bias = fusion.bias.map(|_| &self.bias[..]);
        Layer { product, bias, activation, residual, gated }
    }
}

/// Runs kernel `index` and compares.
fn run<T: FusedElement>(
    size: [usize; 3],
    gated: bool,
    index: usize,
    schedule: Option<Schedule>,
    fusion: Fusion<'_>,
    with_bias: bool,
) -> Result<Check, Error> {
    let device = device();
    let operands = Operands::new(size, <T as Element>::DTYPE);
    let rows = if gated { T::gated().rows } else { T::fused().rows };
    let Instance { has_c, .. } = rows[index];
    let [a, b, c] = [&operands.a, &operands.b, &operands.c].map(|x| operands.upload(&device, x));
    let bias = with_bias.then(|| operands.upload(&device, &operands.bias));
    let fusion = Fusion { bias: bias.as_ref(), ..fusion };
    let columns = if gated { size[1] / 2 } else { size[1] };
    let mut d = device.alloc(size[0] * columns * 2)?;
    d.fill(0xff)?;
    let (c, problem) = (has_c.then(|| View::from(&c)), operands.problem(has_c));
    // The two kinds differ in type.
    if gated {
        let gemm = GatedGemm::<T>::gated(&device, *IMAGE)?;
        let plan = match schedule {
            Some(schedule) => gemm.plan_scheduled(&problem, index, schedule)?,
            None => gemm.plan_with(&problem, index)?,
        };
        plan.run_fused(&a, &b, c, &mut d, fusion)?;
    } else {
        let gemm = FusedGemm::<T>::fused(&device, *IMAGE)?;
        let plan = match schedule {
            Some(schedule) => gemm.plan_scheduled(&problem, index, schedule)?,
            None => gemm.plan_with(&problem, index)?,
        };
        plan.run_fused(&a, &b, c, &mut d, fusion)?;
    }
    let d = decode(&d.to_vec()?, operands.dtype)?;
    operands.layer(&fusion, has_c, gated).check(&d)
}

/// Twice the error of rounding the result.
fn bound<T: FusedElement>() -> f64 {
    if <T as Element>::DTYPE == Dtype::Bf16 { 4e-3 } else { 5e-4 }
}

const ACTIVATIONS: [EltAct; 5] =
    [EltAct::GELU, EltAct::SILU, EltAct::RELU, EltAct::GELU_TANH, EltAct::IDENTITY];

fn every_kernel<T: FusedElement>(gated: bool) {
    let rows = if gated { T::gated().rows } else { T::fused().rows };
    for (index, instance) in rows.iter().enumerate() {
        let activation = ACTIVATIONS[index % ACTIVATIONS.len()];
        let fusion = Fusion { alpha: 0.25, beta: 0.5, residual: 2.0, activation, bias: None };
        // Two tiles and a residue along each dimension; a gated N is a multiple of 16.
        let (bm, bn) = (instance.bm as usize, instance.bn as usize);
        let (bm, bn) = if instance.swap_ab { (bn, bm) } else { (bm, bn) };
        let size = [bm + 22, if gated { bn + 48 } else { bn + 52 }, 136];
        let check = run::<T>(size, gated, index, None, fusion, true).unwrap();
        let name = instance.desc.meta.name();
        assert!(check.below(bound::<T>()), "{name} {activation:?}: {check}");
    }
}

#[test]
fn every_fused_kernel_of_bf16() {
    every_kernel::<bf16>(false);
}

#[test]
fn every_fused_kernel_of_f16() {
    every_kernel::<f16>(false);
}

#[test]
fn every_gated_kernel() {
    every_kernel::<bf16>(true);
    every_kernel::<f16>(true);
}

/// The kernel of the smallest cluster tile, with C or without.
fn small(rows: &[Instance], has_c: bool) -> usize {
    let fits = |i: &&(usize, &Instance)| i.1.has_c == has_c && i.1.splits_k && !i.1.swap_ab;
    let all: Vec<_> = rows.iter().enumerate().collect();
    all.iter().filter(fits).min_by_key(|(_, i)| i.bm * i.bn * i.cluster_m * i.cluster_n).unwrap().0
}

#[test]
fn each_activation_with_and_without_a_bias() {
    let index = small(bf16::fused().rows, false);
    for activation in ACTIVATIONS {
        for with_bias in [false, true] {
            let fusion = Fusion { alpha: 0.2, activation, ..Fusion::default() };
            let check = run::<bf16>([70, 70, 72], false, index, None, fusion, with_bias).unwrap();
            assert!(check.below(bound::<bf16>()), "{activation:?}, bias {with_bias}: {check}");
        }
    }
}

#[test]
fn split_tiles_have_the_epilogue_once() {
    for gated in [false, true] {
        let rows = if gated { bf16::gated().rows } else { bf16::fused().rows };
        let index = small(rows, false);
        let fusion = Fusion { alpha: 0.1, activation: EltAct::SILU, ..Fusion::default() };
        let schedule = Some(Schedule { clusters: 4, streamed: 2 });
        let size = [100, rows[index].bn as usize, 512];
        let check = run::<bf16>(size, gated, index, schedule, fusion, true).unwrap();
        assert!(check.below(bound::<bf16>()), "gated {gated}: {check}");
    }
}

#[test]
fn interleaved_weights_are_those_of_two_products() {
    let (device, dtype) = (device(), Dtype::Bf16);
    let [m, n, k] = [20, 24, 64];
    let values = |seed, count| rounded(&normal(seed, count), dtype).unwrap();
    let (a, gate, up) = (values(1, m * k), values(2, n * k), values(3, n * k));
    let bytes = |values: &[f32]| encode(values, dtype).unwrap();
    let b = interleaved_gates(&bytes(&gate), &bytes(&up), 2 * k).unwrap();
    let gemm = GatedGemm::<bf16>::gated(&device, *IMAGE).unwrap();
    let [wide, rows, depth] = [2 * n, m, k].map(|x| x as u64);
    let problem = GemmProblem { m: rows, n: wide, k: depth, ab: dtype, out: dtype, beta_c: false };
    let (a_memory, b) = (device.upload(&bytes(&a)).unwrap(), device.upload(&b).unwrap());
    let mut d = device.alloc(2 * m * n).unwrap();
    let fusion = Fusion { alpha: 0.2, activation: EltAct::SILU, ..Fusion::default() };
    gemm.plan(&problem).unwrap().run_fused(&a_memory, &b, None, &mut d, fusion).unwrap();
    let d = decode(&d.to_vec().unwrap(), dtype).unwrap();
    for (i, &have) in d.iter().enumerate() {
        let (row, col) = (i / n, i % n);
        let sum = |b: &[f32]| {
            let product = |x: usize| f64::from(a[row * k + x]) * f64::from(b[col * k + x]);
            0.2 * (0..k).map(product).sum::<f64>()
        };
        let (gate, up) = (sum(&gate), sum(&up));
        let want = gate / (1.0 + (-gate).exp()) * up;
        let error = (f64::from(have) - want).abs() / (1.0 + want.abs());
        assert!(error < 5e-3, "({row}, {col}): {have}, and {want} is right");
    }
}

/// C is not read if both of its factors are 0, so it may hold NaN.
#[test]
fn a_c_without_factors_is_not_read() {
    let device = device();
    let operands = Operands::new([64, 64, 64], Dtype::Bf16);
    let gemm = FusedGemm::<bf16>::fused(&device, *IMAGE).unwrap();
    let plan = gemm.plan(&operands.problem(true)).unwrap();
    let [a, b] = [&operands.a, &operands.b].map(|x| operands.upload(&device, x));
    let c = operands.upload(&device, &[f32::NAN; 64 * 64]);
    let mut d = device.alloc(2 * 64 * 64).unwrap();
    let fusion = Fusion { activation: EltAct::RELU, ..Fusion::default() };
    plan.run_fused(&a, &b, Some(View::from(&c)), &mut d, fusion).unwrap();
    let d = decode(&d.to_vec().unwrap(), Dtype::Bf16).unwrap();
    assert!(operands.layer(&fusion, false, false).check(&d).unwrap().below(4e-3));
}

#[test]
fn a_wrong_bias_and_a_wrong_n_are_refused() {
    let device = device();
    let operands = Operands::new([64, 64, 64], Dtype::Bf16);
    let gemm = FusedGemm::<bf16>::fused(&device, *IMAGE).unwrap();
    let plan = gemm.plan(&operands.problem(false)).unwrap();
    let [a, b, short] = [&operands.a[..], &operands.b[..], &operands.bias[..63]]
        .map(|x| operands.upload(&device, x));
    let mut d = device.alloc(2 * 64 * 64).unwrap();
    d.fill(0xff).unwrap();
    let fusion = Fusion { bias: Some(&short), ..Fusion::default() };
    let error = plan.run_fused(&a, &b, None, &mut d, fusion).unwrap_err().to_string();
    assert_eq!(error, "bias: 126 bytes; 64 of bf16 (128 bytes), one for each row of B, is right");
    assert!(d.to_vec().unwrap().iter().all(|&byte| byte == 0xff), "nothing was written");

    let gemm = GatedGemm::<bf16>::gated(&device, *IMAGE).unwrap();
    let problem = GemmProblem { n: 40, ..operands.problem(false) };
    let error = gemm.plan(&problem).err().unwrap();
    assert!(matches!(error, Error::GatedRows { n: 40 }), "{error}");
    let with_c = gemm.plan(&operands.problem(true)).err().unwrap();
    assert!(matches!(with_c, Error::NoInstance { .. }), "{with_c}");
    // D is half as wide as the product.
    let plan = gemm.plan(&operands.problem(false)).unwrap();
    let error = plan.run_fused(&a, &b, None, &mut d, Fusion::default()).unwrap_err();
    assert!(matches!(error, Error::OperandSize { operand: 'D', cols: 32, .. }), "{error}");
    let uneven = interleaved_gates(&[0; 24], &[0; 16], 2).unwrap_err();
    assert!(matches!(uneven, Error::Gates { gate: 24, up: 16, row_bytes: 2 }), "{uneven}");
}
