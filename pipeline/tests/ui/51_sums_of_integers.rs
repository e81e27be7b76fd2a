//! The accumulators are f32, and the sums of 8-bit integers are not.
mod support;
use support::*;
use warpipe_pipeline::ring::UmmaSlot;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }

fn start(empty: EmptyAccumulator<64, Sums>, slot: UmmaSlot<(Tile<i8, 128, 128>, Tile<i8, 64, 128>), Main>) {
    empty.start(slot).commit();
}

fn main() {}
