//! A load through a tensor map of another element type.
mod support;
use support::*;

fn fill(loads: &mut Loads, from: &TensorMap<Tile<half::f16, 64, 64>>) {
    loads.acquire().load((from.tile(0, 0, Peers::ALONE),));
}

fn main() {}
