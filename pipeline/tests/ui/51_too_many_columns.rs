//! Three accumulators of 256 columns, and tensor memory has 512.
mod support;
use support::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }

const COLUMNS: u32 = TensorAccumulators::<3, 256, Work, Sums>::COLUMNS;

fn main() {}
