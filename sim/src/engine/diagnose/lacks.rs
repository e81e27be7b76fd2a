//! What a wait lacks, and which threads should give it.

use super::people::{all, at, name, returned, verb};
use super::view::Page;
use crate::barrier::uses::{Mark, phase_name};
use crate::types::wait::Wait;

/// What a wait lacks.
pub(super) struct Lack {
    /// What is waited for, and what that lacks.
    pub what: String,
    /// Who should give it, as far as that can be known.
    pub from: Vec<u32>,
    /// How that is known, as the rest of a sentence about `from`.
    pub how: String,
    /// This explains why nobody can go on: they took what they should give back, or some of them have
    /// arrived in this phase and others have not.
    pub cause: bool,
    /// What would be right, if that is known.
    pub right: Option<String>,
}

impl Lack {
    fn new(what: String, from: Vec<u32>, how: impl Into<String>) -> Self {
        Self { what, from, how: how.into(), cause: false, right: None }
    }
}

/// What a sleeping thread lacks.
pub(super) fn of(c: &Page<'_>, t: u32) -> Lack {
    let thread = c.hw.thread(t);
    let cta = thread.cta;
    match thread.wait {
        Wait::MBarrier { bar, .. } => mbarrier(c, bar),
        Wait::Named { id } => named(c, cta, id),
        Wait::Cluster => {
            let (come, total) = (c.hw.all.come(), c.hw.threads.len());
            let what =
                format!("the cluster barrier, at which {come} of {total} threads have arrived");
            let from = all(c, |o| !c.hw.all.has(o) && !returned(c, o));
            Lack::new(what, from, "")
        }
        Wait::Warp { op } => {
            let warp = all(c, |o| {
                let o = c.hw.thread(o);
                o.warp == thread.warp && (o.wait, o.loc) != (thread.wait, thread.loc)
            });
            Lack::new(format!("the rest of its warp in {op}"), warp, "")
        }
        Wait::Warpgroup => {
            let group = (cta, thread.warp_group());
            let from = all(c, |o| {
                let o = c.hw.thread(o);
                (o.cta, o.warp_group()) == group && o.wait != Wait::Warpgroup
            });
            Lack::new("the rest of its warp group in wgmma".into(), from, "")
        }
        Wait::Registers { want } => registers(c, t, want),
        Wait::Pair { op } => {
            let from = all(c, |o| c.hw.thread(o).cta == cta ^ 1);
            Lack::new(format!("a warp of CTA {} of its pair in {op}", cta ^ 1), from, "")
        }
        Wait::GridAhead => {
            Lack::new("the end of the grid ahead".into(), Vec::new(), "which has not ended")
        }
        Wait::Poll { global } => {
            let space = if global { "global memory" } else { "memory" };
            let what = format!("a value in {space}, with {}", thread.op);
            Lack::new(what, Vec::new(), "no thread is left to write it")
        }
        Wait::BulkGroups { .. } | Wait::CpAsync { .. } | Wait::Nothing => {
            Lack::new("copies".into(), Vec::new(), "")
        }
    }
}

fn registers(c: &Page<'_>, t: u32, want: u32) -> Lack {
    let (cta, have) = (c.hw.thread(t).cta, c.hw.registers.of(c.hw.thread(t).warp));
    let more = (want - have) * 32;
    let what = format!(
        "{want} registers per thread in setmaxnreg: a warp that has {have} needs 32 x {} = {more} \
         more, and the pool of CTA {cta} has {} free",
        want - have,
        c.hw.registers.free(cta)
    );
    let from = all(c, |o| {
        let o = c.hw.thread(o);
        o.cta == cta && !matches!(o.wait, Wait::Registers { .. })
    });
    let Some(&one) = from.first() else { return Lack::new(what, from, "") };
    let holds = c.hw.registers.of(c.hw.thread(one).warp);
    let how = format!("which {} {holds} each", verb(&name(c, &from), "holds", "hold"));
    Lack::new(what, from, how)
}

fn named(c: &Page<'_>, cta: usize, id: u32) -> Lack {
    let (come, threads) = c.hw.named.who(cta, id);
    let what = format!(
        "{}, at which {} of {threads} threads have come",
        c.hw.named.name(cta, id),
        come.len()
    );
    let missing = |o: u32| c.hw.thread(o).cta == cta && !come.contains(&o);
    let block = c.hw.shape.block_threads();
    let role = |o: u32| c.hw.thread(o).role;
    let same_role =
        all(c, |o| missing(o) && come.iter().any(|&t| role(t).is_some() && role(t) == role(o)));
    if threads >= block || come.len() + all(c, missing).len() == threads as usize {
        return Lack::new(what, all(c, missing), "");
    }
    Lack::new(what, same_role, "")
}

/// What an mbarrier lacks, and whose arrival.
pub(super) fn mbarrier(c: &Page<'_>, bar: usize) -> Lack {
    let b = c.hw.mbarriers.get(bar);
    let s = &b.state;
    let (of_name, phase) = (c.hw.mbarriers.name(bar), phase_name(s.phase));
    let mut debts = Vec::new();
    if s.pending > 0 {
        let all = s.expected;
        let arrivals = if all == 1 { "arrival" } else { "arrivals" };
        debts.push(match s.pending {
            1 if all == 1 => "its only arrival".to_owned(),
            all_of if all_of == all => format!("all {all} {arrivals}"),
            some => format!("{some} of {all} {arrivals}"),
        });
    }
    if s.tx > 0 {
        debts.push(format!("{} bytes that were expected", s.tx));
    }
    if s.tx < 0 {
        debts.push(format!("an expect_tx of {} bytes that landed", -s.tx));
    }
    let what = format!("{phase} of {of_name}, which lacks {}", debts.join(" and "));
    if s.pending == 0 {
        return Lack::new(what, Vec::new(), "no copy is in flight that brings them");
    }
    before(c, bar, &what)
        .or_else(|| beside_those_here(c, bar, &what))
        .or_else(|| by_name(c, bar, &what))
        .or_else(|| whole_warps(c, bar, &what))
        .unwrap_or_else(|| {
            let how = match b.uses.arrived().next() {
                None => format!(
                    "no thread has arrived on it since its init with count {}{}",
                    s.expected,
                    at(Some(b.init))
                ),
                Some(_) if b.uses.arrived().all(|a| a.1.phase == s.phase) => format!(
                    "all {} threads that arrive on it have arrived in this phase: the count {} of \
                     its init{} is too high, or another thread's arrival is missing",
                    b.uses.arrived().count(),
                    s.expected,
                    at(Some(b.init))
                ),
                Some(_) => String::new(),
            };
            Lack::new(what, Vec::new(), how)
        })
}

/// Those who arrived in earlier phases, and not in this one.
fn before(c: &Page<'_>, bar: usize, what: &str) -> Option<Lack> {
    let b = c.hw.mbarriers.get(bar);
    let missing: Vec<(u32, Mark)> =
        b.uses.arrived().filter(|(_, m)| m.phase != b.state.phase).collect();
    let last = missing.iter().max_by_key(|(_, m)| m.step)?.1;
    let from: Vec<u32> = missing.iter().map(|m| m.0).collect();
    if let Some(held) = held(c, bar, &from, what) {
        return Some(held);
    }
    let how = format!("which last arrived for {}{}", phase_name(last.phase), at(Some(last.loc)));
    Some(Lack::new(what.to_owned(), from, how))
}

/// Those among some threads who waited for the slot of this barrier, and have not arrived since.
fn held(c: &Page<'_>, bar: usize, from: &[u32], what: &str) -> Option<Lack> {
    let b = c.hw.mbarriers.get(bar);
    let all_bars = c.hw.mbarriers.all();
    let beside = c.hw.mbarriers.beside(bar);
    // By their names, or because they are taken as often as this one is given back, and once more.
    let took = |t: u32| {
        let mine = b.uses.of(t);
        let since = mine.arrived.map_or(0, |m| m.step);
        let of = |i: usize| {
            let saw = all_bars[i].uses.of(t);
            Some((i, saw.saw?, saw.waits))
        };
        let wait = match beside {
            Some(i) => of(i),
            None => (0..all_bars.len())
                .filter(|&i| i != bar && all_bars[i].cta == b.cta && mine.arrivals > 0)
                .filter_map(of)
                .filter(|(_, m, waits)| m.step > since && *waits == mine.arrivals + 1)
                .min_by_key(|w| w.1.step),
        }?;
        (wait.1.step > since && wait.1.phase != u32::MAX).then_some((wait.0, wait.1))
    };
    let holders: Vec<(u32, (usize, Mark))> =
        from.iter().filter_map(|&t| Some((t, took(t)?))).collect();
    let &(_, (slot, wait)) = holders.first()?;
    let from: Vec<u32> = holders.iter().map(|h| h.0).collect();
    let who = name(c, &from);
    let how = format!(
        "which {} not released the slot that {} took{} with phase {} of {}",
        verb(&who, "has", "have"),
        verb(&who, "it", "they"),
        at(Some(wait.loc)),
        wait.phase,
        c.hw.mbarriers.name(slot),
    );
    let right = format!(
        "right is an arrival on {} (in a ring: `release`) for each wait on {}, before the next wait for \
         that slot",
        c.hw.mbarriers.name(bar),
        c.hw.mbarriers.name(slot)
    );
    Some(Lack { what: what.to_owned(), from, how, cause: true, right: Some(right) })
}

/// Threads of a warp group.
const WARPGROUP: u32 = 128;

/// Those who stand beside the ones that arrived in this phase: of their role, or of their warps.
fn beside_those_here(c: &Page<'_>, bar: usize, what: &str) -> Option<Lack> {
    let uses = &c.hw.mbarriers.get(bar).uses;
    let here: Vec<u32> = uses.arrived().map(|a| a.0).collect();
    let (first, place) = (*here.first()?, |t: u32| c.hw.thread(t));
    let one_lane = here.iter().all(|&t| place(t).lane() == place(first).lane());
    let warps = all(c, |t| here.iter().any(|&h| place(h).warp == place(t).warp));
    let alone = one_lane && c.hw.mbarriers.get(bar).state.pending < warps.len() as u32 / 2;
    let beside = |t: u32, h: u32| {
        let (t, h) = (place(t), place(h));
        t.cta == h.cta && if t.role.is_some() { t.role == h.role } else { t.warp == h.warp }
    };
    let from = all(c, |t| {
        !here.contains(&t)
            && here.iter().any(|&h| beside(t, h))
            && (!alone || place(t).lane() == place(first).lane())
    });
    // If each of the arrivals stands for a warp group, so does each that is missing.
    let in_group = |t: u32| place(t).index % WARPGROUP;
    let leader = in_group(first);
    let of_groups: Vec<u32> = from.iter().copied().filter(|&t| in_group(t) == leader).collect();
    let by_groups = alone
        && here.iter().all(|&h| in_group(h) == leader)
        && of_groups.len() == c.hw.mbarriers.get(bar).state.pending as usize;
    let from = if by_groups { of_groups } else { from };
    // Where whole warps arrive, a few threads less are no warp that is missing.
    let other_warps = !from.iter().any(|&t| here.iter().any(|&h| place(h).warp == place(t).warp));
    let ragged = !c.hw.mbarriers.get(bar).state.pending.is_multiple_of(32);
    if from.is_empty() || (other_warps && !one_lane && ragged) {
        return None;
    }
    if let Some(held) = held(c, bar, &from, what) {
        return Some(held);
    }
    let (missing, here) = (name(c, &from), name(c, &here));
    let b = c.hw.mbarriers.get(bar);
    let without = if from.iter().all(|&t| returned(c, t)) {
        "returned without arriving".to_owned()
    } else {
        format!("{} not arrived", verb(&missing, "has", "have"))
    };
    let how = format!(
        "which {without} ({here} {}); if that is meant, the count {} of its init{} is too high",
        verb(&here, "has", "have"),
        b.state.expected,
        at(Some(b.init))
    );
    Some(Lack { what: what.to_owned(), from, how, cause: true, right: None })
}

/// Those who arrive on the same barrier of other stages, or who wait for the barrier beside it, as who
/// waits for a ring's `full` gives its `empty`.
fn by_name(c: &Page<'_>, bar: usize, what: &str) -> Option<Lack> {
    let b = c.hw.mbarriers.get(bar);
    let label = |cta, addr| c.hw.mbarriers.labels.get(cta, addr).map(|l| l.0);
    let own = label(b.cta, b.addr)?;
    let same = |o: &&crate::barrier::mbarriers::Bar| {
        o.cta == b.cta && o.addr != b.addr && label(o.cta, o.addr) == Some(own)
    };
    let stages = c.hw.mbarriers.all().iter().filter(same);
    let last = stages.clone().flat_map(|o| o.uses.arrived()).max_by_key(|(_, m)| m.step);
    if let Some((_, m)) = last {
        let mut from: Vec<u32> = stages.flat_map(|o| o.uses.arrived().map(|a| a.0)).collect();
        from.sort_unstable();
        from.dedup();
        let held = held(c, bar, &from, what);
        let how = format!(
            "which {} on its other stages{}",
            verb(&name(c, &from), "arrives", "arrive"),
            at(Some(m.loc))
        );
        return held.or_else(|| Some(Lack::new(what.to_owned(), from, how)));
    }
    let beside = c.hw.mbarriers.beside(bar)?;
    let uses = &c.hw.mbarriers.get(beside).uses;
    let waits = |t: u32| matches!(c.hw.thread(t).wait, Wait::MBarrier { bar, .. } if bar == beside);
    let from = all(c, |t| uses.of(t).saw.is_some_and(|m| m.phase != u32::MAX) || waits(t));
    if from.is_empty() {
        return None;
    }
    if let Some(held) = held(c, bar, &from, what) {
        return Some(held);
    }
    let how = format!(
        "which {} on {}",
        verb(&name(c, &from), "waits", "wait"),
        c.hw.mbarriers.name(beside)
    );
    Some(Lack::new(what.to_owned(), from, how))
}

/// Warps that have returned and never arrived, if their threads are exactly what is missing.
fn whole_warps(c: &Page<'_>, bar: usize, what: &str) -> Option<Lack> {
    let b = c.hw.mbarriers.get(bar);
    let gone = |t: u32| {
        let thread = c.hw.thread(t);
        let first = t - thread.lane();
        let lanes = (c.hw.shape.block_threads() - thread.index / 32 * 32).min(32);
        thread.cta == b.cta
            && (first..first + lanes).all(|o| returned(c, o) && b.uses.of(o).arrivals == 0)
    };
    let from = all(c, gone);
    let exactly = !from.is_empty() && from.len() as u32 == b.state.pending;
    exactly.then(|| Lack::new(what.to_owned(), from, "which never arrived"))
}

/// What a group of threads that can't go on waits for, as a sentence.
pub(super) fn sentence(c: &Page<'_>, group: &[u32], lack: &Lack) -> String {
    let who = name(c, group);
    let waits = verb(&who, "waits", "wait");
    let why = match (lack.from.is_empty(), lack.how.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!(": {}", lack.how),
        (false, true) => format!(", due from {}", name(c, &lack.from)),
        (false, false) => format!(", due from {}, {}", name(c, &lack.from), lack.how),
    };
    format!("{who} {waits}{} for {}{why}", at(c.hw.thread(group[0]).loc), lack.what)
}
