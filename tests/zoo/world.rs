//! What every kernel of the zoo finds: a tensor, room for results, and initialised barriers.

use isa::cp_async_bulk::TensorMapBytes;
use isa::{fence, mbarrier, shared, thread};
use sim::tensor_map::{DataType, Swizzle, TensorMapDesc, encode};
use sim::{Config, GlobalMemory, Grid, Report};

use crate::{Bug, Shape};

/// Bytes of a box of the tensor: 8 by 8 words.
pub const BOX: u32 = 256;
/// Bytes at [`World::out`].
pub const OUT: u32 = 4096;

/// The arguments of a kernel: global memory, fresh for each run.
pub struct World {
    /// A tensor of 64 by 64 words in boxes of 8 by 8, not swizzled.
    map: TensorMapBytes,
    /// The tensor's first word.
    words: u64,
    /// Words for results; zeros at first.
    out: u64,
    /// The same map in global memory, where a kernel can change it.
    slot: u64,
}

impl World {
    fn new(memory: &GlobalMemory) -> Self {
        let (words, out) = (memory.alloc(64 * 64 * 4), memory.alloc(OUT as usize));
        memory.write(out, &[0; OUT as usize]).expect("just allocated");
        let map = encode(&TensorMapDesc {
            dtype: DataType::U32,
            rank: 2,
            addr: words,
            dims: [64, 64, 1, 1, 1],
            strides: [256, 0, 0, 0],
            box_dims: [8, 8, 1, 1, 1],
            swizzle: Swizzle::None,
        });
        let (map, slot) = (map.expect("a valid tensor"), memory.alloc(128));
        let bytes: Vec<u8> = map.iter().flat_map(|word| word.to_le_bytes()).collect();
        memory.write(slot, &bytes).expect("just allocated");
        Self { map: TensorMapBytes(map), words, out, slot }
    }
    /// The map in global memory.
    pub fn slot(&self) -> *mut TensorMapBytes {
        self.slot as *mut TensorMapBytes
    }
    /// Word `i` of the map's 32.
    pub fn map_word(&self, i: u32) -> u32 {
        (self.map.0[i as usize / 2] >> (32 * (i % 2))) as u32
    }
    pub fn map(&self) -> *const TensorMapBytes {
        &raw const self.map
    }
    pub fn words(&self) -> *const u8 {
        self.words as *const u8
    }
    /// Word `i` of the tensor's first row.
    pub fn word(&self, i: u32) -> *mut u32 {
        (self.words + 4 * u64::from(i)) as *mut u32
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
    let grid = Grid {
        grid: [ctas, 1, 1],
        block: [threads, 1, 1],
        cluster: [cluster, 1, 1],
        min_ctas: 1,
        smem_bytes: smem,
        name: "zoo",
    };
    let config = Config { seed, workers: Some(1), max_steps: steps, ..Config::default() };
    let memory = GlobalMemory::new();
    let world = World::new(&memory);
    sim::launch(&config, &memory, &grid, &|| (entry.kernel)(&world, bug)).map(|_| ())
}

/// Shared address `at`.
pub fn smem(at: u32) -> u32 {
    shared::dynamic_base() + at
}

pub fn tid() -> u32 {
    thread::thread_idx_x()
}

/// The warp's number: no instruction, so that it may be asked in divergent code.
pub fn warp_id() -> u32 {
    tid() / 32
}

/// Initialises an mbarrier of `counts[i]` arrivals at shared address `8 i`, and lets the CTA and the
/// asynchronous proxy know.
pub fn init<const N: usize>(counts: [u32; N]) -> [u32; N] {
    let bars = std::array::from_fn(|i| smem(8 * i as u32));
    if tid() == 0 {
        for (bar, count) in bars.iter().zip(counts) {
            // SAFETY: once, at the start of the kernel, on memory that nothing else uses.
            unsafe { mbarrier::init(*bar, count) };
        }
        fence::mbarrier_init_release_cluster();
    }
    // SAFETY: all threads come.
    unsafe { thread::sync_threads() };
    bars
}

/// The same in each CTA of a cluster, whose peers may use the barriers after it.
pub fn init_cluster<const N: usize>(counts: [u32; N]) -> [u32; N] {
    let bars = init(counts);
    meet();
    bars
}

/// All threads of the cluster meet.
#[track_caller]
pub fn meet() {
    // SAFETY: all threads come, and do both.
    unsafe {
        isa::cluster::arrive_release();
        isa::cluster::wait_acquire();
    }
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
