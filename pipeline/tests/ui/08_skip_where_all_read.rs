//! A warp group that skips slots which every group must release.
mod support;
use support::*;

fn drain(arrived: &mut Consumer<2, Operands, Mma<Work>, Main, Alone>) {
    arrived.skip(1);
}

fn main() {}
