//! A producer that waits for a full slot.
mod support;
use support::*;

fn fill(loads: &mut Loads) {
    loads.wait().release();
}

fn main() {}
