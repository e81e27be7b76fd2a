//! What a report adds to a broken rule: the waits behind it, and what would be right.

use super::people::at;
use super::view::Page;
use crate::barrier::uses::phase_name;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;

/// The message of a fault, with the thread and the barrier that it is about.
pub(super) fn message(c: &Page<'_>, t: Option<u32>, fault: &Fault) -> String {
    let mut text = fault.message.clone();
    if let Some(t) = t
        && text.starts_with("shared address")
    {
        text = format!("{} executes {} on {text}", c.place(t), c.hw.thread(t).op);
    }
    if let (Some(t), Some(rest)) = (t, text.strip_prefix("a thread ")) {
        text = format!("{} {rest}", c.place(t));
    }
    if let Some(t) = t
        && of_operands(fault.rule)
        && !text.contains(c.hw.thread(t).op)
        && !text.starts_with(&c.place(t).to_string())
    {
        text = format!("{}: {text}", c.hw.thread(t).op);
    }
    if let Some(bar) = fault.bar {
        let name = c.hw.mbarriers.name(bar);
        if !text.contains(&name) {
            text = format!("{name} of CTA {}: {text}", c.hw.mbarriers.get(bar).cta);
        }
    }
    match (fault.rule, t) {
        (Rule::Uninitialised, Some(t)) if !c.hw.mbarriers.all().is_empty() => {
            text += &last_wait(c, t);
        }
        (Rule::CopyInFlight, Some(t)) => {
            if let Some(bar) = fault.bar {
                text += &last_wait_there(c, t, bar);
            }
        }
        _ => {}
    }
    text
}

/// Whether a rule is about an instruction's operands, so that a message begins with the instruction.
fn of_operands(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::CountRange
            | Rule::Misaligned
            | Rule::RemoteAddress
            | Rule::GlobalBounds
            | Rule::NamedBarrier
            | Rule::TensorMap
            | Rule::Descriptor
            | Rule::PeerGone
            | Rule::Operand
    )
}

/// The thread's last wait, on any mbarrier.
fn last_wait(c: &Page<'_>, t: u32) -> String {
    let last = c.hw.mbarriers.last_wait(t);
    match last.and_then(|(bar, _)| Some((bar, c.hw.mbarriers.get(bar).uses.of(t).last_wait()?))) {
        Some((bar, told)) => format!("; its last wait, on {}, {told}", c.hw.mbarriers.name(bar)),
        None => "; it has not waited on an mbarrier".into(),
    }
}

/// The thread's last wait on the mbarrier on which a copy completes.
fn last_wait_there(c: &Page<'_>, t: u32, bar: usize) -> String {
    match c.hw.mbarriers.get(bar).uses.of(t).last_wait() {
        Some(told) => format!("; its last wait there, {told}"),
        None => format!("; it has not waited there{}", last_wait(c, t).replace("; it", ", and it")),
    }
}

/// What else is known, and what would be right.
pub(super) fn notes(c: &Page<'_>, t: Option<u32>, fault: &Fault) -> Vec<String> {
    let waited = t.and_then(|t| c.hw.mbarriers.last_wait(t)).map(|w| w.0);
    let data = matches!(fault.rule, Rule::Uninitialised | Rule::SharedRace | Rule::CopyInFlight);
    let bars = fault.bar.into_iter().chain(waited.filter(|_| data));
    let mut out = fault.notes.clone();
    // Unless the message says it.
    let low =
        bars.filter_map(|bar| too_low(c, bar)).filter(|_| !fault.message.contains("has count"));
    out.extend(low);
    out.dedup();
    if let (Rule::InFlightAtExit, Some(bar)) = (fault.rule, fault.bar) {
        let state = &c.hw.mbarriers.get(bar).state;
        let (phase, name) = (phase_name(state.phase), c.hw.mbarriers.name(bar));
        out.push(if state.tx <= 0 {
            format!(
                "{phase} of {name} expects no bytes: no expect_tx stands for this load, or one named fewer \
                 bytes than the copies have"
            )
        } else {
            format!(
                "right is a wait for {phase} of {name} before the CTA's last thread returns; the \
                 producer of a ring waits with `tail` (CUTLASS: producer_tail) until every slot has \
                 been released"
            )
        });
    }
    out
}

/// More threads arrive on the barrier than its count says.
pub(super) fn too_low(c: &Page<'_>, bar: usize) -> Option<String> {
    let b = c.hw.mbarriers.get(bar);
    let (arrivers, count) = (b.uses.arrivers(), b.state.expected);
    (arrivers > count as usize).then(|| {
        format!(
            "{arrivers} threads arrive on {}, and its init{} has count {count}: a phase completes \
             before all of them have arrived",
            c.hw.mbarriers.name(bar),
            at(Some(b.init))
        )
    })
}

/// Every wait is the first one, for a phase that nobody has begun.
pub(super) fn first_parity(c: &Page<'_>, bars: &[usize]) -> Option<String> {
    let all = c.hw.mbarriers.all();
    let untouched = all.iter().all(|b| b.uses.arrived().next().is_none() && b.state.phase == 0);
    (untouched && bars.len() > 1).then(|| {
        "all of these wait for phase 0 (parity 0), and nobody has arrived anywhere: the first wait \
         of a producer is for parity 1, which passes on a fresh barrier"
            .into()
    })
}

/// Who holds the registers of CTAs in which a warp waits for more.
pub(super) fn registers(c: &Page<'_>, cta: usize) -> String {
    let per_cta = c.hw.shape.warps_per_cta() as usize;
    let warps = cta * per_cta..(cta + 1) * per_cta;
    let mut held: Vec<(u32, Vec<u32>)> = Vec::new();
    for warp in warps.clone() {
        let (have, index) = (c.hw.registers.of(warp), (warp - warps.start) as u32);
        match held.last_mut() {
            Some((last, of)) if *last == have => of.push(index),
            _ => held.push((have, vec![index])),
        }
    }
    let held: Vec<String> = held
        .iter()
        .map(|(have, of)| {
            let s = if of.len() == 1 { "" } else { "s" };
            let sum = have * 32 * of.len() as u32;
            let of = crate::finding::page::ranges(of);
            format!("warp{s} {of}: {have} for each thread, {sum} in all")
        })
        .collect();
    let total = c.hw.shape.registers * 32 * per_cta as u32;
    format!(
        "registers of CTA {cta}, {total} since the launch: {}; in the pool: {}. A setmaxnreg.dec of \
         other warps must come before",
        held.join("; "),
        c.hw.registers.free(cta)
    )
}
