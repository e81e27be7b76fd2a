//! Clusters: place, barrier and peers' addresses.

use crate::cluster::ctas::ranked;
use crate::drive::current::{block, op, peek};
use crate::exec::{cluster_barrier, warp};

macro_rules! places {
    ($($(#[$doc:meta])* $name:ident = |$hw:ident, $t:ident| $v:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name() -> u32 {
            peek(|e, t| {
                let ($hw, $t) = (&e.hw, e.hw.thread(t));
                let _ = ($hw, $t);
                $v
            })
        }
    )*};
}

places! {
    /// `%cluster_ctarank`
    cta_rank = |hw, t| t.cta as u32;
    /// `%cluster_nctarank`
    num_ctas = |hw, t| hw.ctas.len() as u32;
    /// `%cluster_ctaid.x`
    ctaid_x = |hw, t| hw.ctas.get(t.cta).rank_coord[0];
    /// `%cluster_ctaid.y`
    ctaid_y = |hw, t| hw.ctas.get(t.cta).rank_coord[1];
    /// `%cluster_ctaid.z`
    ctaid_z = |hw, t| hw.ctas.get(t.cta).rank_coord[2];
    /// `%cluster_nctaid.x`
    nctaid_x = |hw, t| hw.shape.cluster[0];
    /// `%cluster_nctaid.y`
    nctaid_y = |hw, t| hw.shape.cluster[1];
    /// `%cluster_nctaid.z`
    nctaid_z = |hw, t| hw.shape.cluster[2];
    /// `%clusterid.x`
    clusterid_x = |hw, t| hw.shape.coord[0];
    /// `%clusterid.y`
    clusterid_y = |hw, t| hw.shape.coord[1];
    /// `%clusterid.z`
    clusterid_z = |hw, t| hw.shape.coord[2];
    /// `%nclusterid.x`
    nclusterid_x = |hw, t| hw.shape.grid[0] / hw.shape.cluster[0];
    /// `%nclusterid.y`
    nclusterid_y = |hw, t| hw.shape.grid[1] / hw.shape.cluster[1];
    /// `%nclusterid.z`
    nclusterid_z = |hw, t| hw.shape.grid[2] / hw.shape.cluster[2];
}

macro_rules! halves {
    ($($(#[$doc:meta])* $name:ident($aligned:literal, $release:literal) = $ptx:literal;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name() {
            op($ptx, 0, |e, t| {
                if $aligned {
                    warp::aligned(e, t, $ptx)?;
                }
                cluster_barrier::arrive(e, t, $release)
            });
        }
    )*};
}

halves! {
    /// `barrier.cluster.arrive.release.aligned`
    arrive_release(true, true) = "barrier.cluster.arrive";
    /// `barrier.cluster.arrive.relaxed.aligned`
    arrive_relaxed(true, false) = "barrier.cluster.arrive.relaxed";
    /// `barrier.cluster.arrive.release`
    arrive_release_unaligned(false, true) = "barrier.cluster.arrive";
    /// `barrier.cluster.arrive.relaxed`
    arrive_relaxed_unaligned(false, false) = "barrier.cluster.arrive.relaxed";
}

/// `barrier.cluster.wait.acquire.aligned`
#[track_caller]
pub fn wait_acquire() {
    wait(true);
}

/// `barrier.cluster.wait.acquire`
#[track_caller]
pub fn wait_acquire_unaligned() {
    wait(false);
}

#[track_caller]
fn wait(aligned: bool) {
    let mut first = aligned;
    block("barrier.cluster.wait", 0, |e, t| {
        if std::mem::take(&mut first) {
            warp::aligned(e, t, "barrier.cluster.wait")?;
        }
        cluster_barrier::wait(e, t)
    });
}

/// `mapa.shared::cluster.u32`: on the model the peer's rank + 1 is the address's high byte.
#[track_caller]
pub fn mapa(addr: u32, rank: u32) -> u32 {
    ranked(addr, rank)
}
