//! The page of a report: what is wrong, and the state around it.

use super::view::Page;
use super::waits::{self, Waits};
use super::{hints, steps};
use crate::finding::fault::Fault;
use crate::finding::report::{BarrierState, Report, SourceLine, ThreadGroup};
use crate::finding::rule::Rule;
use crate::types::loc::Loc;
use crate::types::wait::{Status, Wait};

/// Writes the report of a broken rule.
pub(crate) fn report(c: &Page<'_>, t: Option<u32>, at: Option<Loc>, fault: Fault) -> Report {
    let bars: Vec<usize> = fault.bar.into_iter().collect();
    Report {
        message: hints::message(c, t, &fault),
        at: at.map(SourceLine::from),
        culprit: t.map(|t| c.place(t)),
        notes: hints::notes(c, t, &fault),
        other: fault.other.map(|(what, loc)| (what, loc.into())),
        ..state(c, fault.rule, &bars, t)
    }
}

/// Writes the report of a cluster in which nothing can run.
pub(crate) fn deadlock(c: &Page<'_>) -> Report {
    if let Some(r) = broken_meeting(c) {
        return r;
    }
    if let Some((t, loc, fault)) = c.hw.named.miscounted() {
        return report(c, Some(t), Some(loc), fault);
    }
    let Waits { message, lines: waits, right, mut bars } = waits::told(c);
    let stuck = bars.iter().copied().find(|&b| {
        let s = &c.hw.mbarriers.get(b).state;
        s.pending == 0 && s.tx > 0
    });
    let (rule, message) = match stuck {
        Some(bar) => {
            bars.retain(|&o| o != bar);
            bars.insert(0, bar);
            (Rule::TxLeftOver, missing_bytes(c, bar))
        }
        None => (Rule::Deadlock, message),
    };
    let mut notes: Vec<String> = right.into_iter().collect();
    notes.extend(kept(c, &bars));
    notes.extend(bars.iter().filter_map(|&b| hints::too_low(c, b)));
    notes.extend(hints::first_parity(c, &bars));
    let mut ctas: Vec<usize> =
        c.hw.threads
            .iter()
            .filter(|t| matches!(t.wait, Wait::Registers { .. }))
            .map(|t| t.cta)
            .collect();
    ctas.dedup();
    notes.extend(ctas.iter().take(2).map(|&cta| hints::registers(c, cta)));
    let told = |note: &String| {
        let barrier = note.split(" of CTA").next().and_then(|n| n.split(':').next()).unwrap_or("");
        waits.iter().any(|line| line.contains(barrier))
    };
    notes.extend(barrier_notes(c).into_iter().filter(|note| !told(note)));
    let told = |line: &String| waits.contains(line);
    notes.extend(waits::returned_warps(c).into_iter().filter(|line| !told(line)).take(4));
    let at = stuck.and_then(|b| c.hw.mbarriers.get(b).arrivals().last()).map(|a| a.loc.into());
    Report { message, at, notes, waits, ..state(c, rule, &bars, None) }
}

fn missing_bytes(c: &Page<'_>, bar: usize) -> String {
    let (name, b) = (c.hw.mbarriers.name(bar), c.hw.mbarriers.get(bar));
    format!(
        "phase {} of {name} of CTA {} has its arrivals, but {} of the bytes that it expects have not \
         landed, and no copy is in flight: the bytes of expect_tx are those of all copies that complete \
         on the barrier in this phase",
        b.state.phase, b.cta, b.state.tx
    )
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
        let doing = if o.status == Status::Done {
            "has returned".to_owned()
        } else {
            format!("executes {}", o.op)
        };
        let of = if size == 32 { "warp" } else { "warp group" };
        let message = format!(
            "{} waits in {} for all of its {of}, and {} {doing}",
            t.place(),
            t.op,
            o.place()
        );
        let mut fault = Fault::new(rule, message);
        if let Some(loc) = o.loc {
            fault = fault.against("the other", loc);
        }
        return Some(report(c, Some(i as u32), t.loc, fault));
    }
    None
}

/// Tokens that a thread holds, and with which it would arrive at one of these barriers, or which it took
/// with it when it returned.
fn kept(c: &Page<'_>, bars: &[usize]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for t in &c.hw.threads {
        let gone = t.status == Status::Done;
        for token in c.hw.tokens.of(t.id) {
            if gone || bars.iter().any(|&b| c.hw.mbarriers.get(b).addr == token.at) {
                let (says, who) = (token.says(t.role), c.place(t.id));
                let was = if gone { "was never" } else { "has not been" };
                // Of the threads that took it together the first speaks.
                if !out.iter().any(|o| o.starts_with(&says)) {
                    out.push(format!("{says} {was} {}; {who} {}", token.done, doing(c, t.id)));
                }
            }
        }
    }
    out
}

fn barrier_notes(c: &Page<'_>) -> Vec<String> {
    let named = c.hw.named.in_use().map(|n| {
        let (id, cta, come, threads) = (n.id, n.cta, n.come, n.threads);
        let name = c.hw.named.name(cta, id as u32);
        format!("{name} of CTA {cta}: {come} of {threads} threads have come")
    });
    let mut out: Vec<String> = named.collect();
    if c.hw.threads.iter().any(|t| t.wait == Wait::Cluster) {
        let (come, total) = (c.hw.all.come(), c.hw.threads.len());
        out.push(format!("the cluster barrier: {come} of {total} threads have come"));
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
        Wait::Named { id } => format!("waits on {}", c.hw.named.name(t.cta, id)),
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
        Wait::Pair { op } => {
            format!("waits for a warp of CTA {} of its pair in {op}", t.cta ^ 1)
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
        name: c.hw.mbarriers.name(bar).replace('`', ""),
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
                let s = if a.times == 1 { "" } else { "s" };
                let (what, times, phase) = (a.what, a.times, a.phase);
                format!("{what} at {at}: {times} time{s}, last in phase {phase} by {who}")
            })
            .collect(),
    }
}
