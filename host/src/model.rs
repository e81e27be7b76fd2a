//! The SM model as a device: its memory, its configuration, and launches on it.
//!
//! Only this file and `model_tensor.rs`, which packs tensor maps for it, call `sim`'s API, apart from
//! the report in [`Error::Model`] and [`crate::testing`].

use crate::error::Error;
use isa::kernel::KernelDesc;
use std::sync::{Mutex, PoisonError};

/// A model of an SM (and of a grid over several), with its own global memory.
pub(crate) struct Model {
    pub config: sim::Config,
    memory: sim::GlobalMemory,
    /// Of all launches that ended well.
    stats: Mutex<sim::Stats>,
}

/// Parameter addresses, shared by the model's worker threads.
struct ParamPtrs<'a>(&'a [*const u8]);

// SAFETY: the pointers are to parameter bytes that `launch` borrows and nobody writes meanwhile.
unsafe impl Sync for ParamPtrs<'_> {}

impl ParamPtrs<'_> {
    fn get(&self) -> &[*const u8] {
        self.0
    }
}

impl Model {
    pub fn new(config: sim::Config) -> Self {
        Self { config, memory: sim::GlobalMemory::new(), stats: Mutex::default() }
    }

    pub fn stats(&self) -> sim::Stats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn alloc(&self, bytes: usize) -> u64 {
        self.memory.alloc(bytes)
    }

    pub fn free(&self, addr: u64) {
        // Fails if `addr` is not allocated: its owner, a buffer, frees once.
        let _ = self.memory.free(addr);
    }

    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Error> {
        self.memory.read(addr, out).map_err(Error::ModelMemory)
    }

    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        self.memory.write(addr, bytes).map_err(Error::ModelMemory)
    }

    /// Whether `bytes` > 0 bytes from `addr` on begin and end in its memory.
    pub fn holds(&self, addr: u64, bytes: u64) -> bool {
        [addr, addr + (bytes - 1)].iter().all(|&at| self.memory.read(at, &mut [0]).is_ok())
    }

    /// Runs a kernel to its end.
    ///
    /// # Safety
    /// `params` was checked against `desc.meta`: pointer `i` is to the bytes of parameter `i`,
    /// aligned as it says, and stays valid during the call.
    pub unsafe fn launch(
        &self,
        desc: &KernelDesc,
        grid: [u32; 3],
        params: &[*const u8],
    ) -> Result<sim::Stats, Error> {
        let shape = sim::Grid {
            grid,
            block: [desc.meta.threads, 1, 1],
            cluster: desc.meta.cluster,
            min_ctas: desc.meta.min_ctas,
            smem_bytes: desc.meta.smem_bytes,
            name: desc.meta.name(),
        };
        let params = ParamPtrs(params);
        let entry = || {
            // SAFETY: the caller's contract.
            unsafe { (desc.entry)(params.get()) }
        };
        let stats =
            sim::launch(&self.config, &self.memory, &shape, &entry).map_err(Error::Model)?;
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).add(&stats);
        Ok(stats)
    }
}
