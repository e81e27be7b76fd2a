//! The cluster barrier, split into arrive and wait: a CTA can do independent work between the two.
//!
//! Invariant: all threads of all CTAs of the cluster arrive once and wait once, in this order. The barrier counts
//! every thread that has not exited, so a kernel can use it only before the CTA is split into roles. The token of
//! that state is [`Ready`]. Arriving consumes it and waiting returns it: in between, the CTA can neither arrive
//! again nor be split.
//!
//! After the split, the CTAs of a cluster synchronise through mbarriers: a ring with multicast, or a
//! [`Mailbox`](crate::barrier::Mailbox). (CUTLASS `cluster_arrive`, `cluster_arrive_relaxed`, `cluster_wait`.)

use crate::cta::ClusterShape;
use crate::cta::{Ready, Roles};
use isa::device;

impl<R: Roles, Cl: ClusterShape> Ready<R, Cl> {
    /// Arrives at the cluster barrier and releases this thread's writes to all threads that wait there.
    ///
    /// In a cluster of one CTA it does nothing, and [`ClusterArrived::wait`] synchronises the CTA.
    /// (PTX `barrier.cluster.arrive.release.aligned`; CUTLASS `cluster_arrive`.) See the example of
    /// [`ClusterArrived`].
    #[device]
    pub fn cluster_arrive(self) -> ClusterArrived<R, Cl> {
        if Cl::SIZE > 1 {
            // SAFETY: the token says that all threads of the CTA are converged here, and every CTA of the
            // cluster runs the same kernel. Only the wait returns the token.
            unsafe { isa::cluster::arrive_release() }
        }
        ClusterArrived { ready: self }
    }

    /// Arrives at the cluster barrier without releasing any writes.
    ///
    /// It is enough for CTAs that must only know that the others have started. (PTX
    /// `barrier.cluster.arrive.relaxed.aligned`; CUTLASS `cluster_arrive_relaxed`.) See the example of
    /// [`ClusterArrived`].
    #[device]
    pub fn cluster_arrive_relaxed(self) -> ClusterArrived<R, Cl> {
        if Cl::SIZE > 1 {
            // SAFETY: as in `cluster_arrive`.
            unsafe { isa::cluster::arrive_relaxed() }
        }
        ClusterArrived { ready: self }
    }
}

/// The token of a CTA that has arrived at the cluster barrier and has not waited yet.
///
/// (CUTLASS: the code between `cluster_arrive` and `cluster_wait`.)
///
/// ```
/// # use warpipe_pipeline::prelude::*;
/// # use warpipe_pipeline::cta::Ready;
/// # roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// fn sync(cta: Ready<(Load, Math), Cluster<2, 1>>) {
///     let arrived = cta.cluster_arrive();
///     // … work that needs no other CTA …
///     let cta = arrived.wait();
///     cta.specialize(|_load| {}, |_math| {});
/// }
/// ```
#[must_use = "an arrival is followed by `wait`; without it the cluster's next barrier never completes"]
pub struct ClusterArrived<R, Cl> {
    ready: Ready<R, Cl>,
}

impl<R: Roles, Cl: ClusterShape> ClusterArrived<R, Cl> {
    /// Waits until every thread of every CTA of the cluster has arrived, and acquires the writes that they
    /// released.
    ///
    /// (PTX `barrier.cluster.wait.acquire.aligned`, and in a cluster of one CTA `barrier.cta.sync`; CUTLASS
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
