//! An accumulator is read after its release.
mod support;
use support::*;
use warpipe_pipeline::tensor::*;

names! { Sums = "sums" }

fn read(full: FullAccumulator<'_, 64, Work, Sums, Alone>) {
    full.release();
    let _strip = full.strip(0);
}

fn main() {}
