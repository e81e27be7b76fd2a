//! A turn that is taken and not passed on.
#![deny(unused_must_use)]
mod support;
use support::*;

fn issue(turns: &mut NamedTurns<'_, Pair, Order, Alone>) {
    turns.wait();
}

fn main() {}
