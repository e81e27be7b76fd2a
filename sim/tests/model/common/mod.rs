//! Launching small kernels.

pub mod twins;

use sim::{Config, GlobalMemory, Grid, Report, Rule, Stats};
use std::sync::Mutex;

/// Threads, CTAs of the one cluster, and bytes of shared memory.
#[derive(Clone, Copy)]
pub struct Shape(pub u32, pub u32, pub u32);

/// Runs a kernel on one cluster.
pub fn run_on(
    memory: &GlobalMemory,
    seed: u64,
    shape: Shape,
    kernel: impl Fn() + Sync,
) -> Result<Stats, Box<Report>> {
    run_with(&Config { seed, ..Config::default() }, memory, shape, kernel)
}

/// The same as a configuration says.
pub fn run_with(
    config: &Config,
    memory: &GlobalMemory,
    Shape(threads, ctas, smem_bytes): Shape,
    kernel: impl Fn() + Sync,
) -> Result<Stats, Box<Report>> {
    let grid = Grid {
        grid: [ctas, 1, 1],
        block: [threads, 1, 1],
        cluster: [ctas, 1, 1],
        min_ctas: 1,
        smem_bytes,
        name: "test",
    };
    sim::launch(config, memory, &grid, &kernel)
}

/// Runs a kernel that touches no global memory under several seeds; all must pass.
pub fn passes(shape: Shape, kernel: impl Fn() + Sync) {
    for seed in 0..20 {
        run_on(&GlobalMemory::new(), seed, shape, &kernel).unwrap_or_else(|r| panic!("{r}"));
    }
}

/// Runs a kernel under several seeds until it fails; the rule must be this one. Gives the report.
pub fn breaks(rule: Rule, shape: Shape, kernel: impl Fn() + Sync) -> Report {
    breaks_on(&GlobalMemory::new(), rule, shape, kernel)
}

/// The same with global memory.
pub fn breaks_on(
    memory: &GlobalMemory,
    rule: Rule,
    shape: Shape,
    kernel: impl Fn() + Sync,
) -> Report {
    for seed in 0..100 {
        if let Err(report) = run_on(memory, seed, shape, &kernel) {
            assert_eq!(report.rule, rule, "{report}");
            let page = report.to_string();
            assert!(page.lines().count() < 66, "more than a page:\n{page}");
            assert!(page.starts_with(rule.code()), "{page}");
            return *report;
        }
    }
    panic!("{} ({rule:?}) was not found", rule.code());
}

/// Values that threads hand to the test.
pub struct Seen<T>(Mutex<Vec<T>>);

impl<T: Clone> Seen<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }
    pub fn push(&self, v: T) {
        self.0.lock().unwrap().push(v);
    }
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Address in the CTA's dynamic shared memory.
pub fn smem(at: u32) -> u32 {
    sim::ops::shared::dynamic_base() + at
}

/// Thread 0 initialises a barrier; all threads of the cluster meet behind it.
pub fn init_cluster(at: u32, count: u32) {
    use sim::ops::{cluster, fence, mbarrier};
    if tid() == 0 {
        mbarrier::init(smem(at), count);
        fence::mbarrier_init_release_cluster();
    }
    cluster::arrive_release();
    cluster::wait_acquire();
}

/// A tensor of 64 by 64 words, and a box of 8 by 8: 256 bytes.
pub fn tensor(memory: &GlobalMemory) -> Map {
    use sim::tensor_map::{DataType, Swizzle, TensorMapDesc, encode};
    let addr = memory.alloc(64 * 64 * 4);
    let desc = TensorMapDesc {
        dtype: DataType::U32,
        rank: 2,
        addr,
        dims: [64, 64, 0, 0, 0],
        strides: [256, 0, 0, 0],
        box_dims: [8, 8, 0, 0, 0],
        swizzle: Swizzle::None,
    };
    Map(encode(&desc).unwrap())
}

pub fn tid() -> u32 {
    sim::ops::thread::thread_idx_x()
}

/// A 64-byte aligned tensor map, as kernel parameters are.
#[repr(align(64))]
pub struct Map(pub [u64; 16]);

impl Map {
    pub fn at(&self) -> *const [u64; 16] {
        &raw const self.0
    }
}
