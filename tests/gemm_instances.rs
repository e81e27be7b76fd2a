//! Every instance of the GEMM, with whole tiles and with shared ones, on the SM model under several
//! schedules, and on a GPU.
//!
//! The shapes reach residues in M, N and K, cluster tiles that hang over the edge, K of one stage and
//! more stages than a ring has, more (small) tiles than one round, K shared by two CTAs and by more, a
//! last round that is shared, and a C that must be read or must not.

#[path = "common/on_devices.rs"]
mod on_devices;

use on_devices::on_devices;
use warpipe::GEMM_IMAGE;
use warpipe::host::gemm::{Gemm, GemmProblem};
use warpipe::host::reference::Product;
use warpipe::host::{Device, Dtype, data};

const SHAPES: [(u64, u64, u64); 4] = [(8, 8, 8), (136, 264, 72), (200, 328, 648), (72, 8720, 8)];

/// Half a unit in the last place of the result, doubled; f32 shows the sums' own rounding.
fn bound(out: Dtype) -> f64 {
    match out {
        Dtype::Bf16 => 4e-3,
        Dtype::F16 => 5e-4,
        _ => 2e-6,
    }
}

fn multiplies(device: &Device, what: &str, (m, n, k): (u64, u64, u64)) {
    let gemm = Gemm::new(device, &GEMM_IMAGE).unwrap_or_else(|e| panic!("{what}: {e}"));
    for (index, instance) in gemm.instances().iter().enumerate() {
        let name = instance.desc.meta.name();
        // The other types differ from bf16 in their conversions: one shape has everything for them.
        let bf16 = (instance.ab, instance.out) == (Dtype::Bf16, Dtype::Bf16);
        if !bf16 && (m, n, k) != SHAPES[2] {
            continue;
        }
        let problem =
            GemmProblem { m, n, k, ab: instance.ab, out: instance.out, beta_c: instance.has_c };
        let values = |seed, count: u64, dtype| {
            let values = data::normal(seed, count as usize);
            (data::encode(&values, dtype).unwrap(), data::rounded(&values, dtype).unwrap())
        };
        let (a_bytes, a) = values(1, m * k, instance.ab);
        let (b_bytes, b) = values(2, n * k, instance.ab);
        let (c_bytes, c) = values(3, m * n, instance.out);
        let (alpha, beta) = if instance.has_c { (0.5, -2.0) } else { (1.5, 0.0) };
        let upload = |bytes| device.upload(bytes).unwrap();
        let (a_dev, b_dev) = (upload(&a_bytes), upload(&b_bytes));
        let c_dev = instance.has_c.then(|| upload(&c_bytes));
        let sizes = (m as usize, n as usize, k as usize);
        let product =
            Product { m: sizes.0, n: sizes.1, k: sizes.2, a: &a, b: &b, c: Some(&c), alpha, beta };
        // Whole tiles, and the tiles shared by the most clusters.
        let all = gemm.schedules(&problem, index).unwrap();
        let schedules = [all[0].1, all[all.len() - 1].1];
        for schedule in &schedules[..all.len().min(2)] {
            let schedule = *schedule;
            let case = format!("{what}: {name}, {m} x {n} x {k}, {schedule:?}");
            let mut d = device.alloc(problem.bytes('D') as usize).unwrap();
            let plan = gemm.plan_scheduled(&problem, index, schedule).unwrap();
            // Twice: what the first launch leaves behind must not matter to the second.
            let mut results = (0..2).map(|_| {
                d.fill(0xff).unwrap();
                plan.run(&a_dev, &b_dev, c_dev.as_ref(), &mut d, alpha, beta)
                    .unwrap_or_else(|e| panic!("{case}:\n{e}"));
                d.to_vec().unwrap()
            });
            let (first, second) = (results.next().unwrap(), results.next().unwrap());
            assert!(first == second, "{case}: two runs differ");
            let check = product.check(&data::decode(&first, instance.out).unwrap()).unwrap();
            assert!(check.below(bound(instance.out)), "{case}: {check}");
        }
    }
}

#[test]
fn every_instance_multiplies_every_shape() {
    on_devices(&GEMM_IMAGE, "every_instance_multiplies_every_shape", 1, |bench| {
        for shape in SHAPES {
            multiplies(&bench.device, bench.what(), shape);
        }
    });
}
