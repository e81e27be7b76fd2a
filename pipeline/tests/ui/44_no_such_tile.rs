//! A third tile is put into a slot of two.
mod support;
use support::*;

type Slot<'g> = warpipe_pipeline::ring::WriteSlot<'g, Operands, Load, Mma<Work>, Main, Alone>;

fn fill(mut slot: Slot<'_>) {
    slot.put_to::<0>(0, [0.0; 8]);
    slot.put_to::<1>(0, [0.0; 8]);
    slot.put_to::<2>(0, [0.0; 8]);
    slot.commit();
}

fn main() {}
