//! The SM model as a device: its memory, its configuration, and launches on it.
//!
//! Only this file and `model_tensor.rs`, which packs tensor maps for it, call `sim`'s API, apart from
//! the report in [`Error::Model`] and [`crate::testing`].

use crate::chain::{Chain, Past};
use crate::error::Error;
use isa::kernel::{KernelDesc, KernelMeta};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A model of the SMs of a device, with its own global memory.
pub(crate) struct Model {
    pub config: sim::Config,
    memory: sim::GlobalMemory,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Sum over all launches that completed without an error.
    stats: sim::Stats,
    chain: Chain,
}

/// Parameter addresses, shared by the model's worker threads.
struct ParamPtrs(Vec<*const u8>);

// SAFETY: the pointers point to parameter bytes that a `Past` owns, and nothing writes them.
unsafe impl Sync for ParamPtrs {}

impl ParamPtrs {
    fn get(&self) -> &[*const u8] {
        &self.0
    }
}

impl Model {
    pub fn new(config: sim::Config) -> Self {
        Self { config, memory: sim::GlobalMemory::new(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stats(&self) -> sim::Stats {
        self.state().stats
    }

    /// Waits for all launches: later ones do not overlap them.
    pub fn synchronize(&self) {
        self.state().chain.end();
    }

    pub fn alloc(&self, bytes: usize) -> Result<u64, Error> {
        self.memory.alloc_uninitialised(bytes).map_err(Error::ModelMemory)
    }

    /// Waits for all launches, as `cuMemFree` does.
    pub fn free(&self, addr: u64) {
        self.synchronize();
        // This fails only if `addr` is not allocated, and its owner, a buffer, frees it once.
        let _ = self.memory.free(addr);
    }

    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Error> {
        self.synchronize();
        self.memory.read(addr, out).map_err(Error::ModelMemory)
    }

    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        self.synchronize();
        self.memory.write(addr, bytes).map_err(Error::ModelMemory)
    }

    /// Fails if `bytes` > 0 bytes at `addr` are not in one allocation.
    pub fn check_range(&self, addr: u64, bytes: usize) -> Result<(), Error> {
        let none = sim::GlobalError::Unmapped { addr, bytes: bytes as u64 };
        let last = addr.checked_add(bytes as u64 - 1).ok_or(Error::ModelMemory(none))?;
        // If the last byte is in the model's memory, so many bytes can be copied.
        self.memory.read(last, &mut [0]).map_err(Error::ModelMemory)?;
        self.read(addr, &mut vec![0; bytes])
    }

    /// Whether the first and the last of `bytes` > 0 bytes at `addr` lie in the model's memory.
    pub fn holds(&self, addr: u64, bytes: u64) -> bool {
        [addr, addr + (bytes - 1)].iter().all(|&at| self.memory.read(at, &mut [0]).is_ok())
    }

    /// Runs a kernel to completion. A dependent one may overlap the launches ahead, which are repeated.
    ///
    /// # Safety
    /// `params` must have been checked against `desc.meta`: pointer `i` points to the bytes of parameter
    /// `i`, has the alignment that `desc.meta` states, and stays valid during the call. What the
    /// parameters point to is memory of this model.
    pub unsafe fn launch(
        &self,
        desc: &KernelDesc,
        grid: [u32; 3],
        params: &[*const u8],
    ) -> Result<(), Error> {
        let mut state = self.state();
        let State { stats, chain } = &mut *state;
        let memory = if self.config.overlaps() {
            self.memory.snapshot()
        } else {
            chain.end();
            sim::GlobalMemory::new()
        };
        // SAFETY: the caller's contract.
        let together = chain.push(unsafe { Past::new(desc, grid, params, memory, *stats) });
        if together.len() > 1 {
            self.memory.restore(&together[0].memory);
        }
        match self.run(together) {
            Ok(run) => {
                *stats = together[0].stats;
                stats.add(&run);
                Ok(())
            }
            Err(report) => {
                chain.end();
                Err(Error::Model(report))
            }
        }
    }

    /// Runs launches of one stream.
    fn run(&self, launches: &[Past]) -> Result<sim::Stats, Box<sim::Report>> {
        let entry = |past: &Past| {
            let (entry, params) = (past.desc.entry, ParamPtrs(past.pointers()));
            // SAFETY: `Past` has copies of parameters that were checked, aligned for any type. The memory
            // that they point to is allocated: to free it ends the chain.
            move || unsafe { entry(params.get()) }
        };
        let entries: Vec<_> = launches.iter().map(entry).collect();
        let launch = |(past, entry)| {
            let Past { desc: KernelDesc { meta, .. }, grid, .. }: &Past = past;
            let grid = sim::Grid { grid: *grid, ..shape(meta) };
            sim::Launch { grid, entry, dependent: meta.dependent != 0 }
        };
        let launches: Vec<_> = launches
            .iter()
            .zip(entries.iter().map(|entry| entry as &(dyn Fn() + Sync)))
            .map(launch)
            .collect();
        sim::launch_all(&self.config, &self.memory, &launches)
    }

    /// Clusters of a kernel that the SMs hold at a time.
    pub fn max_active_clusters(&self, meta: &KernelMeta) -> u32 {
        self.config.max_active_clusters(&shape(meta))
    }
}

/// One cluster of a kernel.
fn shape(meta: &KernelMeta) -> sim::Grid<'_> {
    sim::Grid {
        grid: meta.cluster,
        block: [meta.threads, 1, 1],
        cluster: meta.cluster,
        min_ctas: meta.min_ctas,
        smem_bytes: meta.smem_bytes,
        name: meta.name(),
    }
}
