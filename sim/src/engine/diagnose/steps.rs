//! The last steps that matter to a report.

use super::view::Page;
use crate::engine::steps::Step;
use crate::finding::report::{SourceLine, StepLine};
use crate::memory::regions::plain;
use crate::types::loc::Loc;

/// Lines of a report's table of steps, and how many of them may be the culprit's own.
const STEPS: usize = 10;
const OWN_STEPS: usize = 4;

/// Threads whose steps are told together.
#[derive(PartialEq, Eq)]
enum Group {
    Role(&'static str),
    Warp(usize),
}

/// An instruction, what it works on, and its line.
type Did = (&'static str, u32, Option<Loc>);

/// The last steps on these barriers, copies' landings there among them, and of the culprit, oldest
/// first.
pub(super) fn last(c: &Page<'_>, bars: &[usize], culprit: Option<u32>) -> Vec<StepLine> {
    let on_a_barrier = |s: &Step| {
        bars.iter().any(|&b| {
            let bar = c.hw.mbarriers.get(b);
            let cta = match s.arg >> 24 {
                0 => c.hw.thread(s.thread).cta,
                rank => rank as usize - 1,
            };
            s.name.starts_with("mbarrier") && (cta, plain(s.arg)) == (bar.cta, bar.addr)
        })
    };
    let mut out: Vec<StepLine> = Vec::new();
    let mut newer: Vec<((usize, Group), Did)> = Vec::new();
    let mut own = 0;
    for s in c.steps.newest() {
        let matters = on_a_barrier(s);
        if !matters && (Some(s.thread) != culprit || own == OWN_STEPS) {
            continue;
        }
        // Threads of a role do the same, or else those of a warp: one line for all.
        let thread = c.hw.thread(s.thread);
        let group = (thread.cta, thread.role.map_or(Group::Warp(thread.warp), Group::Role));
        let step = (s.name, s.arg, s.loc);
        match newer.iter_mut().find(|n| n.0 == group) {
            Some(n) if n.1 == step => continue,
            Some(n) => n.1 = step,
            None => newer.push((group, step)),
        }
        own += usize::from(!matters);
        let at = s.loc.map(SourceLine::from);
        out.push(StepLine { who: c.place(s.thread), what: s.name, at });
        if out.len() == STEPS {
            break;
        }
    }
    out.reverse();
    out
}
