//! A load of another tile than the slot is made of.
mod support;
use support::*;

fn fill(loads: &mut Loads, from: &TensorMap<Tile<bf16, 32, 64>>) {
    loads.acquire().load((from.tile(0, 0, Peers::ALONE),));
}

fn main() {}
