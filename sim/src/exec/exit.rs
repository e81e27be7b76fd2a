//! What must be true when a thread, and its CTA, ends.

use super::{cluster_barrier, grid, named};
use crate::barrier::uses::phase_name;
use crate::engine::cluster::Engine;
use crate::engine::machine::Machine;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::race::ends::Late;
use crate::types::loc::Loc;
use crate::types::wait::{Status, Wait};

/// A thread has returned.
pub(crate) fn exit(e: &mut Engine, t: u32) {
    let thread = e.hw.thread_mut(t);
    thread.status = Status::Done;
    thread.wait = Wait::Nothing;
    let (cta, lane) = (thread.cta, thread.lane());
    e.hw.warp_mut(t).exit(lane);
    let last = e.hw.ctas.exit(cta);
    e.live -= 1;
    e.sched.progress = true;
    e.guided(|guide| guide.exit(cta, last));
    e.watched(|watcher| watcher.exits(t));
    e.edge(|race| race.returns(t, cta));
    cluster_barrier::exit(e, t);
    named::exit(e, t);
    if e.hw.warp_mut(t).is_gone() {
        let warp = e.hw.thread(t).warp;
        if let Err(fault) = e.hw.rounds.exit(warp) {
            let loc = e.hw.thread(t).loc;
            e.fail_at(Some(t), loc, fault);
        }
    }
    if last {
        grid::signals(e, cta);
    }
    let (held, member) = e.hw.held_mut(t);
    if let Some((fault, loc)) = held.left_by(member) {
        e.fail_at(Some(t), Some(loc), fault);
    } else if let Err((fault, loc)) = left_over(&e.hw, t, last) {
        e.fail_at(Some(t), loc, fault);
    } else if last && let Some((t, loc, fault)) = late(e, cta) {
        e.fail_at(Some(t), Some(loc), fault);
    } else if !e.hw.ctas.any_lives()
        // Before that, a peer may yet come: too late, which it is told itself.
        && let Some((fault, loc)) = e.hw.mbarriers.mid_phase()
    {
        e.fail_at(Some(t), loc, fault);
    }
}

/// What comes before the exit of a CTA in this run, and need not under another schedule.
fn late(e: &Engine, cta: usize) -> Option<(u32, Loc, Fault)> {
    let bars = &e.hw.mbarriers;
    let late = e.race()?.late(cta, |bar| bars.get(bar).cta == cta)?;
    let (rule, message, site) = match late {
        Late::Load { bar, phase, site } => {
            let (name, phase) = (bars.name(bar), phase_name(phase));
            let message = format!(
                "a load into CTA {cta} completes in {phase} of {name}, and no thread of the CTA has waited for \
                 that phase: under another schedule it is in flight when the CTA exits. Right is a wait for it; the producer of a \
                 ring waits with `tail` (CUTLASS: producer_tail) until every slot has been released"
            );
            (Rule::InFlightAtExit, message, site)
        }
        Late::Sent { bar, phase, site } => {
            let (name, phase) = (bars.name(bar), phase_name(phase));
            let message = format!(
                "a copy from CTA {cta} completes in {phase} of {name}, and no thread of CTA {cta} has heard of that when it \
                 returns: under another schedule the copy still reads its shared memory. Right is an arrival of the receiver on \
                 an mbarrier of CTA {cta}, or a barrier of the cluster before the kernel's end"
            );
            (Rule::InFlightAtExit, message, site)
        }
        Late::CpAsync(site) => {
            let who = e.hw.thread(site.thread).place();
            let message = format!(
                "a cp.async of {who}, and no thread of CTA {cta} has waited for it: under another schedule it is in flight \
                 when the CTA exits. Right is a wait_group by the thread that issued it, or a wait for the mbarrier of its \
                 cp.async.mbarrier.arrive.noinc by a thread of the CTA"
            );
            (Rule::InFlightAtExit, message, site)
        }
        Late::Peer(site) => {
            let who = e.hw.thread(site.thread).place();
            let message = format!(
                "{who} uses shared memory of CTA {cta} ({}), and no thread of CTA {cta} has heard of that \
                 when it returns: under another schedule the CTA has exited before. Right is a barrier of \
                 the cluster before the kernel's end",
                site.what
            );
            (Rule::PeerGone, message, site)
        }
    };
    Some((site.thread, site.loc, Fault::new(rule, message)))
}

/// What a thread leaves behind, and what its CTA does if it is the last thread.
fn left_over(hw: &Machine, t: u32, last: bool) -> Result<(), (Fault, Option<Loc>)> {
    let thread = hw.thread(t);
    let at_exit = |what: &str, loc: Loc| {
        let message = format!("{} returns and leaves {what}", thread.place());
        Err((Fault::new(Rule::InFlightAtExit, message), Some(loc)))
    };
    if let Some((name, loc)) = hw.warps[thread.warp].missed(thread.lane()) {
        let message = format!("lane {} returns without {name}", thread.lane());
        let fault = Fault::new(Rule::Diverged, message).against(name, loc);
        return Err((fault, thread.loc));
    }
    if let Some((what, loc)) = hw.copies.left_by_thread(t) {
        return at_exit(what, loc);
    }
    if let Some(loc) = hw.umma.left_over(t) {
        return at_exit("a tcgen05.mma that no tcgen05.commit covers", loc);
    }
    let first = t - thread.index % 128;
    let done = |o: u32| hw.thread(o).status == Status::Done;
    if let Some(loc) = hw.groups[thread.cta][thread.warp_group()].in_flight()
        && (first..first + 128).all(done)
    {
        return at_exit("a wgmma that no wait_group retired", loc);
    }
    if !last {
        return Ok(());
    }
    let (first, block) = (t - thread.index, hw.shape.block_threads());
    if let Some((what, loc, bar)) = hw.copies.left_by_cta(thread.cta, first..first + block) {
        let completes = bar.map_or_else(String::new, |bar| {
            let phase = hw.mbarriers.get(bar).state.phase;
            format!(", which completes in phase {phase} of {}", hw.mbarriers.name(bar))
        });
        let fault = at_exit(&format!("{what}{completes}"), loc);
        return fault.map_err(|(fault, loc)| (Fault { bar, ..fault }, loc));
    }
    if let Some(loc) = hw.umma.reads_of(thread.cta) {
        return at_exit("a tcgen05 instruction in flight, which uses the CTA's memory", loc);
    }
    if let Some((fault, loc)) = hw.pairs.left(thread.cta) {
        return Err((fault, Some(loc)));
    }
    if let Some((fault, loc)) = hw.tensor[thread.cta].left_over(thread.cta) {
        return Err((fault, Some(loc)));
    }
    let all = (first..first + block).map(|t| (t, hw.thread(t).role));
    let left = hw.tokens.left_over(all).or_else(|| hw.mbarriers.left_over(thread.cta));
    left.map_or(Ok(()), Err)
}
