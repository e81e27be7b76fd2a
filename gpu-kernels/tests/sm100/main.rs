//! The GEMM for Blackwell on the SM model: the only place where it has ever run.

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use isa::cp_async_bulk::TensorMapBytes;
use isa::kernel::{Dtype, KernelArg, LaunchFacts};
use isa::tcgen05::{ScaleFactor, Ue4m3, Ue8m0};
use isa::{E2m1x2, Tf32};
use pipeline::cta::{ClusterShape, OneSm, Sharing, TwoSm};
use pipeline::mma::Fragments;
use pipeline::prelude::{Cluster, Cta, TensorMap, Tile};
use pipeline::tensor::{FACTOR_COLUMNS, UmmaTiles};
use pipeline::tile::{Element, ScaleBlocks, TileShape};
use sim::tensor_map::{DataType, Swizzle, TensorMapDesc, encode};
use sim::{Config, GlobalMemory, Grid};
use warpipe_gpu_kernels::gemm::TileSchedulerParams;
use warpipe_gpu_kernels::sm100::block_scaled::{self, ScaledCta, block_scaled_gemm};
use warpipe_gpu_kernels::sm100::launch_control::{ClcCta, clc_gemm};
use warpipe_gpu_kernels::sm100::pair::{HALF_BN, PairCta, pair_gemm};
use warpipe_gpu_kernels::sm100::pair_block_scaled::{self, ScaledPairCta, block_scaled_pair_gemm};
use warpipe_gpu_kernels::sm100::pair_launch_control::{PairClcCta, pair_clc_gemm};
use warpipe_gpu_kernels::sm100::{self, BM, BN, Scale, TensorCta};

/// An element type as the host sees it.
trait Value: Element + Copy {
    fn of(x: f64) -> Self;
    fn f64(self) -> f64;
    fn bytes(self) -> Vec<u8>;
    /// Numbers of an element.
    const NUMBERS: usize = 1;
    /// The bytes of elements with these numbers.
    fn encode(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|&x| Self::of(x).bytes()).collect()
    }
}
macro_rules! values {
    ($($t:ty, $of:expr, $f64:expr, $bits:expr;)*) => {$(
        impl Value for $t {
            fn of(x: f64) -> Self { $of(x) }
            fn f64(self) -> f64 { f64::from($f64(self)) }
            fn bytes(self) -> Vec<u8> { $bits(self).to_le_bytes().to_vec() }
        }
    )*};
}
values! {
    bf16, bf16::from_f64, bf16::to_f64, bf16::to_bits;
    f16, f16::from_f64, f16::to_f64, f16::to_bits;
    f32, |x| x as f32, |x| x, f32::to_bits;
    Tf32, |x| Tf32::from_f32(x as f32), Tf32::to_f32, Tf32::to_bits;
    F8E4M3, F8E4M3::from_f64, |x: Self| x.to_f32(), |x: Self| x.to_bits();
    F8E5M2, F8E5M2::from_f64, |x: Self| x.to_f32(), |x: Self| x.to_bits();
}

/// A pair. As a number it is the first of the two.
impl Value for E2m1x2 {
    const NUMBERS: usize = 2;
    fn of(x: f64) -> Self {
        Self::from_f32([x as f32, 0.0])
    }
    fn f64(self) -> f64 {
        f64::from(self.to_f32()[0])
    }
    fn bytes(self) -> Vec<u8> {
        vec![self.to_bits()]
    }
    fn encode(values: &[f64]) -> Vec<u8> {
        let pair = |two: &[f64]| Self::from_f32([two[0] as f32, two[1] as f32]).to_bits();
        values.chunks_exact(2).map(pair).collect()
    }
}

/// A type of block scales.
trait Factor: ScaleFactor {
    /// Elements that share a factor.
    const ELEMENTS: usize;
    /// A factor, and its byte.
    fn of(operand: usize, row: usize, block: usize) -> (f64, u8);
}
impl Factor for Ue8m0 {
    const ELEMENTS: usize = 32;
    fn of(operand: usize, row: usize, block: usize) -> (f64, u8) {
        // From 1/2 to 2.
        let exponent = ((7 * row + row / 32 + 5 * block + 3 * operand) % 3) as i32 - 1;
        (2.0_f64.powi(exponent), (127 + exponent) as u8)
    }
}
impl Factor for Ue4m3 {
    const ELEMENTS: usize = 16;
    fn of(operand: usize, row: usize, block: usize) -> (f64, u8) {
        // A sign, four bits of exponent with a bias of 7, three bits of fraction.
        let all = [(0.5, 0x30), (1.75, 0x3e), (1.0, 0x38), (0.75, 0x34), (2.5, 0x42)];
        all[(7 * row + row / 32 + 3 * block + 2 * operand) % all.len()]
    }
}

/// An element type of a result.
trait Result: Value + Fragments {
    fn read(bytes: &[u8]) -> Self;
    /// Half the distance of two neighbours at 1.
    const HALF_STEP: f64;
}
macro_rules! results {
    ($($t:ty, $half_step:expr;)*) => {$(
        impl Result for $t {
            const HALF_STEP: f64 = $half_step;
            fn read(bytes: &[u8]) -> Self { Self::from_le_bytes(bytes.try_into().expect("its size")) }
        }
    )*};
}
results! {
    bf16, 1.0 / 256.0;
    f16, 1.0 / 2048.0;
    f32, 1.0 / 16_777_216.0;
}

/// A row-major matrix in the model's memory.
struct Matrix {
    addr: u64,
    rows: usize,
    cols: usize,
}

impl Matrix {
    fn new<T: Value>(memory: &GlobalMemory, rows: usize, cols: usize, values: &[f64]) -> Self {
        let cols = cols / T::NUMBERS;
        let addr = memory.alloc(rows * cols * T::SIZE);
        let bytes = T::encode(values);
        memory.write(addr, &bytes).expect("just allocated");
        Self { addr, rows, cols }
    }
    fn read<T: Result>(&self, memory: &GlobalMemory) -> Vec<f64> {
        let mut bytes = vec![0; self.rows * self.cols * T::SIZE];
        memory.read(self.addr, &mut bytes).expect("allocated");
        bytes.chunks_exact(T::SIZE).map(|b| T::read(b).f64()).collect()
    }
    fn map<T: TileShape, P: Sharing>(&self) -> TensorMap<T, P> {
        let dtype = match T::Element::DTYPE {
            Dtype::Bf16 => DataType::Bf16,
            Dtype::F16 => DataType::F16,
            Dtype::F32 => DataType::F32,
            Dtype::Tf32 => DataType::Tf32,
            Dtype::I32 => DataType::I32,
            Dtype::E4m3 | Dtype::E5m2 | Dtype::U8 => DataType::U8,
            other => unreachable!("{other:?}"),
        };
        let words = encode(&TensorMapDesc {
            dtype,
            rank: 2,
            addr: self.addr,
            dims: [self.cols as u64, self.rows as u64, 1, 1, 1],
            strides: [(self.cols * T::Element::SIZE) as u64, 0, 0, 0],
            box_dims: [T::COLS as u32, TensorMap::<T, P>::BOX_ROWS as u32, 1, 1, 1],
            swizzle: if T::SWIZZLE == 0 { Swizzle::None } else { Swizzle::B128 },
        })
        .expect("a valid tensor");
        // SAFETY: the box, the element and the swizzle are the tile's; the memory outlives the run.
        unsafe { TensorMap::from_bytes(TensorMapBytes(words)) }
    }
}

/// Numbers that look random, from -1 to 1, or whole ones from -4 to 4.
fn numbers(n: usize, mut state: u64, whole: bool) -> Vec<f64> {
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (state >> 11) as f64 / (1u64 << 53) as f64;
        if whole { (9.0 * x).floor() - 4.0 } else { 2.0 * x - 1.0 }
    };
    std::iter::repeat_with(next).take(n).collect()
}

/// One thread of a kernel: A, B, D, the block scales, and the scheduler's parameters.
type Entry = dyn Fn(&Matrix, &Matrix, &Matrix, &[Matrix], TileSchedulerParams) + Sync;

/// A factor and its byte, of an operand, a row and a block along K.
type FactorOf = fn(usize, usize, usize) -> (f64, u8);

/// How a kernel runs: the tile of a cluster, and its launch.
struct Kernel<'a> {
    cluster_tile: [usize; 2],
    k_tile: usize,
    facts: Option<LaunchFacts>,
    /// The SMs of the machine, of a kernel with a cluster for each tile.
    room: Option<u32>,
    /// Runs one thread, with the matrices A, B and D.
    entry: &'a Entry,
    /// Block scales, if there are any: the elements that share one, and what they are ([`Factor::of`]).
    factors: Option<(usize, FactorOf)>,
}

const ALPHA: f32 = 0.5;

/// The factors of an operand of `rows` rows, in `along_k` blocks of 512 bytes for each 128 of them.
fn factors(
    memory: &GlobalMemory,
    byte: impl Fn(usize, usize) -> u8,
    rows: usize,
    along_k: usize,
) -> Matrix {
    let blocks = rows.div_ceil(128);
    let mut bytes = vec![0_u8; blocks * along_k * 512];
    for row in 0..128 * blocks {
        for i in 0..4 * along_k {
            // Figure of the manual: four rows of a word's columns, four factors along K in its bytes.
            let block = row / 128 * along_k + i / 4;
            bytes[512 * block + 16 * (row % 32) + 4 * (row % 128 / 32) + i % 4] = byte(row, i);
        }
    }
    let addr = memory.alloc(bytes.len());
    memory.write(addr, &bytes).expect("just allocated");
    Matrix { addr, rows: blocks * along_k, cols: 128 }
}

/// Multiplies on the model with `clusters` clusters, and compares with the f64 product. `A` and `B` are the element types of
/// the operands.
fn run<A: Value, B: Value, O: Result>(
    kernel: &Kernel<'_>,
    [m, n, k]: [usize; 3],
    clusters: u32,
    whole: bool,
    seeds: u64,
) {
    let memory = GlobalMemory::new();
    let (a, b) = (numbers(m * k, 1, whole), numbers(n * k, 2, whole));
    let factor = |operand, i: usize| {
        kernel.factors.map_or(1.0, |(elements, of)| of(operand, i / k, i % k / elements).0)
    };
    let a_values: Vec<_> = (0..).zip(&a).map(|(i, &x)| A::of(x).f64() * factor(0, i)).collect();
    let b_values: Vec<_> = (0..).zip(&b).map(|(i, &x)| B::of(x).f64() * factor(1, i)).collect();
    let scales: Vec<_> = kernel
        .factors
        .iter()
        .flat_map(|&(elements, of)| {
            let k_tiles = k.div_ceil(kernel.k_tile);
            let blocks = kernel.k_tile / elements / 4;
            [(0, m), (1, n)].map(|(operand, rows)| {
                factors(&memory, |row, block| of(operand, row, block).1, rows, k_tiles * blocks)
            })
        })
        .collect();
    let a = Matrix::new::<A>(&memory, m, k, &a);
    let b = Matrix::new::<B>(&memory, n, k, &b);
    let [rows, columns] = kernel.cluster_tile;
    let tiles = [m.div_ceil(rows) as u32, n.div_ceil(columns) as u32];
    let scheduler =
        TileSchedulerParams::new(tiles, k.div_ceil(kernel.k_tile) as u32, 2, clusters, 0);
    let Some(LaunchFacts { threads, min_ctas, cluster, smem_bytes }) = kernel.facts else {
        unreachable!("a token says what its launch needs")
    };
    let launched = if kernel.room.is_some() { tiles[0] * tiles[1] } else { clusters };
    let mut ran = 0;
    for seed in 0..seeds {
        let d = Matrix::new::<O>(&memory, m, n, &vec![f64::NAN; m * n]);
        let grid = Grid {
            grid: [launched * cluster.iter().product::<u32>(), 1, 1],
            block: [threads, 1, 1],
            cluster,
            min_ctas,
            smem_bytes,
            name: "gemm_sm100",
        };
        let base = Config::default();
        let sms = kernel.room.unwrap_or(base.sms);
        let config = Config { seed, workers: Some(1), sms, ..base };
        let entry = || (kernel.entry)(&a, &b, &d, &scales, scheduler);
        match sim::launch(&config, &memory, &grid, &entry) {
            Err(report) => panic!("{m} x {n} x {k}, seed {seed}:\n{report}"),
            Ok(stats) => ran += stats.clusters,
        }
        for (i, got) in d.read::<O>(&memory).into_iter().enumerate() {
            let (row, col) = (i / n, i % n);
            let pairs = || (0..k).map(|k_at| a_values[row * k + k_at] * b_values[col * k + k_at]);
            let (sum, size) = (pairs().sum::<f64>(), pairs().map(f64::abs).sum::<f64>());
            let want = f64::from(ALPHA) * sum;
            let within = if whole {
                // Each partial sum is a whole number below 2^24: f32 holds it.
                O::of(want).f64().to_bits() == got.to_bits() || (want == 0.0 && got == 0.0)
            } else {
                let rounding = k as f64 * f64::from(f32::EPSILON) * size * f64::from(ALPHA);
                let last = O::HALF_STEP * (want.abs() + rounding);
                (got - want).abs() <= rounding + last + f64::from(f32::MIN_POSITIVE)
            };
            assert!(within, "{m} x {n} x {k}, seed {seed}: D({row}, {col}) is {got}, not {want}");
        }
    }
    if kernel.room.is_some() {
        assert!(ran < seeds * u64::from(launched), "no launch was cancelled");
    }
}

/// Runs the GEMM of single CTAs, in clusters of shape `Cl`. `A` and `B` are the tiles of the operands.
fn check<A, B, O, Cl>(shape: [usize; 3], clusters: u32, whole: bool, seeds: u64)
where
    A: TileShape<Element: Value> + Sync,
    B: TileShape<Element: Value> + Sync,
    (A, B): UmmaTiles<BN>,
    O: Result,
    sm100::TileD<O>: Sync,
    Cl: ClusterShape<SharesA: Sync, SharesB: Sync>,
{
    let entry = |a: &Matrix, b: &Matrix, d: &Matrix, _: &[Matrix], scheduler| {
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let cta: TensorCta<A, B, O, Cl> = unsafe { Cta::enter() };
        let (a, b, d) = (a.map(), b.map(), d.map());
        sm100::tensor_gemm::<A, B, O, Scale, Cl>(
            cta,
            &a,
            &b,
            &d,
            Scale { alpha: ALPHA },
            scheduler,
        );
    };
    let kernel = Kernel {
        cluster_tile: [BM * Cl::M, BN * Cl::N],
        k_tile: A::COLS,
        facts: <TensorCta<A, B, O, Cl> as KernelArg>::LAUNCH,
        room: None,
        entry: &entry,
        factors: None,
    };
    run::<A::Element, B::Element, O>(&kernel, shape, clusters, whole, seeds);
}

/// Runs the GEMM with launch control, on a machine with room for `clusters` clusters.
fn check_clc<A, B, O, Cl>(shape: [usize; 3], clusters: u32, whole: bool, seeds: u64)
where
    A: TileShape<Element: Value> + Sync,
    B: TileShape<Element: Value> + Sync,
    (A, B): UmmaTiles<BN>,
    O: Result,
    sm100::TileD<O>: Sync,
    Cl: ClusterShape<SharesA: Sync, SharesB: Sync>,
{
    let entry = |a: &Matrix, b: &Matrix, d: &Matrix, _: &[Matrix], scheduler| {
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let cta: ClcCta<A, B, O, Cl> = unsafe { Cta::enter() };
        let (a, b, d) = (a.map(), b.map(), d.map());
        clc_gemm::<A, B, O, Scale, Cl>(cta, &a, &b, &d, Scale { alpha: ALPHA }, scheduler);
    };
    let kernel = Kernel {
        cluster_tile: [BM * Cl::M, BN * Cl::N],
        k_tile: A::COLS,
        facts: <ClcCta<A, B, O, Cl> as KernelArg>::LAUNCH,
        room: Some(clusters * Cl::SIZE as u32),
        entry: &entry,
        factors: None,
    };
    run::<A::Element, B::Element, O>(&kernel, shape, clusters, whole, seeds);
}

/// Runs the GEMM with block scales of type `F`.
fn check_scaled<A, B, F, const BLOCKS: usize, O>(
    shape: [usize; 3],
    clusters: u32,
    whole: bool,
    seeds: u64,
) where
    A: TileShape<Element: Value> + Sync,
    B: TileShape<Element: Value> + Sync,
    F: Factor + Sync,
    (A, B, ScaleBlocks<F, BLOCKS>, ScaleBlocks<F, BLOCKS>):
        UmmaTiles<{ block_scaled::BN }, OneSm, FACTOR_COLUMNS>,
    O: Result,
    sm100::TileD<O>: Sync,
{
    let entry = |a: &Matrix, b: &Matrix, d: &Matrix, scales: &[Matrix], scheduler| {
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let cta: ScaledCta<A, B, ScaleBlocks<F, BLOCKS>, O> = unsafe { Cta::enter() };
        let (a, b, d, scales) = (a.map(), b.map(), d.map(), [scales[0].map(), scales[1].map()]);
        let scale = Scale { alpha: ALPHA };
        block_scaled_gemm(cta, (&a, &b), (&scales[0], &scales[1]), &d, scale, scheduler);
    };
    let kernel = Kernel {
        cluster_tile: [BM, block_scaled::BN],
        k_tile: A::COLS * A::Element::NUMBERS,
        facts: <ScaledCta<A, B, ScaleBlocks<F, BLOCKS>, O> as KernelArg>::LAUNCH,
        room: None,
        entry: &entry,
        factors: Some((F::ELEMENTS, F::of)),
    };
    run::<A::Element, B::Element, O>(&kernel, shape, clusters, whole, seeds);
}

/// Runs the GEMM of pairs.
fn check_pair<A, B, O>(shape: [usize; 3], clusters: u32, whole: bool, seeds: u64)
where
    A: TileShape<Element: Value> + Sync,
    B: TileShape<Element: Value> + Sync,
    (A, B): UmmaTiles<BN, TwoSm>,
    O: Result,
    sm100::TileD<O>: Sync,
{
    let entry = |a: &Matrix, b: &Matrix, d: &Matrix, _: &[Matrix], scheduler| {
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let cta: PairCta<A, B, O> = unsafe { Cta::enter() };
        let (a, b, d) = (a.map(), b.map(), d.map());
        pair_gemm::<A, B, O, Scale>(cta, &a, &b, &d, Scale { alpha: ALPHA }, scheduler);
    };
    let kernel = Kernel {
        cluster_tile: [2 * BM, BN],
        k_tile: A::COLS,
        facts: <PairCta<A, B, O> as KernelArg>::LAUNCH,
        room: None,
        entry: &entry,
        factors: None,
    };
    run::<A::Element, B::Element, O>(&kernel, shape, clusters, whole, seeds);
}

/// Runs the GEMM of pairs with block scales of type `F`.
fn check_scaled_pair<A, B, F, const BLOCKS: usize, O>(
    shape: [usize; 3],
    clusters: u32,
    whole: bool,
    seeds: u64,
) where
    A: TileShape<Element: Value> + Sync,
    B: TileShape<Element: Value> + Sync,
    F: Factor + Sync,
    (A, B, ScaleBlocks<F, BLOCKS>, ScaleBlocks<F, BLOCKS>):
        UmmaTiles<{ pair_block_scaled::BN }, TwoSm, FACTOR_COLUMNS>,
    O: Result,
    sm100::TileD<O>: Sync,
{
    let entry = |a: &Matrix, b: &Matrix, d: &Matrix, scales: &[Matrix], scheduler| {
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let cta: ScaledPairCta<A, B, ScaleBlocks<F, BLOCKS>, O> = unsafe { Cta::enter() };
        let (a, b, d, scales) = (a.map(), b.map(), d.map(), [scales[0].map(), scales[1].map()]);
        let scale = Scale { alpha: ALPHA };
        block_scaled_pair_gemm(cta, (&a, &b), (&scales[0], &scales[1]), &d, scale, scheduler);
    };
    let kernel = Kernel {
        cluster_tile: [2 * BM, pair_block_scaled::BN],
        k_tile: A::COLS * A::Element::NUMBERS,
        facts: <ScaledPairCta<A, B, ScaleBlocks<F, BLOCKS>, O> as KernelArg>::LAUNCH,
        room: None,
        entry: &entry,
        factors: Some((F::ELEMENTS, F::of)),
    };
    run::<A::Element, B::Element, O>(&kernel, shape, clusters, whole, seeds);
}

/// The same with launch control, on a machine with room for `clusters` pairs.
fn check_pair_clc<A, B, O>(shape: [usize; 3], clusters: u32, whole: bool, seeds: u64)
where
    A: TileShape<Element: Value> + Sync,
    B: TileShape<Element: Value> + Sync,
    (A, B): UmmaTiles<BN, TwoSm>,
    O: Result,
    sm100::TileD<O>: Sync,
{
    let entry = |a: &Matrix, b: &Matrix, d: &Matrix, _: &[Matrix], scheduler| {
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let cta: PairClcCta<A, B, O> = unsafe { Cta::enter() };
        let (a, b, d) = (a.map(), b.map(), d.map());
        pair_clc_gemm::<A, B, O, Scale>(cta, &a, &b, &d, Scale { alpha: ALPHA }, scheduler);
    };
    let kernel = Kernel {
        cluster_tile: [2 * BM, BN],
        k_tile: A::COLS,
        facts: <PairClcCta<A, B, O> as KernelArg>::LAUNCH,
        room: Some(2 * clusters),
        entry: &entry,
        factors: None,
    };
    run::<A::Element, B::Element, O>(&kernel, shape, clusters, whole, seeds);
}

fn seeds(few: u64) -> u64 {
    let seeds = std::env::var("WARPIPE_SEEDS").ok();
    seeds.map_or(few, |n| n.parse().expect("WARPIPE_SEEDS is a number"))
}

/// [`check`] with tiles of operands of two types, in clusters.
macro_rules! check {
    (clc $a:ty [$k:literal], $b:ty => $o:ty, cluster $m:literal x $n:literal, $($rest:tt)*) => {
        check_clc::<Tile<$a, BM, $k>, Tile<$b, BN, $k>, $o, Cluster<$m, $n>>($($rest)*)
    };
    (mx $a:ty, $b:ty => $o:ty, $($rest:tt)*) => {
        check_scaled::<Tile<$a, BM, 128>, Tile<$b, BM, 128>, Ue8m0, 1, $o>($($rest)*)
    };
    (mxf4 => $o:ty, $($rest:tt)*) => {
        check_scaled::<Tile<E2m1x2, BM, 128>, Tile<E2m1x2, BM, 128>, Ue8m0, 2, $o>($($rest)*)
    };
    (nvf4 => $o:ty, $($rest:tt)*) => {
        check_scaled::<Tile<E2m1x2, BM, 128>, Tile<E2m1x2, BM, 128>, Ue4m3, 4, $o>($($rest)*)
    };
    (pair mx $a:ty, $b:ty => $o:ty, $($rest:tt)*) => {
        check_scaled_pair::<Tile<$a, BM, 128>, Tile<$b, 64, 128>, Ue8m0, 1, $o>($($rest)*)
    };
    (pair mxf4 => $o:ty, $($rest:tt)*) => {
        check_scaled_pair::<Tile<E2m1x2, BM, 128>, Tile<E2m1x2, 64, 128>, Ue8m0, 2, $o>($($rest)*)
    };
    (pair nvf4 => $o:ty, $($rest:tt)*) => {
        check_scaled_pair::<Tile<E2m1x2, BM, 128>, Tile<E2m1x2, 64, 128>, Ue4m3, 4, $o>($($rest)*)
    };
    (pair clc $a:ty [$k:literal], $b:ty => $o:ty, $($rest:tt)*) => {
        check_pair_clc::<Tile<$a, BM, $k>, Tile<$b, HALF_BN, $k>, $o>($($rest)*)
    };
    (pair $a:ty [$k:literal], $b:ty => $o:ty, $($rest:tt)*) => {
        check_pair::<Tile<$a, BM, $k>, Tile<$b, HALF_BN, $k>, $o>($($rest)*)
    };
    ($a:ty [$k:literal], $b:ty => $o:ty, cluster $m:literal x $n:literal, $($rest:tt)*) => {
        check::<Tile<$a, BM, $k>, Tile<$b, BN, $k>, $o, Cluster<$m, $n>>($($rest)*)
    };
    ($a:ty [$k:literal], $b:ty => $o:ty, $($rest:tt)*) => {
        check!($a [$k], $b => $o, cluster 1 x 1, $($rest)*)
    };
}

#[test]
fn one_tile_of_whole_numbers_is_exact() {
    check!(bf16 [64], bf16 => f32, [BM, BN, 192], 1, true, seeds(4));
    check!(F8E4M3 [128], F8E4M3 => f32, [BM, BN, 384], 1, true, seeds(2));
    check!(Tf32 [32], Tf32 => f32, [BM, BN, 96], 1, true, seeds(2));
}

/// More k tiles than stages, and tiles with rows, columns and K that are no multiples.
#[test]
fn residues_of_every_dimension() {
    check!(bf16 [64], bf16 => bf16, [200, 312, 5 * 64 + 24], 2, false, seeds(2));
    check!(f16 [64], f16 => f16, [72, 264, 40], 1, false, seeds(2));
    check!(F8E4M3 [128], F8E4M3 => bf16, [140, 264, 5 * 128 + 48], 2, false, seeds(1));
    check!(Tf32 [32], Tf32 => f32, [72, 264, 5 * 32 + 12], 1, false, seeds(1));
}

/// One CTA computes five tiles: the accumulators come round twice.
#[test]
fn the_accumulators_are_used_in_turn() {
    check!(f16 [64], f16 => f32, [5 * BM - 56, BN - 8, 64], 1, true, seeds(3));
}

#[test]
fn operands_and_results_of_other_types() {
    check!(bf16 [64], bf16 => f16, [BM, 64, 72], 1, false, seeds(1));
    check!(f16 [64], f16 => bf16, [16, BN, 136], 1, false, seeds(1));
}

/// A and B have types of one kind, in any mix.
#[test]
fn operands_of_two_types() {
    check!(bf16 [64], f16 => f32, [BM, 64, 72], 1, false, seeds(1));
    check!(F8E5M2 [128], F8E4M3 => f32, [BM, 64, 144], 1, false, seeds(1));
}

/// The CTAs of a cluster share tiles. One CTA of the last cluster has no row of D.
#[test]
fn clusters_share_operands() {
    check!(bf16 [64], bf16 => f32, cluster 2 x 1, [5 * BM - 56, BN, 5 * 64 + 8], 1, true, seeds(3));
    check!(F8E4M3 [128], F8E4M3 => bf16, cluster 2 x 1, [3 * BM, 2 * BN - 8, 144], 2, false, seeds(2));
    check!(f16 [64], f16 => f16, cluster 1 x 2, [BM, 3 * BN, 6 * 64], 1, false, seeds(2));
    check!(bf16 [64], bf16 => bf16, cluster 2 x 2, [2 * BM, 2 * BN, 5 * 64], 1, false, seeds(1));
}

#[test]
fn a_pair_multiplies_whole_numbers_exactly() {
    check!(pair bf16 [64], bf16 => f32, [2 * BM, BN, 192], 1, true, seeds(4));
    check!(pair F8E4M3 [128], F8E4M3 => f32, [2 * BM, BN, 384], 1, true, seeds(2));
    check!(pair Tf32 [32], Tf32 => f32, [2 * BM, BN, 96], 1, true, seeds(1));
}

/// More k tiles than stages, and tiles with rows, columns and K that are no multiples. One CTA of the last pair has no row.
#[test]
fn residues_of_a_pair() {
    check!(pair bf16 [64], bf16 => bf16, [300, 312, 7 * 64 + 24], 2, false, seeds(2));
    check!(pair f16 [64], f16 => f16, [72, 264, 40], 1, false, seeds(2));
    check!(pair F8E4M3 [128], F8E5M2 => bf16, [260, 120, 7 * 128 + 48], 1, false, seeds(1));
}

/// One pair computes five tiles: the accumulators come round twice.
#[test]
fn the_accumulators_of_a_pair_are_used_in_turn() {
    check!(pair f16 [64], f16 => f32, [5 * 2 * BM - 56, BN - 8, 64], 1, true, seeds(3));
}

/// Seven tiles, and room for two or three clusters: the others are cancelled, or start when there is room.
#[test]
fn launch_control_hands_out_every_tile_once() {
    check!(clc bf16 [64], bf16 => f32, cluster 1 x 1, [7 * BM - 56, BN - 8, 72], 2, true, seeds(6));
    check!(clc f16 [64], f16 => f16, cluster 1 x 1, [3 * BM, 2 * BN, 136], 3, false, seeds(2));
}

/// The CTAs of a cluster get the same answers.
#[test]
fn launch_control_in_clusters() {
    check!(clc bf16 [64], bf16 => f32, cluster 2 x 1, [9 * BM, BN, 64], 2, true, seeds(4));
}

/// Both CTAs of a pair get the same answers, and the thread that multiplies for both; the accumulators come round.
#[test]
fn launch_control_of_pairs() {
    check!(pair clc bf16 [64], bf16 => f32, [9 * 2 * BM - 136, BN - 8, 72], 2, true, seeds(4));
    check!(pair clc F8E4M3 [128], F8E4M3 => bf16, [2 * BM + 8, BN + 40, 7 * 128 + 16], 1, false, seeds(1));
}

#[test]
fn block_scales_of_whole_numbers_are_exact() {
    check!(mx F8E4M3, F8E4M3 => f32, [BM, 128, 384], 1, true, seeds(4));
    check!(mx F8E5M2, F8E4M3 => f32, [BM, 128, 256], 1, true, seeds(1));
}

/// More k tiles than stages, residues, and accumulators that come round.
#[test]
fn block_scales_with_residues() {
    check!(mx F8E4M3, F8E4M3 => bf16, [200, 312, 7 * 128 + 48], 2, false, seeds(2));
    check!(mx F8E4M3, F8E4M3 => f32, [5 * BM - 56, 120, 144], 1, true, seeds(2));
}

#[test]
fn mxf4_of_whole_numbers_is_exact() {
    check!(mxf4 => f32, [BM, 128, 512], 1, true, seeds(2));
    check!(mxf4 => f32, [5 * BM - 56, 120, 288], 1, true, seeds(1));
}

#[test]
fn nvf4_of_whole_numbers_is_exact() {
    check!(nvf4 => f32, [BM, 128, 768], 1, true, seeds(4));
}

/// More k tiles than stages, residues, and accumulators that come round.
#[test]
fn nvf4_with_residues() {
    check!(nvf4 => bf16, [200, 312, 6 * 256 + 96], 2, false, seeds(2));
    check!(nvf4 => f32, [5 * BM - 56, 120, 288], 1, true, seeds(2));
}

#[test]
fn block_scales_of_a_pair_of_whole_numbers_are_exact() {
    check!(pair mx F8E4M3, F8E4M3 => f32, [2 * BM, 128, 384], 1, true, seeds(4));
    check!(pair mx F8E5M2, F8E4M3 => f32, [2 * BM, 128, 256], 1, true, seeds(1));
    check!(pair mxf4 => f32, [2 * BM, 128, 512], 1, true, seeds(1));
    check!(pair nvf4 => f32, [2 * BM, 128, 768], 1, true, seeds(2));
}

/// More k tiles than stages, and residues. One CTA of the last pair has no row.
#[test]
fn block_scales_of_a_pair_with_residues() {
    check!(pair mx F8E4M3, F8E4M3 => bf16, [300, 312, 7 * 128 + 48], 2, false, seeds(2));
    check!(pair nvf4 => bf16, [260, 200, 7 * 256 + 96], 1, false, seeds(1));
}

/// One pair computes five tiles: the accumulators come round twice.
#[test]
fn block_scales_of_a_pair_in_accumulators_used_in_turn() {
    check!(pair mx F8E4M3, F8E4M3 => f32, [5 * 2 * BM - 56, 120, 144], 1, true, seeds(2));
    check!(pair nvf4 => f32, [3 * 2 * BM - 136, 120, 288], 1, true, seeds(2));
}

/// For each type of operands: K with a residue; more k tiles than stages, and residues of all three; accumulators that come
/// round; two clusters.
macro_rules! four_shapes {
    ($($name:ident: $k:literal, [$($operands:tt)*];)*) => {$(
        #[test]
        fn $name() {
            for (shape, clusters) in [
                ([BM, 128, $k + $k / 2], 1),
                ([72, 40, 6 * $k + $k / 4], 1),
                ([3 * BM - 56, 120, $k], 1),
                ([200, 280, $k], 2),
            ] {
                check!($($operands)* => f32, shape, clusters, true, seeds(1));
            }
        }
    )*};
}
four_shapes! {
    four_shapes_of_bf16: 64, [bf16 [64], bf16];
    four_shapes_of_f16: 64, [f16 [64], f16];
    four_shapes_of_e4m3: 128, [F8E4M3 [128], F8E4M3];
    four_shapes_of_mxf8: 128, [mx F8E4M3, F8E4M3];
    four_shapes_of_nvf4: 256, [nvf4];
    four_shapes_of_mxf8_by_pairs: 128, [pair mx F8E4M3, F8E4M3];
    four_shapes_of_nvf4_by_pairs: 256, [pair nvf4];
}
