//! tcgen05.mma of kind f16 can't multiply f32.
mod support;
use support::*;
use warpipe_pipeline::ring::UmmaSlot;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }

fn start(empty: EmptyAccumulator<64, Sums>, slot: UmmaSlot<(Tile<f32, 128, 32>, Tile<f32, 64, 32>), Main>) {
    empty.start(slot).commit();
}

fn main() {}
