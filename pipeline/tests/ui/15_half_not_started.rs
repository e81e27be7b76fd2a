//! The next slot multiplied before the first one's right half is.
mod support;
use support::*;

fn multiply(group: &Group, first: MmaSlot, second: MmaSlot) {
    let mut sum = SplitAccumulator::<32, 32>::start(group, first);
    sum.next(second).release();
}

fn main() {}
