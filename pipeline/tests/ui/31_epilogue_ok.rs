//! The epilogue has buffers of its own in the plan; the ring keeps its slots.
use crate::support::*;
use super::copies;

#[test]
fn buffers_beside_the_ring() {
    copies(|cta: ThisCta, from, to| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| one_thread(load, |one| load_panels(ring.producer, &one, from)),
            |group| store_panels(ring.consumer, stores, &group, to),
        );
    });
}
