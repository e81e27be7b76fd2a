//! The examples of CONTRIBUTING.md on the SM model: a GEMM with an epilogue, a main loop and a scheduler
//! of one's own.

#[path = "../../../gpu-kernels/tests/seams.rs"]
mod seams;

use gpu_kernels::gemm::config::{LoadArgs, MapA, MapB, MapC, MapD};
use gpu_kernels::gemm::fusion::{
    Chain, Clamp, EltAct, Gelu, PerColBias, PerRowBias, Residual, Sigmoid,
};
use gpu_kernels::gemm::{Linear, Scaled, Scales};
use host::gemm::{Gemm, GemmProblem};
use host::{Buffer, Device, Dtype, Param, SimConfig, TensorSpec, View, data};
use isa::kernel::{Image, Kernel, KernelMeta};
use pipeline::grid::Throttle;
use seams::serial_by_columns::{Parts, serial_by_columns};
use seams::{BOUNDED, ByColumnsArgs, CHAINED, GeluResidual, Relu, SWIGLU, SwiGlu};
use std::sync::LazyLock;

fn spec(buffer: &Buffer, rows: usize, cols: usize) -> TensorSpec<'_> {
    let pitch_bytes = 2 * cols as u64;
    let (rows, cols) = (rows as u64, cols as u64);
    TensorSpec { buffer, offset: 0, dtype: Dtype::Bf16, rows, cols, pitch_bytes }
}

#[test]
fn a_kernel_of_own_parts_computes_on_the_model() -> Result<(), host::Error> {
    // Two by three cluster tiles of 256 x 128, with residues in each dimension.
    let (m, n, k) = (300, 264, 200);
    let scheduler = ByColumnsArgs { tiles_m: 2, tiles_n: 3, k_tiles: 4, clusters: 2 };
    let alpha = 0.5;

    let device = Device::sim(SimConfig { sms: 4, ..SimConfig::default() });
    let a = data::rounded(&data::normal(1, m * k), Dtype::Bf16)?;
    let b = data::rounded(&data::normal(2, n * k), Dtype::Bf16)?;
    let on_device = |values: &[f32]| device.upload(&data::encode(values, Dtype::Bf16)?);
    let (a_memory, b_memory, d_memory) = (on_device(&a)?, on_device(&b)?, device.alloc(2 * m * n)?);
    let map_a = device.tensor_map_for::<&MapA<Parts>>(&spec(&a_memory, m, k))?;
    let map_b = device.tensor_map_for::<&MapB<Parts>>(&spec(&b_memory, n, k))?;
    // Ignored: the kernel reads no C.
    let map_c = device.tensor_map_for::<&MapC<Parts>>(&spec(&d_memory, m, n))?;
    let map_d = device.tensor_map_for::<&MapD<Parts>>(&spec(&d_memory, m, n))?;
    let throttle = Throttle::NONE;
    device.launch_on_model(
        &<serial_by_columns as Kernel>::DESC,
        [2 * scheduler.clusters, 1, 1],
        &[
            Param::map(&map_a),
            Param::map(&map_b),
            Param::map(&map_c),
            Param::map(&map_d),
            Param::value(LoadArgs { prefetch: 1, epochs: 0, epoch: 1, throttle }),
            Param::value(Relu { alpha }),
            Param::value(scheduler),
        ],
    )?;

    let d = data::decode(&d_memory.to_vec()?, Dtype::Bf16)?;
    for (i, &have) in d.iter().enumerate() {
        let (row, column) = (i / n, i % n);
        let product = |x: usize| f64::from(a[row * k + x]) * f64::from(b[column * k + x]);
        let want = (f64::from(alpha) * (0..k).map(product).sum::<f64>()).max(0.0);
        let error = (f64::from(have) - want).abs() / (1.0 + want.abs());
        assert!(error < 5e-3, "({row}, {column}): {have}, and {want} is right");
    }
    Ok(())
}

/// Operands in a type, and their values.
struct Operand {
    values: Vec<f32>,
    buffer: Buffer,
}

fn scales(operand: &Operand) -> Scales<'_> {
    Scales { values: operand.buffer.dependent_slice() }
}

fn operand(device: &Device, seed: u64, count: usize, dtype: Dtype) -> Operand {
    let values = data::rounded(&data::normal(seed, count), dtype).unwrap();
    let buffer = device.upload(&data::encode(&values, dtype).unwrap()).unwrap();
    Operand { values, buffer }
}

/// Compares D with `want(product, row, column)`.
fn compare(
    [m, n, k]: [usize; 3],
    [a, b]: [&Operand; 2],
    d: &[f32],
    want: impl Fn(f64, usize, usize) -> f64,
) {
    assert_eq!(d.len(), m * n);
    for (i, &have) in d.iter().enumerate() {
        let (row, column) = (i / n, i % n);
        let product =
            |x: usize| f64::from(a.values[row * k + x]) * f64::from(b.values[column * k + x]);
        let want = want((0..k).map(product).sum(), row, column);
        let error = (f64::from(have) - want).abs() / (1.0 + want.abs());
        assert!(error < 5e-3, "({row}, {column}): {have}, and {want} is right");
    }
}

fn problem([m, n, k]: [usize; 3], out: Dtype, beta_c: bool) -> GemmProblem {
    let [m, n, k] = [m, n, k].map(|x| x as u64);
    GemmProblem { m, n, k, ab: Dtype::Bf16, out, beta_c }
}

/// Φ, the normal distribution, by the series of the error function.
fn normal_distribution(x: f64) -> f64 {
    let x = x / 2f64.sqrt();
    // Farther out the series cancels, and the error function is 1 to 8 digits.
    if x.abs() > 4.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    0.5 * (1.0 + sum * std::f64::consts::FRAC_2_SQRT_PI)
}

/// What the model needs of the image: the facts of the kernels of chains.
static IMAGE: LazyLock<&'static Image> = LazyLock::new(|| {
    let rows = CHAINED.iter().chain(BOUNDED.iter()).chain(SWIGLU.iter());
    let kernels: Vec<KernelMeta> = rows.map(|instance| instance.desc.meta).collect();
    let (name, arch) = ("chains", "sm_90a");
    let image = Image { name, arch, code: &[], kernels: kernels.leak(), ptxas: None, others: &[] };
    Box::leak(Box::new(image))
});

#[test]
fn a_chain_of_bias_gelu_and_residual() {
    let device = Device::sim(SimConfig { sms: 4, ..SimConfig::default() });
    let size @ [m, n, k] = [150, 200, 136];
    let [a, b, c] =
        [m * k, n * k, m * n].map(|count| operand(&device, count as u64, count, Dtype::Bf16));
    let bias = operand(&device, 7, n, Dtype::Bf16);
    let gemm = Gemm::with_instances(&device, &IMAGE, CHAINED).unwrap();
    for index in 0..CHAINED.len() {
        let mut d = device.alloc(2 * m * n).unwrap();
        let epilogue: GeluResidual<'_> = Linear { alpha: 0.25, beta: 0.0 }
            .then(PerColBias::new(bias.buffer.dependent_slice()))
            .activated::<Gelu>()
            .then(Residual { factor: 2.0 });
        let plan = gemm.plan_with(&problem(size, Dtype::Bf16, true), index).unwrap();
        plan.run_with(&a.buffer, &b.buffer, Some(View::from(&c.buffer)), &mut d, epilogue).unwrap();
        let d = data::decode(&d.to_vec().unwrap(), Dtype::Bf16).unwrap();
        compare(size, [&a, &b], &d, |x, row, column| {
            let x = 0.25 * x + f64::from(bias.values[column]);
            x * normal_distribution(x) + 2.0 * f64::from(c.values[row * n + column])
        });
    }
}

#[test]
fn a_chain_with_scales_and_values_of_rows() {
    let device = Device::sim(SimConfig { sms: 4, ..SimConfig::default() });
    let size @ [m, n, k] = [150, 264, 72];
    let [a, b] = [m * k, n * k].map(|count| operand(&device, count as u64, count, Dtype::Bf16));
    let [rows, bias] = [3, 4].map(|seed| operand(&device, seed, m, Dtype::F32));
    let one = operand(&device, 5, 1, Dtype::F32);
    let gemm = Gemm::with_instances(&device, &IMAGE, BOUNDED).unwrap();
    for (index, instance) in BOUNDED.iter().enumerate() {
        let mut d = device.alloc(instance.out.size() * m * n).unwrap();
        let epilogue = Scaled { alpha: 0.5, a: scales(&rows), b: scales(&one) }
            .then(PerRowBias { bias: bias.buffer.dependent_slice() })
            .activated::<Sigmoid>()
            .then(Clamp { low: 0.2, high: 0.7 });
        let plan = gemm.plan_with(&problem(size, instance.out, false), index).unwrap();
        plan.run_with(&a.buffer, &b.buffer, None, &mut d, epilogue).unwrap();
        let d = data::decode(&d.to_vec().unwrap(), instance.out).unwrap();
        compare(size, [&a, &b], &d, |x, row, _| {
            let scale = 0.5 * f64::from(rows.values[row]) * f64::from(one.values[0]);
            let x = scale * x + f64::from(bias.values[row]);
            (1.0 / (1.0 + (-x).exp())).clamp(0.2, 0.7)
        });
    }
}

#[test]
fn gates_of_kernels_of_ones_own() {
    let device = Device::sim(SimConfig { sms: 4, ..SimConfig::default() });
    let size @ [m, n, k] = [150, 304, 72];
    let [a, b] = [m * k, n * k].map(|count| operand(&device, count as u64, count, Dtype::Bf16));
    let bias = operand(&device, 4, n / 2, Dtype::F32);
    let gemm = Gemm::with_instances(&device, &IMAGE, SWIGLU).unwrap();
    let sum = |row: usize, column: usize| {
        let product =
            |x: usize| f64::from(a.values[row * k + x]) * f64::from(b.values[column * k + x]);
        0.25 * (0..k).map(product).sum::<f64>()
    };
    for (index, instance) in SWIGLU.iter().enumerate() {
        let mut d = device.alloc(instance.out.size() * m * n / 2).unwrap();
        let epilogue: SwiGlu<'_> = Linear { alpha: 0.25, beta: 0.0 }
            .gated(EltAct::SILU)
            .then(PerColBias::new(bias.buffer.dependent_slice()));
        let plan = gemm.plan_with(&problem(size, instance.out, false), index).unwrap();
        plan.run_with(&a.buffer, &b.buffer, None, &mut d, epilogue).unwrap();
        let d = data::decode(&d.to_vec().unwrap(), instance.out).unwrap();
        assert_eq!(d.len(), m * n / 2);
        for (i, &have) in d.iter().enumerate() {
            let (row, column) = (i / (n / 2), i % (n / 2));
            let gate = column / 8 * 16 + column % 8;
            let (gate, up) = (sum(row, gate), sum(row, gate + 8));
            let want = gate / (1.0 + (-gate).exp()) * up + f64::from(bias.values[column]);
            let error = (f64::from(have) - want).abs() / (1.0 + want.abs());
            assert!(error < 5e-3, "kernel {index}, ({row}, {column}): {have}, {want} is right");
        }
    }
}
