//! Layouts and batches on the SM model: every kernel to the bit, with residues in each dimension, padded lines, broadcast
//! operands and a column-major D; and what is refused.

use crate::strided_cases::{PACKED, PADDED, every_kernel, problem, reference, right, value};
use gpu_kernels::gemm::LAYOUT_INSTANCES;
use host::data::{decode, encode};
use host::gemm::{
    Gemm, Layout, Major, Order, Schedule, Strided, StridedGemm, StridedMut, StridedProblem,
};
use host::{Device, Dtype, Error, SimConfig, View, ViewMut};
use isa::kernel::{Image, KernelMeta};
use std::sync::LazyLock;

/// What the model needs of the image: the facts of its kernels.
static IMAGE: LazyLock<&'static Image> = LazyLock::new(|| {
    let kernels: Vec<KernelMeta> = LAYOUT_INSTANCES.iter().map(|row| row.desc.meta).collect();
    let (name, arch) = ("layouts", "sm_90a");
    let image = Image { name, arch, code: &[], kernels: kernels.leak(), ptxas: None, others: &[] };
    Box::leak(Box::new(image))
});

fn on_model(seed: u64) -> (Device, StridedGemm) {
    let device = Device::sim(SimConfig { sms: 4, seed, ..SimConfig::default() });
    let gemm = Gemm::strided(&device, &IMAGE).unwrap();
    (device, gemm)
}

#[test]
fn each_kernel_computes_batches_with_residues() {
    every_kernel(&on_model(3));
}

#[test]
fn each_kernel_under_many_schedules_of_the_model() {
    for (index, instance) in LAYOUT_INSTANCES.iter().enumerate() {
        let problem = problem(instance, 3, [43, 56, 136]);
        let want = reference(&problem, [false; 2], 0.5);
        // Two clusters share three matrices; where tiles can be split, they share all of them too.
        for seed in 0..104 {
            let streamed = if instance.splits_k && seed % 2 == 1 { 3 } else { 0 };
            let schedule = Schedule { clusters: 2, streamed };
            right(&on_model(seed), &problem, Some((index, Some(schedule))), [PACKED; 3], &want);
        }
    }
}

#[test]
fn a_column_major_result_exchanges_the_operands() {
    let device = on_model(1);
    for dtype in [Dtype::Bf16, Dtype::F16] {
        for layout in Layout::ALL {
            let order = Order::ColumnMajor;
            let problem = StridedProblem { batch: 2, m: 136, n: 75, k: 91, dtype, layout, order };
            let want = reference(&problem, [false; 2], 0.5);
            right(&device, &problem, None, [PADDED; 3], &want);
        }
    }
}

/// Heads of attention: the matrices lie side by side in the lines.
#[test]
fn interleaved_matrices() {
    let device = on_model(2);
    let (dtype, layout) = (Dtype::Bf16, Layout { a: Major::K, b: Major::K });
    let (batch, m, n, k) = (3, 40, 64, 64);
    let problem = StridedProblem { batch, m, n, k, dtype, layout, order: Order::RowMajor };
    let plan = device.1.plan(&problem).unwrap();
    let values = |operand| -> Vec<f32> {
        let of = |i: u64| value(operand, i / 64 % batch, i / (64 * batch), i % 64);
        (0..64 * batch * 64).map(of).collect()
    };
    let [a, b] = [0, 1].map(|o| device.0.upload(&encode(&values(o), dtype).unwrap()).unwrap());
    let mut d = device.0.alloc((m * batch * n * 2) as usize).unwrap();
    let pitch = batch * 64 * 2;
    let heads = |buffer| Strided::from(View::new(buffer).pitch(pitch)).batch_stride(128);
    let result = StridedMut::from(ViewMut::new(&mut d).pitch(pitch)).batch_stride(128);
    plan.run(heads(&a), heads(&b), result, 1.0).unwrap();
    let have = decode(&d.to_vec().unwrap(), dtype).unwrap();
    let want = reference(&problem, [false; 2], 1.0);
    for (i, &want) in want.iter().enumerate() {
        let (matrix, row, column) = (i / (40 * 64), i / 64 % 40, i % 64);
        let have = have[(row * 3 + matrix) * 64 + column];
        assert_eq!(have.to_bits(), want.to_bits(), "{matrix} {row} {column}");
    }
}

#[test]
fn an_empty_result_launches_nothing() {
    let (device, gemm) = on_model(0);
    let (dtype, layout) = (Dtype::F16, Layout::ALL[1]);
    for [batch, m, n] in [[0, 8, 8], [2, 0, 8], [2, 8, 0]] {
        let problem = StridedProblem { batch, m, n, k: 8, dtype, layout, order: Order::RowMajor };
        let plan = gemm.plan(&problem).unwrap();
        assert!(plan.describe().to_string().ends_with("D is empty: nothing is launched\n"));
        let (a, mut d) = (device.alloc(0).unwrap(), device.alloc(0).unwrap());
        plan.run(&a, &a, &mut d, 1.0).unwrap();
    }
}

/// What is refused, with the line that says what would be right.
#[test]
fn errors() {
    let (device, gemm) = on_model(0);
    let of = |text: &str, dtype| {
        let layout: Layout = text.parse().unwrap();
        StridedProblem { batch: 2, m: 16, n: 24, k: 32, dtype, layout, order: Order::RowMajor }
    };
    let refused = |problem: StridedProblem| gemm.plan(&problem).err().unwrap().to_string();
    assert_eq!(
        "xn".parse::<Layout>().unwrap_err().to_string(),
        "`xn` is no layout: tn, tt, nn or nt is right"
    );
    assert_eq!(
        refused(of("nn", Dtype::E4m3)),
        "operands of e4m3 in the layout nn, batch 2: wgmma reads 8-bit operands K-major only, which is tn"
    );
    assert_eq!(
        refused(of("tn", Dtype::E4m3)),
        "operands of e4m3 in the layout tn, batch 2: single products of e4m3 are Gemm::scaled's; batches are of bf16 or f16"
    );
    assert_eq!(
        refused(of("tn", Dtype::F32)),
        "operands of f32 in the layout tn, batch 2: bf16 or f16 is right"
    );
    let bf16 = of("tt", Dtype::Bf16);
    assert_eq!(
        refused(StridedProblem { k: 0, ..bf16 }),
        "K is 0, so every element of D is 0: fill D instead"
    );
    let batch = 1 << 30;
    assert_eq!(
        refused(StridedProblem { batch, ..bf16 }),
        "a batch of 1073741824 matrices of 16 x 24: a grid computes less than 2^30 tiles of 16 x 16 elements"
    );
    let wrong = gemm.plan_with(&bf16, 0, None).err().unwrap().to_string();
    assert_eq!(
        wrong,
        "GEMM instance 0 of 12 does not compute this product: it computes bf16 to bf16 without C in the layout tn"
    );

    let buffer = |elements: u64| device.alloc_zeroed(2 * elements as usize).unwrap();
    let (a, b, mut d) = (buffer(2 * 16 * 32), buffer(2 * 32 * 24), buffer(2 * 16 * 24));
    let plan = gemm.plan(&bf16).unwrap();
    let bind = |a: Strided<'_>, b: Strided<'_>, d: StridedMut<'_>| -> String {
        plan.bind(a, b, d).err().map_or_else(String::new, |error: Error| error.to_string())
    };
    let view = |buffer| Strided::from(View::new(buffer));
    assert_eq!(bind(view(&a), view(&b), StridedMut::from(&mut d)), "");
    let short = buffer(16 * 32);
    assert_eq!(
        bind(Strided::from(&short), view(&b), StridedMut::from(&mut d)),
        "GEMM operand A: 32 x 32 bf16 need 2048 bytes; the buffer has 1024"
    );
    assert_eq!(
        bind(view(&short), view(&b), StridedMut::from(&mut d)),
        "GEMM operand A: 2 matrices, 1024 bytes apart, of 16 lines, 64 bytes apart, end at byte 2048; the buffer has 1024"
    );
    assert_eq!(bind(view(&short).broadcast(), view(&b), StridedMut::from(&mut d)), "");
    let odd = Strided::from(View::new(&b).pitch(50));
    assert_eq!(
        bind(view(&a), odd, StridedMut::from(&mut d)),
        "GEMM operand B: pitch 50 is not a multiple of 16 bytes below 2^40, which TMA requires; copy the operand to rows of 48 bytes, or pad them"
    );
    assert_eq!(
        bind(view(&a), view(&b).batch_stride(8), StridedMut::from(&mut d)),
        "GEMM operand B: batch stride 8 is not a multiple of 16 bytes below 2^40, which TMA requires; copy the operand to rows of 48 bytes, or pad them"
    );
    assert_eq!(
        bind(view(&a), view(&b), StridedMut::from(&mut d).batch_stride(752)),
        "GEMM operand D: the batch stride of 752 bytes is too short for 16 lines, 48 bytes apart; at least 768 is right"
    );
    let inside = Strided::from(View::new(&d)).broadcast();
    let overlap = bind(inside, view(&b), StridedMut::from(&mut d));
    assert!(overlap.starts_with("GEMM operand A, 0x"), "{overlap}");
    assert!(overlap.ends_with("D must have memory of its own"), "{overlap}");
    let narrow = gemm.plan(&StridedProblem { n: 20, ..bf16 }).unwrap();
    let b20 = buffer(2 * 32 * 24);
    let strided = Strided::from(View::new(&b20).pitch(48));
    assert_eq!(
        narrow
            .bind(view(&a), strided, StridedMut::from(ViewMut::new(&mut d).pitch(48)))
            .err()
            .unwrap()
            .to_string(),
        "GEMM operand D: lines of 20 bf16 = 40 bytes; TMA writes multiples of 16 bytes, so a multiple of 8 elements is right"
    );
}
