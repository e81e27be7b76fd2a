//! Each kind of barrier with its own verbs: an mbarrier has phases and bytes, a named one has threads.
use crate::support::*;
use super::copies;
use warpipe_pipeline::raw::{Arrivals, Barriers, Cta as OfCta};

type BothPlan = SmemPlan<(
    PanelRing,
    Buffers,
    Barriers<1, 1, OfCta, Arrivals, Raw>,
    NamedBarrier<warpipe_pipeline::barrier::Nobody, Work, Meet>,
)>;

#[test]
fn an_mbarrier_and_a_named_barrier_in_one_kernel() {
    copies(|cta: ThisCta<BothPlan>, from, to| {
        let (cta, (ring, stores, raw, meet)) = cta.init();
        cta.specialize(
            |load| {
                one_thread(load, |one| {
                    // SAFETY: one arrival, here, in the only phase; all waits are for that phase.
                    let [started] = unsafe { raw.handles() };
                    started.arrive();
                    load_panels(ring.producer, &one, from);
                });
            },
            |group| {
                // SAFETY: as above.
                let [started] = unsafe { raw.handles() };
                started.wait(0);
                meet.waiter.sync(&group);
                store_panels(ring.consumer, stores, &group, to);
            },
        );
    });
}
