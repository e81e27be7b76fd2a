//! The names of threads in a report: `CTA 0, warps 4-7 (Math)`.

use super::view::Page;
use crate::finding::page::ranges;
use crate::finding::report::SourceLine;
use crate::types::loc::Loc;
use crate::types::wait::{Status, Wait};

/// Threads of one CTA and one role, in their order.
struct Group {
    cta: usize,
    role: Option<&'static str>,
    threads: Vec<u32>,
}

fn groups(c: &Page<'_>, threads: &[u32]) -> Vec<Group> {
    let mut out: Vec<Group> = Vec::new();
    for &t in threads {
        let thread = c.hw.thread(t);
        match out.iter_mut().find(|g| (g.cta, g.role) == (thread.cta, thread.role)) {
            Some(g) => g.threads.push(t),
            None => out.push(Group { cta: thread.cta, role: thread.role, threads: vec![t] }),
        }
    }
    out
}

/// The name of some threads.
pub(super) fn name(c: &Page<'_>, threads: &[u32]) -> String {
    let names: Vec<String> = groups(c, threads).iter().map(|g| of_group(c, g)).collect();
    names.join(" and ")
}

fn of_group(c: &Page<'_>, g: &Group) -> String {
    let index = |t: &u32| c.hw.thread(*t).index;
    let mut warps: Vec<u32> = g.threads.iter().map(|t| index(t) / 32).collect();
    warps.dedup();
    let all: u32 = warps.iter().map(|w| (c.hw.shape.block_threads() - w * 32).min(32)).sum();
    let mut lanes: Vec<u32> = g.threads.iter().map(|t| index(t) % 32).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let s = if warps.len() == 1 { "" } else { "s" };
    let part = if g.threads.len() as u32 == all {
        String::new()
    } else if g.threads.len() == warps.len() * lanes.len() {
        let each = if warps.len() > 1 { " of each" } else { "" };
        let s = if lanes.len() == 1 { "" } else { "s" };
        format!(", lane{s} {}{each}", ranges(&lanes))
    } else {
        format!(", {} threads", g.threads.len())
    };
    let role = g.role.map_or_else(String::new, |role| format!(" ({role})"));
    format!("CTA {}, warp{s} {}{part}{role}", g.cta, ranges(&warps))
}

/// The verb for threads of this name: that of one, or that of many.
pub(super) fn verb(name: &str, one: &'static str, many: &'static str) -> &'static str {
    let plural = ["warps ", "lanes ", " threads", " and "].iter().any(|part| name.contains(part));
    if plural { many } else { one }
}

/// ` at` a line, if it is known.
pub(super) fn at(loc: Option<Loc>) -> String {
    loc.map_or_else(String::new, |loc| format!(" at {}", SourceLine::from(loc)))
}

/// The threads of a kind.
pub(super) fn all(c: &Page<'_>, is: impl Fn(u32) -> bool) -> Vec<u32> {
    (0..c.hw.threads.len() as u32).filter(|&t| is(t)).collect()
}

/// Whether a thread has returned.
pub(super) fn returned(c: &Page<'_>, t: u32) -> bool {
    c.hw.thread(t).status == Status::Done
}

/// The threads that sleep, in groups that stand at the same line, of one role and CTA, for the same.
pub(super) struct Sleepers {
    pub groups: Vec<Vec<u32>>,
    /// The group of each thread.
    of: Vec<Option<usize>>,
}

impl Sleepers {
    pub fn new(c: &Page<'_>) -> Self {
        let key = |t: u32| {
            let t = c.hw.thread(t);
            (t.cta, t.role, t.wait, t.loc)
        };
        let mut out = Self { groups: Vec::new(), of: vec![None; c.hw.threads.len()] };
        for t in all(c, |t| sleeps(c, t)) {
            let group = out.groups.iter().position(|g| key(g[0]) == key(t));
            let group = group.unwrap_or_else(|| {
                out.groups.push(Vec::new());
                out.groups.len() - 1
            });
            out.groups[group].push(t);
            out.of[t as usize] = Some(group);
        }
        out
    }

    /// The group of a thread, if it sleeps.
    pub fn of(&self, t: u32) -> Option<usize> {
        self.of[t as usize]
    }
}

/// Whether a thread sleeps until something comes.
pub(super) fn sleeps(c: &Page<'_>, t: u32) -> bool {
    let t = c.hw.thread(t);
    t.status == Status::Asleep && t.wait != Wait::Nothing
}
