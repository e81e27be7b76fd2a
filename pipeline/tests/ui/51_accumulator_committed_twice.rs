//! An accumulator is given to its readers twice.
mod support;
use support::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }

fn give(sum: TensorSum<64, Sums>) {
    sum.commit();
    sum.commit();
}

fn main() {}
