//! What happened before what in a running cluster: the state, and the edges.

use super::agents::{Agent, Agents};
use super::cells::TensorClock;
use super::clock::{Knows, Released, Told};
use super::ended::Ended;
use super::fences::Fences;
use super::foreign::{self, Foreign};
use super::global::GlobalShadow;
use super::named::{Arrival, NamedClock};
use super::polls::{Finds, Polls};
use super::release::{Place, Word};
use super::shadow::{Access, Shadow};
use super::sites::Sites;
use super::sync::{BarClock, ClusterClock};
use super::times::{Lane, Raises, at, join_into, raise};
use crate::cluster::shape::Shape;
use crate::cluster::thread::Thread;
use crate::types::loc::Loc;
use crate::types::scope::Scope;
use std::ops::Range;
use std::sync::Arc;

/// What happened before what in a running cluster.
pub(crate) struct Race {
    /// Number of the cluster among those of the run.
    pub cluster: u32,
    /// What threads know of other clusters when they start, and after `griddepcontrol.wait`.
    ends: [Foreign; 2],
    pub threads: Vec<Knows>,
    pub fences: Vec<Fences>,
    /// By CTA.
    pub shared: Vec<Shadow>,
    pub bars: Vec<BarClock>,
    all: ClusterClock,
    /// By CTA and number.
    named: Vec<[NamedClock; 16]>,
    /// By CTA.
    pub ended: Vec<Ended>,
    /// The last `cp.async` of each thread.
    pub queued: Vec<Access>,
    pub agents: Agents,
    /// Tensor memory.
    pub tensor: TensorClock,
    pub sites: Sites,
    pub raises: Raises,
    pub polls: Polls,
    /// Tensor maps that the cluster's warps have copied with `tensormap.cp_fenceproxy`.
    pub map_copies: u32,
    pub global: Arc<GlobalShadow>,
}

impl Race {
    /// `cluster` is its number in the run; of the clusters `known` its threads know everything.
    pub fn new(shape: &Shape, global: Arc<GlobalShadow>, cluster: u32, known: &Range<u32>) -> Self {
        let (threads, ctas) = (shape.threads(), shape.ctas());
        let mut start = None;
        foreign::learn_end(&mut start, known);
        let knows = |t| {
            let mut knows = Knows::new(t);
            knows.foreign.clone_from(&start);
            knows
        };
        let block = shape.block_threads();
        let unused = |cta| std::array::from_fn(|_| NamedClock::new(cta * block));
        Self {
            cluster,
            threads: (0..threads).map(knows).collect(),
            ends: [start, None],
            fences: (0..threads).map(|_| Fences::default()).collect(),
            shared: (0..ctas).map(|_| Shadow::new(shape.smem_bytes)).collect(),
            bars: Vec::new(),
            all: ClusterClock::default(),
            named: (0..ctas).map(unused).collect(),
            ended: (0..ctas).map(|_| Ended::default()).collect(),
            queued: vec![Access::default(); threads as usize],
            agents: Agents::new(threads),
            tensor: TensorClock::new(threads, ctas),
            sites: Sites::default(),
            raises: Raises::default(),
            polls: Polls::default(),
            map_copies: 0,
            global,
        }
    }

    /// A thread initialises the next mbarrier.
    pub fn init(&mut self, bar: usize, thread: &Thread) {
        let site = self.sites.at(thread, false);
        let time = self.threads[thread.id as usize].time;
        let agent = self.agents.number(Agent::Barrier(bar));
        self.bars.push(BarClock::new(agent, Access { agent: thread.id, time, site }));
    }

    /// A thread releases on an mbarrier; `near`: they are of the same CTA.
    pub fn arrives(&mut self, t: u32, bar: usize, near: bool, scope: Scope) {
        self.bars[bar].arrives(&mut self.threads[t as usize], near, scope);
    }

    /// A thread's `cp.async`s, as many as have landed, are told to a barrier.
    pub fn cp_async_arrives(&mut self, t: u32, bar: usize, landed: u64) {
        let agent = self.agents.number(Agent::CpAsync(t));
        self.bars[bar].told(agent, landed as u32);
        self.bars[bar].follows_expects(&self.threads[t as usize]);
        self.will_complete(t, bar);
    }

    /// A thread expects bytes at an mbarrier, and does not arrive.
    pub fn expects(&mut self, t: u32, bar: usize, loc: Loc) {
        self.bars[bar].expects(&self.threads[t as usize], loc);
    }

    /// Of the phase that completes, an expectation that no arrival follows: who expects, and where.
    pub fn late_expect(&mut self, bar: usize) -> Option<(u32, Loc)> {
        self.bars[bar].late_expect()
    }

    /// A phase of an mbarrier has completed, for which these threads sleep. Gives a thread that was not
    /// sure to have seen the phase before, and where it waited for it.
    pub fn phase_done(
        &mut self,
        bar: usize,
        phase: u32,
        sleepers: &[(u32, Loc)],
    ) -> Option<(u32, Loc)> {
        let bar = &mut self.bars[bar];
        bar.phase_done(phase);
        let course = Arc::clone(bar.course());
        let lapped = bar.waiters.phase_done(&course);
        for &(t, loc) in sleepers {
            bar.waiters.woken(t, loc);
        }
        lapped
    }

    /// A thread's arrival, or its `complete_tx`, was the last of its phase. The thread may know that: none other was missing.
    pub fn completes(&mut self, t: u32, bar: usize) {
        let bar = &self.bars[bar];
        let phases = at(bar.course(), bar.agent());
        raise(&mut self.threads[t as usize].base[Lane::Course as usize], bar.agent(), phases);
    }

    /// A thread looks at an mbarrier for a phase: whether it can be sure that it waits for this one. If not,
    /// gives the phase that it saw last.
    pub fn looks(&self, t: u32, bar: usize, phase: u32) -> Result<(), Option<u32>> {
        let (bar, thread) = (&self.bars[bar], &self.threads[t as usize]);
        let known = at(&thread.base[Lane::Course as usize], bar.agent());
        bar.waiters.means(t, phase, known)
    }

    /// Whether a thread knows that so many phases of an mbarrier are over.
    pub fn knows_over(&self, t: u32, bar: usize, phases: u32) -> bool {
        let known = &self.threads[t as usize].base[Lane::Course as usize];
        at(known, self.bars[bar].agent()) >= phases
    }

    /// What a thread may find that polls on a line for a phase of an mbarrier.
    pub fn finds(&self, t: u32, (bar, phase): (usize, u32), line: Loc) -> Finds {
        if self.knows_over(t, bar, phase.wrapping_add(1)) {
            return Finds::WhatIs;
        }
        self.polls.finds(t, (bar, phase), line)
    }

    /// A thread that waited on an mbarrier, and where, which another need not have heard of since.
    pub fn waits_on(&self, t: u32, bar: usize) -> Option<(u32, Loc)> {
        let known = &self.threads[t as usize].base[Lane::Course as usize];
        self.bars[bar].waiters.unheard(t, known)
    }

    /// A thread has seen a phase of an mbarrier complete, the last one.
    pub fn waited(&mut self, t: u32, (bar, phase): (usize, u32), loc: Loc, scope: Scope) {
        let (bar, thread) = (&mut self.bars[bar], &mut self.threads[t as usize]);
        bar.waited(thread, scope);
        // What others have heard of the thread before was before the end of this wait.
        thread.time += 1;
        bar.waiters.passed(t, (phase, thread.time), loc);
    }

    /// Bytes that this thread causes will complete on an mbarrier: it is as if it arrived, but that no
    /// memory follows.
    pub fn will_complete(&mut self, t: u32, bar: usize) {
        self.bars[bar].comes(&self.threads[t as usize]);
    }

    /// Threads execute an instruction together: all have come to it, whatever their memory does.
    pub fn together(&mut self, threads: impl Iterator<Item = u32> + Clone) {
        let course = Lane::Course as usize;
        let Some(first) = threads.clone().next() else { return };
        let mut last = &self.threads[first as usize].base[course];
        let mut all = Arc::clone(last);
        for t in threads.clone() {
            let base = &self.threads[t as usize].base[course];
            // Most have the same as the thread before.
            if !Arc::ptr_eq(base, last) {
                join_into(&mut all, base);
                last = base;
            }
        }
        for t in threads.clone() {
            raise(&mut all, t, self.threads[t as usize].time);
        }
        for t in threads {
            let base = &mut self.threads[t as usize].base[course];
            if !Arc::ptr_eq(base, &all) {
                base.clone_from(&all);
            }
        }
    }

    /// A thread comes to a named barrier; `whole`: it is the last of its warp. Gives an arrival of the use before of which
    /// the warp does not know.
    pub fn named_arrives(
        &mut self,
        t: u32,
        (cta, id): (usize, u32),
        loc: Loc,
        whole: bool,
    ) -> Option<Arrival> {
        let bar = &mut self.named[cta][id as usize];
        bar.arrives(&mut self.threads[t as usize], loc);
        if whole { bar.whole(t) } else { None }
    }

    /// A named barrier is complete: these threads waited for it.
    pub fn named_done(
        &mut self,
        (cta, id): (usize, u32),
        threads: impl Iterator<Item = u32> + Clone,
    ) {
        let all = self.named[cta][id as usize].done(threads.clone());
        self.take(threads, &all);
    }

    /// Threads that meet tell each other everything.
    pub fn meet(&mut self, threads: impl Iterator<Item = u32> + Clone) {
        let mut all = Released::default();
        for t in threads.clone() {
            self.threads[t as usize].give(&mut all);
        }
        self.take(threads, &all);
    }

    fn take(&mut self, threads: impl Iterator<Item = u32>, from: &Released) {
        let mut told = Told::new(from);
        for t in threads {
            told.tell(&mut self.threads[t as usize]);
        }
    }

    /// `barrier.cluster.arrive`.
    pub fn cluster_arrives(&mut self, t: u32, release: bool) {
        let fenced = self.fences[t as usize].released.as_ref();
        self.all.arrives(&mut self.threads[t as usize], release, fenced);
    }

    /// All have arrived at the cluster's barrier.
    pub fn cluster_done(&mut self) {
        self.all.done();
    }

    /// `barrier.cluster.wait`.
    pub fn cluster_waited(&mut self, t: u32) {
        self.all.waited(&mut self.threads[t as usize]);
    }

    /// A thread learns that an agent's work is over up to a time.
    pub fn learns(&mut self, t: u32, agent: Agent, time: u64) {
        if time == 0 {
            return;
        }
        let agent = self.agents.number(agent);
        self.threads[t as usize].learn(&mut self.raises, agent, time as u32);
    }

    /// A thread has executed `griddepcontrol.wait`: it knows everything of these clusters.
    pub fn waits_for_grids(&mut self, t: u32, known: Range<u32>) {
        let foreign = &mut self.threads[t as usize].foreign;
        let [start, after] = &mut self.ends;
        // Most threads know what they knew at the start: they share what they know then.
        let same = match (&*foreign, &*start) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        if !same {
            return foreign::learn_end(foreign, &known);
        }
        if after.is_none() {
            after.clone_from(start);
            foreign::learn_end(after, &known);
        }
        foreign.clone_from(after);
    }

    /// `fence.proxy.async` and `fence.mbarrier_init`.
    pub fn proxy_fence(&mut self, t: u32, lanes: &[Lane]) {
        let thread = &mut self.threads[t as usize];
        for &lane in lanes {
            thread.fence(lane);
            if lane == Lane::AsyncGlobal {
                foreign::fence(&mut thread.foreign);
            }
        }
    }

    /// `fence.acq_rel` and `fence.sc`.
    pub fn fence(&mut self, thread: &Thread, scope: Scope) {
        let t = thread.id as usize;
        self.fences[t].fence(&mut self.threads[t], (self.cluster, thread.cta), scope);
    }

    /// An operation on a word that may carry a release.
    pub fn word(&mut self, thread: &Thread, place: Place, op: Word) {
        let t = thread.id as usize;
        let at = (self.cluster, thread.cta);
        self.fences[t].word(&mut self.threads[t], &self.global, at, place, op);
    }
}
