//! A tile brought nearer while the grid ahead may still write, and loaded afterwards.
use crate::support::*;
use crate::copies;

#[test]
fn prefetched_and_loaded() {
    copies(Plan::<2>::BYTES, |cta, from, to| {
        let early = Plan::<2>::prologue(cta);
        early.by_one(|one| from.tile(0, 0, Peers::ALONE).prefetch(one));
        let (cta, (ring, stores)) = early.wait();
        cta.specialize(
            |load| {
                one_thread(load, |one| {
                    load_panels(ring.producer, &one, from);
                    one.launch_dependents();
                });
            },
            |group| store_panels(ring.consumer, stores, &group, to),
        );
    });
}
