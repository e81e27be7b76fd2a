//! Who waits for whom, when nobody can go on.

use super::lacks::{self, Lack, sentence};
use super::people::{Sleepers, all, at, name, returned, verb};
use super::view::Page;
use crate::types::wait::Wait;
use std::cmp::Reverse;

/// Lines about waits that a report shows.
const LINES: usize = 8;

/// How a chain of waits ends; what explains more comes later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// At a wait for which nobody is known to be responsible.
    Nobody,
    /// It comes round.
    Cycle,
    /// It comes round, and what one of its waits lacks explains why.
    Cause,
    /// At threads that have returned.
    Returned,
}

/// Waits, each for the next.
struct Chain {
    /// The groups that wait.
    links: Vec<usize>,
    end: End,
    /// The threads that it ends at, if they have returned.
    gone: Vec<u32>,
}

/// What is wrong in one sentence, and who waits for whom, line by line.
pub(super) struct Waits {
    pub message: String,
    pub lines: Vec<String>,
    /// What would be right, if that is known.
    pub right: Option<String>,
    /// The mbarriers that are waited for, those of the message first.
    pub bars: Vec<usize>,
}

/// Follows the waits from one group of threads to the next until a group comes round, or does not wait.
/// Of all chains that one is told which explains most.
pub(super) fn told(c: &Page<'_>) -> Waits {
    let sleepers = Sleepers::new(c);
    let groups = &sleepers.groups;
    let lacks: Vec<Lack> = groups.iter().map(|g| lacks::of(c, g[0])).collect();
    let chains = (0..groups.len()).map(|start| follow(c, &sleepers, &lacks, start));
    let best = chains.max_by_key(|chain| (chain.end, chain.links.len()));
    let Some(Chain { links, end, gone }) = best else {
        return Waits {
            message: "no thread can run".into(),
            lines: Vec::new(),
            right: None,
            bars: Vec::new(),
        };
    };
    let say = |g: usize| sentence(c, &groups[g], &lacks[g]);
    let at_fault = match end {
        End::Cause => links.iter().position(|&g| lacks[g].cause).unwrap_or(0),
        End::Cycle => 0,
        End::Returned | End::Nobody => links.len() - 1,
    };
    let mut message = say(links[at_fault]);
    if end == End::Returned {
        let (lack, left) = (&lacks[links[at_fault]], left(c, &gone));
        let rest = left.strip_prefix(&format!("{} ", name(c, &lack.from)));
        message = match rest {
            Some(rest) if lack.how.is_empty() => format!("{message}, which {rest}"),
            Some(rest) if !lack.how.contains(';') => format!("{message}, and {rest}"),
            _ => format!("{message}; {left}"),
        };
    } else if let (End::Cycle, [_, next]) = (end, &links[..]) {
        message = format!("{message}. And {}", say(*next));
    }
    let mut lines: Vec<String> = links.iter().map(|&g| say(g)).collect();
    match end {
        End::Returned => lines.push(left(c, &gone)),
        End::Cycle | End::Cause if links.len() == 1 => {
            lines.push("which closes the cycle: it waits for what it should do itself".into());
        }
        End::Cycle | End::Cause => {
            lines.push("which closes the cycle: the last of them waits for the first".into());
        }
        End::Nobody => {}
    }
    // Waits that the chain does not touch. Lanes that wait for their warp are no news.
    let wait = |g: usize| c.hw.thread(groups[g][0]).wait;
    let others =
        (0..groups.len()).filter(|g| !links.contains(g) && !matches!(wait(*g), Wait::Warp { .. }));
    lines.extend(others.clone().map(|g| format!("also, {}", say(g))));
    lines.truncate(LINES);
    let mut bars = Vec::new();
    for g in std::iter::once(links[at_fault]).chain(links.iter().copied()).chain(others) {
        if let Wait::MBarrier { bar, .. } = wait(g)
            && !bars.contains(&bar)
        {
            bars.push(bar);
        }
    }
    let right = lacks[links[at_fault]].right.clone();
    Waits { message, lines, right, bars }
}

fn follow(c: &Page<'_>, sleepers: &Sleepers, lacks: &[Lack], start: usize) -> Chain {
    let mut links = vec![start];
    loop {
        let from = &lacks[links[links.len() - 1]].from;
        let gone: Vec<u32> = from.iter().copied().filter(|&o| returned(c, o)).collect();
        if !gone.is_empty() {
            return Chain { links, end: End::Returned, gone };
        }
        // The largest group of those who should come.
        let mut sizes = vec![0; sleepers.groups.len()];
        from.iter().filter_map(|&t| sleepers.of(t)).for_each(|g| sizes[g] += 1);
        let next =
            (0..sizes.len()).filter(|&g| sizes[g] > 0).max_by_key(|&g| (sizes[g], Reverse(g)));
        let Some(next) = next else { return Chain { links, end: End::Nobody, gone } };
        if let Some(first) = links.iter().position(|&g| g == next) {
            // What leads to the cycle is no part of it.
            links.drain(..first);
            let cause = links.iter().any(|&g| lacks[g].cause);
            return Chain { links, end: if cause { End::Cause } else { End::Cycle }, gone };
        }
        links.push(next);
    }
}

/// Threads that have returned, and after which line.
fn left(c: &Page<'_>, gone: &[u32]) -> String {
    let (last, who) = (c.hw.thread(gone[0]), name(c, gone));
    let have = verb(&who, "has", "have");
    match last.loc {
        Some(_) => format!("{who} {have} returned, after {}{}", last.op, at(last.loc)),
        None => format!("{who} {have} returned, without an instruction"),
    }
}

/// The whole warps that have returned, by the line of their last instruction.
pub(super) fn returned_warps(c: &Page<'_>) -> Vec<String> {
    let key = |t: u32| (c.hw.thread(t).cta, c.hw.thread(t).role, c.hw.thread(t).loc);
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let warp = |t: u32| {
        let (first, index) = (t - c.hw.thread(t).lane(), c.hw.thread(t).index);
        first..first + (c.hw.shape.block_threads() - index / 32 * 32).min(32)
    };
    for t in all(c, |t| returned(c, t) && warp(t).all(|o| returned(c, o))) {
        match groups.iter_mut().find(|g| key(g[0]) == key(t)) {
            Some(g) => g.push(t),
            None => groups.push(vec![t]),
        }
    }
    // Of a warp that did not return together the last lanes tell little.
    groups.retain(|g| g.iter().all(|&t| warp(t).all(|o| g.contains(&o))));
    groups.iter().map(|g| left(c, g)).collect()
}
