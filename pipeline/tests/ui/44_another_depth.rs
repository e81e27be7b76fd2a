//! The weights of 64 keys, multiplied with a block of 128 values.
mod support;
use support::*;

use warpipe_pipeline::tile::MnMajor;
type Values = FullSlot<(Tile<bf16, 64, 128, MnMajor>,), Mma<Work>, Main, Alone>;

fn weigh(group: &Group, weights: AFragment<bf16, 64>, values: Values) {
    Accumulator::<64>::start(group, (weights, values)).finish().1.release();
}

fn main() {}
