//! Accesses to shared memory, as the instructions report them.

use super::explain::{Found, Space};
use super::judge::{By, Way};
use super::shadow::{Access, Clash, Judge};
use super::sites::Site;
use super::{Agent, Race};
use crate::bulk::Target;
use crate::cluster::Cluster;
use crate::config::SMEM_BASE;
use crate::fault::Fault;
use crate::thread::Thread;
use std::ops::Range;

/// What a range is accessed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Read(Access),
    Write(Access),
    /// It will be read: noted when that is over.
    ReadsLater,
    /// It will be written.
    WritesLater,
}

fn range(addr: u32, len: u32) -> Range<u32> {
    addr - SMEM_BASE..addr - SMEM_BASE + len
}

impl Race {
    /// The number of a thread's line.
    pub fn site(&mut self, thread: &Thread, t: u32, strong: bool) -> u32 {
        let loc = thread.loc.expect("the instruction has begun");
        self.sites.of(Site { thread: t, what: thread.op, loc, strong })
    }

    fn access(
        &mut self,
        t: u32,
        way: Way,
        strong: bool,
        cta: usize,
        range: Range<u32>,
        what: Use,
    ) -> Result<(), Clash> {
        let who = &self.threads[t as usize];
        let judge = By { who, way, strong, agents: &self.agents, sites: &self.sites };
        let shadow = &mut self.shared[cta];
        match what {
            Use::Read(new) => shadow.read(range, new, &judge),
            Use::Write(new) => shadow.write(range, new, &judge),
            Use::ReadsLater => shadow.look(range, &judge),
            Use::WritesLater => shadow.ready(range, &judge),
        }
        .map_err(|clash| Clash { rule: judge.rule(clash.old, clash.write), ..clash })
    }
}

impl Cluster {
    fn race_shared(
        &mut self,
        t: u32,
        (cta, addr, len): (usize, u32, u32),
        way: Way,
        strong: bool,
        what: impl FnOnce(&mut Race, u32) -> Use,
    ) -> Result<(), Fault> {
        let Some(race) = &mut self.race else { return Ok(()) };
        let site = race.site(&self.threads[t as usize], t, strong);
        let what = what(race, site);
        let write = matches!(what, Use::Write(_) | Use::WritesLater);
        race.access(t, way, strong, cta, range(addr, len), what)
            .map_err(|clash| self.explain(&Found { t, clash, space: Space::Shared { cta }, write }))
    }

    /// An ordinary read.
    pub fn race_load(&mut self, t: u32, at: (usize, u32, u32)) -> Result<(), Fault> {
        self.race_shared(t, at, Way::Generic, false, |race, site| {
            Use::Read(Access { agent: t, time: race.threads[t as usize].time, site })
        })
    }

    /// An ordinary write, or an atomic update.
    pub fn race_store(&mut self, t: u32, at: (usize, u32, u32), atomic: bool) -> Result<(), Fault> {
        self.race_shared(t, at, Way::Generic, atomic, |race, site| {
            Use::Write(Access { agent: t, time: race.threads[t as usize].time, site })
        })
    }

    /// A `cp.async` is issued, the thread's `n`th.
    pub fn race_cp_async(&mut self, t: u32, at: (usize, u32, u32), n: u64) -> Result<(), Fault> {
        self.race_shared(t, at, Way::Generic, false, |race, site| {
            Use::Write(Access { agent: race.agent(Agent::CpAsync(t)), time: n as u32, site })
        })
    }

    /// A bulk store of the thread's group of this number, from 1, will read its source.
    pub fn race_store_source(
        &mut self,
        t: u32,
        at: (usize, u32, u32),
        group: u64,
    ) -> Result<(), Fault> {
        self.race_shared(t, at, Way::AsyncRead, false, |race, site| {
            let agent = race.agent(Agent::BulkReads(t));
            Use::Read(Access { agent, time: group as u32, site })
        })
    }

    /// A copy to another CTA will read its source.
    pub fn race_copy_source(&mut self, t: u32, at: (usize, u32, u32)) -> Result<(), Fault> {
        self.race_shared(t, at, Way::AsyncRead, false, |_, _| Use::ReadsLater)
    }

    /// A load or copy will write here. Gives the number of its line, for when it lands.
    pub fn race_target(&mut self, t: u32, at: (usize, u32, u32)) -> Result<u32, Fault> {
        let mut line = 0;
        self.race_shared(t, at, Way::AsyncWrite, false, |_, site| {
            line = site;
            Use::WritesLater
        })?;
        Ok(line)
    }

    /// A load or copy lands, and is about to complete on its barrier; `source` of a copy from
    /// shared memory.
    pub fn race_lands(&mut self, to: Target, source: Option<(usize, u32)>) {
        let Some(race) = &mut self.race else { return };
        let phase = self.bars[to.bar].state.phase;
        let new = race.copy_completes(to.bar, phase, to.site);
        race.shared[to.cta].set(range(to.dst, to.bytes), new);
        if let Some((cta, src)) = source {
            let read = race.shared[cta].read(range(src, to.bytes), new, &Settled);
            debug_assert!(read.is_ok(), "it was checked at the issue");
        }
    }
}

/// Of what was checked before.
struct Settled;

impl Judge for Settled {
    fn after_write(&self, _: Access) -> bool {
        true
    }
    fn after_read(&self, _: Access) -> bool {
        true
    }
    fn replaces(&self, _: Access) -> bool {
        false
    }
}
