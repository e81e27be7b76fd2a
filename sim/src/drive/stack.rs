//! Stacks of simulated threads, kept for the next run.

use corosensei::stack::DefaultStack;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Stacks that the pool keeps: enough for two clusters of large CTAs.
const KEPT: usize = 4096;

static POOL: Mutex<Vec<(usize, DefaultStack)>> = Mutex::new(Vec::new());

/// The stacks of one worker: taken from the pool when it starts, given back when it ends.
pub(crate) struct Stacks {
    bytes: usize,
    free: Vec<DefaultStack>,
}

impl Stacks {
    pub fn new(bytes: usize) -> Self {
        Self { bytes, free: Vec::new() }
    }

    pub fn take(&mut self) -> io::Result<DefaultStack> {
        if self.free.is_empty() {
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            let mut i = pool.len();
            while i > 0 && self.free.len() < 64 {
                i -= 1;
                if pool[i].0 == self.bytes {
                    self.free.push(pool.swap_remove(i).1);
                }
            }
        }
        self.free.pop().map_or_else(|| DefaultStack::new(self.bytes), Ok)
    }

    pub fn give(&mut self, stack: DefaultStack) {
        self.free.push(stack);
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT.saturating_sub(pool.len());
        let bytes = self.bytes;
        pool.extend(self.free.drain(..).take(room).map(|s| (bytes, s)));
    }
}
