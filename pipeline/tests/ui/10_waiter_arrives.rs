//! The end that waits arrives.
mod support;
use support::*;

use warpipe_pipeline::barrier::EpilogueLoads;

fn epilogue(mut order: EpilogueLoads<Order>) {
    order.arrive_and_step();
}

fn main() {}
