//! A slot of one tile, multiplied.
mod support;
use support::*;

fn multiply(group: &Group, slot: FullSlot<(Panel,), Mma<Work>, Main, Alone>) {
    let (_sum, slot) = Accumulator::<64>::start(group, slot).finish();
    slot.release();
}

fn main() {}
