//! From what was found to a fault, in words: both sides, and the edge that is missing.

use super::accesses::Found;
use super::agents::Agent;
use super::global::GlobalClash;
use super::maps::Gap;
use super::shadow::Clash;
use super::state::Race;
use super::times::Lane;
use crate::barrier::mbarriers::Mbarriers;
use crate::barrier::uses::{Mark, phase_name};
use crate::cluster::thread::Thread;
use crate::finding::fault::Fault;
use crate::finding::report::{SourceLine, ThreadPlace};
use crate::finding::rule::Rule;
use crate::types::grid::SMEM_BASE;

/// What the words name: threads and barriers.
pub(crate) struct Names<'a> {
    pub threads: &'a [Thread],
    pub bars: &'a Mbarriers,
}

impl Names<'_> {
    fn thread(&self, t: u32) -> &Thread {
        &self.threads[t as usize]
    }

    fn place(&self, t: u32) -> ThreadPlace {
        self.thread(t).place()
    }

    /// A warp of the cluster: its CTA, and its number there.
    fn warp(&self, warp: usize) -> (usize, u32) {
        let first = self.threads.iter().find(|t| t.warp == warp);
        first.map_or((0, 0), |t| (t.cta, t.index / 32))
    }
}

/// The verbs of the two sides.
fn verbs(write: bool, old_write: bool) -> (&'static str, &'static str) {
    (if write { "overwrites" } else { "reads" }, if old_write { "wrote" } else { "read" })
}

/// The fault of what was found at the last instruction of a thread.
pub(crate) fn explain(race: &Race, names: &Names<'_>, t: u32, found: &Found) -> Fault {
    match found {
        Found::Shared { cta, clash, write } => shared(race, names, t, (*cta, clash, *write)),
        Found::Global(clash) => global(race, names, t, clash),
        Found::Unseen { bar, copy } => unseen(race, names, t, *bar, *copy),
        Found::OldMap(map) => {
            let (who, op) = (names.place(t), names.thread(t).op);
            let message = format!(
                "tensor map at {map:#x}: {who} uses it ({op}), a kernel has changed it, and no \
                 fence.proxy.tensormap::generic.acquire of the map stands before the use: the start of \
                 a kernel is none"
            );
            Fault::new(Rule::MapUnseen, message)
        }
    }
}

fn shared(
    race: &Race,
    names: &Names<'_>,
    t: u32,
    (cta, clash, newer_writes): (usize, &Clash, bool),
) -> Fault {
    let Clash { old, write, at, rule } = *clash;
    let site = race.sites.get(old.site);
    let op = names.thread(t).op;
    let (who, other) = (names.place(t), names.place(site.thread));
    let (does, did) = verbs(newer_writes, write);
    let whose = if site.thread == t { "it".to_owned() } else { other.to_string() };
    let why = match rule {
        Rule::Proxy => format!(
            "the two are ordered, but no fence.proxy.async lies after the write and before the \
             {op}: the writing thread executes it before it synchronises"
        ),
        Rule::Scope => {
            let (a, b) = (who.cta, other.cta);
            format!(
                "only operations of .cta scope order them, and between CTA {b} and CTA {a} the \
                 release and the acquire must be .cluster"
            )
        }
        _ => {
            let mut edge = missing_edge(names, t, race.agents.get(old.agent), old.time);
            if race.threads[t as usize].knows(Lane::Course, old.agent, old.time) {
                edge.push_str(
                    ": elect, shuffles and votes order no memory, and bar.warp.sync does",
                );
            }
            edge
        }
    };
    let message = format!(
        "{who} {does} ({op}) what {whose} {did} ({}) at shared address {:#x} (base + {at}) of CTA \
         {cta}; {why}",
        site.what,
        at + SMEM_BASE
    );
    let what = format!("{} by {other}", site.what);
    let notes = match (rule, race.agents.get(old.agent)) {
        (Rule::SharedRace, Agent::Thread(o)) => on_barriers(names, t, Some(o)),
        (Rule::CopyInFlight | Rule::WgmmaReads | Rule::StoreReads, _) => {
            on_barriers(names, t, None)
        }
        _ => Vec::new(),
    };
    Fault::new(rule, message).against(what, site.loc).noting(notes)
}

fn global(race: &Race, names: &Names<'_>, t: u32, clash: &GlobalClash) -> Fault {
    let GlobalClash { rule, at, old, old_write, write, gap } = clash;
    let who = names.place(t);
    let mut other = old.place.to_string();
    if old.cluster != race.cluster {
        let first = race.global.grid(race.global.grid_of(old.cluster)).0;
        other = format!("cluster {}, {other}", old.cluster - first);
    }
    if *rule == Rule::Dependent {
        other = format!("{other} of the kernel `{}`", grid_of(race, old.cluster));
    }
    let name = names.thread(t).op;
    let (does, did) = verbs(*write, *old_write);
    let why = match rule {
        Rule::Dependent => between_grids(race, t, old.cluster),
        Rule::Proxy if old.kind.generic() => {
            "no fence.proxy.async of global memory lies between the two".to_owned()
        }
        Rule::Proxy => {
            "the two are asynchronous work of different CTAs, and no fence.proxy.async of \
                        global memory lies between: behind the wait_group of the one, or behind \
                        what the other acquired"
                .to_owned()
        }
        Rule::MapUnseen => map_gap(*gap).to_owned(),
        Rule::Scope => "only operations of .cta scope order them, and the two are in different \
                        CTAs"
            .to_owned(),
        _ if old.cluster != race.cluster => format!(
            "between two clusters, {other} has to release at .gpu scope after it, and {who} to \
             acquire that before"
        ),
        _ => missing_edge(names, t, old.kind, old.time),
    };
    let both_write = *write && *old_write && !matches!(rule, Rule::Dependent);
    let or = if both_write {
        "; if the two should not share bytes, the address of one is wrong"
    } else {
        ""
    };
    let message = format!(
        "{who} {does} ({name}) what {other} {did} ({}) at global address {at:#x}; {why}{or}",
        old.what
    );
    Fault::new(*rule, message).against(format!("{} by {other}", old.what), old.loc)
}

/// The name of a cluster's kernel.
fn grid_of(race: &Race, cluster: u32) -> &str {
    race.global.grid(race.global.grid_of(cluster)).1
}

/// Why launches that overlap leave two accesses without an order.
fn between_grids(race: &Race, t: u32, other: u32) -> String {
    let global = &race.global;
    let (own, other) = (global.grid_of(race.cluster), global.grid_of(other));
    let name = |grid: usize| global.grid(grid).1;
    let (early, late) = (name(own.min(other)), name(own.max(other)));
    if own < other {
        return format!(
            "the dependent launch `{late}` did so before its griddepcontrol.wait, or has none: until that \
             returns, `{early}` runs"
        );
    }
    let last = global.grid(own).0 - 1;
    if other + 1 < own && race.threads[t as usize].knows_end(last) {
        return format!(
            "no thread of `{}`, between the two, executes griddepcontrol.wait: that it has ended says \
             nothing of `{early}`",
            name(other + 1)
        );
    }
    format!(
        "`{late}` is a dependent launch: only its griddepcontrol.wait orders it behind `{early}`, and this \
         comes before that, or without"
    )
}

/// What a use of a tensor map lacks to see a change.
fn map_gap(gap: Option<Gap>) -> &'static str {
    match gap {
        Some(Gap::NoRelease) | None => {
            "no fence.proxy.tensormap::generic.release stands after the write and before the \
             synchronisation that leads here (tensormap.cp_fenceproxy has one)"
        }
        Some(Gap::NoAcquire { elsewhere: false }) => {
            "no fence.proxy.tensormap::generic.acquire of the map stands before the use"
        }
        Some(Gap::NoAcquire { elsewhere: true }) => {
            "only threads of another CTA, or ones that this thread has not synchronised with, \
             executed fence.proxy.tensormap::generic.acquire of the map: the CTA that uses it must"
        }
        Some(Gap::EarlyAcquire) => {
            "fence.proxy.tensormap::generic.acquire of the map came before its thread had \
             synchronised with the release"
        }
        Some(Gap::Scope) => {
            "the scope of the release or of the acquire fence of the tensormap proxy does not reach \
             the other CTA: .cluster within a cluster, .gpu beyond"
        }
    }
}

fn unseen(race: &Race, names: &Names<'_>, t: u32, bar: usize, copy: bool) -> Fault {
    let init = race.bars[bar].init;
    let b = names.bars.get(bar);
    let name = names.bars.name(bar);
    let (user, maker) = (names.place(t), names.place(init.agent));
    let ordered = race.threads[t as usize].knows(Lane::Ordered, init.agent, init.time);
    let why = if ordered {
        "no fence.mbarrier_init or fence.proxy.async makes it visible to copies".to_owned()
    } else if copy && init.agent == t {
        "no fence stands between the two".to_owned()
    } else {
        format!("{user} has not synchronised with {maker} since")
    };
    let message = format!(
        "{name} of CTA {}: {user} uses it ({}) after {maker} initialised it; {why}",
        b.cta,
        names.thread(t).op
    );
    Fault::new(Rule::InitUnseen, message).against("its initialisation", b.init).bar(bar)
}

/// The last wait of a thread, if it has waited on an mbarrier.
fn last_wait(names: &Names<'_>, t: u32) -> Option<String> {
    let (bar, _) = names.bars.last_wait(t)?;
    let told = names.bars.get(bar).uses.of(t).last_wait()?;
    Some(format!("the last wait of {}, on {}, {told}", names.place(t), names.bars.name(bar)))
}

/// What the two threads of a race did on mbarriers: their last waits, and whether the older one arrived
/// where the newer one waited.
fn on_barriers(names: &Names<'_>, newer: u32, older: Option<u32>) -> Vec<String> {
    let mut notes: Vec<String> = last_wait(names, newer).into_iter().collect();
    let Some(older) = older.filter(|&older| older != newer) else { return notes };
    if let Some((bar, saw)) = names.bars.last_wait(newer)
        && let Some(arrived) = names.bars.get(bar).uses.of(older).arrived
    {
        let order = if arrived.phase <= saw.phase && saw.phase != u32::MAX {
            ", before its access"
        } else {
            ""
        };
        notes.push(format!(
            "{} arrived on {} for {} at {}{order}",
            names.place(older),
            names.bars.name(bar),
            phase_name(arrived.phase),
            SourceLine::from(arrived.loc)
        ));
    }
    notes.extend(without_one(names, newer, older));
    notes.extend(last_wait(names, older));
    notes
}

/// The last phase for which a thread waited, if it completed though the other had not arrived, and
/// others of its warp had.
fn without_one(names: &Names<'_>, newer: u32, older: u32) -> Option<String> {
    let (bar, saw) = names.bars.last_wait(newer)?;
    let uses = &names.bars.get(bar).uses;
    let own = uses.of(older);
    let missed = own.arrived.is_none_or(|m| m.phase < saw.phase) && saw.phase != u32::MAX;
    let warp = names.thread(older).warp;
    let mut fellows = uses.arrived().filter(|(t, _)| names.thread(*t).warp == warp);
    if !missed || fellows.next().is_none() {
        return None;
    }
    let phases = saw.phase + 1;
    let often = uses.all().find(|(_, one)| one.arrivals > phases);
    let often = often.map_or_else(String::new, |(t, one)| {
        let s = if phases == 1 { "" } else { "s" };
        format!("; {} has arrived {} times in {phases} phase{s}", names.place(t), one.arrivals)
    });
    let (name, older) = (names.bars.name(bar), names.place(older));
    Some(format!(
        "{} of {name} completed without an arrival of {older}{often}",
        phase_name(saw.phase)
    ))
}

/// A phase for which `reader` waited, and which completed without `writer` because the count of the
/// barrier is too low.
fn without(names: &Names<'_>, reader: u32, writer: u32) -> Option<String> {
    let waited = |bar: usize| {
        let b = names.bars.get(bar);
        let saw = b.uses.of(reader).saw?;
        let (own, warp) = (b.uses.of(writer), names.thread(writer).warp);
        // Who arrived in each phase up to its last has one arrival more than that phase's number.
        let missed = own.arrived.is_none_or(|m| m.phase < saw.phase || own.arrivals <= m.phase);
        let beside = |(t, _): (u32, Mark)| names.thread(t).warp == warp;
        let fellow = b.uses.arrived().any(beside);
        let low = b.uses.arrivers() > b.state.expected as usize;
        (missed && fellow && low && saw.phase != u32::MAX).then_some((bar, saw))
    };
    let (bar, saw) = (0..names.bars.all().len()).filter_map(waited).max_by_key(|w| w.1.step)?;
    let b = names.bars.get(bar);
    let (count, arrivers) = (b.state.expected, b.uses.arrivers());
    Some(format!(
        "; {} of {}, for which {} waited at {}, completed after {count} arrivals without {}: \
         {arrivers} threads arrive on it, and its init at {} has count {count}",
        phase_name(saw.phase),
        names.bars.name(bar),
        names.place(reader),
        SourceLine::from(saw.loc),
        names.place(writer),
        SourceLine::from(b.init)
    ))
}

/// What the thread should have heard of.
fn missing_edge(names: &Names<'_>, t: u32, agent: Agent, time: u32) -> String {
    let who = names.place(t);
    match agent {
        Agent::Thread(o) => {
            let other = names.place(o);
            let count = without(names, t, o).or_else(|| without(names, o, t)).unwrap_or_default();
            format!("{who} has not synchronised with {other} since{count}")
        }
        Agent::Barrier(bar) => {
            let last = names.bars.get(bar).uses.of(t).last_wait();
            let waits =
                last.map_or_else(String::new, |last| format!("; its last wait there, {last}"));
            format!(
                "{who} has neither waited for phase {} of {} of CTA {}, nor synchronised \
                 with a thread that has{waits}",
                time - 1,
                names.bars.name(bar),
                names.bars.get(bar).cta
            )
        }
        Agent::Warpgroup { cta, wg } => format!(
            "{who} has neither executed a wgmma.wait_group that covers it, nor synchronised \
             with a thread of warp group {wg} of CTA {cta} that has"
        ),
        Agent::Umma(o) => format!(
            "{who} has neither waited for the mbarrier of a tcgen05.commit of {} that covers it, nor synchronised with \
             a thread that has",
            names.place(o)
        ),
        Agent::TensorMoves(o) => {
            format!("{who} has not synchronised with {} since", names.place(o))
        }
        Agent::BulkReads(o) | Agent::BulkWrites(o) => {
            let other = names.place(o);
            let read = if matches!(agent, Agent::BulkReads(_)) { ".read" } else { "" };
            if o == t {
                return format!("no bulk wait_group{read} lies between the two");
            }
            format!(
                "{other} has to execute a bulk wait_group{read}, and {who} to synchronise with it \
                 after that"
            )
        }
        Agent::CpAsync(o) if o == t => {
            "no cp.async.wait_group, and no wait for the phase of its .noinc arrival, lies between \
             the two"
                .to_owned()
        }
        Agent::MapCopies { warp, .. } => {
            let (cta, warp) = names.warp(warp);
            format!("{who} has not synchronised with warp {warp} of CTA {cta} since")
        }
        Agent::CpAsync(o) => {
            let other = names.place(o);
            format!(
                "{other} has to execute cp.async.wait_group, and {who} to synchronise with it after \
                 that; or {who} waits for the phase of a cp.async.mbarrier.arrive.noinc"
            )
        }
    }
}
