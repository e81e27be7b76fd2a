//! A slot of one ring given to the sum over another.
mod support;
use support::*;

fn multiply(group: &Group, of_main: MmaSlot<Main>, of_other: MmaSlot<Other>) {
    let mut sum = Accumulator::<64>::start(group, of_main);
    sum.next(of_other).release();
    sum.finish().1.release();
}

fn main() {}
