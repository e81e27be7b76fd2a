//! The cluster's hardware barrier, split: all CTAs of a cluster meet, and each can do something of
//! its own between arriving and waiting.
//!
//! The barrier counts every thread of every CTA that has not exited, so it can be used only where
//! all of them come by: before the CTA is split into roles. That is what [`Ready`] stands for, and
//! the arrival takes it: until the wait gives it back, the CTA can neither arrive again nor be split.
//! (CUTLASS `cluster_arrive`, `cluster_arrive_relaxed`, `cluster_wait`. Inside roles, CTAs meet
//! through mbarriers: a ring with multicast, or a [`Mailbox`](crate::barrier::Mailbox).)

use crate::cta::ClusterShape;
use crate::cta::{Ready, Roles};
use isa::device;

impl<R: Roles, Cl: ClusterShape> Ready<R, Cl> {
    /// Arrives at the cluster's barrier, and makes what this thread wrote visible to those that
    /// wait: every thread of the cluster's other CTAs, and of this one.
    ///
    /// Signals the cluster's barrier. (PTX `barrier.cluster.arrive.release.aligned`; nothing in a cluster of
    /// one CTA, whose barrier is that of the wait; CUTLASS `cluster_arrive`.) See the example of
    /// [`ClusterArrived`].
    #[device]
    pub fn cluster_arrive(self) -> ClusterArrived<R, Cl> {
        if Cl::SIZE > 1 {
            // SAFETY: the token says that all threads of the CTA are converged here, and every CTA
            // of the cluster runs the same kernel; the token is given back only after the wait.
            unsafe { isa::cluster::arrive_release() }
        }
        ClusterArrived { ready: self }
    }

    /// As [`cluster_arrive`](Self::cluster_arrive), without making anything visible: for CTAs that
    /// only have to know that the others are there.
    ///
    /// Signals the cluster's barrier. (PTX `barrier.cluster.arrive.relaxed.aligned`; CUTLASS
    /// `cluster_arrive_relaxed`.) See the example of [`ClusterArrived`].
    #[device]
    pub fn cluster_arrive_relaxed(self) -> ClusterArrived<R, Cl> {
        if Cl::SIZE > 1 {
            // SAFETY: as in `cluster_arrive`.
            unsafe { isa::cluster::arrive_relaxed() }
        }
        ClusterArrived { ready: self }
    }
}

/// A CTA that has arrived at the cluster's barrier and has not waited yet.
///
/// (CUTLASS none: what is between `cluster_arrive` and `cluster_wait`.)
///
/// ```
/// # use pipeline::prelude::*;
/// # use pipeline::cta::Ready;
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// fn meet(cta: Ready<(Load, Math), Cluster<2, 1>>) {
///     let arrived = cta.cluster_arrive();
///     // … what needs no other CTA …
///     let cta = arrived.wait();
///     cta.specialize(|_load| {}, |_math| {});
/// }
/// ```
#[must_use = "an arrival is followed by `wait`, or the cluster's next meeting never comes"]
pub struct ClusterArrived<R, Cl> {
    ready: Ready<R, Cl>,
}

impl<R: Roles, Cl: ClusterShape> ClusterArrived<R, Cl> {
    /// Waits until every thread of every CTA of the cluster has arrived, and sees what those that
    /// released wrote before.
    ///
    /// (PTX `barrier.cluster.wait.acquire.aligned`; `barrier.cta.sync` in a cluster of one CTA; CUTLASS
    /// `cluster_wait`.) See the example of [`ClusterArrived`].
    #[device]
    pub fn wait(self) -> Ready<R, Cl> {
        // SAFETY: the token inside says that all threads are converged, and that they arrived.
        unsafe {
            if Cl::SIZE > 1 {
                isa::cluster::wait_acquire();
            } else {
                isa::thread::sync_threads();
            }
        }
        self.ready
    }
}
