//! Accesses to memory, as the instructions report them.

use super::agents::Agent;
use super::global::{GlobalClash, Record, Use as GlobalUse};
use super::judge::{By, Way};
use super::release::{Place, Word};
use super::shadow::{Access, Clash, Judge};
use super::state::Race;
use super::times::Lane;
use super::wgmma::Common;
use crate::cluster::thread::Thread;
use crate::memory::shared::CHUNK;
use crate::types::grid::SMEM_BASE;
use crate::wgmma::groups::Operands;
use std::ops::Range;

/// A CTA's rank, an address in its shared memory, and a length in bytes.
pub(crate) type Part = (usize, u32, u32);

/// What breaks a rule.
#[derive(Debug)]
pub(crate) enum Found {
    /// Two accesses to shared memory, of which the newer one is a write or not.
    Shared { cta: usize, clash: Clash, write: bool },
    /// Two accesses to global memory.
    Global(Box<GlobalClash>),
    /// A use of an mbarrier whose initialisation is not visible; by a copy, or by a thread.
    Unseen { bar: usize, copy: bool },
    /// A use of a tensor map that an earlier kernel changed, and that the CTA has not acquired.
    OldMap(u64),
}

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

/// Who accesses global memory, and how.
#[derive(Clone, Copy)]
struct Operation {
    kind: Agent,
    /// The agent's time; none for the thread's own.
    time: Option<u64>,
    strong: bool,
    what: GlobalUse,
}

/// Calls a function with each run of bytes: its address and its length.
pub(crate) type Runs<'a> = &'a mut dyn FnMut(u64, u64);

pub(super) fn range(addr: u32, len: u32) -> Range<u32> {
    addr - SMEM_BASE..addr - SMEM_BASE + len
}

impl Race {
    fn shared(
        &mut self,
        thread: &Thread,
        (cta, addr, len): Part,
        way: Way,
        strong: bool,
        what: impl FnOnce(&mut Self, u32) -> Use,
    ) -> Result<(), Found> {
        if way == Way::Generic {
            self.reaches(thread, cta);
        }
        let site = self.sites.at(thread, strong);
        let what = what(self, site);
        let who = &self.threads[thread.id as usize];
        let judge = By { who, way, strong, agents: &self.agents, sites: &self.sites };
        let (shadow, range) = (&mut self.shared[cta], range(addr, len));
        match what {
            Use::Read(new) => shadow.read(range, new, &judge),
            Use::Write(new) => shadow.write(range, new, &judge),
            Use::ReadsLater => shadow.look(range, &judge),
            Use::WritesLater => shadow.ready(range, &judge),
        }
        .map_err(|clash| {
            let clash = Clash { rule: judge.rule(clash.old, clash.write), ..clash };
            let write = matches!(what, Use::Write(_) | Use::WritesLater);
            Found::Shared { cta, clash, write }
        })
    }

    fn own(&self, thread: &Thread, site: u32) -> Access {
        Access { agent: thread.id, time: self.threads[thread.id as usize].time, site }
    }

    /// An ordinary read of shared memory.
    pub fn load(&mut self, thread: &Thread, at: Part) -> Result<(), Found> {
        self.shared(thread, at, Way::Generic, false, |race, site| Use::Read(race.own(thread, site)))
    }

    /// An ordinary write, or an atomic update.
    pub fn store(&mut self, thread: &Thread, at: Part, atomic: bool) -> Result<(), Found> {
        self.shared(thread, at, Way::Generic, atomic, |race, site| {
            Use::Write(race.own(thread, site))
        })
    }

    /// A `cp.async` is issued, the thread's `n`th.
    pub fn cp_async(&mut self, thread: &Thread, at: Part, n: u64) -> Result<(), Found> {
        self.shared(thread, at, Way::Generic, false, |race, site| {
            let agent = race.agents.number(Agent::CpAsync(thread.id));
            let copy = Access { agent, time: n as u32, site };
            race.queued[thread.id as usize] = copy;
            Use::Write(copy)
        })
    }

    /// A bulk store of the thread's group of this number, from 1, will read its source.
    pub fn store_source(&mut self, thread: &Thread, at: Part, group: u64) -> Result<(), Found> {
        self.shared(thread, at, Way::AsyncRead, false, |race, site| {
            let agent = race.agents.number(Agent::BulkReads(thread.id));
            Use::Read(Access { agent, time: group as u32, site })
        })
    }

    /// A copy to another CTA will read its source.
    pub fn copy_source(&mut self, thread: &Thread, at: Part) -> Result<(), Found> {
        self.shared(thread, at, Way::AsyncRead, false, |_, _| Use::ReadsLater)
    }

    /// A load or copy will write here. Gives the number of its line, for when it lands.
    pub fn target(&mut self, thread: &Thread, at: Part) -> Result<u32, Found> {
        let mut line = 0;
        self.shared(thread, at, Way::AsyncWrite, false, |_, site| {
            line = site;
            Use::WritesLater
        })?;
        Ok(line)
    }

    /// A load or copy of the line `site` lands, and is about to complete on its barrier in a phase;
    /// `source` is that of a copy from shared memory.
    pub fn lands(
        &mut self,
        (cta, dst, bytes): Part,
        site: u32,
        (bar, phase): (usize, u32),
        source: Option<(usize, u32)>,
    ) {
        let new = self.bars[bar].copy_completes(phase, site);
        self.shared[cta].set(range(dst, bytes), new);
        if let Some((cta, src)) = source {
            let read = self.shared[cta].read(range(src, bytes), new, &Settled);
            debug_assert!(read.is_ok(), "it was checked at the issue");
            let sent = &mut self.ended[cta].sent;
            sent.retain(|copy| copy.0 != new.agent);
            sent.push((new.agent, new.time, site));
        }
    }

    /// The operands of a wgmma that joins the group of this number, from 1, are read.
    pub fn wgmma(&mut self, thread: &Thread, operands: &Operands, group: u64) -> Result<(), Found> {
        let (cta, wg) = (thread.cta, thread.warp_group());
        let site = self.sites.at(thread, false);
        let agent = self.agents.number(Agent::Warpgroup { cta, wg });
        let new = Access { agent, time: group as u32, site };
        let first = (thread.id - thread.index % 128) as usize;
        let who = Common::of(&self.threads[first..first + 128]);
        let (way, agents, sites) = (Way::AsyncRead, &self.agents, &self.sites);
        let judge = By { who: &who, way, strong: false, agents, sites };
        let shadow = &mut self.shared[cta];
        let (mut good, mut result) = (Access::default(), Ok(()));
        for o in operands.iter().flatten() {
            o.for_each_chunk(|_, _, addr| {
                let c = ((addr - SMEM_BASE) / CHUNK) as usize;
                if let Err(clash) = shadow.read_chunk(c, new, &judge, &mut good)
                    && result.is_ok()
                {
                    let clash = Clash { rule: judge.rule(clash.old, true), ..clash };
                    result = Err(Found::Shared { cta, clash, write: false });
                }
            });
        }
        result
    }

    /// A thread, or a copy that it issues, uses a barrier.
    pub fn uses(&self, t: u32, bar: usize, copy: bool) -> Result<(), Found> {
        let (who, init) = (&self.threads[t as usize], self.bars[bar].init);
        let lane = if copy { Lane::Async } else { Lane::Ordered };
        let seen = |lane| who.knows(lane, init.agent, init.time);
        if seen(lane) || seen(Lane::Inits) {
            return Ok(());
        }
        Err(Found::Unseen { bar, copy })
    }

    fn global(
        &mut self,
        thread: &Thread,
        op: Operation,
        base: u64,
        runs: impl FnOnce(Runs<'_>),
    ) -> Result<(), Found> {
        let who = &self.threads[thread.id as usize];
        let new = Record {
            cluster: self.cluster,
            place: thread.place(),
            agent: self.agents.number(op.kind),
            kind: op.kind,
            time: op.time.map_or(who.time, |time| time as u32),
            what: thread.op,
            loc: thread.line(),
            strong: op.strong,
        };
        self.global.access(who, &new, op.what, base, runs).map_err(Found::Global)
    }

    /// An ordinary load from global memory, or one that acquires at the word `acquire`. `base` is the
    /// start of the allocation.
    pub fn global_load(
        &mut self,
        thread: &Thread,
        base: u64,
        (addr, len): (u64, u64),
        acquire: Option<Word>,
    ) -> Result<(), Found> {
        if let Some(word) = acquire {
            self.word(thread, Place::Global(addr), word);
        }
        let (kind, strong) = (Agent::Thread(thread.id), acquire.is_some());
        let op = Operation { kind, time: None, strong, what: GlobalUse::Read };
        self.global(thread, op, base, |f| f(addr, len))
    }

    /// A store to global memory, or an atomic update.
    pub fn global_store(
        &mut self,
        thread: &Thread,
        base: u64,
        (addr, len): (u64, u64),
        word: Word,
    ) -> Result<(), Found> {
        let (kind, strong) = (Agent::Thread(thread.id), word != Word::Store);
        let op = Operation { kind, time: None, strong, what: GlobalUse::Write };
        self.global(thread, op, base, |f| f(addr, len))?;
        self.word(thread, Place::Global(addr), word);
        Ok(())
    }

    /// The thread's `n`th `cp.async` reads its source.
    pub fn global_cp_async(
        &mut self,
        thread: &Thread,
        base: u64,
        (addr, len): (u64, u64),
        n: u64,
    ) -> Result<(), Found> {
        let kind = Agent::CpAsync(thread.id);
        let op = Operation { kind, time: Some(n), strong: false, what: GlobalUse::Read };
        self.global(thread, op, base, |f| f(addr, len))
    }

    /// A load by TMA reads its source, for an mbarrier whose phase in progress will count its bytes.
    pub fn global_source(
        &mut self,
        thread: &Thread,
        base: u64,
        (bar, phase): (usize, u32),
        runs: impl FnOnce(Runs<'_>),
    ) -> Result<(), Found> {
        let time = Some(u64::from(phase.wrapping_add(1)));
        let kind = Agent::Barrier(bar);
        let op = Operation { kind, time, strong: false, what: GlobalUse::Read };
        self.global(thread, op, base, runs)
    }

    /// A bulk store of the thread's group of this number, from 1, writes; `strong`: it reduces.
    pub fn global_sink(
        &mut self,
        thread: &Thread,
        base: u64,
        (group, strong): (u64, bool),
        runs: impl FnOnce(Runs<'_>),
    ) -> Result<(), Found> {
        let kind = Agent::BulkWrites(thread.id);
        let op = Operation { kind, time: Some(group), strong, what: GlobalUse::Write };
        self.global(thread, op, base, runs)
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
