//! From what was found to a fault, in words: both sides, and the edge that is missing.

use super::accesses::Found;
use super::agents::Agent;
use super::global::GlobalClash;
use super::maps::Gap;
use super::shadow::Clash;
use super::state::Race;
use super::times::Lane;
use crate::barrier::mbarriers::Mbarriers;
use crate::cluster::thread::Thread;
use crate::finding::fault::Fault;
use crate::finding::report::ThreadPlace;
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
    let why = match rule {
        Rule::Proxy => format!(
            "no fence.proxy.async stands after the write and before the synchronisation that \
             leads to the {op}"
        ),
        Rule::Scope => {
            let (a, b) = (who.cta, other.cta);
            format!(
                "only operations of .cta scope order them, and between CTA {b} and CTA {a} the \
                 release and the acquire must be .cluster"
            )
        }
        _ => missing_edge(names, t, race.agents.get(old.agent), old.time),
    };
    let message = format!(
        "shared address {:#x} (base + {at}) of CTA {cta}: {who} {does} ({op}) what {other} {did} \
         ({}); {why}",
        at + SMEM_BASE,
        site.what
    );
    let what = format!("{} by {other}", site.what);
    Fault::new(rule, message).against(what, site.loc)
}

fn global(race: &Race, names: &Names<'_>, t: u32, clash: &GlobalClash) -> Fault {
    let GlobalClash { rule, at, old, old_write, write, gap } = clash;
    let who = names.place(t);
    let mut other = old.place.to_string();
    if old.cluster != race.cluster {
        other = format!("cluster {} {other}", old.cluster);
    }
    let name = names.thread(t).op;
    let (does, did) = verbs(*write, *old_write);
    let why = match rule {
        Rule::Proxy if old.kind.generic() => {
            "no fence.proxy.async of global memory lies between".to_owned()
        }
        Rule::Proxy => {
            "the two are asynchronous work of different CTAs, and no fence.proxy.async of \
                        global memory lies between: behind the wait_group of the one, or behind \
                        what the other acquired"
                .to_owned()
        }
        Rule::MapUnseen => map_gap(*gap).to_owned(),
        Rule::Scope => "only operations of .cta scope order them, and the two are of different \
                        CTAs"
            .to_owned(),
        _ if old.cluster != race.cluster => format!(
            "nothing that {who} acquired says that it is over: a release at .gpu scope by the \
             one, and an acquire of it by the other"
        ),
        _ => missing_edge(names, t, old.kind, old.time),
    };
    let message = format!(
        "global address {at:#x}: {who} {does} ({name}) what {other} {did} ({}); {why}",
        old.what
    );
    Fault::new(*rule, message).against(format!("{} by {other}", old.what), old.loc)
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

/// What the thread should have heard of.
fn missing_edge(names: &Names<'_>, t: u32, agent: Agent, time: u32) -> String {
    let who = names.place(t);
    match agent {
        Agent::Thread(o) => {
            let other = names.place(o);
            format!("{who} has not synchronised with {other} since")
        }
        Agent::Barrier(bar) => {
            format!(
                "{who} has neither waited for phase {} of {} of CTA {}, nor synchronised \
                 with one who has",
                time - 1,
                names.bars.name(bar),
                names.bars.get(bar).cta
            )
        }
        Agent::Warpgroup { cta, wg } => format!(
            "{who} has neither executed a wgmma.wait_group that covers it, nor synchronised \
             with a thread of warp group {wg} of CTA {cta} that has"
        ),
        Agent::BulkReads(o) | Agent::BulkWrites(o) => {
            let other = names.place(o);
            let read = if matches!(agent, Agent::BulkReads(_)) { ".read" } else { "" };
            format!("{who} has not heard of a bulk wait_group{read} by {other} since")
        }
        Agent::MapCopies { warp, .. } => {
            let (cta, warp) = names.warp(warp);
            format!("{who} has not synchronised with warp {warp} of CTA {cta} since")
        }
        Agent::CpAsync(o) => {
            let other = names.place(o);
            format!("{who} has not heard of its end: cp.async.wait_group or .noinc by {other}")
        }
    }
}
