//! The sums of whole k tiles, one of which is still being multiplied.
mod support;
use float8::F8E4M3;
use support::*;
use warpipe_pipeline::mma::{Accumulator, AlternatingAccumulator};

type Operands = (Tile<F8E4M3, 64, 128>, Tile<F8E4M3, 64, 128>);

fn multiply(
    group: &Group,
    one: FullSlot<Operands, Mma<Work>, Main, Alone>,
    two: FullSlot<Operands, Mma<Work>, Main, Alone>,
) -> Accumulator<64> {
    let (sum, slot) = AlternatingAccumulator::<64>::start(group, one).next(two);
    slot.release();
    sum
}

fn main() {}
