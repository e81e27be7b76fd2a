//! The reading end taken by the role that loads.
mod support;
use support::*;

fn kernel(cta: ThisCta) {
    let (cta, (ring, _stores)) = cta.init();
    cta.specialize(
        |load| {
            let mut arrived = ring.consumer.by(&load);
            arrived.wait().release();
        },
        |_work| {},
    );
}

fn main() {}
