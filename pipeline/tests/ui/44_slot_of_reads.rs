//! wgmma multiplies a slot that its ring's readers read with ordinary loads.
mod support;
use support::*;

fn multiply(group: &Group, slot: FullSlot<Operands, Reads<Work>, Main, Alone>) {
    let (_sum, slot) = Accumulator::<64>::start(group, slot).finish();
    slot.release();
}

fn main() {}
