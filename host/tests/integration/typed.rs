//! Products of the GEMM's other types on the SM model: every kernel, bit by bit, and what is refused.

use super::typed_cases::{Products, every_kernel, instances};
use gpu_kernels::gemm::Instance;
use host::gemm::{Gemm, GemmProblem, Int8Gemm, OperandScales, ScaledCGemm, ScaledGemm};
use host::{Device, Dtype, SimConfig, View};
use isa::kernel::{Image, KernelMeta};
use std::sync::LazyLock;

/// What the model needs of the image: the facts of its kernels.
static IMAGE: LazyLock<&'static Image> = LazyLock::new(|| {
    // A plan's table is checked as a whole, so that of f32 results of 16-bit operands is there too.
    let others = gpu_kernels::gemm::INSTANCES.iter().filter(|i| i.ab != Dtype::Tf32);
    let kernels: Vec<KernelMeta> =
        instances().chain(others).map(|instance| instance.desc.meta).collect();
    let (name, arch) = ("typed", "sm_90a");
    let image = Image { name, arch, code: &[], kernels: kernels.leak(), ptxas: None, others: &[] };
    Box::leak(Box::new(image))
});

fn device(seed: u64) -> Device {
    Device::sim(SimConfig { sms: 4, seed, ..SimConfig::default() })
}

#[test]
fn every_kernel_with_residues() {
    // More k tiles than stages, tiles that hang over, and rows of D that are not a multiple of 16 bytes.
    let size = |instance: &Instance| {
        let k = instance.bk as usize * (instance.stages as usize + 1).min(6);
        [136, 267, k + 16]
    };
    let products = Products { size: &size, all_scales: true };
    every_kernel(&device(1), &IMAGE, "residues", &products);
    // One k tile, and rows of A and B that TMA can't read in place.
    let products = Products { size: &|_| [9, 24, 13], all_scales: false };
    every_kernel(&device(2), &IMAGE, "copies", &products);
}

// The longest tests stand last: two halves keep two cores busy.
#[test]
fn fifty_seeds_of_every_kernel() {
    every_kernel_under(0..50);
}

#[test]
fn fifty_more_seeds_of_every_kernel() {
    every_kernel_under(50..100);
}

fn every_kernel_under(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let what = format!("seed {seed}");
        // Tiles of two k tiles; with some seeds two of them side by side.
        let columns = |bn: usize| if seed % 4 == 0 { bn + 8 } else { bn - 8 };
        let products = Products {
            size: &|i| [24, columns(i.bn as usize), i.bk as usize + 16],
            all_scales: false,
        };
        every_kernel(&device(seed), &IMAGE, &what, &products);
    }
}

/// Sums of the largest products pass 2^31 and wrap around, as PTX says.
#[test]
fn integers_wrap_around() {
    let device = device(3);
    let gemm = Int8Gemm::int8(&device, &IMAGE).unwrap();
    let (m, n, k) = (8, 8, 131_072 + 32);
    let problem = GemmProblem { m, n, k, ab: Dtype::I8, out: Dtype::I32, beta_c: false };
    let a = device.upload(&vec![0x80; (m * k) as usize]).unwrap();
    let mut d = device.alloc((4 * m * n) as usize).unwrap();
    gemm.plan(&problem).unwrap().run_int8(&a, &a, &mut d, 3).unwrap();
    let right = (16384 * k as i64).wrapping_mul(3) as i32;
    let all = d.to_vec().unwrap();
    assert!(all.chunks(4).all(|x| x == right.to_ne_bytes()), "{:x?}, {right:x}", &all[..4]);
}

/// f32 values lie in memory as they are: TMA rounds them to the nearest tf32.
#[test]
fn tf32_is_f32_rounded() {
    let device = device(4);
    let gemm = Gemm::new(&device, &IMAGE).unwrap();
    let (m, n, k) = (8, 8, 8);
    let problem = GemmProblem { m, n, k, ab: Dtype::Tf32, out: Dtype::F32, beta_c: false };
    let values = |x: f32| device.upload(&x.to_ne_bytes().repeat(64)).unwrap();
    let (a, b) = (values(1.0 + 3.0 * 2f32.powi(-12)), values(1.0));
    let mut d = device.alloc(4 * 64).unwrap();
    let plan = gemm.plan(&problem).unwrap();
    plan.run(&a, &b, None, &mut d, 1.0, 0.0).unwrap();
    let right = 8.0 * (1.0 + 2f32.powi(-10));
    assert!(d.to_vec().unwrap().chunks(4).all(|x| x == right.to_ne_bytes()));
    // A view of f32 is one of tf32.
    let typed = View::new(&a).dtype(Dtype::F32);
    plan.run(typed, &b, None, &mut d, 1.0, 0.0).unwrap();
}

#[test]
fn other_types_are_refused_in_one_line() {
    let device = device(5);
    let mix = |operands| ScaledGemm::scaled_mix(&device, &IMAGE, operands, false);
    for (operands, said) in [
        (
            [Dtype::E4m3, Dtype::E4m3],
            "GEMM operands of type e4m3; e5m2 with e4m3 or e5m2 is supported",
        ),
        (
            [Dtype::E5m2, Dtype::Bf16],
            "GEMM operands of type bf16; e5m2 with e4m3 or e5m2 is supported",
        ),
    ] {
        assert_eq!(mix(operands).err().unwrap().to_string(), said);
    }
    let problem = |ab, out, beta_c| GemmProblem { m: 8, n: 16, k: 32, ab, out, beta_c };
    let refused = |error: Option<host::Error>, part: &str| {
        let said = error.unwrap().to_string();
        assert!(said.contains(part) && !said.contains('\n'), "{said}");
    };
    let gemm = mix([Dtype::E5m2, Dtype::E4m3]).unwrap();
    refused(gemm.plan(&problem(Dtype::E5m2, Dtype::F32, false)).err(), "e5m2 x e4m3 to bf16");
    let plan = gemm.plan(&problem(Dtype::E5m2, Dtype::Bf16, false)).unwrap();
    assert_eq!(plan.describe().ab, "e5m2 x e4m3");
    let [a, b, one] = [8 * 32, 16 * 32, 4].map(|bytes| device.alloc_zeroed(bytes).unwrap());
    let mut d = device.alloc(2 * 8 * 16).unwrap();
    let scales = OperandScales { a: &one, b: &one };
    let e5m2 = View::new(&b).dtype(Dtype::E5m2);
    refused(plan.run_scaled(&a, e5m2, &mut d, scales, 1.0).err(), "e4m3");
    let int8 = Int8Gemm::int8(&device, &IMAGE).unwrap();
    refused(int8.plan(&problem(Dtype::I8, Dtype::F16, false)).err(), "i8 to i32");
    let c = ScaledCGemm::scaled_c(&device, &IMAGE).unwrap();
    let plan = c.plan(&problem(Dtype::E4m3, Dtype::Bf16, true)).unwrap();
    let bad = device.alloc_zeroed(12).unwrap();
    let scales = OperandScales { a: &bad, b: &one };
    let source = device.alloc_zeroed(2 * 8 * 16).unwrap();
    refused(
        plan.run_scaled_c(&a, &b, &source, &mut d, scales, [1.0, 1.0]).err(),
        "scales of A: 3 f32 values",
    );
}
