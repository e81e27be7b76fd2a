//! Thread block clusters: ranks and sizes, the cluster-wide barrier, addresses of peers' shared memory.
//!
//! PTX manual: *Special Registers* (`%cluster_*`, `%clusterid`), *Parallel Synchronization and
//! Communication* (`barrier.cluster`), *Data Movement* (`mapa`). PTX 7.8 (registers, `mapa`,
//! barrier), 8.0 (`.relaxed`); sm_90.
//!
//! The barrier is split into arrive and wait. A thread's writes before `arrive_release` are visible to
//! every thread of the cluster after its `wait_acquire`. `arrive_relaxed` does not order memory; it is for
//! code that only needs to know that its peers have arrived (for example after
//! [`crate::fence::mbarrier_init_release_cluster`]).

macro_rules! place {
    ($($(#[$meta:meta])* $name:ident = $template:literal;)*) => {
        ops! { cluster;
            $($(#[$meta])*
            pub fn $name() -> u32 {
                let out: u32;
                ptx_pure!($template, out(reg32) out);
                out
            })*
        }
    };
}

place! {
    /// `%cluster_ctarank`: the CTA's rank in its cluster.
    cta_rank = "mov.u32 {}, %cluster_ctarank;";
    /// `%cluster_nctarank`: CTAs of the cluster.
    num_ctas = "mov.u32 {}, %cluster_nctarank;";
    /// `%cluster_ctaid.x`: the CTA's x index in its cluster.
    ctaid_x = "mov.u32 {}, %cluster_ctaid.x;";
    /// `%cluster_ctaid.y`.
    ctaid_y = "mov.u32 {}, %cluster_ctaid.y;";
    /// `%cluster_ctaid.z`.
    ctaid_z = "mov.u32 {}, %cluster_ctaid.z;";
    /// `%cluster_nctaid.x`: CTAs of the cluster along x.
    nctaid_x = "mov.u32 {}, %cluster_nctaid.x;";
    /// `%cluster_nctaid.y`.
    nctaid_y = "mov.u32 {}, %cluster_nctaid.y;";
    /// `%cluster_nctaid.z`.
    nctaid_z = "mov.u32 {}, %cluster_nctaid.z;";
    /// `%clusterid.x`: the cluster's x index in the grid.
    clusterid_x = "mov.u32 {}, %clusterid.x;";
    /// `%clusterid.y`.
    clusterid_y = "mov.u32 {}, %clusterid.y;";
    /// `%clusterid.z`.
    clusterid_z = "mov.u32 {}, %clusterid.z;";
    /// `%nclusterid.x`: clusters of the grid along x.
    nclusterid_x = "mov.u32 {}, %nclusterid.x;";
    /// `%nclusterid.y`.
    nclusterid_y = "mov.u32 {}, %nclusterid.y;";
    /// `%nclusterid.z`.
    nclusterid_z = "mov.u32 {}, %nclusterid.z;";
}

ops! { cluster;
    /// `barrier.cluster.arrive.release.aligned;`
    ///
    /// # Safety
    /// Every thread of the cluster arrives once and then waits; the warp is convergent.
    pub unsafe fn arrive_release() {
        ptx!("barrier.cluster.arrive.release.aligned;")
    }
    /// `barrier.cluster.arrive.relaxed.aligned;`
    ///
    /// # Safety
    /// Every thread of the cluster arrives once and then waits; the warp is convergent.
    pub unsafe fn arrive_relaxed() {
        ptx!("barrier.cluster.arrive.relaxed.aligned;")
    }
    /// `barrier.cluster.wait.acquire.aligned;`: waits for the arrivals of all threads of the
    /// cluster.
    ///
    /// # Safety
    /// The thread has arrived, and has not waited since; the warp is convergent.
    pub unsafe fn wait_acquire() {
        trace!({ ptx!("barrier.cluster.wait.acquire.aligned;"); } is ClusterWait);
    }
    /// `barrier.cluster.arrive.release;`
    ///
    /// # Safety
    /// Every thread of the cluster arrives once and then waits.
    pub unsafe fn arrive_release_unaligned() {
        ptx!("barrier.cluster.arrive.release;")
    }
    /// `barrier.cluster.arrive.relaxed;`
    ///
    /// # Safety
    /// Every thread of the cluster arrives once and then waits.
    pub unsafe fn arrive_relaxed_unaligned() {
        ptx!("barrier.cluster.arrive.relaxed;")
    }
    /// `barrier.cluster.wait.acquire;`
    ///
    /// # Safety
    /// The thread has arrived, and has not waited since.
    pub unsafe fn wait_acquire_unaligned() {
        ptx!("barrier.cluster.wait.acquire;")
    }
    /// `mapa.shared::cluster.u32`: the shared::cluster address of `addr` in CTA `rank`. The result for a
    /// rank outside of the cluster must not be used.
    pub fn mapa(addr: u32, rank: u32) -> u32 {
        let out: u32;
        ptx_pure!(
            "mapa.shared::cluster.u32 {}, {}, {};",
            out(reg32) out, in(reg32) addr, in(reg32) rank
        );
        out
    }
}
