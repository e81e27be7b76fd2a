//! Stands for the SM model until `sim` has it: real memory, and launches that say so.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// How the model runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Seed of the scheduler.
    pub seed: u64,
    /// Streaming multiprocessors that kernels and the host see.
    pub sms: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { seed: 0, sms: 132 }
    }
}

/// Why a launch ended without a result.
#[derive(Debug)]
pub struct Report;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the SM model can't run kernels yet")
    }
}

#[derive(Default)]
pub(crate) struct GlobalMemory(Mutex<BTreeMap<u64, Vec<u8>>>);

impl GlobalMemory {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn alloc(&self, bytes: usize) -> u64 {
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let end = blocks.last_key_value().map_or(1 << 28, |(a, b)| a + b.len() as u64);
        let addr = (end + 1).next_multiple_of(256);
        blocks.insert(addr, vec![0; bytes]);
        addr
    }

    pub fn free(&self, addr: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&addr);
    }

    fn with(&self, addr: u64, len: usize, f: impl FnOnce(&mut [u8])) -> Result<(), String> {
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hit = blocks.range_mut(..=addr).next_back().and_then(|(base, block)| {
            let at = (addr - base) as usize;
            block.get_mut(at..at.checked_add(len)?)
        });
        hit.map(f).ok_or_else(|| format!("{len} bytes at {addr:#x} are in no allocation"))
    }

    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), String> {
        self.with(addr, out.len(), |block| out.copy_from_slice(block))
    }

    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), String> {
        self.with(addr, bytes.len(), |block| block.copy_from_slice(bytes))
    }
}
