//! Stacks of simulated threads, kept for the next run.

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// Stacks that the pool keeps: enough for ten CTAs of 384 threads. Each takes two of the mappings that a process may have
/// (Linux: `vm.max_map_count`, 65530 by default), and an allocation fails without one: the pool must leave most of them.
const KEPT: usize = 4096;
/// Tries to map a stack, and the time between two of them.
const TRIES: u32 = 1000;
const BETWEEN: Duration = Duration::from_millis(10);
/// Bytes of a page, and of a cache line.
const PAGE: usize = 4096;
const LINE: usize = 64;

static POOL: Mutex<Vec<(usize, ThreadStack)>> = Mutex::new(Vec::new());

/// The stack of a simulated thread. Each begins at another line of its first page: if all began at the
/// page's end, as they are mapped, hundreds of threads would share a few sets of the caches.
pub(crate) struct ThreadStack {
    mapped: DefaultStack,
    base: StackPointer,
}

impl ThreadStack {
    fn new(bytes: usize) -> io::Result<Self> {
        let mapped = DefaultStack::new(bytes + PAGE)?;
        let end = mapped.base().get();
        // Neighbours are a few pages apart: an odd factor gives each another line.
        let line = (end / PAGE).wrapping_mul(0x9e37_79b1) >> 16 & (PAGE / LINE - 1);
        let base = StackPointer::new(end - LINE * line).expect("it lies in the mapping");
        Ok(Self { mapped, base })
    }
}

// SAFETY: the guard page is that of `mapped`, which is a page longer than what was asked for, and `base`
// lies at most a page below its end, at a multiple of a cache line.
unsafe impl Stack for ThreadStack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.mapped.limit()
    }

    #[cfg(windows)]
    fn teb_fields(&self) -> corosensei::stack::StackTebFields {
        self.mapped.teb_fields()
    }

    #[cfg(windows)]
    fn update_teb_fields(&mut self, stack_limit: usize, guaranteed_stack_bytes: usize) {
        self.mapped.update_teb_fields(stack_limit, guaranteed_stack_bytes);
    }
}

/// The stacks of one worker: taken from the pool when it starts, given back when it ends.
pub(crate) struct Stacks {
    bytes: usize,
    free: Vec<ThreadStack>,
}

impl Stacks {
    pub fn new(bytes: usize) -> Self {
        Self { bytes, free: Vec::new() }
    }

    pub fn take(&mut self) -> io::Result<ThreadStack> {
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
        self.free
            .pop()
            .map_or_else(|| patiently(TRIES, || ThreadStack::new(self.bytes), make_room), Ok)
    }

    pub fn give(&mut self, stack: ThreadStack) {
        self.free.push(stack);
    }
}

/// What `make` makes, in at most `tries` tries. A process has only so many mappings (Linux: `vm.max_map_count`), and launches
/// beside this one give theirs back when they end: so it is tried again every 10 ms, each time after `make_room`.
fn patiently<T>(
    tries: u32,
    mut make: impl FnMut() -> io::Result<T>,
    mut make_room: impl FnMut(),
) -> io::Result<T> {
    for _ in 1..tries {
        if let Ok(made) = make() {
            return Ok(made);
        }
        make_room();
        sleep(BETWEEN);
    }
    make()
}

/// Unmaps the stacks that nobody uses.
fn make_room() {
    POOL.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

impl Drop for Stacks {
    fn drop(&mut self) {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT.saturating_sub(pool.len());
        let bytes = self.bytes;
        pool.extend(self.free.drain(..).take(room).map(|s| (bytes, s)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_waited_for_but_not_for_ever() {
        let absent = || io::Error::from(io::ErrorKind::OutOfMemory);
        let (mut left, mut rooms) = (3, 0);
        let make = || {
            left -= 1;
            if left < 0 { Ok(left) } else { Err(absent()) }
        };
        assert_eq!((patiently(9, make, || rooms += 1).unwrap(), rooms), (-1, 3));
        let (mut tried, mut rooms) = (0, 0);
        let never = || {
            tried += 1;
            Err::<(), _>(absent())
        };
        let kind = patiently(4, never, || rooms += 1).unwrap_err().kind();
        assert_eq!((kind, tried, rooms), (io::ErrorKind::OutOfMemory, 4, 3));
    }
}
