//! A cluster's handle of global memory, and of what else clusters share.

use super::global::GlobalMemory;
use std::cell::Cell;

/// A cluster's handle of global memory, which notes that the cluster uses it: only there can it matter what
/// other clusters do before and after.
pub(crate) struct Handle {
    memory: GlobalMemory,
    used: Cell<bool>,
}

impl Handle {
    pub fn new(memory: GlobalMemory) -> Self {
        Self { memory, used: Cell::new(false) }
    }

    /// The memory, for an instruction or a copy in progress.
    pub fn get(&self) -> &GlobalMemory {
        self.touch();
        &self.memory
    }

    /// An instruction does something else that has to do with other clusters.
    pub fn touch(&self) {
        self.used.set(true);
    }

    /// Whether an instruction or a copy has used the memory since this was asked last.
    #[inline]
    pub fn was_used(&self) -> bool {
        self.used.replace(false)
    }

    /// Writes by the kernels of all clusters.
    pub fn writes(&self) -> u64 {
        self.memory.writes()
    }
}
