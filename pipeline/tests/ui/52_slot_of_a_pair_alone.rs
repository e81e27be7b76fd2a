//! A slot of a pair of CTAs is multiplied by one CTA alone.
#![allow(unused_imports)]
mod support;
use support::*;
use warpipe_pipeline::cta::*;
use warpipe_pipeline::ring::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }
type Pair = Cluster<2, 1>;
type Half = Tile<bf16, 128, 64>;

fn start(empty: EmptyAccumulator<128, Sums>, slot: UmmaSlot<(Half, Half), Main, TwoSm>) {
    empty.start(slot).commit();
}

fn main() {}
