//! Any thread of either CTA multiplies for the pair.
#![allow(unused_imports)]
mod support;
use support::*;
use warpipe_pipeline::cta::*;
use warpipe_pipeline::ring::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }
type Pair = Cluster<2, 1>;
type Half = Tile<bf16, 128, 64>;

fn multiply(one: &Elected<Work, Pair>, end: ConsumerEnd<2, (Half, Half), Umma<Work, TwoSm>, Main, Pair>) {
    let _operands = end.by_one(one);
}

fn main() {}
