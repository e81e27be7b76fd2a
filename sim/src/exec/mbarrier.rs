//! mbarrier instructions, and the bytes that copies complete.

use crate::barrier::mbarrier::MBarrier;
use crate::barrier::mbarriers::{Arrive, Mbarriers, Want};
use crate::barrier::uses::phase_name;
use crate::engine::cluster::Engine;
use crate::engine::machine::{Machine, mbarrier_address};
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::race::polls::Finds;
use crate::types::loc::Loc;
use crate::types::scope::Scope;
use crate::types::wait::{Wait, Wake};
use crate::walk::order::Key;
use std::task::Poll;

/// `mbarrier.init`
pub(crate) fn init(e: &mut Engine, t: u32, addr: u32, count: u32) -> Result<(), Fault> {
    let (cta, addr) = e.hw.own(t, addr, 8)?;
    mbarrier_address(addr)?;
    if let Some(old) = e.hw.smem[cta].barrier_at(addr) {
        return Err(e.hw.mbarriers.init_twice(old));
    }
    let state = MBarrier::init(count)?;
    e.operands(|| [u64::from(count)]);
    let bar = e.hw.mbarriers.next();
    e.hw.smem[cta].set_barrier(addr, bar).map_err(|c| e.hw.conflict(cta, c))?;
    let line = e.hw.line(t);
    e.hw.mbarriers.init((cta, addr), state, line);
    e.guided(|guide| {
        guide.init(bar);
        guide.touch(cta as u64, u64::from(addr), 8, true);
    });
    e.checked(t, |race, thread| {
        race.store(thread, (cta, addr, 8), false)?;
        race.init(bar, thread);
        Ok(())
    })
}

/// `mbarrier.inval`
pub(crate) fn inval(e: &mut Engine, t: u32, addr: u32) -> Result<(), Fault> {
    let (cta, addr) = e.hw.own(t, addr, 8)?;
    let bar = e.hw.bar_at((cta, addr))?;
    let at = e.hw.thread(t).loc;
    let threads = &e.hw.threads;
    e.hw.mbarriers.inval(bar, at, |w| threads[w as usize].line())?;
    if let Some((w, loc)) = e.race().and_then(|race| race.waits_on(t, bar)) {
        return Err(Mbarriers::may_wait(bar, e.hw.thread(w).place(), loc));
    }
    e.guided(|guide| {
        guide.init(bar);
        guide.touch(cta as u64, u64::from(addr), 8, true);
    });
    e.hw.smem[cta].clear_barrier(addr);
    e.checked(t, |race, thread| race.store(thread, (cta, addr, 8), false))
}

/// A thread arrives, and releases what it did.
pub(crate) fn thread_arrives(
    e: &mut Engine,
    t: u32,
    bar: usize,
    (n, kind, tx): (u32, Arrive, Option<u32>),
    scope: Scope,
) -> Result<u64, Fault> {
    let cta = e.hw.mbarriers.get(bar).cta;
    let near = e.hw.thread(t).cta == cta;
    e.checked(t, |race, thread| {
        race.uses(t, bar, false)?;
        race.reaches(thread, cta);
        race.arrives(t, bar, near, scope);
        Ok(())
    })?;
    let token = arrive(e, t, bar, (n, kind, tx))?;
    let over = e.hw.mbarriers.get(bar).state.phases_since(token) > 0;
    if over {
        e.edge(|race| race.completes(t, bar));
    }
    Ok(token)
}

/// Arrives, after expecting `tx` bytes if that is said. Gives the token of the phase before.
pub(crate) fn arrive(
    e: &mut Engine,
    t: u32,
    bar: usize,
    (n, kind, tx): (u32, Arrive, Option<u32>),
) -> Result<u64, Fault> {
    note(e, t, bar, if tx.is_some() { "arrive.expect_tx" } else { "arrive" }, (n, tx));
    let (token, done) = e.hw.mbarriers.arrive(bar, n, kind, tx)?;
    stepped(e, bar, kind == Arrive::NoComplete, done);
    Ok(token)
}

/// The hardware arrives once for a thread, whose `tcgen05.commit` stands at `loc`.
pub(crate) fn arrive_for(e: &mut Engine, t: u32, bar: usize, loc: Loc) -> Result<(), Fault> {
    let role = e.hw.thread(t).role;
    e.hw.mbarriers.note(bar, (t, role), "tcgen05.commit", Some(loc));
    let (_, done) = e.hw.mbarriers.arrive(bar, 1, Arrive::Plain, None)?;
    stepped(e, bar, false, done);
    Ok(())
}

/// `mbarrier.expect_tx`
pub(crate) fn expect(e: &mut Engine, t: u32, bar: usize, bytes: u32) -> Result<(), Fault> {
    uses(e, t, bar)?;
    let loc = e.hw.line(t);
    e.edge(|race| race.expects(t, bar, loc));
    note(e, t, bar, "expect_tx", (0, Some(bytes)));
    e.hw.mbarriers.expect(bar, bytes)?;
    stepped(e, bar, true, false);
    Ok(())
}

/// `mbarrier.complete_tx`
pub(crate) fn complete_tx(e: &mut Engine, t: u32, bar: usize, bytes: u32) -> Result<(), Fault> {
    uses(e, t, bar)?;
    e.edge(|race| race.will_complete(t, bar));
    e.operands(|| [u64::from(bytes)]);
    let phase = e.hw.mbarriers.get(bar).state.phase;
    complete(e, bar, bytes)?;
    if e.hw.mbarriers.get(bar).state.phase != phase {
        e.edge(|race| race.completes(t, bar));
    }
    Ok(())
}

/// Completes bytes: by an instruction, or because a copy landed.
pub(crate) fn complete(e: &mut Engine, bar: usize, bytes: u32) -> Result<(), Fault> {
    let done = e.hw.mbarriers.complete(bar, bytes)?;
    let t = e.current;
    e.timed(|time| time.completes(t, bar));
    stepped(e, bar, false, done);
    Ok(())
}

/// Checks that the initialisation of a barrier is visible to a thread that uses it.
pub(crate) fn uses(e: &mut Engine, t: u32, bar: usize) -> Result<(), Fault> {
    e.checked(t, |race, _| race.uses(t, bar, false))
}

/// Remembers an arrival, or an expectation, for reports and clocks.
fn note(e: &mut Engine, t: u32, bar: usize, what: &'static str, (n, tx): (u32, Option<u32>)) {
    let thread = e.hw.thread(t);
    let (loc, role) = (thread.loc, thread.role);
    e.hw.mbarriers.note(bar, (t, role), what, loc);
    if n > 0 {
        e.hw.mbarriers.arrives(bar, t, e.stats.steps, loc);
    }
    let (cta, addr) = (e.hw.mbarriers.get(bar).cta, e.hw.mbarriers.get(bar).addr);
    e.operands(|| [cta as u64, u64::from(addr), u64::from(n), tx.map_or(u64::MAX, u64::from)]);
    let phase = e.hw.mbarriers.get(bar).state.phase;
    e.timed(|time| time.arrives(t, loc, (bar, phase), n, tx));
}

/// A barrier came nearer to the end of its phase, or to it. `ordered`: other steps of the phase
/// decide what this one does.
fn stepped(e: &mut Engine, bar: usize, ordered: bool, done: bool) {
    let cta = e.hw.mbarriers.get(bar).cta;
    e.guided(|guide| {
        guide.visit(cta);
        guide.arrive(Key::Barrier(bar), ordered, done);
    });
    if done {
        phase_done(e, bar);
    }
}

fn phase_done(e: &mut Engine, bar: usize) {
    e.watched(|watcher| watcher.due = true);
    let b = e.hw.mbarriers.get(bar);
    let phase = b.state.phase.wrapping_sub(1);
    let lapped = e.guide.as_ref().and_then(|guide| guide.lapped(b));
    let sleepers = e.hw.mbarriers.take_waiters(bar);
    let unsure = phase_seen(e, (bar, phase), &sleepers);
    e.timed(|time| time.phase_done(bar, phase));
    if let Some(t) = lapped {
        let fault = e.hw.mbarriers.lap(bar, phase.wrapping_sub(1));
        let loc = e.hw.thread(t).loc;
        e.fail_at(Some(t), loc, fault);
    }
    let mut late = None;
    e.edge(|race| late = race.late_expect(bar));
    if let Some((t, loc)) = late {
        let message = format!(
            "{} expects bytes in {} of {}, and nothing orders that before an arrival in this phase: under another schedule \
             the phase is over before, and the bytes are expected in the next one. Right is arrive_expect_tx, or an expect_tx before \
             the thread's own arrival",
            e.hw.thread(t).place(),
            phase_name(phase),
            e.hw.mbarriers.name(bar),
        );
        e.fail_at(Some(t), Some(loc), Fault::new(Rule::TxOverrun, message));
    }
    if let Some((t, loc, fault)) = outlives(&e.hw, bar, phase) {
        e.fail_at(Some(t), Some(loc), fault);
    }
    if let Some((t, loc)) = unsure {
        let fault = e.hw.mbarriers.may_lap(bar, phase, e.hw.thread(t).place());
        e.fail_at(Some(t), Some(loc), fault);
    }
    for t in sleepers {
        e.wake(t, 0);
    }
}

/// A copy in flight that was issued before the phase was over that has just completed without it.
fn outlives(hw: &Machine, bar: usize, phase: u32) -> Option<(u32, Loc, Fault)> {
    let coming = hw.copies.coming(bar);
    if coming == 0 {
        return None;
    }
    let copy = hw.copies.in_flight().iter().find(|copy| copy.bar() == Some(bar))?;
    let message = format!(
        "{} of {} is over, and {coming} bytes of copies that were issued before are on their way: under another schedule they \
         count in this phase. Right is an expect_tx of all bytes, or a wait for the phase before the next copy",
        phase_name(phase),
        hw.mbarriers.name(bar),
    );
    Some((copy.issuer, copy.loc, Fault::new(Rule::TxOverrun, message).bar(bar)))
}

/// Notes who is about to see a phase. Gives a thread that was not sure to have seen the phase before.
fn phase_seen(e: &mut Engine, (bar, phase): (usize, u32), sleepers: &[u32]) -> Option<(u32, Loc)> {
    let line = |&t: &u32| (t, e.hw.thread(t).line());
    let sleepers: Vec<_> = sleepers.iter().map(line).collect();
    let mut unsure = None;
    e.edge(|race| unsure = race.phase_done(bar, phase, &sleepers));
    unsure
}

/// Checks that a wait for a parity is for the phase that comes next for its thread.
fn follows(e: &Engine, t: u32, bar: usize, phase: u32) -> Result<(), Fault> {
    let means = e.race().map_or(Ok(()), |race| race.looks(t, bar, phase));
    means.map_err(|last| e.hw.mbarriers.missed(bar, last, phase))
}

/// A wait or a poll: false when a poll gave up.
pub(crate) fn wait(
    e: &mut Engine,
    t: u32,
    addr: u32,
    (want, poll): (Want, bool),
    scope: Scope,
) -> Result<Poll<bool>, Fault> {
    let waited = e.hw.thread(t).wait;
    match (e.woken(t), waited) {
        (Wake::TimedOut, _) => return Ok(Poll::Ready(false)),
        (Wake::Go(_), Wait::MBarrier { bar, phase, .. }) => {
            e.hw.mbarriers.after_wait(bar, phase)?;
            return Ok(passed(e, t, (bar, phase), scope));
        }
        _ => {}
    }
    let bar = e.hw.own_bar(t, addr)?;
    e.operands(|| match want {
        Want::Parity(parity) => [u64::from(parity)],
        // The phase that the token is of, as far as a wait can tell, and the arrivals it lacked.
        Want::Token(token) => [1 << 63 | (token >> 32) << 1 | token & 1],
    });
    e.hw.mbarriers.looked(bar, t);
    uses(e, t, bar)?;
    let (done, phase) = e.hw.mbarriers.look(bar, want)?;
    if let Some(guide) = &mut e.guide {
        guide.look(t, bar, phase, !poll);
        if !done && poll && guide.poll_failed(t, bar, phase) {
            return Ok(Poll::Ready(false));
        }
    }
    let wanted = if done { phase.wrapping_sub(1) } else { phase };
    // A poll that sees nothing says nothing yet.
    if matches!(want, Want::Parity(_)) && (done || !poll) {
        follows(e, t, bar, wanted)?;
    }
    if poll && misses(e, t, (bar, wanted)) {
        return Ok(Poll::Ready(false));
    }
    if done {
        return Ok(passed(e, t, (bar, wanted), scope));
    }
    e.hw.mbarriers.wait(bar, t);
    e.sleep(t, Wait::MBarrier { bar, phase, poll });
    Ok(Poll::Pending)
}

/// Whether a poll finds the phase in progress though it may be over: under another schedule it is in progress. It is drawn
/// where priorities decide, and after a first such answer, for code that goes on at once has faults of its own.
fn misses(e: &mut Engine, t: u32, at: (usize, u32)) -> bool {
    if !e.schedule.draws() {
        return false;
    }
    let line = e.hw.line(t);
    let finds = e.race().map_or(Finds::WhatIs, |race| race.finds(t, at, line));
    let misses = match finds {
        Finds::WhatIs => false,
        Finds::First if !e.sched.has_priorities() => true,
        Finds::First | Finds::Later => e.sched.rng.draw() & 1 == 0,
    };
    if misses {
        e.edge(|race| race.polls.misses(t, at, line));
    }
    misses
}

/// The wait that a thread has just passed was for this phase.
pub(crate) fn waited_for(e: &mut Engine, t: u32, addr: u32, phase: u32) -> Result<(), Fault> {
    let bar = e.hw.own_bar(t, addr)?;
    e.hw.mbarriers.waited_for(bar, phase)
}

/// A thread has seen a phase complete.
fn passed(e: &mut Engine, t: u32, (bar, phase): (usize, u32), scope: Scope) -> Poll<bool> {
    let line = e.hw.line(t);
    e.edge(|race| race.waited(t, (bar, phase), line, scope));
    let loc = e.hw.thread(t).loc;
    e.hw.mbarriers.sees(bar, t, (phase, e.stats.steps), loc);
    e.timed(|time| time.waited(t, loc, bar, phase));
    Poll::Ready(true)
}
