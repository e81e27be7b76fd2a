//! A product on the SM model, against one in f64: matrices, factors, and launches.

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use isa::cp_async_bulk::TensorMapBytes;
use isa::kernel::{Dtype, LaunchFacts};
use isa::tcgen05::{ScaleFactor, Ue4m3, Ue8m0};
use isa::{E2m1x2, Tf32};
use pipeline::cta::Sharing;
use pipeline::mma::Fragments;
use pipeline::prelude::TensorMap;
use pipeline::tile::{Element, TileShape};
use sim::tensor_map::{DataType, Swizzle, TensorMapDesc, encode};
use sim::{Config, GlobalMemory, Grid};
use warpipe_gpu_kernels::gemm::TileSchedulerParams;

/// An element type as the host sees it.
pub trait Value: Element + Copy {
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
pub trait Factor: ScaleFactor {
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
pub trait Result: Value + Fragments {
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
pub struct Matrix {
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
    pub fn map<T: TileShape, P: Sharing>(&self) -> TensorMap<T, P> {
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
pub fn numbers(n: usize, mut state: u64, whole: bool) -> Vec<f64> {
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (state >> 11) as f64 / (1u64 << 53) as f64;
        if whole { (9.0 * x).floor() - 4.0 } else { 2.0 * x - 1.0 }
    };
    std::iter::repeat_with(next).take(n).collect()
}

/// One thread of a kernel: A, B, D, the block scales, and the scheduler's parameters.
pub type Entry = dyn Fn(&Matrix, &Matrix, &Matrix, &[Matrix], TileSchedulerParams) + Sync;

/// A factor and its byte, of an operand, a row and a block along K.
pub type FactorOf = fn(usize, usize, usize) -> (f64, u8);

/// How a kernel runs: the tile of a cluster, and its launch.
pub struct Kernel<'a> {
    pub cluster_tile: [usize; 2],
    pub k_tile: usize,
    pub facts: Option<LaunchFacts>,
    /// The SMs of the machine, of a kernel with a cluster for each tile.
    pub room: Option<u32>,
    /// Runs one thread, with the matrices A, B and D.
    pub entry: &'a Entry,
    /// Block scales, if there are any: the elements that share one, and what they are ([`Factor::of`]).
    pub factors: Option<(usize, FactorOf)>,
}

pub const ALPHA: f32 = 0.5;

/// The factors of an operand of `rows` rows, in `along_k` blocks of 512 bytes for each 128 of them.
pub fn factors(
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
pub fn run<A: Value, B: Value, O: Result>(
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

/// The number of schedules: `few`, or what `WARPIPE_SEEDS` says.
pub fn seeds(few: u64) -> u64 {
    let seeds = std::env::var("WARPIPE_SEEDS").ok();
    seeds.map_or(few, |n| n.parse().expect("WARPIPE_SEEDS is a number"))
}
