//! A full accumulator that nobody reads and releases.
#![deny(unused_must_use)]
mod support;
use support::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }

fn skip(sums: AccumulatorReaderEnd<2, 64, Work, Sums>, group: &Group) {
    let mut sums = sums.by(group);
    sums.wait();
}

fn main() {}
