//! The ends keep their own positions; a copy of one starts at its side's phase.
use crate::support::*;
use super::copies;
use warpipe_pipeline::ring::{ConsumerSide, ProducerSide};

#[test]
fn each_side_has_its_first_phase_and_steps_by_waiting() {
    assert_eq!(PipelineState::<2, ProducerSide>::start().phase(), 1);
    assert_eq!(PipelineState::<2, ConsumerSide>::start().phase(), 0);
    copies(|cta: ThisCta<Plan<1>>, from, to| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| one_thread(load, |one| load_panels(ring.producer, &one, from)),
            |group| store_panels(ring.consumer, stores, &group, to),
        );
    });
}
