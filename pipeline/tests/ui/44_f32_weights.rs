//! Weights that are not rounded to an operand's type.
mod support;
use support::*;

fn weights(scores: &Accumulator<64>) {
    let _weights = scores.to_a::<f32>();
}

fn main() {}
