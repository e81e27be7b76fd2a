//! Every instance of the grouped GEMM, and of pointer arrays, on the SM model and on a GPU, compared with f64 group by group.
//!
//! The groups are uneven: empty ones first, last and in between, one row, ends inside of tiles; and N and K have residues.
//! host/tests/integration/grouped.rs and
//! gemm_array.rs compare bit by bit, on the model alone.

use crate::on_devices::on_devices;
use warpipe::GEMM_IMAGE;
use warpipe::gpu_kernels::gemm::Instance;
use warpipe::host::gemm::{ArrayProblem, Gemm, GroupedGemm, GroupedProblem, GroupedRows};
use warpipe::host::reference::Product;
use warpipe::host::{Device, Dtype, data};

/// Twice the error of rounding to bf16.
const BOUND: f64 = 4e-3;

/// Rows and columns of D in a cluster tile.
fn tile(i: &Instance) -> [u64; 2] {
    let [m, n] = [i.bm * i.cluster_m, i.bn * i.cluster_n].map(u64::from);
    if i.swap_ab { [n, m] } else { [m, n] }
}

/// Multiplies groups of these sizes with row `index` of the table, and compares each.
fn multiplies(
    gemm: &GroupedGemm,
    device: &Device,
    what: &str,
    index: usize,
    (sizes, n, k): (&[u64], u64, u64),
) {
    let total = sizes.iter().sum();
    let (groups, rows) = (sizes.len() as u64, GroupedRows::Contiguous { total });
    let problem = GroupedProblem { groups, rows, n, k, dtype: Dtype::Bf16 };
    let name = gemm.instances()[index].desc.meta.name();
    let case = format!("{what}: {name}, {problem:?}, groups of {sizes:?} rows");
    let values = |seed, count: u64| {
        let values = data::normal(seed, count as usize);
        let bytes = data::encode(&values, Dtype::Bf16).unwrap();
        (device.upload(&bytes).unwrap(), data::rounded(&values, Dtype::Bf16).unwrap())
    };
    let ((a_dev, a), (b_dev, b)) = (values(1, total * k), values(2, groups * n * k));
    let ends = sizes.iter().scan(0, |end, size| {
        *end += *size as i32;
        Some(end.to_ne_bytes())
    });
    let ends = device.upload(&ends.flatten().collect::<Vec<u8>>()).unwrap();
    let mut d = device.alloc(problem.bytes('D') as usize).unwrap();
    d.fill(0xff).unwrap();
    let plan = gemm.plan_with(&problem, index).unwrap();
    plan.run(&a_dev, &b_dev, &ends, &mut d, 0.5).unwrap_or_else(|e| panic!("{case}:\n{e}"));
    let d = data::decode(&d.to_vec().unwrap(), Dtype::Bf16).unwrap();
    assert_eq!(plan.bad_group().unwrap(), None, "{case}");
    let (n, k) = (n as usize, k as usize);
    let mut first = 0;
    for (group, &m) in sizes.iter().enumerate().filter(|(_, m)| **m > 0) {
        let m = m as usize;
        let (a, b) = (&a[first * k..][..m * k], &b[group * n * k..][..n * k]);
        let product = Product { m, n, k, a, b, c: None, alpha: 0.5, beta: 0.0 };
        let check = product.check(&d[first * n..][..m * n]).unwrap();
        assert!(check.below(BOUND), "{case}, group {group}: {check}");
        first += m;
    }
}

#[test]
fn every_grouped_instance_multiplies() {
    on_devices(&GEMM_IMAGE, "every_grouped_instance_multiplies", 1, |bench| {
        let gemm = Gemm::grouped(&bench.device, &GEMM_IMAGE).unwrap();
        for (index, instance) in gemm.instances().iter().enumerate() {
            let [rows, columns] = tile(instance);
            let k = u64::from(instance.bk * (instance.stages + 1)) + 8;
            let multiplies = |sizes: &[u64], n, k| {
                multiplies(&gemm, &bench.device, bench.what(), index, (sizes, n, k));
            };
            multiplies(&[0, 1, 0, rows + 3, 5, 0], columns + 8, 72);
            multiplies(&[3, rows - 1], columns - 8, k);
            if !bench.device.is_sim() {
                // More tiles than SMs, and more groups than a line of the L1 cache has ends.
                let sizes: Vec<u64> = (0..100).map(|group| group * 37 % 61).collect();
                multiplies(&sizes, 5 * columns + 8, 328);
            }
        }
    });
}

/// Problems of these sizes with row `index` of the table of pointer arrays. Rows have gaps, and each problem is compared.
fn multiplies_array(device: &Device, what: &str, index: usize, sizes: &[[u64; 3]]) {
    let gemm = Gemm::grouped_array(device, &GEMM_IMAGE).unwrap();
    let plan = gemm.plan_with(sizes.len() as u64, index).unwrap();
    let mut next = [0; 3];
    let mut problems = Vec::new();
    for &size in sizes {
        let mut problem = ArrayProblem::packed(size, next);
        problem.pitch = problem.pitch.map(|pitch| pitch + 8);
        for (next, elements) in next.iter_mut().zip(problem.elements()) {
            *next += elements;
        }
        problems.push(problem);
    }
    let case = format!("{what}: {}, {sizes:?}", plan.kernel());
    let values = |seed, count: u64| {
        let values = data::normal(seed, count as usize);
        let bytes = data::encode(&values, Dtype::Bf16).unwrap();
        (device.upload(&bytes).unwrap(), data::rounded(&values, Dtype::Bf16).unwrap())
    };
    let ((a_dev, a), (b_dev, b)) = (values(1, next[0]), values(2, next[1]));
    let table = device.upload(&ArrayProblem::table(&problems)).unwrap();
    let mut d = device.alloc(2 * next[2] as usize).unwrap();
    // On the device's stream, on another one, and captured, which the model is not.
    let stream = device.new_stream().unwrap();
    for turn in 0..if device.is_sim() { 2 } else { 3 } {
        d.fill(0xff).unwrap();
        let bound = plan.bind(&a_dev, &b_dev, &table, &mut d).unwrap();
        let done = match turn {
            0 => bound.run(0.5, &device.stream()),
            1 => bound.run(0.5, &stream),
            _ => stream.capture(|| bound.run(0.5, &stream)).and_then(|graph| graph.launch()),
        };
        done.unwrap_or_else(|e| panic!("{case}:\n{e}"));
        let d = data::decode(&d.to_vec().unwrap(), Dtype::Bf16).unwrap();
        assert_eq!(plan.bad_problem().unwrap(), None, "{case}");
        for (i, &ArrayProblem { m, n, k, first, pitch }) in problems.iter().enumerate() {
            let [m, n, k] = [m, n, k].map(|size| size as usize);
            let part = |all: &[f32], operand: usize, rows: usize, cols: usize| {
                let (first, pitch) = (first[operand] as usize, pitch[operand] as usize);
                let row = |row: usize| all[first + row * pitch..][..cols].to_vec();
                (0..rows).flat_map(row).collect::<Vec<f32>>()
            };
            if m * n > 0 {
                let (a, b) = (part(&a, 0, m, k), part(&b, 1, n, k));
                let product = Product { m, n, k, a: &a, b: &b, c: None, alpha: 0.5, beta: 0.0 };
                let check = product.check(&part(&d, 2, m, n)).unwrap();
                assert!(check.below(BOUND), "{case}, problem {i}, turn {turn}: {check}");
            }
        }
    }
}

#[test]
fn every_array_instance_multiplies() {
    on_devices(&GEMM_IMAGE, "every_array_instance_multiplies", 1, |bench| {
        let gemm = Gemm::grouped_array(&bench.device, &GEMM_IMAGE).unwrap();
        for (index, instance) in gemm.instances().iter().enumerate() {
            let [rows, columns] = tile(&instance.gemm);
            let deep = u64::from(instance.gemm.bk * (instance.gemm.stages + 1)) + 7;
            let sizes = [
                [0, 8, 8],
                [rows + 3, columns + 8, 70],
                [1, 8, deep],
                [0, 0, 0],
                [rows - 1, 24, 5],
            ];
            multiplies_array(&bench.device, bench.what(), index, &sizes);
            if !bench.device.is_sim() {
                // More problems than a CTA writes maps of, and more tiles than SMs.
                let sizes: Vec<_> =
                    (0..700).map(|i| [i * 37 % 301, 8 * (i % 41), 1 + i * 13 % 500]).collect();
                multiplies_array(&bench.device, bench.what(), index, &sizes);
            }
        }
    });
}
