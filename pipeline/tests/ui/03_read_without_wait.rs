//! A panel read without waiting for it.
mod support;
use support::*;

fn drain(arrived: &mut Arrived, group: &Group) -> [f32; 8] {
    arrived.fragment(group, 0)
}

fn main() {}
