//! One end taken by two roles.
mod support;
use support::*;

fn kernel(cta: ThisCta, from: &TensorMap<Panel>) {
    let (cta, (ring, _stores)) = cta.init();
    cta.specialize(
        |load| one_thread(load, |one| load_panels(ring.producer, &one, from)),
        |_work| drop(ring.producer),
    );
}

fn main() {}
