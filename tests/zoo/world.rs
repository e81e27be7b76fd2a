//! What every kernel of the zoo finds: a tensor, room for results, and initialised barriers.

use isa::cp_async_bulk::TensorMapBytes;
use isa::mbarrier;
use sim::tensor_map::{DataType, Swizzle, TensorMapDesc, encode};
use sim::{Config, GlobalMemory, Grid, Launch, Report};

use crate::{Bug, Shape};

pub use zoo_shipped::world::{BOX, OUT, init, init_cluster, meet, smem, tid, warp_id};

/// The arguments of a kernel: global memory, fresh for each run.
pub struct World {
    /// A tensor of 64 by 64 words in boxes of 8 by 8, not swizzled.
    map: TensorMapBytes,
    /// The same tensor as rows 100 to 163 of a map that begins in front of it.
    behind: TensorMapBytes,
    /// The tensor's first word.
    words: u64,
    /// Words for results; zeros at first.
    out: u64,
    /// The same map in global memory, where a kernel can change it.
    slot: u64,
    /// Words that nobody has written, as those of a workspace.
    fresh: u64,
}

impl World {
    fn new(memory: &GlobalMemory) -> Self {
        let (words, out) = (memory.alloc(64 * 64 * 4), memory.alloc(OUT as usize));
        memory.write(out, &[0; OUT as usize]).expect("just allocated");
        let map = |before: u64| {
            let desc = TensorMapDesc {
                dtype: DataType::U32,
                rank: 2,
                addr: words - 256 * before,
                dims: [64, 64 + before, 1, 1, 1],
                strides: [256, 0, 0, 0],
                box_dims: [8, 8, 1, 1, 1],
                swizzle: Swizzle::None,
            };
            encode(&desc).expect("a valid tensor")
        };
        let (map, behind, slot) = (map(0), TensorMapBytes(map(100)), memory.alloc(128));
        let bytes: Vec<u8> = map.iter().flat_map(|word| word.to_le_bytes()).collect();
        memory.write(slot, &bytes).expect("just allocated");
        let fresh = memory.alloc_uninitialised(64).expect("64 bytes");
        Self { map: TensorMapBytes(map), behind, words, out, slot, fresh }
    }
    /// The map in global memory.
    pub fn slot(&self) -> *mut TensorMapBytes {
        self.slot as *mut TensorMapBytes
    }
    /// Word `i` of the map's 32.
    pub fn map_word(&self, i: u32) -> u32 {
        (self.map.0[i as usize / 2] >> (32 * (i % 2))) as u32
    }
    /// The same for the kernels that are shared with a GPU.
    pub fn shared(&self) -> zoo_shipped::world::World {
        let memory = zoo_shipped::world::Memory { words: self.words, out: self.out };
        zoo_shipped::world::World::at(self.map(), memory)
    }
    pub fn map(&self) -> *const TensorMapBytes {
        &raw const self.map
    }
    /// A map whose rows 100 to 163 are the tensor, and whose address lies 100 rows in front of it.
    pub fn behind(&self) -> *const TensorMapBytes {
        &raw const self.behind
    }
    pub fn words(&self) -> *const u8 {
        self.words as *const u8
    }
    /// Word `i` of the tensor's first row.
    pub fn word(&self, i: u32) -> *mut u32 {
        (self.words + 4 * u64::from(i)) as *mut u32
    }
    /// Word `i` of a new workspace.
    pub fn fresh(&self, i: u32) -> *mut u32 {
        (self.fresh + 4 * u64::from(i)) as *mut u32
    }
    /// Word `i` of the results.
    pub fn out(&self, i: u32) -> *mut u32 {
        (self.out + 4 * u64::from(i)) as *mut u32
    }
}

/// Runs an entry's kernel once.
pub fn run(entry: &Bug, bug: bool, seed: u64) -> Result<(), Box<Report>> {
    let shape = if bug { entry.shape } else { entry.right_shape.unwrap_or(entry.shape) };
    let Shape { threads, ctas, cluster, smem, steps } = shape;
    let grid = |name| Grid {
        grid: [ctas, 1, 1],
        block: [threads, 1, 1],
        cluster: [cluster, 1, 1],
        min_ctas: 1,
        smem_bytes: smem,
        name,
    };
    let config = Config { seed, workers: Some(1), max_steps: steps, ..Config::default() };
    let memory = GlobalMemory::new();
    let world = World::new(&memory);
    let kernels = std::iter::once(("zoo", entry.kernel)).chain(entry.dependents.iter().copied());
    let world = &world;
    let kernels: Vec<_> = kernels.map(|(name, f)| (name, move || f(world, bug))).collect();
    let mut launches: Vec<Launch<'_>> = Vec::new();
    for (name, entry) in &kernels {
        launches.push(Launch { grid: grid(name), entry, dependent: !launches.is_empty() });
    }
    sim::launch_all(&config, &memory, &launches).map(|_| ())
}

/// Expects a box at `full`, and loads the tensor's first one to `to`.
///
/// # Safety
/// The contracts of the two instructions.
#[track_caller]
pub unsafe fn load(w: &World, to: u32, full: u32) {
    // SAFETY: the caller's contract.
    unsafe {
        mbarrier::arrive_expect_tx(full, BOX);
        isa::cp_async_bulk::tensor_load(to, w.map(), [0, 0], full);
    }
}
