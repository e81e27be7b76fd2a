//! Queries released while a batch multiplies them with keys.
mod support;
use support::*;

type Queries = RetiredSlot<(Panel,), Mma<Work>, Main, Alone>;
type Keys = FullSlot<(Panel,), Mma<Work>, Other, Alone>;

fn scores(group: &Group, queries: Queries, keys: Keys) {
    let scores = Accumulator::<64>::start(group, (queries.keep(), keys));
    queries.release();
    scores.finish().1.1.release();
}

fn main() {}
