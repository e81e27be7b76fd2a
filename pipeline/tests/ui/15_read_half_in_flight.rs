//! The right half read while a wgmma is writing it: the left one alone is finished.
mod support;
use support::*;

fn multiply(group: &Group, slot: MmaSlot) -> [f32; 8] {
    let sum = SplitAccumulator::<32, 32>::start(group, slot).start_right();
    let (left, right) = sum.finish_left();
    let _first_columns = left.fragment(0);
    right.fragment(0)
}

fn main() {}
