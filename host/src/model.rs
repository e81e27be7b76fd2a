//! The SM model as a device: its memory, its configuration, and launches on it.
//!
//! Only this file and `model_tensor.rs`, which packs tensor maps for it, call `sim`'s API, apart from
//! the report in [`Error::Model`] and [`crate::testing`].

use crate::error::Error;
use isa::kernel::KernelDesc;
use std::sync::{Mutex, PoisonError};

/// A model of the SMs of a device, with its own global memory.
pub(crate) struct Model {
    pub config: sim::Config,
    memory: sim::GlobalMemory,
    /// Sum over all launches that completed without an error.
    stats: Mutex<sim::Stats>,
}

/// Parameter addresses, shared by the model's worker threads.
struct ParamPtrs<'a>(&'a [*const u8]);

// SAFETY: the pointers point to parameter bytes that `launch` borrows, and nothing writes them meanwhile.
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
        // This fails only if `addr` is not allocated, and its owner, a buffer, frees it once.
        let _ = self.memory.free(addr);
    }

    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Error> {
        self.memory.read(addr, out).map_err(Error::ModelMemory)
    }

    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        self.memory.write(addr, bytes).map_err(Error::ModelMemory)
    }

    /// Whether the first and the last of `bytes` > 0 bytes at `addr` lie in the model's memory.
    pub fn holds(&self, addr: u64, bytes: u64) -> bool {
        [addr, addr + (bytes - 1)].iter().all(|&at| self.memory.read(at, &mut [0]).is_ok())
    }

    /// Runs a kernel to completion.
    ///
    /// # Safety
    /// `params` must have been checked against `desc.meta`: pointer `i` points to the bytes of parameter
    /// `i`, has the alignment that `desc.meta` states, and stays valid during the call.
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
