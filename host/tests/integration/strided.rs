//! Layouts and batches on the SM model: every kernel to the bit, with residues in each dimension, padded lines, broadcast
//! operands, a C and a column-major D; operands that are copied; and what is refused.

use crate::strided_cases::{ODD, PACKED, PADDED, every_kernel, problem, reference, right, value};
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
        let want = reference(&problem, [false; 2]);
        // Two clusters share three matrices; where tiles can be split, they share all of them too.
        for seed in 0..if instance.has_c { 52 } else { 104 } {
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
            for (beta_c, place) in [(false, PADDED), (true, PADDED), (true, ODD)] {
                let (batch, m, n, k, order) = (2, 136, 75, 91, Order::ColumnMajor);
                let problem = StridedProblem { batch, m, n, k, dtype, layout, order, beta_c };
                let want = reference(&problem, [false; 2]);
                right(&device, &problem, None, [place; 3], &want);
            }
        }
    }
}

/// Heads of attention: the matrices lie side by side in the lines.
#[test]
fn interleaved_matrices() {
    let device = on_model(2);
    let (dtype, layout) = (Dtype::Bf16, Layout { a: Major::K, b: Major::K });
    let (batch, m, n, k, order) = (3, 40, 64, 64, Order::RowMajor);
    let problem = StridedProblem { batch, m, n, k, dtype, layout, order, beta_c: false };
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
    plan.run(heads(&a), heads(&b), None, result, 0.5, 0.0).unwrap();
    let have = decode(&d.to_vec().unwrap(), dtype).unwrap();
    let want = reference(&problem, [false; 2]);
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
        let (k, order, beta_c) = (8, Order::RowMajor, false);
        let problem = StridedProblem { batch, m, n, k, dtype, layout, order, beta_c };
        let plan = gemm.plan(&problem).unwrap();
        assert!(plan.describe().to_string().ends_with("D is empty: nothing is launched\n"));
        let (a, mut d) = (device.alloc(0).unwrap(), device.alloc(0).unwrap());
        plan.run(&a, &a, None, &mut d, 1.0, 0.0).unwrap();
    }
}

/// What is refused, with the line that says what would be right.
#[test]
fn errors() {
    let (device, gemm) = on_model(0);
    let of = |text: &str, dtype| {
        let layout: Layout = text.parse().unwrap();
        let (batch, m, n, k, order) = (2, 16, 24, 32, Order::RowMajor);
        StridedProblem { batch, m, n, k, dtype, layout, order, beta_c: false }
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
    let batch = 1 << 30;
    assert_eq!(
        refused(StridedProblem { batch, ..bf16 }),
        "a batch of 1073741824 matrices of 16 x 24: a grid computes fewer than 2^30 tiles of 16 x 16 elements"
    );
    let wrong = gemm.plan_with(&bf16, 0, None).err().unwrap().to_string();
    assert_eq!(
        wrong,
        "GEMM instance 0 of 20 does not compute this product: it computes bf16 to bf16 without C in the layout tn"
    );

    let buffer = |elements: u64| device.alloc_zeroed(2 * elements as usize).unwrap();
    let (a, b, mut d) = (buffer(2 * 16 * 32), buffer(2 * 32 * 24), buffer(2 * 16 * 24));
    let plan = gemm.plan(&bf16).unwrap();
    let bind = |a: Strided<'_>, b: Strided<'_>, d: StridedMut<'_>| -> String {
        plan.bind(a, b, None, d).err().map_or_else(String::new, |error: Error| error.to_string())
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
    let odd = Strided::from(View::new(&b).pitch(49));
    assert_eq!(
        bind(view(&a), odd, StridedMut::from(&mut d)),
        "GEMM operand B: pitch 0x31 is not a multiple of 2, the bytes of bf16"
    );
    assert_eq!(
        bind(view(&a), view(&b), StridedMut::from(&mut d).batch_stride(752)),
        "GEMM operand D: the batch stride of 752 bytes is too short for 16 lines, 48 bytes apart; at least 768 is right"
    );
    let inside = Strided::from(View::new(&d)).broadcast();
    let overlap = bind(inside, view(&b), StridedMut::from(&mut d));
    assert!(overlap.starts_with("GEMM operand A, 0x"), "{overlap}");
    assert!(overlap.ends_with("D must have memory of its own"), "{overlap}");
    let with_c = StridedProblem { beta_c: true, ..bf16 };
    let plan = gemm.plan(&with_c).unwrap();
    let mut bind = |c: Option<Strided<'_>>| -> String {
        plan.bind(view(&a), view(&b), c, &mut d).err().unwrap().to_string()
    };
    assert_eq!(bind(None), "the GEMM was planned with C and is run without C");
    assert_eq!(
        bind(Some(view(&short).batch_stride(512))),
        "GEMM operand C: 2 matrices, 512 bytes apart, of 16 lines, 48 bytes apart, end at byte 1280; the buffer has 1024"
    );
}

/// C may be D; a part of it that is not the same is refused. With `beta = 0` it is not read.
#[test]
fn c_may_be_d() {
    let (device, gemm) = on_model(4);
    let (dtype, layout, order) = (Dtype::Bf16, Layout::ALL[1], Order::RowMajor);
    let (batch, m, n, k) = (2, 5, 8, 16);
    let problem = StridedProblem { batch, m, n, k, dtype, layout, order, beta_c: true };
    let plan = gemm.plan(&problem).unwrap();
    let [a, b, c] = [('A', 0.5), ('B', 2.0), ('C', 3.0)].map(|(operand, value)| {
        let values = vec![value; problem.bytes(operand) as usize / 2];
        device.upload(&encode(&values, dtype).unwrap()).unwrap()
    });
    let mut d = device.alloc(2 * c.len()).unwrap();
    d.write(&[c.to_vec().unwrap(), c.to_vec().unwrap()].concat()).unwrap();
    let first = || d.part(0, c.len()).unwrap();
    let values = |buffer: &host::Buffer| decode(&buffer.to_vec().unwrap(), dtype).unwrap();
    let in_place = plan.bind(&a, &b, Some(Strided::from(&first())), &mut first()).unwrap();
    in_place.run(1.0, 2.0, &device.stream()).unwrap();
    assert_eq!(values(&first()), vec![22.0; c.len() / 2]);
    let shifted = Strided::from(View::new(&d).offset(16));
    let refused = plan.bind(&a, &b, Some(shifted), &mut first()).err().unwrap().to_string();
    assert!(refused.ends_with("C must be exactly D or apart from it"), "{refused}");
    let nan = device.upload(&vec![0xff; c.len()]).unwrap();
    plan.run(&a, &b, Some(Strided::from(&nan)), &mut first(), 1.0, 0.0).unwrap();
    assert_eq!(values(&first()), vec![16.0; c.len() / 2]);
}

/// Matrices side by side in lines that TMA can't write: each line of all matrices is one copy. The plan says what packed operands
/// need, and a bound product what its own operands do.
#[test]
fn operands_that_are_copied() {
    let (device, gemm) = on_model(5);
    let (dtype, layout, order) = (Dtype::F16, Layout::ALL[0], Order::RowMajor);
    let (batch, m, n, k) = (7, 3, 5, 16);
    let problem = StridedProblem { batch, m, n, k, dtype, layout, order, beta_c: false };
    let plan = gemm.plan(&problem).unwrap();
    let text = plan.describe().to_string();
    let copy = "  D: rows of 10 bytes are padded to 16 (TMA needs multiples of 16) in a copy of 336 bytes\n";
    assert!(text.ends_with(copy), "{text}");
    // One line suits TMA at any length, but not matrices that are so far apart.
    let one = StridedProblem { m: 1, n: 8, k: 5, ..problem };
    let copied = |batch| -> String {
        let plan = gemm.plan(&StridedProblem { batch, ..one }).unwrap();
        plan.describe().staging.iter().map(|copy| copy.operand).collect()
    };
    assert_eq!((copied(1).as_str(), copied(2).as_str()), ("B", "AB"));
    let values = |operand: u64, rows: u64| -> Vec<f32> {
        let of = |i: u64| value(operand, i / (rows * k), i / k % rows, i % k);
        (0..batch * rows * k).map(of).collect()
    };
    let upload = |values: &[f32]| device.upload(&encode(values, dtype).unwrap()).unwrap();
    let (a, b) = (upload(&values(0, m)), upload(&values(1, n)));
    let mut d = device.alloc((batch * m * n * 2) as usize).unwrap();
    let result = StridedMut::from(ViewMut::new(&mut d).pitch(batch * n * 2)).batch_stride(n * 2);
    let bound = plan.bind(&a, &b, None, result).unwrap();
    assert_eq!(bound.copied().collect::<String>(), "D");
    bound.run(0.5, 0.0, &device.stream()).unwrap();
    let want = reference(&problem, [false; 2]);
    for (i, have) in decode(&d.to_vec().unwrap(), dtype).unwrap().into_iter().enumerate() {
        let (row, matrix, column) = (i / 35, i / 5 % 7, i % 5);
        assert_eq!(have.to_bits(), want[(matrix * 3 + row) * 5 + column].to_bits(), "{i}");
    }
}
