//! The end that arrives waits.
mod support;
use support::*;

use warpipe_pipeline::barrier::MainLoopLoads;

fn main_loop(mut order: MainLoopLoads<Order>) {
    order.wait_and_step();
}

fn main() {}
