//! Slots whose B has 64 rows, multiplied into an accumulator of 128 columns.
mod support;
use support::*;

fn multiply(group: &Group, slot: MmaSlot) {
    let (_sum, slot) = Accumulator::<128>::start(group, slot).finish();
    slot.release();
}

fn main() {}
