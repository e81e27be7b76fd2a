//! Each CTA of a pair has all columns of B.
#![allow(unused_imports)]
mod support;
use support::*;
use warpipe_pipeline::cta::*;
use warpipe_pipeline::ring::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }
type Pair = Cluster<2, 1>;
type Half = Tile<bf16, 128, 64>;

const INSTRUCTION: u32 = <(Half, Tile<bf16, 256, 64>) as UmmaTiles<256, TwoSm>>::INSTRUCTION;

fn main() {}
