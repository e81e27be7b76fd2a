//! Values as they lie in memory, [keys, head dim], where the product wants its columns as rows.
mod support;
use support::*;

type Values = FullSlot<(Tile<bf16, 64, 128>,), Mma<Work>, Main, Alone>;

fn weigh(group: &Group, weights: AFragment<bf16, 64>, values: Values) -> Accumulator<128> {
    let (sum, values) = Accumulator::<128>::start(group, (weights, values)).finish();
    values.release();
    sum
}

fn main() {}
