//! Who tells whom: the edges of happens-before.

use super::clock::{LANES, Lane, Released, Told, raise};
use super::foreign;
use super::shadow::Access;
use super::{Agent, Race};
use crate::cluster::Cluster;

/// How far a release or an acquire reaches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Scope {
    Cta,
    Cluster,
    Gpu,
}

const STRICT: [Lane; 4] = [Lane::Ordered, Lane::Async, Lane::AsyncGlobal, Lane::Inits];

/// What has been released on an mbarrier. Phases follow each other in one chain of updates of the
/// object, so that a wait sees the arrivals of all phases up to its own.
pub(crate) struct BarClock {
    agent: u32,
    /// Copies completed on the phase in progress.
    copies: bool,
    /// Its initialisation.
    pub init: Access,
    /// By threads of the barrier's CTA; [`Lane::Loose`] by all.
    near: Released,
    /// By threads of other CTAs, at cluster scope.
    far: Released,
    any_far: bool,
    /// The same at the end of the phase that completed last.
    done: Told,
    done_far: Option<Told>,
}

/// What has been released on the cluster's barrier.
#[derive(Default)]
pub(crate) struct ClusterClock {
    open: Released,
    done: Told,
}

impl Race {
    pub fn new_bar(&mut self, bar: usize, init: Access) {
        let agent = self.agent(Agent::Barrier(bar));
        self.bars.push(BarClock {
            agent,
            copies: false,
            init,
            near: Released::default(),
            far: Released::default(),
            any_far: false,
            done: Told::default(),
            done_far: None,
        });
    }

    /// A thread releases on an mbarrier.
    pub fn arrives(&mut self, t: u32, bar: usize, near: bool, scope: Scope) {
        let b = &mut self.bars[bar];
        let thread = &mut self.threads[t as usize];
        if near {
            b.near.add(thread, &LANES);
        } else {
            b.near.add(thread, &[Lane::Loose]);
            if scope >= Scope::Cluster {
                b.far.add(thread, &STRICT);
                b.any_far = true;
            }
        }
        thread.time += 1;
    }

    /// The copies of a thread's `cp.async`, as many as have landed, are told to a barrier.
    pub fn cp_async_arrives(&mut self, t: u32, bar: usize, landed: u64) {
        let agent = self.agent(Agent::CpAsync(t));
        for lane in [Lane::Ordered, Lane::Loose] {
            raise(&mut self.bars[bar].near.lanes[lane as usize], agent, landed as u32);
        }
    }

    /// A copy completes on a barrier in a phase: gives what its write is known by.
    pub fn copy_completes(&mut self, bar: usize, phase: u32, site: u32) -> Access {
        let b = &mut self.bars[bar];
        b.copies = true;
        Access { agent: b.agent, time: phase.wrapping_add(1), site }
    }

    /// A phase has completed.
    pub fn phase_done(&mut self, bar: usize, phase: u32) {
        let b = &mut self.bars[bar];
        if std::mem::take(&mut b.copies) {
            for lane in [Lane::Ordered, Lane::Loose] {
                raise(&mut b.near.lanes[lane as usize], b.agent, phase.wrapping_add(1));
            }
        }
        b.done = Told::new(&b.near);
        b.done_far = b.any_far.then(|| Told::new(&b.far));
    }

    /// A thread has seen the last phase complete.
    pub fn waited(&mut self, t: u32, bar: usize, scope: Scope) {
        let b = &mut self.bars[bar];
        let thread = &mut self.threads[t as usize];
        b.done.tell(thread);
        if let Some(far) = &mut b.done_far
            && scope >= Scope::Cluster
        {
            far.tell(thread);
        }
    }

    /// A thread releases to whoever will acquire from `to`.
    pub fn gives(&mut self, t: u32, to: &mut Released) {
        let thread = &mut self.threads[t as usize];
        to.add(thread, &LANES);
        thread.time += 1;
    }

    /// Threads acquire all of it.
    pub fn take(&mut self, threads: impl Iterator<Item = u32>, from: &Released) {
        let mut told = Told::new(from);
        for t in threads {
            told.tell(&mut self.threads[t as usize]);
        }
    }

    /// Threads that meet tell each other everything.
    pub fn meet(&mut self, threads: impl Iterator<Item = u32> + Clone) {
        let mut all = Released::default();
        for t in threads.clone() {
            self.gives(t, &mut all);
        }
        self.take(threads, &all);
    }

    /// `barrier.cluster.arrive`.
    pub fn cluster_arrives(&mut self, t: u32, release: bool) {
        let thread = &mut self.threads[t as usize];
        if release {
            self.all.open.add(thread, &LANES);
        } else {
            self.all.open.add(thread, &[Lane::Inits]);
            // A fence before it makes a release of it, as of any relaxed operation.
            if let Some((scope, what)) = &self.fences[t as usize].released
                && *scope >= Scope::Cluster
            {
                self.all.open.merge(what);
            }
        }
        thread.time += 1;
    }

    /// All have arrived.
    pub fn cluster_done(&mut self) {
        self.all.done = Told::new(&std::mem::take(&mut self.all.open));
    }

    /// `barrier.cluster.wait`.
    pub fn cluster_waited(&mut self, t: u32) {
        self.all.done.tell(&mut self.threads[t as usize]);
    }

    /// A thread learns that an agent's work is over up to a time.
    pub fn learns(&mut self, t: u32, agent: Agent, time: u64) {
        if time == 0 {
            return;
        }
        let agent = self.agent(agent);
        self.threads[t as usize].learn(&mut self.raises, agent, time as u32);
    }

    /// `fence.proxy.async` and `fence.mbarrier_init`.
    pub fn fence(&mut self, t: u32, lanes: &[Lane]) {
        let thread = &mut self.threads[t as usize];
        for &lane in lanes {
            thread.fence(lane);
            if lane == Lane::AsyncGlobal {
                foreign::fence(&mut thread.foreign);
            }
        }
    }
}

impl Cluster {
    /// Notes an edge, if races are looked for.
    #[inline]
    pub fn edge(&mut self, f: impl FnOnce(&mut Race)) {
        if let Some(race) = &mut self.race {
            f(race);
        }
    }
}
