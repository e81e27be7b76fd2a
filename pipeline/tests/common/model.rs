// Runs a kernel on the SM model, and looks at its data. Included, as a module's text, by the tests and
// by those examples of the documentation that run: no inner attribute or comment can stand here.

use half::bf16;
use isa::cp_async_bulk::TensorMapBytes;
use isa::kernel::{Dtype, KernelArg, LaunchFacts};
use isa::slice::{DeviceSlice, SliceAbi};
use warpipe_pipeline::cta::{ClusterShape, Sharing};
use warpipe_pipeline::prelude::*;
use warpipe_pipeline::cta::{Regions, Roles};
use warpipe_pipeline::tile::{Element, TileShape};
use sim::tensor_map::{DataType, Swizzle, TensorMapDesc, encode};
use sim::{Config, GlobalMemory, Grid, Report, Stats};

/// A row-major bf16 matrix in the model's global memory.
pub struct Image {
    memory: GlobalMemory,
    addr: u64,
    rows: usize,
    cols: usize,
}

impl Image {
    /// A matrix of given values.
    pub fn new(memory: &GlobalMemory, rows: usize, cols: usize, f: impl Fn(usize) -> f32) -> Self {
        let addr = memory.alloc(rows * cols * 2);
        let values: Vec<u8> =
            (0..rows * cols).flat_map(|i| bf16::from_f32(f(i)).to_le_bytes()).collect();
        memory.write(addr, &values).expect("just allocated");
        Self { memory: memory.clone(), addr, rows, cols }
    }
    /// Its elements, as a kernel's argument.
    pub fn slice(&self) -> DeviceSlice<'_, bf16> {
        let abi = SliceAbi { address: self.addr, elements: (self.rows * self.cols) as u64 };
        // SAFETY: the memory outlives the run, and nobody else has it as an argument.
        unsafe { DeviceSlice::from_abi(abi) }
    }
    /// What it holds now.
    pub fn read(&self) -> Vec<f32> {
        let mut bytes = vec![0; self.rows * self.cols * 2];
        self.memory.read(self.addr, &mut bytes).expect("allocated");
        bytes.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
    }
    /// Its tensor map in tiles of `T`, shared by `P`.
    pub fn map<T: TileShape, P: Sharing>(&self) -> TensorMap<T, P> {
        assert_eq!(T::Element::DTYPE, Dtype::Bf16);
        let words = encode(&TensorMapDesc {
            dtype: DataType::Bf16,
            rank: 2,
            addr: self.addr,
            dims: [self.cols as u64, self.rows as u64, 1, 1, 1],
            strides: [self.cols as u64 * 2, 0, 0, 0],
            box_dims: [T::COLS as u32, TensorMap::<T, P>::BOX_ROWS as u32, 1, 1, 1],
            swizzle: Swizzle::B128,
        })
        .expect("a valid tensor");
        // SAFETY: the box, the element and the swizzle are the tile's; the memory outlives the run.
        unsafe { TensorMap::from_bytes(TensorMapBytes(words)) }
    }
}

/// Runs `kernel` in one cluster on the model.
pub fn run<R: Roles, K: ClusterShape, P: Regions>(
    seed: u64,
    memory: &GlobalMemory,
    kernel: impl Fn(Cta<R, K, SmemPlan<P>>) + Sync,
) -> Result<Stats, Box<Report>> {
    let config = Config { seed, workers: Some(1), ..Config::default() };
    run_with(&config, memory, kernel)
}

/// The same with a configuration.
pub fn run_with<R: Roles, K: ClusterShape, P: Regions>(
    config: &Config,
    memory: &GlobalMemory,
    kernel: impl Fn(Cta<R, K, SmemPlan<P>>) + Sync,
) -> Result<Stats, Box<Report>> {
    run_clusters(config, memory, 1, kernel)
}

/// The same in several clusters.
pub fn run_clusters<R: Roles, K: ClusterShape, P: Regions>(
    config: &Config,
    memory: &GlobalMemory,
    clusters: u32,
    kernel: impl Fn(Cta<R, K, SmemPlan<P>>) + Sync,
) -> Result<Stats, Box<Report>> {
    let Some(LaunchFacts { threads, min_ctas, cluster, smem_bytes }) =
        <Cta<R, K, SmemPlan<P>> as KernelArg>::LAUNCH
    else {
        unreachable!("a token says what its launch needs")
    };
    let block = [threads, 1, 1];
    let grid = [clusters * cluster[0], cluster[1], cluster[2]];
    let grid = Grid { grid, block, cluster, min_ctas, smem_bytes, name: "test" };
    // SAFETY: the first thing that each thread does, in a launch of the token's shape.
    sim::launch(config, memory, &grid, &|| kernel(unsafe { Cta::enter() }))
}
