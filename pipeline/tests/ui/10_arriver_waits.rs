//! The end that arrives waits.
mod support;
use support::*;

use pipeline::barrier::MainLoopLoads;

fn main_loop(mut order: MainLoopLoads<Order>) {
    order.wait_and_step();
}

fn main() {}
