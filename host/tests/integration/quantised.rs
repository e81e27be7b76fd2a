//! Products with results of e4m3 on the SM model: bit by bit, with residues in each dimension, scales of tensors and of rows,
//! the maximum, and what NaN and infinity become.

use gpu_kernels::gemm::Instance;
use gpu_kernels::gemm::quantised::{E4M3_FAST_INSTANCES, E4M3_INSTANCES};
use host::data::encode;
use host::gemm::{GemmProblem, OperandScales, QuantisedGemm, ResultScale};
use host::{Device, Dtype, SimConfig};
use isa::kernel::{Image, KernelMeta};
use std::sync::LazyLock;

/// What the model needs of the image: the facts of its kernels.
static IMAGE: LazyLock<&'static Image> = LazyLock::new(|| {
    let rows = E4M3_INSTANCES.iter().chain(E4M3_FAST_INSTANCES.iter());
    let kernels: Vec<KernelMeta> = rows.map(|instance| instance.desc.meta).collect();
    let (name, arch) = ("quantised", "sm_90a");
    let image = Image { name, arch, code: &[], kernels: kernels.leak(), ptxas: None, others: &[] };
    Box::leak(Box::new(image))
});

fn gemm(seed: u64, use_fast_accum: bool) -> (Device, QuantisedGemm) {
    let device = Device::sim(SimConfig { sms: 4, seed, ..SimConfig::default() });
    let gemm = QuantisedGemm::quantised(&device, &IMAGE, use_fast_accum).unwrap();
    (device, gemm)
}

/// Small whole numbers: their sums are exact even where the tensor cores keep them short.
fn numbers(seed: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7 + i / 5 + seed * 3) % 5) as f32 - 2.0).collect()
}

fn problem(instance: &Instance, [m, n, k]: [usize; 3]) -> GemmProblem {
    let [m, n, k] = [m, n, k].map(|x| x as u64);
    GemmProblem { m, n, k, ab: instance.ab, out: instance.out, beta_c: false }
}

struct Case<'c> {
    size: [usize; 3],
    a: &'c [f32],
    b: &'c [f32],
    scales: [&'c [f32]; 2],
    /// The scale of D, if it has one.
    scale: Option<f32>,
    alpha: f32,
}

impl Case<'_> {
    /// The results before they are scaled, which are exact in f32.
    fn results(&self) -> Vec<f32> {
        let [m, n, k] = self.size;
        let of = |scales: &[f32], row: usize| scales[if scales.len() == 1 { 0 } else { row }];
        let mut results = vec![0.0; m * n];
        for (i, result) in results.iter_mut().enumerate() {
            let (row, column) = (i / n, i % n);
            let sum: f32 = (0..k).map(|x| self.a[row * k + x] * self.b[column * k + x]).sum();
            *result = sum * self.alpha * of(self.scales[0], row) * of(self.scales[1], column);
        }
        results
    }

    /// Runs kernel `index`; gives D and the maximum, which begins with 0.5.
    fn run(&self, (device, gemm): &(Device, QuantisedGemm), index: usize) -> (Vec<u8>, f32) {
        let [m, n, _] = self.size;
        let floats = |values: &[f32]| device.upload(&encode(values, Dtype::F32).unwrap()).unwrap();
        let bytes = |values: &[f32]| device.upload(&encode(values, Dtype::E4m3).unwrap()).unwrap();
        let (a, b, [scale_a, scale_b]) = (bytes(self.a), bytes(self.b), self.scales.map(floats));
        let scale = self.scale.map(|scale| floats(&[scale]));
        let mut amax = floats(&[0.5]);
        let mut d = device.alloc(m * n).unwrap();
        d.fill(0xff).unwrap();
        let instance = &gemm.instances()[index];
        let plan = gemm.plan_with(&problem(instance, self.size), index).unwrap();
        let result = ResultScale { scale: scale.as_ref(), amax: Some(&mut amax) };
        let scales = OperandScales { a: &scale_a, b: &scale_b };
        plan.run_quantised(&a, &b, &mut d, scales, result, self.alpha)
            .unwrap_or_else(|e| panic!("{}:\n{e}", instance.desc.meta.name()));
        let mut largest = [0; 4];
        amax.read(&mut largest).unwrap();
        (d.to_vec().unwrap(), f32::from_ne_bytes(largest))
    }
}

/// Powers of two, so that the product with them is exact.
fn powers(count: usize) -> Vec<f32> {
    (0..count).map(|i| 2f32.powi((i * 5 % 7) as i32 - 3)).collect()
}

/// Every kernel, on both sides of the range of e4m3: some results saturate.
#[test]
fn every_kernel_rounds_and_saturates_and_keeps_the_maximum() {
    for use_fast_accum in [false, true] {
        let gemm = gemm(1, use_fast_accum);
        for (index, instance) in gemm.1.instances().iter().enumerate() {
            // More k tiles than stages, with a residue; D's rows are not a multiple of 16 bytes.
            let size @ [m, n, k] = [136, 267, 128 * (instance.stages as usize).min(5) + 136];
            let (a, b) = (numbers(1, m * k), numbers(2, n * k));
            let (rows, columns) = (powers(m), powers(n));
            for (scales, scale) in [
                ([&rows[..], &columns[..]], Some(0.125)),
                ([&[0.25], &[4.0]], Some(16.0)),
                ([&rows, &[0.5]], None),
            ] {
                let case = Case { size, a: &a, b: &b, scales, scale, alpha: 0.5 };
                let (d, amax) = case.run(&gemm, index);
                let results = case.results();
                let scaled: Vec<f32> = results.iter().map(|x| x * scale.unwrap_or(1.0)).collect();
                let want = encode(&scaled, Dtype::E4m3).unwrap();
                let name = instance.desc.meta.name();
                let wrong = d.iter().zip(&want).position(|(have, want)| have != want);
                if let Some(at) = wrong {
                    let (row, column) = (at / n, at % n);
                    panic!("{name} ({row}, {column}): {:#x}, not {:#x}", d[at], want[at]);
                }
                let largest = results.iter().fold(0.0f32, |max, x| max.max(x.abs()));
                assert_eq!(amax.to_bits(), largest.to_bits(), "{name}: {amax}, not {largest}");
                assert!(scale != Some(16.0) || scaled.iter().any(|x| x.abs() > 448.0));
            }
        }
    }
}

/// The maximum of a launch does not depend on the order of the CTAs, and stays if it is larger.
#[test]
fn hundred_seeds_of_every_kernel() {
    let size @ [m, n, k] = [72, 136, 144];
    let (a, b) = (numbers(3, m * k), numbers(4, n * k));
    let case = Case { size, a: &a, b: &b, scales: [&[1.0], &[0.5]], scale: Some(2.0), alpha: 1.0 };
    let results = case.results();
    let scaled: Vec<f32> = results.iter().map(|x| 2.0 * x).collect();
    let want = encode(&scaled, Dtype::E4m3).unwrap();
    let largest = results.iter().fold(0.0f32, |max, x| max.max(x.abs()));
    for use_fast_accum in [false, true] {
        for seed in 0..100 {
            let gemm = gemm(seed, use_fast_accum);
            for index in 0..gemm.1.instances().len() {
                let (d, amax) = case.run(&gemm, index);
                let same = amax.to_bits() == largest.to_bits();
                assert!(d == want && same, "seed {seed}, kernel {index}: {amax}");
            }
        }
    }
}

/// What a tile has behind the rows and columns of D has no part in the maximum: there infinity times 0 is NaN.
#[test]
fn nan_and_infinity() {
    let size @ [m, n, k] = [40, 24, 64];
    let ones = |count: usize| vec![1.0; count];
    for use_fast_accum in [false, true] {
        let gemm = gemm(5, use_fast_accum);
        for index in 0..gemm.1.instances().len() {
            let (a, b) = (ones(m * k), ones(n * k));
            let case = |rows: &[f32], columns: &[f32]| {
                let scales = [rows, columns];
                Case { size, a: &a, b: &b, scales, scale: None, alpha: 1.0 }.run(&gemm, index)
            };
            let (d, amax) = case(&[1.0], &vec![f32::INFINITY; n]);
            assert!(amax == f32::INFINITY && d.iter().all(|x| *x == 0x7e), "{amax}");
            let (d, amax) = case(&[f32::NEG_INFINITY], &[1.0]);
            assert!(amax == f32::INFINITY && d.iter().all(|x| *x == 0xfe), "{amax}");
            let mut rows = ones(m);
            rows[7] = f32::NAN;
            let (d, amax) = case(&rows, &[1.0]);
            assert!(amax.is_nan(), "{amax}");
            // 64 is 0x68.
            let right =
                |(i, x): (usize, &u8)| if i / n == 7 { x & 0x7f == 0x7f } else { *x == 0x68 };
            assert!(d.iter().enumerate().all(right));
        }
    }
}

#[test]
fn a_scale_or_a_maximum_of_other_sizes_is_refused() {
    let (device, gemm) = gemm(4, false);
    let plan = gemm.plan(&problem(&gemm.instances()[0], [32, 48, 64])).unwrap();
    let (a, b) = (device.alloc_zeroed(32 * 64).unwrap(), device.alloc_zeroed(48 * 64).unwrap());
    let one = device.alloc_zeroed(4).unwrap();
    let mut other = device.alloc_zeroed(8).unwrap();
    let mut d = device.alloc(32 * 48).unwrap();
    let mut refused = |result: ResultScale<'_>| {
        let scales = OperandScales { a: &one, b: &one };
        plan.run_quantised(&a, &b, &mut d, scales, result, 1.0).unwrap_err().to_string()
    };
    assert_eq!(
        refused(ResultScale { amax: Some(&mut other), ..ResultScale::default() }),
        "maximum of D: 8 bytes; one f32 value, 4 bytes, is right"
    );
    assert_eq!(
        refused(ResultScale { scale: Some(&other), ..ResultScale::default() }),
        "scale of D: 8 bytes; one f32 value, 4 bytes, is right"
    );
}

#[test]
fn other_operands_have_no_such_kernel() {
    let (_, gemm) = gemm(4, false);
    let bf16 = GemmProblem { ab: Dtype::Bf16, ..problem(&gemm.instances()[0], [32, 48, 64]) };
    let said = gemm.plan(&bf16).err().unwrap().to_string();
    assert!(said.contains("e4m3 to e4m3") && !said.contains('\n'), "{said}");
}
