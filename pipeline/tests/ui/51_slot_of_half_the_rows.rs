//! A tile of A with 64 rows: wgmma has 64 a warp group, an accumulator in tensor memory has 128.
mod support;
use support::*;
use warpipe_pipeline::tensor::*;

const INSTRUCTION: u32 = <(Tile<bf16, 64, 64>, Tile<bf16, 256, 64>) as UmmaTiles<256>>::INSTRUCTION;

fn main() {}
