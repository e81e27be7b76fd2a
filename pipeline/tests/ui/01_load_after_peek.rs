//! A load into a slot that was only looked at.
mod support;
use support::*;

fn fill(loads: &mut Loads, from: &TensorMap<Panel>) {
    let slot = loads.try_acquire();
    if slot.ready() {
        slot.load((from.tile(0, 0, Peers::ALONE),));
    }
}

fn main() {}
