//! `barrier.cluster`: one barrier of all threads of the cluster, in two halves.
//!
//! PTX manual, *barrier.cluster*: wait waits for all non-exited threads of the cluster to arrive;
//! each thread's arrive is followed by its wait.

use crate::Rule;
use crate::cluster::Cluster;
use crate::explore::order::Key;
use crate::fault::Fault;
use crate::race::Race;
use crate::thread::Wait;
use crate::trace::timing::Timing;
use std::task::Poll;

#[derive(Default)]
pub(crate) struct ClusterBarrier {
    pub phase: u32,
    /// Threads that arrived in this phase.
    pub arrived: u32,
    /// Exited threads that did not arrive in this phase.
    pub gone: u32,
    /// All exited threads.
    exited: u32,
    waiters: Vec<u32>,
}

impl Cluster {
    pub fn cluster_arrive(&mut self, t: u32, release: bool) -> Result<(), Fault> {
        let thread = &mut self.threads[t as usize];
        if thread.cluster_arrived.is_some() {
            return Err(Fault::new(
                Rule::ClusterBarrier,
                "barrier.cluster.arrive a second time without barrier.cluster.wait between",
            ));
        }
        thread.cluster_arrived = Some(self.all.phase);
        self.all.arrived += 1;
        self.edge(|race| race.cluster_arrives(t, release));
        self.timed(|time| time.cluster_arrives(t));
        self.settle_cluster();
        Ok(())
    }

    pub fn cluster_wait(&mut self, t: u32) -> Result<Poll<()>, Fault> {
        self.woken(t);
        let Some(phase) = self.threads[t as usize].cluster_arrived else {
            return Err(Fault::new(
                Rule::ClusterBarrier,
                "barrier.cluster.wait without barrier.cluster.arrive before",
            ));
        };
        if phase != self.all.phase {
            self.threads[t as usize].cluster_arrived = None;
            if let Some(guide) = &mut self.guide {
                guide.look_cluster();
            }
            self.edge(|race| race.cluster_waited(t));
            let loc = self.threads[t as usize].loc;
            self.timed(|time| time.cluster_waited(t, loc));
            return Ok(Poll::Ready(()));
        }
        self.all.waiters.push(t);
        self.sleep(t, Wait::Cluster);
        Ok(Poll::Pending)
    }

    /// An exited thread counts as arrived from now on.
    pub fn cluster_exit(&mut self, t: u32) {
        let b = &mut self.all;
        b.exited += 1;
        if self.threads[t as usize].cluster_arrived != Some(b.phase) {
            b.gone += 1;
        }
        self.timed(|time| time.cluster_arrives(t));
        self.settle_cluster();
    }

    fn settle_cluster(&mut self) {
        let b = &mut self.all;
        let done = b.arrived > 0 && b.arrived + b.gone >= self.threads.len() as u32;
        if let Some(guide) = &mut self.guide {
            guide.arrive(Key::Cluster, false, done);
        }
        if !done {
            return;
        }
        b.phase += 1;
        b.arrived = 0;
        b.gone = b.exited;
        let waiters = std::mem::take(&mut b.waiters);
        self.edge(Race::cluster_done);
        self.timed(Timing::cluster_done);
        for t in waiters {
            self.wake(t, 0);
        }
    }
}
