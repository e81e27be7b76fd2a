//! From what was found to a fault, in words: both sides, and the edge that is missing.

use super::accesses::Found;
use super::agents::Agent;
use super::global::GlobalClash;
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
    let GlobalClash { rule, at, old, old_write, write } = clash;
    let who = names.place(t);
    let mut other = old.place.to_string();
    if old.cluster != race.cluster {
        let first = race.global.grid(race.global.grid_of(old.cluster)).0;
        other = format!("cluster {} {other}", old.cluster - first);
    }
    if *rule == Rule::Dependent {
        other = format!("{other} of the kernel `{}`", grid_of(race, old.cluster));
    }
    let name = names.thread(t).op;
    let (does, did) = verbs(*write, *old_write);
    let why = match rule {
        Rule::Dependent => between_grids(race, t, old.cluster),
        Rule::Proxy => "no fence.proxy.async of global memory lies between".to_owned(),
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
        Agent::CpAsync(o) => {
            let other = names.place(o);
            format!("{who} has not heard of its end: cp.async.wait_group or .noinc by {other}")
        }
    }
}
