//! One stage is the least; as many as fit are allowed, in any number.
use crate::support::*;
use super::copies;

fn with<const STAGES: usize>() {
    copies(|cta: ThisCta<Plan<STAGES>>, from, to| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| one_thread(load, |one| load_panels(ring.producer, &one, from)),
            |group| store_panels(ring.consumer, stores, &group, to),
        );
    });
}

#[test]
fn from_one_stage_up() {
    with::<1>();
    with::<5>();
    with::<25>();
}
