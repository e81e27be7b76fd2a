//! Batches of products in any layout, compared to the bit.
//!
//! Shared, by path, by the programs of several crates.
#![allow(dead_code)]

use gpu_kernels::gemm::Instance;
use host::data::{decode, encode, rounded};
use host::gemm::{
    Layout, Major, Order, Schedule, Strided, StridedGemm, StridedMut, StridedProblem,
};
use host::{Buffer, Device, View, ViewMut};

/// Small whole numbers, whose products and sums are exact.
pub fn value(operand: u64, matrix: u64, row: u64, column: u64) -> f32 {
    let mixed = (operand * 7 + matrix * 131 + row * 31 + column * 17).wrapping_mul(2_654_435_761);
    ((mixed >> 7) % 9) as f32 - 4.0
}

/// How the matrices of an operand lie in its buffer.
#[derive(Clone, Copy)]
pub struct Place {
    /// Elements from line to line, beyond the line itself.
    gap: u64,
    /// Elements behind each matrix.
    behind: u64,
    /// Whether all products have the same matrix.
    broadcast: bool,
    /// Elements before the first one.
    first: u64,
    /// Elements to which a line is padded: 8 are the 16 bytes that TMA needs.
    unit: u64,
}

pub const PACKED: Place = Place { gap: 0, behind: 0, broadcast: false, first: 0, unit: 8 };

/// What TMA does not take: neither the first element, nor the lines, nor the matrices begin at multiples of 16 bytes.
pub const ODD: Place = Place { gap: 1, behind: 5, broadcast: false, first: 3, unit: 1 };

/// The factors of [`reference`] and [`right`].
const ALPHA: f32 = 0.5;
const BETA: f32 = -2.0;

impl Place {
    /// Elements from line to line.
    fn pitch(&self, elements: u64) -> u64 {
        elements.next_multiple_of(self.unit) + self.gap
    }
    fn stride(&self, [lines, elements]: [u64; 2]) -> u64 {
        if self.broadcast { 0 } else { lines * self.pitch(elements) + self.behind }
    }
    fn index(&self, shape: [u64; 2], matrix: u64, line: u64, element: u64) -> usize {
        (self.first + matrix * self.stride(shape) + line * self.pitch(shape[1]) + element) as usize
    }
    fn len(&self, shape: [u64; 2], batch: u64) -> usize {
        if shape.contains(&0) {
            return self.first as usize;
        }
        self.index(shape, batch - 1, shape[0] - 1, shape[1] - 1) + 1 + self.behind as usize
    }
}

/// Whether the lines of an operand are its columns.
fn turned(problem: &StridedProblem, operand: char) -> bool {
    match operand {
        'A' => problem.layout.a == Major::Mn,
        'B' => problem.layout.b == Major::Mn,
        _ => problem.order == Order::ColumnMajor,
    }
}

/// Uploads an operand. What is not part of it is NaN.
fn upload(device: &Device, problem: &StridedProblem, operand: char, place: Place) -> Buffer {
    let (shape, turned) = (problem.lines(operand), turned(problem, operand));
    let mut values = vec![f32::NAN; place.len(shape, problem.batch)];
    for matrix in 0..if place.broadcast { 1 } else { problem.batch } {
        for line in 0..shape[0] {
            for element in 0..shape[1] {
                let (row, column) = if turned { (element, line) } else { (line, element) };
                values[place.index(shape, matrix, line, element)] =
                    value(u64::from(operand as u32 - u32::from(b'A')), matrix, row, column);
            }
        }
    }
    device.upload(&encode(&values, problem.dtype).unwrap()).unwrap()
}

/// The product as f32, one matrix after another and row by row, rounded to the result's type.
pub fn reference(problem: &StridedProblem, broadcast: [bool; 2]) -> Vec<f32> {
    let StridedProblem { batch, m, n, k, beta_c, .. } = *problem;
    let mut d = Vec::new();
    for matrix in 0..batch {
        let of = |operand: usize| if broadcast[operand] { 0 } else { matrix };
        let line = |operand: usize, row| -> Vec<f32> {
            (0..k).map(|x| value(operand as u64, of(operand), row, x)).collect()
        };
        let b: Vec<Vec<f32>> = (0..n).map(|row| line(1, row)).collect();
        for row in 0..m {
            let a = line(0, row);
            d.extend(b.iter().enumerate().map(|(column, b)| {
                let c = if beta_c { value(2, matrix, row, column as u64) } else { 0.0 };
                // The sum of nothing would be -0.
                ALPHA * a.iter().zip(b).fold(0.0, |sum, (x, y)| sum + x * y) + BETA * c
            }));
        }
    }
    rounded(&d, problem.dtype).unwrap()
}

/// Runs a plan with operands in these places, and compares each element of D and all that is around it. C lies as D does.
pub fn right(
    (device, gemm): &(Device, StridedGemm),
    problem: &StridedProblem,
    asked: Option<(usize, Option<Schedule>)>,
    places: [Place; 3],
    want: &[f32],
) {
    let plan = match asked {
        Some((index, schedule)) => gemm.plan_with(problem, index, schedule).unwrap(),
        None => gemm.plan(problem).unwrap(),
    };
    let what = plan.describe().to_string();
    let size = problem.dtype.size() as u64;
    let [a, b] = [('A', places[0]), ('B', places[1])].map(|(o, at)| upload(device, problem, o, at));
    let (shape, place) = (problem.lines('D'), places[2]);
    let mut d = device.alloc(place.len(shape, problem.batch) * size as usize).unwrap();
    d.fill(0xff).unwrap();
    let strided = |buffer: &Buffer, operand, at: Place| {
        let shape = problem.lines(operand);
        let view = View::new(buffer).offset(at.first * size).pitch(at.pitch(shape[1]) * size);
        Strided::from(view).batch_stride(at.stride(shape) * size)
    };
    let (va, vb) = (strided(&a, 'A', places[0]), strided(&b, 'B', places[1]));
    let c = problem.beta_c.then(|| upload(device, problem, 'C', place));
    let vc = c.as_ref().map(|c| strided(c, 'C', place));
    let vd = ViewMut::new(&mut d).offset(place.first * size).pitch(place.pitch(shape[1]) * size);
    let vd = StridedMut::from(vd).batch_stride(place.stride(shape) * size);
    plan.run(va, vb, vc, vd, ALPHA, BETA).unwrap_or_else(|error| panic!("{what}{error}"));

    let have = decode(&d.to_vec().unwrap(), problem.dtype).unwrap();
    let mut around = vec![true; have.len()];
    let turned = turned(problem, 'D');
    for matrix in 0..problem.batch {
        for row in 0..problem.m {
            for column in 0..problem.n {
                let (line, element) = if turned { (column, row) } else { (row, column) };
                let at = place.index(shape, matrix, line, element);
                let want = want[((matrix * problem.m + row) * problem.n + column) as usize];
                assert_eq!(have[at].to_bits(), want.to_bits(), "{what}{matrix} {row} {column}");
                around[at] = false;
            }
        }
    }
    let mut around = have.iter().zip(around).filter(|(_, around)| *around);
    assert!(around.all(|(x, _)| x.is_nan()), "{what}only D is written");
}

fn layout(instance: &Instance) -> Layout {
    let major = |mn| if mn { Major::Mn } else { Major::K };
    Layout { a: major(instance.a_mn_major), b: major(instance.b_mn_major) }
}

pub fn problem(instance: &Instance, batch: u64, [m, n, k]: [u64; 3]) -> StridedProblem {
    let (dtype, layout, beta_c) = (instance.ab, layout(instance), instance.has_c);
    StridedProblem { batch, m, n, k, dtype, layout, order: Order::RowMajor, beta_c }
}

/// A cluster tile and a part of one in each dimension, and k tiles with a part of one.
fn residues(instance: &Instance) -> [u64; 3] {
    let [m, n, k] = [
        instance.bm * instance.cluster_m + 43,
        instance.bn * instance.cluster_n + 24,
        instance.bk * 2 + 13,
    ];
    [m.into(), n.into(), k.into()]
}

pub const PADDED: Place = Place { gap: 8, behind: 24, broadcast: false, first: 16, unit: 8 };

/// Each kernel: batches with padded lines, then a broadcast operand each, a product alone, operands that are copied, and an
/// empty K.
pub fn every_kernel(device: &(Device, StridedGemm)) {
    for (index, instance) in device.1.instances().iter().enumerate() {
        let problem = problem(instance, 3, residues(instance));
        let want = reference(&problem, [false; 2]);
        right(device, &problem, Some((index, None)), [PADDED; 3], &want);

        let shared = Place { broadcast: true, ..PADDED };
        let batch = StridedProblem { batch: 2, m: 72, n: 136, k: 72, ..problem };
        for broadcast in [[true, false], [false, true]] {
            let places = broadcast.map(|yes| if yes { shared } else { PADDED });
            let want = reference(&batch, broadcast);
            right(device, &batch, Some((index, None)), [places[0], places[1], PACKED], &want);
        }
        let alone = StridedProblem { batch: 1, ..batch };
        let want = reference(&alone, [false; 2]);
        right(device, &alone, Some((index, None)), [PACKED; 3], &want);

        let odd = StridedProblem { batch: 2, m: 71, n: 43, k: 37, ..problem };
        let want = reference(&odd, [false; 2]);
        right(device, &odd, Some((index, None)), [ODD; 3], &want);
        let nothing = StridedProblem { k: 0, ..odd };
        right(device, &nothing, Some((index, None)), [ODD; 3], &reference(&nothing, [false; 2]));
    }
}
