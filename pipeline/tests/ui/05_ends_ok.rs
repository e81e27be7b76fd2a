//! Each end goes to one role: the one that fills, and the one that the ring names as reader.
use crate::support::*;
use super::copies;

#[test]
fn each_role_takes_its_end() {
    copies(|cta: ThisCta, from, to| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| one_thread(load, |one| load_panels(ring.producer, &one, from)),
            |group| store_panels(ring.consumer, stores, &group, to),
        );
    });
}
