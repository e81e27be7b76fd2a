//! A slot that tcgen05.mma reads is released by its thread.
mod support;
use support::*;
use warpipe_pipeline::ring::UmmaSlot;

type Slot = UmmaSlot<(Tile<bf16, 128, 64>, Tile<bf16, 64, 64>), Main>;

fn release(slot: Slot) {
    slot.release();
}

fn main() {}
