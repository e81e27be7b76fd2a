//! A cluster whose guide says who goes next.

use super::idle::{self, Next};
use crate::barrier::mbarriers::Want;
use crate::copy::flight::{Kind, Sink};
use crate::engine::cluster::Engine;
use crate::engine::machine::Machine;
use crate::exec::landing;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::types::loc::Loc;
use crate::types::wait::Status;
use crate::walk::guide::{Guide, Idle, Step, foot, looks};
use crate::walk::tree::Foot;

/// Before an instruction: whether its thread pauses, for somebody else may go first.
pub(crate) fn pauses(
    e: &mut Engine,
    name: &'static str,
    arg: u32,
    loc: Loc,
    want: Option<(Want, bool)>,
) -> bool {
    let t = e.current;
    let Some(guide) = &mut e.guide else { return false };
    if !guide.stops_at(name, loc) {
        return false;
    }
    guide.pause(t, foot(name, e.hw.split(t, arg, 0).ok()), loc, want);
    let thread = e.hw.thread_mut(t);
    (thread.loc, thread.op, thread.status) = (Some(loc), name, Status::Ready);
    true
}

fn guide(e: &mut Engine) -> &mut Guide {
    e.guide.as_mut().expect("a guided run")
}

/// What happens next on the path.
pub(crate) fn next(e: &mut Engine) -> Next {
    e.between_steps();
    let guide = e.guide.as_mut().expect("a guided run");
    // What is no choice goes first.
    if let Some(t) = guide.free(&e.sched.ready) {
        return go(e, t, None);
    }
    let hw = &e.hw;
    let copies = hw.copies.in_flight().iter().map(|c| (c.agent, copy_foot(hw, &c.kind)));
    let bar_at = |cta, addr| {
        let bar = hw.bar_at((cta, addr)).ok()?;
        Some((bar, &hw.mbarriers.get(bar).state))
    };
    let enabled = guide.enabled(|t| hw.thread(t).op, bar_at, copies);
    if enabled.is_empty() {
        return idle(e);
    }
    let (at, node) = guide.choose(&enabled);
    match enabled[at].2 {
        Step::Thread(t) => go(e, t, Some(node)),
        Step::Copy(place) => {
            let copy = &e.hw.copies.in_flight()[place];
            guide.order.begin(copy.agent, Some(node), Some(copy.loc));
            landing::land(e, place);
            e.executed();
            Next::Again
        }
    }
}

fn go(e: &mut Engine, t: u32, node: Option<usize>) -> Next {
    let thread = e.hw.thread(t);
    let starts = (thread.op == "start").then_some(thread.cta);
    guide(e).go(t, node, starts);
    e.sched.ready.retain(|&o| o != t);
    idle::run(e, t)
}

/// What the landing of a copy works on.
fn copy_foot(hw: &Machine, kind: &Kind) -> Foot {
    match kind {
        Kind::TensorLoad { to, .. } | Kind::RunLoad { to, .. } => {
            Foot::Load { cta: to.cta, addr: hw.mbarriers.get(to.bar).addr }
        }
        Kind::Commit { cta, bar, .. } => {
            Foot::Load { cta: *cta, addr: hw.mbarriers.get(*bar).addr }
        }
        Kind::StoreWrite { sink: Sink::Tensor { .. } | Sink::Run { .. }, .. } => Foot::Memory,
        Kind::Peer { .. } | Kind::Answer { .. } | Kind::StoreRead { .. } | Kind::CpAsync => {
            Foot::Other
        }
    }
}

/// Nobody can go.
fn idle(e: &mut Engine) -> Next {
    if e.live == 0 {
        return Next::Finished;
    }
    let progress = std::mem::take(&mut e.sched.progress);
    match guide(e).idle(progress) {
        Idle::Again => Next::Again,
        Idle::Asleep => {
            let next = idle::idle(e);
            if matches!(next, Next::Polling | Next::PollingYet) {
                guide(e).resume();
            }
            next
        }
        Idle::Go(t) => {
            let op = e.hw.thread(t).op;
            if op.contains("global") {
                // Another cluster may change what it looks at.
                guide(e).resume();
                return Next::Polling;
            }
            if looks(op) && op != "ld.acquire.gpu" {
                let message = "the same load again and again, and nothing changes";
                e.fail(t, Fault::new(Rule::StepLimit, message));
                return Next::Failed;
            }
            go(e, t, None)
        }
    }
}
