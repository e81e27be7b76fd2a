//! Views: operands that lie somewhere in memory, with a row pitch, on the SM model. Results are compared with
//! the f64 product, and every byte that does not belong to D must stay as it was.

use crate::model_gemm::{IMAGE, TABLE};
use gpu_kernels::gemm::Linear;
use gpu_kernels::gemm::instance::Instances;
use host::data::{decode, encode, normal, rounded};
use host::gemm::{BoundGemm, Gemm, GemmPlan, GemmProblem};
use host::reference::Product;
use host::{Buffer, Device, Dtype, Error, SimConfig, View, ViewMut};

/// What lies around the matrices.
const AROUND: u8 = 0xa5;

fn device() -> Device {
    Device::sim(SimConfig { sms: 4, ..SimConfig::default() })
}

fn plan(device: &Device, [m, n, k]: [u64; 3], beta_c: bool) -> GemmPlan {
    let gemm = Gemm::with_instances(device, &IMAGE, Instances::<Linear>::of(&TABLE)).unwrap();
    let dtype = Dtype::Bf16;
    gemm.plan(&GemmProblem { m, n, k, ab: dtype, out: dtype, beta_c }).unwrap()
}

/// Where a matrix lies: offset of the first element, and row pitch, in bytes.
#[derive(Clone, Copy)]
struct At {
    offset: u64,
    pitch: u64,
}

/// A matrix of bf16 in a larger memory.
struct Placed {
    values: Vec<f32>,
    memory: Buffer,
    at: At,
    cols: usize,
}

impl Placed {
    fn new(device: &Device, seed: u64, [rows, cols]: [u64; 2], at: At) -> Self {
        let cols = cols as usize;
        let values = rounded(&normal(seed, rows as usize * cols), Dtype::Bf16).unwrap();
        let mut bytes =
            vec![AROUND; (at.offset + rows * at.pitch.max(2 * cols as u64) + 64) as usize];
        let encoded = encode(&values, Dtype::Bf16).unwrap();
        for (i, row) in encoded.chunks_exact(2 * cols).enumerate() {
            let start = (at.offset + i as u64 * at.pitch) as usize;
            bytes[start..start + row.len()].copy_from_slice(row);
        }
        Self { values, memory: device.upload(&bytes).unwrap(), at, cols }
    }

    fn view(&self) -> View<'static> {
        View::new(&self.memory).offset(self.at.offset).pitch(self.at.pitch)
    }

    fn view_mut(&mut self) -> ViewMut<'static> {
        ViewMut::new(&mut self.memory).offset(self.at.offset).pitch(self.at.pitch)
    }

    /// The values now; the bytes around them must be as they were.
    fn now(&self) -> Vec<f32> {
        let mut bytes = self.memory.to_vec().unwrap();
        let mut values = Vec::new();
        for i in 0..self.values.len() / self.cols {
            let start = (self.at.offset + i as u64 * self.at.pitch) as usize;
            let row = &mut bytes[start..start + 2 * self.cols];
            values.extend(decode(row, Dtype::Bf16).unwrap());
            row.fill(AROUND);
        }
        let changed = bytes.iter().position(|&b| b != AROUND);
        assert_eq!(changed, None, "a byte outside of the matrix was written");
        values
    }
}

/// Runs a product of placed matrices twice, on two streams. `copied` names the operands that are not used in
/// place.
fn right([m, n, k]: [u64; 3], places: [At; 4], beta: Option<f32>, copied: &str) {
    let device = device();
    let [a, b, c, d] = places;
    let a = Placed::new(&device, 1, [m, k], a);
    let b = Placed::new(&device, 2, [n, k], b);
    let c = Placed::new(&device, 3, [m, n], c);
    let mut d = Placed::new(&device, 4, [m, n], d);
    let plan = plan(&device, [m, n, k], beta.is_some());
    let view_c = beta.map(|_| c.view());
    let bound = plan.bind(a.view(), b.view(), view_c, d.view_mut()).unwrap();
    assert_eq!(bound.copied().collect::<String>(), copied);
    let alpha = 0.5;
    for stream in [device.stream(), device.new_stream().unwrap()] {
        bound.run(alpha, beta.unwrap_or(0.0), &stream).unwrap_or_else(|e| panic!("{e}"));
    }
    plan.synchronize().unwrap();
    let product = Product {
        m: m as usize,
        n: n as usize,
        k: k as usize,
        a: &a.values,
        b: &b.values,
        c: Some(&c.values),
        alpha,
        beta: beta.unwrap_or(0.0),
    };
    let check = product.check(&d.now()).unwrap();
    assert!(check.below(4e-3), "{m}x{n}x{k}: {check}");
    for operand in [&a, &b, &c] {
        assert_eq!(operand.now(), operand.values, "an operand was written");
    }
}

const fn at(offset: u64, pitch: u64) -> At {
    At { offset, pitch }
}

#[test]
fn strided_operands_that_tma_takes_are_used_in_place() {
    let places = [at(16, 160), at(0, 400), at(256, 288), at(32, 336)];
    right([70, 72, 64], places, None, "");
    right([70, 72, 64], places, Some(-2.0), "");
}

/// Rows of 2 * 67 bytes end inside of a unit of 16: D can't be written in place, the others can be read.
#[test]
fn ragged_rows_end_where_they_end() {
    right([33, 67, 65], [at(16, 144), at(32, 160), at(0, 144), at(48, 144)], Some(2.0), "D");
}

#[test]
fn operands_that_tma_does_not_take_are_copied() {
    // Addresses of 2, 6, 10 and 14 bytes behind a multiple of 16.
    right([40, 48, 64], [at(2, 160), at(6, 160), at(10, 160), at(14, 160)], Some(0.5), "ABCD");
    // Pitches that are no multiple of 16.
    right([40, 48, 64], [at(0, 130), at(0, 134), at(0, 102), at(0, 98)], Some(0.5), "ABCD");
    right([40, 48, 64], [at(16, 144), at(0, 134), at(0, 96), at(18, 98)], None, "BD");
}

#[test]
fn a_single_row_has_any_pitch() {
    right([1, 8, 64], [at(0, 3), at(0, 160), at(0, 0), at(0, 1)], Some(1.0), "");
    right([1, 9, 64], [at(2, 0), at(0, 160), at(4, 0), at(6, 0)], Some(1.0), "ACD");
}

/// One product of a batch at a time, from three-dimensional tensors.
#[test]
fn batches_are_addressed_by_index_and_stride() {
    let device = device();
    let (m, n, k) = (32, 40, 64);
    let plan = plan(&device, [m, n, k], false);
    let values = |seed, count| rounded(&normal(seed, count), Dtype::Bf16).unwrap();
    let upload = |v: &[f32]| device.upload(&encode(v, Dtype::Bf16).unwrap()).unwrap();
    let (a, b) = (values(1, 3 * (m * k) as usize), values(2, 3 * (n * k) as usize));
    let (on_a, on_b) = (upload(&a), upload(&b));
    let mut d = device.alloc_zeroed((3 * m * n * 2) as usize).unwrap();
    for i in [2, 0, 1] {
        let a = View::new(&on_a).batch(i, m * k * 2).dtype(Dtype::Bf16);
        let b = View::new(&on_b).batch(i, n * k * 2);
        plan.run(a, b, None, ViewMut::new(&mut d).batch(i, m * n * 2), 1.0, 0.0).unwrap();
    }
    let d = decode(&d.to_vec().unwrap(), Dtype::Bf16).unwrap();
    let one = |x: &[f32], i: usize| x[x.len() / 3 * i..x.len() / 3 * (i + 1)].to_vec();
    for i in 0..3 {
        let (m, n, k) = (m as usize, n as usize, k as usize);
        let (a, b) = (one(&a, i), one(&b, i));
        let product = Product { m, n, k, a: &a, b: &b, c: None, alpha: 1.0, beta: 0.0 };
        let check = product.check(&one(&d, i)).unwrap();
        assert!(check.below(4e-3), "{i}: {check}");
    }
}

/// A and D are columns of one memory, and C is D.
#[test]
fn columns_of_one_memory_are_apart_and_c_may_be_d() {
    let device = device();
    let (m, n, k) = (40, 64, 64);
    let pitch = 2 * (k + n);
    let memory = Placed::new(&device, 1, [m, k + n], at(0, pitch));
    let b = Placed::new(&device, 2, [n, k], at(0, 2 * k));
    let len = memory.memory.len();
    let [c, mut d] = [0; 2].map(|_| memory.memory.part(0, len).unwrap());
    let a = View::new(&memory.memory).pitch(pitch);
    let c = View::new(&c).pitch(pitch).offset(2 * k);
    let d = ViewMut::new(&mut d).pitch(pitch).offset(2 * k);
    plan(&device, [m, n, k], true).run(a, b.view(), Some(c), d, 1.0, -1.0).unwrap();
    let columns = |values: &[f32], from: u64, count: u64| -> Vec<f32> {
        let rows = values.chunks_exact((k + n) as usize);
        rows.flat_map(|row| row[from as usize..(from + count) as usize].to_vec()).collect()
    };
    let (a, c) = (columns(&memory.values, 0, k), columns(&memory.values, k, n));
    let now = memory.now();
    assert_eq!(columns(&now, 0, k), a, "A was written");
    let (m, n, k) = (m as usize, n as usize, k as usize);
    let product = Product { m, n, k, a: &a, b: &b.values, c: Some(&c), alpha: 1.0, beta: -1.0 };
    let check = product.check(&columns(&now, k as u64, n as u64)).unwrap();
    assert!(check.below(4e-3), "{check}");
}

/// What is right is changed by `change`, and must be refused with these words, before anything is written.
fn refused(change: impl FnOnce(&mut Views), words: &str) {
    let device = device();
    let other = self::device();
    let memory = || Placed::new(&device, 1, [64, 64], at(0, 128));
    let mut memories = [memory(), memory(), memory(), memory()];
    let before = memories[3].now();
    let plan = plan(&device, [64, 64, 64], true);
    let [a, b, c, d] = &mut memories;
    let mut views = Views {
        a: a.view(),
        b: b.view(),
        c: Some(c.view()),
        other: View::new(&other.alloc(8192).unwrap()),
        on_a: ViewMut::new(&mut a.memory),
        on_c: ViewMut::new(&mut c.memory),
        d: d.view_mut(),
    };
    change(&mut views);
    let Views { a, b, c, d, .. } = views;
    let error = plan.bind(a.clone(), b.clone(), c.clone(), d).err().expect("must be refused");
    let said = error.to_string();
    assert!(!said.contains('\n') && said.starts_with(words), "{said}");
    assert_eq!(memories[3].now(), before);
}

struct Views {
    a: View<'static>,
    b: View<'static>,
    c: Option<View<'static>>,
    d: ViewMut<'static>,
    other: View<'static>,
    on_a: ViewMut<'static>,
    on_c: ViewMut<'static>,
}

/// Replaces a view by what `f` makes of it.
fn with(view: &mut View<'static>, f: impl FnOnce(View<'static>) -> View<'static>) {
    *view = f(view.clone());
}

#[test]
fn views_that_can_not_be_used_are_refused() {
    refused(
        |v| with(&mut v.a, |a| a.pitch(126)),
        "GEMM operand A: the row pitch of 126 bytes is less than a row of 64 bf16 = 128 bytes",
    );
    refused(
        |v| with(&mut v.b, |b| b.pitch(0)),
        "GEMM operand B: the row pitch of 0 bytes is less than a row of 64 bf16 = 128 bytes",
    );
    refused(
        |v| with(&mut v.b, |b| b.pitch(129)),
        "GEMM operand B: row pitch 0x81 is not a multiple of 2, the bytes of bf16",
    );
    refused(|v| with(&mut v.a, |a| a.offset(1)), "GEMM operand A: address 0x");
    // 64 rows of 128 bytes, and 64 bytes behind them.
    refused(
        |v| with(&mut v.a, |a| a.offset(66)),
        "GEMM operand A: 64 rows of 128 bytes, 128 bytes apart, from byte 66 end at byte 8258; the buffer has 8256",
    );
    refused(
        |v| with(v.c.as_mut().unwrap(), |c| c.pitch(136)),
        "GEMM operand C: 64 rows of 128 bytes, 136 bytes apart, from byte 0 end at byte 8696; the buffer has 8256",
    );
    for far in [u64::MAX, u64::MAX - 127, 1 << 63] {
        refused(|v| with(&mut v.a, |a| a.offset(far)), "GEMM operand A: 64 rows of 128 bytes");
        refused(|v| with(&mut v.a, |a| a.pitch(far)), "GEMM operand A: 64 rows of 128 bytes");
        refused(|v| with(&mut v.a, |a| a.batch(3, far)), "GEMM operand A: 64 rows of 128 bytes");
    }
    refused(
        |v| with(&mut v.a, |a| a.dtype(Dtype::F16)),
        "GEMM operand A: the view has elements of f16; the plan has bf16",
    );
    refused(|v| v.a = v.other.clone(), "operand A belongs to SM model");
    refused(|v| v.c = None, "the GEMM was planned with C and is run without C");
}

#[test]
fn results_that_overlap_operands_are_refused() {
    let words = "overlaps D at 0x";
    let overlap = |change: fn(&mut Views), operand: char, right: &str| {
        let device = device();
        let memory = || Placed::new(&device, 1, [66, 64], at(0, 128));
        let mut memories = [memory(), memory(), memory(), memory()];
        let plan = plan(&device, [64, 64, 64], true);
        let [a, b, c, d] = &mut memories;
        let mut views = Views {
            a: a.view(),
            b: b.view(),
            c: Some(c.view()),
            other: a.view(),
            on_a: ViewMut::new(&mut a.memory).pitch(128),
            on_c: ViewMut::new(&mut c.memory).pitch(128),
            d: d.view_mut(),
        };
        change(&mut views);
        let Views { a, b, c, d, .. } = views;
        let said = plan.bind(a, b, c, d).err().expect("must be refused").to_string();
        assert!(said.starts_with(&format!("GEMM operand {operand} at 0x")), "{said}");
        assert!(said.contains(words) && said.ends_with(right), "{said}");
        for memory in &memories {
            assert_eq!(memory.now(), memory.values);
        }
    };
    let own = "D must have memory of its own";
    overlap(|v| std::mem::swap(&mut v.d, &mut v.on_a), 'A', own);
    overlap(
        |v| {
            v.b = v.a.clone();
            v.a = v.other.clone().offset(128);
            std::mem::swap(&mut v.d, &mut v.on_a);
        },
        'A',
        own,
    );
    overlap(
        |v| {
            v.c = Some(v.c.take().unwrap().offset(128));
            std::mem::swap(&mut v.d, &mut v.on_c);
        },
        'C',
        "C must be exactly D or apart from it",
    );
}

#[test]
fn memory_by_its_address() {
    let device = device();
    let memory = device.upload(&[1, 2, 3, 4]).unwrap();
    // SAFETY: the memory outlives the buffers.
    let at = |offset, bytes| unsafe { Buffer::from_raw(&device, memory.addr() + offset, bytes) };
    let middle = at(1, 2).unwrap();
    assert_eq!(middle.to_vec().unwrap(), [2, 3]);
    drop(middle);
    assert_eq!(
        memory.to_vec().unwrap(),
        [1, 2, 3, 4],
        "not freed with a buffer that does not own it"
    );
    let said = at(1, 4).err().expect("must be refused").to_string();
    assert!(said.starts_with("the SM model's global memory: ") && !said.contains('\n'), "{said}");
    assert!(at(1 << 40, 1).is_err());
    assert!(at(1 << 40, 0).unwrap().is_empty());
}

#[test]
fn raw_handles_are_a_gpu_s() {
    let device = device();
    let null = std::ptr::null_mut();
    assert!(device.raw_context().is_null() && device.stream().raw().is_null());
    let event = device.stream().record().unwrap();
    assert!(event.raw().is_null());
    device.stream().wait(&event).unwrap();
    event.synchronize().unwrap();
    // SAFETY: null is a stream, and no event is made of it.
    let (stream, event) =
        unsafe { (host::Stream::from_raw(&device, null), host::Event::from_raw(&device, null)) };
    assert!(matches!(stream, Err(Error::NotOnModel { .. })));
    assert!(matches!(event, Err(Error::NotOnModel { .. })));
    let foreign = self::device().stream().record().unwrap();
    let said = device.stream().wait(&foreign).unwrap_err().to_string();
    assert!(said.starts_with("an event belongs to SM model"), "{said}");
}

#[test]
fn a_stream_of_another_device_is_refused_before_anything_is_copied() {
    let device = device();
    let a = Placed::new(&device, 1, [64, 64], at(2, 128));
    let mut d = Placed::new(&device, 2, [64, 64], at(2, 128));
    let plan = plan(&device, [64, 64, 64], false);
    let bound = plan.bind(a.view(), a.view(), None, d.view_mut()).unwrap();
    let said = bound.run(1.0, 0.0, &self::device().stream()).unwrap_err().to_string();
    assert!(said.starts_with("the stream of a GEMM belongs to SM model"), "{said}");
    drop(bound);
    assert_eq!(d.now(), d.values);
}

#[test]
fn bound_products_can_be_sent_and_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<BoundGemm<'_>>();
    shared::<View<'_>>();
    shared::<ViewMut<'_>>();
}
