//! Two warp groups would read the accumulators, whose 128 rows are those of four warps.
mod support;
use support::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }

const COLUMNS: u32 = TensorAccumulators::<2, 256, Pair, Sums>::COLUMNS;

fn main() {}
