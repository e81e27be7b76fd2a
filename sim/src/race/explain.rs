//! From a clash to a fault, in words: both sides, and the edge that is missing.

use super::Agent;
use super::shadow::Clash;
use crate::Rule;
use crate::cluster::Cluster;
use crate::config::SMEM_BASE;
use crate::diagnose;
use crate::fault::Fault;

/// Where.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Space {
    Shared { cta: usize },
}

/// A thread's access that follows an older one without knowing of it.
pub(crate) struct Found {
    pub t: u32,
    pub clash: Clash,
    pub space: Space,
    pub write: bool,
}

/// The verbs of the two sides.
pub(crate) fn verbs(write: bool, old_write: bool) -> (&'static str, &'static str) {
    (if write { "overwrites" } else { "reads" }, if old_write { "wrote" } else { "read" })
}

impl Cluster {
    /// The fault of a race in shared memory.
    pub fn explain(&self, found: &Found) -> Fault {
        let race = self.race.as_ref().expect("it found this");
        let Space::Shared { cta } = found.space;
        let Clash { old, write, at, rule } = found.clash;
        let site = race.sites.get(old.site);
        let (t, op) = (found.t, self.threads[found.t as usize].op);
        let (who, other) = (diagnose::place(self, t), diagnose::place(self, site.thread));
        let (does, did) = verbs(found.write, write);
        let why = match rule {
            Rule::Proxy => format!(
                "no fence.proxy.async stands after the write and before the synchronisation that \
                 leads to the {op}"
            ),
            Rule::Scope => {
                let (a, b) = (self.threads[t as usize].cta, self.threads[site.thread as usize].cta);
                format!(
                    "only operations of .cta scope order them, and between CTA {b} and CTA {a} the \
                     release and the acquire must be .cluster"
                )
            }
            _ => self.missing_edge(t, race.agents[old.agent as usize], old.time),
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

    /// What the thread should have heard of.
    pub fn missing_edge(&self, t: u32, agent: Agent, time: u32) -> String {
        let who = diagnose::place(self, t);
        match agent {
            Agent::Thread(o) => {
                let other = diagnose::place(self, o);
                format!("{who} has not synchronised with {other} since")
            }
            Agent::Barrier(bar) => {
                let b = &self.bars[bar];
                let name = self.ctas[b.cta].name_of(b.addr);
                format!(
                    "{who} has neither waited for phase {} of {name} of CTA {}, nor synchronised \
                     with one who has",
                    time - 1,
                    b.cta
                )
            }
            Agent::Warpgroup { cta, wg } => format!(
                "{who} has neither executed a wgmma.wait_group that covers it, nor synchronised \
                 with a thread of warp group {wg} of CTA {cta} that has"
            ),
            Agent::BulkReads(o) | Agent::BulkWrites(o) => {
                let other = diagnose::place(self, o);
                let read = if matches!(agent, Agent::BulkReads(_)) { ".read" } else { "" };
                format!("{who} has not heard of a bulk wait_group{read} by {other} since")
            }
            Agent::CpAsync(o) => {
                let other = diagnose::place(self, o);
                format!("{who} has not heard of its end: cp.async.wait_group or .noinc by {other}")
            }
        }
    }
}
