//! A panel read after its slot is given back.
mod support;
use support::*;

fn drain(arrived: &mut Arrived, group: &Group) -> [f32; 8] {
    let slot = arrived.wait();
    slot.release();
    slot.fragment(group, 0)
}

fn main() {}
