//! How an instruction reaches the engine of its cluster, and how its thread goes to sleep.
//!
//! One OS thread runs one cluster at a time, and one simulated thread at a time, each on its own stack.
//! A thread-local points to the engine of the running cluster. One rule makes this sound. A borrow of the
//! engine lives only inside [`with`], whose closure neither switches stacks nor calls `with` again; and
//! the loop of [`super::run`] holds no borrow while a thread runs.
//!
//! When a run has failed, each live thread is resumed with [`Resume::Unwind`] and unwinds, so that the
//! locals of kernel code are dropped. Instructions that those drops execute are inert: they return at
//! once and touch nothing. The same holds while a thread unwinds from a panic of its own. A drop that
//! traps can neither return nor unwind inside an unwind, so its stack is abandoned.

use super::{guided, panics, timed};
use crate::barrier::mbarriers::Want;
use crate::cluster::thread::{Resume, Yielder};
use crate::engine::cluster::Engine;
use crate::exec::given;
use crate::finding::fault::Fault;
use crate::types::loc::Loc;
use crate::types::wait::{Status, Wait};
use crate::types::word::Inert;
use crate::wgmma::pool::suspicious;
use std::cell::Cell;
use std::panic::{Location, resume_unwind};
use std::ptr;
use std::task::Poll;

/// Payload of the unwinding that ends a thread of a failed run.
pub(crate) struct Teardown;

thread_local! {
    static CURRENT: Cell<*mut Engine> = const { Cell::new(ptr::null_mut()) };
}

/// Makes an engine the current one of this OS thread while the guard lives.
pub(crate) struct Entered(*mut Engine);

impl Entered {
    pub fn new(engine: *mut Engine) -> Self {
        Self(CURRENT.replace(engine))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Whether a simulated thread runs on this OS thread.
pub(crate) fn inside() -> bool {
    !CURRENT.get().is_null()
}

/// Borrows the engine of the running cluster.
fn with<R>(f: impl FnOnce(&mut Engine) -> R) -> R {
    let engine = CURRENT.get();
    assert!(!engine.is_null(), "an instruction of the SM model outside sim::launch");
    // SAFETY: `Entered` set the pointer to the engine that `Running` owns, and takes it away before
    // that is gone. No other borrow of the engine is live, by the rule of this module's documentation.
    f(unsafe { &mut *engine })
}

/// Tells where the current thread, which has just started, can give the processor back.
pub(crate) fn set_yielder(yielder: &Yielder) {
    with(|e| e.hw.thread_mut(e.current).yielder = yielder);
}

/// Gives the processor back to the scheduler.
fn switch() -> Resume {
    let yielder = with(|e| e.hw.thread(e.current).yielder);
    // SAFETY: the coroutine set it to its own yielder, which lives as long as its stack; this is
    // that coroutine, for it is the current thread.
    unsafe { (*yielder).suspend(()) }
}

/// Goes to sleep until resumed; unwinds if the run has failed.
fn sleep() {
    if switch() == Resume::Unwind {
        resume_unwind(Box::new(Teardown));
    }
}

/// Whether instructions do nothing, because this thread unwinds.
fn inert() -> bool {
    if std::thread::panicking() {
        return true;
    }
    if with(|e| e.teardown) {
        refuse();
    }
    false
}

/// Ends a thread whose kernel code caught the unwinding of a failed run, and goes on. If it does that
/// again and again, its stack is abandoned.
fn refuse() -> ! {
    with(|e| e.refusals += 1);
    while with(|e| e.refusals > 1000) {
        switch();
    }
    resume_unwind(Box::new(Teardown));
}

/// Lets another thread run first, if the scheduler wants that. `want` is what a wait is for, and
/// whether it is a poll.
fn preempt(name: &'static str, arg: u32, loc: Loc, want: Option<(Want, bool)>) {
    while with(Engine::turn_is_over) {
        sleep();
    }
    let switch = with(|e| {
        if e.guide.is_some() {
            return guided::pauses(e, name, arg, loc, want);
        }
        let t = e.current;
        let switch = if timed::leads(e) { timed::runs_ahead(e, t) } else { e.sched.preempts(t) };
        if switch {
            e.hw.thread_mut(t).status = Status::Ready;
            e.sched.enqueue(t);
        }
        switch
    });
    if switch {
        sleep();
    }
}

/// Executes an instruction that does not wait.
#[track_caller]
pub(crate) fn op<R: Inert>(
    name: &'static str,
    arg: u32,
    f: impl FnOnce(&mut Engine, u32) -> Result<R, Fault>,
) -> R {
    let loc = Location::caller();
    if inert() {
        return R::inert();
    }
    preempt(name, arg, loc, None);
    let done = with(|e| {
        let t = e.begin(name, arg, loc);
        e.progress();
        let done = f(e, t).map_err(|fault| e.fail(t, fault));
        e.executed();
        done
    });
    done.unwrap_or_else(|()| stop())
}

/// Executes an instruction that changes nothing, unless it says so with [`Engine::progress`]: no progress
/// for those who poll. `at` is the address that it looks at, if it does.
#[track_caller]
pub(crate) fn look<R: Inert>(
    name: &'static str,
    arg: u32,
    at: Option<u64>,
    f: impl FnOnce(&mut Engine, u32) -> Result<R, Fault>,
) -> R {
    let loc = Location::caller();
    if inert() {
        return R::inert();
    }
    preempt(name, arg, loc, None);
    let done = with(|e| {
        let t = e.begin(name, arg, loc);
        let looked = e.looked(t, at.map(|at| (loc, at)));
        let done = looked.and_then(|()| f(e, t)).map_err(|fault| e.fail(t, fault));
        e.executed();
        done
    });
    done.unwrap_or_else(|()| stop())
}

/// Executes an instruction that may wait: `f` is called until it is ready; when it is not, it has
/// said with [`Engine::sleep`] what the thread waits for.
#[track_caller]
pub(crate) fn block<R: Inert>(
    name: &'static str,
    arg: u32,
    f: impl FnMut(&mut Engine, u32) -> Result<Poll<R>, Fault>,
) -> R {
    block_for(name, arg, None, f)
}

/// The same for a wait on an mbarrier: what for, and whether it is a poll.
#[track_caller]
pub(crate) fn block_for<R: Inert>(
    name: &'static str,
    arg: u32,
    want: Option<(Want, bool)>,
    mut f: impl FnMut(&mut Engine, u32) -> Result<Poll<R>, Fault>,
) -> R {
    let loc = Location::caller();
    if inert() {
        return R::inert();
    }
    preempt(name, arg, loc, want);
    with(|e| e.begin(name, arg, loc));
    loop {
        let done = with(|e| {
            let t = e.current;
            let mut done = f(e, t);
            if matches!(done, Ok(Poll::Ready(_))) {
                e.timed(|time| time.ready(t));
                done = e.looked(t, None).and(done);
            }
            let done = done.map_err(|fault| e.fail(t, fault));
            e.executed();
            done
        });
        match done {
            Ok(Poll::Ready(r)) => return r,
            Ok(Poll::Pending) => sleep(),
            Err(()) => stop(),
        }
    }
}

/// Reads something that costs no step.
pub(crate) fn peek<R: Inert>(f: impl FnOnce(&mut Engine, u32) -> R) -> R {
    if inert() {
        return R::inert();
    }
    with(|e| {
        let t = e.current;
        f(e, t)
    })
}

/// Does something that is no step: a fault in it has the caller's line.
#[track_caller]
pub(crate) fn aside(name: &'static str, f: impl FnOnce(&mut Engine, u32) -> Result<(), Fault>) {
    let loc = Location::caller();
    if inert() {
        return;
    }
    let done = with(|e| {
        let t = e.current;
        f(e, t).map_err(|fault| {
            let thread = e.hw.thread_mut(t);
            (thread.loc, thread.op) = (Some(loc), name);
            e.fail(t, fault);
        })
    });
    done.unwrap_or_else(|()| stop());
}

/// A register's value goes into a computation that is no step.
#[inline]
#[track_caller]
pub(crate) fn given(name: &'static str, bits: u32) {
    if suspicious(bits) && inside() {
        aside(name, |e, t| given::given(e, t, bits));
    }
}

/// A special function, which is no step, but takes time.
#[inline]
pub(crate) fn special() {
    if inside() {
        with(|e| {
            let t = e.current;
            e.timed(|time| time.special(t));
        });
    }
}

/// Ends the thread: its run has failed, and the report is written.
fn stop() -> ! {
    loop {
        sleep();
    }
}

/// Fails the run; from a drop, too.
#[track_caller]
pub(crate) fn trap(fault: Fault) -> ! {
    let loc = Location::caller();
    if with(|e| e.teardown) && !std::thread::panicking() {
        refuse();
    }
    with(|e| {
        let t = e.begin("trap", 0, loc);
        if !e.teardown {
            // Trapping in the drop of a panic: the panic is what went wrong.
            e.fail(t, panics::pending().unwrap_or(fault));
        }
        let thread = e.hw.thread_mut(t);
        thread.status = Status::Asleep;
        thread.wait = Wait::Nothing;
    });
    if !std::thread::panicking() {
        stop();
    }
    // Inside an unwind: whoever resumes this stack finds it suspended again, and abandons it.
    loop {
        switch();
    }
}
