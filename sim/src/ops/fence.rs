//! Fences. The model orders everything already; who looks for races takes note of them.

use crate::copy::check::MapPointer;
use crate::drive::current::look;
use crate::engine::cluster::Engine;
use crate::exec::fence::{memory, note, proxy};
use crate::exec::tensormap::{acquire, release};
use crate::race::times::Lane;
use crate::types::scope::Scope;

macro_rules! fences {
    ($($(#[$doc:meta])* $name:ident = $ptx:literal, $edge:expr;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name() {
            look($ptx, 0, None, |e, t| {
                let edge: fn(&mut Engine, u32) = $edge;
                edge(e, t);
                note(e, t, $ptx);
                Ok(())
            });
        }
    )*};
}

fences! {
    /// `fence.proxy.async.shared::cta`
    proxy_async_shared_cta =
        "fence.proxy.async.shared::cta", |e, t| proxy(e, t, &[Lane::Async]);
    /// `fence.proxy.async.global`
    proxy_async_global =
        "fence.proxy.async.global", |e, t| proxy(e, t, &[Lane::AsyncGlobal]);
    /// `fence.proxy.async`
    proxy_async =
        "fence.proxy.async", |e, t| proxy(e, t, &[Lane::Async, Lane::AsyncGlobal]);
    /// `fence.mbarrier_init.release.cluster`
    mbarrier_init_release_cluster =
        "fence.mbarrier_init", |e, t| proxy(e, t, &[Lane::Inits]);
    /// `fence.acq_rel.cta`
    acq_rel_cta = "fence.acq_rel.cta", |e, t| memory(e, t, Scope::Cta);
    /// `fence.acq_rel.cluster`
    acq_rel_cluster = "fence.acq_rel.cluster", |e, t| memory(e, t, Scope::Cluster);
    /// `fence.acq_rel.gpu`
    acq_rel_gpu = "fence.acq_rel.gpu", |e, t| memory(e, t, Scope::Gpu);
    /// `fence.acq_rel.sys`
    acq_rel_sys = "fence.acq_rel.sys", |e, t| memory(e, t, Scope::Gpu);
    /// `fence.sc.cta`
    sc_cta = "fence.sc.cta", |e, t| memory(e, t, Scope::Cta);
    /// `fence.sc.cluster`
    sc_cluster = "fence.sc.cluster", |e, t| memory(e, t, Scope::Cluster);
    /// `fence.sc.gpu`
    sc_gpu = "fence.sc.gpu", |e, t| memory(e, t, Scope::Gpu);
    /// `fence.sc.sys`
    sc_sys = "fence.sc.sys", |e, t| memory(e, t, Scope::Gpu);
    /// `fence.proxy.tensormap::generic.release.cta`
    proxy_tensormap_release_cta = "fence.proxy.tensormap.release.cta", |e, t| release(e, t, Scope::Cta);
    /// `fence.proxy.tensormap::generic.release.cluster`
    proxy_tensormap_release_cluster =
        "fence.proxy.tensormap.release.cluster", |e, t| release(e, t, Scope::Cluster);
    /// `fence.proxy.tensormap::generic.release.gpu`
    proxy_tensormap_release_gpu = "fence.proxy.tensormap.release.gpu", |e, t| release(e, t, Scope::Gpu);
    /// `fence.proxy.tensormap::generic.release.sys`
    proxy_tensormap_release_sys = "fence.proxy.tensormap.release.sys", |e, t| release(e, t, Scope::Gpu);
}

macro_rules! acquires {
    ($($(#[$doc:meta])* $name:ident = $ptx:literal, $scope:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(map: MapPointer) {
            look($ptx, 0, None, |e, t| {
                acquire(e, t, map, Scope::$scope)?;
                note(e, t, $ptx);
                Ok(())
            });
        }
    )*};
}

acquires! {
    /// `fence.proxy.tensormap::generic.acquire.cta`
    proxy_tensormap_acquire_cta = "fence.proxy.tensormap.acquire.cta", Cta;
    /// `fence.proxy.tensormap::generic.acquire.cluster`
    proxy_tensormap_acquire_cluster = "fence.proxy.tensormap.acquire.cluster", Cluster;
    /// `fence.proxy.tensormap::generic.acquire.gpu`
    proxy_tensormap_acquire_gpu = "fence.proxy.tensormap.acquire.gpu", Gpu;
    /// `fence.proxy.tensormap::generic.acquire.sys`
    proxy_tensormap_acquire_sys = "fence.proxy.tensormap.acquire.sys", Gpu;
}
