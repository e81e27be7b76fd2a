//! Turns of one role, taken by another.
mod support;
use support::*;

fn take(end: NamedSequenceEnd<Pair, Order>, load: &Warpgroup<Load, Alone>) {
    let _turns = end.by(load);
}

fn main() {}
