//! Tokens dropped where they should be loaded, released, finished or stored.
#![deny(unused_must_use)]
mod support;
use support::*;

fn fill(loads: &mut Loads) {
    loads.acquire();
}
fn drain(arrived: &mut Arrived) {
    arrived.wait();
}
fn multiply(group: &Group, first: MmaSlot, second: MmaSlot) {
    let mut sum = Accumulator::<64>::start(group, first);
    sum.next(second);
    sum.finish().1.release();
}
fn start(group: &Group, slot: MmaSlot) {
    Accumulator::<64>::start(group, slot);
}
fn write(stores: &mut Out) {
    stores.acquire().publish();
}

fn main() {}
