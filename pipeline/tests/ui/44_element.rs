//! A tile of 8-bit elements.
mod support;
use support::*;

fn load(from: &TensorMap<Tile<u8, 64, 128>>, slot: EmptySlot<(Tile<u8, 64, 128>,), Main>) {
    slot.load((from.tile(0, 0, Peers::ALONE),));
}

fn main() {}
