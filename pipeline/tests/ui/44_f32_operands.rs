//! Operands of f32, which wgmma can't multiply as they are.
mod support;
use support::*;

type Floats = (Tile<f32, 64, 32>, Tile<f32, 64, 32>);

fn multiply(group: &Group, slot: FullSlot<Floats, Mma<Work>, Main, Alone>) {
    let (_sum, slot) = Accumulator::<64>::start(group, slot).finish();
    slot.release();
}

fn main() {}
