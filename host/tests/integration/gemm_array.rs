//! Pointer arrays on the SM model, bit by bit: operands are -1, 0 and 1, so that sums are exact in bf16. D begins with NaNs,
//! and what no problem has keeps them.

use gpu_kernels::gemm::grouped::{ARRAY_INSTANCES, ArrayInstance};
use host::data::{encode, normal};
use host::gemm::{ArrayError, ArrayPlan, ArrayProblem, Gemm};
use host::{Buffer, Device, Dtype, Error, SimConfig};
use isa::kernel::{Image, KernelMeta};
use std::sync::LazyLock;

/// What the model needs of the image: the facts of its kernels.
static IMAGE: LazyLock<&'static Image> = LazyLock::new(|| {
    let kernels = ARRAY_INSTANCES.iter().flat_map(|i| [i.maps.meta, i.gemm.desc.meta]);
    let kernels: Vec<KernelMeta> = kernels.collect();
    let (name, arch) = ("arrays", "sm_90a");
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

/// What is stored in D at the beginning.
const UNTOUCHED: u16 = 0xffff;

/// The operands of some problems, in host memory and on the device.
struct Case {
    problems: Vec<ArrayProblem>,
    a: Vec<f32>,
    b: Vec<f32>,
    a_dev: Buffer,
    b_dev: Buffer,
    table: Buffer,
    d: Buffer,
}

/// Problems of these sizes, one behind the other, with `gap` elements more in each row and between them.
fn placed(sizes: &[[u64; 3]], gap: u64) -> (Vec<ArrayProblem>, [u64; 3]) {
    let mut next = [gap; 3];
    let place = |&size: &[u64; 3]| {
        let mut problem = ArrayProblem::packed(size, next);
        problem.pitch = problem.pitch.map(|pitch| pitch + gap);
        for (next, elements) in next.iter_mut().zip(problem.elements()) {
            *next += elements + gap;
        }
        problem
    };
    (sizes.iter().map(place).collect(), next)
}

impl Case {
    fn new(device: &Device, problems: Vec<ArrayProblem>, elements: [u64; 3]) -> Self {
        let (a, b) = (signs(1, elements[0]), signs(2, elements[1]));
        let mut d = device.alloc(2 * elements[2] as usize).unwrap();
        d.fill(0xff).unwrap();
        let table = device.upload(&ArrayProblem::table(&problems)).unwrap();
        let (a_dev, b_dev) = (upload(device, &a), upload(device, &b));
        Self { problems, a, b, a_dev, b_dev, table, d }
    }

    fn of(device: &Device, sizes: &[[u64; 3]], gap: u64) -> Self {
        let (problems, elements) = placed(sizes, gap);
        Self::new(device, problems, elements)
    }

    /// D, if problem `i` is computed where `allowed` says so.
    fn expected(&self, allowed: impl Fn(usize) -> bool) -> Vec<u16> {
        let mut d = vec![UNTOUCHED; self.d.len() / 2];
        for (_, problem) in self.problems.iter().enumerate().filter(|(i, _)| allowed(*i)) {
            let ArrayProblem { m, n, k, first, pitch } = *problem;
            for row in 0..m {
                for col in 0..n {
                    let at =
                        |operand: usize, row: u64| (first[operand] + row * pitch[operand]) as usize;
                    let (a, b) =
                        (&self.a[at(0, row)..][..k as usize], &self.b[at(1, col)..][..k as usize]);
                    let sum = a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + a * b);
                    d[at(2, row) + col as usize] = half::bf16::from_f32(-2.0 * sum).to_bits();
                }
            }
        }
        d
    }

    /// Runs the plan, compares all of D, and returns what the plan says of the problems.
    fn run(
        &mut self,
        plan: &ArrayPlan,
        allowed: impl Fn(usize) -> bool,
        what: &str,
    ) -> Option<u32> {
        plan.run(&self.a_dev, &self.b_dev, &self.table, &mut self.d, -2.0)
            .unwrap_or_else(|e| panic!("{what}:\n{e}"));
        let bytes = self.d.to_vec().unwrap_or_else(|e| panic!("{what}:\n{e}"));
        let words = bytes.chunks_exact(2).map(|b| u16::from_ne_bytes([b[0], b[1]]));
        let right = self.expected(allowed);
        let wrong = words.zip(&right).position(|(have, &want)| have != want);
        assert_eq!(wrong, None, "{what}: the first wrong element of {:?}", self.problems);
        plan.bad_problem().unwrap()
    }
}

/// Rows and columns of D in a cluster tile.
fn tile(ArrayInstance { gemm, .. }: &ArrayInstance) -> [u64; 2] {
    [gemm.bm * gemm.cluster_m, gemm.bn * gemm.cluster_n].map(u64::from)
}

/// Empty problems first, last and in between; one row; sizes on both sides of a tile, and several tiles; K of its own.
#[test]
fn every_kernel_multiplies_problems_of_their_own_sizes() {
    for (index, instance) in ARRAY_INSTANCES.iter().enumerate() {
        let [rows, columns] = tile(instance);
        let deep = u64::from(instance.gemm.bk * (instance.gemm.stages + 1)) + 9;
        let sizes = [
            [0, 8, 64],
            [1, 8, 1],
            [rows + 3, columns + 8, 72],
            [5, 0, 64],
            [rows - 1, columns - 8, 40],
            [0, 0, 0],
            [2, 2 * columns + 16, deep],
            [2 * rows + 1, 8, 3],
            [7, 0, 0],
        ];
        // On 132 SMs the second kernel has more CTAs than there are tiles.
        for (sms, gap) in [(2, 0), (4, 8), (132, 0)] {
            let device = sim(sms, u64::from(sms));
            let gemm = Gemm::grouped_array(&device, *IMAGE).unwrap();
            let plan = gemm.plan_with(sizes.len() as u64, index).unwrap();
            let mut case = Case::of(&device, &sizes, gap);
            let what = format!("{}, gaps of {gap}", plan.kernel());
            assert_eq!(case.run(&plan, |_| true, &what), None);
        }
    }
}

/// More problems than one CTA writes maps of, each of a few rows; and an A that all of them share.
#[test]
fn many_small_problems() {
    let device = sim(8, 0);
    let sizes: Vec<_> = (0..600u64).map(|i| [i % 5, 8 * (i % 3), 1 + i % 70]).collect();
    let (mut problems, elements) = placed(&sizes, 0);
    for problem in &mut problems {
        (problem.first[0], problem.pitch[0]) = (0, 72);
    }
    let plan = Gemm::grouped_array(&device, *IMAGE).unwrap().plan(600, [2, 8, 36]).unwrap();
    assert!(plan.kernel().ends_with("64x128_1x1_pp"), "{}", plan.kernel());
    let mut case = Case::new(&device, problems, elements);
    assert_eq!(case.run(&plan, |_| true, "many"), None);
}

/// What is wrong with a line, and what makes it so.
type Spoil = (&'static str, fn(&mut ArrayProblem));

/// A line that is wrong costs its own problem alone.
#[test]
fn bad_problems_are_reported_and_do_no_harm() {
    let sizes = [[20, 16, 40], [9, 24, 64], [3, 8, 16]];
    let (problems, elements) = placed(&sizes, 0);
    let spoil: [Spoil; 22] = [
        ("A beyond its memory", |p| p.first[0] += 1 << 12),
        ("A one unit too far", |p| p.first[0] = 1424 + 8 - p.m * p.pitch[0]),
        ("B beyond its memory", |p| p.first[1] = u64::MAX - 7),
        ("D beyond its memory", |p| p.first[2] = 1 << 62),
        ("A misaligned", |p| p.first[0] += 4),
        ("B misaligned", |p| p.first[1] += 1),
        ("D misaligned", |p| p.first[2] += 2),
        ("pitch of A misaligned", |p| p.pitch[0] += 4),
        ("pitch of D misaligned", |p| p.pitch[2] += 1),
        ("pitch of A below K", |p| p.pitch[0] = 8),
        ("pitch of D below N", |p| p.pitch[2] = 8),
        ("a pitch of 0", |p| p.pitch[1] = 0),
        ("a huge pitch", |p| p.pitch[1] = u64::MAX - 7),
        ("a pitch of 2^63", |p| p.pitch[2] = 1 << 63),
        ("K = 0", |p| p.k = 0),
        ("N no multiple of 8", |p| p.n -= 1),
        ("M too large", |p| p.m = 1 << 20),
        ("M beyond 2^31", |p| p.m = (1 << 32) + 3),
        ("M of all bits", |p| p.m = u64::MAX),
        ("N beyond 2^32", |p| p.n = 1 << 32),
        ("K beyond 2^32", |p| p.k = (1 << 32) + 16),
        ("M and N beyond 2^32", |p| (p.m, p.n) = (1 << 32, 1 << 32)),
    ];
    assert_eq!(elements[0], 1424);
    let device = sim(2, 0);
    let gemm = Gemm::grouped_array(&device, *IMAGE).unwrap();
    for index in 0..ARRAY_INSTANCES.len() {
        let plan = gemm.plan_with(3, index).unwrap();
        for (what, spoil) in &spoil {
            for bad in [0, 1] {
                let mut case = Case::new(&device, problems.clone(), elements);
                let mut wrong = problems.clone();
                spoil(&mut wrong[bad]);
                case.table = device.upload(&ArrayProblem::table(&wrong)).unwrap();
                let found = case.run(&plan, |i| i != bad, what);
                assert_eq!(found, Some(bad as u32), "{what}");
            }
        }
        // The last one is the first one that is bad, and the run after it has none.
        let mut case = Case::new(&device, problems.clone(), elements);
        assert_eq!(case.run(&plan, |_| true, "good"), None);
    }
}

/// A plan reads the table when it runs: its maps are rewritten.
#[test]
fn one_plan_runs_with_other_tables() {
    let device = sim(4, 1);
    let plan = Gemm::grouped_array(&device, *IMAGE).unwrap().plan(3, [20, 16, 64]).unwrap();
    for (turn, sizes) in
        [[[20, 16, 64], [3, 8, 8], [1, 8, 8]], [[1, 40, 8], [0, 8, 8], [70, 8, 100]]]
            .iter()
            .enumerate()
    {
        for gap in [0, 16] {
            let mut case = Case::of(&device, sizes, gap);
            assert_eq!(case.run(&plan, |_| true, &format!("turn {turn}")), None);
        }
    }
}

/// Two runs in a row, without a wait in between, do not see each other's maps.
#[test]
fn runs_follow_one_another() {
    let device = sim(4, 2);
    let plan = Gemm::grouped_array(&device, *IMAGE).unwrap().plan(2, [20, 16, 64]).unwrap();
    let sizes = [[[20, 16, 64], [3, 8, 8]], [[7, 40, 8], [70, 8, 100]]];
    let mut cases = sizes.map(|sizes| Case::of(&device, &sizes, 0));
    for case in &mut cases {
        plan.run(&case.a_dev, &case.b_dev, &case.table, &mut case.d, -2.0).unwrap();
    }
    for case in &cases {
        let bytes = case.d.to_vec().unwrap();
        let words: Vec<_> =
            bytes.chunks_exact(2).map(|b| u16::from_ne_bytes([b[0], b[1]])).collect();
        assert_eq!(words, case.expected(|_| true));
    }
}

/// A bound plan runs on streams of the caller as often as it likes. Each run reads the table as it is then, and writes what it
/// skipped to the info of its own.
#[test]
fn a_bound_plan_runs_on_streams_of_the_caller() {
    let device = sim(4, 3);
    let plan = Gemm::grouped_array(&device, *IMAGE).unwrap().plan(2, [20, 16, 64]).unwrap();
    assert_eq!(plan.problems(), 2);
    let mut case = Case::of(&device, &[[20, 16, 64], [7, 40, 8]], 0);
    let streams = [device.new_stream().unwrap(), device.new_stream().unwrap(), device.stream()];
    let mut table = case.table.part(0, case.table.len()).unwrap();
    let (d, mut info) = (case.d.part(0, case.d.len()).unwrap(), device.alloc(4).unwrap());
    let word = info.part(0, 4).unwrap();
    let bound = plan.bind(&case.a_dev, &case.b_dev, &case.table, &mut case.d).unwrap();
    let bound = bound.with_info(&mut info).unwrap();
    let mut wrong = case.problems.clone();
    wrong[1].k = 0;
    for (turn, stream) in streams.iter().chain(&streams).enumerate() {
        // Every second run skips the last problem.
        let skips = turn % 2 == 1;
        let problems = if skips { &wrong } else { &case.problems };
        table.write(&ArrayProblem::table(problems)).unwrap();
        d.part(0, d.len()).unwrap().fill(0xff).unwrap();
        bound.run(-2.0, stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(word.to_vec().unwrap(), u32::to_ne_bytes(if skips { 2 } else { 0 }));
        let bytes = d.to_vec().unwrap();
        let words: Vec<_> =
            bytes.chunks_exact(2).map(|b| u16::from_ne_bytes([b[0], b[1]])).collect();
        assert!(!words[..20 * 16].contains(&UNTOUCHED), "turn {turn}");
        assert_eq!(words[20 * 16..].contains(&UNTOUCHED), skips, "turn {turn}");
    }
    assert_eq!(plan.bad_problem().unwrap(), None, "no run wrote to the plan's own word");
    plan.synchronize().unwrap();
    // The last run skipped a problem: the first one is right, and the other one as it was.
    let bytes = case.d.to_vec().unwrap();
    let words: Vec<_> = bytes.chunks_exact(2).map(|b| u16::from_ne_bytes([b[0], b[1]])).collect();
    assert_eq!(words, case.expected(|i| i == 0));
}

/// A schedule of the model is one order of its threads.
#[test]
fn every_kernel_under_many_seeds() {
    for (index, instance) in ARRAY_INSTANCES.iter().enumerate() {
        let [rows, columns] = tile(instance);
        let sizes = [[0, 8, 8], [rows + 1, 8, 72], [3, columns + 8, 136], [0, 0, 0], [2, 16, 5]];
        let sms = 2 * instance.gemm.desc.meta.cluster_size();
        for seed in 0..100 {
            let device = sim(sms, seed);
            let gemm = Gemm::grouped_array(&device, *IMAGE).unwrap();
            let plan = gemm.plan_with(sizes.len() as u64, index).unwrap();
            let mut case = Case::of(&device, &sizes, 0);
            assert_eq!(case.run(&plan, |_| true, &format!("seed {seed}")), None);
        }
    }
}

/// Large problems get large tiles, and few rows small ones.
#[test]
fn the_expected_size_picks_the_kernel() {
    let gemm = Gemm::grouped_array(&sim(132, 0), *IMAGE).unwrap();
    let picked = |problems, size| gemm.plan(problems, size).unwrap().kernel();
    assert_eq!(picked(64, [1024, 4096, 4096]), "gemm_grouped_array_bf16_128x256_2x1");
    assert_eq!(picked(64, [100, 1024, 512]), "gemm_grouped_array_bf16_128x128_1x1_pp");
    assert_eq!(picked(64, [16, 1024, 512]), "gemm_grouped_array_bf16_64x128_1x1_pp");
    assert_eq!(picked(1, [0, 0, 0]), "gemm_grouped_array_bf16_64x128_1x1_pp");
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = sim(2, 0);
    let gemm = Gemm::grouped_array(&device, *IMAGE).unwrap();
    for problems in [0, 1 << 21, u64::MAX] {
        let error = gemm.plan(problems, [1, 8, 8]).err().unwrap();
        assert!(matches!(error, Error::Array(ArrayError::Problems { .. })), "{error}");
    }
    assert!(matches!(gemm.plan_with(1, 9), Err(Error::WrongInstance { .. })));
    let plan = gemm.plan(1, [1, 8, 8]).unwrap();
    let case = |bytes: usize| device.alloc_zeroed(bytes).unwrap();
    let (a, b, table, mut d) = (case(64), case(64), case(72), case(64));
    let refused = |result: Result<(), Error>, words: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    };
    refused(plan.run(&a, &b, &case(80), &mut d, 1.0), "72 bytes at a multiple of 8, not 80");
    let all = case(256);
    let part = |offset, bytes| all.part(offset, bytes).unwrap();
    refused(plan.run(&part(1, 64), &b, &table, &mut d, 1.0), "A begins at");
    refused(plan.run(&part(0, 64), &b, &table, &mut part(62, 64), 1.0), "A at");
    refused(plan.run(&a, &b, &part(64, 72), &mut part(0, 66), 1.0), "the table at");
    let other = sim(2, 0).alloc_zeroed(64).unwrap();
    assert!(matches!(plan.run(&a, &other, &table, &mut d, 1.0), Err(Error::ForeignDevice { .. })));
    let foreign = sim(2, 0).new_stream().unwrap();
    let error = plan.bind(&a, &b, &table, &mut d).unwrap().run(1.0, &foreign).unwrap_err();
    assert!(matches!(error, Error::ForeignDevice { .. }), "{error}");
    let mut with_info =
        |info: &mut Buffer| plan.bind(&a, &b, &table, &mut d).unwrap().with_info(info).map(drop);
    let said = "4 bytes at a multiple of 4, apart from the operands and the table";
    for (offset, bytes) in [(0, 8), (2, 4)] {
        refused(with_info(&mut part(offset, bytes)), said);
    }
    refused(with_info(&mut table.part(68, 4).unwrap()), said);
    // A table of zeros is one empty problem.
    plan.run(&a, &b, &table, &mut d, 1.0).unwrap();
    assert_eq!(plan.bad_problem().unwrap(), None);
}
