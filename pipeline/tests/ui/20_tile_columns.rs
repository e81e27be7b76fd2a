//! A tile whose row is not the span of the swizzle.
mod support;
use support::*;

use warpipe_pipeline::tile::TileShape;
const BYTES: usize = <Tile<bf16, 64, 32> as TileShape>::BYTES;

fn main() {}
