//! An accumulator of 60 columns.
mod support;
use support::*;

fn keep(sum: Accumulator<60>) -> [f32; 8] {
    sum.fragment(0)
}

fn main() {}
