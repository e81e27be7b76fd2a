//! Running a cluster: one coroutine per thread, resumed as the scheduler says.

use super::current::{Entered, Teardown, set_yielder};
use super::next::{self, Next};
use super::stack::Stacks;
use super::stack::ThreadStack;
use super::{panics, tracing};
use crate::cluster::thread::{Resume, Yielder};
use crate::config::{Config, Stats};
use crate::engine::cluster::Engine;
use crate::exec::{exit, grid};
use crate::finding::fault::Fault;
use crate::finding::report::Report;
use crate::finding::rule::Rule;
use crate::grid::stream::Member;
use crate::memory::global::GlobalMemory;
use crate::race::global::GlobalShadow;
use crate::schedule::plan::Place;
use crate::schedule::turns::Length;
use crate::types::grid::Grid;
use corosensei::{Coroutine, CoroutineResult};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What a kernel thread runs.
pub(crate) type Entry<'a> = &'a (dyn Fn() + Sync);

/// A launch of a kernel: each thread of the grid calls `entry`.
#[derive(Clone)]
pub struct Launch<'a> {
    /// Its shape.
    pub grid: Grid<'a>,
    /// The kernel.
    pub entry: Entry<'a>,
    /// Whether it may start before the launch ahead of it has ended (programmatic dependent launch).
    pub dependent: bool,
}

/// How a simulated thread ended.
enum End {
    Returned,
    /// Unwound because the run had failed.
    Unwound,
    Panicked(Fault),
}

type Thread = Coroutine<Resume, (), End, ThreadStack>;

/// A cluster and the stacks of its threads.
pub(crate) struct Running<'a> {
    /// Only this module's short borrows and those of [`super::current`] touch it, never both.
    engine: Box<UnsafeCell<Engine>>,
    threads: Vec<Option<Thread>>,
    entry: Entry<'a>,
    stack_bytes: usize,
}

/// Why a cluster stopped running.
pub(crate) enum Outcome {
    Finished(Stats),
    /// It polls global memory: run it again when another cluster has written.
    Polling,
    /// The same, but if no other can run, it looks again.
    PollingYet,
    /// Its turn is over.
    Cut,
    /// It looks at the same again and again: others may change that.
    GaveWay,
    Failed(Box<Report>),
}

impl<'a> Running<'a> {
    pub fn new(
        config: &Config,
        memory: &GlobalMemory,
        shadow: Option<&Arc<GlobalShadow>>,
        (grid, entry): (&Grid<'_>, Entry<'a>),
        launches: Member,
        place: Place,
    ) -> Self {
        let engine = Engine::new(config, memory, shadow, grid, launches, place);
        let threads = engine.hw.threads.iter().map(|_| None).collect();
        let engine = Box::new(UnsafeCell::new(engine));
        Self { engine, threads, entry, stack_bytes: config.stack_bytes }
    }

    /// Borrows the engine while no thread runs.
    fn with<R>(&mut self, f: impl FnOnce(&mut Engine) -> R) -> R {
        f(self.engine.get_mut())
    }

    /// Runs for a turn of a length, or until something decides the outcome.
    pub fn run(&mut self, stacks: &mut Stacks, turn: Length) -> Outcome {
        self.with(grid::look_ahead);
        let mut next = self.with(|e| e.begin_turn(turn).map(Next::Run));
        loop {
            match next.take().unwrap_or_else(|| self.with(next::next)) {
                Next::Run(t) => {
                    self.resume(t, stacks);
                    if let Some(outcome) = self.cut(stacks) {
                        return outcome;
                    }
                }
                Next::Again => {}
                Next::Polling => return Outcome::Polling,
                Next::PollingYet => return Outcome::PollingYet,
                Next::Finished => {
                    return Outcome::Finished(self.with(|e| {
                        tracing::hand_over(e, true);
                        e.hand_over_protocol();
                        e.stats.trace = e.trace_hash();
                        e.stats
                    }));
                }
                Next::Failed => return Outcome::Failed(self.fail(stacks)),
            }
        }
    }

    /// Whether and why the turn was over.
    fn cut(&mut self, stacks: &mut Stacks) -> Option<Outcome> {
        let (cut, gave_way) = self.with(|e| (e.was_cut(), e.gave_way()));
        if !cut {
            return None;
        }
        if self.with(Engine::too_long) {
            return Some(Outcome::Failed(self.fail(stacks)));
        }
        Some(if gave_way { Outcome::GaveWay } else { Outcome::Cut })
    }

    /// Instructions that it has executed.
    pub fn steps(&mut self) -> u64 {
        self.with(|e| e.stats.steps)
    }

    /// Ends the cluster: takes the report, and unwinds what still lives.
    pub fn fail(&mut self, stacks: &mut Stacks) -> Box<Report> {
        let report = self.with(Engine::give_up);
        self.with(|e| tracing::hand_over(e, false));
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
                    return self.with(|e| e.fail(t, fault));
                }
            }
        }
        let thread = self.threads[slot].as_mut().expect("made above");
        let result = {
            let _entered = Entered::new(self.engine.get());
            thread.resume(Resume::Run)
        };
        let CoroutineResult::Return(end) = result else { return };
        if let Some(done) = self.threads[slot].take() {
            stacks.give(done.into_stack());
        }
        self.with(|e| match end {
            End::Returned => exit::exit(e, t),
            End::Unwound => {}
            End::Panicked(fault) => e.fail(t, fault),
        });
    }

    /// Unwinds every thread that lives, so that the locals of kernel code are dropped.
    fn teardown(&mut self, stacks: &mut Stacks) {
        self.with(|e| e.teardown = true);
        for slot in 0..self.threads.len() {
            let Some(mut thread) = self.threads[slot].take() else { continue };
            self.with(|e| e.current = slot as u32);
            let _entered = Entered::new(self.engine.get());
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

fn spawn(stack: ThreadStack, entry: Entry<'_>) -> Thread {
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
