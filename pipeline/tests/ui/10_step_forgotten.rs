//! An arrival and a wait without their step.
#![deny(unused_must_use)]
mod support;
use support::*;

use warpipe_pipeline::barrier::{EpilogueLoads, MainLoopLoads};

fn main_loop(order: &mut MainLoopLoads<Order>) {
    order.arrive();
}
fn epilogue(order: &mut EpilogueLoads<Order>) {
    order.wait();
}

fn main() {}
