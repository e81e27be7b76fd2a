//! Each arrival at the cluster's barrier has its wait, and roles start after the last one.
use crate::common::run;
use crate::support::*;
use sim::GlobalMemory;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

type Pair = Cluster<2, 1>;
type PairPlan = SmemPlan<(LoadOrderBarrier<Order>,)>;
const MEETINGS: u32 = 3;

#[test]
fn nobody_goes_on_alone() {
    for (seed, relaxed) in (0..6).flat_map(|seed| [(seed, false), (seed, true)]) {
        let came = AtomicU32::new(0);
        run(seed, &GlobalMemory::new(), |cta: Cta<(Load, Work), Pair, PairPlan>| {
            let (mut cta, _ends) = cta.init();
            for meeting in 1..=MEETINGS {
                came.fetch_add(1, SeqCst);
                let arrived =
                    if relaxed { cta.cluster_arrive_relaxed() } else { cta.cluster_arrive() };
                cta = arrived.wait();
                let all = 2 * 256 * meeting;
                assert!(came.load(SeqCst) >= all, "meeting {meeting} without everybody");
            }
            cta.specialize(|_load| {}, |_work| {});
        })
        .unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
        assert_eq!(came.into_inner(), 2 * 256 * MEETINGS);
    }
}
