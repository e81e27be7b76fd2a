//! Fences: proxy fences, the mbarrier-initialisation fence, and memory fences by scope.
//!
//! PTX manual: *membar / fence*. Proxy and init fences need PTX 8.0, sm_90. A fence orders this thread's
//! accesses before it against those after it. It does not synchronise with other threads; a barrier after
//! the fence does.

macro_rules! fences {
    ($($(#[$meta:meta])* $name:ident = $template:literal;)*) => {
        ops! { fence;
            $($(#[$meta])*
            pub fn $name() {
                ptx!($template)
            })*
        }
    };
}

fences! {
    /// `fence.proxy.async.shared::cta;`: makes ordinary writes to shared memory before it visible to TMA
    /// and wgmma (the asynchronous proxy) after it. Each *writing* thread executes it, then a barrier;
    /// then one thread issues. (CUTLASS `fence_view_async_shared`.)
    proxy_async_shared_cta = "fence.proxy.async.shared::cta;";
    /// `fence.proxy.async.global;`: the same for global memory.
    proxy_async_global = "fence.proxy.async.global;";
    /// `fence.proxy.async;`: the same for all state spaces.
    proxy_async = "fence.proxy.async;";
    /// `fence.mbarrier_init.release.cluster;`: makes this thread's `mbarrier.init`s visible to the cluster
    /// after a following cluster barrier (`arrive_relaxed` suffices). (CUTLASS `fence_barrier_init`.)
    mbarrier_init_release_cluster = "fence.mbarrier_init.release.cluster;";
    /// `fence.acq_rel.cta;`
    acq_rel_cta = "fence.acq_rel.cta;";
    /// `fence.acq_rel.cluster;`
    acq_rel_cluster = "fence.acq_rel.cluster;";
    /// `fence.acq_rel.gpu;`
    acq_rel_gpu = "fence.acq_rel.gpu;";
    /// `fence.acq_rel.sys;`
    acq_rel_sys = "fence.acq_rel.sys;";
    /// `fence.sc.cta;`: sequential consistency, stronger and slower than `acq_rel`.
    sc_cta = "fence.sc.cta;";
    /// `fence.sc.cluster;`
    sc_cluster = "fence.sc.cluster;";
    /// `fence.sc.gpu;`
    sc_gpu = "fence.sc.gpu;";
    /// `fence.sc.sys;`
    sc_sys = "fence.sc.sys;";
}
