//! Weights multiplied twice, while the first batch may still be reading their registers.
mod support;
use support::*;

type Values = FullSlot<(Panel,), Mma<Work>, Main, Alone>;

fn twice(group: &Group, weights: AFragment<bf16, 64>, left: Values, right: Values) {
    let first = Accumulator::<64>::start(group, (weights, left));
    let second = Accumulator::<64>::start(group, (weights, right));
    first.finish().1.release();
    second.finish().1.release();
}

fn main() {}
