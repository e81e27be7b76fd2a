//! A peer of the cluster reached through a barrier of the CTA.

use warpipe_pipeline::raw::{Arrivals, Cta, MBarrier};
fn hand_over(barrier: &MBarrier<Cta, Arrivals>) {
    barrier.remote(1).arrive();
}

fn main() {}
