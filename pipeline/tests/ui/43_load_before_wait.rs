//! Loads issued while the grid ahead may still write what they read.
mod support;
use support::*;

fn kernel(cta: ThisCta) {
    let (early, (ring, _stores)) = cta.prologue();
    early.specialize(
        |load| {
            load.warps(
                |warp| {
                    let Some(early) = warp.elect() else { return };
                    let _loads = ring.producer.by(&early);
                },
                |_| {},
                |_| {},
                |_| {},
            );
        },
        |_work| {},
    );
}

fn main() {}
