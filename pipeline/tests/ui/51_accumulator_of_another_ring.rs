//! The columns of one ring of accumulators are given to the readers of another.
mod support;
use support::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums", Others = "others" }

fn acquire(sums: &mut AccumulatorProducer<2, 64, Sums>) -> EmptyAccumulator<64, Others> {
    sums.acquire()
}

fn main() {}
