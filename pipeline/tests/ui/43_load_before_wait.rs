//! Loads issued while the primary grid may still write what they read.
mod support;
use support::*;

fn kernel(cta: ThisCta) {
    let (early, (ring, _stores)) = cta.prologue();
    early.specialize(
        |load| {
            load.elect(|early| {
                let _loads = ring.producer.by(&early);
            });
        },
        |_work| {},
    );
}

fn main() {}
