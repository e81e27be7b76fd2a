//! A second arrival while the first is not stepped.
mod support;
use support::*;

use warpipe_pipeline::barrier::MainLoopLoads;

fn main_loop(order: &mut MainLoopLoads<Order>) {
    let first = order.arrive();
    let second = order.arrive();
    first.step();
    second.step();
}

fn main() {}
