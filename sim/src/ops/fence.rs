//! Fences. The model orders everything already: they are steps, and nothing else.

use crate::current::op;

macro_rules! fences {
    ($($(#[$doc:meta])* $name:ident = $ptx:literal;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name() {
            op($ptx, 0, |_, _| Ok(()));
        }
    )*};
}

fences! {
    /// `fence.proxy.async.shared::cta`
    proxy_async_shared_cta = "fence.proxy.async.shared::cta";
    /// `fence.proxy.async.global`
    proxy_async_global = "fence.proxy.async.global";
    /// `fence.proxy.async`
    proxy_async = "fence.proxy.async";
    /// `fence.mbarrier_init.release.cluster`
    mbarrier_init_release_cluster = "fence.mbarrier_init";
    /// `fence.acq_rel.cta`
    acq_rel_cta = "fence.acq_rel.cta";
    /// `fence.acq_rel.cluster`
    acq_rel_cluster = "fence.acq_rel.cluster";
    /// `fence.acq_rel.gpu`
    acq_rel_gpu = "fence.acq_rel.gpu";
    /// `fence.acq_rel.sys`
    acq_rel_sys = "fence.acq_rel.sys";
    /// `fence.sc.cta`
    sc_cta = "fence.sc.cta";
    /// `fence.sc.cluster`
    sc_cluster = "fence.sc.cluster";
    /// `fence.sc.gpu`
    sc_gpu = "fence.sc.gpu";
    /// `fence.sc.sys`
    sc_sys = "fence.sc.sys";
}
