//! `barrier.cta`: named barriers.

use crate::barrier::named::{Met, Reduction};
use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::race::named::Arrival;
use crate::types::wait::{Wait, Wake};
use crate::walk::order::Key;
use std::task::Poll;

/// Arrives at a barrier; `wait` says whether the thread waits, and with what vote. Gives the
/// reduction.
pub(crate) fn come(
    e: &mut Engine,
    t: u32,
    (id, threads): (u32, u32),
    wait: Option<(Reduction, bool)>,
) -> Result<Poll<u32>, Fault> {
    if let Wake::Go(value) = e.woken(t) {
        let loc = e.hw.thread(t).loc;
        e.timed(|time| time.synced(t, loc, id, false));
        return Ok(Poll::Ready(value));
    }
    let (cta, loc) = (e.hw.thread(t).cta, e.hw.line(t));
    let met = e.hw.named.come(cta, (t, loc), id, threads, wait)?;
    let (key, full) = (Key::Named(cta, id), met.is_some());
    e.operands(|| [u64::from(threads), u64::from(wait.is_some())]);
    e.watched(|watcher| watcher.due |= full);
    let whole = full || e.hw.named.has_come(cta, id, t);
    let mut unheard = None;
    e.edge(|race| unheard = race.named_arrives(t, (cta, id), loc, whole));
    if let Some(before) = unheard {
        return Err(may_mix(e, (cta, id), before));
    }
    e.guided(|guide| guide.arrive(key, false, full));
    e.timed(|time| time.comes(t, id, full));
    let Some(met) = met else {
        if wait.is_some() {
            e.sleep(t, Wait::Named { id });
            return Ok(Poll::Pending);
        }
        return Ok(Poll::Ready(0));
    };
    let (waits, value) = (wait.is_some().then_some(t), met.value);
    complete(e, (cta, id), met, waits);
    if wait.is_some() {
        e.timed(|time| time.synced(t, Some(loc), id, true));
    }
    Ok(Poll::Ready(value))
}

/// A warp comes to a barrier, and nothing tells it that another has come to the use before.
fn may_mix(e: &Engine, (cta, id): (usize, u32), before: Arrival) -> Fault {
    let message = format!(
        "nothing orders this arrival at {} behind that of {} in the use before: under another schedule it counts in that \
         use. Each group that synchronises has a named barrier of its own; who only arrives waits, before it comes again, \
         for those who waited",
        e.hw.named.name(cta, id),
        e.hw.thread(before.thread).place()
    );
    Fault::new(Rule::NamedBarrier, message).against("the arrival in the use before", before.loc)
}

/// A barrier is complete: wakes those who slept there. `last` came last, and waits no more.
fn complete(e: &mut Engine, (cta, id): (usize, u32), met: Met, last: Option<u32>) {
    let key = Key::Named(cta, id);
    e.guided(|guide| last.into_iter().for_each(|t| guide.order.completed_for(key, t)));
    e.edge(|race| race.named_done((cta, id), met.sleepers.iter().copied().chain(last)));
    for s in met.sleepers {
        e.guided(|guide| guide.order.completed_for(key, s));
        e.wake(s, met.value);
    }
}

/// A thread returns, and no barrier waits for it any more.
pub(crate) fn exit(e: &mut Engine, t: u32) {
    let cta = e.hw.thread(t).cta;
    match e.hw.named.exit(cta, t) {
        Ok(done) => {
            for (id, met) in done {
                e.guided(|guide| guide.arrive(Key::Named(cta, id), false, true));
                complete(e, (cta, id), met, None);
            }
        }
        Err((fault, loc)) => e.fail_at(Some(t), Some(loc), fault),
    }
}
