//! A sum rescaled while a batch adds to it.
mod support;
use support::*;

fn step(group: &Group, first: MmaSlot, mut sum: Accumulator<64>, second: MmaSlot) {
    let scores = Accumulator::<64>::start(group, first);
    let (scores, values) = scores.then_add(sum, second);
    let (scores, slot) = scores.finish();
    slot.release();
    let max = group.row_max(scores.row_max());
    sum.map_rows(max, |x, max| x * max);
    values.finish().1.release();
}

fn main() {}
