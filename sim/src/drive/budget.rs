//! How many threads the launches of a process may have together.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Threads of all launches that run at the same time, unless one launch alone has more. A thread's stack takes two of the mappings
/// that a process may have (Linux: `vm.max_map_count`, 65530 by default), and with the stacks that are kept for the next launch
/// this leaves a tenth of them to the rest of the process: without one, an ordinary allocation fails and ends it.
const THREADS: u64 = 24_576;
/// The longest wait. Launches may wait for one another through global memory, and then none of them ends while one waits here.
const PATIENCE: Duration = Duration::from_mins(1);

/// A number of permits, of which some are taken.
struct Budget {
    all: u64,
    patience: Duration,
    taken: Mutex<u64>,
    given_back: Condvar,
}

static BUDGET: Budget = Budget::new(THREADS, PATIENCE);

/// The permits of a launch. Dropping them gives them back.
pub(super) struct Permits<'b> {
    of: &'b Budget,
    count: u64,
}

/// Takes permits for a launch of so many threads, all at once. Waits until the launches that run leave enough of them, or for
/// [`PATIENCE`]. A launch of more threads than there are permits waits until it is alone.
pub(super) fn permits(threads: u64) -> Permits<'static> {
    BUDGET.take(threads)
}

impl Budget {
    const fn new(all: u64, patience: Duration) -> Self {
        Self { all, patience, taken: Mutex::new(0), given_back: Condvar::new() }
    }

    fn take(&self, threads: u64) -> Permits<'_> {
        let count = threads.min(self.all);
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let too_few = |taken: &mut u64| *taken + count > self.all;
        let waited = self.given_back.wait_timeout_while(taken, self.patience, too_few);
        let (mut taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *taken += count;
        Permits { of: self, count }
    }
}

impl Drop for Permits<'_> {
    fn drop(&mut self) {
        *self.of.taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.count;
        self.of.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    #[test]
    fn launches_never_have_more_threads_together_than_there_are_permits() {
        let budget = Budget::new(10, PATIENCE);
        let (running, most) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for launch in 0..12 {
                let (budget, running, most) = (&budget, &running, &most);
                scope.spawn(move || {
                    // Some have more threads than there are permits: they run alone.
                    let threads = [3, 7, 25][launch % 3];
                    for _ in 0..50 {
                        let permits = budget.take(threads);
                        let count = permits.count;
                        assert_eq!(count, threads.min(10));
                        let now = running.fetch_add(count, Ordering::SeqCst) + count;
                        most.fetch_max(now, Ordering::SeqCst);
                        thread::yield_now();
                        running.fetch_sub(count, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 10);
        assert_eq!(*budget.taken.lock().unwrap(), 0);
    }

    #[test]
    fn a_launch_does_not_wait_for_ever() {
        let budget = Budget::new(10, Duration::from_millis(1));
        let (first, second) = (budget.take(8), budget.take(5));
        assert_eq!(*budget.taken.lock().unwrap(), 13);
        drop((first, second));
        assert_eq!(*budget.taken.lock().unwrap(), 0);
    }
}
