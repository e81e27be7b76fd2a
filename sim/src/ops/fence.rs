//! Fences. The model orders everything already; who looks for races takes note of them.

use crate::drive::current::look;
use crate::engine::cluster::Engine;
use crate::exec::fence::{memory, note, proxy};
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
}
