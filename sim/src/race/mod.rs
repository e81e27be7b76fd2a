//! Data races, by happens-before.
//!
//! The model runs the threads of a cluster one at a time, so that what they read and write comes out
//! in *some* order, and a missing barrier may go unnoticed for as long as the seeds happen to be
//! kind. This part does not look at the order in which things came out but at whether anything
//! makes them come out so: two accesses to a byte, one of them a write, of which neither happens
//! before the other, are reported whichever came first.
//!
//! - **Clocks** ([`clock`]). Each thread has a vector clock. Arrivals release it, waits acquire what
//!   was released ([`sync`]): mbarriers by phase, named barriers, the cluster's barrier, `bar.warp.sync`,
//!   fences with atomics, `st.release` and `ld.acquire` ([`location`]). Shuffles, votes, `elect`,
//!   `ldmatrix`, `stmatrix` and `wgmma.fence` order no memory.
//! - **Asynchronous work** has agents of its own, which only their way of completion makes known: a
//!   TMA load's write is work of its mbarrier, known to those who have waited for the phase in which
//!   its bytes were counted; a bulk store's read and write are work of the issuer's bulk groups,
//!   known to the issuer after `wait_group.read` and `wait_group`; a wgmma's reads are work of the
//!   warp group, known to a thread that executes `wgmma.wait_group`; a `cp.async`'s write is the
//!   issuer's, known after `cp.async.wait_group` or through the barrier of `.noinc`. What such work
//!   may follow is what its issuer knew at the issue; of a wgmma, what all 128 threads knew.
//! - **Proxies.** A write through the generic proxy (stores, `cp.async`) is visible to the
//!   asynchronous one (wgmma's operands, TMA in either direction) if a `fence.proxy.async` lies on
//!   the way, after the write and before the issue: in the writer, as CUTLASS has it, or in a thread
//!   that acquired from the writer, which the manual's causality order allows as well. The way back
//!   needs no fence, and neither does a TMA load over bytes that were *read* through the generic
//!   proxy: the manual's letter wants one, CUTLASS's pipelines have none.
//! - **Scope.** An edge between CTAs counts if both ends say `.cluster` (or wider). What asynchronous
//!   work overwrites is excepted: the release of a slot by `mbarrier.arrive.shared::cluster`, of
//!   `.cta` scope, says that the reads are over, and that is enough. So a second lane of each clock
//!   follows the course of events without regard for scope; what only it knows is [`Rule::Scope`].
//! - **Shadow** ([`shadow`]). Last write and the reads since, per 16 bytes, and per byte where it
//!   matters.
//! - **Global memory** ([`global`]). The same, shared by all clusters of a launch. Clusters know of
//!   each other what an acquire of a flag tells them. A load by TMA reads until the phase that counts
//!   its bytes is over.

pub(crate) mod clock;
mod explain;
mod foreign;
pub(crate) mod global;
mod inits;
mod judge;
pub(crate) mod location;
mod shadow;
pub(crate) mod shared;
mod sites;
pub(crate) mod sync;
mod wgmma;

#[cfg(doc)]
use crate::Rule;
use clock::{Knows, Raises, Released};
use global::GlobalShadow;
use location::Fences;
use shadow::Shadow;
use sites::Sites;
use std::collections::HashMap;
use std::sync::Arc;
use sync::{BarClock, ClusterClock};

/// Who works: the components of the clocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Agent {
    /// A thread's ordinary accesses. The thread's index is the agent's.
    Thread(u32),
    /// The copies that complete on an mbarrier; the time is the phase, from 1.
    Barrier(usize),
    /// The wgmmas of a warp group; the time is the number of the group, from 1.
    Warpgroup { cta: usize, wg: usize },
    /// What a thread's bulk groups read; the time is the number of the group, from 1.
    BulkReads(u32),
    /// What they write.
    BulkWrites(u32),
    /// A thread's `cp.async`s; the time counts them, from 1.
    CpAsync(u32),
}

/// What happened before what in a running cluster.
pub(crate) struct Race {
    pub threads: Vec<Knows>,
    fences: Vec<Fences>,
    shared: Vec<Shadow>,
    pub bars: Vec<BarClock>,
    pub all: ClusterClock,
    agents: Vec<Agent>,
    index: HashMap<Agent, u32>,
    sites: Sites,
    raises: Raises,
    global: Arc<GlobalShadow>,
}

impl Race {
    pub fn new(threads: u32, ctas: u32, smem_bytes: u32, global: Arc<GlobalShadow>) -> Self {
        Self {
            threads: (0..threads).map(Knows::new).collect(),
            fences: (0..threads).map(|_| Fences::default()).collect(),
            shared: (0..ctas).map(|_| Shadow::new(smem_bytes)).collect(),
            bars: Vec::new(),
            all: ClusterClock::default(),
            agents: (0..threads).map(Agent::Thread).collect(),
            index: HashMap::new(),
            sites: Sites::default(),
            raises: Raises::default(),
            global,
        }
    }

    /// The component of an agent.
    fn agent(&mut self, agent: Agent) -> u32 {
        if let Agent::Thread(t) = agent {
            return t;
        }
        *self.index.entry(agent).or_insert_with(|| {
            self.agents.push(agent);
            self.agents.len() as u32 - 1
        })
    }

    /// All that a thread's release tells, now; what it does from here on is later.
    fn snapshot(&mut self, t: u32) -> Released {
        let mut out = Released::default();
        let thread = &mut self.threads[t as usize];
        out.add(thread, &clock::LANES);
        thread.time += 1;
        out
    }
}
