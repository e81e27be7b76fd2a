//! Fences. The model orders everything already; who looks for races takes note of them.

use crate::cluster::Cluster;
use crate::current::op;
use crate::race::clock::Lane;
use crate::race::sync::Scope;

fn proxy(c: &mut Cluster, t: u32, lanes: &[Lane]) {
    c.edge(|race| race.fence(t, lanes));
}

macro_rules! fences {
    ($($(#[$doc:meta])* $name:ident = $ptx:literal, $edge:expr;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name() {
            op($ptx, 0, |c, t| {
                let edge: fn(&mut Cluster, u32) = $edge;
                edge(c, t);
                let loc = c.threads[t as usize].loc;
                c.timed(|time| time.fence(t, loc, $ptx));
                Ok(())
            });
        }
    )*};
}

fences! {
    /// `fence.proxy.async.shared::cta`
    proxy_async_shared_cta =
        "fence.proxy.async.shared::cta", |c, t| proxy(c, t, &[Lane::Async]);
    /// `fence.proxy.async.global`
    proxy_async_global =
        "fence.proxy.async.global", |c, t| proxy(c, t, &[Lane::AsyncGlobal]);
    /// `fence.proxy.async`
    proxy_async =
        "fence.proxy.async", |c, t| proxy(c, t, &[Lane::Async, Lane::AsyncGlobal]);
    /// `fence.mbarrier_init.release.cluster`
    mbarrier_init_release_cluster =
        "fence.mbarrier_init", |c, t| proxy(c, t, &[Lane::Inits]);
    /// `fence.acq_rel.cta`
    acq_rel_cta = "fence.acq_rel.cta", |c, t| c.race_fence(t, Scope::Cta);
    /// `fence.acq_rel.cluster`
    acq_rel_cluster = "fence.acq_rel.cluster", |c, t| c.race_fence(t, Scope::Cluster);
    /// `fence.acq_rel.gpu`
    acq_rel_gpu = "fence.acq_rel.gpu", |c, t| c.race_fence(t, Scope::Gpu);
    /// `fence.acq_rel.sys`
    acq_rel_sys = "fence.acq_rel.sys", |c, t| c.race_fence(t, Scope::Gpu);
    /// `fence.sc.cta`
    sc_cta = "fence.sc.cta", |c, t| c.race_fence(t, Scope::Cta);
    /// `fence.sc.cluster`
    sc_cluster = "fence.sc.cluster", |c, t| c.race_fence(t, Scope::Cluster);
    /// `fence.sc.gpu`
    sc_gpu = "fence.sc.gpu", |c, t| c.race_fence(t, Scope::Gpu);
    /// `fence.sc.sys`
    sc_sys = "fence.sc.sys", |c, t| c.race_fence(t, Scope::Gpu);
}
