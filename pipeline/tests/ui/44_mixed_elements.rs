//! An A of 8-bit floats and a B of bf16, which no instruction multiplies.
mod support;
use float8::F8E4M3;
use support::*;

type Mixed = (Tile<F8E4M3, 64, 128>, Tile<bf16, 64, 128>);

fn multiply(group: &Group, slot: FullSlot<Mixed, Mma<Work>, Main, Alone>) {
    let (_sum, slot) = Accumulator::<64>::start(group, slot).finish();
    slot.release();
}

fn main() {}
