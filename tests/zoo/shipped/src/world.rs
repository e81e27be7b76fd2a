//! What every kernel finds: a tensor, room for results, and initialised barriers.

use isa::cp_async_bulk::{self, TensorMapBytes};
use isa::kernel::{AfterWait, KernelArg, ParamKind, ParamMeta};
use isa::{cluster, fence, mbarrier, shared, thread};

/// Bytes of a box of the tensor: 8 by 8 words.
pub const BOX: u32 = 256;
/// Words of a row of the tensor, and its rows.
pub const SIDE: u32 = 64;
/// Bytes of the results.
pub const OUT: u32 = 4096;

/// Rounds of a bug that shows by chance on a GPU. The model finds it under each schedule, in a few rounds.
pub const fn rounds(gpu: u32, model: u32) -> u32 {
    if cfg!(target_arch = "nvptx64") { gpu } else { model }
}

/// A tensor map as a parameter: 64 by 64 words in boxes of 8 by 8, not swizzled.
#[repr(transparent)]
pub struct Map(TensorMapBytes);

// SAFETY: the parameter is the map's 128 bytes, whose address the kernel gets.
unsafe impl KernelArg for &Map {
    type Abi = *const TensorMapBytes;
    const META: ParamMeta = ParamMeta {
        kind: ParamKind::TensorMap as u32,
        size: size_of::<TensorMapBytes>() as u32,
        align: align_of::<TensorMapBytes>() as u32,
        ..ParamMeta::NONE
    };
    unsafe fn from_abi(abi: Self::Abi) -> Self {
        // SAFETY: a checked launch passes a map, which outlives the kernel.
        unsafe { &*abi.cast() }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    unsafe fn abi_from_param(param: *const u8) -> Self::Abi {
        param.cast()
    }
}

// SAFETY: not as the trait has it: the bodies use the map before the wait, and that is their bug.
unsafe impl AfterWait for &Map {}

/// Addresses of global memory as a parameter.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Memory {
    /// The tensor.
    pub words: u64,
    /// The results, which are zeros at first.
    pub out: u64,
}

/// The arguments of a body.
pub struct World {
    map: u64,
    memory: Memory,
}

impl World {
    /// A world with the map at an address.
    #[inline(always)]
    pub fn at(map: *const TensorMapBytes, memory: Memory) -> Self {
        Self { map: map as u64, memory }
    }
    /// The world of a kernel's parameters.
    #[inline(always)]
    pub fn of(map: &Map, memory: Memory) -> Self {
        Self::at(&raw const map.0, memory)
    }
    /// The tensor's map.
    #[inline(always)]
    pub fn map(&self) -> *const TensorMapBytes {
        self.map as *const TensorMapBytes
    }
    /// Word `i` of the tensor's first row.
    #[inline(always)]
    pub fn word(&self, i: u32) -> *mut u32 {
        (self.memory.words + 4 * u64::from(i)) as *mut u32
    }
    /// Word `i` of the results.
    #[inline(always)]
    pub fn out(&self, i: u32) -> *mut u32 {
        (self.memory.out + 4 * u64::from(i)) as *mut u32
    }
}

/// Shared address `at`.
#[inline(always)]
pub fn smem(at: u32) -> u32 {
    shared::dynamic_base() + at
}

/// The thread's number in its CTA.
#[inline(always)]
pub fn tid() -> u32 {
    thread::thread_idx_x()
}

/// The warp's number: no instruction, so that divergent code may ask for it.
#[inline(always)]
pub fn warp_id() -> u32 {
    tid() / 32
}

/// Initialises an mbarrier of `counts[i]` arrivals at shared address `8 i`, and makes it visible to the CTA
/// and to the asynchronous proxy.
#[inline(always)]
pub fn init<const N: usize>(counts: [u32; N]) -> [u32; N] {
    let bars = core::array::from_fn(|i| smem(8 * i as u32));
    if tid() == 0 {
        // An iterator over the arrays would keep them in local memory.
        let mut i = 0;
        while i < N {
            // SAFETY: once, at the start of the kernel, on memory that nothing else uses.
            unsafe { mbarrier::init(bars[i], counts[i]) };
            i += 1;
        }
        fence::mbarrier_init_release_cluster();
    }
    // SAFETY: all threads come.
    unsafe { thread::sync_threads() };
    bars
}

/// The same in each CTA of a cluster, whose peers may use the barriers afterwards.
#[inline(always)]
pub fn init_cluster<const N: usize>(counts: [u32; N]) -> [u32; N] {
    let bars = init(counts);
    meet();
    bars
}

/// All threads of the cluster meet.
#[inline(always)]
#[track_caller]
pub fn meet() {
    // SAFETY: all threads come, and do both.
    unsafe {
        cluster::arrive_release();
        cluster::wait_acquire();
    }
}

/// Expects a box at `full`, and loads the tensor's first one to `to`.
///
/// # Safety
/// The contracts of the two instructions.
#[inline(always)]
#[track_caller]
pub unsafe fn load(w: &World, to: u32, full: u32) {
    // SAFETY: the caller's contract.
    unsafe {
        mbarrier::arrive_expect_tx(full, BOX);
        cp_async_bulk::tensor_load(to, w.map(), [0, 0], full);
    }
}
