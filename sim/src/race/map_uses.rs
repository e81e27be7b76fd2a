//! Tensor maps, as the instructions use, change, publish and fence them.

use super::accesses::{Found, Part, range};
use super::agents::Agent;
use super::clock::{Released, Told};
use super::global::{Record, Use};
use super::judge::{By, Way};
use super::maps::User;
use super::shadow::{Access, Clash};
use super::state::Race;
use super::times::LANES;
use super::wgmma::Common;
use crate::cluster::thread::Thread;
use crate::types::scope::Scope;
use crate::types::tensor_map::MAP_BYTES;
use std::ops::Range;

const BYTES: u64 = MAP_BYTES as u64;

impl Race {
    fn record(&mut self, thread: &Thread, kind: Agent, time: u32) -> Record {
        Record {
            cluster: self.cluster,
            place: thread.place(),
            agent: self.agents.number(kind),
            kind,
            time,
            what: thread.op,
            loc: thread.line(),
            strong: false,
        }
    }

    /// A thread is about to use a map in global memory, in an allocation that starts at `base`: it must
    /// see all changes of it.
    pub fn looks_at_map(&mut self, thread: &Thread, base: u64, map: u64) -> Result<(), Found> {
        let time = self.threads[thread.id as usize].time;
        let new = self.record(thread, Agent::Thread(thread.id), time);
        let who = &self.threads[thread.id as usize];
        self.global.access(who, &new, Use::MapLook, base, |f| f(map, BYTES)).map_err(Found::Global)
    }

    /// A thread is about to use a map that an earlier kernel may have changed: the start of a kernel does
    /// not acquire for the tensormap proxy.
    pub fn looks_at_old_map(&self, thread: &Thread, map: u64) -> Result<(), Found> {
        let who = &self.threads[thread.id as usize];
        let user = User { who, cluster: self.cluster, cta: thread.cta, map };
        if self.global.lock().maps.has_acquired(user) {
            return Ok(());
        }
        Err(Found::OldMap(map))
    }

    /// A TMA instruction of a thread reads its map: until the phases in progress of these mbarriers are
    /// over, or the thread's bulk group of this number, from 1, has read. Loads are no part of a group by
    /// the manual's letter; but CUTLASS's grouped GEMM commits and awaits one before it changes a map.
    pub fn uses_map(
        &mut self,
        thread: &Thread,
        (base, map): (u64, u64),
        bars: &[(usize, u32)],
        group: u64,
    ) -> Result<(), Found> {
        let phase = |&(bar, phase): &(usize, u32)| (Agent::Barrier(bar), phase.wrapping_add(1));
        let mut ends: Vec<_> = bars.iter().map(phase).collect();
        ends.push((Agent::BulkReads(thread.id), group as u32));
        let ends: Vec<_> = ends.into_iter().map(|(a, t)| (a, self.agents.number(a), t)).collect();
        let new = self.record(thread, ends[0].0, ends[0].2);
        let rest: Vec<_> = ends[1..].iter().map(|&(_, agent, time)| (agent, time)).collect();
        let who = &self.threads[thread.id as usize];
        self.global.use_map(who, &new, base, (map, BYTES), &rest).map_err(Found::Global)
    }

    /// `fence.proxy.tensormap::generic.release`
    pub fn map_release(&mut self, thread: &Thread, scope: Scope) {
        let (t, at) = (thread.id as usize, (self.cluster, thread.cta));
        let who = &mut self.threads[t];
        self.global.lock().maps.release(at, scope, who);
        self.fences[t].proxy_release(who, scope);
        who.time += 1;
    }

    /// `fence.proxy.tensormap::generic.acquire`
    pub fn map_acquire(&mut self, thread: &Thread, map: u64, scope: Scope) {
        let (t, at) = (thread.id as usize, (self.cluster, thread.cta));
        let who = &mut self.threads[t];
        self.fences[t].proxy_acquire(who, at, scope);
        self.global.lock().maps.acquire(map, at, scope, who);
        who.time += 1;
    }

    /// The warp of a thread, whose threads are these, copies a map from shared to global memory, where its
    /// allocation starts at `base`, and releases it (`tensormap.cp_fenceproxy`). Each lane copies a part
    /// that the manual does not name: so what the map was written with must be known to all lanes. What
    /// one of them knows to be over is over, for the warp meets first.
    pub fn copies_map(
        &mut self,
        thread: &Thread,
        warp: Range<u32>,
        (cta, src, len): Part,
        (base, dst): (u64, u64),
        scope: Scope,
    ) -> Result<(), Found> {
        self.map_copies += 1;
        let kind = Agent::MapCopies { warp: thread.warp, scope };
        let new = self.record(thread, kind, self.map_copies);
        let site = self.sites.at(thread, false);
        let lanes = warp.start as usize..warp.end as usize;
        let all = Common::of(&self.threads[lanes.clone()]);
        let (way, agents, sites) = (Way::Generic, &self.agents, &self.sites);
        let judge = By { who: &all, way, strong: false, agents, sites };
        let read = Access { agent: new.agent, time: new.time, site };
        self.shared[cta].read(range(src, len), read, &judge).map_err(|clash| {
            let clash = Clash { rule: judge.rule(clash.old, clash.write), ..clash };
            Found::Shared { cta, clash, write: false }
        })?;

        let mut each = Released::default();
        for who in &self.threads[lanes.clone()] {
            each.add(who, &LANES);
        }
        let mut any = self.threads[thread.id as usize].clone();
        Told::new(&each).tell(&mut any);
        self.global
            .access(&any, &new, Use::Write, base, |f| f(dst, BYTES))
            .map_err(Found::Global)?;
        for t in lanes {
            let who = &mut self.threads[t];
            who.learn(&mut self.raises, new.agent, new.time);
            self.fences[t].proxy_release(who, scope);
        }
        Ok(())
    }
}
