//! Fences: proxy fences, the mbarrier-initialisation fence, and memory fences by scope.
//!
//! PTX manual: *membar / fence*. Proxy and init fences need PTX 8.0, sm_90. A fence orders this thread's
//! accesses before it against those after it. It does not synchronise with other threads; a barrier after
//! the fence does.
//!
//! The fences of the tensormap proxy (PTX 8.3) stand between a change of a tensor map in global memory and the
//! TMA instructions that use it: a release after the change, synchronisation, then an acquire of the map's
//! address in each CTA that uses it ([`crate::tensormap`]).

use crate::cp_async_bulk::TensorMapBytes;
use crate::device;

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
    /// `fence.proxy.tensormap::generic.release.cta;`: releases this thread's changes of tensor maps before it to the
    /// tensormap proxy of the CTA. (CUTLASS `tma_descriptor_fence_release`.)
    proxy_tensormap_release_cta = "fence.proxy.tensormap::generic.release.cta;";
    /// `fence.proxy.tensormap::generic.release.cluster;`: the same for the cluster.
    proxy_tensormap_release_cluster = "fence.proxy.tensormap::generic.release.cluster;";
    /// `fence.proxy.tensormap::generic.release.gpu;`: the same for the GPU.
    proxy_tensormap_release_gpu = "fence.proxy.tensormap::generic.release.gpu;";
    /// `fence.proxy.tensormap::generic.release.sys;`: the same for the system.
    proxy_tensormap_release_sys = "fence.proxy.tensormap::generic.release.sys;";
}

macro_rules! acquires {
    ($($(#[$meta:meta])* $name:ident = $template:literal;)*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// `map` is the address of a tensor map in global memory.
        #[device]
        pub unsafe fn $name(map: *const TensorMapBytes) {
            #[cfg(target_arch = "nvptx64")]
            ptx!($template, in(reg64) map);
            #[cfg(not(target_arch = "nvptx64"))]
            sim::ops::fence::$name(map.cast::<[u64; 16]>());
        }
    )*};
}

acquires! {
    /// `fence.proxy.tensormap::generic.acquire.cta [map], 128;`: acquires the changes of a map that threads of the
    /// CTA released, for TMA instructions after it. (CUTLASS `tma_descriptor_fence_acquire`.)
    proxy_tensormap_acquire_cta = "fence.proxy.tensormap::generic.acquire.cta [{}], 128;";
    /// `fence.proxy.tensormap::generic.acquire.cluster [map], 128;`: the same for changes by threads of the cluster.
    proxy_tensormap_acquire_cluster = "fence.proxy.tensormap::generic.acquire.cluster [{}], 128;";
    /// `fence.proxy.tensormap::generic.acquire.gpu [map], 128;`: the same for changes by threads of the GPU.
    proxy_tensormap_acquire_gpu = "fence.proxy.tensormap::generic.acquire.gpu [{}], 128;";
    /// `fence.proxy.tensormap::generic.acquire.sys [map], 128;`: the same for changes by threads of the system.
    proxy_tensormap_acquire_sys = "fence.proxy.tensormap::generic.acquire.sys [{}], 128;";
}
