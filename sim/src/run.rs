//! Running a cluster: one coroutine per thread, resumed as the scheduler says.

use crate::Report;
use crate::Rule;
use crate::cluster::{Cluster, Next};
use crate::config::{Config, Grid, Stats};
use crate::current::{Entered, Resume, Teardown, Yielder, set_yielder};
use crate::explore::schedule::Place;
use crate::fault::Fault;
use crate::memory::GlobalMemory;
use crate::panics;
use crate::stack::Stacks;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a kernel thread runs.
pub(crate) type Entry<'a> = &'a (dyn Fn() + Sync);

/// How a simulated thread ended.
enum End {
    Returned,
    /// Unwound because the run had failed.
    Unwound,
    Panicked(Fault),
}

type Thread = Coroutine<Resume, (), End, DefaultStack>;

/// A cluster and the stacks of its threads.
pub(crate) struct Running<'a> {
    /// Only this module's short borrows and those of [`crate::current`] touch it, never both.
    cluster: Box<UnsafeCell<Cluster>>,
    threads: Vec<Option<Thread>>,
    entry: Entry<'a>,
    stack_bytes: usize,
}

/// Why a cluster stopped running.
pub(crate) enum Outcome {
    Finished(Stats),
    /// It polls global memory: run it again when another cluster has written.
    Polling,
    /// Its turn is over.
    Cut,
    Failed(Box<Report>),
}

impl<'a> Running<'a> {
    pub fn new(
        config: &Config,
        memory: &GlobalMemory,
        grid: &Grid<'_>,
        entry: Entry<'a>,
        place: Place,
    ) -> Self {
        let cluster = Cluster::new(config, memory, grid, place);
        let threads = (0..cluster.threads.len()).map(|_| None).collect();
        let cluster = Box::new(UnsafeCell::new(cluster));
        Self { cluster, threads, entry, stack_bytes: config.stack_bytes }
    }

    /// Borrows the cluster while no thread runs.
    fn with<R>(&mut self, f: impl FnOnce(&mut Cluster) -> R) -> R {
        f(self.cluster.get_mut())
    }

    /// Runs for a turn of so many instructions, or until something decides the outcome.
    pub fn run(&mut self, stacks: &mut Stacks, turn: u64) -> Outcome {
        let mut next = self.with(|c| c.begin_turn(turn).map(Next::Run));
        loop {
            match next.take().unwrap_or_else(|| self.with(Cluster::next)) {
                Next::Run(t) => {
                    self.resume(t, stacks);
                    if self.with(|c| c.was_cut()) {
                        return Outcome::Cut;
                    }
                }
                Next::Again => {}
                Next::Polling => return Outcome::Polling,
                Next::Finished => {
                    return Outcome::Finished(self.with(|c| {
                        c.hand_over(true);
                        c.stats.trace = c.steps.hash();
                        c.stats
                    }));
                }
                Next::Failed => return Outcome::Failed(self.fail(stacks)),
            }
        }
    }

    /// Instructions that it has executed.
    pub fn steps(&mut self) -> u64 {
        self.with(|c| c.stats.steps)
    }

    /// Ends the cluster: takes the report, and unwinds what still lives.
    pub fn fail(&mut self, stacks: &mut Stacks) -> Box<Report> {
        let report = self.with(Cluster::give_up);
        self.with(|c| c.hand_over(false));
        self.teardown(stacks);
        report
    }

    fn resume(&mut self, t: u32, stacks: &mut Stacks) {
        let slot = t as usize;
        if self.threads[slot].is_none() {
            match stacks.take() {
                Ok(stack) => self.threads[slot] = Some(spawn(stack, self.entry)),
                Err(e) => {
                    let message = format!("no stack for thread {t} of the cluster: {e}");
                    let fault = Fault::new(Rule::Launch, message);
                    return self.with(|c| c.fail(t, fault));
                }
            }
        }
        let thread = self.threads[slot].as_mut().expect("made above");
        let result = {
            let _entered = Entered::new(self.cluster.get());
            thread.resume(Resume::Run)
        };
        let CoroutineResult::Return(end) = result else { return };
        if let Some(done) = self.threads[slot].take() {
            stacks.give(done.into_stack());
        }
        self.with(|c| match end {
            End::Returned => c.exited(t),
            End::Unwound => {}
            End::Panicked(fault) => c.fail(t, fault),
        });
    }

    /// Unwinds every thread that lives, so that the locals of kernel code are dropped.
    fn teardown(&mut self, stacks: &mut Stacks) {
        self.with(|c| c.teardown = true);
        for slot in 0..self.threads.len() {
            let Some(mut thread) = self.threads[slot].take() else { continue };
            self.with(|c| c.current = slot as u32);
            let _entered = Entered::new(self.cluster.get());
            if let CoroutineResult::Yield(()) = thread.resume(Resume::Unwind) {
                // SAFETY: the thread trapped inside a drop of an unwind: it can neither go on nor
                // unwind further. Its remaining locals are forgotten, as a trap on the chip forgets
                // them; nothing else refers to its stack, for instructions keep no pointers.
                unsafe { thread.force_reset() };
            }
            stacks.give(thread.into_stack());
        }
    }
}

impl Drop for Running<'_> {
    /// A cluster that is dropped in the middle, because another failed, unwinds as well.
    fn drop(&mut self) {
        if self.threads.iter().any(Option::is_some) {
            self.teardown(&mut Stacks::new(self.stack_bytes));
        }
    }
}

fn spawn(stack: DefaultStack, entry: Entry<'_>) -> Thread {
    let body = move |yielder: &Yielder, first: Resume| {
        if first == Resume::Unwind {
            return End::Unwound;
        }
        set_yielder(yielder);
        match catch_unwind(AssertUnwindSafe(entry)) {
            Ok(()) => End::Returned,
            Err(payload) if payload.is::<Teardown>() => End::Unwound,
            Err(payload) => End::Panicked(panics::caught(&*payload)),
        }
    };
    // SAFETY: what the body borrows is `entry`, which outlives `Running<'_>`, the only place that
    // keeps coroutines; it finishes or resets each of them before it is gone.
    unsafe { Coroutine::with_stack_unchecked(stack, body) }
}
