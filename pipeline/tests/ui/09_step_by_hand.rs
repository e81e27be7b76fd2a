//! A step besides the one that waiting takes.
mod support;
use support::*;

fn drain(arrived: &mut Arrived) {
    arrived.wait().release();
    arrived.advance();
}

fn main() {}
