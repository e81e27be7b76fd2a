//! The page of a report: what is wrong, and the state around it.

use super::view::Page;
use super::{steps, waits};
use crate::cluster::thread::Thread;
use crate::finding::fault::Fault;
use crate::finding::report::{BarrierState, Report, SourceLine, ThreadGroup};
use crate::finding::rule::Rule;
use crate::types::loc::Loc;
use crate::types::wait::{Status, Wait};
use std::fmt::Write;

/// Writes the report of a broken rule.
pub(crate) fn report(c: &Page<'_>, t: Option<u32>, at: Option<Loc>, fault: Fault) -> Report {
    let bars: Vec<usize> = fault.bar.into_iter().collect();
    Report {
        message: fault.message,
        at: at.map(SourceLine::from),
        other: fault.other.map(|(what, loc)| (what, loc.into())),
        culprit: t.map(|t| c.place(t)),
        notes: Vec::new(),
        ..state(c, fault.rule, &bars, t)
    }
}

/// Writes the report of a cluster in which nothing can run.
pub(crate) fn deadlock(c: &Page<'_>) -> Report {
    if let Some(r) = broken_meeting(c) {
        return r;
    }
    let mut bars: Vec<usize> = c.hw.threads.iter().filter_map(waited_bar).collect();
    bars.sort_unstable();
    bars.dedup();
    let stuck = bars.iter().copied().find(|&b| {
        let s = &c.hw.mbarriers.get(b).state;
        s.pending == 0 && s.tx > 0
    });
    let asleep = c.hw.threads.iter().filter(|t| t.status == Status::Asleep).count();
    let (rule, message) = if let Some(b) = stuck {
        bars.retain(|&o| o != b);
        bars.insert(0, b);
        let name = c.hw.mbarriers.name(b);
        let b = c.hw.mbarriers.get(b);
        let message = format!(
            "{name} of CTA {}: phase {} has its arrivals, {} bytes of its transactions are missing \
             and no copy is in flight",
            b.cta, b.state.phase, b.state.tx
        );
        (Rule::TxLeftOver, message)
    } else {
        let done = c.hw.threads.len() - asleep;
        let message =
            format!("{asleep} of the cluster's threads wait, {done} have returned, none can run");
        (Rule::Deadlock, message)
    };
    let mut notes: Vec<String> = bars.iter().map(|&b| missing(c, b)).collect();
    notes.extend(named_notes(c));
    let at = stuck.and_then(|b| c.hw.mbarriers.get(b).arrivals().last()).map(|a| a.loc.into());
    let waits = waits::chain(c);
    Report { message, at, notes, waits, ..state(c, rule, &bars, None) }
}

fn waited_bar(t: &Thread) -> Option<usize> {
    match t.wait {
        Wait::MBarrier { bar, .. } if t.status == Status::Asleep => Some(bar),
        _ => None,
    }
}

/// A warp or warp group of which a part waits for lanes that do something else, or have returned.
fn broken_meeting(c: &Page<'_>) -> Option<Report> {
    for (i, t) in c.hw.threads.iter().enumerate() {
        let size = match t.wait {
            Wait::Warp { .. } => 32,
            Wait::Warpgroup => 128,
            _ => continue,
        };
        if t.status != Status::Asleep {
            continue;
        }
        let first = i - (t.index % size) as usize;
        let last = (first + size as usize)
            .min(first - (t.index - t.index % size) as usize + c.hw.shape.block_threads() as usize);
        let elsewhere = c.hw.threads[first..last].iter().find(|o| {
            // A lane that sleeps on a barrier may come yet; these will not.
            o.status == Status::Done
                || (matches!(o.wait, Wait::Warp { .. } | Wait::Warpgroup)
                    && (o.wait != t.wait || o.loc != t.loc))
        });
        let Some(o) = elsewhere else { continue };
        let rule = if size == 32 { Rule::Diverged } else { Rule::BrokenWarpgroup };
        let doing = if o.status == Status::Done { "has returned" } else { o.op };
        let message = format!(
            "{} waits for its whole warp{}, of which warp {} lane {} {doing}",
            t.op,
            if size == 32 { "" } else { " group" },
            o.index / 32,
            o.lane(),
        );
        let mut fault = Fault::new(rule, message);
        if let Some(loc) = o.loc {
            fault = fault.against("the other", loc);
        }
        return Some(report(c, Some(i as u32), t.loc, fault));
    }
    None
}

/// What a barrier lacks, and who gave it before.
fn missing(c: &Page<'_>, bar: usize) -> String {
    let b = c.hw.mbarriers.get(bar);
    let s = &b.state;
    let name = c.hw.mbarriers.name(bar);
    let mut lacks = Vec::new();
    if s.pending > 0 {
        lacks.push(format!("{} of {} arrivals", s.pending, s.expected));
    }
    if s.tx != 0 {
        lacks.push(format!("{} bytes", s.tx));
    }
    let mut text =
        format!("{name} of CTA {}: phase {} lacks {}", b.cta, s.phase, lacks.join(" and "));
    match b.arrivals().iter().filter(|a| a.phase != s.phase).max_by_key(|a| a.times) {
        Some(a) => {
            let (who, at) = (c.place(a.thread), SourceLine::from(a.loc));
            let (did, does) = (past(a.what), doing(c, a.thread));
            let _ = write!(text, "; before, {who} {did} there at {at}, and now {does}");
        }
        None if b.arrivals().is_empty() => text += "; nobody has ever arrived there",
        None => {}
    }
    text
}

fn past(what: &str) -> &'static str {
    if what == "expect_tx" { "expected bytes" } else { "arrived" }
}

fn named_notes(c: &Page<'_>) -> Vec<String> {
    let named = c.hw.named.in_use().map(|n| {
        let (id, cta, come, threads) = (n.id, n.cta, n.come, n.threads);
        format!("named barrier {id} of CTA {cta}: {come} of {threads} threads have come")
    });
    let mut out: Vec<String> = named.collect();
    if c.hw.threads.iter().any(|t| t.wait == Wait::Cluster) {
        let (come, total) = (c.hw.all.come(), c.hw.threads.len());
        out.push(format!("cluster barrier: {come} of {total} threads have come"));
    }
    out
}

/// What a thread does, in words.
fn doing(c: &Page<'_>, index: u32) -> String {
    let t = &c.hw.threads[index as usize];
    if t.status == Status::Done {
        return "has returned".into();
    }
    match t.wait {
        Wait::Nothing if c.guide.is_some_and(|g| g.pauses(index)) => {
            format!("is about to execute {}", t.op)
        }
        Wait::Nothing => format!("runs, last {}", t.op),
        Wait::MBarrier { bar, phase, poll } => {
            let name = c.hw.mbarriers.name(bar);
            let verb = if poll { "polls" } else { "waits on" };
            format!("{verb} {name} for phase {phase} (parity {})", phase & 1)
        }
        Wait::Named { id } => format!("waits on named barrier {id}"),
        Wait::Cluster => "waits on the cluster barrier".into(),
        Wait::Warp { op } => format!("waits for its warp in {op}"),
        Wait::Warpgroup => "waits for its warp group in wgmma".into(),
        Wait::BulkGroups { left, read } => {
            let read = if read { ".read" } else { "" };
            format!("waits for bulk groups (wait_group{read} {left})")
        }
        Wait::CpAsync { left } => format!("waits for cp.async groups (wait_group {left})"),
        Wait::Registers { want } => {
            let have = c.hw.registers.of(t.warp);
            format!("waits in setmaxnreg for {want} registers, has {have}")
        }
        Wait::GridAhead => {
            format!("waits in griddepcontrol.wait for `{}` to end", c.hw.launches.ahead())
        }
        Wait::Poll { global: true } => format!("polls global memory with {}", t.op),
        Wait::Poll { global: false } => format!("polls with {}", t.op),
    }
}

/// Everything about the cluster that a report shows.
fn state(c: &Page<'_>, rule: Rule, bars: &[usize], culprit: Option<u32>) -> Report {
    let mut threads: Vec<ThreadGroup> = Vec::new();
    for (i, t) in c.hw.threads.iter().enumerate().filter(|(_, t)| t.status != Status::Done) {
        let (doing, at) = (doing(c, i as u32), t.loc.map(SourceLine::from));
        let cta = t.cta as u32;
        let same = |g: &&mut ThreadGroup| {
            g.cta == cta && g.role == t.role && g.at == at && g.doing == doing
        };
        let warp = t.index / 32;
        if let Some(g) = threads.iter_mut().find(same) {
            g.count += 1;
            if g.warps.last() != Some(&warp) {
                g.warps.push(warp);
            }
        } else {
            threads.push(ThreadGroup { cta, warps: vec![warp], count: 1, role: t.role, doing, at });
        }
    }
    Report {
        rule,
        kernel: c.hw.shape.name.clone(),
        message: String::new(),
        seed: c.seed,
        schedule: match c.guide {
            Some(guide) => guide.written(),
            None => c.schedule.with_seed(c.seed),
        },
        trace: c.steps.hash(),
        cluster: c.hw.shape.index,
        culprit: None,
        at: None,
        other: None,
        threads,
        barriers: bars.iter().map(|&b| barrier(c, b)).collect(),
        notes: Vec::new(),
        waits: Vec::new(),
        steps: steps::last(c, bars, culprit),
    }
}

fn barrier(c: &Page<'_>, bar: usize) -> BarrierState {
    let b = c.hw.mbarriers.get(bar);
    BarrierState {
        cta: b.cta as u32,
        name: c.hw.mbarriers.name(bar),
        stage: c.hw.mbarriers.labels.get(b.cta, b.addr).map(|l| l.1),
        phase: b.state.phase,
        pending: b.state.pending,
        expected: b.state.expected,
        tx: b.state.tx,
        init: Some(b.init.into()),
        arrivals: b
            .arrivals()
            .iter()
            .map(|a| {
                let (who, at) = (c.place(a.thread), SourceLine::from(a.loc));
                format!("{} at {at}: {} times, last in phase {} by {who}", a.what, a.times, a.phase)
            })
            .collect(),
    }
}
