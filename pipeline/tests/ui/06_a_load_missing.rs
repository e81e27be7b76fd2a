//! A slot of two tiles that gets one load.
mod support;
use support::*;

fn fill(loads: &mut Producer<2, Operands, Main>, a: &TensorMap<Panel>) {
    loads.acquire().load((a.tile(0, 0, Peers::ALONE),));
}

fn main() {}
