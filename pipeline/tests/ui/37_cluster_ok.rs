//! A barrier that peers reach has the scope of the cluster; each CTA waits on its own.
use crate::support::*;
use crate::common::run;
use warpipe_pipeline::raw::{Arrivals, Barriers, Cluster as OfCluster};
use sim::GlobalMemory;

type Pair = Cluster<2, 1>;
type PairPlan = SmemPlan<(Barriers<1, 1, OfCluster, Arrivals, Raw>,)>;

#[test]
fn each_cta_waits_for_its_peer() {
    for seed in 0..4 {
        let memory = GlobalMemory::new();
        run(seed, &memory, |cta: Cta<(Load, Work), Pair, PairPlan>| {
            let (cta, (raw,)) = cta.init();
            cta.specialize(
                |load| {
                    let peer = 1 - load.coord().rank();
                    load.elect(|_one| {
                        // SAFETY: the peer's one thread arrives once; each CTA waits for that
                        // arrival, in the only phase, before it exits.
                        let [here] = unsafe { raw.handles() };
                        here.remote(peer).arrive();
                        here.wait(0);
                    });
                },
                |_work| {},
            );
        })
        .unwrap_or_else(|report| panic!("seed {seed}:\n{report}"));
    }
}
