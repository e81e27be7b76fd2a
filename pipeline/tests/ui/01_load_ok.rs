//! A slot is acquired, or looked at and then acquired, before it is loaded.
use crate::support::*;
use super::copies;

#[test]
fn acquire_then_load() {
    copies(|cta: ThisCta, from, to| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| {
                one_thread(load, |one| {
                    let mut loads = ring.producer.by(&one);
                    for panel in 0..PANELS {
                        let slot = if panel % 2 == 0 {
                            loads.acquire()
                        } else {
                            loads.try_acquire().acquire()
                        };
                        slot.load((from.tile(64 * panel, 0, Peers::ALONE),));
                    }
                    loads.tail();
                });
            },
            |group| store_panels(ring.consumer, stores, &group, to),
        );
    });
}
