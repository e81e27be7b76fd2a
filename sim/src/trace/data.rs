//! What a trace holds.

use crate::finding::report::{SourceLine, ThreadPlace};
use std::sync::{Mutex, PoisonError};

/// Asks for the trace of one cluster of each launch, and takes it.
#[derive(Debug)]
pub struct Tracing {
    cluster: u32,
    limit: usize,
    traces: Mutex<Vec<Trace>>,
}

impl Tracing {
    /// Of cluster `cluster` of the grid; at most `limit` events are kept, the first ones.
    pub fn new(cluster: u32, limit: usize) -> Self {
        Self { cluster, limit, traces: Mutex::default() }
    }

    /// How many events of a cluster are kept, if its trace is asked for.
    pub(crate) fn of(&self, cluster: u32) -> Option<usize> {
        (self.cluster == cluster).then_some(self.limit)
    }

    /// The traces of the launches since it was last asked, in the order in which they ended. A
    /// launch that failed has one too, up to where it failed.
    pub fn take(&self) -> Vec<Trace> {
        std::mem::take(&mut self.traces.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Leaves a trace for [`Self::take`].
    pub(crate) fn put(&self, trace: Trace) {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner).push(trace);
    }
}

/// What one cluster did.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Name of the kernel.
    pub kernel: String,
    /// The cluster's linear index in the grid.
    pub cluster: u32,
    /// CTAs of the cluster.
    pub ctas: u32,
    /// Threads of a CTA.
    pub block: u32,
    /// Where the dynamic shared memory of a CTA starts.
    pub smem_base: u32,
    /// Whether it ran to its end.
    pub finished: bool,
    /// Its threads.
    pub threads: Vec<ThreadTrace>,
    /// Its mbarriers, in the order of their initialisation.
    pub barriers: Vec<BarrierName>,
    /// What happened, in the order of the run, which is that of time only under
    /// [`crate::Schedule::timed`], and there roughly.
    pub events: Vec<Event>,
    /// Events beyond the limit, which are not there.
    pub dropped: u64,
}

/// A thread of a trace.
#[derive(Clone, Copy, Debug)]
pub struct ThreadTrace {
    /// Where it is.
    pub place: ThreadPlace,
    /// When it returned, or how far it came.
    pub end: u64,
}

/// An mbarrier of a trace.
#[derive(Clone, Copy, Debug)]
pub struct BarrierName {
    /// CTA's rank in the cluster.
    pub cta: u32,
    /// Shared address.
    pub addr: u32,
    /// Name and stage that the kernel gave it.
    pub label: Option<(&'static str, u32)>,
}

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Who did it: an index in [`Trace::threads`].
    pub thread: u32,
    /// How many instructions the cluster had executed.
    pub step: u64,
    /// When it began.
    pub from: u64,
    /// When it ended; where nothing lasts, when it began.
    pub until: u64,
    /// The line of the kernel.
    pub at: Option<SourceLine>,
    /// What it was.
    pub what: What,
}

/// What can happen. Barriers are indices in [`Trace::barriers`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum What {
    /// Arrivals at an mbarrier, with the bytes that were expected at the same time.
    Arrive {
        /// Where.
        barrier: u32,
        /// The phase that was in progress.
        phase: u32,
        /// How many; 0 for a mere `expect_tx`.
        count: u32,
        /// Bytes expected.
        bytes: Option<u32>,
    },
    /// A phase was completed; `thread` is the cause's, or its issuer.
    Phase {
        /// Of which barrier.
        barrier: u32,
        /// Which.
        phase: u32,
        /// What was last in time.
        by: Cause,
    },
    /// A wait on an mbarrier, over.
    Wait {
        /// Where.
        barrier: u32,
        /// The phase that was waited for; `u32::MAX` for the one before the first.
        phase: u32,
    },
    /// A copy to shared memory, from its issue to its landing. A multicast is one for each CTA.
    Load {
        /// Number of the copy.
        copy: u32,
        /// When the engine began with it.
        started: u64,
        /// To which CTA.
        cta: u32,
        /// To which shared address.
        addr: u32,
        /// How much.
        bytes: u32,
        /// On which barrier it completes.
        barrier: u32,
    },
    /// A copy from shared memory, from its issue until it is written.
    Store {
        /// Number of the copy.
        copy: u32,
        /// When the engine began with it.
        started: u64,
        /// When its source was read.
        read: u64,
        /// How much.
        bytes: u32,
    },
    /// A wgmma of 64 rows, 16 deep, from its issue to its end.
    Wgmma {
        /// When the tensor core began with it.
        started: u64,
        /// Columns.
        n: u32,
    },
    /// `wgmma.wait_group`.
    WgmmaWait {
        /// Groups that may be pending.
        left: u32,
    },
    /// `cp.async.bulk.wait_group`.
    StoreWait {
        /// Groups that may be pending.
        left: u32,
        /// Whether it is for their reads only.
        read: bool,
    },
    /// `cp.async.wait_group`.
    CopyWait {
        /// Groups that may be pending.
        left: u32,
    },
    /// A wait at a named barrier.
    Sync {
        /// Which.
        id: u32,
    },
    /// A wait at the cluster's barrier.
    ClusterWait,
    /// Special functions of the thread, and the arithmetic between them.
    Special {
        /// How many.
        count: u32,
    },
    /// A fence.
    Fence {
        /// Which, as PTX calls it.
        name: &'static str,
    },
}

/// What completed a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A thread arrived, or completed bytes.
    Thread(u32),
    /// A copy landed.
    Copy {
        /// Its number.
        copy: u32,
        /// Who issued it.
        issuer: u32,
    },
}
