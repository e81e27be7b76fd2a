//! Products of quantised operands with scales on the SM model: every kernel, with residues in each dimension, scales of
//! tensors and of rows, and the errors of both ways to accumulate.

use gpu_kernels::gemm::{FAST_ACCUM_INSTANCES, Instance, SCALED_INSTANCES};
use host::data::{decode, encode, normal, rounded};
use host::gemm::{GemmProblem, OperandScales, ScaledGemm, Schedule};
use host::reference::{Check, Product};
use host::{Device, Dtype, Error, SimConfig};
use isa::kernel::{Image, KernelMeta};
use std::sync::LazyLock;

/// What the model needs of the image: the facts of its kernels.
static IMAGE: LazyLock<&'static Image> = LazyLock::new(|| {
    let rows = SCALED_INSTANCES.iter().chain(FAST_ACCUM_INSTANCES.iter());
    let kernels: Vec<KernelMeta> = rows.map(|instance| instance.desc.meta).collect();
    let (name, arch) = ("scaled", "sm_90a");
    let image = Image { name, arch, code: &[], kernels: kernels.leak(), ptxas: None, others: &[] };
    Box::leak(Box::new(image))
});

fn gemm(seed: u64, use_fast_accum: bool) -> (Device, ScaledGemm) {
    gemm_on(4, seed, use_fast_accum)
}

fn gemm_on(sms: u32, seed: u64, use_fast_accum: bool) -> (Device, ScaledGemm) {
    let device = Device::sim(SimConfig { sms, seed, ..SimConfig::default() });
    let gemm = ScaledGemm::scaled(&device, &IMAGE, use_fast_accum).unwrap();
    (device, gemm)
}

/// Values of A and B, and how many scales they have.
struct Case<'c> {
    a: &'c [f32],
    b: &'c [f32],
    /// One for the tensor, or one for each row.
    scales: [&'c [f32]; 2],
    alpha: f32,
}

fn problem(instance: &Instance, [m, n, k]: [usize; 3]) -> GemmProblem {
    let [m, n, k] = [m, n, k].map(|x| x as u64);
    GemmProblem { m, n, k, ab: instance.ab, out: instance.out, beta_c: false }
}

/// Runs kernel `index`, and compares with the f64 product of the quantised operands and the scales.
fn run(
    (device, gemm): &(Device, ScaledGemm),
    index: usize,
    schedule: Option<Schedule>,
    [m, n, k]: [usize; 3],
    case: &Case<'_>,
) -> Result<Check, Error> {
    let instance = &gemm.instances()[index];
    let problem = problem(instance, [m, n, k]);
    let plan = match schedule {
        Some(schedule) => gemm.plan_scheduled(&problem, index, schedule)?,
        None => gemm.plan_with(&problem, index)?,
    };
    let operand = |values: &[f32]| device.upload(&encode(values, instance.ab)?);
    let scales = |values: &[f32]| device.upload(&encode(values, Dtype::F32)?);
    let (a, b) = (operand(case.a)?, operand(case.b)?);
    let (scale_a, scale_b) = (scales(case.scales[0])?, scales(case.scales[1])?);
    let mut d = device.alloc(m * n * instance.out.size())?;
    d.fill(0xff)?;
    plan.run_scaled(&a, &b, &mut d, OperandScales { a: &scale_a, b: &scale_b }, case.alpha)?;
    let d = decode(&d.to_vec()?, instance.out)?;

    let scaled = |values: &[f32], scales: &[f32]| -> Result<Vec<f32>, Error> {
        let values = rounded(values, instance.ab)?;
        let scale = |row: usize| scales[if scales.len() == 1 { 0 } else { row }];
        Ok(values.iter().enumerate().map(|(i, x)| x * scale(i / k)).collect())
    };
    let (a, b) = (scaled(case.a, case.scales[0])?, scaled(case.b, case.scales[1])?);
    let (alpha, beta) = (case.alpha, 0.0);
    Product { m, n, k, a: &a, b: &b, c: None, alpha, beta }.check(&d)
}

/// The bound of the relative error: rounding the result, and the sums in the tensor cores.
fn bound(instance: &Instance) -> f64 {
    // An instruction cuts off what is 13 bits below its largest term, 1.2e-4 of it: the error of a k tile is about that
    // large, and grows with K where the tensor cores keep the sums.
    let sums = if instance.promotes { 2e-4 } else { 2e-3 };
    sums + match instance.out {
        Dtype::Bf16 => 2e-3,
        Dtype::F16 => 3e-4,
        _ => 1e-6,
    }
}

#[test]
fn every_kernel_multiplies_with_residues_and_scales_of_rows() {
    for use_fast_accum in [false, true] {
        let gemm = gemm(1, use_fast_accum);
        for (index, instance) in gemm.1.instances().iter().enumerate() {
            // More k tiles than stages, with a residue that TMA reads in place.
            let (m, n, k) = (136, 264, 128 * (instance.stages as usize).min(6) + 144);
            let (a, b) = (normal(1, m * k), normal(2, n * k));
            let of_rows =
                |seed, rows| normal(seed, rows).iter().map(|x| x.exp()).collect::<Vec<_>>();
            let (rows, columns) = (of_rows(3, m), of_rows(4, n));
            let bound = bound(instance);
            for scales in
                [[&rows[..], &columns[..]], [&[0.25], &[3.0]], [&rows, &[0.5]], [&[2.0], &columns]]
            {
                let case = Case { a: &a, b: &b, scales, alpha: 1.5 };
                let check = run(&gemm, index, None, [m, n, k], &case);
                let name = instance.desc.meta.name();
                let check = check.unwrap_or_else(|e| panic!("{name}:\n{e}"));
                assert!(check.below(bound), "{name}: {check}");
            }
        }
    }
}

#[test]
fn split_tiles_are_the_same_sums() {
    for use_fast_accum in [false, true] {
        // Three clusters of four: each kernel splits a tile.
        let gemm = gemm_on(12, 2, use_fast_accum);
        for (index, instance) in gemm.1.instances().iter().enumerate() {
            let size @ [m, n, k] = [40, 24, 1040];
            let problem = problem(instance, size);
            let schedules = gemm.1.schedules(&problem, index).unwrap();
            let split = schedules.iter().map(|(_, s)| *s).find(|s| s.streamed > 0);
            let split =
                split.unwrap_or_else(|| panic!("{}: {schedules:?}", instance.desc.meta.name()));
            let (a, b) = (normal(1, m * k), normal(2, n * k));
            let case = Case { a: &a, b: &b, scales: [&[0.5], &[3.0]], alpha: 1.0 };
            let check = run(&gemm, index, Some(split), size, &case).unwrap();
            assert!(check.below(bound(instance)), "{}: {check}", instance.desc.meta.name());
        }
    }
}

/// Values of one sign show what the short sums of the tensor cores lose, and that promoted sums do not.
#[test]
fn promoted_sums_of_one_sign_have_no_bias() {
    let [m, n, k] = [16, 16, 8192];
    let positive = |seed, count| normal(seed, count).iter().map(|x| x.abs()).collect::<Vec<_>>();
    let (a, b) = (positive(1, m * k), positive(2, n * k));
    let case = Case { a: &a, b: &b, scales: [&[1.0], &[1.0]], alpha: 1.0 };
    let error = |use_fast_accum| {
        let gemm = gemm(3, use_fast_accum);
        let index = gemm.1.instances().len() - 1;
        run(&gemm, index, None, [m, n, k], &case).unwrap().relative_error
    };
    let (promoted, fast) = (error(false), error(true));
    assert!(promoted < 2.5e-3, "{promoted}");
    assert!(fast > 0.03, "{fast}: the model's sums are not short");
}

#[test]
fn a_wrong_number_of_scales_is_refused() {
    let (device, gemm) = gemm(4, false);
    let problem = problem(&gemm.instances()[0], [32, 48, 64]);
    let plan = gemm.plan(&problem).unwrap();
    let (a, b) = (device.alloc_zeroed(32 * 64).unwrap(), device.alloc_zeroed(48 * 64).unwrap());
    let mut d = device.alloc(2 * 32 * 48).unwrap();
    for (a_bytes, b_bytes, right) in [
        (
            4 * 31,
            4,
            "scales of A: 31 f32 values; 1 for the whole tensor or 32, one for each row, is right",
        ),
        (
            4,
            4 * 32,
            "scales of B: 32 f32 values; 1 for the whole tensor or 48, one for each row, is right",
        ),
        (
            4,
            0,
            "scales of B: 0 f32 values; 1 for the whole tensor or 48, one for each row, is right",
        ),
        (
            6,
            4,
            "scales of A: 1 f32 values and 2 bytes; 1 for the whole tensor or 32, one for each row, is right",
        ),
    ] {
        let (sa, sb) =
            (device.alloc_zeroed(a_bytes).unwrap(), device.alloc_zeroed(b_bytes).unwrap());
        let scales = OperandScales { a: &sa, b: &sb };
        let said = plan.run_scaled(&a, &b, &mut d, scales, 1.0).unwrap_err().to_string();
        assert_eq!(said, right);
    }
}
