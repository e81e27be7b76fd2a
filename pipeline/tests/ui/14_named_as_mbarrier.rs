//! A named barrier used with an mbarrier's phase.
mod support;
use support::*;

use warpipe_pipeline::barrier::Waiter;
fn meet(barrier: &Waiter<Load, Work, Meet>, phase: u32) {
    barrier.wait(phase);
}

fn main() {}
