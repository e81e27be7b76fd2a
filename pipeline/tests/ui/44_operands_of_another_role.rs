//! A product by a role that does not read the rings.
mod support;
use support::*;

fn scores(group: &Warpgroup<Load, Alone>, slot: MmaSlot) -> Accumulator<64> {
    let (scores, slot) = Accumulator::start(group, slot).finish();
    slot.release();
    scores
}

fn main() {}
