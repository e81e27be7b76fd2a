//! A load into a slot that was not acquired.
mod support;
use support::*;

fn fill(loads: &mut Loads, from: &TensorMap<Panel>) {
    loads.load((from.tile(0, 0, Peers::ALONE),));
}

fn main() {}
