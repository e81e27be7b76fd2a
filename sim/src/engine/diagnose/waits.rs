//! Who waits for whom, when nobody can go on.

use super::view::Page;
use crate::barrier::history::Arrival;
use crate::barrier::mbarriers::Bar;
use crate::finding::report::SourceLine;
use crate::types::wait::{Status, Wait};
use std::fmt::Write;

/// Threads that play one part: those of a role in a CTA, or of a warp that has none.
type Part = (usize, Option<&'static str>, Option<usize>);

fn part(c: &Page<'_>, t: u32) -> Part {
    let t = &c.hw.threads[t as usize];
    (t.cta, t.role, t.role.is_none().then_some(t.warp))
}

fn name(c: &Page<'_>, (cta, role, warp): Part) -> String {
    let per_cta = c.hw.shape.warps_per_cta() as usize;
    match (role, warp) {
        (Some(role), _) => format!("{role} of CTA {cta}"),
        (None, warp) => format!("warp {} of CTA {cta}", warp.unwrap_or(0) % per_cta),
    }
}

/// Who gives a barrier's arrivals, as far as has been seen, and how that is known: they came before;
/// they came to the same barrier of another stage; or they wait for what stands beside it, as who
/// waits for a ring's `full` gives its `empty`.
fn giver(c: &Page<'_>, bar: &Bar) -> Option<(u32, String)> {
    let told = |a: &Arrival, how: &str| (a.thread, format!("{how} {}", SourceLine::from(a.loc)));
    let missing = |a: &&Arrival| a.phase != bar.state.phase;
    let here = bar.arrivals().iter().filter(missing).max_by_key(|a| a.times);
    if let Some(a) = here {
        return Some(told(a, "as before from"));
    }
    let label = |b: &Bar| c.hw.mbarriers.labels.get(b.cta, b.addr).map(|l| l.0);
    let stem = |label: &'static str| label.rsplit_once('.').map(|l| l.0);
    let own = label(bar)?;
    let others = || c.hw.mbarriers.all().iter().filter(|b| b.cta == bar.cta && b.addr != bar.addr);
    let same = others().filter(|b| label(b) == Some(own)).flat_map(Bar::arrivals);
    if let Some(a) = same.max_by_key(|a| a.times) {
        return Some(told(a, "as other stages have from"));
    }
    let beside = |b: &&Bar| {
        let other = label(b);
        other != Some(own) && other.and_then(stem) == stem(own) && stem(own).is_some()
    };
    let beside = others().filter(beside).find_map(|b| Some((b.looked?, label(b)?)))?;
    Some((beside.0, format!("who waits for {}", beside.1)))
}

/// A thread of the part that waits on an mbarrier, and on which.
fn waiter(c: &Page<'_>, of: Part) -> Option<(u32, usize, u32)> {
    (0..c.hw.threads.len() as u32).filter(|&t| part(c, t) == of).find_map(|t| {
        let thread = &c.hw.threads[t as usize];
        match thread.wait {
            Wait::MBarrier { bar, phase, .. } if thread.status == Status::Asleep => {
                Some((t, bar, phase))
            }
            _ => None,
        }
    })
}

/// Follows the waits from one part to the next until a part comes round, or does not wait. Of all
/// chains a cycle is given, if there is one.
pub(crate) fn chain(c: &Page<'_>) -> Vec<String> {
    let mut parts: Vec<Part> = Vec::new();
    for t in 0..c.hw.threads.len() as u32 {
        let p = part(c, t);
        if !parts.contains(&p) && waiter(c, p).is_some() {
            parts.push(p);
        }
    }
    let mut longest = Vec::new();
    for &start in &parts {
        let (lines, cycle) = follow(c, start);
        if cycle {
            return lines;
        }
        if lines.len() > longest.len() {
            longest = lines;
        }
    }
    longest
}

fn follow(c: &Page<'_>, start: Part) -> (Vec<String>, bool) {
    let (mut lines, mut seen) = (Vec::new(), Vec::new());
    let mut at = start;
    while let Some((t, bar, phase)) = waiter(c, at) {
        seen.push(at);
        let b = c.hw.mbarriers.get(bar);
        let barrier = c.hw.mbarriers.name(bar);
        let mut line = format!("{} waits for phase {phase} of {barrier}", name(c, at));
        if let Some(loc) = c.hw.threads[t as usize].loc {
            let _ = write!(line, " at {}", SourceLine::from(loc));
        }
        let Some((giver, how)) = giver(c, b) else {
            line += ", where nobody has ever arrived";
            lines.push(line);
            return (lines, false);
        };
        let next = part(c, giver);
        let _ = write!(line, ", which lacks an arrival of {}, {how}", name(c, next));
        lines.push(line);
        at = next;
        if let Some(first) = seen.iter().position(|s| *s == next) {
            // What leads to the cycle is no part of it.
            lines.drain(..first);
            lines.push(format!("which closes the cycle: {} waits for itself", name(c, next)));
            return (lines, true);
        }
    }
    let all_done = (0..c.hw.threads.len() as u32)
        .filter(|&t| part(c, t) == at)
        .all(|t| c.hw.threads[t as usize].status == Status::Done);
    if !lines.is_empty() {
        let state = if all_done { "has returned" } else { "waits for something else" };
        lines.push(format!("{} {state}", name(c, at)));
    }
    (lines, false)
}
