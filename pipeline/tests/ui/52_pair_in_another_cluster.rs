//! A pair of CTAs in a cluster of four.
#![allow(unused_imports)]
mod support;
use support::*;
use warpipe_pipeline::cta::*;
use warpipe_pipeline::ring::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }
type Pair = Cluster<2, 1>;
type Half = Tile<bf16, 128, 64>;

type Slots = Ring<2, (Half, Half), Tma2Sm, Umma<Work, TwoSm>, Main, Cluster<4, 1>>;
const BYTES: u32 = SmemPlan::<(Slots,)>::BYTES;

fn main() {}
