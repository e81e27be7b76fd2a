//! A plan is initialised once, first of all; only then are there ends.
use crate::support::*;
use super::copies;

#[test]
fn init_then_roles() {
    copies(|cta: ThisCta, from, to| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| one_thread(load, |one| load_panels(ring.producer, &one, from)),
            |group| store_panels(ring.consumer, stores, &group, to),
        );
    });
}
