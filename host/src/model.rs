//! The SM model as a device: its memory, its configuration, and launches on it.
//!
//! The only file that touches `sim`'s API, apart from the report in [`Error::Model`].

use crate::error::Error;
use crate::interim as sim;
use crate::tensor::{Matrix, TensorBox};
use isa::kernel::KernelDesc;

/// A model of an SM (and of a grid over several), with its own global memory.
pub(crate) struct Model {
    pub config: sim::Config,
    memory: sim::GlobalMemory,
}

impl Model {
    pub fn new(config: sim::Config) -> Self {
        Self { config, memory: sim::GlobalMemory::new() }
    }

    pub fn alloc(&self, bytes: usize) -> u64 {
        self.memory.alloc(bytes)
    }

    pub fn free(&self, addr: u64) {
        self.memory.free(addr);
    }

    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Error> {
        self.memory.read(addr, out).map_err(Error::ModelMemory)
    }

    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        self.memory.write(addr, bytes).map_err(Error::ModelMemory)
    }

    /// Runs a kernel to its end.
    ///
    /// # Safety
    /// `params` was checked against `desc.meta`: pointer `i` is to the bytes of parameter `i`,
    /// aligned as it says, and stays valid during the call.
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)]
    pub unsafe fn launch(
        &self,
        _desc: &KernelDesc,
        _grid: [u32; 3],
        _params: &[*const u8],
    ) -> Result<(), Error> {
        Err(Error::Model(Box::new(sim::Report)))
    }
}

/// Encodes a checked tensor map.
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn encode(addr: u64, matrix: &Matrix, tile: TensorBox) -> Result<[u64; 16], Error> {
    let mut words = [0; 16];
    words[..4].copy_from_slice(&[addr, matrix.rows, matrix.cols, matrix.pitch]);
    words[4] = u64::from(tile.rows) << 32 | u64::from(tile.cols);
    Ok(words)
}
