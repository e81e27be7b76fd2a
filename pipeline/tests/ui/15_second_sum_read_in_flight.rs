//! Two batches in flight: the first one's end read as the end of both.
mod support;
use support::*;

fn step(group: &Group, first: MmaSlot, sum: Accumulator<64>, second: MmaSlot) -> [f32; 8] {
    let scores = Accumulator::<64>::start(group, first);
    let (scores, sum) = scores.then_add(sum, second);
    scores.finish().1.release();
    sum.fragment(0)
}

fn main() {}
