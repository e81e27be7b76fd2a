//! A block of keys where a block of values belongs.
mod support;
use support::*;

type Block = Tile<bf16, 64, 64>;
type KeySlot = FullSlot<(Block,), Mma<Work>, Main, Alone>;
type ValueSlot = FullSlot<(Block,), Mma<Work>, Other, Alone>;

fn weigh(_group: &Group, _weights: AFragment<bf16, 64>, _values: ValueSlot) {}
fn step(group: &Group, scores: &Accumulator<64>, keys: KeySlot) {
    weigh(group, scores.to_a(), keys);
}

fn main() {}
