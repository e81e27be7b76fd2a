//! Tensor maps of the tiles that the kernel moves.
use crate::support::*;
use super::copies;

#[test]
fn maps_of_the_tiles() {
    copies(|cta: ThisCta, from, to| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| one_thread(load, |one| load_panels(ring.producer, &one, from)),
            |group| store_panels(ring.consumer, stores, &group, to),
        );
    });
}
