//! Every instance of the GEMM, with whole tiles and with shared ones, on the SM model and on a GPU.
//!
//! The shapes reach residues in M, N and K, cluster tiles that hang over the edge, K of one stage and
//! more stages than the instance's ring has, K shared by two CTAs and by more, more tiles than one
//! round, a last round that is shared, and a C that must be read or must not.

use crate::on_devices::on_devices;
use warpipe::GEMM_IMAGE;
use warpipe::gpu_kernels::gemm::{INSTANCES, Instance, KernelSchedule};
use warpipe::host::gemm::{Gemm, GemmProblem, Schedule};
use warpipe::host::reference::Product;
use warpipe::host::{Device, Dtype, SimConfig, View, data};
use warpipe::pipeline::grid::Throttle;

/// M, N and K.
type Size = (u64, u64, u64);

/// One tile that is mostly outside.
const SMALL: Size = (8, 8, 8);
/// What a GPU has time for: tiles in both directions with few stages, many tiles with K of many parts, and more (small) tiles
/// than SMs. On the model, `beyond_the_ring` has tiles in both directions, and every_instance_goes_round few stages.
const LARGE: [Size; 3] = [(136, 264, 72), (200, 328, 648), (72, 8720, 8)];

/// K tiles of an epoch of the throttle.
const EPOCH: u32 = 2;

/// Half a unit in the last place of the result, doubled; f32 shows the sums' own rounding.
fn bound(out: Dtype) -> f64 {
    match out {
        Dtype::Bf16 => 4e-3,
        Dtype::F16 => 5e-4,
        _ => 2e-6,
    }
}

/// Rows and columns of a cluster tile.
fn cluster_tile(i: &Instance) -> (u64, u64) {
    (u64::from(i.bm * i.cluster_m), u64::from(i.bn * i.cluster_n))
}

/// The size of a product whose kernel sees `m` rows and `n` columns.
fn size_of(instance: &Instance, m: u64, n: u64, k: u64) -> Size {
    if instance.swap_ab { (n, m, k) } else { (m, n, k) }
}

/// Whole tiles of the cluster that has most of them.
fn rounds(instance: &Instance, (m, n, _): Size, schedule: Schedule) -> u32 {
    let (m, n) = if instance.swap_ab { (n, m) } else { (m, n) };
    let (rows, cols) = cluster_tile(instance);
    let whole = (m.div_ceil(rows) * n.div_ceil(cols)) as u32 - schedule.streamed;
    whole.div_ceil(schedule.clusters)
}

/// A few tiles, the last ones hanging over, of two stages more than the ring has; the last stage is a
/// part of one.
fn beyond_the_ring(instance: &Instance) -> Size {
    let (rows, cols) = cluster_tile(instance);
    let k = u64::from(instance.bk * (instance.stages + 1)) + 8;
    size_of(instance, (rows + 8).min(200), (cols + 72).min(328), k)
}

/// One tile of seven stages, with residues. The other types differ from bf16 in their wgmma and their conversions alone. On the
/// model that is enough for them, and takes a quarter of the time.
fn one_tile(instance: &Instance) -> Size {
    let (rows, cols) = cluster_tile(instance);
    size_of(instance, rows.min(72), cols - 8, u64::from(6 * instance.bk) + 8)
}

fn is_bf16(instance: &Instance) -> bool {
    (instance.ab, instance.out) == (Dtype::Bf16, Dtype::Bf16)
}

/// Multiplies with row `index` of the table: whole tiles, and the tiles shared by the most clusters, if
/// that can be, in pace; gives the schedules.
fn multiplies(gemm: &Gemm, device: &Device, what: &str, index: usize, size: Size) -> Vec<Schedule> {
    let (m, n, k) = size;
    let instance = &gemm.instances()[index];
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
    let all = gemm.schedules(&problem, index).unwrap();
    let mut schedules = vec![all[0].1];
    schedules.extend(all[1..].last().map(|(_, shared)| *shared));
    for &schedule in &schedules {
        let name = instance.desc.meta.name();
        let case = format!("{what}: {name}, {m} x {n} x {k}, {schedule:?}");
        let mut d = device.alloc(problem.bytes('D') as usize).unwrap();
        let plan = gemm.plan_scheduled(&problem, index, schedule).unwrap();
        let plan = plan.throttle(EPOCH).unwrap();
        let mut runs = 0;
        let mut run = || {
            runs += 1;
            d.fill(0xff).unwrap();
            plan.run(&a_dev, &b_dev, c_dev.as_ref().map(View::from), &mut d, alpha, beta)
                .unwrap_or_else(|e| panic!("{case}:\n{e}"));
            d.to_vec().unwrap()
        };
        let first = run();
        // What a launch leaves behind, flags and sums, must not matter to the next. Whole tiles
        // leave nothing, and the model runs the same launch in the same way.
        if schedule.streamed > 0 || !device.is_sim() {
            assert!(first == run(), "{case}: two runs differ");
        }
        let steps = rounds(instance, size, schedule) * k.div_ceil(u64::from(instance.bk)) as u32;
        let of_a_run = Throttle::epochs(steps, EPOCH);
        assert_eq!(plan.epochs().unwrap(), runs * of_a_run, "{case}: CTAs keep together");
        let check = product.check(&data::decode(&first, instance.out).unwrap()).unwrap();
        assert!(check.below(bound(instance.out)), "{case}: {check}");
    }
    schedules
}

#[test]
fn every_instance_for_bf16_multiplies() {
    every_instance_multiplies("every_instance_for_bf16_multiplies", is_bf16);
}

#[test]
fn every_instance_for_other_types_multiplies() {
    every_instance_multiplies("every_instance_for_other_types_multiplies", |i| !is_bf16(i));
}

fn every_instance_multiplies(test: &str, of: fn(&Instance) -> bool) {
    on_devices(&GEMM_IMAGE, test, 1, |bench| {
        let gemm = Gemm::new(&bench.device, &GEMM_IMAGE).unwrap();
        for (index, instance) in gemm.instances().iter().enumerate().filter(|(_, i)| of(i)) {
            let multiplies = |size| multiplies(&gemm, &bench.device, bench.what(), index, size);
            let sim = bench.device.is_sim();
            let size = if sim && !is_bf16(instance) {
                one_tile(instance)
            } else {
                beyond_the_ring(instance)
            };
            let schedules = multiplies(size);
            assert_eq!(
                schedules.iter().any(|s| s.streamed > 0),
                instance.splits_k,
                "{} shares tiles if it can: {schedules:?}",
                instance.desc.meta.name()
            );
            let small = is_bf16(instance).then_some(SMALL);
            let large = (!sim).then_some(LARGE);
            for size in small.into_iter().chain(large.into_iter().flatten()) {
                multiplies(size);
            }
        }
    });
}

/// On a machine that holds two clusters, three tiles: two rounds, or one round and a tile that both
/// clusters share. Where warp groups take turns, both have one.
#[test]
fn every_instance_goes_round() {
    for (index, instance) in INSTANCES.iter().enumerate().filter(|(_, i)| is_bf16(i)) {
        let sms = 2 * instance.cluster_m * instance.cluster_n;
        let device = Device::sim(SimConfig { sms, ..SimConfig::default() });
        let gemm = Gemm::new(&device, &GEMM_IMAGE).unwrap();
        let (_, cols) = cluster_tile(instance);
        let size = size_of(instance, 40, 3 * cols - 8, 72);
        let schedules = multiplies(&gemm, &device, "every_instance_goes_round", index, size);
        let of = |streamed| Schedule { clusters: 2, streamed };
        let expected = if instance.splits_k { vec![of(0), of(1)] } else { vec![of(0)] };
        assert_eq!(schedules, expected, "{}", instance.desc.meta.name());
    }
}

/// Six tiles of one k tile for one CTA: a warp group is done with a tile's products before the other group has the C of
/// the tile before.
#[test]
fn warp_groups_in_turn_read_c_in_turn() {
    let in_turn = |i: &Instance| i.has_c && i.kernel_schedule == KernelSchedule::Pingpong;
    for (index, instance) in INSTANCES.iter().enumerate().filter(|(_, i)| in_turn(i)) {
        let (_, cols) = cluster_tile(instance);
        let size = size_of(instance, 40, 6 * cols - 8, 64);
        for seed in 0..20 {
            let sms = instance.cluster_m * instance.cluster_n;
            let device = Device::sim(SimConfig { sms, seed, ..SimConfig::default() });
            let gemm = Gemm::new(&device, &GEMM_IMAGE).unwrap();
            multiplies(&gemm, &device, "warp_groups_in_turn_read_c_in_turn", index, size);
        }
    }
}

/// A plan with C has a second kernel for beta = 0, of another tile and grid. Each has flags and sums of its own.
#[test]
fn the_kernels_with_and_without_c_share_tiles_in_turn() {
    on_devices(&GEMM_IMAGE, "the_kernels_with_and_without_c_share_tiles_in_turn", 1, |bench| {
        let device = &bench.device;
        let gemm = Gemm::new(device, &GEMM_IMAGE).unwrap();
        let (m, n, k) = (128, 512, 4096);
        let bf16 = Dtype::Bf16;
        let problem = GemmProblem { m, n, k, ab: bf16, out: bf16, beta_c: true };
        let plan = gemm.plan(&problem).unwrap();
        for with in [
            plan.describe(),
            gemm.plan(&GemmProblem { beta_c: false, ..problem }).unwrap().describe(),
        ] {
            let kernel = with.kernel.as_ref().unwrap();
            assert!(kernel.streamed > 0, "{}: both kernels are to share tiles", kernel.name);
        }
        let values = |seed, count: u64| {
            let values = data::normal(seed, count as usize);
            let bytes = data::encode(&values, bf16).unwrap();
            (device.upload(&bytes).unwrap(), data::rounded(&values, bf16).unwrap())
        };
        let ((a_dev, a), (b_dev, b), (c_dev, c)) =
            (values(1, m * k), values(2, n * k), values(3, m * n));
        let mut d = device.alloc(problem.bytes('D') as usize).unwrap();
        for beta in [-2.0, 0.0, -2.0, 0.0] {
            plan.run(&a_dev, &b_dev, Some((&c_dev).into()), &mut d, 1.0, beta).unwrap();
            let (m, n, k) = (m as usize, n as usize, k as usize);
            let product = Product { m, n, k, a: &a, b: &b, c: Some(&c), alpha: 1.0, beta };
            let d = data::decode(&d.to_vec().unwrap(), bf16).unwrap();
            let check = product.check(&d).unwrap();
            assert!(check.below(bound(bf16)), "{}, beta {beta}: {check}", bench.what());
        }
    });
}
