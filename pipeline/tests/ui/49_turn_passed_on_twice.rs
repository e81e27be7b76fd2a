//! A turn that is passed on twice.
mod support;
use support::*;

fn issue(turns: &mut NamedTurns<'_, Pair, Order, Alone>) {
    let turn = turns.wait();
    turn.pass_on();
    turn.pass_on();
}

fn main() {}
