//! An accumulator that nobody gives to its readers.
#![deny(unused_must_use)]
mod support;
use support::*;
use warpipe_pipeline::ring::UmmaSlot;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }

fn start(empty: EmptyAccumulator<64, Sums>, slot: UmmaSlot<(Tile<bf16, 128, 64>, Tile<bf16, 64, 64>), Main>) {
    empty.start(slot);
}

fn main() {}
