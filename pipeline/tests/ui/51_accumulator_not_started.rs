//! An accumulator that nothing was multiplied into is given to its readers.
mod support;
use support::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }

fn give(empty: EmptyAccumulator<64, Sums>) {
    empty.commit();
}

fn main() {}
