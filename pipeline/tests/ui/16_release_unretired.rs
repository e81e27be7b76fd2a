//! A slot of operands released without a wait for the wgmma that reads it.
mod support;
use support::*;

fn skip(slot: MmaSlot) {
    slot.release();
}

fn main() {}
