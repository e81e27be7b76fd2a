//! Products with block scales on the SM model: every kernel, with residues in each dimension and tiles that begin inside a
//! block of B, exact sums, split tiles, and the errors.

use gpu_kernels::gemm::{BLOCK_SCALED_INSTANCES, Instance, Linear};
use host::data::{decode, encode, normal, rounded};
use host::gemm::{BlockScales, Gemm, GemmPlan, GemmProblem, Schedule};
use host::reference::Product;
use host::{Buffer, Device, Dtype, Error, SimConfig};
use isa::kernel::{Image, KernelMeta};
use std::sync::LazyLock;

/// What the model needs of an image: the facts of its kernels.
fn image(rows: &[Instance]) -> &'static Image {
    let kernels: Vec<KernelMeta> = rows.iter().map(|instance| instance.desc.meta).collect();
    let (name, arch) = ("block scaled", "sm_90a");
    Box::leak(Box::new(Image {
        name,
        arch,
        code: &[],
        kernels: kernels.leak(),
        ptxas: None,
        others: &[],
    }))
}
static IMAGE: LazyLock<&'static Image> = LazyLock::new(|| image(&BLOCK_SCALED_INSTANCES));

fn gemm(seed: u64) -> (Device, Gemm) {
    gemm_on(4, seed)
}

fn gemm_on(sms: u32, seed: u64) -> (Device, Gemm) {
    let device = Device::sim(SimConfig { sms, seed, ..SimConfig::default() });
    let gemm = Gemm::block_scaled(&device, &IMAGE).unwrap();
    (device, gemm)
}

fn problem(instance: &Instance, [m, n, k]: [usize; 3]) -> GemmProblem {
    let [m, n, k] = [m, n, k].map(|x| x as u64);
    GemmProblem { m, n, k, ab: instance.ab, out: instance.out, beta_c: false }
}

/// Values of A and B, and their scales: [K/128, M] with a pitch, and [N/128, K/128] with a pitch.
struct Case {
    size: [usize; 3],
    a: Vec<f32>,
    b: Vec<f32>,
    sfa: (Vec<f32>, usize),
    sfb: (Vec<f32>, usize),
}

impl Case {
    /// What lies between the rows of the scales is NaN: the result shows whether a kernel uses it.
    fn new(
        size @ [m, n, k]: [usize; 3],
        value: impl Fn(u64, usize) -> Vec<f32>,
        scale: impl Fn(u64, usize) -> Vec<f32>,
    ) -> Self {
        let scales = |seed, rows: usize, columns: usize, pitch: usize| {
            let values = scale(seed, rows * columns);
            let mut all = vec![f32::NAN; rows * pitch];
            for (row, values) in values.chunks(columns).enumerate() {
                all[row * pitch..][..columns].copy_from_slice(values);
            }
            (all, pitch)
        };
        let (blocks_n, blocks_k) = (n.div_ceil(128), k.div_ceil(128));
        Self {
            size,
            a: value(1, m * k),
            b: value(2, n * k),
            sfa: scales(3, blocks_k, m, m.next_multiple_of(4) + 4),
            sfb: scales(4, blocks_n, blocks_k, blocks_k + 1),
        }
    }

    /// Small integers with scales that are powers of two: all sums are exact.
    fn exact(size: [usize; 3], seed: u64) -> Self {
        let whole = |which, count| {
            normal(8 * seed + which, count).iter().map(|x| x.round().clamp(-2.0, 2.0)).collect()
        };
        let powers = |which, count| {
            normal(8 * seed + which, count)
                .iter()
                .map(|x| x.round().clamp(-2.0, 2.0).exp2())
                .collect()
        };
        Self::new(size, whole, powers)
    }

    /// The scaled values of A and B, as f32: with a power of two they are exact.
    fn scaled(&self, dtype: Dtype) -> [Vec<f32>; 2] {
        let [_, _, k] = self.size;
        let (a, b) = (rounded(&self.a, dtype).unwrap(), rounded(&self.b, dtype).unwrap());
        let ((sfa, a_pitch), (sfb, b_pitch)) = (&self.sfa, &self.sfb);
        let at = |i: usize| (i / k, i % k / 128);
        let of_a = |(i, x): (usize, &f32)| {
            let (row, block) = at(i);
            x * sfa[block * a_pitch + row]
        };
        let of_b = |(i, x): (usize, &f32)| {
            let (row, block) = at(i);
            x * sfb[row / 128 * b_pitch + block]
        };
        [a.iter().enumerate().map(of_a).collect(), b.iter().enumerate().map(of_b).collect()]
    }

    fn product<'c>(&self, [a, b]: &'c [Vec<f32>; 2], alpha: f32) -> Product<'c> {
        let [m, n, k] = self.size;
        Product { m, n, k, a, b, c: None, alpha, beta: 0.0 }
    }

    /// The first element of D that is not the exact product, rounded: row, column, what it is and what is right.
    fn first_difference(
        &self,
        instance: &Instance,
        alpha: f32,
        d: &[f32],
    ) -> Option<(usize, usize, f32, f32)> {
        let want = self.product(&self.scaled(instance.ab), alpha).compute().unwrap();
        let want: Vec<f32> = want.iter().map(|x| *x as f32).collect();
        let want = rounded(&want, instance.out).unwrap();
        #[allow(clippy::float_cmp)] // The sums are exact.
        let different = d.iter().zip(&want).position(|(have, want)| have != want);
        different.map(|i| (i / self.size[1], i % self.size[1], d[i], want[i]))
    }
}

/// Runs a plan, and returns D as f32.
fn run(device: &Device, plan: &GemmPlan, case: &Case, alpha: f32) -> Result<Vec<f32>, Error> {
    let problem = plan.problem();
    let operand = |values: &[f32]| device.upload(&encode(values, problem.ab)?);
    let scales = |values: &[f32]| device.upload(&encode(values, Dtype::F32)?);
    let (a, b) = (operand(&case.a)?, operand(&case.b)?);
    let (sfa, sfb) = (scales(&case.sfa.0)?, scales(&case.sfb.0)?);
    let scales =
        BlockScales { a: &sfa, a_pitch: case.sfa.1 as u64, b: &sfb, b_pitch: case.sfb.1 as u64 };
    let mut d = device.alloc(problem.bytes('D') as usize)?;
    d.fill(0xff)?;
    plan.run_block_scaled(&a, &b, &mut d, scales, alpha)?;
    decode(&d.to_vec()?, problem.out)
}

#[test]
fn every_kernel_sums_exactly_with_residues() {
    // Tiles of 192 columns begin in the middle of a block of B, and the last tile has part of one. The last k tile is partial,
    // once in place and once in a padded copy. One k tile, or more than stages.
    for (seed, size) in [(1, [201, 456, 656]), (2, [72, 200, 1048]), (3, [130, 136, 100])] {
        let case = Case::exact(size, seed);
        for (device, gemm) in [seed, 10 + seed].map(gemm) {
            for (index, instance) in gemm.instances().iter().enumerate() {
                let plan = gemm.plan_with(&problem(instance, size), index).unwrap();
                let name = instance.desc.meta.name();
                let have =
                    run(&device, &plan, &case, 2.0).unwrap_or_else(|e| panic!("{name}:\n{e}"));
                let at = case.first_difference(instance, 2.0, &have);
                assert_eq!(at, None, "{name}, {size:?}");
            }
        }
    }
}

#[test]
fn scales_of_any_size_have_the_error_of_rounding() {
    let size = [96, 320, 1040];
    let scales = |seed, count| normal(seed, count).iter().map(|x| x.exp()).collect();
    let case = Case::new(size, normal, scales);
    let (device, gemm) = gemm(4);
    for (index, instance) in gemm.instances().iter().enumerate() {
        let plan = gemm.plan_with(&problem(instance, size), index).unwrap();
        let d = run(&device, &plan, &case, 0.75).unwrap();
        let check = case.product(&case.scaled(instance.ab), 0.75).check(&d).unwrap();
        let bound = if instance.out == Dtype::Bf16 { 2.2e-3 } else { 5e-4 };
        assert!(check.below(bound), "{}: {check}", instance.desc.meta.name());
    }
}

#[test]
fn split_tiles_are_the_same_sums() {
    let size = [40, 120, 1040];
    let case = Case::exact(size, 5);
    // Two clusters of four CTAs, at least, split a tile.
    let (device, gemm) = gemm_on(16, 5);
    for (index, instance) in gemm.instances().iter().enumerate() {
        let problem = problem(instance, size);
        let schedules = gemm.schedules(&problem, index).unwrap();
        let split = schedules.iter().map(|(_, s)| *s).find(|s: &Schedule| s.streamed > 0).unwrap();
        let plan = gemm.plan_scheduled(&problem, index, split).unwrap();
        let have = run(&device, &plan, &case, 1.0).unwrap();
        let at = case.first_difference(instance, 1.0, &have);
        assert_eq!(at, None, "{}", instance.desc.meta.name());
    }
}

/// A scale that is NaN makes its elements of D NaN, and no others.
#[test]
fn a_nan_scale_reaches_its_own_elements() {
    let size @ [m, n, _] = [64, 264, 300];
    let mut case = Case::exact(size, 6);
    case.sfa.0[case.sfa.1 + 7] = f32::NAN; // row 7, second block of K
    case.sfb.0[case.sfb.1 + 2] = f32::INFINITY; // rows 128 to 255, third block of K
    let (device, gemm) = gemm(6);
    for (index, instance) in gemm.instances().iter().enumerate() {
        let plan = gemm.plan_with(&problem(instance, size), index).unwrap();
        let d = run(&device, &plan, &case, 1.0).unwrap();
        for (i, x) in d.iter().enumerate().take(m * n) {
            let (row, column) = (i / n, i % n);
            if row == 7 {
                assert!(x.is_nan(), "{row}, {column}: {x}");
            } else {
                assert_eq!(x.is_finite(), column / 128 != 1, "{row}, {column}: {x}");
            }
        }
    }
}

#[test]
fn k_of_zero_gives_zeros() {
    let (device, gemm) = gemm(7);
    let plan = gemm.plan(&problem(&gemm.instances()[0], [40, 24, 0])).unwrap();
    let empty = device.alloc(0).unwrap();
    let mut d = device.alloc(2 * 40 * 24).unwrap();
    d.fill(0xff).unwrap();
    let scales = BlockScales::packed(plan.problem(), &empty, &empty);
    plan.run_block_scaled(&empty, &empty, &mut d, scales, 1.0).unwrap();
    assert!(d.to_vec().unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn wrong_scales_are_refused_with_the_numbers() {
    let (device, gemm) = gemm(8);
    let plan = gemm.plan(&problem(&gemm.instances()[0], [30, 200, 300])).unwrap();
    let values = |count: usize| device.alloc_zeroed(4 * count).unwrap();
    let (a, b) = (device.alloc_zeroed(30 * 300).unwrap(), device.alloc_zeroed(200 * 300).unwrap());
    let mut d = device.alloc(2 * 30 * 200).unwrap();
    let (sfa, sfb) = (values(94), values(6));
    let short: &Buffer = &values(5);
    let right = BlockScales::packed(plan.problem(), &sfa, &sfb);
    assert_eq!((right.a_pitch, right.b_pitch), (32, 3));
    let mut said =
        |scales| plan.run_block_scaled(&a, &b, &mut d, scales, 1.0).map_err(|e| e.to_string());
    assert_eq!(said(right), Ok(()));
    for (scales, error) in [
        (
            BlockScales { a_pitch: 30, ..right },
            "block scales of A: a pitch of 30; at least 30 and a multiple of 4, for [3, 30] values, is right",
        ),
        (
            BlockScales { a_pitch: 36, ..right },
            "block scales of A: 94 f32 values with a pitch of 36; 102 values, for [3, 30] values, is right",
        ),
        (
            BlockScales { b_pitch: 2, ..right },
            "block scales of B: a pitch of 2; at least 3, for [2, 3] values, is right",
        ),
        (
            BlockScales { b: short, ..right },
            "block scales of B: 5 f32 values with a pitch of 3; 6 values, for [2, 3] values, is right",
        ),
    ] {
        assert_eq!(said(scales), Err(error.to_owned()));
    }
}

#[test]
fn a_plan_runs_with_the_scales_of_its_kernel() {
    let (device, gemm) = gemm(9);
    let plan = gemm.plan(&problem(&gemm.instances()[0], [32, 48, 128])).unwrap();
    let (a, b) = (device.alloc_zeroed(32 * 128).unwrap(), device.alloc_zeroed(48 * 128).unwrap());
    let mut d = device.alloc(2 * 32 * 48).unwrap();
    let name = &plan.describe().kernel.as_ref().unwrap().name;
    let said = plan.run_with(&a, &b, None, &mut d, Linear { alpha: 1.0, beta: 0.0 }).unwrap_err();
    assert_eq!(said.to_string(), format!("{name} applies block scales; run_block_scaled is right"));
}
