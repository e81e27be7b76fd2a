//! A tile prefetched while the primary grid may still write it, and loaded afterwards.
use crate::support::*;
use super::copies;

#[test]
fn prefetched_and_loaded() {
    copies(|cta: ThisCta, from, to| {
        let (early, (ring, stores)) = cta.prologue();
        early.specialize(
            |load| {
                load.elect(|early| {
                    from.tile(0, 0, Peers::ALONE).prefetch(&early);
                    let one = early.wait();
                    load_panels(ring.producer, &one, from);
                    one.launch_dependents();
                });
            },
            |group| store_panels(ring.consumer, stores, &group.wait(), to),
        );
    });
}
