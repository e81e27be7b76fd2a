//! A tile whose row is not the span of the swizzle.
mod support;
use support::*;

use warpipe_pipeline::tile::TileShape;
const ROWS: usize = <Tile<bf16, 64, 32> as TileShape>::ROWS;

fn main() {}
