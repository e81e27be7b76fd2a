//! Who works: the components of the clocks.

use crate::types::hash::ByMix;
use crate::types::scope::Scope;
use std::collections::HashMap;

/// Who works.
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
    /// The tcgen05 multiplications that a thread issued; the time is the number of the commit that covers them, from 1.
    Umma(u32),
    /// A thread's loads and stores of tensor memory; the time counts its `tcgen05.fence::before_thread_sync`, from 1.
    TensorMoves(u32),
    /// The tensor maps that a warp of the cluster copied with `tensormap.cp_fenceproxy` of this scope;
    /// the time counts such copies of the cluster, from 1.
    MapCopies { warp: usize, scope: Scope },
}

impl Agent {
    /// Whether it works through the generic proxy.
    pub fn generic(self) -> bool {
        matches!(self, Self::Thread(_) | Self::CpAsync(_) | Self::MapCopies { .. })
    }
}

/// The agents of a cluster, by number.
pub(crate) struct Agents {
    all: Vec<Agent>,
    index: HashMap<Agent, u32, ByMix>,
}

impl Agents {
    /// The threads come first.
    pub fn new(threads: u32) -> Self {
        Self { all: (0..threads).map(Agent::Thread).collect(), index: HashMap::default() }
    }

    /// The number of an agent, which it gets when it first works.
    pub fn number(&mut self, agent: Agent) -> u32 {
        if let Agent::Thread(t) = agent {
            return t;
        }
        *self.index.entry(agent).or_insert_with(|| {
            self.all.push(agent);
            self.all.len() as u32 - 1
        })
    }

    #[inline]
    pub fn get(&self, number: u32) -> Agent {
        self.all[number as usize]
    }
}
