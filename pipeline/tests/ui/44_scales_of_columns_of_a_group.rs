//! The same with swap_ab, where the scale factors belong to columns.
mod support;
use float8::F8E4M3;
use support::*;
use warpipe_pipeline::mma::AlternatingAccumulator;
use warpipe_pipeline::ring::BlockScaledSwapAb;
use warpipe_pipeline::tile::Vector;

type Weights = Tile<F8E4M3, 64, 128>;
type Scaled = BlockScaledSwapAb<Weights, Tile<F8E4M3, 16, 128>, Vector<f32, 32>, 4>;

fn multiply(group: &Group, slot: FullSlot<Scaled, Mma<Work>, Main, Alone>) {
    let _sum = AlternatingAccumulator::<16>::start(group, slot);
}

fn main() {}
