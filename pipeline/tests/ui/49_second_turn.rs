//! A second turn before the first one is passed on.
mod support;
use support::*;

fn issue(turns: &mut NamedTurns<'_, Pair, Order, Alone>) {
    let first = turns.wait();
    let second = turns.wait();
    first.pass_on();
    second.pass_on();
}

fn main() {}
