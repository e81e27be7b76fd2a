//! A slot released while a wgmma is reading it.
mod support;
use support::*;

fn multiply(group: &Group, slot: MmaSlot) {
    let sum = Accumulator::<64>::start(group, slot);
    sum.operands.release();
    sum.finish().1.release();
}

fn main() {}
