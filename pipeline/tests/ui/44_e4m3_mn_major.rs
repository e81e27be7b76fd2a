//! A B of 8-bit floats that lies in memory as [K, N]: wgmma reads only 16-bit types so.
mod support;
use float8::F8E4M3;
use support::*;
use warpipe_pipeline::tile::MnMajor;

type Bytes = (Tile<F8E4M3, 64, 128>, Tile<F8E4M3, 128, 128, MnMajor>);

fn multiply(group: &Group, slot: FullSlot<Bytes, Mma<Work>, Main, Alone>) {
    let (_sum, slot) = Accumulator::<128>::start(group, slot).finish();
    slot.release();
}

fn main() {}
