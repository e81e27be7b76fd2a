//! Each CTA of a pair loads for itself: the thread that multiplies would wait for its own half alone.
#![allow(unused_imports)]
mod support;
use support::*;
use warpipe_pipeline::cta::*;
use warpipe_pipeline::ring::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }
type Pair = Cluster<2, 1>;
type Half = Tile<bf16, 128, 64>;

type Slots = Ring<2, (Half, Half), Tma, Umma<Work, TwoSm>, Main, Pair>;
const BYTES: u32 = SmemPlan::<(Slots,)>::BYTES;

fn main() {}
