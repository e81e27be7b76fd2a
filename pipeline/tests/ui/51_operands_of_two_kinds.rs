//! tcgen05.mma has no kind that multiplies 8-bit floats by bf16.
mod support;
use support::*;
use warpipe_pipeline::ring::UmmaSlot;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }

fn start(empty: EmptyAccumulator<64, Sums>, slot: UmmaSlot<(Tile<F8E4M3, 128, 64>, Tile<bf16, 64, 64>), Main>) {
    empty.start(slot).commit();
}

fn main() {}
