//! A slot released twice.
mod support;
use support::*;

fn drain(arrived: &mut Arrived) {
    let slot = arrived.wait();
    slot.release();
    slot.release();
}

fn main() {}
