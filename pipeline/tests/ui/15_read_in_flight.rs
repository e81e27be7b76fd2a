//! Sums read while a wgmma is writing them.
mod support;
use support::*;

fn multiply(group: &Group, slot: MmaSlot) -> [f32; 8] {
    let sum = Accumulator::<64>::start(group, slot);
    sum.fragment(0)
}

fn main() {}
