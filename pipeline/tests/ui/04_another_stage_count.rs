//! The end of a ring of three slots where one of two is meant.
mod support;
use support::*;

fn fill(loads: Loads<Main, 2>) {
    loads.tail();
}
fn pass(loads: Loads<Main, 3>) {
    fill(loads);
}

fn main() {}
