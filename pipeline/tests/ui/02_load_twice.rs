//! Two loads into one acquired slot.
mod support;
use support::*;

fn fill(loads: &mut Loads, from: &TensorMap<Panel>) {
    let slot = loads.acquire();
    slot.load((from.tile(0, 0, Peers::ALONE),));
    slot.load((from.tile(64, 0, Peers::ALONE),));
}

fn main() {}
