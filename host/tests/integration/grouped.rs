//! Grouped products on the SM model, bit by bit: operands are -1, 0 and 1, so that sums are exact in bf16. D begins with
//! NaNs, and rows that no group has keep them.

use gpu_kernels::gemm::Instance;
use gpu_kernels::gemm::grouped::GROUPED_INSTANCES;
use host::data::{encode, normal};
use host::gemm::{Gemm, GroupedError, GroupedProblem, GroupedRows};
use host::{Buffer, Device, Dtype, Error, SimConfig, View};
use isa::kernel::{Image, KernelMeta};
use std::sync::LazyLock;

/// What the model needs of the image: the facts of its kernels.
static IMAGE: LazyLock<&'static Image> = LazyLock::new(|| {
    let kernels: Vec<KernelMeta> = GROUPED_INSTANCES.iter().map(|i| i.desc.meta).collect();
    let (name, arch) = ("grouped", "sm_90a");
    let image = Image { name, arch, code: &[], kernels: kernels.leak(), ptxas: None, others: &[] };
    Box::leak(Box::new(image))
});

fn sim(sms: u32, seed: u64) -> Device {
    Device::sim(SimConfig { sms, seed, ..SimConfig::default() })
}

/// -1, 0 or 1.
fn signs(seed: u64, count: u64) -> Vec<f32> {
    normal(seed, count as usize).into_iter().map(|x| x.round().clamp(-1.0, 1.0)).collect()
}

fn upload(device: &Device, values: &[f32]) -> Buffer {
    device.upload(&encode(values, Dtype::Bf16).unwrap()).unwrap()
}

fn upload_ends(device: &Device, ends: &[i32]) -> Buffer {
    let bytes: Vec<u8> = ends.iter().flat_map(|end| end.to_ne_bytes()).collect();
    device.upload(&bytes).unwrap()
}

/// What is stored in D at the beginning.
const UNTOUCHED: u16 = 0xffff;

/// D: the products of the rows of each group, `[first, end]`, and what was there in all other rows.
fn expected(
    problem: &GroupedProblem,
    groups: &[[u64; 2]],
    a: &[f32],
    b: &[f32],
    alpha: f32,
) -> Vec<u16> {
    let (n, k) = (problem.n as usize, problem.k as usize);
    let mut d = vec![UNTOUCHED; problem.total_rows() as usize * n];
    for (group, &[begin, end]) in groups.iter().enumerate() {
        for row in begin as usize..end as usize {
            for column in 0..n {
                let (a, b) = (&a[row * k..][..k], &b[(group * n + column) * k..][..k]);
                let sum = a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + a * b);
                d[row * n + column] = half::bf16::from_f32(alpha * sum).to_bits();
            }
        }
    }
    d
}

/// Runs kernel `index`, compares all of D, and returns what the plan says of the ends.
fn run(
    device: &Device,
    index: usize,
    problem: &GroupedProblem,
    ends: &[i32],
    groups: &[[u64; 2]],
) -> Option<u32> {
    let (n, k) = (problem.n, problem.k);
    let a = signs(1, problem.total_rows() * k);
    let b = signs(2, problem.groups * n * k);
    let gemm = Gemm::grouped(device, *IMAGE).unwrap();
    let plan = gemm.plan_with(problem, index).unwrap();
    let mut d = device.alloc(problem.bytes('D') as usize).unwrap();
    d.fill(0xff).unwrap();
    let (a_dev, b_dev, ends_dev) =
        (upload(device, &a), upload(device, &b), upload_ends(device, ends));
    let name = gemm.instances()[index].desc.meta.name();
    let case = format!("{name}: {problem:?}, ends {ends:?}");
    plan.run(&a_dev, &b_dev, &ends_dev, &mut d, -2.0).unwrap_or_else(|e| panic!("{case}:\n{e}"));
    let bytes = d.to_vec().unwrap_or_else(|e| panic!("{case}:\n{e}"));
    let words = bytes.chunks_exact(2).map(|b| u16::from_ne_bytes([b[0], b[1]]));
    let right = expected(problem, groups, &a, &b, -2.0);
    let wrong = words.zip(&right).position(|(have, &want)| have != want);
    let at = wrong.map(|i| [i as u64 / n, i as u64 % n]);
    assert_eq!(at, None, "{case}: the first wrong [row, column]");
    plan.bad_group().unwrap()
}

/// Rows and columns of D in a tile.
fn tile(i: &Instance) -> [u64; 2] {
    let [m, n] = [i.bm * i.cluster_m, i.bn * i.cluster_n].map(u64::from);
    if i.swap_ab { [n, m] } else { [m, n] }
}

/// Groups of these sizes one behind the other: the problem, the ends, and the rows of each group.
fn contiguous(sizes: &[u64], n: u64, k: u64) -> (GroupedProblem, Vec<i32>, Vec<[u64; 2]>) {
    let mut begin = 0;
    let groups: Vec<_> = sizes
        .iter()
        .map(|size| {
            begin += size;
            [begin - size, begin]
        })
        .collect();
    let rows = GroupedRows::Contiguous { total: begin };
    let problem = GroupedProblem { groups: sizes.len() as u64, rows, n, k, dtype: Dtype::Bf16 };
    (problem, groups.iter().map(|g| g[1] as i32).collect(), groups)
}

/// Uneven groups: empty ones first, last and in between; one row; ends inside of tiles, and at their ends.
#[test]
fn every_kernel_multiplies_uneven_groups() {
    for (index, instance) in GROUPED_INSTANCES.iter().enumerate() {
        let [rows, columns] = tile(instance);
        let cases = [
            (vec![0, 1, 0, 0, rows + 3, 5, rows, 0], columns + 8, 72),
            (vec![2 * rows + 1, 0, rows / 2], columns - 8, 8),
        ];
        for (sizes, n, k) in cases {
            let (problem, ends, groups) = contiguous(&sizes, n, k);
            assert_eq!(run(&sim(4, 0), index, &problem, &ends, &groups), None);
        }
        // More k tiles than stages, and three tiles for each of two clusters.
        let k = u64::from(instance.bk * (instance.stages + 1)) + 8;
        let (problem, ends, groups) = contiguous(&[3, rows + 1], 2 * columns, k);
        let sms = 2 * instance.desc.meta.cluster_size();
        assert_eq!(run(&sim(sms, 0), index, &problem, &ends, &groups), None);
    }
}

/// Rows of A and D behind the last end belong to nobody.
#[test]
fn rows_behind_the_last_group_are_not_written() {
    for index in 0..GROUPED_INSTANCES.len() {
        let (mut problem, ends, groups) = contiguous(&[7, 30], 24, 64);
        problem.rows = GroupedRows::Contiguous { total: 50 };
        assert_eq!(run(&sim(4, 0), index, &problem, &ends, &groups), None);
    }
}

/// Each group has room for more rows than it has.
#[test]
fn every_kernel_multiplies_masked_groups() {
    for (index, instance) in GROUPED_INSTANCES.iter().enumerate() {
        let [rows, columns] = tile(instance);
        let max = rows + 9;
        let counts = [0, 1, max, rows, 17];
        let rows = GroupedRows::Masked { max, expected: 20 };
        let n = columns + 16;
        let problem = GroupedProblem { groups: 5, rows, n, k: 72, dtype: Dtype::Bf16 };
        let ends = counts.map(|count| count as i32);
        let groups: Vec<_> =
            counts.iter().zip(0..).map(|(count, g)| [g * max, g * max + count]).collect();
        assert_eq!(run(&sim(4, 0), index, &problem, &ends, &groups), None);
    }
}

/// Ends that are not allowed count as the nearest that are, and the plan names the first group with one.
#[test]
fn bad_ends_are_reported_and_do_no_harm() {
    let total = 40;
    let rows = GroupedRows::Contiguous { total };
    let problem = GroupedProblem { groups: 3, rows, n: 24, k: 64, dtype: Dtype::Bf16 };
    let cases: [([i32; 3], [[u64; 2]; 3], u32); 7] = [
        // Beyond the rows.
        ([10, 20, 41], [[0, 10], [10, 20], [20, 40]], 2),
        ([i32::MAX, 20, 40], [[0, 40], [40, 40], [40, 40]], 0),
        // Negative.
        ([-1, 20, 40], [[0, 0], [0, 20], [20, 40]], 0),
        ([10, i32::MIN, 40], [[0, 10], [10, 10], [10, 40]], 1),
        // Out of order.
        ([20, 10, 40], [[0, 20], [20, 20], [20, 40]], 1),
        ([20, 10, 5], [[0, 20], [20, 20], [20, 20]], 1),
        ([20, 40, 39], [[0, 20], [20, 40], [40, 40]], 2),
    ];
    for (index, _) in GROUPED_INSTANCES.iter().enumerate() {
        for (ends, groups, bad) in &cases {
            assert_eq!(run(&sim(2, 0), index, &problem, ends, groups), Some(*bad), "{ends:?}");
        }
    }
    let rows = GroupedRows::Masked { max: 20, expected: 5 };
    let masked = GroupedProblem { rows, ..problem };
    for (counts, groups, bad) in [
        ([3, 21, 4], [[0, 3], [20, 40], [40, 44]], 1),
        ([3, 4, -5], [[0, 3], [20, 24], [40, 40]], 2),
        ([i32::MIN, i32::MAX, 0], [[0, 0], [20, 40], [40, 40]], 0),
    ] {
        assert_eq!(run(&sim(2, 0), 2, &masked, &counts, &groups), Some(bad), "{counts:?}");
    }
}

/// A plan reads the ends when it runs, and forgets the status of the run before.
#[test]
fn one_plan_runs_with_other_groups() {
    let device = sim(4, 0);
    let (problem, _, _) = contiguous(&[20, 20], 16, 64);
    let (a, b) = (signs(1, 40 * 64), signs(2, 2 * 16 * 64));
    let (a_dev, b_dev) = (upload(&device, &a), upload(&device, &b));
    let mut ends = upload_ends(&device, &[0, 0]);
    let mut d = device.alloc(problem.bytes('D') as usize).unwrap();
    let plan = Gemm::grouped(&device, *IMAGE).unwrap().plan(&problem).unwrap();
    for (values, first, bad) in [([5, 40], 5, None), ([50, 40], 40, Some(0)), ([0, 40], 0, None)] {
        let bytes = values.map(i32::to_ne_bytes).concat();
        ends.write(&bytes).unwrap();
        plan.run(&a_dev, &b_dev, &ends, &mut d, 1.0).unwrap();
        let right = expected(&problem, &[[0, first], [first, 40]], &a, &b, 1.0);
        let right: Vec<u8> = right.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert!(d.to_vec().unwrap() == right, "{values:?}");
        assert_eq!(plan.bad_group().unwrap(), bad, "{values:?}");
    }
}

/// A and D with gaps between their rows, and an offset.
#[test]
fn operands_may_be_views() {
    let device = sim(4, 0);
    let (problem, ends, groups) = contiguous(&[3, 17], 16, 64);
    let (a, b) = (signs(1, 20 * 72), signs(2, 2 * 16 * 64));
    let (a_dev, b_dev, ends) =
        (upload(&device, &a), upload(&device, &b), upload_ends(&device, &ends));
    let mut d = device.alloc(16 + 20 * 48).unwrap();
    d.fill(0xff).unwrap();
    let plan = Gemm::grouped(&device, *IMAGE).unwrap().plan(&problem).unwrap();
    let a_view = View::new(&a_dev).pitch(144).offset(16);
    let d_view = host::ViewMut::new(&mut d).pitch(48).offset(16);
    plan.run(a_view, &b_dev, &ends, d_view, 1.0).unwrap();
    // The last row of the view ends with the buffer.
    let packed: Vec<f32> = (0..20).flat_map(|r| a[r * 72 + 8..][..64].to_vec()).collect();
    let right = expected(&problem, &groups, &packed, &b, 1.0);
    let words: Vec<u16> =
        d.to_vec().unwrap().chunks_exact(2).map(|b| u16::from_ne_bytes([b[0], b[1]])).collect();
    for (row, right) in right.chunks_exact(16).enumerate() {
        let have = &words[8 + row * 24..][..24];
        assert_eq!((&have[..16], &have[16..]), (right, &[UNTOUCHED; 8][..]), "row {row}");
    }
}

/// A schedule of the model is one order of its threads.
#[test]
fn every_kernel_under_many_seeds() {
    for (index, instance) in GROUPED_INSTANCES.iter().enumerate() {
        let [rows, columns] = tile(instance);
        let (problem, ends, groups) = contiguous(&[2, 0, rows + 1, 9], columns + 8, 136);
        for seed in 0..120 {
            let sms = 2 * instance.desc.meta.cluster_size();
            assert_eq!(run(&sim(sms, seed), index, &problem, &ends, &groups), None, "seed {seed}");
        }
    }
}

/// Few rows a group get a kernel of few rows, and many a large tile.
#[test]
fn the_mean_size_of_a_group_picks_the_kernel() {
    let gemm = Gemm::grouped(&sim(132, 0), *IMAGE).unwrap();
    let picked = |groups: u64, rows: u64, n, k| {
        let rows = GroupedRows::Contiguous { total: groups * rows };
        let problem = GroupedProblem { groups, rows, n, k, dtype: Dtype::Bf16 };
        let kernel = gemm.plan(&problem).unwrap().describe().kernel.clone().unwrap();
        assert!(kernel.predicted_us > 0.0 && kernel.ctas <= 132);
        kernel.tile
    };
    // Ping-pong hides the epilogue, and is predicted 1 to 3 % below 128 x 256, as for one product of that size.
    assert_eq!(picked(4, 8192, 4096, 7168), [128, 128, 64]);
    assert_eq!(picked(8, 4096, 7168, 2048), [128, 128, 64]);
    assert_eq!(picked(128, 64, 1536, 2048), [64, 128, 64]);
    assert_eq!(picked(64, 256, 4096, 2048), [128, 128, 64]);
    assert_eq!(picked(128, 8, 1536, 2048)[0], 16);
    assert_eq!(picked(64, 24, 4096, 2048)[0], 32);
}

fn refused(problem: GroupedProblem) -> String {
    let gemm = Gemm::grouped(&sim(4, 0), *IMAGE).unwrap();
    gemm.plan(&problem).err().expect("refused").to_string()
}

#[test]
fn problems_that_are_refused() {
    let (right, _, _) = contiguous(&[20, 20], 16, 64);
    let contiguous = |total| GroupedRows::Contiguous { total };
    for (problem, message) in [
        (
            GroupedProblem { dtype: Dtype::F16, ..right },
            "grouped GEMM of f16: the kernels have bf16",
        ),
        (
            GroupedProblem { groups: 0, ..right },
            "grouped GEMM of 0 groups: there must be at least one",
        ),
        (
            GroupedProblem { n: 20, ..right },
            "grouped GEMM: N = 20 of 2 bytes; it must be a multiple of 8, because TMA needs rows of 16 bytes",
        ),
        (
            GroupedProblem { k: 0, ..right },
            "grouped GEMM with K = 0: K must be at least 8, and D of an empty K is zeros",
        ),
        (
            GroupedProblem { rows: contiguous(1 << 31), ..right },
            "grouped GEMM: rows of A = 2147483648; the limit is 1073740800",
        ),
        (
            GroupedProblem { groups: 1 << 28, ..right },
            "grouped GEMM: groups x N = 4294967296; the limit is 2147482624",
        ),
    ] {
        assert_eq!(refused(problem), message);
    }
    // No row, or no column: nothing is launched.
    let device = sim(4, 0);
    let gemm = Gemm::grouped(&device, *IMAGE).unwrap();
    for problem in
        [GroupedProblem { n: 0, ..right }, GroupedProblem { rows: contiguous(0), ..right }]
    {
        let plan = gemm.plan(&problem).unwrap();
        assert!(plan.describe().kernel.is_none());
        let [a, b] = ['A', 'B'].map(|o| device.alloc(problem.bytes(o) as usize).unwrap());
        let (ends, mut d) = (upload_ends(&device, &[0, 0]), device.alloc(0).unwrap());
        plan.run(&a, &b, &ends, &mut d, 1.0).unwrap();
    }
    let absent = gemm.plan_with(&right, 99).err().expect("no such row").to_string();
    assert!(absent.contains("99"), "{absent}");
}

#[test]
fn operands_that_are_refused() {
    let device = sim(4, 0);
    let (problem, ends, _) = contiguous(&[3, 17], 16, 64);
    let plan = Gemm::grouped(&device, *IMAGE).unwrap().plan(&problem).unwrap();
    let (a, b) = (device.alloc(20 * 64 * 2).unwrap(), device.alloc(32 * 64 * 2).unwrap());
    let (ends, mut d) = (upload_ends(&device, &ends), device.alloc(20 * 16 * 2).unwrap());
    let few = upload_ends(&device, &[20]);
    let error = plan.run(&a, &b, &few, &mut d, 1.0).unwrap_err();
    assert!(
        error.to_string().starts_with(
            "grouped GEMM: the ends of 2 groups are 8 bytes of i32 at a multiple of 4, not 4 bytes at"
        ),
        "{error}"
    );
    let longer = device.alloc(20 * 64 * 2 + 2).unwrap();
    let odd = View::new(&longer).offset(2);
    let error = plan.run(odd, &b, &ends, &mut d, 1.0).unwrap_err();
    assert!(matches!(error, Error::Grouped(GroupedError::Place { operand: 'A', .. })), "{error}");
    let error = plan.run(&a, &a, &ends, &mut d, 1.0).unwrap_err();
    assert!(matches!(error, Error::OperandSize { operand: 'B', .. }), "{error}");
    let foreign = upload_ends(&sim(4, 0), &[3, 20]);
    let error = plan.run(&a, &b, &foreign, &mut d, 1.0).unwrap_err();
    assert!(matches!(error, Error::ForeignDevice { .. }), "{error}");
    let inside = d.part(0, 8).unwrap();
    let error = plan.run(&a, &b, &inside, &mut d, 1.0).unwrap_err();
    assert!(matches!(error, Error::Grouped(GroupedError::Overlap { .. })), "{error}");
}
