//! `barrier.cluster`.

use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::race::state::Race;
use crate::trace::timing::Timing;
use crate::types::wait::Wait;
use crate::walk::guide::Guide;
use crate::walk::order::Key;
use std::task::Poll;

/// `barrier.cluster.arrive`
pub(crate) fn arrive(e: &mut Engine, t: u32, release: bool) -> Result<(), Fault> {
    e.hw.all.arrive(t)?;
    e.edge(|race| race.cluster_arrives(t, release));
    e.timed(|time| time.cluster_arrives(t));
    settle(e);
    Ok(())
}

/// `barrier.cluster.wait`
pub(crate) fn wait(e: &mut Engine, t: u32) -> Result<Poll<()>, Fault> {
    e.woken(t);
    if !e.hw.all.wait(t)? {
        e.sleep(t, Wait::Cluster);
        return Ok(Poll::Pending);
    }
    e.guided(Guide::look_cluster);
    e.edge(|race| race.cluster_waited(t));
    let loc = e.hw.thread(t).loc;
    e.timed(|time| time.cluster_waited(t, loc));
    Ok(Poll::Ready(()))
}

/// An exited thread counts as arrived from now on.
pub(crate) fn exit(e: &mut Engine, t: u32) {
    e.hw.all.exit(t);
    e.timed(|time| time.cluster_arrives(t));
    settle(e);
}

fn settle(e: &mut Engine) {
    let waiters = e.hw.all.settle();
    let done = waiters.is_some();
    e.watched(|watcher| watcher.due |= done);
    e.guided(|guide| guide.arrive(Key::Cluster, false, done));
    let Some(waiters) = waiters else { return };
    e.hw.rounds.all_met();
    e.edge(Race::cluster_done);
    e.timed(Timing::cluster_done);
    for t in waiters {
        e.wake(t, 0);
    }
}
