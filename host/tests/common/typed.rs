//! Products of e4m3 with quantised results, of e5m2, of 8-bit integers and of tf32, on the model and on a GPU: small whole
//! numbers, so that every sum is exact and each result is compared bit by bit.
//!
//! Shared, by path, by the programs of several crates.
#![allow(dead_code)]

use gpu_kernels::gemm::Instance;
use gpu_kernels::gemm::e5m2::e5m2_instances;
use gpu_kernels::gemm::fused::{FUSED_E4M3_FAST_INSTANCES, FUSED_E4M3_INSTANCES};
use gpu_kernels::gemm::fusion::EltAct;
use gpu_kernels::gemm::integer::{INT8_INSTANCES, INT8_SCALED_INSTANCES};
use gpu_kernels::gemm::quantised::{E4M3_FAST_INSTANCES, E4M3_INSTANCES, SCALED_C_INSTANCES};
use gpu_kernels::gemm::{Epilogue, INSTANCES};
use host::data::encode;
use host::gemm::{
    Fusion, Gemm, GemmPlan, GemmProblem, Int8Gemm, OperandScales, QuantisedGemm, ResultScale,
    ScaledCGemm, ScaledFusedGemm, ScaledGemm,
};
use host::{Buffer, Device, Dtype, Error};
use isa::kernel::Image;

/// The mixes of types with e5m2.
const MIXES: [[Dtype; 2]; 3] =
    [[Dtype::E5m2, Dtype::E4m3], [Dtype::E4m3, Dtype::E5m2], [Dtype::E5m2, Dtype::E5m2]];

/// The kernels of all these types.
pub fn instances() -> impl Iterator<Item = &'static Instance> {
    let mixes = MIXES.into_iter().flat_map(|mix| [false, true].map(|fast| (mix, fast)));
    let mixes = mixes.filter_map(|(mix, fast)| e5m2_instances(mix, fast)).map(|table| table.rows);
    let tables = [
        E4M3_INSTANCES.rows,
        E4M3_FAST_INSTANCES.rows,
        SCALED_C_INSTANCES.rows,
        FUSED_E4M3_INSTANCES.rows,
        FUSED_E4M3_FAST_INSTANCES.rows,
        INT8_INSTANCES.rows,
        INT8_SCALED_INSTANCES.rows,
    ];
    let tf32 = INSTANCES.rows.iter().filter(|i| i.ab == Dtype::Tf32);
    tables.into_iter().chain(mixes).flatten().chain(tf32)
}

/// The products that each kernel computes.
pub struct Products<'s> {
    /// M, N and K, for a kernel of the table.
    pub size: &'s dyn Fn(&Instance) -> [usize; 3],
    /// Whether there are scales of rows, of tensors, and of both; otherwise of the rows of A and of the whole B.
    pub all_scales: bool,
}

/// A product whose results are known.
struct Case {
    problem: GemmProblem,
    a: Buffer,
    b: Buffer,
    /// The sums, which are whole numbers.
    sums: Vec<i64>,
}

impl Case {
    fn new(device: &Device, instance: &Instance, [m, n, k]: [usize; 3]) -> Self {
        // Integers have all bits, and floats few, so that sums stay below 2^13.
        let number = |seed: usize, i: usize| match instance.ab {
            Dtype::I8 => ((i * 89 + i / 7 + seed * 3) % 256) as i64 - 128,
            _ => ((i * 7 + i / 5 + seed * 3) % 5) as i64 - 2,
        };
        let of = |seed, count: usize| (0..count).map(|i| number(seed, i)).collect::<Vec<_>>();
        let (a, b) = (of(1, m * k), of(2, n * k));
        let sum = |i: usize| {
            let (row, column) = (i / n, i % n);
            a[row * k..][..k].iter().zip(&b[column * k..][..k]).map(|(a, b)| a * b).sum()
        };
        let sums = (0..m * n).map(sum).collect();
        let upload = |values: &[i64], dtype| {
            let values: Vec<f32> = values.iter().map(|x| *x as f32).collect();
            device.upload(&encode(&values, dtype).unwrap()).unwrap()
        };
        let [rows, columns, depth] = [m, n, k].map(|x| x as u64);
        let problem = GemmProblem {
            m: rows,
            n: columns,
            k: depth,
            ab: instance.ab,
            out: instance.out,
            beta_c: instance.has_c,
        };
        Self { problem, a: upload(&a, instance.ab), b: upload(&b, instance.b), sums }
    }

    /// Runs row `index` of a table, and compares D with what `want` makes of a sum, its row and its column.
    fn check<E: Epilogue>(
        &self,
        (device, gemm): (&Device, &Gemm<E>),
        what: &str,
        index: usize,
        run: impl FnOnce(&GemmPlan<E>, &mut Buffer) -> Result<(), Error>,
        want: impl Fn(f32, usize, usize) -> f32,
    ) {
        let name = gemm.instances()[index].desc.meta.name();
        let mut d = device.alloc(self.problem.bytes('D') as usize).unwrap();
        d.fill(0xff).unwrap();
        let plan = gemm.plan_with(&self.problem, index).unwrap();
        run(&plan, &mut d).unwrap_or_else(|e| panic!("{what}: {name}:\n{e}"));
        let n = self.problem.n as usize;
        let wanted = |(i, sum): (usize, &i64)| want(*sum as f32, i / n, i % n);
        let values: Vec<f32> = self.sums.iter().enumerate().map(wanted).collect();
        let (have, want) = (d.to_vec().unwrap(), encode(&values, self.problem.out).unwrap());
        let size = self.problem.out.size();
        let wrong = have.chunks(size).zip(want.chunks(size)).position(|(have, want)| have != want);
        if let Some(at) = wrong {
            let (have, want) = (&have[at * size..][..size], &want[at * size..][..size]);
            panic!("{what}: {name}, ({}, {}): {have:x?}, not {want:x?}", at / n, at % n);
        }
    }
}

/// Powers of two, with which products are exact.
fn power(i: usize) -> f32 {
    2f32.powi((i * 5 % 7) as i32 - 3)
}

/// Every kernel of these types with these products.
pub fn every_kernel(device: &Device, image: &'static Image, what: &str, products: &Products<'_>) {
    let size = products.size;
    let floats = |values: &[f32]| device.upload(&encode(values, Dtype::F32).unwrap()).unwrap();
    let scales = |case: &Case| {
        let of = |rows: u64| (0..rows as usize).map(power).collect::<Vec<_>>();
        [floats(&of(case.problem.m)), floats(&of(case.problem.n))]
    };

    for fast in [false, true] {
        let gemm = QuantisedGemm::quantised(device, image, fast).unwrap();
        for (index, instance) in gemm.instances().iter().enumerate() {
            let case = Case::new(device, instance, size(instance));
            let [a, b] = &scales(&case);
            let (scale, mut amax) = (floats(&[0.25]), floats(&[0.0]));
            let result = ResultScale { scale: Some(&scale), amax: Some(&mut amax) };
            let run = |plan: &GemmPlan<_>, d: &mut Buffer| {
                plan.run_quantised(&case.a, &case.b, d, OperandScales { a, b }, result, 0.5)
            };
            let exact = |x: f32, row, column| x * 0.5 * power(row) * power(column);
            case.check((device, &gemm), what, index, run, |x, r, c| 0.25 * exact(x, r, c));
            let n = case.problem.n as usize;
            let all = case.sums.iter().enumerate();
            let largest =
                all.fold(0.0f32, |max, (i, x)| max.max(exact(*x as f32, i / n, i % n).abs()));
            let mut have = [0; 4];
            amax.read(&mut have).unwrap();
            let name = instance.desc.meta.name();
            let have = f32::from_ne_bytes(have);
            assert_eq!(have.to_bits(), largest.to_bits(), "{what}: {name}: {have}, not {largest}");
        }
        let gemm = ScaledFusedGemm::scaled_fused(device, image, fast).unwrap();
        for (index, instance) in gemm.instances().iter().enumerate() {
            let case = Case::new(device, instance, size(instance));
            let [a, b] = &scales(&case);
            let biases: Vec<f32> = (0..case.problem.n).map(|i| (i % 9) as f32 - 4.0).collect();
            let bias = device.upload(&encode(&biases, Dtype::Bf16).unwrap()).unwrap();
            let layers = [(Some(&bias), EltAct::RELU), (None, EltAct::IDENTITY)];
            for (bias, activation) in layers.into_iter().take(1 + usize::from(products.all_scales))
            {
                let fusion = Fusion { alpha: 0.5, bias, activation, ..Fusion::default() };
                let run = |plan: &GemmPlan<_>, d: &mut Buffer| {
                    plan.run_scaled_fused(&case.a, &case.b, d, OperandScales { a, b }, fusion)
                };
                let exact = |x: f32, row, column| x * 0.5 * power(row) * power(column);
                case.check((device, &gemm), what, index, run, |x, r, c| match bias {
                    Some(_) => (exact(x, r, c) + biases[c]).max(0.0),
                    None => exact(x, r, c),
                });
            }
        }
        for mix in MIXES {
            let gemm = ScaledGemm::scaled_mix(device, image, mix, fast).unwrap();
            scaled(device, &gemm, what, products, &scales);
        }
    }
    scaled(device, &ScaledGemm::int8_scaled(device, image).unwrap(), what, products, &scales);

    let gemm = ScaledCGemm::scaled_c(device, image).unwrap();
    for (index, instance) in gemm.instances().iter().enumerate() {
        let case = Case::new(device, instance, size(instance));
        let [a, b] = &scales(&case);
        let number = |row: usize, column: usize| ((row * 3 + column) % 9) as f32 - 4.0;
        let n = case.problem.n as usize;
        let c: Vec<f32> = (0..case.sums.len()).map(|i| number(i / n, i % n)).collect();
        for (beta, nan) in [(-2.0, false), (0.0, true)] {
            let c = if nan { vec![f32::NAN; c.len()] } else { c.clone() };
            let c = device.upload(&encode(&c, instance.out).unwrap()).unwrap();
            let run = |plan: &GemmPlan<_>, d: &mut Buffer| {
                plan.run_scaled_c(&case.a, &case.b, &c, d, OperandScales { a, b }, [0.5, beta])
            };
            let want = |x: f32, row, column| {
                x * 0.5 * power(row) * power(column) + beta * number(row, column)
            };
            case.check((device, &gemm), what, index, run, want);
        }
    }

    let gemm = Int8Gemm::int8(device, image).unwrap();
    for (index, instance) in gemm.instances().iter().enumerate() {
        let case = Case::new(device, instance, size(instance));
        let run = |plan: &GemmPlan<_>, d: &mut Buffer| plan.run_int8(&case.a, &case.b, d, -1);
        case.check((device, &gemm), what, index, run, |x, _, _| -x);
    }

    let gemm = Gemm::new(device, image).unwrap();
    for (index, instance) in gemm.instances().iter().enumerate() {
        if instance.ab == Dtype::Tf32 {
            let case = Case::new(device, instance, size(instance));
            let run =
                |plan: &GemmPlan<_>, d: &mut Buffer| plan.run(&case.a, &case.b, None, d, 0.5, 0.0);
            case.check((device, &gemm), what, index, run, |x, _, _| 0.5 * x);
        }
    }
}

/// The kernels of a table with scales of rows, of tensors, and both.
fn scaled(
    device: &Device,
    gemm: &ScaledGemm,
    what: &str,
    products: &Products<'_>,
    scales: &dyn Fn(&Case) -> [Buffer; 2],
) {
    let four = device.upload(&encode(&[4.0], Dtype::F32).unwrap()).unwrap();
    for (index, instance) in gemm.instances().iter().enumerate() {
        let case = Case::new(device, instance, (products.size)(instance));
        let [rows, columns] = &scales(&case);
        let all = [(rows, &four), (rows, columns), (&four, columns), (&four, &four)];
        for &(a, b) in if products.all_scales { &all[..] } else { &all[..1] } {
            let run = |plan: &GemmPlan<_>, d: &mut Buffer| {
                plan.run_scaled(&case.a, &case.b, d, OperandScales { a, b }, 0.5)
            };
            let of = |scale: &Buffer, i| if scale.len() == 4 { 4.0 } else { power(i) };
            let want = |x: f32, row, column| x * (0.5 * of(a, row)) * of(b, column);
            case.check((device, gemm), what, index, run, want);
        }
    }
}
