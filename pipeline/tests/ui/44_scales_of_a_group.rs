//! Scale factors in a ring of which one thread releases a slot for its warp group: other warps may still read them.
mod support;
use float8::F8E4M3;
use support::*;
use warpipe_pipeline::mma::PromotedAccumulator;
use warpipe_pipeline::ring::BlockScaled;
use warpipe_pipeline::tile::Vector;

type Bytes = Tile<F8E4M3, 64, 128>;
type Scaled = BlockScaled<Bytes, Bytes, Vector<f32, 64>, 1, 64>;

fn multiply(group: &Group, slot: FullSlot<Scaled, Mma<Work>, Main, Alone>) {
    let _sum = PromotedAccumulator::<2, 32>::start(group, slot);
}

fn main() {}
