//! A slot is multiplied into two accumulators: the first commit releases it.
mod support;
use support::*;
use warpipe_pipeline::ring::UmmaSlot;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }
type Slot = UmmaSlot<(Tile<bf16, 128, 64>, Tile<bf16, 64, 64>), Main>;

fn twice(one: EmptyAccumulator<64, Sums>, other: EmptyAccumulator<64, Sums>, slot: Slot) {
    one.start(slot).commit();
    other.start(slot).commit();
}

fn main() {}
