//! Clusters: place, barrier and peers' addresses.

use crate::current::{block, op, peek};

macro_rules! places {
    ($($(#[$doc:meta])* $name:ident = |$c:ident, $t:ident| $v:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name() -> u32 {
            peek(|$c, $t| {
                let $t = &$c.threads[$t as usize];
                let _ = $t;
                $v
            })
        }
    )*};
}

places! {
    /// `%cluster_ctarank`
    cta_rank = |c, t| t.cta as u32;
    /// `%cluster_nctarank`
    num_ctas = |c, t| c.ctas.len() as u32;
    /// `%cluster_ctaid.x`
    ctaid_x = |c, t| c.ctas[t.cta].rank_coord[0];
    /// `%cluster_ctaid.y`
    ctaid_y = |c, t| c.ctas[t.cta].rank_coord[1];
    /// `%cluster_ctaid.z`
    ctaid_z = |c, t| c.ctas[t.cta].rank_coord[2];
    /// `%cluster_nctaid.x`
    nctaid_x = |c, t| c.shape[0];
    /// `%cluster_nctaid.y`
    nctaid_y = |c, t| c.shape[1];
    /// `%cluster_nctaid.z`
    nctaid_z = |c, t| c.shape[2];
    /// `%clusterid.x`
    clusterid_x = |c, t| c.coord[0];
    /// `%clusterid.y`
    clusterid_y = |c, t| c.coord[1];
    /// `%clusterid.z`
    clusterid_z = |c, t| c.coord[2];
    /// `%nclusterid.x`
    nclusterid_x = |c, t| c.grid[0] / c.shape[0];
    /// `%nclusterid.y`
    nclusterid_y = |c, t| c.grid[1] / c.shape[1];
    /// `%nclusterid.z`
    nclusterid_z = |c, t| c.grid[2] / c.shape[2];
}

macro_rules! halves {
    ($($(#[$doc:meta])* $name:ident($aligned:literal, $release:literal) = $ptx:literal;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name() {
            op($ptx, 0, |c, t| {
                if $aligned {
                    c.aligned(t, $ptx)?;
                }
                c.cluster_arrive(t, $release)
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
    block("barrier.cluster.wait", 0, |c, t| {
        if std::mem::take(&mut first) {
            c.aligned(t, "barrier.cluster.wait")?;
        }
        c.cluster_wait(t)
    });
}

/// `mapa.shared::cluster.u32`: on the model the peer's rank + 1 is the address's high byte.
#[track_caller]
pub fn mapa(addr: u32, rank: u32) -> u32 {
    (rank + 1) << 24 | (addr & 0xff_ffff)
}
