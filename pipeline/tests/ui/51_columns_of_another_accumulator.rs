//! B has 128 rows, and the accumulator 256 columns.
mod support;
use support::*;
use warpipe_pipeline::tensor::*;

const INSTRUCTION: u32 = <(Tile<bf16, 128, 64>, Tile<bf16, 128, 64>) as UmmaTiles<256>>::INSTRUCTION;

fn main() {}
