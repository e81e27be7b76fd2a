//! The warp group that loads takes the accumulators of the one that stores.
mod support;
use support::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }

fn read(sums: AccumulatorReaderEnd<2, 64, Work, Sums>, group: &Warpgroup<Load, Alone>) {
    let _reader = sums.by(group);
}

fn main() {}
