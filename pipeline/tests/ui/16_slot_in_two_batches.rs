//! A slot given away while a wgmma holds it.
mod support;
use support::*;

fn multiply(group: &Group, slot: MmaSlot) {
    let mut sum = Accumulator::<64>::start(group, slot);
    sum.next(slot).release();
    sum.finish().1.release();
}

fn main() {}
