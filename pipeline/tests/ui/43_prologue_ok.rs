//! A tile brought nearer while the grid ahead may still write, and loaded afterwards.
use crate::support::*;
use super::copies;

#[test]
fn prefetched_and_loaded() {
    copies(Plan::<2>::BYTES, |cta, from, to| {
        let (early, (ring, stores)) = Plan::<2>::prologue(cta);
        early.specialize(
            |load| {
                load.warps(
                    |warp| {
                        let Some(early) = warp.elect() else { return };
                        from.tile(0, 0, Peers::ALONE).prefetch(&early);
                        let one = early.wait();
                        load_panels(ring.producer, &one, from);
                        one.launch_dependents();
                    },
                    |_| {},
                    |_| {},
                    |_| {},
                );
            },
            |group| store_panels(ring.consumer, stores, &group.wait(), to),
        );
    });
}
