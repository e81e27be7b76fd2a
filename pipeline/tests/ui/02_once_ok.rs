//! Each slot is loaded once and released once; the next one comes from the ring.
use crate::support::*;
use super::copies;

#[test]
fn one_slot_a_step() {
    copies(|cta: ThisCta, from, to| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| {
                one_thread(load, |one| {
                    let mut loads = ring.producer.by(&one);
                    for panel in 0..PANELS {
                        let slot = loads.acquire();
                        slot.load((from.tile(64 * panel, 0, Peers::ALONE),));
                    }
                    loads.tail();
                });
            },
            |group| store_panels(ring.consumer, stores, &group, to),
        );
    });
}
