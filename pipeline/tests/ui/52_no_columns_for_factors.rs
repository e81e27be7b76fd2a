//! A pair multiplies slots with block scales, and its ring of accumulators has no columns of tensor memory for them.
#![allow(unused_imports)]
mod support;
use support::*;
use warpipe_pipeline::cta::*;
use warpipe_pipeline::ring::*;
use warpipe_pipeline::tensor::*;
use warpipe_pipeline::tile::ScaleBlocks;

names! { Sums = "sums" }
type A = Tile<F8E4M3, 128, 128>;
type Half = Tile<F8E4M3, 64, 128>;
type Factors = ScaleBlocks<isa::tcgen05::Ue8m0, 1>;

fn start(
    empty: EmptyAccumulator<128, Sums, TwoSm>,
    slot: UmmaSlot<(A, Half, Factors, Factors), Main, TwoSm>,
) {
    empty.start(slot).commit();
}

fn main() {}
