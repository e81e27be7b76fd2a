//! A tile whose rows end inside a swizzle atom.
mod support;
use support::*;

use warpipe_pipeline::tile::TileShape;
const BYTES: usize = <Tile<bf16, 60, 64> as TileShape>::BYTES;

fn main() {}
